//! Batch norm with what follows it: y = φ(w (x - μ) ρ + e + z), ρ = 1/√(v + ε), with mean μ and variance v of each channel.
//!
//! Over the n rows of a batch, v is Σ(x - μ)²/n. With the gradient u = g ⊙ φ' of what φ is applied to and x̂ = (x - μ) ρ:
//! dz = u, de = Σ u, dw = Σ u x̂, dx = w ρ (u - de/n - x̂ dw/n). Where μ and v are given, as in a model that is only used, they
//! are numbers like others, and dx = w ρ u. Ioffe and Szegedy, 2015 (<https://arxiv.org/abs/1502.03167>). Saves x and z, which
//! other operations keep anyway; φ is computed again.
//!
//! Letters: n rows, which are all places of all pictures, d channels.
//!
//! Deliberately absent: running means and variances. A block that is computed again must not count twice, so whoever trains
//! takes what [`Normalized`] says and moves them once for each pass.

use candle_core::Tensor;

use crate::{
    Error, Result,
    ops::{
        as_rows,
        gated::Activation,
        kernels::{self, Kernel},
        wide_dtype, widen,
    },
    tape::Value,
};

/// What is applied to what was normalized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// Nothing.
    Nothing,
    /// max(x, 0), with the slope 0 at 0.
    Relu,
    /// x Φ(x), with the normal distribution's Φ.
    Gelu,
}

impl Then {
    /// φ(x).
    pub(crate) fn apply(self, x: &Tensor) -> Result<Tensor> {
        Ok(match self {
            Self::Nothing => x.clone(),
            Self::Relu => x.relu()?,
            Self::Gelu => Activation::Gelu.apply(x)?,
        })
    }

    /// φ'(x).
    pub(crate) fn derivative(self, x: &Tensor) -> Result<Tensor> {
        Ok(match self {
            Self::Nothing => x.ones_like()?,
            Self::Relu => x.gt(0.0)?.to_dtype(x.dtype())?,
            Self::Gelu => Activation::Gelu.derivative(x)?,
        })
    }
}

/// Where mean and variance of the channels come from.
#[derive(Debug, Clone, Copy)]
pub enum Moments<'a> {
    /// The batch itself.
    OfBatch,
    /// Outside: mean and variance, each [d].
    Given([&'a Tensor; 2]),
}

/// What was normalized, and by which numbers.
pub struct Normalized {
    /// [.., d], as the input.
    pub value: Value,
    /// Mean and variance [d] of the batch, f32 or wider, where they were computed from it. The variance is divided by n.
    pub moments: Option<[Tensor; 2]>,
}

/// Numbers for each channel, f32 or wider, each [d].
struct Channels {
    mean: Tensor,
    rho: Tensor,
    /// w ρ.
    factor: Tensor,
    /// e - μ w ρ.
    shift: Tensor,
}

impl Channels {
    fn new(
        [mean, variance]: [&Tensor; 2],
        [weight, bias]: [&Value; 2],
        epsilon: f64,
    ) -> Result<Self> {
        let rho = (variance + epsilon)?.sqrt()?.recip()?;
        let [w, e] = [weight, bias].map(|it| it.tensor().to_dtype(mean.dtype()));
        let factor = (w? * &rho)?;
        Ok(Self {
            mean: mean.clone(),
            shift: (e? - (mean * &factor)?)?,
            rho,
            factor,
        })
    }

    /// What is added because mean and variance are those of the batch: dx = w ρ u + x slope + offset, from Σ u and dw.
    fn of_batch(&self, sum: &Tensor, dw: &Tensor, count: usize) -> Result<[Tensor; 2]> {
        let share = -1.0 / count as f64;
        let slope = ((&self.factor * &self.rho)? * dw)?.affine(share, 0.0)?;
        let offset = (&self.factor * sum)?.affine(share, 0.0)?;
        let offset = (offset - (&slope * &self.mean)?)?;
        Ok([slope, offset])
    }
}

/// Batch norm of x [.., d] with w `weight` and e `bias` [d], and z `residual` [.., d] added before φ `then`.
///
/// Errors: [`Error::Data`] for a batch of a single row, which has no variance.
pub fn batch_norm(
    x: &Value,
    [weight, bias]: [&Value; 2],
    moments: Moments,
    residual: Option<&Value>,
    then: Then,
    epsilon: f64,
) -> Result<Normalized> {
    let rows = as_rows(x.tensor())?;
    let z = residual.map(|it| as_rows(it.tensor())).transpose()?;
    let count = rows.dim(0)?;
    let is_of_batch = matches!(moments, Moments::OfBatch);
    let [mean, variance] = match moments {
        Moments::OfBatch if count < 2 => {
            return Err(Error::Data(
                "batch norm of a single number for each channel, which has no variance: give it more pictures at once"
                    .to_owned(),
            ));
        }
        Moments::OfBatch => moments_of(&rows)?,
        Moments::Given([mean, variance]) => {
            let dtype = wide_dtype(&rows);
            [mean.to_dtype(dtype)?, variance.to_dtype(dtype)?]
        }
    };
    let channels = Channels::new([&mean, &variance], [weight, bias], epsilon)?;
    let y = apply(&rows, &channels, z.as_ref(), then)?.reshape(x.tensor().shape())?;

    let like = x.tensor().shape().clone();
    let [weight_dtype, bias_dtype] = [weight, bias].map(|it| it.tensor().dtype());
    let wants_residual = residual.is_some_and(Value::wants_gradient);
    let backward = move |gradient: Tensor| {
        let gradient = as_rows(&gradient)?;
        let saved = Saved {
            rows: &rows,
            residual: z.as_ref(),
            channels: &channels,
            then,
        };
        let [sum, along] = saved.sums(&gradient)?;
        let dw = (&along * &channels.rho)?;
        let [slope, offset] = match is_of_batch {
            true => channels.of_batch(&sum, &dw, count)?,
            false => [dw.zeros_like()?, dw.zeros_like()?],
        };
        let (dx, dz) = saved.back(&gradient, [&slope, &offset], wants_residual)?;
        let mut gradients = vec![
            Some(dx.reshape(&like)?),
            Some(dw.to_dtype(weight_dtype)?),
            Some(sum.to_dtype(bias_dtype)?),
        ];
        gradients.push(dz.map(|dz| dz.reshape(&like)).transpose()?);
        Ok(gradients)
    };
    let mut inputs = vec![x, weight, bias];
    inputs.extend(residual);
    Ok(Normalized {
        value: Value::record(y, &inputs, backward),
        moments: is_of_batch.then_some([mean, variance]),
    })
}

/// What is kept for the way back.
struct Saved<'a> {
    rows: &'a Tensor,
    residual: Option<&'a Tensor>,
    channels: &'a Channels,
    then: Then,
}

impl Saved<'_> {
    /// Σ u and Σ u (x - μ), each [d].
    fn sums(&self, gradient: &Tensor) -> Result<[Tensor; 2]> {
        if kernels::cpu::serves(Kernel::BatchNorm, &[gradient, self.rows]) {
            return kernels::cpu::batch_norm::sums(
                gradient,
                self.rows,
                self.of_cpu()?,
                &self.channels.mean,
            );
        }
        let u = self.slope(&widen(gradient)?)?;
        let centred = widen(self.rows)?.broadcast_sub(&self.channels.mean)?;
        Ok([u.sum(0)?, (u * centred)?.sum(0)?])
    }

    /// w ρ u + x slope + offset, and u where it is wanted.
    fn back(
        &self,
        gradient: &Tensor,
        [slope, offset]: [&Tensor; 2],
        wants_u: bool,
    ) -> Result<(Tensor, Option<Tensor>)> {
        if kernels::cpu::serves(Kernel::BatchNorm, &[gradient, self.rows]) {
            let both = [slope, offset];
            return kernels::cpu::batch_norm::back(
                gradient,
                self.rows,
                self.of_cpu()?,
                both,
                wants_u,
            );
        }
        let dtype = self.rows.dtype();
        let u = self.slope(&widen(gradient)?)?;
        let dx = u
            .broadcast_mul(&self.channels.factor)?
            .add(&widen(self.rows)?.broadcast_mul(slope)?)?
            .broadcast_add(offset)?;
        let u = wants_u.then(|| u.to_dtype(dtype)).transpose()?;
        Ok((dx.to_dtype(dtype)?, u))
    }

    /// u = g ⊙ φ'.
    fn slope(&self, gradient: &Tensor) -> Result<Tensor> {
        let before = before(self.rows, self.channels, self.residual)?;
        Ok((self.then.derivative(&before)? * gradient)?)
    }

    fn of_cpu(&self) -> Result<kernels::cpu::batch_norm::Before<'_>> {
        let Channels { factor, shift, .. } = self.channels;
        kernels::cpu::batch_norm::Before::of([factor, shift], self.residual, self.then)
    }
}

/// Mean and variance of the columns of [n, d]: each [d], f32 or wider.
fn moments_of(rows: &Tensor) -> Result<[Tensor; 2]> {
    if kernels::cpu::serves(Kernel::BatchNorm, &[rows]) {
        return kernels::cpu::batch_norm::moments(rows);
    }
    let wide = widen(rows)?;
    let mean = wide.mean(0)?;
    let variance = wide.broadcast_sub(&mean)?.sqr()?.mean(0)?;
    Ok([mean, variance])
}

/// φ(x w ρ + shift + z).
fn apply(
    rows: &Tensor,
    channels: &Channels,
    residual: Option<&Tensor>,
    then: Then,
) -> Result<Tensor> {
    if kernels::cpu::serves(Kernel::BatchNorm, &[rows]) {
        let both = [&channels.factor, &channels.shift];
        let before = kernels::cpu::batch_norm::Before::of(both, residual, then)?;
        return kernels::cpu::batch_norm::apply(rows, before);
    }
    let y = then.apply(&before(rows, channels, residual)?)?;
    Ok(y.to_dtype(rows.dtype())?)
}

/// What φ is applied to.
fn before(rows: &Tensor, channels: &Channels, residual: Option<&Tensor>) -> Result<Tensor> {
    let y = widen(rows)?
        .broadcast_mul(&channels.factor)?
        .broadcast_add(&channels.shift)?;
    Ok(match residual {
        Some(z) => (y + widen(z)?)?,
        None => y,
    })
}

#[cfg(test)]
mod tests {
    use candle_core::DType;

    use super::*;
    use crate::ops::testing::{check_close, check_gradients, check_kernel, normal};

    fn of(v: &[Value], moments: Moments, then: Then) -> Result<Value> {
        Ok(batch_norm(&v[0], [&v[1], &v[2]], moments, v.get(3), then, 1e-5)?.value)
    }

    fn inputs(shape: &[usize]) -> [Tensor; 4] {
        let channels = &shape[shape.len() - 1..];
        [
            normal(1, shape),
            normal(2, channels),
            normal(3, channels),
            normal(4, shape),
        ]
    }

    #[test]
    fn gradients_match_finite_differences() {
        let inputs = inputs(&[2, 2, 3, 5]);
        let known = [normal(5, &[5]), normal(6, &[5]).abs().unwrap()];
        let given = Moments::Given([&known[0], &known[1]]);
        for then in [Then::Nothing, Then::Relu, Then::Gelu] {
            for moments in [Moments::OfBatch, given] {
                check_gradients(&inputs, |_, v| of(v, moments, then));
                check_gradients(&inputs[..3], |_, v| of(v, moments, then));
            }
        }
    }

    #[test]
    fn the_kernels_for_the_cpu_equal_the_composition() {
        for shape in [[7, 1], [600, 33], [3000, 64]] {
            let inputs = inputs(&shape);
            let known = [
                normal(5, &[shape[1]]),
                normal(6, &[shape[1]]).abs().unwrap(),
            ];
            for then in [Then::Nothing, Then::Relu, Then::Gelu] {
                // Where rounding crosses the corner of ReLU the slope is another, which no tolerance covers: inputs are apart.
                check_kernel(&inputs, 2e-5, |v| of(v, Moments::OfBatch, then));
                check_kernel(&inputs[..3], 2e-5, |v| of(v, Moments::OfBatch, then));
                let known = known.clone().map(|it| it.to_dtype(DType::F32).unwrap());
                let given = Moments::Given([&known[0], &known[1]]);
                check_kernel(&inputs, 2e-5, |v| of(v, given, then));
            }
        }
    }

    #[test]
    fn it_is_exact_far_from_zero() {
        let [x, weight, bias, _] = inputs(&[500, 8]);
        let far = [(x + 100.0).unwrap(), weight, bias];
        check_kernel(&far, 1e-3, |v| of(v, Moments::OfBatch, Then::Nothing));
    }

    #[test]
    fn the_moments_of_a_batch_are_told() {
        let v = inputs(&[4, 3]).map(Value::constant);
        let run = |moments| batch_norm(&v[0], [&v[1], &v[2]], moments, None, Then::Nothing, 1e-5);
        let [mean, variance] = run(Moments::OfBatch).unwrap().moments.unwrap();
        let expected = v[0].tensor().mean(0).unwrap();
        check_close("mean", &mean, &expected, 1e-12);
        let again = run(Moments::Given([&mean, &variance])).unwrap();
        assert!(again.moments.is_none());
        let first = run(Moments::OfBatch).unwrap().value;
        check_close("again", again.value.tensor(), first.tensor(), 1e-12);
    }

    #[test]
    fn a_single_row_has_no_variance() {
        let v = inputs(&[1, 3]).map(Value::constant);
        let run = batch_norm(
            &v[0],
            [&v[1], &v[2]],
            Moments::OfBatch,
            None,
            Then::Relu,
            1e-5,
        );
        let said = run.err().unwrap().to_string();
        assert!(said.contains("a single number for each channel"), "{said}");
    }
}
