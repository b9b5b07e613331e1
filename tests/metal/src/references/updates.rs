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

/// Numbers of a block that has a scale.
const BLOCK: usize = 256;

/// The values of 256 codes, the middles between them, and a number that nobody reads.
fn codebook(value: fn(f64) -> f64) -> Vec<f64> {
    let values = (0..BLOCK).map(|at| f64::from(value(at as f64) as f32));
    let values: Vec<f64> = values.collect();
    let middles = values
        .windows(2)
        .map(|it| f64::from(((it[0] + it[1]) / 2.0) as f32));
    values.iter().copied().chain(middles).chain([0.0]).collect()
}

/// So many blocks of codes, four a word, of which the first has this one alone.
fn codes(blocks: usize, factor: u32, first: u8) -> Vec<u32> {
    let words = (0..blocks * BLOCK / 4).map(|at| match at < BLOCK / 4 {
        true => u32::from_le_bytes([first; 4]),
        false => (at as u32).wrapping_mul(factor),
    });
    words.collect()
}

/// The largest of each block.
fn largest(of: &[f64]) -> Vec<f64> {
    let blocks = of.chunks(BLOCK);
    let most = blocks.map(|it| it.iter().fold(0.0, |most: f64, it| most.max(it.abs())));
    most.collect()
}

/// Blocks of which the last is not whole, and the first has zeros alone, with codebooks that a formula makes.
pub(crate) fn adamw_codes(check: &mut Check) {
    let count = 3 * BLOCK + 65;
    let blocks = count.div_ceil(BLOCK);
    let signed = codebook(|at| ((at - 127.0) / 128.0).powi(3));
    let unsigned = codebook(|at| (at / 255.0).powi(2));
    let (w, mut g) = (normal(1, count), normal(2, count));
    g[..BLOCK].fill(0.0);
    let first = codes(blocks, 0x9e37_79b9, 127);
    let second = codes(blocks, 0x85eb_ca6b, 0);
    let code = |words: &[u32], at: usize| usize::from(words[at / 4].to_le_bytes()[at % 4]);
    let scales = [[0.5, 0.25, 0.125, 0.75], [0.3, 0.2, 0.1, 0.4]];
    let (scale, b1, b2, epsilon) = (0.5, 0.9, 0.999, 1e-8);
    let (shrink, rate, correction) = (0.9999, 2e-3, 12.0);
    let mut fields = vec![U(count)];
    fields.extend([scale, b1, 1.0 - b1, b2, 1.0 - b2].map(F));
    fields.extend([epsilon, shrink, rate, correction].map(F));
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
    let each = |of: &dyn Fn(usize) -> f64| (0..count).map(of).collect::<Vec<f64>>();
    let m = each(&|at| {
        let before = signed[code(&first, at)] * scales[0][at / BLOCK];
        b1 * before + (1.0 - b1) * g[at] * scale
    });
    let v = each(&|at| {
        let before = unsigned[code(&second, at)] * scales[1][at / BLOCK];
        b2 * before + (1.0 - b2) * (g[at] * scale).powi(2)
    });
    let want = each(&|at| w[at] * shrink - m[at] / (v[at].sqrt() * correction + epsilon) * rate);
    check.same_wide("adamw_codes: weight", &out[0], &want);
    let (most_m, most_v) = (largest(&m), largest(&v));
    check.same_wide("adamw_codes: largest of the first", &out[3], &most_m);
    check.same_wide("adamw_codes: largest of the second", &out[5], &most_v);
    let numbers = [&signed[..], &m, &most_m];
    codes_are_near(check, "first", numbers, &out[2], &first);
    let numbers = [&unsigned[..], &v, &most_v];
    codes_are_near(check, "second", numbers, &out[4], &second);
}

/// What the codes stand for is as near as any value of the table is, and those behind the last number are as before.
fn codes_are_near(
    check: &mut Check,
    what: &str,
    [table, numbers, most]: [&[f64]; 3],
    bytes: &[u8],
    words: &[u32],
) {
    let count = numbers.len();
    let far = |at: usize, code: usize| {
        let divisor = match most[at / BLOCK] {
            0.0 => 1.0,
            most => most,
        };
        (table[code] - numbers[at] / divisor).abs()
    };
    let least = |at: usize| {
        (0..BLOCK)
            .map(|code| far(at, code))
            .fold(f64::MAX, f64::min)
    };
    // A second moment above 0 has code 1 at least.
    let is_raised = |at: usize| what == "second" && numbers[at] > 0.0 && bytes[at] == 1;
    let compared: Vec<usize> = (0..count).filter(|at| !is_raised(*at)).collect();
    let got: Vec<f64> = compared
        .iter()
        .map(|&at| far(at, usize::from(bytes[at])))
        .collect();
    let want: Vec<f64> = compared.iter().map(|&at| least(at)).collect();
    check.compare(
        &format!("adamw_codes: codes of the {what}"),
        &got,
        &want,
        1e-4,
    );
    let numbers = |bytes: &[u8]| -> Vec<f64> { bytes.iter().map(|it| f64::from(*it)).collect() };
    let before: Vec<u8> = words.iter().flat_map(|it| it.to_le_bytes()).collect();
    let (got, want) = (numbers(&bytes[count..]), numbers(&before[count..]));
    check.compare(&format!("adamw_codes: behind the {what}"), &got, &want, 0.0);
}
