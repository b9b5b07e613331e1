//! Weights in NF4 become numbers, a thread for a vector of them.

use candle_core::{DType, Device, Tensor};

use super::{is_place, launch::Launch, output};
use crate::{
    Result,
    ops::kernels::{self, Kernel},
};

/// A matrix in NF4, or some rows of it.
pub(crate) struct Codes<'a> {
    /// Two a byte, of the whole matrix, in whole words of 32 bits.
    pub(crate) codes: &'a Tensor,
    /// The two numbers of each byte [256, 2].
    pub(crate) pairs: &'a Tensor,
    /// Numbers of a block.
    pub(crate) block: usize,
    pub(crate) scales: CodedScales<'a>,
}

/// The scale of each block, or the code of it.
pub(crate) struct CodedScales<'a> {
    /// Each scale, or the largest of each group.
    pub(crate) largest: &'a Tensor,
    pub(crate) nested: Option<Nested<'a>>,
}

/// Scales in codes.
pub(crate) struct Nested<'a> {
    pub(crate) codes: &'a Tensor,
    /// What each code stands for [256].
    pub(crate) values: &'a Tensor,
    /// Codes of a group.
    pub(crate) group: usize,
    pub(crate) offset: f64,
}

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
    let Codes {
        codes,
        pairs,
        block,
        scales,
    } = matrix;
    let y = output(shape, dtype, codes)?;
    let count = y.elem_count();
    // In the place of what is missing, of which nothing is read.
    let (scale_codes, values, group, offset) = match &scales.nested {
        Some(it) => (it.codes, it.values, it.group, it.offset),
        None => (*codes, *pairs, 0, 0.0),
    };
    Launch::of("widen_codes", dtype, &[first, count])?
        .tensors(&[codes, pairs, scale_codes, values, scales.largest, &y])?
        .whole(&[count, first, *block, group])?
        .numbers(&[offset])
        .for_each(count)?;
    Ok(y)
}
