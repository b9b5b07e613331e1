//! Normalization of each row: root mean square, and mean with variance.
//!
//! With x̂ the normalized row, ρ the factor it was scaled by, u = g ⊙ w and ⟨·⟩ the mean over the row:
//! RMS norm: x̂ = ρ x, ρ = 1/√(⟨x²⟩ + ε), dx = ρ (u - x̂ ⟨u x̂⟩), dw = Σ g x̂ over rows.
//! Layer norm: x̂ = ρ (x - ⟨x⟩), dx = ρ (u - ⟨u⟩ - x̂ ⟨u x̂⟩), dw as above, dc = Σ g.
//! Zhang and Sennrich, 2019 (<https://arxiv.org/abs/1910.07467>); Ba et al., 2016 (<https://arxiv.org/abs/1607.06450>).
//! Both save x; backward computes x̂ again.
//!
//! Where the norm of a sum x + z has no weight, the output is x̂ itself: only that is saved, and both get the same gradient.

use candle_core::{D, Tensor};

use crate::{
    Result,
    ops::{
        as_rows,
        feed_forward::Along,
        kernels::{self, Kernel},
        linear::sum_rows,
        rows_like, widen,
    },
    profile,
    tape::Value,
};

/// RMS norm: x [.., d], weight w [d] -> [.., d].
///
/// `weight_offset` is added to the weight: 0, or 1 for the Gemma family, whose checkpoints store w - 1.
pub fn rms_norm(x: &Value, weight: &Value, weight_offset: f64, epsilon: f64) -> Result<Value> {
    let _profiled = profile::operation("RMS norm");
    if kernels::metal::serves(Kernel::RmsNorm, &[x.tensor()]) {
        return kernels::metal::norm::rms_norm(x, weight, weight_offset, epsilon);
    }
    if kernels::cpu::serves(Kernel::RmsNorm, &[x.tensor()]) {
        return kernels::cpu::norm::rms_norm(x, weight, weight_offset, epsilon);
    }
    #[cfg(feature = "cuda")]
    if kernels::cuda::serves(Kernel::RmsNorm, &[x.tensor()]) {
        return kernels::cuda::norm::rms_norm(x, weight, weight_offset, epsilon);
    }
    let x_dtype = x.tensor().dtype();
    let rows = as_rows(x.tensor())?;
    let factor = widen(weight.tensor())?.affine(1.0, weight_offset)?;
    let (normalized, _) = normalize(&rows, false, epsilon)?;
    let y = normalized
        .broadcast_mul(&factor.to_dtype(normalized.dtype())?)?
        .to_dtype(x_dtype)?;
    let y = rows_like(&y, x.tensor())?;

    let like = x.tensor().clone();
    let weight_dtype = weight.wants_gradient().then_some(weight.tensor().dtype());
    Ok(Value::record(y, &[x, weight], move |gradient: Tensor| {
        let gradient = widen(&as_rows(&gradient)?)?;
        let (normalized, rho) = normalize(&rows, false, epsilon)?;
        let u = gradient.broadcast_mul(&factor)?;
        let along = (&u * &normalized)?.mean_keepdim(D::Minus1)?;
        let dx = (u - normalized.broadcast_mul(&along)?)?.broadcast_mul(&rho)?;
        let dw = match weight_dtype {
            Some(dtype) => Some(sum_rows(&(gradient * normalized)?)?.to_dtype(dtype)?),
            None => None,
        };
        Ok(vec![
            Some(rows_like(&dx.to_dtype(like.dtype())?, &like)?),
            dw,
        ])
    }))
}

/// Layer norm: x [.., d], weight w [d], bias c [d] -> [.., d].
pub fn layer_norm(x: &Value, weight: &Value, bias: &Value, epsilon: f64) -> Result<Value> {
    let _profiled = profile::operation("layer norm");
    if kernels::metal::serves(Kernel::LayerNorm, &[x.tensor()]) {
        return kernels::metal::norm::layer_norm(x, weight, bias, epsilon);
    }
    if kernels::cpu::serves(Kernel::LayerNorm, &[x.tensor()]) {
        return kernels::cpu::norm::layer_norm(x, weight, bias, epsilon);
    }
    let x_dtype = x.tensor().dtype();
    let rows = as_rows(x.tensor())?;
    let factor = widen(weight.tensor())?;
    let (normalized, _) = normalize(&rows, true, epsilon)?;
    let y = normalized
        .broadcast_mul(&factor)?
        .broadcast_add(&widen(bias.tensor())?)?;
    let y = rows_like(&y.to_dtype(x_dtype)?, x.tensor())?;

    let like = x.tensor().clone();
    let (weight_dtype, bias_dtype) = (weight.tensor().dtype(), bias.tensor().dtype());
    Ok(Value::record(
        y,
        &[x, weight, bias],
        move |gradient: Tensor| {
            let gradient = widen(&as_rows(&gradient)?)?;
            let (normalized, rho) = normalize(&rows, true, epsilon)?;
            let u = gradient.broadcast_mul(&factor)?;
            let along = (&u * &normalized)?.mean_keepdim(D::Minus1)?;
            let centred = u.broadcast_sub(&u.mean_keepdim(D::Minus1)?)?;
            let dx = (centred - normalized.broadcast_mul(&along)?)?.broadcast_mul(&rho)?;
            let dw = sum_rows(&(&gradient * normalized)?)?.to_dtype(weight_dtype)?;
            let dc = sum_rows(&gradient)?.to_dtype(bias_dtype)?;
            Ok(vec![
                Some(rows_like(&dx.to_dtype(like.dtype())?, &like)?),
                Some(dw),
                Some(dc),
            ])
        },
    ))
}

/// RMS norm of the sum x + z without a weight, over one dimension: of the same shape as both.
pub fn residual_norm(x: &Value, branch: &Value, along: Along, epsilon: f64) -> Result<Value> {
    let _profiled = profile::operation("residual norm");
    let tensors = [x.tensor(), branch.tensor()];
    if kernels::metal::serves(Kernel::ResidualNorm, &tensors) {
        return kernels::metal::norm::residual_norm(x, branch, along, epsilon);
    }
    if kernels::cpu::serves(Kernel::ResidualNorm, &tensors) {
        return kernels::cpu::norm::residual_norm(x, branch, along, epsilon);
    }
    #[cfg(feature = "cuda")]
    if kernels::cuda::serves(Kernel::ResidualNorm, &tensors) {
        return kernels::cuda::norm::residual_norm(x, branch, along, epsilon);
    }
    let dimension = along.of_matrix();
    let sum = along.matrix(&(widen(x.tensor())? + widen(branch.tensor())?)?)?;
    let rho = (sum.sqr()?.mean_keepdim(dimension)? + epsilon)?
        .sqrt()?
        .recip()?;
    let normalized = sum.broadcast_mul(&rho)?;
    let (dtype, shape) = (x.tensor().dtype(), x.tensor().shape().clone());
    let y = normalized.to_dtype(dtype)?.reshape(&shape)?;
    Ok(Value::record(y, &[x, branch], move |gradient: Tensor| {
        let gradient = along.matrix(&widen(&gradient)?)?;
        let mean = (&gradient * &normalized)?.mean_keepdim(dimension)?;
        let dx = (gradient - normalized.broadcast_mul(&mean)?)?.broadcast_mul(&rho)?;
        let dx = dx.to_dtype(dtype)?.reshape(&shape)?;
        Ok(vec![Some(dx.clone()), Some(dx)])
    }))
}

/// The normalized rows x̂ [n, d] and the factor ρ [n, 1], in f32 or wider; `centre` subtracts the mean first.
fn normalize(rows: &Tensor, centre: bool, epsilon: f64) -> Result<(Tensor, Tensor)> {
    let mut x = widen(rows)?;
    if centre {
        x = x.broadcast_sub(&x.mean_keepdim(D::Minus1)?)?;
    }
    let rho = (x.sqr()?.mean_keepdim(D::Minus1)? + epsilon)?
        .sqrt()?
        .recip()?;
    Ok((x.broadcast_mul(&rho)?, rho))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{check_close, check_gradients, check_kernel, normal};

    #[test]
    fn the_kernel_for_the_cpu_is_exact_far_from_zero() {
        // A mean that is large against the differences, and numbers near the end of the range of squares.
        let [x, weight, bias] = [normal(1, &[5, 64]), normal(2, &[64]), normal(3, &[64])];
        let far = [(&x + 100.0).unwrap(), weight.clone(), bias];
        check_kernel(&far, 1e-3, |v| layer_norm(&v[0], &v[1], &v[2], 1e-5));
        let large = [(x * 1e15).unwrap(), weight];
        check_kernel(&large, 1e-5, |v| rms_norm(&v[0], &v[1], 0.0, 1e-5));
    }

    #[test]
    fn a_sum_is_normalized_along_either_dimension() {
        for along in [Along::First, Along::Last] {
            let inputs = [normal(1, &[4, 3, 5]), normal(2, &[4, 3, 5])];
            check_gradients(&inputs, |_, v| residual_norm(&v[0], &v[1], along, 1e-5));
            for shape in [[2, 3], [97, 1030], [5, 64], [300, 33]] {
                let inputs = [normal(1, &shape), normal(2, &shape)];
                check_kernel(&inputs, 1e-5, |v| residual_norm(&v[0], &v[1], along, 1e-5));
            }
        }
        let inputs = [normal(1, &[4, 6]), normal(2, &[4, 6])].map(Value::constant);
        let y = residual_norm(&inputs[0], &inputs[1], Along::Last, 1e-5).unwrap();
        let ones = Value::constant(normal(3, &[6]).ones_like().unwrap());
        let sum = Value::constant((inputs[0].tensor() + inputs[1].tensor()).unwrap());
        let expected = rms_norm(&sum, &ones, 0.0, 1e-5).unwrap();
        check_close("a row", y.tensor(), expected.tensor(), 1e-12);
    }

    #[test]
    fn gradients_match_finite_differences() {
        let inputs = [normal(1, &[2, 3, 5]), normal(2, &[5]), normal(3, &[5])];
        check_gradients(&inputs[..2], |_, v| rms_norm(&v[0], &v[1], 0.0, 1e-5));
        check_gradients(&inputs[..2], |_, v| rms_norm(&v[0], &v[1], 1.0, 1e-5));
        check_gradients(&inputs, |_, v| layer_norm(&v[0], &v[1], &v[2], 1e-5));
    }
}
