//! The weights of a GGUF file, by their names in a checkpoint.

use std::{borrow::Cow, collections::BTreeSet, ops::Range, sync::Arc};

use candle_core::{
    DType, Device, Tensor,
    quantized::{QStorage, QTensor},
};

use super::names::{Difference, Family, swap_halves};
use crate::{
    Error, Result,
    arch::{WeightRequest, Weights, config::DecoderConfig},
    checkpoint::load::check_none_left,
    gguf::{Gguf, Stored, TensorType},
    ops::weight::Quantized,
};

/// Tensors that follow from the configuration, in which they were read.
const OF_CONFIG: [&str; 3] = [
    "rope_freqs.weight",
    "rope_factors_long.weight",
    "rope_factors_short.weight",
];

/// A file, from which tensors are taken one by one.
pub struct GgufWeights {
    file: Arc<Gguf>,
    family: &'static Family,
    head_dim: usize,
    /// Whether matrices in quantized blocks stay so.
    keeps_blocks: bool,
    dtype: DType,
    device: Device,
    taken: BTreeSet<String>,
}

impl GgufWeights {
    /// The weights of a file for the decoder that it describes. What is no quantized block is kept in `dtype`; neither are they,
    /// unless `keeps_blocks`.
    pub fn new(
        file: Arc<Gguf>,
        config: &DecoderConfig,
        keeps_blocks: bool,
        dtype: DType,
        device: &Device,
    ) -> Result<Self> {
        let family = super::config::family(&file)?;
        Ok(Self {
            file,
            family,
            head_dim: config.head_dim,
            keeps_blocks,
            dtype,
            device: device.clone(),
            taken: BTreeSet::new(),
        })
    }

    /// An error that names a tensor of which the model that was built knows nothing, if there is one.
    pub fn check_all_taken(&self) -> Result<()> {
        let names = self.file.tensors.keys();
        let left =
            names.filter(|it| !self.taken.contains(*it) && !OF_CONFIG.contains(&it.as_str()));
        let architecture = &self.family.architecture;
        let problem =
            format!("is in the file, and not in a model of the architecture `{architecture}`");
        check_none_left(&left.collect::<Vec<_>>(), &problem, &self.file.path)
    }

    /// What was asked for, as it lies in the file.
    fn find(&mut self, request: &WeightRequest) -> Result<Stored> {
        let missing = || {
            let problem = format!("`{}` is not in the file", request.name);
            Error::format(&self.file.path, problem)
        };
        let name = self.family.name(request.name).ok_or_else(missing)?;
        let stored = self.file.tensors.get(&name).ok_or_else(missing)?;
        if stored.shape != request.shape {
            let (found, expected) = (&stored.shape, request.shape);
            let problem = format!("`{name}` is {found:?}, and its keys say {expected:?}");
            return Err(Error::format(&self.file.path, problem));
        }
        if stored.shape.len() == 1 && stored.of.is_quantized() {
            let problem = format!(
                "`{name}` is a list of numbers as {}, and blocks are read of matrices",
                stored.of.name()
            );
            return Err(Error::format(&self.file.path, problem));
        }
        let stored = stored.clone();
        self.taken.insert(name);
        Ok(stored)
    }

    /// Some rows of a weight in f32, on the CPU. Of weights whose rows stand in another order here they are whole heads.
    pub fn rows(&mut self, request: &WeightRequest, rows: Range<usize>) -> Result<Tensor> {
        let stored = self.find(request)?;
        let all = self.file.bytes(&stored);
        let row_bytes = all.len() / stored.shape.first().copied().unwrap_or(1).max(1);
        let bytes = rows.start * row_bytes..rows.end * row_bytes;
        let bytes = all.get(bytes).unwrap_or_default();
        let mut part = stored.clone();
        if let Some(first) = part.shape.first_mut() {
            *first = rows.len();
        }
        let bytes = self.ordered(request, &part, bytes)?;
        Ok(self.numbers(request, &part, bytes)?.to_dtype(DType::F32)?)
    }

    /// Its bytes, with rows as a checkpoint has them.
    fn bytes(&self, request: &WeightRequest, stored: &Stored) -> Result<Cow<'_, [u8]>> {
        self.ordered(request, stored, self.file.bytes(stored))
    }

    fn ordered<'a>(
        &self,
        request: &WeightRequest,
        stored: &Stored,
        bytes: &'a [u8],
    ) -> Result<Cow<'a, [u8]>> {
        let name = self.family.name(request.name).unwrap_or_default();
        self.file.check_finite(&name, stored.of, bytes)?;
        if self.family.difference(request.name) != Difference::HalvesOfHeads {
            return Ok(Cow::Borrowed(bytes));
        }
        let rows = stored.shape.first().copied().unwrap_or(1).max(1);
        swap_halves(bytes, bytes.len() / rows, self.head_dim, false).map(Cow::Owned)
    }
}

impl GgufWeights {
    /// What the bytes of a weight stand for, on the CPU, in the dtype that they have.
    fn numbers(
        &self,
        request: &WeightRequest,
        stored: &Stored,
        bytes: Cow<[u8]>,
    ) -> Result<Tensor> {
        let own = match stored.of {
            TensorType::F32 => Some(DType::F32),
            TensorType::F16 => Some(DType::F16),
            TensorType::BF16 => Some(DType::BF16),
            _ => None,
        };
        let on_host = match own {
            Some(dtype) => Tensor::from_raw_buffer(&bytes, dtype, &stored.shape, &Device::Cpu)?,
            None => blocks(stored, bytes, &Device::Cpu)?.dequantize(&Device::Cpu)?,
        };
        Ok(match self.family.difference(request.name) {
            Difference::Offset => (on_host.to_dtype(DType::F32)? - self.family.norm_offset)?,
            _ => on_host,
        })
    }
}

impl Weights for GgufWeights {
    fn tensor(&mut self, request: &WeightRequest) -> Result<Tensor> {
        let stored = self.find(request)?;
        let bytes = self.bytes(request, &stored)?;
        if stored.of.is_quantized() && self.device.is_cuda() {
            // Blocks are a fraction of what they stand for, and become it there in no time.
            let blocks = blocks(&stored, bytes, &self.device)?;
            return Ok(blocks.dequantize(&self.device)?.to_dtype(self.dtype)?);
        }
        let plain = self.numbers(request, &stored, bytes)?;
        Ok(plain.to_dtype(self.dtype)?.to_device(&self.device)?)
    }

    fn quantized(&mut self, request: &WeightRequest) -> Result<Option<Quantized>> {
        if !self.keeps_blocks {
            return Ok(None);
        }
        let stored = self.find(request)?;
        if !stored.of.is_quantized() {
            return Ok(None);
        }
        let blocks = blocks(&stored, self.bytes(request, &stored)?, &self.device)?;
        Quantized::new(blocks).map(Some)
    }

    fn table_in_blocks(&mut self, request: &WeightRequest) -> Result<Option<Quantized>> {
        match self.device.is_cpu() {
            true => self.quantized(request),
            false => Ok(None),
        }
    }
}

/// The bytes of a tensor as the library multiplies with them, or makes numbers of them.
pub(super) fn blocks(stored: &Stored, bytes: Cow<[u8]>, device: &Device) -> Result<QTensor> {
    let storage = QStorage::from_data(bytes, device, stored.of.of_candle())?;
    Ok(QTensor::new(storage, stored.shape.as_slice())?)
}
