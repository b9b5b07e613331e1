//! Dropout, a thread for a vector of numbers, whose part of the mask it finds itself.

use candle_core::Tensor;

use super::{launch::Launch, output_like, side_by_side};
use crate::{Result, ops::dropout::Mask};

/// x with a mask.
pub(crate) fn apply(x: &Tensor, mask: Mask) -> Result<Tensor> {
    let x = side_by_side(x)?;
    let (count, y) = (x.elem_count(), output_like(&x)?);
    let [low, high] = mask.key.map(|it| it as usize);
    Launch::of("dropout", x.dtype(), &[count])?
        .tensors(&[&x, &y])?
        .whole(&[count, low, high, mask.threshold as usize])?
        .numbers(&[mask.kept.into()])
        .for_each(count)?;
    Ok(y)
}
