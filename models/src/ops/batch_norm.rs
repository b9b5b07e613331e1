//! Batch norm with what follows it: y = φ(w (x - μ) ρ + e + z), ρ = 1/√(v + ε), with mean μ and variance v of each channel.
//!
//! Over the n rows of a batch, v is Σ(x - μ)²/n. With the gradient u = g ⊙ φ' of what φ is applied to and x̂ = (x - μ) ρ:
//! dz = u, de = Σ u, dw = Σ u x̂, dx = w ρ (u - de/n - x̂ dw/n). Where μ and v are given, as in a model that is only used, they
//! are numbers like others, and dx = w ρ u. Ioffe and Szegedy, 2015 (<https://arxiv.org/abs/1502.03167>). Saves x and z, which
//! other operations keep anyway; φ is computed again.
//!
//! Letters: n rows, which are all places of all pictures, d channels.
//!
//! Deliberately absent: running means and variances. A block that is recomputed must not count twice, so the trainer takes
//! the statistics in [`Normalized`] and updates the running ones once per pass.

use candle_core::{DType, Tensor};

use crate::{
    Error, Result,
    ops::{
        as_rows,
        gated::Activation,
        kernels::{self, Kernel},
        wide_dtype, widen,
    },
    profile,
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
    /// Mean and variance of the batch as rows of [2, d], f32 or wider, where they were computed from it. The variance is divided
    /// by n.
    pub moments: Option<Tensor>,
}

/// What running mean and variance [d] become after a batch of n rows with the moments [2, d]: they move towards it, `share` of the
/// way. The variance is that of which the batch is a sample: n/(n - 1) times its own.
pub fn follow(
    running: [&Tensor; 2],
    moments: &Tensor,
    count: usize,
    share: f64,
) -> Result<[Tensor; 2]> {
    let unbiased = count as f64 / (count as f64 - 1.0);
    if let Some(after) = followed(running, moments, share, unbiased)? {
        return Ok([after.get(0)?, after.get(1)?]);
    }
    let [mean, variance] = [moments.get(0)?, (moments.get(1)? * unbiased)?];
    let moved = |before: &Tensor, now: Tensor| -> Result<Tensor> {
        Ok(((before * (1.0 - share))? + (now * share)?)?)
    };
    Ok([moved(running[0], mean)?, moved(running[1], variance)?])
}

/// The same [2, d] by a kernel of a GPU, where there is one.
fn followed(
    running: [&Tensor; 2],
    moments: &Tensor,
    share: f64,
    unbiased: f64,
) -> Result<Option<Tensor>> {
    let tensors = [running[0], running[1], moments];
    if moments.dtype() != DType::F32 {
        return Ok(None);
    }
    if kernels::metal::batch_norm::serves(&tensors) {
        return kernels::metal::batch_norm::follow(running, moments, share, unbiased).map(Some);
    }
    #[cfg(feature = "cuda")]
    if kernels::cuda::serves(Kernel::BatchNorm, &tensors) {
        return kernels::cuda::batch_norm::follow(running, moments, share, unbiased).map(Some);
    }
    Ok(None)
}

/// Numbers for each channel, f32 or wider: mean, variance, ρ, factor w ρ, and shift e - μ w ρ, as rows of [5, d].
struct Channels(Tensor);

impl Channels {
    /// Those of a batch [n, d].
    fn of_batch(rows: &Tensor, [weight, bias]: [&Value; 2], epsilon: f64) -> Result<Self> {
        let both = [weight.tensor(), bias.tensor()];
        if kernels::metal::batch_norm::serves(&[rows]) {
            let numbers = kernels::metal::batch_norm::channels(rows, both, epsilon)?;
            return Ok(Self(numbers));
        }
        #[cfg(feature = "cuda")]
        if kernels::cuda::batch_norm::serves(&[rows])? {
            let numbers = kernels::cuda::batch_norm::channels(rows, both, epsilon)?;
            return Ok(Self(numbers));
        }
        Self::new(moments_of(rows)?, [weight, bias], epsilon)
    }

    fn new(
        [mean, variance]: [Tensor; 2],
        [weight, bias]: [&Value; 2],
        epsilon: f64,
    ) -> Result<Self> {
        let rho = (&variance + epsilon)?.sqrt()?.recip()?;
        let [w, e] = [weight, bias].map(|it| it.tensor().to_dtype(mean.dtype()));
        let factor = (w? * &rho)?;
        let shift = (e? - (&mean * &factor)?)?;
        let all = [mean, variance, rho, factor, shift];
        Ok(Self(Tensor::stack(&all, 0)?))
    }

    fn mean(&self) -> Result<Tensor> {
        Ok(self.0.get(0)?)
    }

    fn rho(&self) -> Result<Tensor> {
        Ok(self.0.get(2)?)
    }

    fn factor(&self) -> Result<Tensor> {
        Ok(self.0.get(3)?)
    }

    fn shift(&self) -> Result<Tensor> {
        Ok(self.0.get(4)?)
    }
}

/// What backward adds up for each channel: de = Σ u, dw, and what is added to dx because mean and variance are those of the batch,
/// dx = w ρ u + x slope + offset. They are rows of [4, d].
struct Slopes(Tensor);

impl Slopes {
    /// From Σ u and Σ u (x - μ): of the n rows that mean and variance are from, or of none.
    fn new(channels: &Channels, [sum, along]: [Tensor; 2], count: Option<usize>) -> Result<Self> {
        let (factor, rho) = (channels.factor()?, channels.rho()?);
        let dw = (along * &rho)?;
        let share = count.map_or(0.0, |it| -1.0 / it as f64);
        let slope = ((&factor * rho)? * &dw)?.affine(share, 0.0)?;
        let offset = (factor * &sum)?.affine(share, 0.0)?;
        let offset = (offset - (&slope * channels.mean()?)?)?;
        Ok(Self(Tensor::stack(&[sum, dw, slope, offset], 0)?))
    }

    fn bias(&self) -> Result<Tensor> {
        Ok(self.0.get(0)?)
    }

    fn weight(&self) -> Result<Tensor> {
        Ok(self.0.get(1)?)
    }

    fn slope(&self) -> Result<Tensor> {
        Ok(self.0.get(2)?)
    }

    fn offset(&self) -> Result<Tensor> {
        Ok(self.0.get(3)?)
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
    let _profiled = profile::operation("batch norm");
    let rows = as_rows(x.tensor())?;
    let z = residual.map(|it| as_rows(it.tensor())).transpose()?;
    let count = rows.dim(0)?;
    let of_batch = matches!(moments, Moments::OfBatch);
    let channels = match moments {
        Moments::OfBatch if count < 2 => {
            return Err(Error::Data(
                "batch norm of a single number for each channel, which has no variance: give it more pictures at once"
                    .to_owned(),
            ));
        }
        Moments::OfBatch => Channels::of_batch(&rows, [weight, bias], epsilon)?,
        Moments::Given([mean, variance]) => {
            let dtype = wide_dtype(&rows);
            let moments = [mean.to_dtype(dtype)?, variance.to_dtype(dtype)?];
            Channels::new(moments, [weight, bias], epsilon)?
        }
    };
    let moments = match of_batch {
        true => Some(channels.0.narrow(0, 0, 2)?),
        false => None,
    };
    let norm = Norm {
        rows,
        residual: z,
        channels,
        then,
    };
    let y = norm.apply()?.reshape(x.tensor().shape())?;

    let like = x.tensor().shape().clone();
    let [weight_dtype, bias_dtype] = [weight, bias].map(|it| it.tensor().dtype());
    let wants_residual = residual.is_some_and(Value::wants_gradient);
    let backward = move |gradient: Tensor| {
        let gradient = as_rows(&gradient)?.contiguous()?;
        let slopes = norm.slopes(&gradient, of_batch)?;
        let (dx, dz) = norm.back(&gradient, &slopes, wants_residual)?;
        let mut gradients = vec![
            Some(dx.reshape(&like)?),
            Some(slopes.weight()?.to_dtype(weight_dtype)?),
            Some(slopes.bias()?.to_dtype(bias_dtype)?),
        ];
        gradients.push(dz.map(|dz| dz.reshape(&like)).transpose()?);
        Ok(gradients)
    };
    let mut inputs = vec![x, weight, bias];
    inputs.extend(residual);
    Ok(Normalized {
        value: Value::record(y, &inputs, backward),
        moments,
    })
}

/// What y is computed from, and what is kept for the way back.
struct Norm {
    rows: Tensor,
    residual: Option<Tensor>,
    channels: Channels,
    then: Then,
}

/// The same as kernels of GPUs take it: x [n, d] with what follows it.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a> {
    pub(crate) x: &'a Tensor,
    pub(crate) residual: Option<&'a Tensor>,
    pub(crate) then: Then,
}

impl Norm {
    /// y = φ(x w ρ + shift + z).
    fn apply(&self) -> Result<Tensor> {
        if kernels::metal::batch_norm::serves(&self.tensors()) {
            return kernels::metal::batch_norm::apply(self.of_gpu(), &self.channels.0);
        }
        if kernels::cpu::serves(Kernel::BatchNorm, &[&self.rows]) {
            return kernels::cpu::batch_norm::apply(&self.rows, self.of_cpu()?);
        }
        #[cfg(feature = "cuda")]
        if kernels::cuda::batch_norm::serves(&self.tensors())? {
            return kernels::cuda::batch_norm::apply(self.of_gpu(), &self.channels.0);
        }
        let y = self.then.apply(&self.before()?)?;
        Ok(y.to_dtype(self.rows.dtype())?)
    }

    /// What is added up for each channel.
    fn slopes(&self, gradient: &Tensor, of_batch: bool) -> Result<Slopes> {
        let (channels, rows) = (&self.channels.0, self.of_gpu());
        if kernels::metal::batch_norm::serves(&self.with(gradient)) {
            return kernels::metal::batch_norm::slopes(gradient, rows, channels, of_batch)
                .map(Slopes);
        }
        #[cfg(feature = "cuda")]
        if kernels::cuda::batch_norm::serves(&self.with(gradient))? {
            return kernels::cuda::batch_norm::slopes(gradient, rows, channels, of_batch)
                .map(Slopes);
        }
        let count = of_batch.then_some(self.rows.dim(0)?);
        Slopes::new(&self.channels, self.sums(gradient)?, count)
    }

    /// Σ u and Σ u (x - μ), each [d].
    fn sums(&self, gradient: &Tensor) -> Result<[Tensor; 2]> {
        let mean = self.channels.mean()?;
        if kernels::cpu::serves(Kernel::BatchNorm, &[gradient, &self.rows]) {
            let before = self.of_cpu()?;
            return kernels::cpu::batch_norm::sums(gradient, &self.rows, before, &mean);
        }
        let u = self.slope(&widen(gradient)?)?;
        let centred = widen(&self.rows)?.broadcast_sub(&mean)?;
        Ok([u.sum(0)?, (u * centred)?.sum(0)?])
    }

    /// dx = w ρ u + x slope + offset, and u where it is wanted.
    fn back(
        &self,
        gradient: &Tensor,
        slopes: &Slopes,
        wants_u: bool,
    ) -> Result<(Tensor, Option<Tensor>)> {
        let both = [&self.channels.0, &slopes.0];
        if kernels::metal::batch_norm::serves(&self.with(gradient)) {
            return kernels::metal::batch_norm::back(gradient, self.of_gpu(), both, wants_u);
        }
        #[cfg(feature = "cuda")]
        if kernels::cuda::batch_norm::serves(&self.with(gradient))? {
            return kernels::cuda::batch_norm::back(gradient, self.of_gpu(), both, wants_u);
        }
        let [slope, offset] = [slopes.slope()?, slopes.offset()?];
        if kernels::cpu::serves(Kernel::BatchNorm, &[gradient, &self.rows]) {
            let both = [&slope, &offset];
            let before = self.of_cpu()?;
            return kernels::cpu::batch_norm::back(gradient, &self.rows, before, both, wants_u);
        }
        let dtype = self.rows.dtype();
        let u = self.slope(&widen(gradient)?)?;
        let dx = u
            .broadcast_mul(&self.channels.factor()?)?
            .add(&widen(&self.rows)?.broadcast_mul(&slope)?)?
            .broadcast_add(&offset)?;
        let u = wants_u.then(|| u.to_dtype(dtype)).transpose()?;
        Ok((dx.to_dtype(dtype)?, u))
    }

    /// u = g ⊙ φ'.
    fn slope(&self, gradient: &Tensor) -> Result<Tensor> {
        Ok((self.then.derivative(&self.before()?)? * gradient)?)
    }

    /// What φ is applied to.
    fn before(&self) -> Result<Tensor> {
        let y = widen(&self.rows)?
            .broadcast_mul(&self.channels.factor()?)?
            .broadcast_add(&self.channels.shift()?)?;
        Ok(match &self.residual {
            Some(z) => (y + widen(z)?)?,
            None => y,
        })
    }

    fn of_cpu(&self) -> Result<kernels::cpu::batch_norm::Before<'_>> {
        let both = [&self.channels.factor()?, &self.channels.shift()?];
        kernels::cpu::batch_norm::Before::of(both, self.residual.as_ref(), self.then)
    }

    fn of_gpu(&self) -> Rows<'_> {
        Rows {
            x: &self.rows,
            residual: self.residual.as_ref(),
            then: self.then,
        }
    }

    fn tensors(&self) -> Vec<&Tensor> {
        [&self.rows].into_iter().chain(&self.residual).collect()
    }

    fn with<'a>(&'a self, gradient: &'a Tensor) -> Vec<&'a Tensor> {
        [gradient].into_iter().chain(self.tensors()).collect()
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
        let moments = run(Moments::OfBatch).unwrap().moments.unwrap();
        let [mean, variance] = [0, 1].map(|row| moments.get(row).unwrap());
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
