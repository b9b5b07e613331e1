//! The sum of squares over many tensors, several in a launch.

use candle_core::{DType, Tensor};

use super::{broken, launch::Launch, output};
use crate::Result;

/// Tensors that a launch takes.
const SLOTS: usize = 24;

/// Numbers that a group of threads sums up at least, and the most groups that share a tensor.
const GROUP: usize = 1 << 14;
const MAX_GROUPS: usize = 256;

/// Σ x² over all numbers of tensors that are f32 and contiguous: a single number.
pub(crate) fn squared_sum(tensors: &[Tensor]) -> Result<Tensor> {
    let Some(first) = tensors.first() else {
        return Err(broken("a norm of no gradients"));
    };
    let largest = |it: &[Tensor]| it.iter().map(Tensor::elem_count).max().unwrap_or_default();
    let groups = |it: &[Tensor]| largest(it).div_ceil(GROUP).clamp(1, MAX_GROUPS);
    let all = tensors
        .chunks(SLOTS)
        .map(|it| SLOTS * groups(it))
        .sum::<usize>();
    let sums = output(all, DType::F32, first)?;
    let mut start = 0;
    for tensors in tensors.chunks(SLOTS) {
        let groups = groups(tensors);
        let mut counts: Vec<usize> = tensors.iter().map(Tensor::elem_count).collect();
        let widths = counts.clone();
        counts.resize(SLOTS, 0);
        // In the place of what is missing, of which nothing is read.
        let mut slots: Vec<&Tensor> = tensors.iter().collect();
        slots.resize(SLOTS, first);
        let own = sums.narrow(0, start, SLOTS * groups)?;
        Launch::of("squares", DType::F32, &widths)?
            .tensors(&slots)?
            .tensors(&[&own])?
            .whole(&counts)?
            .groups([groups, SLOTS])?;
        start += SLOTS * groups;
    }
    Ok(sums.sum_all()?)
}
