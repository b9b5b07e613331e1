//! Gradients of tables, steps of an optimizer, and sums over gradients.

use super::each;
use crate::{
    check::{
        Check,
        Data::{Empty, EmptyWide, Numbers, Whole, Wide},
        Field::{F, U},
    },
    storage::{normal, wide},
};

pub(crate) fn add_rows(check: &mut Check) {
    let (count, vocabulary, width) = if check.storage.lanes() == 4 {
        (70, 11, 72)
    } else {
        (50, 17, 5)
    };
    let g = check.storage.normal(1, count * width, 1.0);
    // Some tokens are never seen.
    let tokens: Vec<usize> = (0..count).map(|i| i * i % vocabulary).collect();
    let mut order: Vec<u32> = (0..count as u32).collect();
    order.sort_by_key(|at| tokens[*at as usize]);
    let before = |token: usize| tokens.iter().filter(|it| **it < token).count() as u32;
    let starts: Vec<u32> = (0..=vocabulary).map(before).collect();
    let data = [
        Numbers(&g),
        Whole(&order),
        Whole(&starts),
        Empty(vocabulary * width),
    ];
    if let Some(out) = check.run(
        "add_rows",
        &data,
        &[U(vocabulary), U(width), U(0), U(0)],
        [4, 1],
    ) {
        let mut sums = vec![0.0; vocabulary * width];
        (0..count * width).for_each(|i| sums[tokens[i / width] * width + i % width] += g[i]);
        check.same("add_rows", &out[3], &sums);
    }
}

pub(crate) fn adamw(check: &mut Check) {
    let n = if check.storage.lanes() == 4 {
        20_000
    } else {
        10_007
    };
    let scaled = |seed, factor: f64| -> Vec<f64> {
        normal(seed, n)
            .iter()
            .map(|it| f64::from((it * factor) as f32))
            .collect()
    };
    let (w, m, g) = (scaled(1, 1.0), scaled(2, 0.01), scaled(3, 0.1));
    let v: Vec<f64> = scaled(4, 0.01)
        .iter()
        .map(|it| f64::from((it * it) as f32))
        .collect();
    let (scale, beta1, beta2, epsilon, shrink, rate, correction) =
        (0.5, 0.9, 0.999, 1e-8, 0.9999, 2e-3, 12.0);
    let fields = [
        U(n),
        F(scale),
        F(beta1),
        F(1.0 - beta1),
        F(beta2),
        F(1.0 - beta2),
        F(epsilon),
        F(shrink),
        F(rate),
        F(correction),
        U(0),
        U(0),
    ];
    let data = [Wide(&w), Wide(&m), Wide(&v), Wide(&g)];
    let Some(out) = check.run("adamw", &data, &fields, [20, 1]) else {
        return;
    };
    let m = each(n, |i| beta1 * m[i] + (1.0 - beta1) * g[i] * scale);
    let v = each(n, |i| beta2 * v[i] + (1.0 - beta2) * (g[i] * scale).powi(2));
    let w = each(n, |i| {
        w[i] * shrink - m[i] / (v[i].sqrt() * correction + epsilon) * rate
    });
    for (what, at, want) in [
        ("weight", 0, &w),
        ("first moment", 1, &m),
        ("second moment", 2, &v),
    ] {
        check.same_wide(&format!("adamw: {what}"), &out[at], want);
    }
}

pub(crate) fn squares(check: &mut Check) {
    let n = if check.storage.lanes() == 4 {
        100_000
    } else {
        10_007
    };
    let x = check.storage.normal(1, n, 1.0);
    let parts = 64;
    if let Some(out) = check.run(
        "squares",
        &[Numbers(&x), EmptyWide(parts)],
        &[U(n), U(0), U(0), U(0)],
        [parts, 1],
    ) {
        let sum = wide(&out[1]).iter().sum();
        check.compare("squares", &[sum], &[x.iter().map(|it| it * it).sum()], 2e-6);
    }
}
