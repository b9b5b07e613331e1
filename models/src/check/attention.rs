//! Attention: every kind of mask, one query before a long cache, heads that share keys, and scores of any size.

use super::trial::{Input, Operation, StepTrial, trial};
use crate::{
    Result,
    device::dtype::Dtype,
    ops::attention::{Scoring, Spans, attention},
};

/// Queries b, t, h and e.
type Queries = [usize; 4];

/// Which keys a query sees, made anew for each device.
type MakeSpans = fn(Queries) -> Spans;

pub(super) fn attention_under_masks(dtype: Dtype) -> Result<Operation> {
    // In f32 scores in the hundreds: one key has all the weight, and exponentials of the others vanish. A narrower dtype
    // rounds scores that large so far that nothing could be compared.
    let large = if dtype == Dtype::F32 { 6.0 } else { 2.0 };
    let all: MakeSpans = |[b, t, _, _]| Spans::causal(b, t, 0, None);
    let window: MakeSpans = |[b, t, _, _]| Spans::causal(b, t, 0, Some(9));
    let documents: MakeSpans = |[b, t, _, _]| {
        let documents: Vec<u32> = (0..b * t).map(|at| (at % t / 60) as u32).collect();
        Spans::documents(b, &documents, Some(50))
    };
    let after_five: MakeSpans = |[b, t, _, _]| Spans::causal(b, t, 5, None);
    Operation::of(
        1030,
        vec![
            trained([2, 3, 1, 1], 1, 1.0, None, all)?,
            trained([2, 37, 4, 6], 2, 1.0, None, all)?,
            trained([1, 130, 6, 16], 1, 1.0, Some(0.8), after_five)?,
            trained([2, 200, 3, 33], 3, 1.0, None, window)?,
            trained([2, 200, 2, 80], 1, 1.0, Some(5.0), documents)?,
            trained([1, 1030, 1, 16], 1, 1.0, None, all)?,
            trained([1, 17, 2, 64], 1, large, None, all)?,
            trained([1, 17, 2, 64], 1, 1e-3, None, all)?,
            generated([1, 1, 9, 64], 3, 1029, None)?,
            generated([2, 1, 4, 6], 2, 40, Some(7))?,
            trained([2, 256, 8, 64], 2, 1.0, None, all)?,
        ],
    )
}

/// Numbers times `size`; each of `key_heads` is shared by several query heads.
fn trained(
    queries: Queries,
    key_heads: usize,
    size: f64,
    soft_cap: Option<f64>,
    spans: MakeSpans,
) -> Result<StepTrial> {
    let [b, _, _, e] = queries;
    let keys = [b, spans(queries).keys, key_heads, e];
    let inputs = vec![
        Input::activation("q", &queries)?.affine(size, 0.0)?,
        Input::activation("k", &keys)?.affine(size, 0.0)?,
        Input::activation("v", &keys)?,
    ];
    let scoring = scoring(e, soft_cap);
    Ok(trial(inputs, move |_, v| {
        attention(&v[0], &v[1], &v[2], &spans(queries), scoring)
    }))
}

/// One query after `past` others, whose keys and values are the first part of a cache.
fn generated(
    queries: Queries,
    key_heads: usize,
    past: usize,
    window: Option<usize>,
) -> Result<StepTrial> {
    let [b, t, _, e] = queries;
    let keys = [b, past + t, key_heads, e];
    let inputs = vec![
        Input::activation("q", &queries)?.frozen(),
        Input::activation("k", &keys)?.frozen().inside(),
        Input::activation("v", &keys)?.frozen().inside(),
    ];
    let scoring = scoring(e, None);
    Ok(trial(inputs, move |_, v| {
        let spans = Spans::causal(b, t, past, window);
        attention(&v[0], &v[1], &v[2], &spans, scoring)
    }))
}

fn scoring(width: usize, soft_cap: Option<f64>) -> Scoring {
    Scoring {
        scale: (width as f64).powf(-0.5),
        soft_cap,
    }
}
