//! The gate of a feed-forward part, a thread for each number, in one pass each way. The gate of two tensors saves them.

use candle_core::{Shape, Tensor};

use super::{launch::Launch, output, output_like, side_by_side};
use crate::{
    Result,
    ops::{feed_forward::Along, gated::Activation},
    tape::Value,
};

/// See [`gated`](crate::ops::gated::gated).
pub(crate) fn gated(gate: &Value, up: &Value, activation: Activation) -> Result<Value> {
    let (a, c) = (side_by_side(gate.tensor())?, side_by_side(up.tensor())?);
    let count = a.elem_count();
    let values = [count, activation.number()];
    let y = output_like(&a)?;
    Launch::of("gated", a.dtype(), &[count])?
        .tensors(&[&a, &c, &y])?
        .whole(&values)?
        .for_each(count)?;
    Ok(Value::record(y, &[gate, up], move |gradient: Tensor| {
        let (da, dc) = (output_like(&a)?, output_like(&c)?);
        Launch::of("gated_back", a.dtype(), &[count])?
            .tensors(&[&a, &c, &side_by_side(&gradient)?, &da, &dc])?
            .whole(&values)?
            .for_each(count)?;
        Ok(vec![Some(da), Some(dc)])
    }))
}

/// See [`halves`](crate::ops::gated::halves).
pub(crate) fn halves(both: &Tensor, activation: Activation, along: Along) -> Result<Tensor> {
    let both = side_by_side(both)?;
    let lines = Lines::of(&both, along)?;
    let y = output(&lines.shape, both.dtype(), &both)?;
    lines.launch("halves", &[&both, &y], activation)?;
    Ok(y)
}

/// See [`halves_back`](crate::ops::gated::halves_back).
pub(crate) fn halves_back(
    both: &Tensor,
    gradient: &Tensor,
    activation: Activation,
    along: Along,
) -> Result<(Tensor, Tensor)> {
    let (both, gradient) = (side_by_side(both)?, side_by_side(gradient)?);
    let lines = Lines::of(&both, along)?;
    let y = output(&lines.shape, both.dtype(), &both)?;
    let d_both = output_like(&both)?;
    let tensors = [&both, &gradient, &y, &d_both];
    lines.launch("halves_back", &tensors, activation)?;
    Ok((y, d_both))
}

/// Lines of two halves, one after the other.
struct Lines {
    /// The shape of all halves.
    shape: Shape,
    /// Numbers of a half.
    inner: usize,
}

impl Lines {
    fn of(both: &Tensor, along: Along) -> Result<Self> {
        let (first, second) = both.dims2()?;
        Ok(match along {
            Along::First => Self {
                shape: (first / 2, second).into(),
                inner: first / 2 * second,
            },
            Along::Last => Self {
                shape: (first, second / 2).into(),
                inner: second / 2,
            },
        })
    }

    fn launch(&self, name: &str, tensors: &[&Tensor], activation: Activation) -> Result<()> {
        let count = self.shape.elem_count();
        Launch::of(name, tensors[0].dtype(), &[self.inner])?
            .tensors(tensors)?
            .whole(&[count, self.inner, activation.number()])?
            .for_each(count)
    }
}
