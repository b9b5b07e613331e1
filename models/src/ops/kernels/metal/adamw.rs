//! A step of AdamW, in one pass over the weights of a parameter, in place.

use candle_core::{DType, Tensor};

use super::launch::Launch;
use crate::Result;

/// Changes weight, first and second moment in place, with the gradient, all f32 and contiguous.
///
/// `factors` are those of the formula, in the kernel's order: gradient scale, β₁, 1 - β₁, β₂, 1 - β₂, ε, 1 - η λ,
/// η / (1 - β₁ᵗ), 1 / √(1 - β₂ᵗ).
pub(crate) fn step(tensors: [&Tensor; 4], factors: [f64; 9]) -> Result<()> {
    let count = tensors[0].elem_count();
    Launch::of("adamw", DType::F32, &[count])?
        .tensors(&tensors)?
        .whole(&[count])?
        .numbers(&factors)
        .for_each(count)
}
