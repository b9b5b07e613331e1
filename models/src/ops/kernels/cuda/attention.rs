//! Attention: in tiles where the GPU and the heads allow it (`flash`), else products through cuBLAS with scores in f32, a softmax over each query's run of keys between them.
//!
//! Saves q, k and v; backward computes the weights again. Only while a layer is computed, four tensors of the size of its
//! scores exist.

use candle_core::{DType, Tensor};

use crate::{
    Result,
    ops::{
        attention::{Scoring, Spans},
        kernels::cuda::{
            Launch, flash,
            linear::{Size, multiply, plain, transposed},
            output,
        },
    },
    tape::Value,
};

/// See [`attention`](crate::ops::attention::attention).
pub(crate) fn attention(
    q: &Value,
    k: &Value,
    v: &Value,
    spans: &Spans,
    scoring: Scoring,
) -> Result<Value> {
    if flash::serves(q.tensor(), scoring)? {
        return flash::attention(q, k, v, spans, scoring);
    }
    let heads = Heads {
        q: swap_middle(q.tensor())?,
        k: swap_middle(k.tensor())?,
        v: swap_middle(v.tensor())?,
        runs: spans.on_device(q.tensor().device())?,
        scoring,
    };
    let (_, weights) = heads.weights()?;
    let y = output(heads.q.shape(), heads.q.dtype(), &heads.q)?;
    multiply(
        heads.onto_head(),
        1.0,
        plain(&weights),
        plain(&heads.v),
        0.0,
        &y,
    )?;
    let y = swap_middle(&y)?;
    Ok(Value::record(y, &[q, k, v], move |gradient: Tensor| {
        heads.backward(&swap_middle(&gradient)?)
    }))
}

/// Queries [b, h, t, e], keys and values [b, k, s, e]. The h/k heads that share keys lie below each other.
struct Heads {
    q: Tensor,
    k: Tensor,
    v: Tensor,
    /// [b, t, 2].
    runs: Tensor,
    scoring: Scoring,
}

impl Heads {
    /// The size of a product [b·k, g·t, s] × [b·k, s, e].
    fn onto_head(&self) -> Size {
        let (q, k) = (self.q.dims(), self.k.dims());
        Size {
            batch: k[0] * k[1],
            m: q[1] / k[1] * q[2],
            n: k[3],
            k: k[2],
        }
    }

    /// The size of a product [b·k, g·t, e] × [b·k, e, s].
    fn onto_keys(&self) -> Size {
        let Size { batch, m, n, k } = self.onto_head();
        Size {
            batch,
            m,
            n: k,
            k: n,
        }
    }

    /// The size of a product [b·k, s, g·t] × [b·k, g·t, e].
    fn onto_each_key(&self) -> Size {
        let Size { batch, m, n, k } = self.onto_head();
        Size {
            batch,
            m: k,
            n,
            k: m,
        }
    }

    /// The scores q·k in f32, and the weights.
    fn weights(&self) -> Result<(Tensor, Tensor)> {
        let (b, heads, tokens, _) = self.q.dims4()?;
        let keys = self.k.dim(2)?;
        let shape = (b, heads, tokens, keys);
        let scores = output(shape, DType::F32, &self.q)?;
        let size = self.onto_keys();
        multiply(size, 1.0, plain(&self.q), transposed(&self.k), 0.0, &scores)?;
        let weights = output(shape, self.q.dtype(), &self.q)?;
        Launch::of("softmax", &self.q)?
            .tensors(&[&scores, &self.runs, &weights])?
            .whole(&[heads, tokens, keys])
            .numbers(&self.scale_and_cap())
            .for_rows(b * heads * tokens, keys)?;
        Ok((scores, weights))
    }

    fn backward(&self, gradient: &Tensor) -> Result<Vec<Option<Tensor>>> {
        let (scores, weights) = self.weights()?;
        let like = |x: &Tensor| output(x.shape(), x.dtype(), x);
        let dv = like(&self.v)?;
        let size = self.onto_each_key();
        multiply(size, 1.0, transposed(&weights), plain(gradient), 0.0, &dv)?;
        let dp = output(scores.shape(), DType::F32, &scores)?;
        let size = self.onto_keys();
        multiply(size, 1.0, plain(gradient), transposed(&self.v), 0.0, &dp)?;
        let dz = like(&weights)?;
        let keys = self.k.dim(2)?;
        Launch::of("softmax_back", &weights)?
            .tensors(&[&weights, &dp, &scores, &dz])?
            .whole(&[keys])
            .numbers(&self.scale_and_cap())
            .for_rows(weights.elem_count() / keys, keys)?;
        let (dq, dk) = (like(&self.q)?, like(&self.k)?);
        multiply(self.onto_head(), 1.0, plain(&dz), plain(&self.k), 0.0, &dq)?;
        let size = self.onto_each_key();
        multiply(size, 1.0, transposed(&dz), plain(&self.q), 0.0, &dk)?;
        let gradients = [dq, dk, dv].map(|it| swap_middle(&it).map(Some));
        gradients.into_iter().collect()
    }

    /// α, and c or 0 for none.
    fn scale_and_cap(&self) -> [f64; 2] {
        [self.scoring.scale, self.scoring.soft_cap.unwrap_or(0.0)]
    }
}

/// [a, b, c, e] -> [a, c, b, e].
fn swap_middle(x: &Tensor) -> Result<Tensor> {
    let x = x.contiguous()?;
    let (a, b, c, e) = x.dims4()?;
    let y = output((a, c, b, e), x.dtype(), &x)?;
    Launch::of("swap_middle", &x)?
        .tensors(&[&x, &y])?
        .count(x.elem_count())
        .whole(&[b, c, e])
        .for_each(x.elem_count())?;
    Ok(y)
}
