//! The sum of two plain tensors, which operations and the tape both need: nothing is recorded.

use candle_core::Tensor;

use crate::{
    Result,
    ops::kernels::{self, Kernel},
};

/// x + y, for the operation of this kernel.
pub(crate) fn sum(kernel: Kernel, x: &Tensor, y: &Tensor) -> Result<Tensor> {
    kernels::metal::note("sum");
    if kernels::cpu::serves(kernel, &[x, y]) && x.shape() == y.shape() {
        return kernels::cpu::elementwise::add(x, y);
    }
    #[cfg(feature = "cuda")]
    if kernels::cuda::serves(kernel, &[x, y]) && x.shape() == y.shape() {
        return kernels::cuda::elementwise::add(x, y);
    }
    Ok(x.add(y)?)
}
