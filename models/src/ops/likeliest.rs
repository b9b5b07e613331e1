//! The likeliest token: what an answer goes on with where nothing is drawn.

use candle_core::{DType, Tensor};

#[cfg(feature = "cuda")]
use super::kernels::{self, Kernel};
use crate::Result;

/// The highest of scores [v], the first of equals; nothing where one is not a finite number.
pub(crate) fn likeliest(scores: &Tensor) -> Result<Option<u32>> {
    let scores = scores.to_dtype(DType::F32)?.contiguous()?;
    #[cfg(feature = "cuda")]
    if kernels::cuda::serves(Kernel::NextToken, &[&scores]) {
        return kernels::cuda::next_token::likeliest(&scores);
    }
    // One that is not finite makes the sum so.
    let sum = scores.sum_all()?.to_scalar::<f32>()?;
    match sum.is_finite() {
        true => Ok(Some(scores.argmax(0)?.to_scalar::<u32>()?)),
        false => Ok(None),
    }
}
