//! Matrices in codes, as kernels that make numbers of them are told of one.

use candle_core::Tensor;

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

impl<'a> Codes<'a> {
    /// What all kernels for them take: codes, pairs, codes of scales and what these stand for, and scales; numbers of a block, and codes
    /// of a group, or 0 where scales are no codes; and what scales have in common.
    pub(crate) fn arguments(&self) -> ([&'a Tensor; 5], [usize; 2], f64) {
        // In the place of what is missing, of which nothing is read.
        let (scale_codes, values, group, offset) = match &self.scales.nested {
            Some(it) => (it.codes, it.values, it.group, it.offset),
            None => (self.codes, self.pairs, 0, 0.0),
        };
        let largest = self.scales.largest;
        let tensors = [self.codes, self.pairs, scale_codes, values, largest];
        (tensors, [self.block, group], offset)
    }
}
