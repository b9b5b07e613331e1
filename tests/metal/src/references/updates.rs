//! Gradients of tables, steps of an optimizer, and sums over gradients.

use crate::{
    check::{
        Check,
        Data::{Empty, EmptyWide, Numbers, Whole, Wide},
        Field::{self, F, U},
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

/// Parameters of unequal sizes, as many as one launch takes less one, each with its own place among the moments.
pub(crate) fn adamw(check: &mut Check) {
    const SLOTS: usize = 12;
    let sizes = if check.storage.lanes() == 4 {
        [20_000, 4, 256, 1_028, 12, 8, 400, 64, 1_000, 16, 4_096, 0]
    } else {
        [10_007, 1, 255, 1_029, 13, 7, 401, 65, 999, 17, 4_097, 0]
    };
    let starts: Vec<usize> = (0..SLOTS)
        .map(|at| sizes[..at].iter().sum::<usize>() + 4 * at)
        .collect();
    let n = starts[SLOTS - 1];
    let scaled = |seed, factor: f64, count| -> Vec<f64> {
        let numbers = normal(seed, count);
        let scaled = numbers.iter().map(|it| f64::from((it * factor) as f32));
        scaled.collect()
    };
    let m = scaled(2, 0.01, n);
    let v: Vec<f64> = scaled(4, 0.01, n)
        .iter()
        .map(|it| f64::from((it * it) as f32))
        .collect();
    let of_each = |seed: u64, factor| -> Vec<Vec<f64>> {
        let each = (0..).zip(sizes);
        each.map(|(at, size): (u64, usize)| scaled(seed + at, factor, size.max(4)))
            .collect()
    };
    let (weights, gradients) = (of_each(20, 1.0), of_each(40, 0.1));
    let (scale, beta1, beta2, epsilon, shrink, rate, correction) =
        (0.5, 0.9, 0.999, 1e-8, 0.9999, 2e-3, 12.0);
    let mut fields: Vec<Field> = sizes.iter().chain(&starts).map(|it| U(*it)).collect();
    fields.extend([
        F(scale),
        F(beta1),
        F(1.0 - beta1),
        F(beta2),
        F(1.0 - beta2),
        F(epsilon),
        F(shrink),
        F(rate),
        F(correction),
    ]);
    fields.extend([U(0); 3]);
    let mut data = vec![Wide(&m), Wide(&v)];
    data.extend(weights.iter().chain(&gradients).map(|it| Wide(it)));
    let Some(out) = check.run("adamw", &data, &fields, [3, SLOTS]) else {
        return;
    };
    let (mut want_m, mut want_v) = (m.clone(), v.clone());
    for at in 0..SLOTS {
        let (w, g) = (&weights[at], &gradients[at]);
        let mut want = w.clone();
        for i in 0..sizes[at] {
            let j = starts[at] + i;
            want_m[j] = beta1 * m[j] + (1.0 - beta1) * g[i] * scale;
            want_v[j] = beta2 * v[j] + (1.0 - beta2) * (g[i] * scale).powi(2);
            want[i] = w[i] * shrink - want_m[j] / (want_v[j].sqrt() * correction + epsilon) * rate;
        }
        check.same_wide(&format!("adamw: weight {at}"), &out[2 + at], &want);
    }
    check.same_wide("adamw: first moment", &out[0], &want_m);
    check.same_wide("adamw: second moment", &out[1], &want_v);
}

pub(crate) fn squares(check: &mut Check) {
    const SLOTS: usize = 24;
    let size = if check.storage.lanes() == 4 {
        |at: usize| 4 * (at * at * 97 % 5_000)
    } else {
        |at: usize| at * at * 97 % 5_003
    };
    // The first is missing.
    let tensors: Vec<Vec<f64>> = (0..SLOTS)
        .map(|at| check.storage.normal(at as u64, size(at).max(4), 1.0))
        .collect();
    let fields: Vec<Field> = (0..SLOTS).map(|at| U(size(at))).collect();
    let parts = 3;
    let mut data: Vec<_> = tensors.iter().map(|it| Numbers(it)).collect();
    data.push(EmptyWide(SLOTS * parts));
    if let Some(out) = check.run("squares", &data, &fields, [parts, SLOTS]) {
        let sums = wide(&out[SLOTS]);
        for (at, tensor) in tensors.iter().enumerate() {
            let sum: f64 = sums[at * parts..][..parts].iter().sum();
            let want: f64 = tensor[..size(at)].iter().map(|it| it * it).sum();
            check.compare(&format!("squares of {at}"), &[sum], &[want], 2e-6);
        }
    }
}

/// Blocks of 256, of which the last is not whole and the first has gradients of 0, with tables that a formula makes.
pub(crate) fn adamw_codes(check: &mut Check) {
    const BLOCK: usize = 256;
    let count = 3 * BLOCK + 65;
    let blocks = count.div_ceil(BLOCK);
    let table = |value: fn(f64) -> f64| -> Vec<f64> {
        let values: Vec<f64> = (0..BLOCK)
            .map(|at| f64::from(value(at as f64) as f32))
            .collect();
        let middles = values
            .windows(2)
            .map(|it| f64::from(((it[0] + it[1]) / 2.0) as f32));
        values.iter().copied().chain(middles).chain([0.0]).collect()
    };
    let signed = table(|at| ((at - 127.0) / 128.0).powi(3));
    let unsigned = table(|at| (at / 255.0).powi(2));
    let w = normal(1, count);
    let mut g = normal(2, count);
    g[..BLOCK].fill(0.0);
    let codes = |factor: u32| -> Vec<u32> {
        let words = (0..(blocks * BLOCK / 4) as u32).map(|at| at.wrapping_mul(factor));
        // The first block has nothing but zeros: of 127 and of 0.
        let zero = if factor == SIGNED { 0x7f7f_7f7f } else { 0 };
        words
            .enumerate()
            .map(|(at, word)| if at < BLOCK / 4 { zero } else { word })
            .collect()
    };
    const SIGNED: u32 = 0x9e37_79b9;
    let (first, second) = (codes(SIGNED), codes(0x85eb_ca6b));
    let code = |words: &[u32], at: usize| usize::from(words[at / 4].to_le_bytes()[at % 4]);
    let scales = [[0.5, 0.25, 0.125, 0.75], [0.3, 0.2, 0.1, 0.4]].map(|it| it.to_vec());
    let (scale, beta1, beta2, epsilon, shrink, rate, correction) =
        (0.5, 0.9, 0.999, 1e-8, 0.9999, 2e-3, 12.0);
    let factors = [
        scale,
        beta1,
        1.0 - beta1,
        beta2,
        1.0 - beta2,
        epsilon,
        shrink,
        rate,
        correction,
    ];
    let mut fields = vec![U(count)];
    fields.extend(factors.map(F));
    fields.extend([U(0); 2]);
    let tables = [signed.clone(), unsigned.clone()].concat();
    let data = [
        Wide(&w),
        Wide(&g),
        Whole(&first),
        Wide(&scales[0]),
        Whole(&second),
        Wide(&scales[1]),
        Wide(&tables),
    ];
    let Some(out) = check.run("adamw_codes", &data, &fields, [2, 1]) else {
        return;
    };
    let m = |at: usize| {
        beta1 * signed[code(&first, at)] * scales[0][at / BLOCK] + (1.0 - beta1) * g[at] * scale
    };
    let v = |at: usize| {
        beta2 * unsigned[code(&second, at)] * scales[1][at / BLOCK]
            + (1.0 - beta2) * (g[at] * scale).powi(2)
    };
    let each = |of: &dyn Fn(usize) -> f64| (0..count).map(of).collect::<Vec<f64>>();
    let (m, v) = (each(&m), each(&v));
    let want = each(&|at| w[at] * shrink - m[at] / (v[at].sqrt() * correction + epsilon) * rate);
    check.same_wide("adamw_codes: weight", &out[0], &want);
    let largest = |of: &[f64]| -> Vec<f64> {
        let blocks = of.chunks(BLOCK);
        blocks
            .map(|it| it.iter().fold(0.0, |most: f64, it| most.max(it.abs())))
            .collect()
    };
    let (most_m, most_v) = (largest(&m), largest(&v));
    check.same_wide("adamw_codes: largest of the first", &out[3], &most_m);
    check.same_wide("adamw_codes: largest of the second", &out[5], &most_v);
    // What the codes stand for is as near as any value is.
    for (what, bytes, table, numbers, most) in [
        ("first", &out[2], &signed, &m, &most_m),
        ("second", &out[4], &unsigned, &v, &most_v),
    ] {
        let far = |at: usize, code: usize| {
            let divisor = if most[at / BLOCK] == 0.0 {
                1.0
            } else {
                most[at / BLOCK]
            };
            (table[code] - numbers[at] / divisor).abs()
        };
        let least = |at: usize| {
            (0..BLOCK)
                .map(|code| far(at, code))
                .fold(f64::MAX, f64::min)
        };
        let raised = |at: usize| what == "second" && v[at] > 0.0 && bytes[at] == 1;
        let got = each(&|at| {
            if raised(at) {
                0.0
            } else {
                far(at, usize::from(bytes[at]))
            }
        });
        let want = each(&|at| if raised(at) { 0.0 } else { least(at) });
        check.compare(
            &format!("adamw_codes: codes of the {what}"),
            &got,
            &want,
            1e-4,
        );
        let behind: Vec<f64> = bytes[count..].iter().map(|it| f64::from(*it)).collect();
        let words = if what == "first" { &first } else { &second };
        let kept: Vec<f64> = (count..blocks * BLOCK)
            .map(|at| code(words, at) as f64)
            .collect();
        check.compare(
            &format!("adamw_codes: behind the {what}"),
            &behind,
            &kept,
            0.0,
        );
    }
}
