//! A frozen matrix in quantized blocks, and how parts of it become numbers again.

use std::{ops::Range, sync::Arc};

use candle_core::{DType, Tensor, quantized::QTensor};

use super::nf4::Nf4;
use crate::{Error, Result};

/// The most numbers of a quantized weight that are there at once: 64 MiB.
pub const PART_ELEMENTS: usize = 1 << 24;

/// A matrix [o, i] in quantized blocks. Cheap to clone: clones share them.
#[derive(Debug, Clone)]
pub struct Quantized {
    blocks: Blocks,
    /// Rows of the matrix that are widened at once.
    part_rows: usize,
}

/// The blocks, as whoever made them arranged them.
#[derive(Debug, Clone)]
pub enum Blocks {
    /// Those of ggml.
    Ggml {
        /// As a file of llama.cpp has them.
        blocks: Arc<QTensor>,
        /// The numbers of all rows, [o]: looking rows up is what widens them on every device. They lie there, so that a pass needs
        /// nothing of the host and can be recorded.
        row_numbers: Tensor,
    },
    /// NF4.
    Nf4(Arc<Nf4>),
}

impl TryFrom<QTensor> for Blocks {
    type Error = Error;

    fn try_from(blocks: QTensor) -> Result<Self> {
        let &[rows, _] = blocks.shape().dims() else {
            let problem = format!("quantized weights of shape {:?}", blocks.shape());
            return Err(Error::Data(format!("{problem} are no matrix")));
        };
        Ok(Self::Ggml {
            row_numbers: Tensor::arange(0, rows as u32, &blocks.device())?,
            blocks: Arc::new(blocks),
        })
    }
}

impl TryFrom<Nf4> for Blocks {
    type Error = Error;

    fn try_from(blocks: Nf4) -> Result<Self> {
        Ok(Self::Nf4(Arc::new(blocks)))
    }
}

impl Quantized {
    /// Errors: [`Error::Data`] when it is no matrix.
    pub fn new(blocks: impl TryInto<Blocks, Error = Error>) -> Result<Self> {
        let blocks = blocks.try_into()?;
        let (_, width) = blocks.dims2()?;
        Ok(Self {
            blocks,
            part_rows: (PART_ELEMENTS / width.max(1)).max(1),
        })
    }

    /// o and i.
    pub fn dims2(&self) -> Result<(usize, usize)> {
        self.blocks.dims2()
    }

    /// The blocks, where they are ggml's.
    pub(crate) fn ggml(&self) -> Option<&QTensor> {
        match &self.blocks {
            Blocks::Ggml { blocks, .. } => Some(blocks),
            Blocks::Nf4(_) => None,
        }
    }

    /// Bytes of the blocks.
    pub fn bytes(&self) -> usize {
        match &self.blocks {
            Blocks::Ggml { blocks, .. } => blocks.storage_size_in_bytes(),
            Blocks::Nf4(blocks) => blocks.bytes(),
        }
    }

    /// What some of its rows stand for, in f32: [rows, i].
    pub fn widen(&self, rows: Range<usize>) -> Result<Tensor> {
        self.widen_to(rows, DType::F32)
    }

    /// The same in a dtype that is computed in.
    fn widen_to(&self, rows: Range<usize>, dtype: DType) -> Result<Tensor> {
        match &self.blocks {
            Blocks::Nf4(blocks) => blocks.widen(rows, dtype),
            Blocks::Ggml {
                blocks,
                row_numbers,
            } => {
                let rows = row_numbers.narrow(0, rows.start, rows.len())?;
                Ok(blocks.embedding(&rows)?.to_dtype(dtype)?)
            }
        }
    }

    /// Whether all of its numbers are.
    pub fn is_finite(&self) -> Result<bool> {
        for part in self.parts(DType::F32)? {
            let (_, numbers) = part?;
            if !numbers.sum_all()?.to_scalar::<f32>()?.is_finite() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Its rows, in parts, each with its numbers [rows, i] in a dtype that is computed in.
    pub(crate) fn parts(
        &self,
        dtype: DType,
    ) -> Result<impl Iterator<Item = Result<(Range<usize>, Tensor)>> + '_> {
        let (rows, _) = self.dims2()?;
        let starts = (0..rows).step_by(self.part_rows);
        Ok(starts.map(move |start| {
            let part = start..(start + self.part_rows).min(rows);
            let numbers = self.widen_to(part.clone(), dtype)?;
            Ok((part, numbers))
        }))
    }

    /// The same, of which so many rows are widened at once.
    #[cfg(test)]
    pub(super) fn in_parts_of(self, part_rows: usize) -> Self {
        Self { part_rows, ..self }
    }
}

impl Blocks {
    fn dims2(&self) -> Result<(usize, usize)> {
        match self {
            Self::Ggml { blocks, .. } => Ok(blocks.shape().dims2()?),
            Self::Nf4(blocks) => Ok(blocks.dims2()),
        }
    }
}
