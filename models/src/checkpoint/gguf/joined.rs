//! A file in which tensors that are apart are one tensor, as candle-transformers reads Phi 2: q, k and v below each other.

use std::{
    borrow::Cow,
    collections::HashMap,
    io::{Error as IoError, ErrorKind, Read, Result as IoResult, Seek, SeekFrom},
};

use candle_core::{DType, Device, quantized::gguf_file::TensorInfo};

use super::weights::blocks;
use crate::{
    Error, Result,
    gguf::{Gguf, Stored, TensorType},
};

/// What the one is called, and those that it is made of.
const JOINED: &str = "attn_qkv";
const APART: [&str; 3] = ["attn_q", "attn_k", "attn_v"];

/// The bytes of a file, and of tensors that were made of its own after them.
pub(in crate::checkpoint) struct Joined<'a> {
    file: &'a [u8],
    made: Vec<u8>,
    at: u64,
    /// Where all tensors lie in it, by name.
    tensors: HashMap<String, TensorInfo>,
}

impl<'a> Joined<'a> {
    /// A file whose tensors have finite numbers, all of which are read.
    ///
    /// Errors: [`Error::Format`] with a tensor that is not finite.
    pub(in crate::checkpoint) fn of(file: &'a Gguf) -> Result<Self> {
        let mut joined = Self {
            file: file.whole_file(),
            made: Vec::new(),
            at: 0,
            tensors: HashMap::new(),
        };
        for (name, stored) in &file.tensors {
            file.check_finite(name, stored.of, file.bytes(stored))?;
            let place = stored.start() as u64;
            joined.put(name.clone(), stored.of, &stored.shape, place);
        }
        let is_phi = file.text("general.architecture")? == "phi2";
        let are_apart = |block: &usize| {
            let first = format!("blk.{block}.{}.weight", APART[0]);
            is_phi && file.tensors.contains_key(&first)
        };
        for block in (0..).take_while(are_apart) {
            for kind in ["weight", "bias"] {
                joined.join(file, block, kind)?;
            }
        }
        Ok(joined)
    }

    /// Where the tensors lie, which are not told again.
    pub(in crate::checkpoint) fn take_tensors(&mut self) -> HashMap<String, TensorInfo> {
        std::mem::take(&mut self.tensors)
    }

    fn put(&mut self, name: String, of: TensorType, shape: &[usize], offset: u64) {
        let info = TensorInfo {
            ggml_dtype: of.of_candle(),
            shape: shape.into(),
            offset,
        };
        self.tensors.insert(name, info);
    }

    /// Makes one tensor of three. Where they are of different types it is Q8_0, or f32 where its rows are no whole blocks.
    fn join(&mut self, file: &Gguf, block: usize, kind: &str) -> Result<()> {
        let names = APART.map(|part| format!("blk.{block}.{part}.{kind}"));
        let parts: Option<Vec<&Stored>> = names.iter().map(|it| file.tensors.get(it)).collect();
        let Some(parts) = parts else {
            return Err(Error::format(
                &file.path,
                format!("`{}` is not whole", names[0]),
            ));
        };
        let mut shape = parts[0].shape.clone();
        shape[0] *= APART.len();
        let mut of = parts[0].of;
        let bytes: Vec<Cow<[u8]>> = match parts.iter().all(|it| it.of == of) {
            true => parts
                .iter()
                .map(|it| Cow::Borrowed(file.bytes(it)))
                .collect(),
            false => {
                let numbers = parts.iter().map(|it| numbers(file, it));
                let numbers = numbers.collect::<Result<Vec<_>>>()?.concat();
                let rounded = TensorType::Q8_0.blocks(&numbers);
                let rounded = rounded.filter(|_| parts[0].rows().1.is_multiple_of(32));
                of = if rounded.is_some() {
                    TensorType::Q8_0
                } else {
                    TensorType::F32
                };
                let plain = || numbers.iter().flat_map(|it| it.to_le_bytes()).collect();
                vec![Cow::Owned(rounded.unwrap_or_else(plain))]
            }
        };
        let offset = (self.file.len() + self.made.len()) as u64;
        bytes.iter().for_each(|it| self.made.extend_from_slice(it));
        names
            .iter()
            .for_each(|name| drop(self.tensors.remove(name)));
        self.put(format!("blk.{block}.{JOINED}.{kind}"), of, &shape, offset);
        Ok(())
    }
}

/// What the bytes of a tensor stand for.
fn numbers(file: &Gguf, stored: &Stored) -> Result<Vec<f32>> {
    let blocks = blocks(stored, Cow::Borrowed(file.bytes(stored)), &Device::Cpu)?;
    let wide = blocks.dequantize(&Device::Cpu)?.to_dtype(DType::F32)?;
    Ok(wide.flatten_all()?.to_vec1()?)
}

impl Read for Joined<'_> {
    fn read(&mut self, to: &mut [u8]) -> IoResult<usize> {
        let at = usize::try_from(self.at).unwrap_or(usize::MAX);
        let rest = match self.file.get(at..) {
            Some(rest) if !rest.is_empty() => rest,
            _ => self
                .made
                .get(at.saturating_sub(self.file.len())..)
                .unwrap_or_default(),
        };
        let count = rest.len().min(to.len());
        to[..count].copy_from_slice(&rest[..count]);
        self.at += count as u64;
        Ok(count)
    }
}

impl Seek for Joined<'_> {
    fn seek(&mut self, to: SeekFrom) -> IoResult<u64> {
        let end = (self.file.len() + self.made.len()) as u64;
        let found = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => end.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = found.ok_or_else(|| IoError::from(ErrorKind::InvalidInput))?;
        Ok(self.at)
    }
}
