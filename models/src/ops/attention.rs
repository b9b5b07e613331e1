//! Grouped-query attention over a contiguous span of keys per query.
//!
//! For each query: scores z = α q·k over its span, soft-capped to c tanh(z / c) where the model says so, p = softmax,
//! y = Σ p v. Vaswani et al., 2017; grouped heads: Ainslie et al., 2023 (<https://arxiv.org/abs/2305.13245>).
//!
//! Every mask that a decoder needs leaves each query one contiguous run of keys: causal ends it at the query, a sliding
//! window and the start of the query's document begin it. So a mask is two numbers per query, never [t, s].
//!
//! Backward: dv = pᵀ g, dp = g vᵀ, dz = p ⊙ (dp - Σ p dp), times 1 - tanh² under a soft cap, dq = α dz k, dk = α dzᵀ q.
//! The composed version saves q, k, v and p; keys and values are never repeated for the heads that share them.

use std::{
    ops::Range,
    sync::{Arc, OnceLock},
};

use candle_core::{D, DType, Device, Tensor};

use crate::{
    Result,
    ops::{
        kept,
        kernels::{self, Kernel},
        wide_dtype, widen,
    },
    profile,
    tape::Value,
};

/// What a masked score is set to: far below any real one, yet finite, so that no device turns it into a NaN.
const MASKED: f32 = -1e30;

/// Which keys each query sees: one run per query.
#[derive(Debug, Clone)]
pub struct Spans {
    pub(crate) rows: usize,
    pub(crate) queries: usize,
    pub(crate) keys: usize,
    /// First key and the one after the last, for each of b · t queries. Never empty.
    pub(crate) runs: Arc<Vec<(u32, u32)>>,
    /// The same as a tensor [b, 1, t, s] to add to scores, made when a device without its own kernel asks.
    mask: Arc<OnceLock<Tensor>>,
    /// The runs as a tensor [b, t, 2], made when a device's own kernel asks.
    on_device: Arc<OnceLock<Tensor>>,
}

impl Spans {
    /// Queries that follow `past` keys and see themselves and what came before, at most `window` keys in all.
    pub fn causal(rows: usize, queries: usize, past: usize, window: Option<usize>) -> Self {
        let run = |query: usize| {
            let end = past + query + 1;
            (end.saturating_sub(window.unwrap_or(end)) as u32, end as u32)
        };
        let runs = (0..rows).flat_map(|_| (0..queries).map(run)).collect();
        Self::new(rows, queries, past + queries, runs)
    }

    /// Causal within documents: `documents` [b · t] numbers the document of each token, rising along a row.
    pub fn documents(rows: usize, documents: &[u32], window: Option<usize>) -> Self {
        let tokens = documents.len() / rows.max(1);
        let mut runs = Vec::with_capacity(documents.len());
        for row in documents.chunks(tokens.max(1)) {
            let mut start = 0;
            for (query, document) in row.iter().enumerate() {
                if query > 0 && *document != row[query - 1] {
                    start = query;
                }
                let end = query + 1;
                let first = start.max(end.saturating_sub(window.unwrap_or(end)));
                runs.push((first as u32, end as u32));
            }
        }
        Self::new(rows, tokens, tokens, runs)
    }

    /// Every query sees every key.
    pub fn full(rows: usize, tokens: usize) -> Self {
        let runs = vec![(0, tokens as u32); rows * tokens];
        Self::new(rows, tokens, tokens, runs)
    }

    /// Runs [b, t, 2] on a device, among so many keys. They may be replaced there between passes, and the host doesn’t know them, so this
    /// is for kernels only that read them there.
    #[cfg(feature = "cuda")]
    pub(crate) fn placed_at(runs: Tensor, keys: usize) -> Result<Self> {
        let (rows, queries, _) = runs.dims3()?;
        Ok(Self {
            on_device: Arc::new(OnceLock::from(runs)),
            ..Self::new(rows, queries, keys, Vec::new())
        })
    }

    fn new(rows: usize, queries: usize, keys: usize, runs: Vec<(u32, u32)>) -> Self {
        Self {
            rows,
            queries,
            keys,
            runs: Arc::new(runs),
            mask: Arc::default(),
            on_device: Arc::default(),
        }
    }

    /// What some queries of each row see, counted from the first key that any of them does, and the keys from there to the last.
    /// Of all queries it is the same, with all keys.
    pub(crate) fn of_queries(&self, queries: Range<usize>) -> (Self, Range<usize>) {
        if queries.len() == self.queries {
            return (self.clone(), 0..self.keys);
        }
        let rows = self.runs.chunks(self.queries.max(1));
        let runs: Vec<(u32, u32)> = rows
            .flat_map(|row| &row[queries.clone()])
            .copied()
            .collect();
        let first = runs.iter().map(|it| it.0).min().unwrap_or(0);
        let end = runs.iter().map(|it| it.1).max().unwrap_or(0);
        let runs = runs.iter().map(|it| (it.0 - first, it.1 - first));
        let keys = first as usize..end as usize;
        let spans = Self::new(self.rows, queries.len(), keys.len(), runs.collect());
        (spans, keys)
    }

    /// First key and the one after the last of each query: [b, t, 2].
    pub(crate) fn on_device(&self, device: &Device) -> Result<Tensor> {
        if let Some(runs) = self.on_device.get() {
            return Ok(runs.clone());
        }
        let numbers: Vec<u32> = self.runs.iter().flat_map(|run| [run.0, run.1]).collect();
        let runs = Tensor::from_vec(numbers, (self.rows, self.queries, 2), device)?;
        Ok(self.on_device.get_or_init(|| runs).clone())
    }

    /// The same, where a pass has asked for it.
    pub(crate) fn placed(&self) -> Option<Tensor> {
        self.on_device.get().cloned()
    }

    /// Multiplications and additions of attention of q [b, t, h, e], and of its way back: two products forward, five back.
    fn operations(&self, q: &Tensor) -> [f64; 2] {
        let pairs: f64 = self
            .runs
            .iter()
            .map(|&(start, end)| f64::from(end - start))
            .sum();
        let dimensions = q.dims().iter().skip(2).product::<usize>() as f64;
        [2.0, 5.0].map(|products| products * 2.0 * pairs * dimensions)
    }

    /// Zero where a query sees a key and [`MASKED`] elsewhere: [b, 1, t, s].
    fn mask(&self, dtype: DType, device: &Device) -> Result<Tensor> {
        if let Some(mask) = self.mask.get() {
            return Ok(mask.to_dtype(dtype)?);
        }
        let mut numbers = vec![MASKED; self.runs.len() * self.keys];
        for (row, &(start, end)) in numbers.chunks_mut(self.keys).zip(self.runs.iter()) {
            row[start as usize..end as usize].fill(0.0);
        }
        let mask = Tensor::from_vec(numbers, (self.rows, 1, self.queries, self.keys), device)?;
        let mask = self.mask.get_or_init(|| mask);
        Ok(mask.to_dtype(dtype)?)
    }
}

/// How scores become weights.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scoring {
    /// α: what q·k is multiplied with, usually 1/√e.
    pub scale: f64,
    /// c: scores are squeezed into (-c, c).
    pub soft_cap: Option<f64>,
}

/// Attention of q [b, t, h, e] over k and v [b, s, k, e], each key head shared by h/k query heads -> [b, t, h, e].
///
/// Nothing is learned through keys and values that a cache keeps in fewer bytes ([`kept`]).
pub fn attention(
    q: &Value,
    k: &Value,
    v: &Value,
    spans: &Spans,
    scoring: Scoring,
) -> Result<Value> {
    let _profiled = profile::operation("attention");
    profile::computed(|| spans.operations(q.tensor()));
    if k.tensor().dtype() != q.tensor().dtype() {
        return over_kept(q.tensor(), k.tensor(), v.tensor(), spans, scoring);
    }
    if kernels::metal::attention::serves(q.tensor(), k.tensor(), v.tensor()) {
        return kernels::metal::attention::attention(q, k, v, spans, scoring);
    }
    if kernels::cpu::serves(Kernel::Attention, &[q.tensor(), k.tensor(), v.tensor()]) {
        return kernels::cpu::attention::attention(q, k, v, spans, scoring);
    }
    #[cfg(feature = "cuda")]
    if kernels::cuda::serves(Kernel::Attention, &[q.tensor(), k.tensor(), v.tensor()]) {
        return kernels::cuda::attention::attention(q, k, v, spans, scoring);
    }
    let (heads, key_heads) = (q.tensor().dim(2)?, k.tensor().dim(2)?);
    let group = heads / key_heads;
    let (q3, k3, v3) = (
        by_group(q.tensor(), group)?,
        by_head(k.tensor())?,
        by_head(v.tensor())?,
    );
    let (weights, _) = weigh(&q3, &k3, spans, scoring)?;
    let y = from_group(&weights.matmul(&v3)?, q.tensor())?;

    let (like_q, like_k) = (q.tensor().clone(), k.tensor().clone());
    let spans = spans.clone();
    Ok(Value::record(y, &[q, k, v], move |gradient: Tensor| {
        let dtype = q3.dtype();
        let gradient = by_group(&gradient, group)?;
        let dv = weights.t()?.contiguous()?.matmul(&gradient)?;
        let dp = widen(&gradient.matmul(&v3.t()?.contiguous()?)?)?;
        let p = widen(&weights)?;
        let along = (&p * &dp)?.sum_keepdim(D::Minus1)?;
        let mut dz = (p * dp.broadcast_sub(&along)?)?;
        if scoring.soft_cap.is_some() {
            // The slope of the cap is not saved but computed again, since few models have one.
            if let Some(slope) = weigh(&q3, &k3, &spans, scoring)?.1 {
                dz = (dz * slope)?;
            }
        }
        let dz = (dz * scoring.scale)?.to_dtype(dtype)?;
        let dq = from_group(&dz.matmul(&k3)?, &like_q)?;
        let dk = from_head(&dz.t()?.contiguous()?.matmul(&q3)?, &like_k)?;
        Ok(vec![Some(dq), Some(dk), Some(from_head(&dv, &like_k)?)])
    }))
}

/// The same over keys and values that a cache keeps in fewer bytes.
fn over_kept(q: &Tensor, k: &Tensor, v: &Tensor, spans: &Spans, scoring: Scoring) -> Result<Value> {
    let of_one = spans.queries == 1 && kernels::cpu::serves(Kernel::Attention, &[q]);
    if of_one && k.dtype() == v.dtype() {
        let y = kernels::cpu::attention::kept::decode(q, k, v, spans, scoring)?;
        return Ok(Value::constant(y));
    }
    let wide = |it: &Tensor| -> Result<Value> {
        Ok(Value::constant(kept::widen(it)?.to_dtype(q.dtype())?))
    };
    let (k, v) = (wide(k)?, wide(v)?);
    attention(&Value::constant(q.clone()), &k, &v, spans, scoring)
}

/// The weights p [b·k, g·t, s] in the dtype of q, and the slope of the soft cap if there is one.
fn weigh(
    q: &Tensor,
    k: &Tensor,
    spans: &Spans,
    scoring: Scoring,
) -> Result<(Tensor, Option<Tensor>)> {
    let mut scores = (widen(&q.matmul(&k.t()?.contiguous()?)?)? * scoring.scale)?;
    let mut slope = None;
    if let Some(cap) = scoring.soft_cap {
        let squeezed = (scores / cap)?.tanh()?;
        slope = Some(squeezed.sqr()?.affine(-1.0, 1.0)?);
        scores = (squeezed * cap)?;
    }
    let flat = scores.dims3()?;
    let mask = spans.mask(wide_dtype(q), q.device())?;
    let scores = scores
        .reshape((spans.rows, (), spans.queries, spans.keys))?
        .broadcast_add(&mask)?;
    let exponentials = scores
        .broadcast_sub(&scores.max_keepdim(D::Minus1)?)?
        .exp()?;
    let weights = exponentials.broadcast_div(&exponentials.sum_keepdim(D::Minus1)?)?;
    Ok((weights.reshape(flat)?.to_dtype(q.dtype())?, slope))
}

/// [b, s, k, e] -> [b·k, s, e].
fn by_head(x: &Tensor) -> Result<Tensor> {
    let (b, s, k, e) = x.dims4()?;
    Ok(x.transpose(1, 2)?.contiguous()?.reshape((b * k, s, e))?)
}

/// [b·k, s, e] -> the shape of `like` [b, s, k, e].
fn from_head(x: &Tensor, like: &Tensor) -> Result<Tensor> {
    let (b, s, k, e) = like.dims4()?;
    Ok(x.reshape((b, k, s, e))?.transpose(1, 2)?.contiguous()?)
}

/// [b, t, k·g, e] -> [b·k, g·t, e]: the heads that share keys stand below each other.
fn by_group(x: &Tensor, group: usize) -> Result<Tensor> {
    let (b, t, h, e) = x.dims4()?;
    Ok(x.transpose(1, 2)?
        .contiguous()?
        .reshape((b * h / group, group * t, e))?)
}

/// [b·k, g·t, e] -> the shape of `like` [b, t, k·g, e].
fn from_group(x: &Tensor, like: &Tensor) -> Result<Tensor> {
    let (b, t, h, e) = like.dims4()?;
    Ok(x.reshape((b, h, t, e))?.transpose(1, 2)?.contiguous()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{check_close, check_gradients, check_kernel, normal};

    const PLAIN: Scoring = Scoring {
        scale: 0.4,
        soft_cap: None,
    };
    const CAPPED: Scoring = Scoring {
        soft_cap: Some(0.8),
        ..PLAIN
    };

    #[test]
    fn the_kernel_for_the_cpu_equals_the_composition() {
        let check = |[b, t, h, e]: [usize; 4], key_heads, spans: Spans, scoring| {
            let keys = [b, spans.keys, key_heads, e];
            let inputs = [normal(1, &[b, t, h, e]), normal(2, &keys), normal(3, &keys)];
            check_kernel(&inputs, 1e-5, |v| {
                attention(&v[0], &v[1], &v[2], &spans, scoring)
            });
        };
        check([1, 1, 1, 1], 1, Spans::causal(1, 1, 0, None), PLAIN);
        check([2, 37, 4, 6], 2, Spans::causal(2, 37, 0, None), PLAIN);
        check([1, 130, 6, 16], 1, Spans::causal(1, 130, 5, None), CAPPED);
        check([2, 200, 3, 33], 3, Spans::causal(2, 200, 0, Some(9)), PLAIN);
        let documents: Vec<u32> = (0..400).map(|token| token % 200 / 60).collect();
        let spans = Spans::documents(2, &documents, Some(50));
        check([2, 200, 2, 8], 1, spans, CAPPED);
    }

    #[test]
    fn scores_of_any_size_give_finite_weights() {
        let [q, k, v] = inputs(5, 5).map(|x| x.to_dtype(DType::F32).unwrap());
        let [q, k] = [q, k].map(|x| (x * 1e3).unwrap());
        let y = run([q, k, v], Spans::causal(2, 5, 0, None));
        let y: Vec<f32> = y.flatten_all().unwrap().to_vec1().unwrap();
        assert!(y.iter().all(|y| y.is_finite()));
    }

    #[test]
    fn one_query_reads_a_part_of_a_cache_in_place() {
        let cache = normal(2, &[2, 50, 2, 6]);
        for (past, window) in [(0, None), (29, None), (29, Some(7))] {
            let run = |dtype| {
                let [q, k, v] = [&normal(1, &[2, 1, 4, 6]), &cache, &(&cache * 0.5).unwrap()]
                    .map(|x| x.to_dtype(dtype).unwrap());
                let [k, v] = [k, v].map(|x| x.narrow(1, 0, past + 1).unwrap());
                run([q, k, v], Spans::causal(2, 1, past, window))
            };
            check_close("y", &run(DType::F32), &run(DType::F64), 1e-5);
        }
    }

    /// The output without a gradient.
    fn run(inputs: [Tensor; 3], spans: Spans) -> Tensor {
        let [q, k, v] = inputs.map(Value::constant);
        let y = attention(&q, &k, &v, &spans, PLAIN).unwrap();
        y.tensor().clone()
    }

    fn inputs(queries: usize, keys: usize) -> [Tensor; 3] {
        [
            normal(1, &[2, queries, 4, 3]),
            normal(2, &[2, keys, 2, 3]),
            normal(3, &[2, keys, 2, 3]),
        ]
    }

    #[track_caller]
    fn check(queries: usize, spans: Spans, scoring: Scoring) {
        check_gradients(&inputs(queries, spans.keys), |_, v| {
            attention(&v[0], &v[1], &v[2], &spans, scoring)
        });
    }

    #[test]
    fn gradients_match_finite_differences_under_every_mask() {
        check(4, Spans::causal(2, 4, 0, None), PLAIN);
        check(4, Spans::causal(2, 4, 0, Some(2)), PLAIN);
        check(2, Spans::causal(2, 2, 3, None), PLAIN);
        let documents = [0, 0, 1, 1, 0, 1, 1, 1];
        check(4, Spans::documents(2, &documents, Some(2)), PLAIN);
        check(4, Spans::causal(2, 4, 0, None), CAPPED);
    }

    #[test]
    fn documents_in_one_row_do_not_see_each_other() {
        let documents = [0, 0, 1, 1, 1, 0, 0, 1, 1, 1];
        let both = run(inputs(5, 5), Spans::documents(2, &documents, None));
        let [both, q, k, v] = {
            let [q, k, v] = inputs(5, 5);
            [both, q, k, v].map(|x| x.narrow(1, 2, 3).unwrap())
        };
        let alone = run([q, k, v], Spans::causal(2, 3, 0, None));
        check_close("second document", &both, &alone, 1e-12);
    }

    #[test]
    fn a_window_counts_the_query_itself() {
        let spans = Spans::causal(1, 4, 2, Some(3));
        assert_eq!(*spans.runs, [(0, 3), (1, 4), (2, 5), (3, 6)]);
    }
}
