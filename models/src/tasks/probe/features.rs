//! What a linear classifier reads: rows of numbers, dense as hidden states are or mostly zero as counts of words are, and the two
//! products that every solver shares.
//!
//! Products are f32, cut into chunks of rows; sums over chunks are f64, in their order, so that results are the same to the last
//! bit for any number of threads. Letters: n rows, d numbers in each, k classifiers.

use rayon::prelude::*;

use super::scale::Standard;
use crate::{
    ops::kernels::cpu::product::{Matrix, Output, Size, multiply_on_threads},
    random::Random,
};

/// Rows of a chunk: the sum over so many is taken in f32.
const ROWS: usize = 2_048;

/// n rows of d numbers.
#[derive(Debug, Clone, Copy)]
pub enum Features<'a> {
    /// All of them, row after row: [n, d].
    Dense(&'a [f32], usize),
    /// Those that are not 0.
    Sparse(&'a Sparse),
}

/// So many rows, made of those that there are: each of them again, with noise of half its deviation, so that none is twice there. What
/// is learned of them takes about as long as of real ones, and means nothing.
pub fn stretched(rows: &[f32], width: usize, count: usize, seed: u64) -> Vec<f32> {
    let known = rows.len() / width.max(1);
    if known == 0 {
        return vec![0.0; count * width];
    }
    let deviations = Standard::of(rows, width).deviation;
    let mut random = Random::for_purpose(seed, "stretched rows");
    let mut numbers = Vec::with_capacity(count * width);
    for row in 0..count {
        let of = &rows[row % known * width..][..width];
        let noise = if row < known { 0.0 } else { 0.5 };
        let each = of.iter().zip(&deviations);
        numbers
            .extend(each.map(|(it, deviation)| it + (noise * deviation * random.normal()) as f32));
    }
    numbers
}

/// Rows that are mostly 0.
#[derive(Debug, Clone, Default)]
pub struct Sparse {
    /// Where each row starts among the numbers, and where the last one ends: [n + 1].
    pub starts: Vec<usize>,
    /// Which of the d numbers each is.
    pub columns: Vec<u32>,
    /// The values that are stored, row after row: as many as there are `columns`.
    pub numbers: Vec<f32>,
    /// d.
    pub width: usize,
}

impl Sparse {
    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// The numbers of a row that are not 0, with their columns.
    pub fn row(&self, row: usize) -> impl Iterator<Item = (usize, f32)> {
        let range = self.starts[row]..self.starts[row + 1];
        let columns = self.columns[range.clone()].iter();
        let columns = columns.map(|&it| it as usize);
        columns.zip(self.numbers[range].iter().copied())
    }
}

impl<'a> Features<'a> {
    /// n.
    pub fn rows(&self) -> usize {
        match self {
            Self::Dense(numbers, width) => numbers.len() / (*width).max(1),
            Self::Sparse(sparse) => sparse.rows(),
        }
    }

    /// d.
    pub fn width(&self) -> usize {
        match self {
            Self::Dense(_, width) => *width,
            Self::Sparse(sparse) => sparse.width,
        }
    }

    /// Scores W Xᵀ of weights [k, d], without a bias, into `scores` [k, n].
    pub fn scores(&self, weights: &[f32], scores: &mut [f32]) {
        let (n, d) = (self.rows(), self.width());
        if n == 0 || scores.is_empty() {
            return;
        }
        match self {
            Self::Dense(..) if d == 0 => scores.fill(0.0),
            Self::Dense(numbers, _) => {
                let size = Size {
                    rows: scores.len() / n,
                    columns: n,
                    depth: d,
                };
                let (w, x) = (Matrix::rows(weights, d), Matrix::rows(numbers, d));
                multiply_on_threads(scores, n, w, x.transposed(), size, 1.0, Output::Replace);
            }
            Self::Sparse(sparse) => {
                let each = scores.par_chunks_mut(n).enumerate();
                each.for_each(|(k, scores)| {
                    let weights = &weights[k * d..(k + 1) * d];
                    for (row, score) in scores.iter_mut().enumerate() {
                        let terms = sparse.row(row);
                        let sum: f64 = terms.map(|(at, x)| f64::from(weights[at] * x)).sum();
                        *score = sum as f32;
                    }
                });
            }
        }
    }

    /// Gradients R X of residuals [k, n] into `gradient` [k, d].
    pub fn gradient(&self, residuals: &[f32], gradient: &mut [f64]) {
        let (n, d) = (self.rows(), self.width());
        gradient.fill(0.0);
        if n == 0 || d == 0 {
            return;
        }
        match self {
            Self::Dense(numbers, _) => {
                let mut part = vec![0.0; gradient.len()];
                for start in (0..n).step_by(ROWS) {
                    let size = Size {
                        rows: gradient.len() / d,
                        columns: d,
                        depth: ROWS.min(n - start),
                    };
                    let r = Matrix::rows(&residuals[start..], n);
                    let x = Matrix::rows(&numbers[start * d..], d);
                    multiply_on_threads(&mut part, d, r, x, size, 1.0, Output::Replace);
                    for (sum, &part) in gradient.iter_mut().zip(&part) {
                        *sum += f64::from(part);
                    }
                }
            }
            Self::Sparse(sparse) => {
                let each = gradient.par_chunks_mut(d).zip(residuals.par_chunks(n));
                each.for_each(|(gradient, residuals)| {
                    for (row, &residual) in residuals.iter().enumerate() {
                        for (at, x) in sparse.row(row) {
                            gradient[at] += f64::from(residual * x);
                        }
                    }
                });
            }
        }
    }

    /// Scores of classifiers, each with weights [d] and a bias: [k][n].
    pub fn scores_of<'b>(
        &self,
        classifiers: impl IntoIterator<Item = (&'b [f64], f64)>,
    ) -> Vec<Vec<f32>> {
        let n = self.rows();
        let (mut weights, mut biases) = (Vec::new(), Vec::new());
        for (these, bias) in classifiers {
            weights.extend(these.iter().map(|&it| it as f32));
            biases.push(bias as f32);
        }
        let mut scores = vec![0.0; n * biases.len()];
        self.scores(&weights, &mut scores);
        let with_bias = |(k, bias): (usize, &f32)| {
            let scores = scores[k * n..(k + 1) * n].iter();
            scores.map(|it| it + bias).collect()
        };
        biases.iter().enumerate().map(with_bias).collect()
    }
}
