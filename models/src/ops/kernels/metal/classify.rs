//! The loss of scores of few classes and its gradient, a thread for each row.

use candle_core::{DType, Tensor};

use super::{launch::Launch, output, side_by_side};
use crate::{
    Result,
    ops::{classify::Squash, kernels::Kernel},
};

/// The most classes of a row, which one thread reads.
const MAX_CLASSES: usize = 128;

/// Whether the loss of these scores [n, v] is computed here.
pub(crate) fn serves(scores: &Tensor) -> bool {
    let classes = scores.dims().last().copied().unwrap_or_default();
    super::serves(Kernel::Classify, &[scores]) && classes <= MAX_CLASSES
}

/// The sum of the losses, and the gradient of the scores in f32. See [`classify`](crate::ops::classify::classify).
pub(crate) fn loss(
    scores: &Tensor,
    classes: &Tensor,
    weights: &Tensor,
    squash: Squash,
    smoothing: f64,
) -> Result<[Tensor; 2]> {
    let scores = side_by_side(scores)?;
    let (rows, width) = scores.dims2()?;
    let classes = classes.to_dtype(DType::U32)?.contiguous()?;
    let weights = weights.to_dtype(DType::F32)?.contiguous()?;
    let losses = output(rows, DType::F32, &scores)?;
    let gradient = output((rows, width), DType::F32, &scores)?;
    Launch::of("classify", scores.dtype(), &[width])?
        .tensors(&[&scores, &classes, &weights, &losses, &gradient])?
        .whole(&[rows, width, squash.number()])?
        .numbers(&[smoothing])
        .for_lines(rows)?;
    Ok([losses.sum_all()?, gradient])
}
