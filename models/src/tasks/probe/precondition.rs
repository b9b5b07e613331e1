//! Makes the labels' problems round: the curvature that all of them share, factored once for all iterations.
//!
//! The Hessian of a logistic regression is C Xᵀ D X + I with D = σ(1 - σ) of each row, which is at most a quarter (Böhning and
//! Lindsay, 1988). Here D is one number, so that one factor serves every label: L Lᵀ = C s XᵀX + I. Any such matrix gives the same
//! optimum; a near one gives it in fewer steps. It is f32, and its blocks are products.

use rayon::prelude::*;

use super::{features::Features, lbfgs::Problem};
use crate::ops::kernels::cpu::product::{Matrix, Output, Size, multiply_on_threads};

/// Columns of a block: its triangle is factored number by number, and all else are products.
const BLOCK: usize = 96;
/// Columns of XᵀX that are computed at once, so that only about half of it is.
const PANEL: usize = 384;
/// Rows of X of which XᵀX is added up at once.
const ROWS: usize = 4_096;

/// XᵀX of rows [n, d], of which the lower triangle is filled: [d, d].
#[derive(Debug)]
pub struct Gram {
    numbers: Vec<f32>,
    width: usize,
    rows: usize,
}

/// The inverse of L, where L Lᵀ is near the Hessian of every label.
#[derive(Debug)]
pub struct Preconditioner {
    /// L⁻¹, row after row, its upper triangle 0: [d, d].
    inverse: Vec<f32>,
    width: usize,
    /// One over the curvature along the bias.
    bias: f64,
}

impl Gram {
    /// Of dense features. `None` of sparse ones, whose width is too large for it.
    pub fn of(features: Features<'_>) -> Option<Self> {
        let Features::Dense(numbers, d) = features else {
            return None;
        };
        let n = features.rows();
        let mut gram = vec![0.0; d * d];
        for start in (0..n).step_by(ROWS) {
            for column in (0..d).step_by(PANEL) {
                let size = Size {
                    rows: d - column,
                    columns: PANEL.min(d - column),
                    depth: ROWS.min(n - start),
                };
                let x = Matrix::rows(&numbers[start * d + column..], d);
                let c = &mut gram[column * d + column..];
                multiply_on_threads(c, d, x.transposed(), x, size, 1.0, Output::Add);
            }
        }
        Some(Self {
            numbers: gram,
            width: d,
            rows: n,
        })
    }

    /// The factor for this C, with `spread` for σ(1 - σ) of every row. `None` where rounding leaves no factor.
    pub fn factor(&self, c: f64, spread: f64) -> Option<Preconditioner> {
        let d = self.width;
        let mut matrix: Vec<f32> = self
            .numbers
            .iter()
            .map(|it| (c * spread) as f32 * it)
            .collect();
        for at in 0..d {
            matrix[at * d + at] += 1.0;
        }
        cholesky(&mut matrix, d)?;
        Some(Preconditioner {
            inverse: inverse(&matrix, d),
            width: d,
            bias: 1.0 / (c * spread * self.rows as f64),
        })
    }
}

/// Replaces the lower triangle of a matrix [d, d] by its factor. `None` where it is not positive.
fn cholesky(matrix: &mut [f32], d: usize) -> Option<()> {
    for start in (0..d).step_by(BLOCK) {
        let end = (start + BLOCK).min(d);
        factor_block(matrix, d, start..end)?;
        let (above, below) = matrix.split_at_mut(end * d);
        let block = &above[start * d..];
        // Rows below the block: those of the factor, number by number.
        below.par_chunks_mut(d).for_each(|row| {
            for column in start..end {
                let of = &block[(column - start) * d..];
                let sum = dot(&row[start..column], &of[start..column]);
                row[column] = (row[column] - sum) / of[column];
            }
        });
        let panel: Vec<f32> = below
            .chunks(d)
            .flat_map(|row| &row[start..end])
            .copied()
            .collect();
        let width = end - start;
        for column in (end..d).step_by(PANEL) {
            let size = Size {
                rows: d - column,
                columns: PANEL.min(d - column),
                depth: width,
            };
            let rows = Matrix::rows(&panel[(column - end) * width..], width);
            let c = &mut below[(column - end) * d + column..];
            multiply_on_threads(c, d, rows, rows.transposed(), size, -1.0, Output::Add);
        }
    }
    Some(())
}

fn factor_block(matrix: &mut [f32], d: usize, block: std::ops::Range<usize>) -> Option<()> {
    for row in block.clone() {
        let (above, rest) = matrix.split_at_mut(row * d);
        for column in block.start..row {
            let of = &above[column * d..];
            let sum = dot(&rest[block.start..column], &of[block.start..column]);
            rest[column] = (rest[column] - sum) / of[column];
        }
        let square = rest[row] - dot(&rest[block.start..row], &rest[block.start..row]);
        if square.is_nan() || square <= 0.0 {
            return None;
        }
        rest[row] = square.sqrt();
    }
    Some(())
}

/// The inverse of a lower triangle, in which everything above it is ignored.
fn inverse(factor: &[f32], d: usize) -> Vec<f32> {
    let mut inverse = vec![0.0; d * d];
    for start in (0..d).step_by(BLOCK) {
        let end = (start + BLOCK).min(d);
        let (above, block) = inverse.split_at_mut(start * d);
        let block = &mut block[..(end - start) * d];
        for row in start..end {
            block[(row - start) * d + row] = 1.0;
        }
        if start > 0 {
            let size = Size {
                rows: end - start,
                columns: start,
                depth: start,
            };
            let left = Matrix::rows(&factor[start * d..], d);
            let right = Matrix::rows(above, d);
            multiply_on_threads(block, d, left, right, size, -1.0, Output::Add);
        }
        for row in start..end {
            let (before, rest) = block.split_at_mut((row - start) * d);
            let of = &factor[row * d..];
            for (column, before) in (start..row).zip(before.chunks(d)) {
                for (x, y) in rest[..=row].iter_mut().zip(before) {
                    *x -= of[column] * y;
                }
            }
            rest[..=row].iter_mut().for_each(|x| *x /= of[row]);
        }
    }
    inverse
}

impl Preconditioner {
    /// Replaces what is left of each gradient by its product with the inverse of L Lᵀ.
    pub(super) fn apply(&self, problems: &mut [&mut Problem<'_>], room: &mut [f32]) {
        let d = self.width;
        let k = room.len() / d;
        let each = problems.len();
        let columns = k / each.max(1);
        for (problem, room) in problems.iter().zip(room.chunks_mut(columns * d)) {
            for (into, x) in room.iter_mut().zip(&problem.direction) {
                *into = *x as f32;
            }
        }
        let size = Size {
            rows: k,
            columns: d,
            depth: d,
        };
        let inverse = Matrix::rows(&self.inverse, d);
        let mut half = vec![0.0; k * d];
        let from = Matrix::rows(room, d);
        multiply_on_threads(
            &mut half,
            d,
            from,
            inverse.transposed(),
            size,
            1.0,
            Output::Replace,
        );
        let from = Matrix::rows(&half, d);
        multiply_on_threads(room, d, from, inverse, size, 1.0, Output::Replace);
        for (problem, room) in problems.iter_mut().zip(room.chunks(columns * d)) {
            for (x, from) in problem.direction.iter_mut().zip(room) {
                *x = f64::from(*from);
            }
            for x in &mut problem.direction[columns * d..] {
                *x *= self.bias;
            }
        }
    }
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    let terms = a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b));
    terms.sum::<f64>() as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn the_inverse_of_the_factor_undoes_the_matrix() {
        let (n, d) = (300, 210);
        let mut random = Random::new(5);
        let x: Vec<f32> = (0..n * d).map(|_| random.normal() as f32).collect();
        let gram = Gram::of(Features::Dense(&x, d)).unwrap();
        let it = gram.factor(0.5, 0.25).unwrap();
        let row = |at: usize| &it.inverse[at * d..][..d];
        // L⁻¹ A L⁻ᵀ is the identity.
        let a = |i: usize, j: usize| {
            let sum: f64 = (0..n).map(|r| f64::from(x[r * d + i] * x[r * d + j])).sum();
            0.125 * sum + f64::from(u8::from(i == j))
        };
        let matrix: Vec<f64> = (0..d * d).map(|at| a(at / d, at % d)).collect();
        for (one, other) in [(0, 0), (209, 209), (150, 100), (209, 3), (97, 95)] {
            let half = |j: usize| -> f64 {
                let terms = row(one).iter().enumerate();
                terms.map(|(i, l)| f64::from(*l) * matrix[i * d + j]).sum()
            };
            let terms = row(other).iter().enumerate();
            let found: f64 = terms.map(|(j, l)| f64::from(*l) * half(j)).sum();
            let expected = f64::from(u8::from(one == other));
            assert!((found - expected).abs() < 1e-3, "{one} {other}: {found}");
        }
    }
}
