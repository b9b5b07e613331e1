//! The weight W [o, i] of a linear layer: numbers, or quantized blocks of them.
//!
//! Quantized blocks are frozen. Products widen them to f32 a part at a time, forward and backward, so that the whole is
//! never there at once, and give what the widened numbers give. Deliberately absent: candle's own product with such
//! blocks, which rounds x to 8 bits too; its gradient would be that of another function.

use candle_core::{DType, Tensor};

use crate::{Result, ops::elementwise::narrow, tape::Value};

pub mod nf4;
mod quantized;
mod stacked;

pub use quantized::{Blocks, PART_ELEMENTS, Quantized};
use stacked::Part;
pub use stacked::{MOST, Stacked};

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

/// Weights that were converted to what is computed in, one below the other: mostly a single one. Their gradients are not converted:
/// uses add up in a weight's own dtype.
#[derive(Clone)]
pub struct Converted {
    weights: Vec<Value>,
    numbers: Numbers,
}

/// What products use of such weights. A record may keep it.
#[derive(Clone)]
pub(crate) enum Numbers {
    /// What was converted once, however often it is used.
    Kept(Tensor),
    /// What is converted with others, and again on the way back.
    Part(Part),
}

impl Numbers {
    /// [Σ o, i].
    pub(crate) fn get(&self) -> Result<Tensor> {
        match self {
            Self::Kept(numbers) => Ok(numbers.clone()),
            Self::Part(part) => part.numbers(),
        }
    }
}

impl Converted {
    /// The weight for products in `dtype`.
    pub fn new(weight: &Value, dtype: DType) -> Result<Self> {
        Ok(Self {
            weights: vec![weight.clone()],
            numbers: Numbers::Kept(weight.tensor().to_dtype(dtype)?),
        })
    }

    /// Some rows of a single one.
    pub fn rows(&self, start: usize, count: usize) -> Result<Self> {
        let rows = |it: &Value| narrow(it, 0, start, count);
        Ok(Self {
            weights: self.weights.iter().map(rows).collect::<Result<_>>()?,
            numbers: Numbers::Kept(self.numbers.get()?.narrow(0, start, count)?.contiguous()?),
        })
    }

    /// The same numbers, of which nobody wants a gradient.
    pub fn constant(&self) -> Self {
        let constant = |it: &Value| Value::constant(it.tensor().clone());
        Self {
            weights: self.weights.iter().map(constant).collect(),
            numbers: self.numbers.clone(),
        }
    }

    /// The weights themselves, for their gradients.
    pub(crate) fn values(&self) -> &[Value] {
        &self.weights
    }

    /// What products use.
    pub(crate) fn numbers(&self) -> &Numbers {
        &self.numbers
    }
}

/// Which of weights, or biases, below each other learn, by the rows and the dtype of each.
pub(crate) struct Learned(Vec<(usize, Option<DType>)>);

impl Learned {
    pub(crate) fn of(weights: &[Value]) -> Self {
        let learns = |it: &Value| {
            let rows = it.tensor().dims().first().copied().unwrap_or_default();
            let dtype = it.wants_gradient().then(|| it.tensor().dtype());
            (rows, dtype)
        };
        Self(weights.iter().map(learns).collect())
    }

    pub(crate) fn any(&self) -> bool {
        self.0.iter().any(|(_, dtype)| dtype.is_some())
    }

    /// No gradient for any of them.
    pub(crate) fn none(&self) -> Vec<Option<Tensor>> {
        vec![None; self.0.len()]
    }

    /// The gradient of each that learns: its rows of that of all, which is computed where there is one.
    pub(crate) fn gradients(
        self,
        of_all: impl FnOnce() -> Result<Tensor>,
    ) -> Result<Vec<Option<Tensor>>> {
        if !self.any() {
            return Ok(self.none());
        }
        let (all, mut start) = (of_all()?, 0);
        let of_rows = |(rows, dtype): (usize, Option<DType>)| {
            start += rows;
            let of = |dtype| Ok(all.narrow(0, start - rows, rows)?.to_dtype(dtype)?);
            dtype.map(of).transpose()
        };
        self.0.into_iter().map(of_rows).collect()
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
            Self::Dense(weight) => Matrix::Dense(Numbers::Kept(weight.tensor().clone())),
            Self::Converted(weight) => Matrix::Dense(weight.numbers.clone()),
            Self::Quantized(weight) => Matrix::Quantized(weight.clone()),
        }
    }

    /// The values that can have a gradient, one below the other.
    pub(crate) fn values(&self) -> &[Value] {
        match self {
            Self::Dense(weight) => std::slice::from_ref(weight),
            Self::Converted(weight) => &weight.weights,
            Self::Quantized(_) => &[],
        }
    }
}

/// A weight as one side of a product. The products are in [`linear`](super::linear).
#[derive(Clone)]
pub(crate) enum Matrix {
    Dense(Numbers),
    Quantized(Quantized),
}

#[cfg(test)]
mod tests {
    use candle_core::{
        Device,
        quantized::{GgmlDType, QTensor},
    };

    use super::{nf4::MakeNf4, *};
    use crate::{
        ops::{
            linear::linear,
            lora::{Adapter, linear_with_adapter},
            testing::{check_close, check_gradients, normal},
        },
        tape::{Gradients, Tape},
    };

    /// Matrices of 5 rows in blocks of each kind, whole and in parts, the last of which is smaller.
    fn matrices() -> Vec<(&'static str, usize, Quantized)> {
        let ggml = |dtype, width: usize| {
            Quantized::new(QTensor::quantize(&numbers(width), dtype).unwrap()).unwrap()
        };
        let nf4 = |width: usize, nested: bool| {
            let mut made = MakeNf4::new([5, width]);
            let numbers = numbers(width).flatten_all().unwrap();
            made.push(&numbers.to_vec1().unwrap());
            let stored = if nested { made.nested() } else { made.plain() };
            Quantized::new(stored.on(&Device::Cpu).unwrap()).unwrap()
        };
        let whole = [
            ("Q8_0", 32, ggml(GgmlDType::Q8_0, 32)),
            ("Q4_0", 64, ggml(GgmlDType::Q4_0, 64)),
            ("Q4K", 256, ggml(GgmlDType::Q4K, 256)),
            ("NF4", 64, nf4(64, true)),
            // Blocks go across rows, and begin in the middle of a byte.
            ("NF4", 33, nf4(33, true)),
            ("NF4, scales in f32", 47, nf4(47, false)),
        ];
        let parts = whole
            .clone()
            .map(|(name, width, it)| (name, width, it.in_parts_of(2)));
        whole.into_iter().chain(parts).collect()
    }

    fn numbers(width: usize) -> Tensor {
        normal(2, &[5, width]).to_dtype(DType::F32).unwrap()
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
        for (name, width, weight) in matrices() {
            let dense = Value::constant(weight.widen(0..5).unwrap());
            let expected = run(width, &dense);
            for (got, expected) in run(width, weight).iter().zip(&expected) {
                check_close(name, got, expected, 1e-6);
            }
        }
    }

    #[test]
    fn few_rows_have_the_bits_that_widened_numbers_give_them() {
        let f32s = |seed, shape: &[usize]| normal(seed, shape).to_dtype(DType::F32).unwrap();
        for (name, width, weight) in matrices() {
            let dense = Value::constant(weight.widen(0..5).unwrap());
            let bias = Value::constant(f32s(3, &[5]));
            let adapter = Adapter {
                a: Value::constant(f32s(4, &[2, width])),
                b: Value::constant(f32s(5, &[5, 2])),
                scale: 0.7,
                dropout: None,
            };
            for rows in [1, 4] {
                let x = Value::constant(f32s(1, &[1, rows, width]));
                let run = |weight: Weight| {
                    let plain = linear(&x, weight.clone(), Some(&bias)).unwrap();
                    let adapted = linear_with_adapter(&x, weight, None, &adapter).unwrap();
                    [plain, adapted]
                        .map(|y| y.tensor().flatten_all().unwrap().to_vec1::<f32>().unwrap())
                };
                assert_eq!(
                    run(weight.clone().into()),
                    run((&dense).into()),
                    "{name}, {rows}"
                );
            }
        }
    }

    #[test]
    fn quantized_numbers_are_near_those_they_were_made_of() {
        for (name, width, weight) in matrices() {
            let far = (weight.widen(0..5).unwrap() - numbers(width)).unwrap();
            let norm = |x: &Tensor| {
                let sum = x.sqr().unwrap().sum_all().unwrap();
                sum.to_scalar::<f32>().unwrap().sqrt()
            };
            let error = norm(&far) / norm(&numbers(width));
            assert!((0.001..0.12).contains(&error), "{name}: {error}");
        }
    }

    #[test]
    fn some_rows_are_those_of_the_whole() {
        for (name, _, weight) in matrices() {
            let whole = weight.widen(0..5).unwrap();
            for (start, count) in [(0, 1), (1, 3), (3, 2), (2, 0)] {
                let rows = weight.widen(start..start + count).unwrap();
                let expected = whole.narrow(0, start, count).unwrap();
                let numbers = |it: &Tensor| it.to_vec2::<f32>().unwrap();
                assert_eq!(numbers(&rows), numbers(&expected), "{name}");
            }
        }
    }

    #[test]
    fn input_bias_and_adapter_get_their_gradients() {
        for (_, width, weight) in matrices() {
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
