//! A softmax of scores over each query's run of keys and its way back, and attention of a query that is alone.

use super::each;
use crate::check::{
    Check,
    Data::{Empty, Numbers, Whole},
    Field::{F, U},
};

const SCALE: f64 = 0.4;

pub(crate) fn masked_softmax(check: &mut Check) {
    // The last has rows longer than a group reaches in one go.
    let shapes = match check.storage.lanes() {
        4 => [(2, 3, 13, 64), (1, 2, 3, 2_600)],
        _ => [(2, 3, 7, 33), (1, 2, 3, 701)],
    };
    for (b, h, t, s) in shapes {
        let scores = check.storage.normal(1, b * h * t * s, 3.0);
        let g = check.storage.normal(2, scores.len(), 1.0);
        let runs = runs(b * t, s);
        for cap in [2.0, 0.0] {
            let squeezed = each(scores.len(), |i| match cap {
                0.0 => scores[i] * SCALE,
                cap => cap * (scores[i] * SCALE / cap).tanh(),
            });
            let seen = |at: usize| {
                let query = at / s / (h * t) * t + at / s % t;
                let key = (at % s) as u32;
                key >= runs[2 * query] && key < runs[2 * query + 1]
            };
            let mut weights = each(scores.len(), |at| {
                if seen(at) { squeezed[at].exp() } else { 0.0 }
            });
            for row in weights.chunks_mut(s) {
                let sum: f64 = row.iter().sum();
                row.iter_mut().for_each(|it| *it /= sum);
            }
            let rows = b * h * t;
            let fields = [U(rows), U(h), U(t), U(s), F(SCALE), F(cap), U(0), U(0)];
            if let Some(out) = check.run(
                "masked_softmax",
                &[Numbers(&scores), Whole(&runs)],
                &fields,
                [9, 1],
            ) {
                check.same(
                    &format!("masked_softmax: {s} keys, cap {cap}"),
                    &out[0],
                    &weights,
                );
            }

            let p = check.storage.kept(weights);
            let along = each(rows, |row| {
                (row * s..(row + 1) * s).map(|i| p[i] * g[i]).sum()
            });
            let slope = |i: usize| {
                if cap > 0.0 {
                    1.0 - (squeezed[i] / cap).powi(2)
                } else {
                    1.0
                }
            };
            let dz = each(p.len(), |i| SCALE * p[i] * (g[i] - along[i / s]) * slope(i));
            let data = [Numbers(&p), Numbers(&scores), Numbers(&g)];
            if let Some(out) = check.run(
                "masked_softmax_back",
                &data,
                &[U(rows), U(s), F(SCALE), F(cap)],
                [9, 1],
            ) {
                check.same(
                    &format!("masked_softmax_back: {s} keys, cap {cap}"),
                    &out[2],
                    &dz,
                );
            }
        }
    }
}

/// First key and the one after the last of each query, of which some are long and some short.
fn runs(queries: usize, keys: usize) -> Vec<u32> {
    let half = keys / 2;
    let run = |i: usize| [i * 7 % half, i * 7 % half + 1 + i * 5 % half];
    (0..queries).flat_map(run).map(|it| it as u32).collect()
}

/// Keys in several parts and in one, of rows with runs of their own, in a cache that has room for more.
pub(crate) fn next_attention(check: &mut Check) {
    let (rows, heads, shared_by) = (2, 4, 2);
    let width = if check.storage.lanes() == 4 { 24 } else { 7 };
    let (capacity, key_heads) = (700, heads / shared_by);
    let runs = [3u32, 600, 0, 70];
    let q = check.storage.normal(1, rows * heads * width, 1.0);
    let cached = rows * capacity * key_heads * width;
    let [k, v] = [2, 3].map(|seed| check.storage.normal(seed, cached, 1.0));
    let apart = [capacity * key_heads * width, key_heads * width, width];
    let scale = 0.3;
    for cap in [0.0, 5.0] {
        let mut want = vec![0.0; q.len()];
        for query in 0..rows * heads {
            let (row, head) = (query / heads, query % heads);
            let at =
                |key: u32| row * apart[0] + key as usize * apart[1] + head / shared_by * apart[2];
            let keys = runs[2 * row]..runs[2 * row + 1];
            let score = |key: u32| {
                let dot = (0..width).map(|i| q[query * width + i] * k[at(key) + i]);
                let z = dot.sum::<f64>() * scale;
                if cap > 0.0 { cap * (z / cap).tanh() } else { z }
            };
            let weights: Vec<f64> = keys.clone().map(|key| score(key).exp()).collect();
            let all: f64 = weights.iter().sum();
            for (weight, key) in weights.iter().zip(keys) {
                for i in 0..width {
                    want[query * width + i] += weight / all * v[at(key) + i];
                }
            }
        }
        let data = [
            Numbers(&q),
            Numbers(&k),
            Numbers(&v),
            Whole(&runs),
            Empty(q.len()),
        ];
        let sizes = [
            rows, heads, shared_by, width, apart[0], apart[1], apart[2], 0,
        ];
        let mut fields = sizes.map(U).to_vec();
        fields.extend([F(scale), F(cap), U(0), U(0)]);
        if let Some(out) = check.run("next_attention", &data, &fields, [3, 1]) {
            check.same(&format!("next_attention: cap {cap}"), &out[4], &want);
        }
    }
}
