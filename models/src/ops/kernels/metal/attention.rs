//! Attention: candle's products, and between them a softmax over each query's run of keys, in the place of the scores. A query that is
//! alone, as when a token is written, has a kernel for all of it.
//!
//! Saves q, k, v and the weights. Where all weights would be too many, queries are taken some at a time, each slice with the keys
//! that one of its queries sees; then nothing but q, k and v is saved, and the weights are computed again on the way back.

use std::ops::Range;

use candle_core::Tensor;

use super::{launch::Launch, output_like, product, side_by_side};
use crate::{
    Result,
    ops::{
        attention::{Scoring, Spans},
        kernels::Kernel,
        sum::sum,
    },
    tape::Value,
};

const KERNEL: Kernel = Kernel::Attention;

/// The most weights that are there at once: 128 MiB in f32.
pub(crate) const MAX_WEIGHTS: usize = 1 << 25;

/// The widest head of a query that is alone: a vector of it for each thread of a group at least.
const MAX_WIDTH: usize = 256;

/// Whether attention of these is computed here.
pub(crate) fn serves(q: &Tensor, k: &Tensor, v: &Tensor) -> bool {
    super::serves(KERNEL, &[q, k, v])
}

/// See [`attention`](crate::ops::attention::attention).
pub(crate) fn attention(
    q: &Value,
    k: &Value,
    v: &Value,
    spans: &Spans,
    scoring: Scoring,
) -> Result<Value> {
    let all = [q, k, v];
    let of_one = q.tensor().dim(1)? == 1 && q.tensor().dim(3)? <= MAX_WIDTH;
    if of_one && !all.iter().any(|it| it.wants_gradient()) {
        return next(all.map(Value::tensor), spans, scoring).map(Value::constant);
    }
    in_slices(q, k, v, spans, scoring, MAX_WEIGHTS)
}

/// The attention of one query for each row, as when a token is written: keys and values stay where a cache has them.
fn next([q, k, v]: [&Tensor; 3], spans: &Spans, scoring: Scoring) -> Result<Tensor> {
    let (rows, _, heads, width) = q.dims4()?;
    let q = side_by_side(q)?;
    let are_alike = k.stride() == v.stride() && k.stride()[3] == 1;
    let [k, v] = [k, v].map(|it| match are_alike {
        true => Ok(it.clone()),
        false => side_by_side(it),
    });
    let (k, v) = (k?, v?);
    let apart = &k.stride()[..3];
    let y = output_like(&q)?;
    let widths = [&[width], apart].concat();
    Launch::of("next_attention", q.dtype(), &widths)?
        .tensors(&[&q])?
        .strided(&[&k, &v])
        .tensors(&[&spans.on_device(q.device())?, &y])?
        .whole(&[rows, heads, heads / k.dim(2)?, width])?
        .whole(&[apart, &[0]].concat())?
        .numbers(&scale_and_cap(scoring))
        .for_rows(rows * heads)?;
    Ok(y)
}

/// The same with so many weights at once.
pub(super) fn in_slices(
    q: &Value,
    k: &Value,
    v: &Value,
    spans: &Spans,
    scoring: Scoring,
    max_weights: usize,
) -> Result<Value> {
    let tensors = [q, k, v].map(|it| it.tensor().clone());
    let (rows, tokens, heads, _) = tensors[0].dims4()?;
    let of_query = (rows * heads * spans.keys).max(1);
    let at_once = (max_weights / of_query).max(1);
    if at_once >= tokens {
        let whole = Slice::new(&tensors, spans, 0..tokens, scoring)?;
        let y = whole.output()?;
        return Ok(Value::record(y, &[q, k, v], move |gradient| {
            let [dq, dk, dv] = whole.back(&gradient)?;
            Ok(vec![Some(dq), Some(dk), Some(dv)])
        }));
    }
    let spans = spans.clone();
    let starts = (0..tokens).step_by(at_once);
    let slices = starts.map(move |start| start..(start + at_once).min(tokens));
    let parts = slices
        .clone()
        .map(|slice| Slice::new(&tensors, &spans, slice, scoring)?.output());
    let y = Tensor::cat(&parts.collect::<Result<Vec<_>>>()?, 1)?;
    Ok(Value::record(y, &[q, k, v], move |gradient: Tensor| {
        let (mut dq, mut sums) = (Vec::new(), None::<[Tensor; 2]>);
        for queries in slices {
            let gradient = gradient.narrow(1, queries.start, queries.len())?;
            let slice = Slice::new(&tensors, &spans, queries, scoring)?;
            let [of_queries, dk, dv] = slice.back(&gradient)?;
            dq.push(of_queries);
            let (before, after) = (slice.keys.start, spans.keys - slice.keys.end);
            let among_all = |it: Tensor| it.pad_with_zeros(1, before, after);
            let both = [among_all(dk)?, among_all(dv)?];
            sums = Some(match sums {
                None => both,
                Some([dk, dv]) => [sum(KERNEL, &dk, &both[0])?, sum(KERNEL, &dv, &both[1])?],
            });
        }
        let [dk, dv] = sums.map_or([None, None], |sums| sums.map(Some));
        Ok(vec![Some(Tensor::cat(&dq, 1)?), dk, dv])
    }))
}

/// Some queries with the keys and values that they see: those at `keys`.
struct Slice {
    /// [b·k, g·t, e].
    q: Tensor,
    /// [b·k, s, e], as v.
    k: Tensor,
    v: Tensor,
    keys: Range<usize>,
    /// p [b·k, g·t, s].
    weights: Tensor,
    /// The shapes of q, and of k and v, before heads stood apart.
    shapes: [[usize; 4]; 2],
    scoring: Scoring,
}

impl Slice {
    fn new(
        [q, k, v]: &[Tensor; 3],
        spans: &Spans,
        queries: Range<usize>,
        scoring: Scoring,
    ) -> Result<Self> {
        let (spans, keys) = spans.of_queries(queries.clone());
        let q = q.narrow(1, queries.start, queries.len())?;
        let [k, v] = [k, v].map(|it| it.narrow(1, keys.start, keys.len()));
        let (k, v) = (k?, v?);
        let (q_shape, k_shape) = (q.dims4()?, k.dims4()?);
        let (tokens, heads, key_heads) = (q_shape.1, q_shape.2, k_shape.2);
        let (q, k) = (by_head(&q, key_heads)?, by_head(&k, key_heads)?);
        let weights = product(&q, &k.t()?)?;
        let rows = weights.elem_count() / keys.len();
        let runs = spans.on_device(q.device())?;
        Launch::of("masked_softmax", weights.dtype(), &[keys.len()])?
            .tensors(&[&weights, &runs])?
            .whole(&[rows, heads, tokens, keys.len()])?
            .numbers(&scale_and_cap(scoring))
            .for_rows(rows)?;
        Ok(Self {
            q,
            k,
            v: by_head(&v, key_heads)?,
            keys,
            weights,
            shapes: [q_shape, k_shape].map(|(b, t, h, e)| [b, t, h, e]),
            scoring,
        })
    }

    /// p v, as q was given.
    fn output(&self) -> Result<Tensor> {
        let y = product(&self.weights, &self.v)?;
        side_by_side(&from_head(&y, self.shapes[0])?)
    }

    /// The gradients of q, and of the keys and values that it sees.
    fn back(&self, gradient: &Tensor) -> Result<[Tensor; 3]> {
        let Self {
            q, k, v, weights, ..
        } = self;
        let [of_queries, of_keys] = self.shapes;
        let gradient = by_head(gradient, of_keys[2])?;
        let dv = product(&weights.t()?, &gradient)?;
        let dz = product(&gradient, &v.t()?)?;
        // Only the slope of a cap needs the scores.
        let scores = match self.scoring.soft_cap {
            Some(_) => product(q, &k.t()?)?,
            None => weights.clone(),
        };
        let (rows, keys) = (weights.elem_count() / self.keys.len(), self.keys.len());
        Launch::of("masked_softmax_back", weights.dtype(), &[keys])?
            .tensors(&[weights, &scores, &dz])?
            .whole(&[rows, keys])?
            .numbers(&scale_and_cap(self.scoring))
            .for_rows(rows)?;
        let dq = from_head(&product(&dz, k)?, of_queries)?;
        let dk = from_head(&product(&dz.t()?, q)?, of_keys)?;
        Ok([dq, dk, from_head(&dv, of_keys)?])
    }
}

/// α, and c or 0 for none.
fn scale_and_cap(scoring: Scoring) -> [f64; 2] {
    [scoring.scale, scoring.soft_cap.unwrap_or(0.0)]
}

/// [b, t, k·g, e] -> [b·k, g·t, e]: the heads that share keys stand below each other.
fn by_head(x: &Tensor, key_heads: usize) -> Result<Tensor> {
    let (b, t, h, e) = x.dims4()?;
    let by_head = side_by_side(&x.transpose(1, 2)?)?;
    Ok(by_head.reshape((b * key_heads, h / key_heads * t, e))?)
}

/// [b·k, g·t, e] -> this shape [b, t, k·g, e], with the numbers where they are.
fn from_head(x: &Tensor, [b, t, h, e]: [usize; 4]) -> Result<Tensor> {
    Ok(x.reshape((b, h, t, e))?.transpose(1, 2)?)
}
