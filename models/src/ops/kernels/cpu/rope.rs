//! Rotary positions in one pass over the heads of each token.

use candle_core::{D, Tensor};

use crate::{
    Result,
    ops::{
        kernels::cpu::{Numbers, block_rows, filled, pieces, simd, tensor},
        rope::Rotation,
    },
};

/// Turns the heads of x [b, t, h, e], or turns them back.
pub(crate) fn rotate(x: &Tensor, rotation: &Rotation, back: bool) -> Result<Tensor> {
    let (_, tokens, heads, width) = x.dims4()?;
    let x = x.contiguous()?;
    let (cos_table, sin_table) = (rotation.cos.contiguous()?, rotation.sin.contiguous()?);
    let half = cos_table.dim(D::Minus1)?;
    let one_table = cos_table.dim(0)? == 1;
    let (numbers, cos, sin) = (
        Numbers::of(&x)?,
        Numbers::of(&cos_table)?,
        Numbers::of(&sin_table)?,
    );
    let (numbers, cos, sin): (&[f32], &[f32], &[f32]) = (&numbers, &cos, &sin);
    let token_width = heads * width;
    let block = block_rows(token_width);
    let direction = if back { -1.0 } else { 1.0 };
    let y = filled(numbers.len(), |y| {
        pieces(y, block * token_width, |index, y| {
            let start = index * block;
            let x = &numbers[start * token_width..][..y.len()];
            simd(
                #[inline(always)]
                || {
                    let rows = x.chunks(token_width).zip(y.chunks_mut(token_width));
                    for (token, (x, y)) in rows.enumerate() {
                        let token = start + token;
                        let place = if one_table { token % tokens } else { token };
                        let angles = place * half..(place + 1) * half;
                        let (cos, sin) = (&cos[angles.clone()], &sin[angles]);
                        for (x, y) in x.chunks(width).zip(y.chunks_mut(width)) {
                            turn(x, cos, sin, direction, y);
                        }
                    }
                },
            );
        });
    });
    tensor(y, x.shape())
}

#[inline(always)]
fn turn(x: &[f32], cos: &[f32], sin: &[f32], direction: f32, y: &mut [f32]) {
    let half = cos.len();
    let (x_turned, x_rest) = x.split_at(2 * half);
    let (y_turned, y_rest) = y.split_at_mut(2 * half);
    let (x_first, x_second) = x_turned.split_at(half);
    let (y_first, y_second) = y_turned.split_at_mut(half);
    let sin = &sin[..half];
    for i in 0..half {
        let (cos, sin) = (cos[i], direction * sin[i]);
        y_first[i] = x_first[i] * cos - x_second[i] * sin;
        y_second[i] = x_second[i] * cos + x_first[i] * sin;
    }
    y_rest.copy_from_slice(x_rest);
}
