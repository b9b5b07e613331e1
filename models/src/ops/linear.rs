//! Linear layers: y = x Wᵀ + c.
//!
//! Backward: dx = g W, dW = gᵀ x, dc = the sum of g over rows. Saves x only when dW is wanted; for a frozen weight the
//! layer saves nothing but the weight itself, which is there anyway.

use candle_core::Tensor;

use crate::{
    Result,
    ops::{as_rows, rows_like, wide_dtype},
    tape::Value,
};

/// y = x Wᵀ + c, with x [.., i], weight W [o, i], bias c [o] -> [.., o].
///
/// The weight may be kept in another dtype than x; it is converted for the product, and its gradient comes back in its
/// own dtype. A weight without a slot is frozen and costs nothing in backward but the product for dx.
pub fn linear(x: &Value, weight: &Value, bias: Option<&Value>) -> Result<Value> {
    let rows = as_rows(x.tensor())?;
    let mut y = project(&rows, weight.tensor())?;
    if let Some(bias) = bias {
        y = y.broadcast_add(&bias.tensor().to_dtype(y.dtype())?)?;
    }
    let y = rows_like(&y, x.tensor())?;

    let (like, frozen) = (x.tensor().clone(), weight.tensor().clone());
    let wants_x = x.wants_gradient();
    let saved_x = weight.wants_gradient().then_some(rows);
    let bias_dtype = bias
        .filter(|bias| bias.wants_gradient())
        .map(|bias| bias.tensor().dtype());
    let backward = move |gradient: Tensor| {
        let gradient = as_rows(&gradient)?;
        let dx = match wants_x {
            true => Some(rows_like(&project_back(&gradient, &frozen)?, &like)?),
            false => None,
        };
        let dw = match saved_x {
            Some(x) => Some(weight_gradient(&gradient, &x)?.to_dtype(frozen.dtype())?),
            None => None,
        };
        let dc = match bias_dtype {
            Some(dtype) => Some(sum_rows(&gradient)?.to_dtype(dtype)?),
            None => None,
        };
        Ok(vec![dx, dw, dc])
    };
    let mut inputs = vec![x, weight];
    inputs.extend(bias);
    Ok(Value::record(y, &inputs, backward))
}

/// x Wᵀ: x [n, i], weight [o, i] -> [n, o].
pub(crate) fn project(x: &Tensor, weight: &Tensor) -> Result<Tensor> {
    Ok(x.matmul(&weight.to_dtype(x.dtype())?.t()?)?)
}

/// g W: gradient [n, o], weight [o, i] -> [n, i].
pub(crate) fn project_back(gradient: &Tensor, weight: &Tensor) -> Result<Tensor> {
    Ok(gradient.matmul(&weight.to_dtype(gradient.dtype())?)?)
}

/// gᵀ x: gradient [n, o], x [n, i] -> [o, i].
pub(crate) fn weight_gradient(gradient: &Tensor, x: &Tensor) -> Result<Tensor> {
    Ok(gradient.t()?.matmul(x)?)
}

/// The sum over rows, in f32 or wider: [n, d] -> [d].
pub(crate) fn sum_rows(x: &Tensor) -> Result<Tensor> {
    Ok(x.to_dtype(wide_dtype(x))?.sum(0)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{check_gradients, normal};

    #[test]
    fn every_input_gets_its_gradient() {
        let inputs = [normal(1, &[2, 3, 4]), normal(2, &[5, 4]), normal(3, &[5])];
        check_gradients(&inputs, |_, v| linear(&v[0], &v[1], Some(&v[2])));
        check_gradients(&inputs[..2], |_, v| linear(&v[0], &v[1], None));
    }

    #[test]
    fn a_frozen_weight_gets_none_and_saves_nothing() {
        let weight = Value::constant(normal(2, &[5, 4]));
        check_gradients(&[normal(1, &[2, 3, 4])], |_, v| {
            linear(&v[0], &weight, None)
        });
        let x = Value::constant(normal(1, &[2, 3, 4]));
        assert!(!linear(&x, &weight, None).unwrap().wants_gradient());
    }
}
