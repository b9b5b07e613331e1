//! A frozen matrix in quantized blocks, and how parts of it become numbers again.

use std::{ops::Range, sync::Arc};

use candle_core::{Tensor, quantized::QTensor};

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
    Ggml(Arc<QTensor>),
    /// NF4.
    Nf4(Arc<Nf4>),
}

impl From<QTensor> for Blocks {
    fn from(blocks: QTensor) -> Self {
        Self::Ggml(Arc::new(blocks))
    }
}

impl From<Nf4> for Blocks {
    fn from(blocks: Nf4) -> Self {
        Self::Nf4(Arc::new(blocks))
    }
}

impl Quantized {
    /// Errors: [`Error::Data`] when it is no matrix.
    pub fn new(blocks: impl Into<Blocks>) -> Result<Self> {
        let blocks = blocks.into();
        if let Blocks::Ggml(blocks) = &blocks
            && blocks.shape().rank() != 2
        {
            let problem = format!("quantized weights of shape {:?}", blocks.shape());
            return Err(Error::Data(format!("{problem} are no matrix")));
        }
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

    /// Bytes of the blocks.
    pub fn bytes(&self) -> usize {
        match &self.blocks {
            Blocks::Ggml(blocks) => blocks.storage_size_in_bytes(),
            Blocks::Nf4(blocks) => blocks.bytes(),
        }
    }

    /// Whether its rows are widened by numbers that the host makes.
    pub(crate) fn is_widened_by_host_numbers(&self) -> bool {
        matches!(self.blocks, Blocks::Ggml(_))
    }

    /// What some of its rows stand for, in f32: [rows, i].
    pub fn widen(&self, rows: Range<usize>) -> Result<Tensor> {
        match &self.blocks {
            Blocks::Nf4(blocks) => blocks.widen(rows),
            Blocks::Ggml(blocks) => {
                // Looking rows up is what widens them on every device without a way through the host.
                let device = blocks.device();
                let numbers = Tensor::arange(rows.start as u32, rows.end as u32, &device)?;
                Ok(blocks.embedding(&numbers)?)
            }
        }
    }

    /// Whether all of its numbers are.
    pub fn is_finite(&self) -> Result<bool> {
        for part in self.parts()? {
            let (_, numbers) = part?;
            if !numbers.sum_all()?.to_scalar::<f32>()?.is_finite() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Its rows, in parts, each with its numbers [rows, i] in f32.
    pub(crate) fn parts(
        &self,
    ) -> Result<impl Iterator<Item = Result<(Range<usize>, Tensor)>> + '_> {
        let (rows, _) = self.dims2()?;
        let starts = (0..rows).step_by(self.part_rows);
        Ok(starts.map(move |start| {
            let part = start..(start + self.part_rows).min(rows);
            let numbers = self.widen(part.clone())?;
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
            Self::Ggml(blocks) => Ok(blocks.shape().dims2()?),
            Self::Nf4(blocks) => Ok(blocks.dims2()),
        }
    }
}
