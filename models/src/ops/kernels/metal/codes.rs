//! Weights in NF4 become numbers, a thread for a vector of them.

use candle_core::{DType, Device, Tensor};

use super::{is_place, launch::Launch, output};
use crate::{
    Result,
    ops::kernels::{self, Kernel, codes::Codes},
};

/// Whether they become numbers of this dtype here.
pub(crate) fn serves(device: &Device, dtype: DType) -> bool {
    is_place(device)
        && super::storage(dtype).is_some()
        && kernels::enabled(Kernel::Linear)
        && super::problem(Kernel::Linear, device, dtype).is_none()
}

/// The numbers from the one at `first` on, as a matrix of this shape.
pub(crate) fn widen(
    matrix: &Codes,
    first: usize,
    shape: (usize, usize),
    dtype: DType,
) -> Result<Tensor> {
    let y = output(shape, dtype, matrix.codes)?;
    let count = y.elem_count();
    let (tensors, [block, group], offset) = matrix.arguments();
    Launch::of("widen_codes", dtype, &[first, count])?
        .tensors(&tensors)?
        .tensors(&[&y])?
        .whole(&[count, first, block, group])?
        .numbers(&[offset])
        .for_each(count)?;
    Ok(y)
}
