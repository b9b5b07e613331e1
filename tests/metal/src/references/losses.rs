//! Losses and their gradients.

use super::each;
use crate::check::{
    Check,
    Data::{EmptyWide, Numbers, Whole, Wide},
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

/// With weights of rows, one of which is 0, and some smoothing.
pub(crate) fn classify(check: &mut Check) {
    let (rows, v) = if check.storage.lanes() == 4 {
        (301, 12)
    } else {
        (70, 11)
    };
    let scores = check.storage.normal(1, rows * v, 3.0);
    let classes: Vec<u32> = (0..rows as u32).map(|row| row * 7 % v as u32).collect();
    let weights = each(rows, |row| {
        if row == 2 {
            0.0
        } else {
            0.5 + row as f64 / 512.0
        }
    });
    let smoothing = 0.25;
    let row = |row: usize| &scores[row * v..][..v];
    let meant = |row: usize, class: usize| {
        let hit = if class == classes[row] as usize {
            1.0 - smoothing
        } else {
            0.0
        };
        hit + smoothing / v as f64
    };
    type Squash = (usize, fn(f64) -> f64, fn(f64) -> f64);
    // s, and its slope.
    let squashes: [Squash; 2] = [
        (
            0,
            |x| if x < 0.0 { 1.0 / (1.0 - x) } else { 1.0 + x },
            |x| {
                if x < 0.0 { (1.0 - x).powi(-2) } else { 1.0 }
            },
        ),
        (1, f64::exp, f64::exp),
    ];
    for (number, s, slope) in squashes {
        let sums = each(rows, |at| row(at).iter().map(|x| s(*x)).sum());
        let losses = each(rows, |at| {
            let said = row(at)
                .iter()
                .enumerate()
                .map(|(class, x)| meant(at, class) * (s(*x) / sums[at]).ln());
            -weights[at] * said.sum::<f64>()
        });
        let gradient = each(rows * v, |i| {
            let (at, x) = (i / v, scores[i]);
            weights[at] * (slope(x) / sums[at] - meant(at, i % v) * slope(x) / s(x))
        });
        let data = [
            Numbers(&scores),
            Whole(&classes),
            Wide(&weights),
            EmptyWide(rows),
            EmptyWide(rows * v),
        ];
        let fields = [U(rows), U(v), U(number), F(smoothing)];
        if let Some(out) = check.run("classify", &data, &fields, [1, 1]) {
            check.same_wide(&format!("classify: losses, {number}"), &out[3], &losses);
            check.same_wide(&format!("classify: gradient, {number}"), &out[4], &gradient);
        }
    }
}
