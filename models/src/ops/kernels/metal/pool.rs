//! The largest number of each window, a thread for a vector of channels of a place.

use candle_core::{DType, Tensor};

use super::{convolution::launch, output};
use crate::{Result, ops::pool::Windows};

/// The largest numbers, and the tap of the window where each was: [n, h', w', c], the latter u32.
pub(crate) fn largest(x: &Tensor, windows: &Windows) -> Result<(Tensor, Tensor)> {
    let dims = windows.of_output();
    let (y, chosen) = (output(&dims, x.dtype(), x)?, output(&dims, DType::U32, x)?);
    launch("max_pool", &[x, &y, &chosen], windows)?;
    Ok((y, chosen))
}

/// The gradient of x [n, h, w, c] from g [n, h', w', c].
pub(crate) fn largest_back(
    gradient: &Tensor,
    chosen: &Tensor,
    windows: &Windows,
) -> Result<Tensor> {
    let dx = output(&windows.of_input(), gradient.dtype(), gradient)?;
    launch("max_pool_back", &[gradient, chosen, &dx], windows)?;
    Ok(dx)
}
