//! A gated feed-forward part as one operation: y = W₂ (φ(a) ⊙ c) with a and c the halves of W₁ x.
//!
//! It may multiply along the first dimension of x as well as along the last, and turns nothing in memory for it: with
//! m = all other dimensions, x [i, m] gives W₁ x [2f, m], where x [m, i] gives x W₁ᵀ [m, 2f].
//!
//! Backward, with h = φ(a) ⊙ c and the gradient g of y: dh = W₂ᵀ g, dW₂ = g hᵀ, [da; dc] by the gate (see [`gated`]),
//! dx = W₁ᵀ [da; dc], dW₁ = [da; dc] xᵀ. Saves x, a and c; h is computed again.
//!
//! [`gated`]: super::gated

use candle_core::Tensor;

use crate::{
    Result,
    ops::{
        as_rows,
        gated::{self, Activation},
        kernels::{self, Kernel},
        linear::{Term, project, project_back, weight_gradient},
        weight::{Converted, Learned},
    },
    profile,
    tape::Value,
};

/// Which dimension is multiplied, or summed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Along {
    /// [i, ..] -> [o, ..].
    First,
    /// [.., i] -> [.., o].
    Last,
}

/// x [.., i] or [i, ..], W₁ `up` [2f, i] with the rows of the gate first, W₂ `down` [o, f] -> [.., o] or [o, ..].
pub fn feed_forward(
    x: &Value,
    up: &Converted,
    down: &Converted,
    activation: Activation,
    along: Along,
) -> Result<Value> {
    let _profiled = profile::operation("feed-forward");
    let matrix = along.matrix(x.tensor())?;
    let both = along.multiply(&up.numbers().get()?, &matrix)?;
    let h = gated::halves(Kernel::FeedForward, &both, activation, along)?;
    let y = along.multiply(&down.numbers().get()?, &h)?;
    drop(h);
    let y = along.like(&y, x.tensor())?;

    let like = x.tensor().clone();
    let wants_x = x.wants_gradient();
    let [learned_up, learned_down] = [up, down].map(|it| Learned::of(it.values()));
    let [up_numbers, down_numbers] = [up, down].map(|weight| weight.numbers().clone());
    let backward = move |gradient: Tensor| {
        let gradient = along.matrix(&gradient)?;
        let dh = along.multiply_back(&down_numbers.get()?, &gradient)?;
        let (h, d_both) = gated::halves_back(Kernel::FeedForward, &both, &dh, activation, along)?;
        drop(dh);
        let d_down = learned_down.gradients(|| along.weight_gradient(&gradient, &h))?;
        drop((gradient, h));
        let d_up = learned_up.gradients(|| along.weight_gradient(&d_both, &matrix))?;
        let dx = match wants_x {
            true => Some(along.like(&along.multiply_back(&up_numbers.get()?, &d_both)?, &like)?),
            false => None,
        };
        Ok([vec![dx], d_up, d_down].concat())
    };
    let weights = up.values().iter().chain(down.values());
    let inputs: Vec<&Value> = std::iter::once(x).chain(weights).collect();
    Ok(Value::record(y, &inputs, backward))
}

impl Along {
    /// All other dimensions in one: [i, m] or [m, i].
    pub(crate) fn matrix(self, x: &Tensor) -> Result<Tensor> {
        match self {
            Self::Last => as_rows(x),
            Self::First => Ok(x.contiguous()?.flatten_from(1)?),
        }
    }

    /// The dimension of a matrix.
    pub(crate) fn of_matrix(self) -> usize {
        match self {
            Self::First => 0,
            Self::Last => 1,
        }
    }

    /// A matrix [o, m] or [m, o] with the other dimensions of `like`.
    fn like(self, matrix: &Tensor, like: &Tensor) -> Result<Tensor> {
        let mut dims = like.dims().to_vec();
        let width = matrix.dim(self.of_matrix())?;
        let place = match self {
            Self::First => dims.first_mut(),
            Self::Last => dims.last_mut(),
        };
        if let Some(place) = place {
            *place = width;
        }
        Ok(matrix.reshape(dims)?)
    }

    /// W x, or x Wᵀ.
    fn multiply(self, weight: &Tensor, x: &Tensor) -> Result<Tensor> {
        match self {
            Self::Last => project(Kernel::FeedForward, &[Term::new(x, weight)], None),
            Self::First => multiply_first(weight, false, x),
        }
    }

    /// Wᵀ g, or g W.
    fn multiply_back(self, weight: &Tensor, gradient: &Tensor) -> Result<Tensor> {
        match self {
            Self::Last => project_back(Kernel::FeedForward, &[Term::new(gradient, weight)]),
            Self::First => multiply_first(weight, true, gradient),
        }
    }

    /// g xᵀ, or gᵀ x: the gradient of W [o, i].
    fn weight_gradient(self, gradient: &Tensor, x: &Tensor) -> Result<Tensor> {
        if self == Self::Last {
            return weight_gradient(Kernel::FeedForward, gradient, x, 1.0);
        }
        profile::multiplied(gradient.dim(0)?, gradient.dim(1)?, x.dim(0)?);
        if kernels::cpu::serves(Kernel::FeedForward, &[gradient, x]) {
            return kernels::cpu::linear::weight_gradient_first(gradient, x);
        }
        #[cfg(feature = "cuda")]
        if kernels::cuda::serves(Kernel::FeedForward, &[gradient, x]) {
            return kernels::cuda::linear::weight_gradient_first(gradient, x);
        }
        Ok(gradient.matmul(&x.t()?)?)
    }
}

/// W x, or Wᵀ x where it is `turned`: W [o, i] and x [i, m] -> [o, m].
fn multiply_first(weight: &Tensor, turned: bool, x: &Tensor) -> Result<Tensor> {
    profile::multiplied(weight.dim(0)?, weight.dim(1)?, x.dim(1)?);
    if kernels::cpu::serves(Kernel::FeedForward, &[weight, x]) {
        return kernels::cpu::linear::multiply_first(weight, turned, x);
    }
    #[cfg(feature = "cuda")]
    if kernels::cuda::serves(Kernel::FeedForward, &[weight, x]) {
        return kernels::cuda::linear::multiply_first(weight, turned, x);
    }
    Ok(match turned {
        false => weight.matmul(x)?,
        true => weight.t()?.matmul(x)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ops::{
            elementwise::narrow,
            gated::gated,
            linear::linear,
            testing::{check_close, check_gradients, check_kernel, normal},
        },
        tape::{Gradients, Tape},
    };
    use candle_core::DType;

    const SILU: Activation = Activation::Silu;

    fn whole(v: &[Value], along: Along) -> Result<Value> {
        let weight = |at: usize| Converted::new(&v[at], v[0].tensor().dtype());
        feed_forward(&v[0], &weight(1)?, &weight(2)?, SILU, along)
    }

    #[test]
    fn gradients_match_finite_differences_along_both_dimensions() {
        let weights = [normal(2, &[8, 5]), normal(3, &[3, 4])];
        let of = |x| [&[x][..], &weights].concat();
        check_gradients(&of(normal(1, &[2, 3, 5])), |_, v| whole(v, Along::Last));
        check_gradients(&of(normal(1, &[5, 2, 3])), |_, v| whole(v, Along::First));
        let weight = Converted::new(&Value::constant(weights[0].clone()), DType::F64).unwrap();
        check_gradients(&[normal(1, &[2, 5]), weights[1].clone()], |_, v| {
            let down = Converted::new(&v[1], DType::F64)?;
            feed_forward(&v[0], &weight, &down, SILU, Along::Last)
        });
    }

    #[test]
    fn the_kernels_for_the_cpu_equal_the_composition() {
        for (i, f, m) in [(1, 1, 1), (97, 40, 130), (33, 24, 700)] {
            let weights = [normal(2, &[2 * f, i]), normal(3, &[i, f])];
            let of = |x| [&[x][..], &weights].concat();
            check_kernel(&of(normal(1, &[m, i])), 1e-4, |v| whole(v, Along::Last));
            check_kernel(&of(normal(1, &[i, m])), 1e-4, |v| whole(v, Along::First));
        }
    }

    #[test]
    fn it_is_two_layers_with_a_gate_between_them() {
        let inputs = [normal(1, &[6, 5]), normal(2, &[8, 5]), normal(3, &[5, 4])];
        let v = inputs.clone().map(Value::constant);
        let [gate, up] = [0, 4].map(|start| narrow(&v[1], 0, start, 4).unwrap());
        let [gate, up] = [gate, up].map(|weight| linear(&v[0], &weight, None).unwrap());
        let expected = linear(&gated(&gate, &up, SILU).unwrap(), &v[2], None).unwrap();
        let y = whole(&v, Along::Last).unwrap();
        check_close("last", y.tensor(), expected.tensor(), 1e-12);
        let turned = Value::constant(inputs[0].t().unwrap().contiguous().unwrap());
        let y = whole(&[turned, v[1].clone(), v[2].clone()], Along::First).unwrap();
        check_close("first", &y.tensor().t().unwrap(), expected.tensor(), 1e-12);
    }

    #[test]
    fn gradients_of_a_converted_weight_are_not_rounded_to_what_is_computed_in() {
        let tape = Tape::new(1);
        let of = |seed, shape: &[usize]| normal(seed, shape).to_dtype(DType::F32).unwrap();
        let [up, down] = [of(2, &[8, 5]), of(3, &[3, 4])].map(|weight| tape.input(weight));
        let x = Value::constant(of(1, &[6, 5]).to_dtype(DType::BF16).unwrap());
        let narrow = |weight| Converted::new(weight, DType::BF16).unwrap();
        let y = feed_forward(&x, &narrow(&up), &narrow(&down), SILU, Along::Last).unwrap();
        assert_eq!(y.tensor().dtype(), DType::BF16);
        let seed = y.tensor().ones_like().unwrap();
        let gradients = tape.backward_to(&y, seed, &[&up, &down], &mut Gradients::default());
        for gradient in gradients.unwrap() {
            assert_eq!(gradient.unwrap().dtype(), DType::F32);
        }
    }
}
