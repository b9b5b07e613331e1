//! The sum of squares over many tensors, a launch for each.

use candle_core::{DType, Tensor};

use crate::{
    Result,
    ops::kernels::cuda::{Launch, output},
};

/// Numbers that one block sums up at least, and the most blocks that share a tensor.
const BLOCK: usize = 1 << 14;
const MAX_BLOCKS: usize = 256;

/// Threads of a block.
const THREADS: usize = 512;

/// Σ x² over all numbers of tensors that are f32 and contiguous: a single number.
pub(crate) fn squared_sum(tensors: &[Tensor]) -> Result<Tensor> {
    let blocks = |tensor: &Tensor| tensor.elem_count().div_ceil(BLOCK).min(MAX_BLOCKS);
    let all = tensors.iter().map(blocks).sum::<usize>();
    let Some(first) = tensors.first().filter(|_| all > 0) else {
        return Err(super::broken("a norm of no gradients"));
    };
    let sums = output(all, DType::F32, first)?;
    let mut start = 0;
    for tensor in tensors {
        let count = blocks(tensor);
        Launch::of("squares", tensor)?
            .tensors(&[tensor, &sums.narrow(0, start, count)?])?
            .count(tensor.elem_count())
            .launch(count, THREADS)?;
        start += count;
    }
    Ok(sums.sum_all()?)
}
