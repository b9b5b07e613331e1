//! Sums and multiples of whole tensors, and rows looked up in a table.

use candle_core::Tensor;

use crate::{
    Result,
    ops::kernels::cpu::{BLOCK, Numbers, block_rows, filled, pieces, simd, tensor},
};

/// x + y, of the same shape.
pub(crate) fn add(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let (x, y) = (x.contiguous()?, y.contiguous()?);
    let (a, b) = (Numbers::of(&x)?, Numbers::of(&y)?);
    let (a, b): (&[f32], &[f32]) = (&a, &b);
    let sum = filled(a.len(), |out| {
        pieces(out, BLOCK, |index, out| {
            let part = index * BLOCK..index * BLOCK + out.len();
            let (a, b) = (&a[part.clone()], &b[part]);
            simd(
                #[inline(always)]
                || {
                    for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
                        *out = a + b;
                    }
                },
            );
        });
    });
    tensor(sum, x.shape())
}

/// factor · x.
pub(crate) fn scale(x: &Tensor, factor: f64) -> Result<Tensor> {
    let (x, factor) = (x.contiguous()?, factor as f32);
    let numbers = Numbers::of(&x)?;
    let numbers: &[f32] = &numbers;
    let product = filled(numbers.len(), |out| {
        pieces(out, BLOCK, |index, out| {
            let part = &numbers[index * BLOCK..][..out.len()];
            simd(
                #[inline(always)]
                || {
                    for (out, x) in out.iter_mut().zip(part) {
                        *out = factor * x;
                    }
                },
            );
        });
    });
    tensor(product, x.shape())
}

/// Rows of `table` [v, d] for `tokens`, all of them below v -> [n, d].
pub(crate) fn look_up(table: &Tensor, tokens: &[u32]) -> Result<Tensor> {
    let (table, width) = (table.contiguous()?, table.dim(1)?);
    let numbers = Numbers::of(&table)?;
    let numbers: &[f32] = &numbers;
    let block = block_rows(width);
    let rows = filled(tokens.len() * width, |out| {
        pieces(out, block * width, |index, out| {
            for (token, row) in tokens[index * block..].iter().zip(out.chunks_mut(width)) {
                row.copy_from_slice(&numbers[*token as usize * width..][..width]);
            }
        });
    });
    tensor(rows, (tokens.len(), width))
}

/// The sum of the rows [n, d] of each token -> [v, d].
pub(crate) fn add_rows(rows: &Tensor, tokens: &[u32], vocabulary: usize) -> Result<Tensor> {
    let rows = rows.contiguous()?;
    let width = rows.dim(candle_core::D::Minus1)?;
    let numbers = Numbers::of(&rows)?;
    // Fresh zeros cost nothing where no token is, and there are few tokens: one thread is enough.
    let mut sums = vec![0.0; vocabulary * width];
    for (token, row) in tokens.iter().zip(numbers.chunks(width)) {
        let sum = &mut sums[*token as usize * width..][..width];
        sum.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
    }
    tensor(sums, (vocabulary, width))
}
