//! Rotary positions, a thread for eight pairs of numbers, or for each number where heads are no whole packs.

use candle_core::{D, Tensor};

use crate::{
    Result,
    ops::{
        kernels::cuda::{Launch, PACK, in_packs, output},
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
    let tensors = [&x, &cos, &sin, &y];
    let direction = if back { -1.0 } else { 1.0 };
    if width == 2 * half && half.is_multiple_of(PACK) && in_packs(&tensors)? {
        let packs = count / 2 / PACK;
        Launch::of("rotate_packs", &x)?
            .tensors(&tensors)?
            .count(packs)
            .whole(&[heads, half, places])
            .numbers(&[direction])
            .for_each(packs)?;
        return Ok(y);
    }
    Launch::of("rotate", &x)?
        .tensors(&tensors)?
        .count(count)
        .whole(&[heads, width, half, places])
        .numbers(&[direction])
        .for_each(count)?;
    Ok(y)
}
