//! The sum of squares over many tensors, a launch for each.

use candle_core::{DType, Tensor};

use super::{broken, launch::Launch, output};
use crate::Result;

/// Numbers that a group of threads sums up at least, and the most groups that share a tensor.
const GROUP: usize = 1 << 14;
const MOST_GROUPS: usize = 256;

/// Σ x² over all numbers of tensors that are f32 and contiguous: a single number.
pub(crate) fn squared_sum(tensors: &[Tensor]) -> Result<Tensor> {
    // So many at once that the sums of each tensor begin where a vector may.
    let groups = |tensor: &Tensor| {
        let groups = tensor.elem_count().div_ceil(GROUP).min(MOST_GROUPS);
        groups.next_multiple_of(4)
    };
    let all = tensors.iter().map(groups).sum::<usize>();
    let Some(first) = tensors.first().filter(|_| all > 0) else {
        return Err(broken("a norm of no gradients"));
    };
    let sums = output(all, DType::F32, first)?;
    let mut start = 0;
    for tensor in tensors {
        let (count, groups) = (tensor.elem_count(), groups(tensor));
        Launch::of("squares", DType::F32, &[count])?
            .tensors(&[tensor, &sums.narrow(0, start, groups)?])?
            .whole(&[count])?
            .for_rows(groups)?;
        start += groups;
    }
    Ok(sums.sum_all()?)
}
