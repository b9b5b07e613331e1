//! Losses of few classes: one of many, where the scores of all fit into memory, and yes or no.
//!
//! With scores x [n, v], class y and weight w of each row, the loss is Σ w (ln Σ s(x) - ln s(x_y)) over the rows. Softmax has
//! s(x) = eˣ. Stablemax has s(x) = 1 + x for x ≥ 0 and 1/(1 - x) below (Prieto et al., 2025,
//! <https://arxiv.org/abs/2501.04697>), so that ln s(x) = sign(x) ln(1 + |x|) and, with s'(x) = 1 for x ≥ 0 and 1/(1 - x)²
//! below, dx_i = w (s'(x_i)/Σ s - [i = y]/(1 + |x_y|)). Written so, no dead branch divides by zero at x = 1.
//! With smoothing ε, a class is meant with 1 - ε, and all of them with ε/v each.
//!
//! Deliberately absent: scores of vocabularies, which are computed a part at a time (`cross_entropy`).

use candle_core::{D, DType, Tensor};
use serde::{Deserialize, Serialize};

use crate::{
    Result,
    ops::{kernels, widen},
    profile,
    tape::Value,
};

/// How scores become probabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Squash {
    /// s(x) = 1 + x, and 1/(1 - x) below 0: grows and falls as no exponential does.
    #[default]
    Stablemax,
    /// s(x) = eˣ.
    Softmax,
}

/// The loss of scores [n, v] where `classes` [n] (u32) are meant, each row times its weight [n] -> one number, f32 or wider.
/// Saves the gradient.
pub fn classify(
    scores: &Value,
    classes: &Tensor,
    weights: &Tensor,
    squash: Squash,
    smoothing: f64,
) -> Result<Value> {
    let _profiled = profile::operation("classification loss");
    let dtype = scores.tensor().dtype();
    let loss = loss_function(scores.tensor());
    let [loss, saved] = loss(scores.tensor(), classes, weights, squash, smoothing)?;
    Ok(Value::record(loss, &[scores], move |gradient: Tensor| {
        let gradient = saved.broadcast_mul(&gradient.to_dtype(saved.dtype())?)?;
        Ok(vec![Some(gradient.to_dtype(dtype)?)])
    }))
}

impl Squash {
    /// Its place in the lists of kernels.
    pub(crate) fn number(self) -> usize {
        match self {
            Self::Stablemax => 0,
            Self::Softmax => 1,
        }
    }
}

/// What computes a loss from scores, classes, weights, squash and smoothing.
type Loss = fn(&Tensor, &Tensor, &Tensor, Squash, f64) -> Result<[Tensor; 2]>;

/// What computes the loss of such scores.
fn loss_function(scores: &Tensor) -> Loss {
    if kernels::metal::classify::serves(scores) {
        return kernels::metal::classify::loss;
    }
    #[cfg(feature = "cuda")]
    if kernels::cuda::serves(kernels::Kernel::Classify, &[scores]) {
        return kernels::cuda::losses::classify;
    }
    composed
}

/// The sum of the losses, and the gradient of the scores, f32 or wider.
fn composed(
    scores: &Tensor,
    classes: &Tensor,
    weights: &Tensor,
    squash: Squash,
    smoothing: f64,
) -> Result<[Tensor; 2]> {
    let x = widen(scores)?;
    let weights = weights.to_dtype(x.dtype())?.unsqueeze(1)?;
    let v = x.dim(D::Minus1)? as f64;
    let meant = one_hot(classes, &x)?.affine(1.0 - smoothing, smoothing / v)?;
    // ln s, ln Σ s, and the slopes of both: of the first by x itself, of the second by each x.
    let (log, log_sum, slope, share) = match squash {
        Squash::Softmax => {
            let shifted = x.broadcast_sub(&x.max_keepdim(D::Minus1)?)?;
            let exponentials = shifted.exp()?;
            let sum = exponentials.sum_keepdim(D::Minus1)?;
            let share = exponentials.broadcast_div(&sum)?;
            (shifted, sum.log()?, x.ones_like()?, share)
        }
        Squash::Stablemax => {
            let size = (x.abs()? + 1.0)?;
            let inverse = size.recip()?;
            let is_positive = x.ge(0.0)?;
            let log = size.log()?;
            let log = is_positive.where_cond(&log, &log.neg()?)?;
            let sum = is_positive
                .where_cond(&size, &inverse)?
                .sum_keepdim(D::Minus1)?;
            let rise = is_positive.where_cond(&x.ones_like()?, &inverse.sqr()?)?;
            (log, sum.log()?, inverse, rise.broadcast_div(&sum)?)
        }
    };
    let losses = (log_sum - (&meant * log)?.sum_keepdim(D::Minus1)?)?;
    let loss = (losses * &weights)?.sum_all()?;
    let gradient = (share - (meant * slope)?)?.broadcast_mul(&weights)?;
    Ok([loss, gradient])
}

/// The probabilities that scores [.., v] mean, of the same shape: each s(x), divided by their sum. There is no way back.
pub fn probabilities(scores: &Tensor, squash: Squash) -> Result<Tensor> {
    let x = scores.to_dtype(DType::F32)?;
    let strengths = match squash {
        Squash::Softmax => x.broadcast_sub(&x.max_keepdim(D::Minus1)?)?.exp()?,
        Squash::Stablemax => {
            let size = (x.abs()? + 1.0)?;
            x.ge(0f32)?.where_cond(&size, &size.recip()?)?
        }
    };
    Ok(strengths.broadcast_div(&strengths.sum_keepdim(D::Minus1)?)?)
}

/// Σ w (max(x, 0) - x y + ln(1 + e^-|x|)): the loss of scores x [n] of yes, where y [n] is 1 for yes and 0 for no, and `weight`
/// the same w for all -> one number, f32 or wider. Backward: w (σ(x) - y).
pub fn yes_or_no(scores: &Value, truth: &Tensor, weight: f64) -> Result<Value> {
    let _profiled = profile::operation("yes-or-no loss");
    let dtype = scores.tensor().dtype();
    let x = widen(scores.tensor())?;
    let truth = truth.to_dtype(x.dtype())?;
    let rest = (x.abs()?.neg()?.exp()? + 1.0)?.log()?;
    let loss = ((x.relu()? - (&x * &truth)?)? + rest)?.affine(weight, 0.0)?;
    Ok(Value::record(
        loss.sum_all()?,
        &[scores],
        move |gradient: Tensor| {
            let chance = (x.neg()?.exp()? + 1.0)?.recip()?;
            let own = (chance - truth)?.affine(weight, 0.0)?;
            let gradient = own.broadcast_mul(&gradient.to_dtype(own.dtype())?)?;
            Ok(vec![Some(gradient.to_dtype(dtype)?)])
        },
    ))
}

/// 1 at the class of each row, and 0 elsewhere: [n] -> [n, v] in the dtype of `like` [n, v].
fn one_hot(classes: &Tensor, like: &Tensor) -> Result<Tensor> {
    let all = Tensor::arange(0, like.dim(D::Minus1)? as u32, like.device())?;
    let classes = classes.to_dtype(DType::U32)?.unsqueeze(1)?;
    Ok(classes
        .broadcast_eq(&all.unsqueeze(0)?)?
        .to_dtype(like.dtype())?)
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
    fn gradients_match_finite_differences() {
        let classes = Tensor::new(&[3u32, 0, 2], &Device::Cpu).unwrap();
        let weights = Tensor::new(&[1.0f64, 0.5, 0.0], &Device::Cpu).unwrap();
        for (squash, smoothing) in [
            (Squash::Stablemax, 0.0),
            (Squash::Softmax, 0.0),
            (Squash::Stablemax, 0.2),
            (Squash::Softmax, 0.2),
        ] {
            check_gradients(&[normal(1, &[3, 5])], |_, v| {
                classify(&v[0], &classes, &weights, squash, smoothing)
            });
        }
        let truth = Tensor::new(&[1.0f64, 0.0, 1.0], &Device::Cpu).unwrap();
        check_gradients(&[normal(2, &[3])], |_, v| yes_or_no(&v[0], &truth, 0.7));
    }

    #[test]
    fn stablemax_has_a_gradient_at_one_where_the_reference_has_none() {
        // The scores, and their gradient in f64, at which PyTorch's own derivative of the formula is not a number in f32.
        let tape = Tape::new(0);
        let x = tape.input(Tensor::new(&[[1f32, -0.5, 2.0, 0.0]], &Device::Cpu).unwrap());
        let classes = Tensor::new(&[2u32], &Device::Cpu).unwrap();
        let weights = Tensor::new(&[1f32], &Device::Cpu).unwrap();
        let loss = classify(&x, &classes, &weights, Squash::Stablemax, 0.0).unwrap();
        let one = loss.tensor().ones_like().unwrap();
        let found = tape
            .backward_to(&loss, one, &[&x], &mut Gradients::default())
            .unwrap();
        let found: Vec<f32> = found[0]
            .as_ref()
            .unwrap()
            .flatten_all()
            .unwrap()
            .to_vec1()
            .unwrap();
        for (found, expected) in found.iter().zip([0.15, 0.0667, -0.1833, 0.15]) {
            assert!((found - expected).abs() < 5e-5, "{found} {expected}");
        }
    }

    #[test]
    fn probabilities_are_those_whose_logarithm_is_the_loss() {
        let scores = Tensor::new(
            &[[1f32, -0.5, 2.0, 0.0], [-3.0, 0.25, 1.0, -1.0]],
            &Device::Cpu,
        );
        let scores = scores.unwrap();
        let weights = Tensor::new(&[1f32, 0.0], &Device::Cpu).unwrap();
        let classes = Tensor::new(&[2u32, 0], &Device::Cpu).unwrap();
        for squash in [Squash::Stablemax, Squash::Softmax] {
            let shares: Vec<Vec<f32>> = probabilities(&scores, squash).unwrap().to_vec2().unwrap();
            for row in &shares {
                assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-6);
            }
            let x = Value::constant(scores.clone());
            let loss = classify(&x, &classes, &weights, squash, 0.0).unwrap();
            let loss: f32 = loss.tensor().to_scalar().unwrap();
            assert!((loss + shares[0][2].ln()).abs() < 1e-6, "{squash:?}");
        }
    }
}
