//! One block of queries against the keys that it sees, for the heads that share one key head.

use std::ops::Range;

use super::Shape;
use crate::ops::{
    attention::Scoring,
    kernels::cpu::{
        math::{dot, dots, exp, largest, sum, tanh},
        product::{Matrix, Output, Size, multiply},
        simd, with_scratch,
    },
};

/// The rows of a block's scores are its queries, and within a query the heads.
pub(super) struct Block<'a> {
    pub(super) shape: Shape,
    pub(super) scoring: Scoring,
    pub(super) key_head: usize,
    /// Counted over all rows of the batch.
    pub(super) first_query: usize,
    /// The keys that some query of the block sees.
    pub(super) first: usize,
    pub(super) count: usize,
    /// First key and the one after the last for each query.
    pub(super) runs: &'a [(u32, u32)],
    /// The block's queries, with all heads.
    pub(super) q: &'a [f32],
    pub(super) k: Head<'a>,
    pub(super) v: Head<'a>,
}

/// Keys or values of one key head of one row of the batch.
#[derive(Clone, Copy)]
pub(super) struct Head<'a> {
    numbers: &'a [f32],
    tokens_apart: usize,
}

/// What backward reads besides, for all queries and heads.
pub(super) struct Saved<'a> {
    pub(super) y: &'a [f32],
    pub(super) gradient: &'a [f32],
    pub(super) logarithms: &'a [f32],
}

impl<'a> Head<'a> {
    /// The numbers from the row's and head's first one on, of a tensor [b, s, k, e] with these strides.
    pub(super) fn of(numbers: &'a [f32], stride: &[usize], row: usize, key_head: usize) -> Self {
        Self {
            numbers: &numbers[row * stride[0] + key_head * stride[2]..],
            tokens_apart: stride[1],
        }
    }

    fn token(self, token: usize, width: usize) -> &'a [f32] {
        &self.numbers[token * self.tokens_apart..][..width]
    }

    /// Tokens from this one on as rows of a matrix.
    fn from(self, token: usize) -> Matrix<'a> {
        let start = token * self.tokens_apart;
        Matrix::rows(&self.numbers[start..], self.tokens_apart)
    }
}

impl Block<'_> {
    /// Writes the block's output, for this key head, into `y` with all heads, and the same of the softmax's logarithms.
    pub(super) fn forward(&self, y: &mut [f32], logarithms: &mut [f32]) {
        let (rows, width, count) = (self.rows(), self.shape.width, self.count);
        with_scratch(rows * (2 * width + count), |scratch| {
            let (q, scratch) = scratch.split_at_mut(rows * width);
            let (own_y, scores) = scratch.split_at_mut(rows * width);
            self.gather(self.q, self.scoring.scale as f32, q);
            let (q, keys) = (Matrix::rows(q, width), self.k.from(self.first).transposed());
            multiply(scores, count, q, keys, self.scores(), 1.0, Output::Replace);
            simd(
                #[inline(always)]
                || {
                    for (row, scores) in scores.chunks_mut(count).enumerate() {
                        logarithms[self.head(row)] =
                            softmax(scores, self.visible(row), self.scoring.soft_cap);
                    }
                },
            );
            let (weights, values) = (Matrix::rows(scores, count), self.v.from(self.first));
            let size = self.outputs();
            multiply(own_y, width, weights, values, size, 1.0, Output::Replace);
            let group_width = self.shape.group * width;
            for (start, own) in self.starts().zip(own_y.chunks(group_width)) {
                y[start..start + group_width].copy_from_slice(own);
            }
        });
    }

    /// Writes the gradient of the block's queries of this key head and adds to those of its keys and values [s, e].
    pub(super) fn backward(&self, saved: &Saved, dq: &mut [f32], dk: &mut [f32], dv: &mut [f32]) {
        let (rows, width, count) = (self.rows(), self.shape.width, self.count);
        let scale = self.scoring.scale as f32;
        with_scratch(rows * (3 * width + 2 * count), |scratch| {
            let (q, scratch) = scratch.split_at_mut(rows * width);
            let (y, scratch) = scratch.split_at_mut(rows * width);
            let (gradient, scratch) = scratch.split_at_mut(rows * width);
            let (weights, slopes) = scratch.split_at_mut(rows * count);
            self.gather(self.q, scale, q);
            self.gather(self.own(saved.y), 1.0, y);
            self.gather(self.own(saved.gradient), 1.0, gradient);
            let (q, g) = (Matrix::rows(q, width), Matrix::rows(gradient, width));
            let (k, v) = (self.k.from(self.first), self.v.from(self.first));
            let (keys, values, size) = (k.transposed(), v.transposed(), self.scores());
            multiply(weights, count, q, keys, size, 1.0, Output::Replace);
            multiply(slopes, count, g, values, size, 1.0, Output::Replace);
            let logarithms = self.own(saved.logarithms);
            simd(
                #[inline(always)]
                || {
                    let pairs = weights.chunks_mut(count).zip(slopes.chunks_mut(count));
                    for (row, (weights, slopes)) in pairs.enumerate() {
                        let of_row = row * width..(row + 1) * width;
                        let along = dot(&y[of_row.clone()], &gradient[of_row]);
                        let (visible, soft_cap) = (self.visible(row), self.scoring.soft_cap);
                        let logarithm = logarithms[self.head(row)];
                        differentiate(weights, slopes, visible, soft_cap, logarithm, along);
                    }
                },
            );
            let (weights, slopes) = (Matrix::rows(weights, count), Matrix::rows(slopes, count));
            let onto_keys = Size {
                rows: count,
                columns: width,
                depth: rows,
            };
            let part = self.first * width..(self.first + count) * width;
            let (dk, dv) = (&mut dk[part.clone()], &mut dv[part]);
            let (across, down) = (slopes.transposed(), weights.transposed());
            multiply(dv, width, down, g, onto_keys, 1.0, Output::Add);
            multiply(dk, width, across, q, onto_keys, 1.0, Output::Add);
            multiply(dq, width, slopes, k, self.outputs(), scale, Output::Replace);
        });
    }

    /// The output of a block of one query, for one head of those that share this key head.
    pub(super) fn decode(&self, head: usize, y: &mut [f32]) {
        let q = &self.q[head * y.len()..][..y.len()];
        with_scratch(self.count, |weights| {
            let key = |key| self.k.token(self.first + key, q.len());
            dots(q, key, weights);
            simd(
                #[inline(always)]
                || self.attend(q, weights, y),
            );
        });
    }

    /// Writes the output of a head from its products with the keys.
    #[inline(always)]
    fn attend(&self, q: &[f32], weights: &mut [f32], y: &mut [f32]) {
        weigh(weights, self.scoring);
        y.fill(0.0);
        let value = |key: usize| self.v.token(self.first + key, q.len());
        // Several at once, so that y is read and written less often.
        let (fours, rest) = weights.as_chunks::<4>();
        for (at, four) in fours.iter().enumerate() {
            let [a, b, c, d] = [0, 1, 2, 3].map(|of| value(4 * at + of));
            for ((((y, a), b), c), d) in y.iter_mut().zip(a).zip(b).zip(c).zip(d) {
                let sum = four[1].mul_add(*b, four[0].mul_add(*a, *y));
                *y = four[3].mul_add(*d, four[2].mul_add(*c, sum));
            }
        }
        for (at, weight) in rest.iter().enumerate() {
            for (y, value) in y.iter_mut().zip(value(4 * fours.len() + at)) {
                *y = weight.mul_add(*value, *y);
            }
        }
    }

    /// Rows of scores.
    fn rows(&self) -> usize {
        self.runs.len() * self.shape.group
    }

    /// The keys that a row of scores may use, counted from the block's first.
    fn visible(&self, row: usize) -> Range<usize> {
        let (first, last) = self.runs[row / self.shape.group];
        first as usize - self.first..last as usize - self.first
    }

    /// The query and head of a row of scores, counted over the block's queries and all heads.
    fn head(&self, row: usize) -> usize {
        let group = self.shape.group;
        (row / group * self.shape.key_heads + self.key_head) * group + row % group
    }

    /// The part of this block in numbers of all queries.
    fn own<'a>(&self, all: &'a [f32]) -> &'a [f32] {
        let width = all.len() / (self.shape.rows * self.shape.queries);
        &all[self.first_query * width..][..self.runs.len() * width]
    }

    /// Where each query's numbers of this key head begin in the block's numbers of all heads.
    fn starts(&self) -> impl Iterator<Item = usize> + use<> {
        let (all, key_heads) = (self.shape.query_width(), self.shape.key_heads);
        let start = self.key_head * (all / key_heads);
        (0..self.runs.len()).map(move |query| query * all + start)
    }

    /// This key head's part of the block's numbers, times `factor`, its rows below each other.
    fn gather(&self, all: &[f32], factor: f32, into: &mut [f32]) {
        let group_width = self.shape.group * self.shape.width;
        for (start, row) in self.starts().zip(into.chunks_mut(group_width)) {
            for (to, from) in row.iter_mut().zip(&all[start..start + group_width]) {
                *to = from * factor;
            }
        }
    }

    fn scores(&self) -> Size {
        Size {
            rows: self.rows(),
            columns: self.count,
            depth: self.shape.width,
        }
    }

    fn outputs(&self) -> Size {
        Size {
            rows: self.rows(),
            columns: self.shape.width,
            depth: self.count,
        }
    }
}

/// Turns products with all keys into weights.
#[inline(always)]
pub(super) fn weigh(products: &mut [f32], scoring: Scoring) {
    let scale = scoring.scale as f32;
    for product in products.iter_mut() {
        *product *= scale;
    }
    let all = 0..products.len();
    softmax(products, all, scoring.soft_cap);
}

/// Turns a row of scores into weights, zero outside of `visible`, and returns the logarithm of the softmax's sum.
#[inline(always)]
fn softmax(scores: &mut [f32], visible: Range<usize>, soft_cap: Option<f64>) -> f32 {
    scores[..visible.start].fill(0.0);
    scores[visible.end..].fill(0.0);
    let scores = &mut scores[visible];
    if let Some(cap) = soft_cap {
        let cap = cap as f32;
        for score in scores.iter_mut() {
            *score = cap * tanh(*score / cap);
        }
    }
    let most = largest(scores);
    for score in scores.iter_mut() {
        *score = exp(*score - most);
    }
    let total = sum(scores);
    let share = 1.0 / total;
    for weight in scores.iter_mut() {
        *weight *= share;
    }
    most + total.ln()
}

/// Turns a row of scores into weights, and the gradient of the weights into that of the scores.
#[inline(always)]
fn differentiate(
    scores: &mut [f32],
    gradients: &mut [f32],
    visible: Range<usize>,
    soft_cap: Option<f64>,
    logarithm: f32,
    along: f32,
) {
    for row in [&mut *scores, &mut *gradients] {
        row[..visible.start].fill(0.0);
        row[visible.end..].fill(0.0);
    }
    let pairs = scores[visible.clone()]
        .iter_mut()
        .zip(&mut gradients[visible]);
    match soft_cap {
        None => {
            for (score, gradient) in pairs {
                *score = exp(*score - logarithm);
                *gradient = *score * (*gradient - along);
            }
        }
        Some(cap) => {
            let cap = cap as f32;
            for (score, gradient) in pairs {
                let squeezed = tanh(*score / cap);
                *score = exp(cap * squeezed - logarithm);
                *gradient = *score * (*gradient - along) * (1.0 - squeezed * squeezed);
            }
        }
    }
}
