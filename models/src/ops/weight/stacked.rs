//! The weights of several layers, converted at once to what products use: forward, and once more on the way back. Between the two only
//! the weights themselves are there.

use std::{cell::RefCell, rc::Rc};

use candle_core::{DType, Tensor};

use super::{Converted, Numbers};
use crate::{
    Result,
    ops::kernels::{self, Kernel},
    tape::Value,
};

/// The most that are converted at once.
pub const MOST: usize = 8;
/// Numbers of one of them go to a thread together.
const PACK: usize = 8;

/// Weights of layers, those of one input below each other.
#[derive(Clone)]
pub struct Stacked(Rc<Weights>);

struct Weights {
    /// Each [o, i].
    weights: Vec<Tensor>,
    dtype: DType,
    /// All numbers in a row, while they are used.
    numbers: RefCell<Option<Tensor>>,
}

/// Some of them, below each other: they have one width i.
#[derive(Clone)]
pub(crate) struct Part {
    of: Stacked,
    first: usize,
    count: usize,
}

impl Stacked {
    /// Weights [o, i] for products in `dtype`, at most [`MOST`].
    pub fn new(weights: Vec<Tensor>, dtype: DType) -> Self {
        Self(Rc::new(Weights {
            weights,
            dtype,
            numbers: RefCell::default(),
        }))
    }

    /// The same where it takes one launch: weights of a GPU in f32, by whole packs, for an x in 16 bits.
    pub fn of(weights: Vec<Tensor>, x: &Tensor) -> Option<Self> {
        let served = x.device().is_cuda()
            && matches!(x.dtype(), DType::BF16 | DType::F16)
            && kernels::enabled(Kernel::Linear);
        let fits = |it: &Tensor| {
            it.dtype() == DType::F32 && it.is_contiguous() && it.elem_count().is_multiple_of(PACK)
        };
        let all = (2..=MOST).contains(&weights.len()) && weights.iter().all(fits);
        (served && all).then(|| Self::new(weights, x.dtype()))
    }

    /// The weights that these values are, as one below each other. Nothing where they are not here, or not in this order.
    pub fn find(&self, values: &[Value]) -> Option<Converted> {
        let first = values.first()?.tensor().id();
        let first = self.0.weights.iter().position(|it| it.id() == first)?;
        let here = self.0.weights.get(first..first + values.len())?;
        let width = here.first()?.dims().last()?;
        let all = here.iter().zip(values);
        let fit = all.clone().all(|(here, value)| {
            here.id() == value.tensor().id() && here.dims().last() == Some(width)
        });
        fit.then(|| Converted {
            weights: values.to_vec(),
            numbers: Numbers::Part(Part {
                of: self.clone(),
                first,
                count: values.len(),
            }),
        })
    }

    /// Lets go of what was converted. Who needs it later converts again.
    pub fn forget(&self) {
        self.0.numbers.take();
    }

    /// All numbers, one weight after the other.
    fn numbers(&self) -> Result<Tensor> {
        let Weights {
            weights,
            dtype,
            numbers,
        } = &*self.0;
        if let Some(numbers) = &*numbers.borrow() {
            return Ok(numbers.clone());
        }
        let converted = convert(weights, *dtype)?;
        *numbers.borrow_mut() = Some(converted.clone());
        Ok(converted)
    }
}

impl Part {
    /// [Σ o, i].
    pub(super) fn numbers(&self) -> Result<Tensor> {
        let all = &self.of.0.weights;
        let (before, rest) = all.split_at(self.first);
        let mine = &rest[..self.count];
        let [start, count] = [before, mine].map(|it| it.iter().map(Tensor::elem_count).sum());
        let width = mine.first().map_or(Ok(1), |it| it.dim(1))?;
        let numbers = self.of.numbers()?.narrow(0, start, count)?;
        Ok(numbers.reshape((count / width.max(1), width))?)
    }
}

fn convert(weights: &[Tensor], dtype: DType) -> Result<Tensor> {
    #[cfg(feature = "cuda")]
    if kernels::enabled(Kernel::Linear)
        && let Some(numbers) = kernels::cuda::many::convert(weights, dtype)?
    {
        return Ok(numbers);
    }
    let flat = weights.iter().map(|it| it.flatten_all()?.to_dtype(dtype));
    let flat: Vec<Tensor> = flat.collect::<candle_core::Result<_>>()?;
    Ok(Tensor::cat(&flat, 0)?)
}

#[cfg(test)]
mod tests {
    use std::slice;

    use super::*;
    use crate::{
        ops::{
            elementwise::{add, narrow, reshape},
            feed_forward::{Along, feed_forward},
            gated::{Activation, gated},
            linear::{linear, stacked_linear},
            rope::turned_heads,
            testing::normal,
        },
        tape::{Gradients, Tape},
    };

    fn f32s(seed: u64, shape: &[usize]) -> Tensor {
        normal(seed, shape).to_dtype(DType::F32).unwrap()
    }

    /// A number for a result, and the gradients of some inputs.
    fn back(tape: Tape, y: &Value, inputs: &[&Value]) -> Vec<Vec<f32>> {
        let seed = y.tensor().affine(0.5, 0.1).unwrap();
        let gradients = tape.backward_to(y, seed, inputs, &mut Gradients::default());
        let all = gradients.unwrap().into_iter().map(Option::unwrap);
        let all = all.chain([y.tensor().clone()]);
        let flat = all.map(|it| it.to_dtype(DType::F32)?.flatten_all()?.to_vec1());
        flat.collect::<candle_core::Result<_>>().unwrap()
    }

    fn check_near(found: &[Vec<f32>], expected: &[Vec<f32>]) {
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            assert_eq!(found.len(), expected.len());
            for (found, expected) in found.iter().zip(expected) {
                assert!(
                    (found - expected).abs() < 1e-4 * (1.0 + expected.abs()),
                    "{found} {expected}"
                );
            }
        }
    }

    #[test]
    fn heads_of_layers_are_what_each_of_these_gives_alone() {
        let (heads, width) = ([2, 1, 1], 3);
        for has_biases in [false, true] {
            let run = |together: bool| {
                let tape = Tape::new(1);
                let x = tape.input(f32s(1, &[2, 3, 8]));
                let input = |seed, at: usize, more: &[usize]| {
                    tape.input(f32s(seed, &[&[heads[at] * width], more].concat()))
                };
                let weights = [0, 1, 2].map(|at| input(2, at, &[8]));
                let biases = [0, 1, 2].map(|at| input(3, at, &[]));
                let all = weights.each_ref().map(|it| it.tensor().clone());
                let joined = Stacked::new(all.to_vec(), DType::F32);
                let biases = if has_biases { &biases[..] } else { &[] };
                let parts = match together {
                    true => {
                        let weights = joined.find(&weights).unwrap();
                        let all = stacked_linear(&x, &weights, biases).unwrap();
                        turned_heads(&all, heads, width, None).unwrap().to_vec()
                    }
                    false => {
                        let part = |at: usize| {
                            let y = linear(&x, &weights[at], biases.get(at)).unwrap();
                            reshape(&y, &[2, 3, heads[at], width]).unwrap()
                        };
                        (0..3).map(part).collect()
                    }
                };
                joined.forget();
                let [q, k, v] = parts.as_slice() else {
                    panic!("three parts")
                };
                let two = |it: &Value| narrow(it, 2, 0, 1).unwrap();
                let y = gated(&two(q), k, Activation::Silu).unwrap();
                let y = add(&y, v).unwrap();
                let all: Vec<&Value> = [&x].into_iter().chain(&weights).chain(biases).collect();
                back(tape, &y, &all)
            };
            check_near(&run(true), &run(false));
        }
    }

    #[test]
    fn results_that_belong_together_have_no_gradient_where_one_is_not_used() {
        let tape = Tape::new(1);
        let (x, weight) = (tape.input(f32s(1, &[2, 8])), tape.input(f32s(2, &[6, 8])));
        let joined = Stacked::new(vec![weight.tensor().clone()], DType::F32);
        let weights = joined.find(slice::from_ref(&weight)).unwrap();
        let all = stacked_linear(&x, &weights, &[]).unwrap();
        let all = reshape(&all, &[1, 2, 6]).unwrap();
        let parts = turned_heads(&all, [1, 1, 1], 2, None).unwrap();
        let seed = parts[0].tensor().ones_like().unwrap();
        let gradients = tape.backward_to(&parts[0], seed, &[&x], &mut Gradients::default());
        let words = gradients.unwrap_err().to_string();
        assert!(words.contains("1 of 3 results"), "{words}");
    }

    #[test]
    fn gate_and_up_are_one_matrix_with_a_gradient_for_each() {
        let run = |together: bool| {
            let tape = Tape::new(1);
            let x = tape.input(f32s(1, &[4, 8]));
            let [gate, up] = [2, 3].map(|seed| tape.input(f32s(seed, &[5, 8])));
            let down = tape.input(f32s(4, &[8, 5]));
            let all = [&gate, &up, &down].map(|it| it.tensor().clone());
            let joined = Stacked::new(all.to_vec(), DType::F32);
            let y = match together {
                true => {
                    let both = joined.find(&[gate.clone(), up.clone()]).unwrap();
                    let down = joined.find(slice::from_ref(&down)).unwrap();
                    feed_forward(&x, &both, &down, Activation::Silu, Along::Last).unwrap()
                }
                false => {
                    let [gate, up] = [&gate, &up].map(|it| linear(&x, it, None).unwrap());
                    linear(&gated(&gate, &up, Activation::Silu).unwrap(), &down, None).unwrap()
                }
            };
            joined.forget();
            back(tape, &y, &[&x, &gate, &up, &down])
        };
        check_near(&run(true), &run(false));
    }

    #[test]
    fn only_neighbours_of_one_width_are_found_as_one() {
        let [a, b, c] = [[2, 4], [3, 4], [4, 6]].map(|shape| Value::constant(f32s(1, &shape)));
        let all = [&a, &b, &c].map(|it| it.tensor().clone());
        let joined = Stacked::new(all.to_vec(), DType::F32);
        let is_found = |values: &[&Value]| {
            let values: Vec<Value> = values.iter().copied().cloned().collect();
            joined.find(&values).is_some()
        };
        assert!(is_found(&[&a, &b]) && is_found(&[&c]));
        assert!(!is_found(&[&b, &a]) && !is_found(&[&b, &c]) && !is_found(&[&a, &c]));
        let other = Value::constant(f32s(1, &[2, 4]));
        assert!(!is_found(&[&other]) && !is_found(&[&c, &other]) && !is_found(&[]));
    }
}
