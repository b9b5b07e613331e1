//! Gates, of two tensors and of the halves of one.

use super::each;
use crate::check::{
    Check,
    Data::{Empty, Numbers},
    Field::U,
};

/// f and its slope, by the number that a kernel knows it by.
const ACTIVATIONS: [(&str, fn(f64) -> f64); 4] = [
    ("silu", |x| x / (1.0 + (-x).exp())),
    ("gelu", |x| x * below(x)),
    ("gelu_tanh", |x| {
        let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
        x * 0.5 * (1.0 + u.tanh())
    }),
    ("relu", |x| x.max(0.0)),
];

/// The slope, by a difference of what is far more exact than any kernel.
fn slope(of: fn(f64) -> f64, x: f64) -> f64 {
    const STEP: f64 = 1e-6;
    (of(x + STEP) - of(x - STEP)) / (2.0 * STEP)
}

/// The share of a normal distribution below x: half of it, and the density times a series whose terms have one sign.
fn below(x: f64) -> f64 {
    if x.abs() > 9.0 {
        return if x > 0.0 { 1.0 } else { 0.0 };
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..300 {
        term *= x * x / f64::from(2 * n + 1);
        sum += term;
    }
    0.5 + sum * (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt()
}

pub(crate) fn gated(check: &mut Check) {
    let n = if check.storage.lanes() == 4 {
        12_288
    } else {
        1_003
    };
    let a = check.storage.normal(1, n, 2.0);
    let [c, g] = [2, 3].map(|seed| check.storage.normal(seed, n, 1.0));
    for (number, (name, of)) in ACTIVATIONS.into_iter().enumerate() {
        let fields = [U(n), U(number), U(0), U(0)];
        let data = [Numbers(&a), Numbers(&c), Empty(n)];
        if let Some(out) = check.run("gated", &data, &fields, [7, 1]) {
            check.same(
                &format!("gated: {name}"),
                &out[2],
                &each(n, |i| of(a[i]) * c[i]),
            );
        }
        let data = [Numbers(&a), Numbers(&c), Numbers(&g), Empty(n), Empty(n)];
        if let Some(out) = check.run("gated_back", &data, &fields, [7, 1]) {
            let da = each(n, |i| g[i] * c[i] * slope(of, a[i]));
            check.same(&format!("gated_back: da of {name}"), &out[3], &da);
            check.same(
                &format!("gated_back: dc of {name}"),
                &out[4],
                &each(n, |i| g[i] * of(a[i])),
            );
        }
        ends(check, number, name);
    }
}

/// Far from zero a gate is nothing, or the number itself, and its slope 0 or 1.
fn ends(check: &mut Check, number: usize, name: &str) {
    let far = check.storage.far();
    let a = check.storage.kept(vec![-far, -200.0, 0.0, far]);
    let ones = [1.0; 4];
    let fields = [U(4), U(number), U(0), U(0)];
    let data = [
        Numbers(&a),
        Numbers(&ones),
        Numbers(&ones),
        Empty(4),
        Empty(4),
    ];
    if let Some(out) = check.run("gated_back", &data, &fields, [1, 1]) {
        let at_zero = if name == "relu" { 0.0 } else { 0.5 };
        check.same(
            &format!("gated_back: ends of {name}"),
            &out[3],
            &[0.0, 0.0, at_zero, 1.0],
        );
        let active = check.storage.decode(&out[4]);
        check.compare(
            &format!("gated: ends of {name}"),
            &active[..3],
            &[0.0; 3],
            0.0,
        );
        check.compare(
            &format!("gated: far end of {name}"),
            &active[3..],
            &a[3..],
            0.0,
        );
    }
}

pub(crate) fn halves(check: &mut Check) {
    let (lines, inner) = if check.storage.lanes() == 4 {
        (33, 96)
    } else {
        (13, 7)
    };
    let n = lines * inner;
    let both = check.storage.normal(1, 2 * n, 1.5);
    let g = check.storage.normal(2, n, 1.0);
    let a = |i: usize| both[i + i / inner * inner];
    let c = |i: usize| both[i + i / inner * inner + inner];
    for (number, (name, of)) in ACTIVATIONS.into_iter().enumerate() {
        let fields = [U(n), U(inner), U(number), U(0)];
        let y = each(n, |i| of(a(i)) * c(i));
        if let Some(out) = check.run("halves", &[Numbers(&both), Empty(n)], &fields, [2, 1]) {
            check.same(&format!("halves: {name}"), &out[1], &y);
        }
        let data = [Numbers(&both), Numbers(&g), Empty(n), Empty(2 * n)];
        if let Some(out) = check.run("halves_back", &data, &fields, [2, 1]) {
            check.same(&format!("halves_back: y of {name}"), &out[2], &y);
            let d_both = each(2 * n, |at| {
                let i = at / (2 * inner) * inner + at % inner;
                match at / inner % 2 {
                    0 => g[i] * c(i) * slope(of, a(i)),
                    _ => g[i] * of(a(i)),
                }
            });
            check.same(&format!("halves_back: d_both of {name}"), &out[3], &d_both);
        }
    }
}
