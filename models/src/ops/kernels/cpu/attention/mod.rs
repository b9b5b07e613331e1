//! Attention on the layout [b, t, h, e] as it is, one block of queries at a time.
//!
//! Dao et al., "FlashAttention", 2022 (<https://arxiv.org/abs/2205.14135>), for caches instead of a GPU's memory: a
//! block's scores over all keys that it sees fit there, so its softmax is taken in one go, and keys that no query of
//! the block sees are never touched. Saves q, k, v, y and the logarithm of each softmax's sum [b, t, h]; backward
//! computes the weights again.

mod block;
pub(crate) mod kept;

use candle_core::Tensor;

use self::block::{Block, Head, Saved};
use crate::{
    Error, Result,
    ops::{
        attention::{Scoring, Spans},
        kernels::cpu::{Numbers, each, filled, pieces, tensor},
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
        shape: Shape::of(q.tensor(), dims(k.tensor())?, dims(v.tensor())?, spans)?,
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

/// The same, open for reading.
struct Read<'a> {
    shape: Shape,
    scoring: Scoring,
    /// First key and the one after the last, for each query of each row.
    runs: &'a [(u32, u32)],
    q: Numbers<'a>,
    k: (Numbers<'a>, &'a [usize]),
    v: (Numbers<'a>, &'a [usize]),
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

impl Shape {
    /// That of q over keys and values of these dimensions.
    fn of(q: &Tensor, k: [usize; 4], v: [usize; 4], spans: &Spans) -> Result<Self> {
        let (rows, queries, heads, width) = q.dims4()?;
        let [key_rows, keys, key_heads, _] = k;
        let last = spans.runs.iter().map(|run| run.1).max().unwrap_or(0);
        let fits = k == v
            && key_rows == rows
            && k[3] == width
            && heads % key_heads == 0
            && (spans.rows, spans.queries) == (rows, queries)
            && last as usize <= keys;
        if !fits {
            return Err(Error::Tensor(candle_core::Error::Msg(format!(
                "attention of {:?} over keys {:?} and values {:?} with {} spans up to key {last}",
                q.dims(),
                k,
                v,
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

    /// Queries in one segment of backward, and how many segments there are.
    fn segments(self) -> (usize, usize) {
        let parts = TASKS
            .div_ceil(self.rows * self.key_heads)
            .clamp(1, self.queries.div_ceil(SEGMENT));
        let segment = self.queries.div_ceil(parts).next_multiple_of(self.block());
        (segment, self.queries.div_ceil(segment))
    }

    /// The output of a single query per row, of which `fill` writes that of a row and a head.
    fn by_head(self, fill: impl Fn(usize, usize, &mut [f32]) + Sync) -> Vec<f32> {
        let heads = self.key_heads * self.group;
        filled(self.rows * heads * self.width, |y| {
            let tasks = y.chunks_mut(self.width).enumerate().collect();
            each(tasks, self.work(), |(index, y)| {
                fill(index / heads, index % heads, y);
            });
        })
    }

    /// Multiplications of the whole, about.
    fn work(self) -> usize {
        self.rows * self.queries * self.keys * self.query_width()
    }
}

impl Inputs {
    fn read(&self) -> Result<Read<'_>> {
        Ok(Read {
            shape: self.shape,
            scoring: self.scoring,
            runs: &self.spans.runs,
            q: Numbers::of(&self.q)?,
            k: (Numbers::strided(&self.k)?, self.k.stride()),
            v: (Numbers::strided(&self.v)?, self.v.stride()),
        })
    }

    /// The output [b, t, h, e] and the logarithms of the softmax's sums, by row, query and head.
    fn forward(&self) -> Result<(Tensor, Vec<f32>)> {
        let (shape, read) = (self.shape, self.read()?);
        let heads = shape.key_heads * shape.group;
        let (y_width, block) = (shape.query_width(), shape.block());
        let mut logarithms = vec![0.0; shape.rows * shape.queries * heads];
        let y = filled(read.q.len(), |y| {
            let mut tasks = Vec::new();
            let rows = y
                .chunks_mut(shape.queries * y_width)
                .zip(logarithms.chunks_mut(shape.queries * heads));
            for (row, (y, logarithms)) in rows.enumerate() {
                let blocks = y
                    .chunks_mut(block * y_width)
                    .zip(logarithms.chunks_mut(block * heads));
                for (index, (y, logarithms)) in blocks.enumerate() {
                    tasks.push((row, index * block, y, logarithms));
                }
            }
            each(tasks, shape.work(), |(row, query, y, logarithms)| {
                for key_head in 0..shape.key_heads {
                    let count = logarithms.len() / heads;
                    read.block(row, query, count, key_head)
                        .forward(y, logarithms);
                }
            });
        });
        Ok((tensor(y, self.q.shape())?, logarithms))
    }

    /// The gradients of q, k and v.
    ///
    /// Each task has one key head of one row and a segment of its queries. It writes its queries' gradients and its own
    /// sums for keys and values, which are put together afterwards, in order.
    fn backward(&self, y: &Tensor, logarithms: &[f32], gradient: &Tensor) -> Result<[Tensor; 3]> {
        let (shape, read) = (self.shape, self.read()?);
        let (y, gradient) = (Numbers::of(y)?, Numbers::of(gradient)?);
        let saved = Saved {
            y: &y,
            gradient: &gradient,
            logarithms,
        };
        let (segment, parts) = shape.segments();
        let (group_width, block) = (shape.group * shape.width, shape.block());
        let key_numbers = shape.keys * shape.width;
        let mut key_sums = vec![0.0; shape.rows * shape.key_heads * parts * 2 * key_numbers];
        let by_head = filled(read.q.len(), |dq| {
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
                for (index, dq) in dq.chunks_mut(block * group_width).enumerate() {
                    let (query, count) = (start + index * block, dq.len() / group_width);
                    read.block(row, query, count, key_head)
                        .backward(&saved, dq, dk, dv);
                }
            });
        });
        let dq = filled(by_head.len(), |dq| from_heads(shape, &by_head, dq));
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
        let (shape, read) = (self.shape, self.read()?);
        let y = shape.by_head(|row, head, y| {
            read.block(row, 0, 1, head / shape.group).decode(head, y);
        });
        tensor(y, self.q.shape())
    }
}

impl Read<'_> {
    /// The block of `count` queries from `query` on.
    fn block(&self, row: usize, query: usize, count: usize, key_head: usize) -> Block<'_> {
        let first_query = row * self.shape.queries + query;
        let runs = &self.runs[first_query..first_query + count];
        let first = runs.iter().map(|run| run.0).min().unwrap_or(0) as usize;
        let last = runs.iter().map(|run| run.1).max().unwrap_or(0) as usize;
        let q_width = self.shape.query_width();
        Block {
            shape: self.shape,
            scoring: self.scoring,
            key_head,
            first_query,
            first,
            count: last - first,
            runs,
            q: &self.q[first_query * q_width..][..count * q_width],
            k: Head::of(&self.k.0, self.k.1, row, key_head),
            v: Head::of(&self.v.0, self.v.1, row, key_head),
        }
    }
}

fn dims(x: &Tensor) -> Result<[usize; 4]> {
    let (rows, tokens, heads, width) = x.dims4()?;
    Ok([rows, tokens, heads, width])
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
            let first = (row * shape.key_heads + key_head) * parts;
            let part = |part| &sums[(first + part) * 2 * key_numbers + key * width..][..width];
            out.copy_from_slice(part(0));
            for from in (1..parts).map(part) {
                out.iter_mut().zip(from).for_each(|(sum, x)| *sum += x);
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
