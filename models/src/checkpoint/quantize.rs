//! Frozen weights are put into blocks as they are read, so that the model needs a fraction of its memory (Dettmers et al., "QLoRA",
//! 2023, <https://arxiv.org/abs/2305.14314>).
//!
//! Only the matrices of the layers are: tables, heads and norms stay as they are, as with every program that does this. What is
//! learned beside such weights belongs to them, and not to the model as it was before.

use std::ops::Range;

use candle_core::{
    Device, Tensor,
    quantized::{QStorage, QTensor},
};
use serde::{Deserialize, Serialize};

use crate::{
    Error, Result,
    gguf::TensorType,
    ops::weight::{PART_ELEMENTS, Quantized, nf4::MakeNf4},
};

/// What frozen matrices are put into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantization {
    /// 4 bits by the quantiles of a normal distribution, with scales in 8 bits: 4.13 bits a number.
    Nf4,
    /// 4 bits in equal steps around 0: 4.5 bits a number.
    Q4_0,
    /// 8 bits: 8.5 bits a number.
    Q8_0,
}

impl Quantization {
    /// All, from the smallest.
    pub const ALL: [Self; 3] = [Self::Nf4, Self::Q4_0, Self::Q8_0];

    /// The name in a run file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nf4 => "nf4",
            Self::Q4_0 => "q4_0",
            Self::Q8_0 => "q8_0",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    /// Bytes of so many numbers, whose rows are whole blocks.
    pub fn bytes(self, count: u128) -> u128 {
        match self {
            // Codes, a byte for each 64 of them, and four for each 256 of those.
            Self::Nf4 => count.div_ceil(2) + count.div_ceil(64) + 4 * count.div_ceil(64 * 256),
            Self::Q4_0 => count.div_ceil(32) * 18,
            Self::Q8_0 => count.div_ceil(32) * 34,
        }
    }

    /// The type of ggml, if it is one.
    fn of_ggml(self) -> Option<TensorType> {
        match self {
            Self::Nf4 => None,
            Self::Q4_0 => Some(TensorType::Q4_0),
            Self::Q8_0 => Some(TensorType::Q8_0),
        }
    }

    /// Whether rows of this width can be put into it.
    pub fn holds(self, width: usize) -> bool {
        self.of_ggml()
            .is_none_or(|of| width.is_multiple_of(of.block()))
    }

    /// A matrix of this shape in blocks on a device. `rows` gives some of its rows in f32, and is asked for all of them in order.
    ///
    /// Errors: those of `rows`, and [`Error::Data`] where the width is none that it [`holds`](Self::holds).
    pub fn blocks(
        self,
        [outputs, width]: [usize; 2],
        device: &Device,
        mut rows: impl FnMut(Range<usize>) -> Result<Tensor>,
    ) -> Result<Quantized> {
        let part = (PART_ELEMENTS / width.max(1)).next_multiple_of(MakeNf4::ROWS);
        let mut each = |with: &mut dyn FnMut(&[f32]) -> Result<()>| {
            for start in (0..outputs).step_by(part) {
                let numbers = rows(start..(start + part).min(outputs))?;
                with(&numbers.flatten_all()?.to_vec1::<f32>()?)?;
            }
            Ok::<_, Error>(())
        };
        let Some(of) = self.of_ggml() else {
            let mut made = MakeNf4::new([outputs, width]);
            each(&mut |numbers| {
                made.push(numbers);
                Ok(())
            })?;
            return Quantized::new(made.nested().on(device)?);
        };
        let mut bytes = Vec::new();
        each(&mut |numbers| {
            let blocks = of.blocks(numbers).filter(|_| self.holds(width));
            let problem = || {
                let name = self.name();
                Error::Data(format!("rows of {width} numbers can’t be put into {name}"))
            };
            bytes.extend(blocks.ok_or_else(problem)?);
            Ok(())
        })?;
        let storage = QStorage::from_data(bytes.into(), device, of.of_candle())?;
        Quantized::new(QTensor::new(storage, (outputs, width))?)
    }
}
