//! Dropout, a thread for a pack of numbers, whose part of the mask it finds itself. A part of the key may lie on the GPU, where a
//! recorded pass finds that of each step.

use candle_core::Tensor;

use super::{Launch, PACK, in_packs, output};
use crate::{Result, ops::dropout::Mask};

/// x with a mask, whose key is combined with what lies at `placed` [2].
pub(crate) fn apply(x: &Tensor, mask: Mask, placed: Option<&Tensor>) -> Result<Tensor> {
    let x = x.contiguous()?;
    let y = output(x.shape(), x.dtype(), &x)?;
    launch([&x, &y], mask, placed, false)?;
    Ok(y)
}

/// Adds the same to `sum`, in place.
pub(crate) fn add_to(sum: &Tensor, x: &Tensor, mask: Mask, placed: Option<&Tensor>) -> Result<()> {
    launch([&x.contiguous()?, sum], mask, placed, true)
}

fn launch([x, y]: [&Tensor; 2], mask: Mask, placed: Option<&Tensor>, adds: bool) -> Result<()> {
    let count = x.elem_count();
    let [low, high] = mask.key.map(|it| it as usize);
    let is_packed = in_packs(&[x, y])?;
    Launch::of("dropout", x)?
        .tensors(&[x])?
        .perhaps(placed)?
        .tensors(&[y])?
        .count(count)
        .whole(&[low, high, mask.threshold as usize])
        .numbers(&[mask.kept.into()])
        .whole(&[usize::from(adds), usize::from(is_packed)])
        .for_each(count.div_ceil(PACK))
}
