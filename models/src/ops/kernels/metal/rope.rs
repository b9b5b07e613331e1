//! Rotary positions, a thread for each pair of numbers.
//!
//! Attention wants the tokens of a head side by side, and linear layers the heads of a token. Heads are read in either order, and
//! written in the one that comes next, so that nothing has to be copied for it.

use candle_core::{D, Tensor};

use super::{launch::Launch, output, side_by_side};
use crate::{Result, ops::rope::Rotation};

/// Turns the heads of x [b, t, h, e], or turns them back. Turned heads lie in memory as [b, h, t, e].
pub(crate) fn rotate(x: &Tensor, rotation: &Rotation, back: bool) -> Result<Tensor> {
    let (rows, tokens, heads, width) = x.dims4()?;
    let x = match x.stride().last() {
        Some(1) => x.clone(),
        _ => side_by_side(x)?,
    };
    let (cos, sin) = (rotation.cos.contiguous()?, rotation.sin.contiguous()?);
    let half = cos.dim(D::Minus1)?;
    let places = cos.dim(0)? * tokens;
    let y = match back {
        true => output((rows, tokens, heads, width), x.dtype(), &x)?,
        false => output((rows, heads, tokens, width), x.dtype(), &x)?.transpose(1, 2)?,
    };
    // The second of a pair is written with the first.
    let count = rows * tokens * heads * (width - half);
    let (from, to) = (&x.stride()[..3], &y.stride()[..3]);
    let widths = [&[half, width][..], from, to].concat();
    Launch::of("rotate", x.dtype(), &widths)?
        .strided(&[&x])
        .tensors(&[&cos, &sin])?
        .strided(&[&y])
        .whole(&[count, tokens, heads, width, half, places])?
        .numbers(&[if back { -1.0 } else { 1.0 }, 0.0])
        .whole(&[from, &[0], to, &[0]].concat())?
        .for_each(count)?;
    Ok(y)
}
