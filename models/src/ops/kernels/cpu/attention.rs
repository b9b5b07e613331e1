//! Attention on the layout [b, t, h, e] as it is, one block of queries at a time.
//!
//! Dao et al., "FlashAttention", 2022 (<https://arxiv.org/abs/2205.14135>), for caches instead of a GPU's memory: a
//! block's scores over all keys that it sees fit there, so its softmax is taken in one go, and keys that no query of
//! the block sees are never touched. Saves q, k, v, y and the logarithm of each softmax's sum [b, t, h]; backward
//! computes the weights again.

use candle_core::Tensor;

use crate::{
    Error, Result,
    ops::{
        attention::{Scoring, Spans},
        kernels::cpu::{
            Numbers, each, filled,
            math::{dot, exp, largest, sum, tanh},
            pieces,
            product::{Matrix, Output, Size, multiply},
            simd, tensor, with_scratch,
        },
    },
    tape::Value,
};

/// Rows of a block of scores: queries, times the heads that share their keys.
const BLOCK_ROWS: usize = 96;

/// Tasks that backward is cut into at least, where there are enough queries: for up to as many cores.
const TASKS: usize = 16;

/// Queries in one task of backward at least.
const SEGMENT: usize = 64;

/// See [`attention`](crate::ops::attention::attention).
pub(crate) fn attention(
    q: &Value,
    k: &Value,
    v: &Value,
    spans: &Spans,
    scoring: Scoring,
) -> Result<Value> {
    let inputs = Inputs {
        shape: Shape::of(q.tensor(), k.tensor(), v.tensor(), spans)?,
        q: q.tensor().contiguous()?,
        k: side_by_side(k.tensor())?,
        v: side_by_side(v.tensor())?,
        spans: spans.clone(),
        scoring,
    };
    let values = [q, k, v];
    if inputs.shape.queries == 1 && !values.iter().any(|value| value.wants_gradient()) {
        return Ok(Value::constant(inputs.decode()?));
    }
    let (y, logarithms) = inputs.forward()?;
    let saved_y = y.clone();
    Ok(Value::record(y, &values, move |gradient: Tensor| {
        let [dq, dk, dv] = inputs.backward(&saved_y, &logarithms, &gradient.contiguous()?)?;
        Ok(vec![Some(dq), Some(dk), Some(dv)])
    }))
}

/// What both passes read.
struct Inputs {
    shape: Shape,
    /// Contiguous.
    q: Tensor,
    /// With the numbers of a head side by side; rows, tokens and heads may be any distance apart, as in a cache.
    k: Tensor,
    v: Tensor,
    spans: Spans,
    scoring: Scoring,
}

#[derive(Clone, Copy)]
struct Shape {
    rows: usize,
    queries: usize,
    keys: usize,
    key_heads: usize,
    /// Heads that share a key head.
    group: usize,
    /// Of one head.
    width: usize,
}

/// Keys or values of one key head of one row of the batch.
#[derive(Clone, Copy)]
struct Head<'a> {
    numbers: &'a [f32],
    tokens_apart: usize,
}

/// One block of queries, for the heads that share one key head. Its rows are queries, and within a query heads.
struct Block<'a> {
    shape: Shape,
    /// The keys that some query of the block sees.
    first: usize,
    count: usize,
    /// First key and the one after the last for each query.
    runs: &'a [(u32, u32)],
}

impl Shape {
    fn of(q: &Tensor, k: &Tensor, v: &Tensor, spans: &Spans) -> Result<Self> {
        let (rows, queries, heads, width) = q.dims4()?;
        let (key_rows, keys, key_heads, _) = k.dims4()?;
        let last = spans.runs.iter().map(|run| run.1).max().unwrap_or(0);
        let fits = k.dims() == v.dims()
            && key_rows == rows
            && k.dim(3)? == width
            && heads % key_heads == 0
            && (spans.rows, spans.queries) == (rows, queries)
            && last as usize <= keys;
        if !fits {
            return Err(Error::Tensor(candle_core::Error::Msg(format!(
                "attention of {:?} over keys {:?} and values {:?} with {} spans up to key {last}",
                q.dims(),
                k.dims(),
                v.dims(),
                spans.runs.len()
            ))));
        }
        Ok(Self {
            rows,
            queries,
            keys,
            key_heads,
            group: heads / key_heads,
            width,
        })
    }

    /// Numbers of all heads of one query.
    fn query_width(self) -> usize {
        self.key_heads * self.group * self.width
    }

    /// Queries in one block.
    fn block(self) -> usize {
        (BLOCK_ROWS / self.group).max(1)
    }

    /// Multiplications of the whole, about.
    fn work(self) -> usize {
        self.rows * self.queries * self.keys * self.query_width()
    }
}

impl Inputs {
    /// The output [b, t, h, e] and the logarithms of the softmax's sums, by row, query and head.
    fn forward(&self) -> Result<(Tensor, Vec<f32>)> {
        let shape = self.shape;
        let (q, k, v) = (
            Numbers::of(&self.q)?,
            Numbers::strided(&self.k)?,
            Numbers::strided(&self.v)?,
        );
        let (q, k, v): (&[f32], &[f32], &[f32]) = (&q, &k, &v);
        let heads = shape.key_heads * shape.group;
        let count = shape.rows * shape.queries;
        let mut logarithms = vec![0.0; count * heads];
        let y = filled(count * shape.query_width(), |y| {
            let mut tasks = Vec::new();
            let rows = y
                .chunks_mut(shape.queries * shape.query_width())
                .zip(logarithms.chunks_mut(shape.queries * heads));
            for (row, (y, logarithms)) in rows.enumerate() {
                let blocks = y
                    .chunks_mut(shape.block() * shape.query_width())
                    .zip(logarithms.chunks_mut(shape.block() * heads));
                for (index, (y, logarithms)) in blocks.enumerate() {
                    tasks.push((row, index * shape.block(), y, logarithms));
                }
            }
            each(tasks, shape.work(), |(row, query, y, logarithms)| {
                for key_head in 0..shape.key_heads {
                    let head = |numbers, like| Head::of(numbers, like, row, key_head);
                    let block = self.block(row, query, logarithms.len() / heads);
                    let first = (row * shape.queries + query) * shape.query_width();
                    let q = &q[first..first + y.len()];
                    let (k, v) = (head(k, &self.k), head(v, &self.v));
                    block.forward(self.scoring, key_head, q, k, v, y, logarithms);
                }
            });
        });
        Ok((tensor(y, self.q.shape())?, logarithms))
    }

    /// The gradients of q, k and v.
    fn backward(&self, y: &Tensor, logarithms: &[f32], gradient: &Tensor) -> Result<[Tensor; 3]> {
        let shape = self.shape;
        let (q, k, v) = (
            Numbers::of(&self.q)?,
            Numbers::strided(&self.k)?,
            Numbers::strided(&self.v)?,
        );
        let (y, gradient) = (Numbers::of(y)?, Numbers::of(gradient)?);
        let (q, k, v): (&[f32], &[f32], &[f32]) = (&q, &k, &v);
        let (y, gradient): (&[f32], &[f32]) = (&y, &gradient);

        // Each task has one key head of one row and a segment of its queries. It writes its queries' gradients and its
        // own sums for keys and values, which are put together afterwards, in order.
        let parts = TASKS
            .div_ceil(shape.rows * shape.key_heads)
            .clamp(1, shape.queries.div_ceil(SEGMENT));
        let segment = shape
            .queries
            .div_ceil(parts)
            .next_multiple_of(shape.block());
        let parts = shape.queries.div_ceil(segment);
        let group_width = shape.group * shape.width;
        let key_numbers = shape.keys * shape.width;
        let mut key_sums = vec![0.0; shape.rows * shape.key_heads * parts * 2 * key_numbers];
        let by_head = filled(q.len(), |dq| {
            let mut tasks = Vec::new();
            let heads = dq.chunks_mut(shape.queries * group_width);
            let sums = key_sums.chunks_mut(parts * 2 * key_numbers);
            for (index, (dq, sums)) in heads.zip(sums).enumerate() {
                let segments = dq
                    .chunks_mut(segment * group_width)
                    .zip(sums.chunks_mut(2 * key_numbers));
                for (part, (dq, sums)) in segments.enumerate() {
                    tasks.push((index, part * segment, dq, sums));
                }
            }
            each(tasks, shape.work(), |(index, start, dq, sums)| {
                let (row, key_head) = (index / shape.key_heads, index % shape.key_heads);
                let (dk, dv) = sums.split_at_mut(key_numbers);
                let k = Head::of(k, &self.k, row, key_head);
                let v = Head::of(v, &self.v, row, key_head);
                let blocks = dq.chunks_mut(shape.block() * group_width);
                for (index, dq) in blocks.enumerate() {
                    let query = start + index * shape.block();
                    let block = self.block(row, query, dq.len() / group_width);
                    let range = |width: usize| {
                        let first = row * shape.queries + query;
                        first * width..(first + block.runs.len()) * width
                    };
                    let numbers = range(shape.query_width());
                    let read = Read {
                        q: &q[numbers.clone()],
                        y: &y[numbers.clone()],
                        gradient: &gradient[numbers],
                        logarithms: &logarithms[range(shape.key_heads * shape.group)],
                        k,
                        v,
                    };
                    block.backward(self.scoring, key_head, &read, dq, dk, dv);
                }
            });
        });
        let dq = filled(q.len(), |dq| from_heads(shape, &by_head, dq));
        let [dk, dv] = [0, key_numbers].map(|offset| {
            filled(shape.rows * shape.key_heads * key_numbers, |out| {
                add_parts(shape, parts, &key_sums[offset..], out);
            })
        });
        let keys = (shape.rows, shape.keys, shape.key_heads, shape.width);
        Ok([
            tensor(dq, self.q.shape())?,
            tensor(dk, keys)?,
            tensor(dv, keys)?,
        ])
    }

    /// The output for a single query per row: nothing to block, and every key is read once.
    fn decode(&self) -> Result<Tensor> {
        let shape = self.shape;
        let (q, k, v) = (
            Numbers::of(&self.q)?,
            Numbers::strided(&self.k)?,
            Numbers::strided(&self.v)?,
        );
        let (q, k, v): (&[f32], &[f32], &[f32]) = (&q, &k, &v);
        let group_width = shape.group * shape.width;
        let y = filled(q.len(), |y| {
            let tasks: Vec<_> = y.chunks_mut(group_width).enumerate().collect();
            each(tasks, shape.work(), |(index, y)| {
                let (row, key_head) = (index / shape.key_heads, index % shape.key_heads);
                let k = Head::of(k, &self.k, row, key_head);
                let v = Head::of(v, &self.v, row, key_head);
                let q = &q[index * group_width..][..group_width];
                let (first, last) = self.spans.runs[row];
                let keys = first as usize..last as usize;
                for (q, y) in q.chunks(shape.width).zip(y.chunks_mut(shape.width)) {
                    with_scratch(keys.len(), |weights| {
                        simd(
                            #[inline(always)]
                            || attend(self.scoring, q, k, v, keys.start, weights, y),
                        );
                    });
                }
            });
        });
        tensor(y, self.q.shape())
    }

    fn block(&self, row: usize, query: usize, count: usize) -> Block<'_> {
        let start = row * self.shape.queries + query;
        let runs = &self.spans.runs[start..start + count];
        let first = runs.iter().map(|run| run.0).min().unwrap_or(0) as usize;
        let last = runs.iter().map(|run| run.1).max().unwrap_or(0) as usize;
        Block {
            shape: self.shape,
            first,
            count: last - first,
            runs,
        }
    }
}

/// What backward of one block reads: its queries' numbers for all heads, and the keys and values of one key head.
struct Read<'a> {
    q: &'a [f32],
    y: &'a [f32],
    gradient: &'a [f32],
    logarithms: &'a [f32],
    k: Head<'a>,
    v: Head<'a>,
}

impl<'a> Head<'a> {
    /// The numbers from the row's and head's first one on. `like` has the layout of [b, s, k, e].
    fn of(numbers: &'a [f32], like: &Tensor, row: usize, key_head: usize) -> Self {
        let stride = like.stride();
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
        Matrix::rows(
            &self.numbers[token * self.tokens_apart..],
            self.tokens_apart,
        )
    }
}

impl Block<'_> {
    /// Rows of scores.
    fn rows(&self) -> usize {
        self.runs.len() * self.shape.group
    }

    /// The keys that a row of scores may use, counted from the block's first.
    fn visible(&self, row: usize) -> std::ops::Range<usize> {
        let (first, last) = self.runs[row / self.shape.group];
        first as usize - self.first..last as usize - self.first
    }

    /// Where each query's numbers of this key head begin in numbers of all heads.
    fn starts(&self, key_head: usize) -> impl Iterator<Item = usize> {
        let (all, group) = (
            self.shape.query_width(),
            self.shape.group * self.shape.width,
        );
        (0..self.runs.len()).map(move |query| query * all + key_head * group)
    }

    /// The numbers of this key head's queries, times `factor`, below each other.
    fn gather(&self, all: &[f32], key_head: usize, factor: f32, into: &mut [f32]) {
        let group_width = self.shape.group * self.shape.width;
        for (start, row) in self.starts(key_head).zip(into.chunks_mut(group_width)) {
            for (to, from) in row.iter_mut().zip(&all[start..start + group_width]) {
                *to = from * factor;
            }
        }
    }

    fn size(&self) -> Size {
        Size {
            rows: self.rows(),
            columns: self.count,
            depth: self.shape.width,
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn forward(
        &self,
        scoring: Scoring,
        key_head: usize,
        q: &[f32],
        k: Head,
        v: Head,
        y: &mut [f32],
        logarithms: &mut [f32],
    ) {
        let (rows, width, count) = (self.rows(), self.shape.width, self.count);
        let heads = self.shape.key_heads * self.shape.group;
        with_scratch(rows * (2 * width + count), |scratch| {
            let (own_q, scratch) = scratch.split_at_mut(rows * width);
            let (own_y, scores) = scratch.split_at_mut(rows * width);
            self.gather(q, key_head, scoring.scale as f32, own_q);
            let own_q = Matrix::rows(own_q, width);
            let keys = k.from(self.first).transposed();
            multiply(
                scores,
                count,
                own_q,
                keys,
                self.size(),
                1.0,
                Output::Replace,
            );
            simd(
                #[inline(always)]
                || {
                    for (row, scores) in scores.chunks_mut(count).enumerate() {
                        let visible = self.visible(row);
                        let (query, head) = (row / self.shape.group, row % self.shape.group);
                        logarithms[query * heads + key_head * self.shape.group + head] =
                            softmax(scores, visible, scoring.soft_cap);
                    }
                },
            );
            let size = Size {
                rows,
                columns: width,
                depth: count,
            };
            let weights = Matrix::rows(scores, count);
            multiply(
                own_y,
                width,
                weights,
                v.from(self.first),
                size,
                1.0,
                Output::Replace,
            );
            let group_width = self.shape.group * width;
            for (start, own) in self.starts(key_head).zip(own_y.chunks(group_width)) {
                y[start..start + group_width].copy_from_slice(own);
            }
        });
    }

    /// Writes the gradient of the block's queries and adds to those of keys and values [s, e].
    fn backward(
        &self,
        scoring: Scoring,
        key_head: usize,
        read: &Read,
        dq: &mut [f32],
        dk: &mut [f32],
        dv: &mut [f32],
    ) {
        let (rows, width, count) = (self.rows(), self.shape.width, self.count);
        let heads = self.shape.key_heads * self.shape.group;
        with_scratch(rows * (3 * width + 2 * count), |scratch| {
            let (q, scratch) = scratch.split_at_mut(rows * width);
            let (y, scratch) = scratch.split_at_mut(rows * width);
            let (g, scratch) = scratch.split_at_mut(rows * width);
            let (weights, slopes) = scratch.split_at_mut(rows * count);
            self.gather(read.q, key_head, scoring.scale as f32, q);
            self.gather(read.y, key_head, 1.0, y);
            self.gather(read.gradient, key_head, 1.0, g);
            let (q, gradient) = (Matrix::rows(q, width), Matrix::rows(g, width));
            let (k, v) = (read.k.from(self.first), read.v.from(self.first));
            let size = self.size();
            multiply(
                weights,
                count,
                q,
                k.transposed(),
                size,
                1.0,
                Output::Replace,
            );
            multiply(
                slopes,
                count,
                gradient,
                v.transposed(),
                size,
                1.0,
                Output::Replace,
            );
            simd(
                #[inline(always)]
                || {
                    let pairs = weights.chunks_mut(count).zip(slopes.chunks_mut(count));
                    for (row, (weights, slopes)) in pairs.enumerate() {
                        let (query, head) = (row / self.shape.group, row % self.shape.group);
                        let of_row = row * width..(row + 1) * width;
                        differentiate(
                            weights,
                            slopes,
                            self.visible(row),
                            scoring.soft_cap,
                            read.logarithms[query * heads + key_head * self.shape.group + head],
                            dot(&y[of_row.clone()], &g[of_row]),
                        );
                    }
                },
            );
            let (weights, slopes) = (Matrix::rows(weights, count), Matrix::rows(slopes, count));
            let onto_keys = Size {
                rows: count,
                columns: width,
                depth: rows,
            };
            let onto_queries = Size {
                rows,
                columns: width,
                depth: count,
            };
            let (dk, dv) = (&mut dk[self.first * width..], &mut dv[self.first * width..]);
            let scale = scoring.scale as f32;
            multiply(
                dv,
                width,
                weights.transposed(),
                gradient,
                onto_keys,
                1.0,
                Output::Add,
            );
            multiply(
                dk,
                width,
                slopes.transposed(),
                q,
                onto_keys,
                1.0,
                Output::Add,
            );
            multiply(dq, width, slopes, k, onto_queries, scale, Output::Replace);
        });
    }
}

/// Turns a row of scores into weights, zero outside of `visible`, and returns the logarithm of the softmax's sum.
#[inline(always)]
fn softmax(scores: &mut [f32], visible: std::ops::Range<usize>, soft_cap: Option<f64>) -> f32 {
    scores[..visible.start].fill(0.0);
    scores[visible.end..].fill(0.0);
    let scores = &mut scores[visible];
    if let Some(cap) = soft_cap {
        let cap = cap as f32;
        scores
            .iter_mut()
            .for_each(|score| *score = cap * tanh(*score / cap));
    }
    let most = largest(scores);
    scores
        .iter_mut()
        .for_each(|score| *score = exp(*score - most));
    let total = sum(scores, |weight| weight);
    let share = 1.0 / total;
    scores.iter_mut().for_each(|weight| *weight *= share);
    most + total.ln()
}

/// Turns a row of scores into weights, and the gradient of the weights into that of the scores.
#[inline(always)]
fn differentiate(
    scores: &mut [f32],
    gradients: &mut [f32],
    visible: std::ops::Range<usize>,
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

/// The output of one query of one head over the keys from `first` on, as many as there are `weights`.
#[inline(always)]
fn attend(
    scoring: Scoring,
    q: &[f32],
    k: Head,
    v: Head,
    first: usize,
    weights: &mut [f32],
    y: &mut [f32],
) {
    let scale = scoring.scale as f32;
    for (key, weight) in weights.iter_mut().enumerate() {
        *weight = scale * dot(q, k.token(first + key, q.len()));
    }
    let all = 0..weights.len();
    softmax(weights, all, scoring.soft_cap);
    y.fill(0.0);
    for (key, weight) in weights.iter().enumerate() {
        let value = v.token(first + key, y.len());
        for (y, value) in y.iter_mut().zip(value) {
            *y = weight.mul_add(*value, *y);
        }
    }
}

/// [b, k, t, g·e] -> [b, t, k·g·e].
fn from_heads(shape: Shape, by_head: &[f32], out: &mut [f32]) {
    let group_width = shape.group * shape.width;
    pieces(out, shape.query_width(), |index, out| {
        let (row, query) = (index / shape.queries, index % shape.queries);
        for (key_head, out) in out.chunks_mut(group_width).enumerate() {
            let from = (row * shape.key_heads + key_head) * shape.queries + query;
            out.copy_from_slice(&by_head[from * group_width..][..group_width]);
        }
    });
}

/// The sum of the parts [b, k, parts, 2, s, e] -> [b, s, k, e]; of the 2 the one that `sums` begins with.
fn add_parts(shape: Shape, parts: usize, sums: &[f32], out: &mut [f32]) {
    let (width, key_numbers) = (shape.width, shape.keys * shape.width);
    pieces(out, shape.key_heads * width, |index, out| {
        let (row, key) = (index / shape.keys, index % shape.keys);
        for (key_head, out) in out.chunks_mut(width).enumerate() {
            for part in 0..parts {
                let part = (row * shape.key_heads + key_head) * parts + part;
                let from = &sums[part * 2 * key_numbers + key * width..][..width];
                if part % parts == 0 {
                    out.copy_from_slice(from);
                } else {
                    out.iter_mut()
                        .zip(from)
                        .for_each(|(sum, part)| *sum += part);
                }
            }
        }
    });
}

/// The tensor itself if the numbers of a head lie side by side, else a copy.
fn side_by_side(x: &Tensor) -> Result<Tensor> {
    Ok(if x.stride().last() == Some(&1) {
        x.clone()
    } else {
        x.contiguous()?
    })
}
