//! A softmax of scores over each query's run of keys, and its way back.

use super::each;
use crate::check::{
    Check,
    Data::{Numbers, Whole},
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
