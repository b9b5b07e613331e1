//! The loss of logits and its gradient.

use super::each;
use crate::check::{
    Check,
    Data::{EmptyWide, Numbers, Whole},
    Field::{F, U},
};

const SHARE: f64 = 0.25;

pub(crate) fn cross_entropy(check: &mut Check) {
    // The first and the last token of a vocabulary, one between, and a row that has none.
    let (rows, v) = if check.storage.lanes() == 4 {
        (6, 49_152)
    } else {
        (4, 5_003)
    };
    let logits = check.storage.normal(1, rows * v, 3.0);
    let targets = [0, v as u32 - 1, u32::MAX, v as u32 / 3, 7, 8];
    let targets = &targets[..rows];
    for cap in [0.0, 5.0] {
        let z = each(rows * v, |i| {
            if cap > 0.0 {
                cap * (logits[i] / cap).tanh()
            } else {
                logits[i]
            }
        });
        let offset: Vec<f64> = z
            .chunks(v)
            .map(|row| row.iter().map(|it| it.exp()).sum::<f64>().ln())
            .collect();
        let losses = each(rows, |row| match targets[row] {
            u32::MAX => 0.0,
            target => offset[row] - z[row * v + target as usize],
        });
        let dz = each(rows * v, |i| {
            let target = targets[i / v];
            let hit = if i % v == target as usize { 1.0 } else { 0.0 };
            let slope = if cap > 0.0 {
                1.0 - (z[i] / cap).powi(2)
            } else {
                1.0
            };
            let share = if target == u32::MAX { 0.0 } else { SHARE };
            ((z[i] - offset[i / v]).exp() - hit) * share * slope
        });
        let data = [Numbers(&logits), Whole(targets), EmptyWide(rows)];
        if let Some(out) = check.run(
            "cross_entropy",
            &data,
            &[U(rows), U(v), F(SHARE), F(cap)],
            [4, 1],
        ) {
            check.same_wide(
                &format!("cross_entropy: losses, cap {cap}"),
                &out[2],
                &losses,
            );
            check.same(&format!("cross_entropy: dz, cap {cap}"), &out[0], &dz);
        }
    }
}
