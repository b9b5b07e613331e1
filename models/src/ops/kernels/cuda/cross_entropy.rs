//! The loss of a chunk of logits and its gradient, a block per row.

use candle_core::{DType, Tensor};

use crate::{
    Result,
    ops::kernels::cuda::{
        Launch,
        linear::{Size, multiply, plain, transposed},
        output,
    },
};

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
    Launch::of("cross_entropy", &hidden)?
        .tensors(&[&logits, targets, inverse, &losses, &dz])?
        .whole(&[n])
        .numbers(&[soft_cap.unwrap_or(0.0), scale])
        .for_rows(m, n)?;
    Ok((losses.sum_all()?.mul(&inverse.squeeze(0)?)?, dz))
}
