//! The weight W [o, i] of a linear layer: numbers, or quantized blocks of them.
//!
//! Quantized blocks are frozen. Products widen them to f32 a part at a time, forward and backward, so that the whole is
//! never there at once, and give what the widened numbers give. Deliberately absent: candle's own product with such
//! blocks, which rounds x to 8 bits too; its gradient would be that of another function.

use std::{ops::Range, sync::Arc};

use candle_core::{DType, Tensor, quantized::QTensor};

use crate::{Error, Result, ops::elementwise::narrow, tape::Value};

/// The most numbers of a quantized weight that are there at once: 64 MiB.
const PART_ELEMENTS: usize = 1 << 24;

/// The weight of a linear layer in one pass.
#[derive(Clone)]
pub enum Weight {
    /// Numbers in any dtype, trainable or frozen.
    Dense(Value),
    /// Numbers with a copy in the dtype that products use.
    Converted(Converted),
    /// Frozen blocks.
    Quantized(Quantized),
}

/// A weight that was converted once to what is computed in, however often it is used. Its gradient is not: uses add up in the
/// weight's own dtype.
#[derive(Clone)]
pub struct Converted {
    weight: Value,
    numbers: Tensor,
}

impl Converted {
    /// The weight for products in `dtype`.
    pub fn new(weight: &Value, dtype: DType) -> Result<Self> {
        Ok(Self {
            weight: weight.clone(),
            numbers: weight.tensor().to_dtype(dtype)?,
        })
    }

    /// Some of its rows.
    pub fn rows(&self, start: usize, count: usize) -> Result<Self> {
        Ok(Self {
            weight: narrow(&self.weight, 0, start, count)?,
            numbers: self.numbers.narrow(0, start, count)?.contiguous()?,
        })
    }

    /// The same numbers, of which nobody wants a gradient.
    pub fn constant(&self) -> Self {
        Self {
            weight: Value::constant(self.weight.tensor().clone()),
            numbers: self.numbers.clone(),
        }
    }

    /// The weight itself, for its gradient.
    pub(crate) fn value(&self) -> &Value {
        &self.weight
    }

    /// What products use.
    pub(crate) fn numbers(&self) -> &Tensor {
        &self.numbers
    }
}

/// A matrix [o, i] in quantized blocks. Cheap to clone: clones share them.
#[derive(Debug, Clone)]
pub struct Quantized {
    blocks: Arc<QTensor>,
    /// Rows of the matrix that are widened at once.
    part_rows: usize,
}

impl Quantized {
    /// Errors: [`Error::Data`] when it is no matrix.
    pub fn new(blocks: QTensor) -> Result<Self> {
        let &[_, width] = blocks.shape().dims() else {
            let problem = format!("quantized weights of shape {:?}", blocks.shape());
            return Err(Error::Data(format!("{problem} are no matrix")));
        };
        Ok(Self {
            blocks: Arc::new(blocks),
            part_rows: (PART_ELEMENTS / width.max(1)).max(1),
        })
    }

    /// o and i.
    pub fn dims2(&self) -> Result<(usize, usize)> {
        Ok(self.blocks.shape().dims2()?)
    }

    /// The blocks themselves.
    pub fn blocks(&self) -> &Arc<QTensor> {
        &self.blocks
    }

    /// Its rows, in parts, each with its numbers [rows, i] in f32.
    pub(crate) fn parts(
        &self,
    ) -> Result<impl Iterator<Item = Result<(Range<usize>, Tensor)>> + '_> {
        let (rows, _) = self.dims2()?;
        let starts = (0..rows).step_by(self.part_rows);
        Ok(starts.map(move |start| {
            let part = start..(start + self.part_rows).min(rows);
            // Looking rows up is what widens them on every device without a way through the host.
            let numbers =
                Tensor::arange(part.start as u32, part.end as u32, &self.blocks.device())?;
            Ok((part, self.blocks.embedding(&numbers)?))
        }))
    }
}

impl From<&Value> for Weight {
    fn from(weight: &Value) -> Self {
        Self::Dense(weight.clone())
    }
}

impl From<&Converted> for Weight {
    fn from(weight: &Converted) -> Self {
        Self::Converted(weight.clone())
    }
}

impl From<Quantized> for Weight {
    fn from(weight: Quantized) -> Self {
        Self::Quantized(weight)
    }
}

impl Weight {
    /// What products need of it: without a slot, so that a record may keep it.
    pub(crate) fn matrix(&self) -> Matrix {
        match self {
            Self::Dense(weight) => Matrix::Dense(weight.tensor().clone()),
            Self::Converted(weight) => Matrix::Dense(weight.numbers.clone()),
            Self::Quantized(weight) => Matrix::Quantized(weight.clone()),
        }
    }

    /// The value that can have a gradient.
    pub(crate) fn value(&self) -> Option<&Value> {
        match self {
            Self::Dense(weight) => Some(weight),
            Self::Converted(weight) => Some(&weight.weight),
            Self::Quantized(_) => None,
        }
    }
}

/// A weight as one side of a product. The products are in [`linear`](super::linear).
#[derive(Clone)]
pub(crate) enum Matrix {
    Dense(Tensor),
    Quantized(Quantized),
}

#[cfg(test)]
mod tests {
    use candle_core::quantized::GgmlDType;

    use super::*;
    use crate::{
        ops::{
            linear::linear,
            lora::{Adapter, linear_with_adapter},
            testing::{check_close, check_gradients, normal},
        },
        tape::{Gradients, Tape},
    };

    const DTYPES: [(GgmlDType, usize); 3] = [
        (GgmlDType::Q8_0, 32),
        (GgmlDType::Q4_0, 64),
        (GgmlDType::Q4K, 256),
    ];

    /// A matrix of 5 rows, whole and in parts, the last of which is smaller.
    fn matrices(dtype: GgmlDType, width: usize) -> [Quantized; 2] {
        let numbers = normal(2, &[5, width]).to_dtype(DType::F32).unwrap();
        let whole = Quantized::new(QTensor::quantize(&numbers, dtype).unwrap()).unwrap();
        let in_parts = Quantized {
            part_rows: 2,
            ..whole.clone()
        };
        [whole, in_parts]
    }

    /// All of its numbers, as candle widens them.
    fn widened(weight: &Quantized) -> Tensor {
        let blocks = &weight.blocks;
        blocks.dequantize(&blocks.device()).unwrap()
    }

    /// A layer's output and the gradient of its input, in f32.
    fn run(width: usize, weight: impl Into<Weight>) -> [Tensor; 2] {
        let tape = Tape::new(1);
        let x = tape.input(normal(1, &[2, 3, width]).to_dtype(DType::F32).unwrap());
        let bias = Value::constant(normal(3, &[5]).to_dtype(DType::F32).unwrap());
        let y = linear(&x, weight, Some(&bias)).unwrap();
        let seed = y.tensor().affine(0.5, 0.0).unwrap();
        let gradients = tape.backward_to(&y, seed, &[&x], &mut Gradients::default());
        [y.tensor().clone(), gradients.unwrap().remove(0).unwrap()]
    }

    #[test]
    fn a_quantized_weight_gives_what_its_widened_numbers_give() {
        for (dtype, width) in DTYPES {
            for weight in matrices(dtype, width) {
                let dense = Value::constant(widened(&weight));
                let expected = run(width, &dense);
                for (got, expected) in run(width, weight).iter().zip(&expected) {
                    check_close(&format!("{dtype:?}"), got, expected, 1e-6);
                }
            }
        }
    }

    #[test]
    fn input_bias_and_adapter_get_their_gradients() {
        for (dtype, width) in DTYPES {
            for weight in matrices(dtype, width) {
                let inputs = [normal(1, &[2, 3, width]), normal(3, &[5])];
                check_gradients(&inputs, |_, v| linear(&v[0], weight.clone(), Some(&v[1])));
                let inputs = [
                    normal(1, &[2, 3, width]),
                    normal(3, &[2, width]),
                    normal(4, &[5, 2]),
                ];
                check_gradients(&inputs, |_, v| {
                    let adapter = Adapter {
                        a: v[1].clone(),
                        b: v[2].clone(),
                        scale: 0.7,
                        dropout: None,
                    };
                    linear_with_adapter(&v[0], weight.clone(), None, &adapter)
                });
            }
        }
    }

    #[test]
    fn blocks_that_are_no_matrix_are_refused() {
        let numbers = normal(2, &[2, 2, 32]).to_dtype(DType::F32).unwrap();
        let made = Quantized::new(QTensor::quantize(&numbers, GgmlDType::Q8_0).unwrap());
        assert_eq!(
            made.unwrap_err().to_string(),
            "quantized weights of shape [2, 2, 32] are no matrix"
        );
    }
}
