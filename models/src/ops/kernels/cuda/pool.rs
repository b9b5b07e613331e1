//! The largest number of each window, a thread for eight channels of a place.

use candle_core::{DType, Tensor};

use super::{Launch, PACK, in_packs, output, pictures::PICTURES, serves as serves_tensors};
use crate::{
    Result,
    ops::{kernels::Kernel, pool::Windows},
};

/// Whether the kernel serves a tensor like this: [n, h, w, c] of whole packs of channels.
pub(crate) fn serves(x: &Tensor) -> Result<bool> {
    let fits = serves_tensors(Kernel::Pool, &[x]) && x.dim(3)?.is_multiple_of(PACK);
    Ok(fits && in_packs(&[x])?)
}

/// The largest numbers, and the tap of the window where each was: [n, h', w', c], the latter u8.
pub(crate) fn largest(x: &Tensor, windows: &Windows) -> Result<(Tensor, Tensor)> {
    let dims = windows.of_output();
    let (y, chosen) = (output(&dims, x.dtype(), x)?, output(&dims, DType::U8, x)?);
    let packs = y.elem_count() / PACK;
    Launch::of_code(&PICTURES, "max_pool", x)?
        .tensors(&[x, &y, &chosen])?
        .count(packs)
        .picture_shape(windows.into())
        .for_each(packs)?;
    Ok((y, chosen))
}

/// The gradient of x [n, h, w, c] from g [n, h', w', c].
pub(crate) fn largest_back(
    gradient: &Tensor,
    chosen: &Tensor,
    windows: &Windows,
) -> Result<Tensor> {
    let dx = output(&windows.of_input(), gradient.dtype(), gradient)?;
    let packs = dx.elem_count() / PACK;
    Launch::of_code(&PICTURES, "max_pool_back", gradient)?
        .tensors(&[gradient, chosen, &dx])?
        .count(packs)
        .picture_shape(windows.into())
        .for_each(packs)?;
    Ok(dx)
}
