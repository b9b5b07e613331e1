//! The differentiable operations: each with its forward pass, its backward pass and its formula.
//!
//! An operation is a plain function from `Value`s to a `Value` (see [`crate::tape`]). It computes on tensors and records how its
//! gradient flows back; without a slot among its inputs it records nothing. Operations are as large as is natural, and
//! save for backward only what is named in their docs.
//!
//! Every operation is first composed from candle's kernels, which run on every device and in f64, where finite
//! differences check it. Kernels of our own in [`kernels`] stand behind the same functions; the composed version stays
//! as their reference and their fallback.
//!
//! Rules that hold throughout: operands of a matrix product are contiguous (or a plain transpose) and of rank 3 at
//! most; softmax, norms, losses and sums are computed in f32 or wider whatever the dtype of the input; randomness comes
//! from the host.
//!
//! Letters in shapes: b rows of a batch, t tokens (queries) in a row, s keys, h query heads, k key heads, e width of a
//! head, d width of the model, f width of the feed-forward part, v vocabulary, n any number of rows, r rank of an
//! adapter.

pub mod attention;
pub mod batch_norm;
pub mod classify;
pub mod codebook;
pub mod convolution;
pub mod cross_entropy;
pub mod dropout;
pub mod elementwise;
pub mod embedding;
pub mod feed_forward;
pub mod gated;
pub mod kept;
pub mod kernels;
pub mod linear;
pub mod lora;
pub mod norm;
pub mod patches;
pub mod pool;
pub mod rope;
pub(crate) mod scores;
pub(crate) mod sum;
#[cfg(test)]
pub(crate) mod testing;
pub mod weight;

use candle_core::{D, DType, Tensor};

use crate::Result;

/// The dtype sums and exponentials are computed in: f32, or f64 for an f64 input.
pub(crate) fn wide_dtype(x: &Tensor) -> DType {
    if x.dtype() == DType::F64 {
        DType::F64
    } else {
        DType::F32
    }
}

/// The tensor in the dtype sums are computed in.
pub(crate) fn widen(x: &Tensor) -> Result<Tensor> {
    Ok(x.to_dtype(wide_dtype(x))?)
}

/// A tensor [.., d] as rows [n, d].
pub(crate) fn as_rows(x: &Tensor) -> Result<Tensor> {
    let width = x.dim(D::Minus1)?;
    if !x.is_contiguous() {
        kernels::metal::note("copy");
    }
    Ok(x.contiguous()?.reshape(((), width))?)
}

/// Rows [n, d'] in the shape of `like` [.., d], with the last dimension d'.
pub(crate) fn rows_like(rows: &Tensor, like: &Tensor) -> Result<Tensor> {
    let mut dims = like.dims().to_vec();
    if let Some(last) = dims.last_mut() {
        *last = rows.dim(D::Minus1)?;
    }
    Ok(rows.reshape(dims)?)
}
