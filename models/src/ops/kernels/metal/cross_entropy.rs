//! The loss of a chunk of logits and its gradient, a group of threads per row, in the place of the logits.

use candle_core::{DType, Tensor};

use super::{launch::Launch, output};
use crate::{
    Result,
    ops::{
        kernels::Kernel,
        linear::{Term, project},
    },
};

/// The summed loss of rows h [n, d] with their targets [n], divided by `tokens`, and the gradient of their logits [n, v], of
/// which each row is multiplied with `share`.
pub(crate) fn logits_loss(
    hidden: &Tensor,
    head: &Tensor,
    targets: &Tensor,
    soft_cap: Option<f64>,
    tokens: f64,
    share: f64,
) -> Result<(Tensor, Tensor)> {
    let logits = project(
        Kernel::HeadCrossEntropy,
        &[Term::new(&hidden.contiguous()?, head)],
        None,
    )?;
    let (rows, vocabulary) = logits.dims2()?;
    let losses = output(rows, DType::F32, hidden)?;
    Launch::of("cross_entropy", logits.dtype(), &[vocabulary])?
        .tensors(&[&logits, targets, &losses])?
        .whole(&[rows, vocabulary])?
        .numbers(&[share, soft_cap.unwrap_or(0.0)])
        .for_rows(rows)?;
    Ok(((losses.sum_all()? / tokens)?, logits))
}
