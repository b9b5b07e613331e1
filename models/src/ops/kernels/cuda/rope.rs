//! Rotary positions, a thread per number.

use candle_core::{D, Tensor};

use crate::{
    Result,
    ops::{
        kernels::cuda::{Launch, output},
        rope::Rotation,
    },
};

/// Turns the heads of x [b, t, h, e], or turns them back.
pub(crate) fn rotate(x: &Tensor, rotation: &Rotation, back: bool) -> Result<Tensor> {
    let (_, tokens, heads, width) = x.dims4()?;
    let x = x.contiguous()?;
    let (cos, sin) = (rotation.cos.contiguous()?, rotation.sin.contiguous()?);
    let half = cos.dim(D::Minus1)?;
    let places = cos.dim(0)? * tokens;
    let count = x.elem_count();
    let y = output(x.shape(), x.dtype(), &x)?;
    Launch::of("rotate", &x)?
        .tensors(&[&x, &cos, &sin, &y])?
        .count(count)
        .whole(&[heads, width, half, places])
        .numbers(&[if back { -1.0 } else { 1.0 }])
        .for_each(count)?;
    Ok(y)
}
