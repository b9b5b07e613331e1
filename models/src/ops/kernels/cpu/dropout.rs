//! Dropout, in one pass in which each thread finds its part of the mask.

use candle_core::Tensor;

use crate::{
    Result,
    ops::{
        dropout::Mask,
        kernels::cpu::{BLOCK, Numbers, filled, pieces, simd, tensor},
    },
};

/// x with a mask.
pub(crate) fn apply(x: &Tensor, mask: Mask) -> Result<Tensor> {
    let x = x.contiguous()?;
    let numbers = Numbers::of(&x)?;
    let numbers: &[f32] = &numbers;
    let kept = filled(numbers.len(), |out| {
        pieces(out, BLOCK, |index, out| {
            let start = index * BLOCK;
            let part = &numbers[start..][..out.len()];
            simd(
                #[inline(always)]
                || {
                    for (at, (out, x)) in out.iter_mut().zip(part).enumerate() {
                        *out = x * mask.factor((start + at) as u32);
                    }
                },
            );
        });
    });
    tensor(kept, x.shape())
}
