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
    let x = x.contiguous()?;
    let y = output(x.shape(), x.dtype(), &x)?;
    if turn_packs(&x, &y, rotation, back)? {
        return Ok(y);
    }
    let (_, tokens, heads, width) = x.dims4()?;
    let (cos, sin) = (rotation.cos.contiguous()?, rotation.sin.contiguous()?);
    let (count, half) = (x.elem_count(), cos.dim(D::Minus1)?);
    Launch::of("rotate", &x)?
        .tensors(&[&x, &cos, &sin, &y])?
        .count(count)
        .whole(&[heads, width, half, cos.dim(0)? * tokens])
        .numbers(&[direction(back)])
        .for_each(count)?;
    Ok(y)
}

/// Turns heads where they lie, or turns them back, whether others lie beside them or not. Says whether it could: their numbers have to be whole packs.
pub(crate) fn rotate_in_place(x: &Tensor, rotation: &Rotation, back: bool) -> Result<bool> {
    turn_packs(x, x, rotation, back)
}

/// Turns x to y by whole packs, if both allow it.
fn turn_packs(x: &Tensor, y: &Tensor, rotation: &Rotation, back: bool) -> Result<bool> {
    let (_, tokens, heads, width) = x.dims4()?;
    let (cos, sin) = (rotation.cos.contiguous()?, rotation.sin.contiguous()?);
    let half = cos.dim(D::Minus1)?;
    let tensors = [x, &cos, &sin, y];
    let Some(apart) = apart(x).filter(|_| width == 2 * half && half.is_multiple_of(PACK)) else {
        return Ok(false);
    };
    if !in_packs(&tensors)? {
        return Ok(false);
    }
    let packs = x.elem_count() / 2 / PACK;
    Launch::of("rotate_packs", x)?
        .strided(&tensors)?
        .count(packs)
        .count(apart)
        .whole(&[heads, half, cos.dim(0)? * tokens])
        .numbers(&[direction(back)])
        .for_each(packs)?;
    Ok(true)
}

fn direction(back: bool) -> f64 {
    if back { -1.0 } else { 1.0 }
}

/// How many numbers after the heads of a token [b, t, h, e] those of the next one begin, where that is the same for all, by whole packs,
/// and the heads of one lie side by side.
fn apart(x: &Tensor) -> Option<usize> {
    let (dims, strides) = (x.dims(), x.stride());
    if x.is_contiguous() {
        return Some(dims[2] * dims[3]);
    }
    let apart = strides[1];
    let even = strides[0] == dims[1] * apart && apart.is_multiple_of(PACK);
    let fits = even && apart >= dims[2] * dims[3] && strides[2..] == [dims[3], 1];
    fits.then_some(apart)
}
