//! The gate of a feed-forward part, in one pass each way. Saves a and c.

use candle_core::Tensor;

use crate::{
    Result,
    ops::{
        gated::Activation,
        kernels::cuda::{Launch, output},
    },
    tape::Value,
};

/// See [`gated`](crate::ops::gated::gated).
pub(crate) fn gated(gate: &Value, up: &Value, activation: Activation) -> Result<Value> {
    let (a, c) = (gate.tensor().contiguous()?, up.tensor().contiguous()?);
    let count = a.elem_count();
    // The order of the enum in `kernels.cu`.
    let activation = match activation {
        Activation::Silu => 0,
        Activation::Gelu => 1,
        Activation::GeluTanh => 2,
    };
    let like = |x: &Tensor| output(x.shape(), x.dtype(), x);
    let y = like(&a)?;
    Launch::of("gated", &a)?
        .tensors(&[&a, &c, &y])?
        .count(count)
        .whole(&[activation])
        .for_each(count)?;
    Ok(Value::record(y, &[gate, up], move |gradient: Tensor| {
        let (da, dc) = (like(&a)?, like(&c)?);
        Launch::of("gated_back", &a)?
            .tensors(&[&a, &c, &gradient.contiguous()?, &da, &dc])?
            .count(count)
            .whole(&[activation])
            .for_each(count)?;
        Ok(vec![Some(da), Some(dc)])
    }))
}
