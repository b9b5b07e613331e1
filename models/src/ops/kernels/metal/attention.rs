//! Attention: candle's products, and between them a softmax over each query's run of keys, in the place of the scores.
//!
//! Saves q, k, v and the weights. Nothing is transposed in memory: products take a matrix either way.

use candle_core::Tensor;

use super::{launch::Launch, product, side_by_side};
use crate::{
    Result,
    ops::{
        attention::{Scoring, Spans},
        kernels::Kernel,
    },
    tape::Value,
};

/// Whether attention of these is computed here.
pub(crate) fn serves(q: &Tensor, k: &Tensor, v: &Tensor) -> bool {
    let scores = q.elem_count() / q.dims().last().copied().unwrap_or(1).max(1);
    let keys = k.dims().get(1).copied().unwrap_or_default();
    super::serves(Kernel::Attention, &[q, k, v]) && u32::try_from(scores * keys).is_ok()
}

/// See [`attention`](crate::ops::attention::attention).
pub(crate) fn attention(
    q: &Value,
    k: &Value,
    v: &Value,
    spans: &Spans,
    scoring: Scoring,
) -> Result<Value> {
    let (_, tokens, all, _) = q.tensor().dims4()?;
    let key_heads = k.tensor().dim(2)?;
    let heads = Heads {
        q: by_head(q.tensor(), key_heads)?,
        k: by_head(k.tensor(), key_heads)?,
        v: by_head(v.tensor(), key_heads)?,
        scoring,
    };
    let weights = heads.scores()?;
    let keys = heads.k.dim(1)?;
    let rows = weights.elem_count() / keys;
    let runs = spans.on_device(q.tensor().device())?;
    Launch::of("masked_softmax", weights.dtype(), &[keys])?
        .tensors(&[&weights, &runs])?
        .whole(&[rows, all, tokens, keys])?
        .numbers(&heads.scale_and_cap())
        .for_rows(rows)?;
    let y = side_by_side(&from_head(&product(&weights, &heads.v)?, q.tensor())?)?;

    let (like_q, like_k) = (q.tensor().clone(), k.tensor().clone());
    Ok(Value::record(y, &[q, k, v], move |gradient: Tensor| {
        let gradient = by_head(&gradient, key_heads)?;
        let dv = product(&weights.t()?, &gradient)?;
        let dz = product(&gradient, &heads.v.t()?)?;
        // Only the slope of a cap needs the scores.
        let scores = match heads.scoring.soft_cap {
            Some(_) => heads.scores()?,
            None => weights.clone(),
        };
        Launch::of("masked_softmax_back", weights.dtype(), &[keys])?
            .tensors(&[&weights, &scores, &dz])?
            .whole(&[rows, keys])?
            .numbers(&heads.scale_and_cap())
            .for_rows(rows)?;
        let dq = from_head(&product(&dz, &heads.k)?, &like_q)?;
        let dk = from_head(&product(&dz.t()?, &heads.q)?, &like_k)?;
        Ok(vec![Some(dq), Some(dk), Some(from_head(&dv, &like_k)?)])
    }))
}

/// [b, t, k·g, e] -> [b·k, g·t, e]: the heads that share keys stand below each other.
fn by_head(x: &Tensor, key_heads: usize) -> Result<Tensor> {
    let (b, t, h, e) = x.dims4()?;
    let by_head = side_by_side(&x.transpose(1, 2)?)?;
    Ok(by_head.reshape((b * key_heads, h / key_heads * t, e))?)
}

/// [b·k, g·t, e] -> the shape of `like` [b, t, k·g, e], with the numbers where they are.
fn from_head(x: &Tensor, like: &Tensor) -> Result<Tensor> {
    let (b, t, h, e) = like.dims4()?;
    Ok(x.reshape((b, h, t, e))?.transpose(1, 2)?)
}

/// Queries [b·k, g·t, e], keys and values [b·k, s, e].
struct Heads {
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scoring: Scoring,
}

impl Heads {
    /// q·k [b·k, g·t, s].
    fn scores(&self) -> Result<Tensor> {
        product(&self.q, &self.k.t()?)
    }

    /// α, and c or 0 for none.
    fn scale_and_cap(&self) -> [f64; 2] {
        [self.scoring.scale, self.scoring.soft_cap.unwrap_or(0.0)]
    }
}
