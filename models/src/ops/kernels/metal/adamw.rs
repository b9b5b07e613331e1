//! A step of AdamW, in one pass over the weights of several parameters, in place; with moments in 8 bits, of one after the other.

use candle_core::{DType, Tensor};

use super::{launch::Launch, output};
use crate::Result;

/// Parameters that a launch takes.
const SLOTS: usize = 12;

/// Changes weights and moments in place: `[weight, gradient]` of each parameter, and where its moments begin in the two vectors of
/// them. All are f32 and contiguous.
///
/// `factors` are those of the formula, in the kernel's order: gradient scale, β₁, 1 - β₁, β₂, 1 - β₂, ε, 1 - η λ,
/// η / (1 - β₁ᵗ), 1 / √(1 - β₂ᵗ).
pub(crate) fn step(
    moments: [&Tensor; 2],
    parameters: &[([&Tensor; 2], usize)],
    factors: [f64; 9],
) -> Result<()> {
    // In the place of what is missing, of which nothing is read or written.
    let nothing = output(4, DType::F32, moments[0])?;
    for parameters in parameters.chunks(SLOTS) {
        let counts = parameters.iter().map(|it| it.0[0].elem_count());
        let mut counts: Vec<usize> = counts.collect();
        let mut starts: Vec<usize> = parameters.iter().map(|it| it.1).collect();
        let widths = [counts.as_slice(), &starts].concat();
        let largest = counts.iter().copied().max().unwrap_or_default();
        let slots = |of: usize| {
            let mut tensors: Vec<&Tensor> = parameters.iter().map(|it| it.0[of]).collect();
            tensors.resize(SLOTS, &nothing);
            tensors
        };
        counts.resize(SLOTS, 0);
        starts.resize(SLOTS, 0);
        Launch::of("adamw", DType::F32, &widths)?
            .tensors(&moments)?
            .tensors(&slots(0))?
            .tensors(&slots(1))?
            .whole(&counts)?
            .whole(&starts)?
            .numbers(&factors)
            .for_tensors(largest, parameters.len())?;
    }
    Ok(())
}

/// The same of one parameter, whose moments are codes with a scale for each block of 256: `[codes, scales]` of each.
///
/// `tables` [4, 256] are the values of the codes of first moments and the middles between them, and those of second ones.
pub(crate) fn step_in_codes(
    [weight, gradient]: [&Tensor; 2],
    moments: &[[Tensor; 2]; 2],
    tables: &Tensor,
    factors: [f64; 9],
) -> Result<()> {
    let [[first, first_scales], [second, second_scales]] = moments;
    let count = weight.elem_count();
    // Numbers are taken one by one.
    Launch::of("adamw_codes", DType::F32, &[1])?
        .tensors(&[weight, gradient, first, first_scales, second, second_scales])?
        .tensors(&[tables])?
        .whole(&[count])?
        .numbers(&factors)
        .for_rows(first_scales.elem_count())
}
