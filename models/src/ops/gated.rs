//! The gate of a feed-forward part: y = φ(a) ⊙ c.
//!
//! Shazeer, "GLU Variants Improve Transformer", 2020 (<https://arxiv.org/abs/2002.05202>): SwiGLU with φ = silu, GeGLU
//! with φ = gelu. Backward: da = g ⊙ c ⊙ φ'(a), dc = g ⊙ φ(a). Saves a and c.

use candle_core::Tensor;
use serde::{Deserialize, Serialize};

use crate::{
    Result,
    ops::{
        kernels::{self, Kernel},
        widen,
    },
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

impl Activation {
    /// φ(x).
    fn apply(self, x: &Tensor) -> Result<Tensor> {
        Ok(match self {
            Self::Silu => x.silu()?,
            Self::Gelu => x.gelu_erf()?,
            Self::GeluTanh => x.gelu()?,
        })
    }

    /// φ'(x).
    fn derivative(self, x: &Tensor) -> Result<Tensor> {
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
        ops::testing::{check_gradients, normal},
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
                let expected = if *x > 50.0 { (*x, 1.0) } else { (0.0, 0.0) };
                if x.abs() > 50.0 {
                    assert_eq!(
                        (y[index], gradient[index]),
                        expected,
                        "{activation:?} at {x}"
                    );
                } else {
                    assert_eq!(
                        (y[index], gradient[index]),
                        (x * 0.5, 0.5),
                        "{activation:?} at {x}"
                    );
                }
            }
        }
    }

    #[test]
    fn gradients_match_finite_differences() {
        let inputs = [normal(1, &[3, 7]), normal(2, &[3, 7])];
        for activation in [Activation::Silu, Activation::Gelu, Activation::GeluTanh] {
            check_gradients(&inputs, |_, v| gated(&v[0], &v[1], activation));
        }
    }
}
