//! A step of AdamW, in one pass over the weights of a parameter, in place.

use candle_core::Tensor;

use crate::{Result, ops::kernels::cuda::Launch};

/// Changes weight, first and second moment, all f32 and contiguous, in place.
///
/// `factors` are those of the formula, in the kernel's order: gradient scale, β₁, 1 - β₁, β₂, 1 - β₂, ε, 1 - η λ,
/// η / (1 - β₁ᵗ), 1 / √(1 - β₂ᵗ).
pub(crate) fn step(
    weight: &Tensor,
    first: &Tensor,
    second: &Tensor,
    gradient: &Tensor,
    factors: [f64; 9],
) -> Result<()> {
    let count = weight.elem_count();
    Launch::of("adamw", weight)?
        .tensors(&[weight, first, second, gradient])?
        .count(count)
        .numbers(&factors)
        .for_each(count)
}
