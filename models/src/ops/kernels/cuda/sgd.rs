//! A step of SGD, in one pass over the weights of a parameter, in place.

use candle_core::Tensor;

use crate::{Result, ops::kernels::cuda::Launch};

/// Changes weight and velocity, all f32 and contiguous, in place.
///
/// `factors` are those of the formula, in the kernel's order: gradient scale, λ, μ, η, and 1 for Nesterov's momentum.
pub(crate) fn step(
    weight: &Tensor,
    velocity: Option<&Tensor>,
    gradient: &Tensor,
    factors: [f64; 5],
) -> Result<()> {
    let count = weight.elem_count();
    Launch::of("sgd", weight)?
        .tensors(&[weight])?
        .perhaps(velocity)?
        .tensors(&[gradient])?
        .count(count)
        .numbers(&factors)
        .for_each(count)
}
