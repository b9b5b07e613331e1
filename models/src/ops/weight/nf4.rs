//! Weights in NF4: 4 bits a number, and a scale for each block of 64 (Dettmers et al., "QLoRA", 2023,
//! <https://arxiv.org/abs/2305.14314>).
//!
//! The matrix [o, i] is one long list, row after row, cut into blocks that may cross rows. A number is the value of its code times the
//! scale of its block: two codes a byte, the first in the upper half. Scales can be in codes of 8 bits themselves ("double
//! quantization"), with one f32 for 256 of them and what all have in common.
//!
//! On a processor a loop widens the codes, on a GPU a kernel; where that is avoided, the table is looked up by candle.

use std::ops::Range;

use candle_core::{DType, Device, Tensor};
use rayon::prelude::*;

#[cfg(feature = "cuda")]
use crate::ops::kernels::cuda;
use crate::{
    Error, Result,
    ops::{
        codebook,
        kernels::{
            codes::{CodedScales, Codes, Nested},
            cpu::Numbers,
            metal,
        },
    },
};

/// Numbers of a block, where it is made here.
const BLOCK: usize = 64;
/// Scales that share one f32.
const SCALES: usize = 256;
/// What stands for 0 as a divisor.
const MIN_DIVISOR: f32 = 1e-38;
/// What kernels read codes in: words of so many bytes.
const WORD: usize = 4;
/// Blocks that one task widens.
const BLOCKS_OF_TASK: usize = 256;

/// A matrix in NF4.
#[derive(Debug, Clone)]
pub struct Nf4 {
    shape: [usize; 2],
    block: usize,
    /// Two codes a byte, of whole blocks and words: what lies behind the last number is 0.
    codes: Tensor,
    scales: Scales,
    /// The two numbers of each byte [256, 2].
    pairs: Tensor,
}

/// The scale of each block.
#[derive(Debug, Clone)]
enum Scales {
    Plain(Tensor),
    Nested {
        /// Of whole groups and words: what lies behind the last is 0.
        codes: Tensor,
        /// Codes that share a number of `largest`.
        group: usize,
        largest: Tensor,
        offset: f64,
        /// What each code stands for [256].
        values: Tensor,
    },
}

/// A matrix in NF4 as it is stored, on the host.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredNf4 {
    /// o and i.
    pub shape: [usize; 2],
    /// Numbers of a block.
    pub block: usize,
    /// Two codes a byte, the first in the upper half.
    pub codes: Vec<u8>,
    /// What each code stands for.
    pub values: [f32; 16],
    /// The scale of each block.
    pub scales: StoredScales,
}

/// The scales of blocks as they are stored.
#[derive(Debug, Clone, PartialEq)]
pub enum StoredScales {
    /// One f32 each.
    Plain(Vec<f32>),
    /// A code of 8 bits each: value · the largest of its group + offset.
    Nested {
        /// One for each block, an index into `values`.
        codes: Vec<u8>,
        /// Codes of a group.
        group: usize,
        /// Of each group.
        largest: Vec<f32>,
        /// What all scales have in common.
        offset: f32,
        /// What each code stands for: 256 numbers.
        values: Vec<f32>,
    },
}

/// Puts a matrix into NF4, part by part.
pub struct MakeNf4 {
    shape: [usize; 2],
    codes: Vec<u8>,
    scales: Vec<f32>,
}

impl MakeNf4 {
    /// Of a matrix [o, i].
    pub fn new(shape: [usize; 2]) -> Self {
        let count = shape[0] * shape[1];
        Self {
            shape,
            codes: Vec::with_capacity(count.div_ceil(2)),
            scales: Vec::with_capacity(count.div_ceil(BLOCK)),
        }
    }

    /// How many rows a part has that is whole blocks, whatever the width: parts but the last have a multiple of it.
    pub const ROWS: usize = BLOCK;

    /// The next rows.
    pub fn push(&mut self, numbers: &[f32]) {
        let blocks = numbers.len().div_ceil(BLOCK);
        let (first_byte, first_scale) = (self.codes.len(), self.scales.len());
        self.codes.resize(first_byte + blocks * BLOCK / 2, 0);
        self.scales.resize(first_scale + blocks, 0.0);
        let codes = self.codes[first_byte..].par_chunks_mut(BLOCK / 2);
        let scales = self.scales[first_scale..].par_iter_mut();
        let each = codes.zip(scales).zip(numbers.par_chunks(BLOCK));
        each.with_min_len(BLOCKS_OF_TASK)
            .for_each(|((codes, scale), numbers)| *scale = block(numbers, codes));
    }

    /// The matrix, with its scales in codes of 8 bits.
    pub fn nested(self) -> StoredNf4 {
        let codes = codebook::signed();
        let sum: f64 = self.scales.iter().map(|&it| f64::from(it)).sum();
        let offset = (sum / self.scales.len().max(1) as f64) as f32;
        let mut nested = Vec::with_capacity(self.scales.len());
        let mut largest = Vec::with_capacity(self.scales.len().div_ceil(SCALES));
        for group in self.scales.chunks(SCALES) {
            let group: Vec<f32> = group.iter().map(|it| it - offset).collect();
            let most = group.iter().fold(0.0, |most: f32, it| most.max(it.abs()));
            let inverse = 1.0 / most.max(MIN_DIVISOR);
            nested.extend(
                group
                    .iter()
                    .map(|it| codes.nearest((it * inverse).clamp(-1.0, 1.0))),
            );
            largest.push(most);
        }
        let scales = StoredScales::Nested {
            codes: nested,
            group: SCALES,
            largest,
            offset,
            values: codes.values.to_vec(),
        };
        self.with(scales)
    }

    /// The matrix, with each scale in f32.
    pub fn plain(mut self) -> StoredNf4 {
        let scales = StoredScales::Plain(std::mem::take(&mut self.scales));
        self.with(scales)
    }

    fn with(mut self, scales: StoredScales) -> StoredNf4 {
        self.codes
            .truncate((self.shape[0] * self.shape[1]).div_ceil(2));
        StoredNf4 {
            shape: self.shape,
            block: BLOCK,
            codes: self.codes,
            values: codebook::NF4,
            scales,
        }
    }
}

/// The codes of a block, and its scale.
fn block(numbers: &[f32], packed: &mut [u8]) -> f32 {
    let largest = numbers.iter().fold(0.0, |most: f32, it| most.max(it.abs()));
    let mut scaled = [0.0; BLOCK];
    for (to, number) in scaled.iter_mut().zip(numbers) {
        // What is short is divided, as in the program that this format comes from.
        *to = match numbers.len() {
            BLOCK => number * (1.0 / largest.max(MIN_DIVISOR)),
            _ => number / largest.max(MIN_DIVISOR),
        };
    }
    let mut codes = [0; BLOCK];
    codebook::nf4().nearest_of(&scaled, &mut codes);
    for (to, pair) in packed.iter_mut().zip(codes.as_chunks::<2>().0) {
        *to = pair[0] << 4 | pair[1];
    }
    largest
}

impl StoredNf4 {
    /// The matrix on a device, ready for products.
    ///
    /// Errors: [`Error::Data`] where there are too few codes or scales.
    pub fn on(self, device: &Device) -> Result<Nf4> {
        let count = self.shape[0] * self.shape[1];
        let blocks = count.div_ceil(self.block.max(1));
        let mut codes = self.codes;
        if self.block == 0 || !self.block.is_multiple_of(2) || codes.len() < count.div_ceil(2) {
            return Err(few("codes", codes.len(), self.shape));
        }
        codes.resize((blocks * self.block / 2).next_multiple_of(WORD), 0);
        let bytes = codes.len();
        let scales = match self.scales {
            StoredScales::Plain(scales) if scales.len() >= blocks => {
                let count = scales.len();
                Scales::Plain(Tensor::from_vec(scales, count, device)?)
            }
            StoredScales::Nested {
                mut codes,
                group,
                largest,
                offset,
                values,
            } if codes.len() >= blocks
                && group > 0
                && largest.len() >= blocks.div_ceil(group)
                && values.len() == 256 =>
            {
                let groups = largest.len();
                let count = (groups * group).next_multiple_of(WORD);
                codes.resize(count, 0);
                Scales::Nested {
                    codes: Tensor::from_vec(codes, count, device)?,
                    group,
                    largest: Tensor::from_vec(largest, (groups, 1), device)?,
                    offset: offset.into(),
                    values: Tensor::from_vec(values, 256, device)?,
                }
            }
            StoredScales::Plain(scales) => return Err(few("scales", scales.len(), self.shape)),
            StoredScales::Nested { codes, .. } => {
                return Err(few("scales", codes.len(), self.shape));
            }
        };
        let pairs = (0..=255u8).flat_map(|byte| [byte >> 4, byte & 15]);
        let pairs = pairs.map(|code| self.values[usize::from(code)]).collect();
        Ok(Nf4 {
            shape: self.shape,
            block: self.block,
            codes: Tensor::from_vec(codes, bytes, device)?,
            scales,
            pairs: Tensor::from_vec::<_, f32>(pairs, (256, 2), device)?,
        })
    }
}

fn few(what: &str, count: usize, [outputs, inputs]: [usize; 2]) -> Error {
    Error::Data(format!(
        "{count} {what} of NF4 are too few for a matrix of {outputs} x {inputs}"
    ))
}

impl Nf4 {
    /// o and i.
    pub fn dims2(&self) -> (usize, usize) {
        (self.shape[0], self.shape[1])
    }

    /// Bytes of codes, scales and tables.
    pub fn bytes(&self) -> usize {
        let of = |tensors: &[&Tensor]| -> usize {
            let bytes = |it: &&Tensor| it.elem_count() * it.dtype().size_in_bytes();
            tensors.iter().map(bytes).sum()
        };
        of(&[&self.codes, &self.pairs])
            + match &self.scales {
                Scales::Plain(scales) => of(&[scales]),
                Scales::Nested {
                    codes,
                    largest,
                    values,
                    ..
                } => of(&[codes, largest, values]),
            }
    }

    /// Where it is.
    pub fn device(&self) -> &Device {
        self.codes.device()
    }

    /// What some rows stand for in a dtype that is computed in: [rows, i].
    pub fn widen(&self, rows: Range<usize>, dtype: DType) -> Result<Tensor> {
        let shape = (rows.len(), self.shape[1]);
        let first = rows.start * shape.1;
        if metal::codes::serves(self.device(), dtype) {
            return metal::codes::widen(&self.as_codes(), first, shape, dtype);
        }
        #[cfg(feature = "cuda")]
        if cuda::codes::serves(self.device(), dtype) {
            return cuda::codes::widen(&self.as_codes(), first, shape, dtype);
        }
        Ok(self.widen_to_f32(rows)?.to_dtype(dtype)?)
    }

    fn as_codes(&self) -> Codes<'_> {
        let scales = match &self.scales {
            Scales::Plain(scales) => CodedScales {
                largest: scales,
                nested: None,
            },
            Scales::Nested {
                codes,
                group,
                largest,
                offset,
                values,
            } => CodedScales {
                largest,
                nested: Some(Nested {
                    codes,
                    values,
                    group: *group,
                    offset: *offset,
                }),
            },
        };
        Codes {
            codes: &self.codes,
            pairs: &self.pairs,
            block: self.block,
            scales,
        }
    }

    fn widen_to_f32(&self, rows: Range<usize>) -> Result<Tensor> {
        let width = self.shape[1];
        let numbers = rows.start * width..rows.end * width;
        match self.device() {
            Device::Cpu => {
                let mut wide = vec![0.0; numbers.len()];
                self.widen_on_processor(numbers, &mut wide)?;
                Ok(Tensor::from_vec(wide, (rows.len(), width), &Device::Cpu)?)
            }
            _ => {
                let blocks = numbers.start / self.block..numbers.end.div_ceil(self.block);
                let half = self.block / 2;
                let codes = self
                    .codes
                    .narrow(0, blocks.start * half, blocks.len() * half)?;
                // Among bytes, 255 would stand for no row of the table.
                let wide = self.pairs.index_select(&codes.to_dtype(DType::U32)?, 0)?;
                let wide = wide.reshape((blocks.len(), self.block))?;
                let scales = self.scales()?.narrow(0, blocks.start, blocks.len())?;
                let wide = wide.broadcast_mul(&scales.reshape((blocks.len(), 1))?)?;
                let first = numbers.start - blocks.start * self.block;
                let wide = wide.flatten_all()?.narrow(0, first, numbers.len())?;
                Ok(wide.reshape((rows.len(), width))?)
            }
        }
    }

    /// The scales of all blocks, at least: [blocks].
    fn scales(&self) -> Result<Tensor> {
        Ok(match &self.scales {
            Scales::Plain(scales) => scales.clone(),
            Scales::Nested {
                codes,
                group,
                largest,
                offset,
                values,
            } => {
                let groups = largest.dim(0)?;
                let codes = codes.narrow(0, 0, groups * group)?.to_dtype(DType::U32)?;
                let scales = values.index_select(&codes, 0)?;
                let scales = scales.reshape((groups, *group))?;
                (scales.broadcast_mul(largest)?.flatten_all()? + *offset)?
            }
        })
    }

    fn widen_on_processor(&self, numbers: Range<usize>, wide: &mut [f32]) -> Result<()> {
        let scales = self.scales()?;
        let scales = Numbers::<f32>::of(&scales)?;
        let codes = Numbers::<u8>::of(&self.codes)?;
        let pairs = Numbers::<f32>::of(&self.pairs)?;
        let (pairs, _) = pairs.as_chunks::<2>();
        let block = self.block;
        // From the start of a block on, each task has whole blocks; the first ends where one ends.
        let to_next = (block - numbers.start % block) % block;
        let (first, rest) = wide.split_at_mut(to_next.min(wide.len()));
        let widen = |start: usize, to: &mut [f32]| {
            for (at, to) in to.chunks_mut(block).enumerate() {
                let start = start + at * block;
                let scale = scales[start / block];
                widen_pairs(&codes[start / 2..], pairs, scale, start % 2, to);
            }
        };
        widen(numbers.start, first);
        let start = numbers.start + to_next;
        let task = BLOCKS_OF_TASK * block;
        let tasks = rest.par_chunks_mut(task).enumerate();
        tasks.for_each(|(at, to)| widen(start + at * task, to));
        Ok(())
    }
}

/// The numbers of some codes, from the first or the second of the first byte on.
fn widen_pairs(codes: &[u8], pairs: &[[f32; 2]], scale: f32, skipped: usize, to: &mut [f32]) {
    let (to, codes) = match skipped {
        0 => (to, codes),
        _ => {
            let Some((first, rest)) = to.split_first_mut() else {
                return;
            };
            *first = pairs[usize::from(codes[0])][1] * scale;
            (rest, &codes[1..])
        }
    };
    let (whole, last) = to.as_chunks_mut::<2>();
    for (to, code) in whole.iter_mut().zip(codes) {
        let pair = pairs[usize::from(*code)];
        *to = [pair[0] * scale, pair[1] * scale];
    }
    if let ([last], Some(code)) = (last, codes.get(whole.len())) {
        *last = pairs[usize::from(*code)][0] * scale;
    }
}
