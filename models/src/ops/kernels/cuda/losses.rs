//! Losses and their gradients, and sums of them.

use candle_core::{DType, Tensor};

use super::{
    Launch,
    code::{Code, compiled},
    linear::{Size, multiply, plain, transposed},
    output,
};
use crate::{Result, ops::classify::Squash};

const LOSSES: Code = compiled!("losses");

/// Threads of the block that adds up.
const SUM_THREADS: usize = 1024;

/// Rows of a block, each of which is the work of a warp.
const ROWS: usize = 8;

/// The summed loss of rows h [n, d] with their targets [n], times `inverse` [1], and the gradient of their logits [n, v],
/// multiplied with `scale`.
pub(crate) fn logits_loss(
    hidden: &Tensor,
    head: &Tensor,
    targets: &Tensor,
    inverse: &Tensor,
    soft_cap: Option<f64>,
    scale: f64,
) -> Result<(Tensor, Tensor)> {
    let hidden = hidden.contiguous()?;
    let head = head.to_dtype(hidden.dtype())?.contiguous()?;
    let ((m, k), n) = (hidden.dims2()?, head.dim(0)?);
    let logits = output((m, n), DType::F32, &hidden)?;
    let size = Size { batch: 1, m, n, k };
    multiply(size, 1.0, plain(&hidden), transposed(&head), 0.0, &logits)?;
    let losses = output(m, DType::F32, &hidden)?;
    let dz = output((m, n), hidden.dtype(), &hidden)?;
    Launch::of_code(&LOSSES, "cross_entropy", &hidden)?
        .tensors(&[&logits, targets, inverse, &losses, &dz])?
        .whole(&[n])
        .numbers(&[soft_cap.unwrap_or(0.0), scale])
        .for_rows(m, n)?;
    Ok((sum(&losses, Some(inverse))?, dz))
}

/// The sum of the losses of scores [n, v], and their gradient in f32. See [`classify`](crate::ops::classify::classify).
pub(crate) fn classify(
    scores: &Tensor,
    classes: &Tensor,
    weights: &Tensor,
    squash: Squash,
    smoothing: f64,
) -> Result<[Tensor; 2]> {
    let scores = scores.contiguous()?;
    let (rows, width) = scores.dims2()?;
    let classes = classes.to_dtype(DType::U32)?.contiguous()?;
    let weights = weights.to_dtype(DType::F32)?.contiguous()?;
    let losses = output(rows, DType::F32, &scores)?;
    let gradient = output((rows, width), DType::F32, &scores)?;
    Launch::of_code(&LOSSES, "classify", &scores)?
        .tensors(&[&scores, &classes, &weights, &losses, &gradient])?
        .whole(&[rows, width, squash.number()])
        .numbers(&[smoothing])
        .launch(rows.div_ceil(ROWS), 32 * ROWS)?;
    Ok([sum(&losses, None)?, gradient])
}

/// The sum of numbers [n] in f32, times a factor [1] that may lie beside them: a single number.
pub(crate) fn sum(numbers: &Tensor, factor: Option<&Tensor>) -> Result<Tensor> {
    let sum = output((), DType::F32, numbers)?;
    Launch::of_code(&LOSSES, "sum", numbers)?
        .tensors(&[numbers])?
        .perhaps(factor)?
        .tensors(&[&sum])?
        .whole(&[numbers.elem_count()])
        .launch(1, SUM_THREADS)?;
    Ok(sum)
}
