//! Addition, scaling, and the same numbers in another shape or dtype, whole or in part.

use candle_core::{D, DType, Tensor, shape::Dim};

use crate::{
    Result,
    ops::{
        batch_norm::Then,
        kernels::{self, Kernel},
        sum::sum,
        widen,
    },
    profile,
    tape::Value,
};

/// x + y, of the same shape. Backward: the gradient goes to both. Saves nothing.
pub fn add(x: &Value, y: &Value) -> Result<Value> {
    let _profiled = profile::operation("add");
    let z = sum(Kernel::Add, x.tensor(), y.tensor())?;
    Ok(Value::record(z, &[x, y], |gradient| {
        Ok(vec![Some(gradient.clone()), Some(gradient)])
    }))
}

/// s · x. Backward: s · g. Saves nothing.
pub fn scale(x: &Value, factor: f64) -> Result<Value> {
    let _profiled = profile::operation("scale");
    let y = times(factor, x.tensor())?;
    Ok(Value::record(y, &[x], move |gradient| {
        Ok(vec![Some(times(factor, &gradient)?)])
    }))
}

/// Places `start..start + length` of a dimension: `narrow(x, D::Minus1, 2, 3)` of [.., d] is [.., 3].
///
/// Backward: the gradient, with zeros around it. Saves nothing.
pub fn narrow(x: &Value, dimension: impl Dim, start: usize, length: usize) -> Result<Value> {
    let _profiled = profile::operation("narrow");
    let dimension = dimension.to_index(x.tensor().shape(), "narrow")?;
    let all = x.tensor().dim(dimension)?;
    let y = x
        .tensor()
        .narrow(dimension, start, length)?
        .force_contiguous()?;
    Ok(Value::record(y, &[x], move |gradient: Tensor| {
        let after = all - start - length;
        Ok(vec![Some(
            gradient.pad_with_zeros(dimension, start, after)?,
        )])
    }))
}

/// x, and y after it along the second dimension: [b, m, d] and [b, n, d] -> [b, m + n, d]. Saves nothing.
pub fn join(x: &Value, y: &Value) -> Result<Value> {
    let _profiled = profile::operation("join");
    let (m, n) = (x.tensor().dim(1)?, y.tensor().dim(1)?);
    let z = Tensor::cat(&[x.tensor(), y.tensor()], 1)?;
    Ok(Value::record(z, &[x, y], move |gradient: Tensor| {
        let part = |start, length| gradient.narrow(1, start, length)?.contiguous();
        Ok(vec![Some(part(0, m)?), Some(part(m, n)?)])
    }))
}

/// Zeros after the last column: x [.., d] -> [.., width]. Saves nothing.
pub fn pad(x: &Value, width: usize) -> Result<Value> {
    let _profiled = profile::operation("pad");
    let before = x.tensor().dim(D::Minus1)?;
    let y = x.tensor().pad_with_zeros(D::Minus1, 0, width - before)?;
    Ok(Value::record(y, &[x], move |gradient: Tensor| {
        let gradient = gradient.narrow(D::Minus1, 0, before)?;
        Ok(vec![Some(gradient.contiguous()?)])
    }))
}

/// The first two dimensions exchanged: x [m, n, ..] -> [n, m, ..]. Saves nothing.
pub fn swap(x: &Value) -> Result<Value> {
    let _profiled = profile::operation("transpose");
    let y = swapped(x.tensor())?;
    Ok(Value::record(y, &[x], move |gradient: Tensor| {
        Ok(vec![Some(swapped(&gradient)?)])
    }))
}

fn swapped(x: &Tensor) -> Result<Tensor> {
    #[cfg(feature = "cuda")]
    if kernels::cuda::serves(Kernel::Add, &[x]) {
        return kernels::cuda::elementwise::swap(x);
    }
    Ok(x.transpose(0, 1)?.contiguous()?)
}

/// The dimensions of x, of rank 4, in another order: `turn(x, [0, 3, 1, 2])` of [b, h, w, c] is [b, c, h, w]. Saves nothing.
pub fn turn(x: &Value, order: [usize; 4]) -> Result<Value> {
    let _profiled = profile::operation("transpose");
    let y = x.tensor().permute(order)?.contiguous()?;
    let mut back = [0; 4];
    for (to, from) in order.into_iter().enumerate() {
        back[from] = to;
    }
    Ok(Value::record(y, &[x], move |gradient: Tensor| {
        Ok(vec![Some(gradient.permute(back)?.contiguous()?)])
    }))
}

/// φ(x). Backward: g ⊙ φ'(x). Saves x.
pub fn activate(x: &Value, then: Then) -> Result<Value> {
    let _profiled = profile::operation("activation");
    let dtype = x.tensor().dtype();
    let before = x.tensor().clone();
    let y = then.apply(&widen(&before)?)?.to_dtype(dtype)?;
    Ok(Value::record(y, &[x], move |gradient: Tensor| {
        let slope = then.derivative(&widen(&before)?)?;
        Ok(vec![Some((slope * widen(&gradient)?)?.to_dtype(dtype)?)])
    }))
}

/// The same numbers in another shape.
pub fn reshape(x: &Value, shape: &[usize]) -> Result<Value> {
    let _profiled = profile::operation("reshape");
    let before = x.tensor().dims().to_vec();
    let y = reshaped(x.tensor(), shape)?;
    Ok(Value::record(y, &[x], move |gradient: Tensor| {
        Ok(vec![Some(reshaped(&gradient, &before)?)])
    }))
}

fn reshaped(x: &Tensor, shape: &[usize]) -> Result<Tensor> {
    if !x.is_contiguous() {
        kernels::metal::note("copy");
    }
    Ok(x.reshape(shape)?)
}

/// The same numbers in another dtype; the gradient is converted back.
pub fn convert(x: &Value, dtype: DType) -> Result<Value> {
    let _profiled = profile::operation("conversion");
    let before = x.tensor().dtype();
    let y = x.tensor().to_dtype(dtype)?;
    Ok(Value::record(y, &[x], move |gradient| {
        Ok(vec![Some(gradient.to_dtype(before)?)])
    }))
}

fn times(factor: f64, x: &Tensor) -> Result<Tensor> {
    if kernels::cpu::serves(Kernel::Scale, &[x]) {
        return kernels::cpu::elementwise::scale(x, factor);
    }
    Ok(x.affine(factor, 0.0)?)
}

/// x times a number that lies beside it. x may be changed: nobody else holds it.
pub(crate) fn scaled_by(x: Tensor, factor: &Tensor) -> Result<Tensor> {
    #[cfg(feature = "cuda")]
    if kernels::cuda::serves(Kernel::Add, &[&x]) && x.is_contiguous() {
        kernels::cuda::elementwise::scale(&x, &factor.to_dtype(DType::F32)?)?;
        return Ok(x);
    }
    Ok(x.broadcast_mul(&factor.to_dtype(x.dtype())?)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{check_gradients, normal};

    #[test]
    fn gradients_match_finite_differences() {
        let inputs = [normal(1, &[2, 6]), normal(2, &[2, 6])];
        check_gradients(&inputs, |_, v| add(&v[0], &v[1]));
        check_gradients(&inputs[..1], |_, v| scale(&v[0], -1.5));
        check_gradients(&inputs[..1], |_, v| narrow(&v[0], D::Minus1, 2, 3));
        check_gradients(&inputs[..1], |_, v| pad(&v[0], 8));
        let inputs = [normal(1, &[2, 3, 4]), normal(2, &[2, 1, 4])];
        check_gradients(&inputs, |_, v| join(&v[0], &v[1]));
        check_gradients(&inputs[..1], |_, v| narrow(&v[0], 1, 1, 2));
        check_gradients(&inputs[..1], |_, v| swap(&v[0]));
        for then in [Then::Nothing, Then::Relu, Then::Gelu] {
            check_gradients(&inputs[..1], |_, v| activate(&v[0], then));
        }
        check_gradients(&[normal(1, &[2, 3, 4, 5])], |_, v| {
            turn(&v[0], [0, 3, 1, 2])
        });
    }

    #[test]
    fn a_value_used_twice_collects_both_gradients() {
        check_gradients(&[normal(1, &[2, 6])], |_, v| {
            add(&scale(&v[0], 3.0)?, &v[0])
        });
    }
}
