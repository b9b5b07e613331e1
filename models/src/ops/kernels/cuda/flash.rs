//! Attention in tiles: one pass forward and two backward, in which no score is written to memory. See `flash.cu`.
//!
//! Reads heads wherever they lie. Saves q, k, v and y, and a number for each query and head. Deliberately absent: f32, a soft
//! cap, heads wider than 128, and GPUs older than compute capability 8.0, for all of which `attention` has products.

use std::f64::consts::LOG2_E;

use candle_core::{DType, Device, Tensor};

use super::{
    Launch, PACK,
    code::{Code, compiled},
    in_packs, multiplies_tiles, output, side,
};
use crate::{
    Result,
    ops::attention::{Scoring, Spans},
    tape::Value,
};

const FLASH: Code = compiled!("flash");

/// Queries, or keys, of a tile.
const TILE: usize = 64;
const THREADS: usize = 128;
/// Threads that go over one head.
const HEAD_THREADS: usize = 8;

/// Blocks of which a large GPU runs all at once, and some more.
const ENOUGH_BLOCKS: usize = 384;

/// The widest heads.
const MAX_WIDTH: usize = 128;

/// Whether it serves heads like these: q [b, t, h, e], and e of the keys too.
pub(super) fn serves(q: &Tensor, scoring: Scoring) -> Result<bool> {
    serves_heads(q.dim(3)?, q.dtype(), scoring, q.device())
}

/// Whether it serves heads of this width.
pub(crate) fn serves_heads(
    width: usize,
    dtype: DType,
    scoring: Scoring,
    device: &Device,
) -> Result<bool> {
    let fits = matches!(dtype, DType::BF16 | DType::F16)
        && scoring.soft_cap.is_none()
        && width.is_multiple_of(PACK)
        && width <= MAX_WIDTH;
    Ok(fits && multiplies_tiles(device)?)
}

/// See [`attention`](crate::ops::attention::attention).
pub(super) fn attention(
    q: &Value,
    k: &Value,
    v: &Value,
    spans: &Spans,
    scoring: Scoring,
) -> Result<Value> {
    let heads = Heads::of([q.tensor(), k.tensor(), v.tensor()], spans, scoring)?;
    let y = output(heads.q.shape(), heads.q.dtype(), &heads.q)?;
    let lse = output((heads.b, heads.h, heads.t), DType::F32, &heads.q)?;
    let tiles = heads.t.div_ceil(TILE) * heads.h * heads.b;
    heads
        .launch("flash_forward", 5, &[&y, &lse, &heads.runs])?
        .numbers(&[scoring.scale * LOG2_E])
        .launch(tiles, THREADS)?;
    let saved = y.clone();
    Ok(Value::record(y, &[q, k, v], move |gradient: Tensor| {
        let mut gradient = gradient.contiguous()?;
        if !in_packs(&[&gradient])? {
            gradient = gradient.force_contiguous()?;
        }
        let like = |x: &Tensor| output(x.shape(), x.dtype(), x);
        let along = like(&lse)?;
        let (rows, width) = (lse.elem_count(), heads.width());
        Launch::of_code(&FLASH, "flash_along", &gradient)?
            .tensors(&[&saved, &gradient, &along])?
            .count(rows)
            .whole(&[heads.t, heads.h, width])
            .launch(rows.div_ceil(THREADS / HEAD_THREADS), THREADS)?;
        let factors = [scoring.scale * LOG2_E, scoring.scale];
        let (dq, dk, dv) = (like(&heads.q)?, like(&heads.k)?, like(&heads.v)?);
        let runs = &heads.runs;
        let others = [&gradient, &lse, &along, runs];
        // Neither needs the other.
        heads.keys_back(&others, [&dk, &dv], &factors)?;
        heads
            .launch(
                "flash_queries_back",
                6,
                &[&gradient, &lse, &along, runs, &dq],
            )?
            .numbers(&factors)
            .launch(tiles, THREADS)?;
        side::join()?;
        Ok(vec![Some(dq), Some(dk), Some(dv)])
    }))
}

/// Queries [b, t, h, e], keys and values [b, s, k, e], with numbers of a head side by side and heads wherever they are.
struct Heads {
    q: Tensor,
    k: Tensor,
    v: Tensor,
    /// [b, t, 2].
    runs: Tensor,
    b: usize,
    t: usize,
    s: usize,
    h: usize,
    key_heads: usize,
}

impl Heads {
    fn of(tensors: [&Tensor; 3], spans: &Spans, scoring: Scoring) -> Result<Self> {
        debug_assert!(serves(tensors[0], scoring)?);
        let in_place = tensors.map(|it| -> Result<Tensor> {
            let strides = it.stride();
            let whole = strides[3] == 1 && strides[..3].iter().all(|it| it.is_multiple_of(PACK));
            match whole && in_packs(&[it])? {
                true => Ok(it.clone()),
                false => Ok(it.force_contiguous()?),
            }
        });
        let [q, k, v] = in_place;
        let (q, k, v) = (q?, k?, v?);
        let (b, t, h, _) = q.dims4()?;
        let (_, s, key_heads, _) = k.dims4()?;
        let runs = spans.on_device(q.device())?;
        Ok(Self {
            q,
            k,
            v,
            runs,
            b,
            t,
            s,
            h,
            key_heads,
        })
    }

    /// The gradients of keys and values, beside what follows.
    ///
    /// A block goes over all query heads of a key head. Where that makes too few blocks for a GPU, each goes over some of them, and their
    /// parts are added up.
    fn keys_back(&self, others: &[&Tensor], to: [&Tensor; 2], factors: &[f64]) -> Result<()> {
        let blocks = self.s.div_ceil(TILE) * self.key_heads * self.b;
        let group = self.h / self.key_heads;
        let mut parts = (1..=group).filter(|parts| group.is_multiple_of(*parts));
        let parts = parts
            .find(|parts| blocks * parts >= ENOUGH_BLOCKS)
            .unwrap_or(group);
        let launch = |name: &str, to: [&Tensor; 2]| {
            self.launch(name, 6, &[others, &to].concat())?
                .whole(&[self.b])
                .numbers(factors)
                .launch_grid([blocks, parts], THREADS)
        };
        let heads = [&self.q, &self.k, &self.v];
        if parts == 1 {
            let used = [&heads[..], others, &to].concat();
            return side::beside(&used, || launch("flash_keys_back", to));
        }
        let count = self.k.elem_count();
        let [dk, dv] = [(), ()].map(|()| output(parts * count, DType::F32, &self.k));
        let (dk, dv) = (dk?, dv?);
        let used = [&heads[..], others, &to, &[&dk, &dv]].concat();
        side::beside(&used, || {
            launch("flash_keys_back_parts", [&dk, &dv])?;
            Launch::of_code(&FLASH, "flash_sum", &self.k)?
                .tensors(&[&dk, &dv, to[0], to[1]])?
                .count(count)
                .whole(&[parts])
                .launch(count.div_ceil(THREADS), THREADS)
        })
    }

    fn width(&self) -> usize {
        self.q.dims()[3]
    }

    /// A kernel with what all take: heads, other tensors, strides and sizes. It has `tiles` tiles in shared memory.
    fn launch(&self, name: &str, tiles: usize, others: &[&Tensor]) -> Result<Launch> {
        let heads = [&self.q, &self.k, &self.v];
        let padded = self.width().next_multiple_of(TILE);
        let launch = Launch::of_code(&FLASH, &format!("{name}_{padded}"), &self.q)?
            .strided(&heads)?
            .tensors(others)?
            .strides(&heads)
            .whole(&[self.t, self.s, self.h, self.key_heads, self.width()]);
        Ok(launch.sharing(tiles * TILE * padded * self.q.dtype().size_in_bytes()))
    }
}
