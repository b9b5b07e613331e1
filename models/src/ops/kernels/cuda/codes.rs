//! Weights in NF4 become numbers, a thread for a pack of them.

use candle_core::{DType, Device, Tensor};

use super::{Launch, PACK, output, suffix};
use crate::{
    Result,
    ops::kernels::{self, Kernel, codes::Codes},
};

/// Whether they become numbers of this dtype here.
pub(crate) fn serves(device: &Device, dtype: DType) -> bool {
    device.is_cuda() && suffix(dtype).is_some() && kernels::enabled(Kernel::Linear)
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
    let is_packed = [count, first, block]
        .iter()
        .all(|it| it.is_multiple_of(PACK));
    Launch::of("widen_codes", &y)?
        .tensors(&tensors)?
        .tensors(&[&y])?
        .counts(&[count, first])
        .whole(&[block, group])
        .numbers(&[offset])
        .whole(&[usize::from(is_packed)])
        .for_each(count.div_ceil(PACK))?;
    Ok(y)
}
