//! The gate of a feed-forward part: y = φ(a) ⊙ c.
//!
//! Shazeer, "GLU Variants Improve Transformer", 2020 (<https://arxiv.org/abs/2002.05202>): SwiGLU with φ = silu, GeGLU
//! with φ = gelu. Backward: da = g ⊙ c ⊙ φ'(a), dc = g ⊙ φ(a). Saves a and c.

use candle_core::Tensor;
use serde::{Deserialize, Serialize};

use crate::{
    Result,
    ops::{
        as_rows,
        feed_forward::Along,
        kernels::{self, Kernel},
        rows_like, widen,
    },
    profile,
    tape::Value,
};

/// The activation function φ of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Activation {
    /// x σ(x).
    Silu,
    /// x Φ(x), with the normal distribution's Φ.
    Gelu,
    /// The same with Φ approximated by a tanh.
    GeluTanh,
}

/// y = φ(gate) ⊙ up, of the same shape [.., f].
pub fn gated(gate: &Value, up: &Value, activation: Activation) -> Result<Value> {
    let _profiled = profile::operation("gated activation");
    if kernels::metal::serves(Kernel::Gated, &[gate.tensor(), up.tensor()]) {
        return kernels::metal::gated::gated(gate, up, activation);
    }
    if kernels::cpu::serves(Kernel::Gated, &[gate.tensor(), up.tensor()]) {
        return kernels::cpu::gated::gated(gate, up, activation);
    }
    #[cfg(feature = "cuda")]
    if kernels::cuda::serves(Kernel::Gated, &[gate.tensor(), up.tensor()]) {
        return kernels::cuda::gated::gated(gate, up, activation);
    }
    let dtype = gate.tensor().dtype();
    let y = (activation.apply(&widen(gate.tensor())?)? * widen(up.tensor())?)?.to_dtype(dtype)?;
    let (a, c) = (gate.tensor().clone(), up.tensor().clone());
    Ok(Value::record(y, &[gate, up], move |gradient: Tensor| {
        let (gradient, a, c) = (widen(&gradient)?, widen(&a)?, widen(&c)?);
        let dc = (&gradient * activation.apply(&a)?)?.to_dtype(dtype)?;
        let da = ((gradient * c)? * activation.derivative(&a)?)?.to_dtype(dtype)?;
        Ok(vec![Some(da), Some(dc)])
    }))
}

/// The same of a gate, and what it opens, beside each other: both [.., 2f] -> [.., f]. Saves both.
pub fn gated_joined(both: &Value, activation: Activation) -> Result<Value> {
    let _profiled = profile::operation("gated activation");
    let like = both.tensor().clone();
    let rows = as_rows(&like)?;
    let y = rows_like(
        &halves(Kernel::Gated, &rows, activation, Along::Last)?,
        &like,
    )?;
    Ok(Value::record(y, &[both], move |gradient: Tensor| {
        let d_both = halves_gradient(&rows, &as_rows(&gradient)?, activation)?;
        Ok(vec![Some(rows_like(&d_both, &like)?)])
    }))
}

/// φ(a) ⊙ c for the operation of a kernel, of which `both` has the one before the other along a dimension: [2f, m] -> [f, m], or [m, 2f] -> [m, f].
pub(crate) fn halves(
    kernel: Kernel,
    both: &Tensor,
    activation: Activation,
    along: Along,
) -> Result<Tensor> {
    if kernels::metal::serves(kernel, &[both]) {
        return kernels::metal::gated::halves(both, activation, along);
    }
    if kernels::cpu::serves(kernel, &[both]) {
        return kernels::cpu::gated::halves(both, activation, along);
    }
    #[cfg(feature = "cuda")]
    if kernels::cuda::serves(kernel, &[both]) {
        return kernels::cuda::gated::halves(both, activation, along);
    }
    let [a, c] = split(both, along)?;
    Ok((activation.apply(&a)? * c)?.to_dtype(both.dtype())?)
}

/// φ(a) ⊙ c once more, and the gradients of a and c side by side, from the gradient of the former.
pub(crate) fn halves_back(
    kernel: Kernel,
    both: &Tensor,
    gradient: &Tensor,
    activation: Activation,
    along: Along,
) -> Result<(Tensor, Tensor)> {
    if kernels::metal::serves(kernel, &[both, gradient]) {
        return kernels::metal::gated::halves_back(both, gradient, activation, along);
    }
    if kernels::cpu::serves(kernel, &[both, gradient]) {
        return kernels::cpu::gated::halves_back(both, gradient, activation, along);
    }
    #[cfg(feature = "cuda")]
    if kernels::cuda::serves(kernel, &[both, gradient]) {
        return kernels::cuda::gated::halves_back(both, gradient, activation, along);
    }
    let [a, c] = split(both, along)?;
    let (gradient, active) = (widen(gradient)?, activation.apply(&a)?);
    let da = ((&gradient * &c)? * activation.derivative(&a)?)?;
    let dc = (gradient * &active)?;
    let d_both = Tensor::cat(&[da, dc], along.of_matrix())?;
    let dtype = both.dtype();
    Ok(((active * c)?.to_dtype(dtype)?, d_both.to_dtype(dtype)?))
}

/// The gradients of a and c side by side alone, of [m, 2f] from that of [m, f].
fn halves_gradient(both: &Tensor, gradient: &Tensor, activation: Activation) -> Result<Tensor> {
    let kernel = Kernel::Gated;
    #[cfg(feature = "cuda")]
    if kernels::cuda::serves(kernel, &[both, gradient]) {
        return kernels::cuda::gated::halves_gradient(both, gradient, activation);
    }
    Ok(halves_back(kernel, both, gradient, activation, Along::Last)?.1)
}

/// a and c, in f32 or wider.
fn split(both: &Tensor, along: Along) -> Result<[Tensor; 2]> {
    let dimension = along.of_matrix();
    let inner = both.dim(dimension)? / 2;
    let half = |start| widen(&both.narrow(dimension, start, inner)?.contiguous()?);
    Ok([half(0)?, half(inner)?])
}

impl Activation {
    /// Its place in the lists of kernels.
    pub(crate) fn number(self) -> usize {
        match self {
            Self::Silu => 0,
            Self::Gelu => 1,
            Self::GeluTanh => 2,
        }
    }

    /// φ(x).
    pub(crate) fn apply(self, x: &Tensor) -> Result<Tensor> {
        Ok(match self {
            Self::Silu => x.silu()?,
            Self::Gelu => x.gelu_erf()?,
            Self::GeluTanh => x.gelu()?,
        })
    }

    /// φ'(x).
    pub(crate) fn derivative(self, x: &Tensor) -> Result<Tensor> {
        Ok(match self {
            // σ (1 + x (1 - σ)).
            Self::Silu => {
                let sigmoid = (x.neg()?.exp()? + 1.0)?.recip()?;
                ((x * sigmoid.affine(-1.0, 1.0)?)?.affine(1.0, 1.0)? * sigmoid)?
            }
            // Φ(x) + x times the density.
            Self::Gelu => {
                let phi = (x * std::f64::consts::FRAC_1_SQRT_2)?
                    .erf()?
                    .affine(0.5, 0.5)?;
                let density = (x.sqr()? * -0.5)?.exp()?;
                (phi + (x * (density * (1.0 / std::f64::consts::TAU.sqrt()))?)?)?
            }
            // With u = √(2/π) (x + 0.044715 x³): (1 + tanh u)/2 + x (1 - tanh² u) u'/2.
            Self::GeluTanh => {
                let root = (2.0 / std::f64::consts::PI).sqrt();
                let square = x.sqr()?;
                let tanh = (x * square.affine(0.044715 * root, root)?)?.tanh()?;
                let slope = square.affine(3.0 * 0.044715 * root, root)?;
                let steep = ((tanh.sqr()?.affine(-0.5, 0.5)? * slope)? * x)?;
                (tanh.affine(0.5, 0.5)? + steep)?
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;
    use crate::{
        ops::testing::{check_close, check_gradients, normal},
        tape::{Gradients, Tape},
    };

    #[test]
    fn numbers_of_any_size_have_finite_gates() {
        let x: Vec<f32> = vec![-1e30, -200.0, -90.0, -1e-30, 0.0, 1e-30, 90.0, 200.0, 1e18];
        for activation in [Activation::Silu, Activation::Gelu, Activation::GeluTanh] {
            let run = |tensor: Tensor| {
                let ones = Value::constant(tensor.ones_like().unwrap());
                let tape = Tape::new(1);
                let x = tape.input(tensor);
                let y = gated(&x, &ones, activation).unwrap();
                let seed = ones.tensor().clone();
                let gradients = tape.backward_to(&y, seed, &[&x], &mut Gradients::default());
                let gradient: Tensor = gradients.unwrap().remove(0).unwrap();
                [y.tensor().clone(), gradient].map(|x| x.to_vec1::<f32>().unwrap())
            };
            let [y, gradient] = run(Tensor::new(&x[..], &Device::Cpu).unwrap());
            for (index, x) in x.iter().enumerate() {
                let expected = match *x {
                    50.0.. => (*x, 1.0),
                    ..-50.0 => (0.0, 0.0),
                    _ => (x * 0.5, 0.5),
                };
                let found = (y[index], gradient[index]);
                assert_eq!(found, expected, "{activation:?} at {x}");
            }
        }
    }

    #[test]
    fn gradients_match_finite_differences() {
        let inputs = [normal(1, &[3, 7]), normal(2, &[3, 7])];
        for activation in [Activation::Silu, Activation::Gelu, Activation::GeluTanh] {
            check_gradients(&inputs, |_, v| gated(&v[0], &v[1], activation));
            check_gradients(&[normal(3, &[2, 3, 8])], |_, v| {
                gated_joined(&v[0], activation)
            });
        }
    }

    #[test]
    fn a_gate_beside_what_it_opens_is_the_gate_of_both() {
        let both = Value::constant(normal(1, &[2, 3, 8]));
        let [gate, up] = [0, 4].map(|start| {
            let half = both.tensor().narrow(2, start, 4).unwrap();
            Value::constant(half.contiguous().unwrap())
        });
        let y = gated_joined(&both, Activation::Silu).unwrap();
        let expected = gated(&gate, &up, Activation::Silu).unwrap();
        check_close("the gate", y.tensor(), expected.tensor(), 1e-12);
    }
}
