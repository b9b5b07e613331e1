//! Weights in blocks, and masks that are drawn.

use super::each;
use crate::{
    check::{
        Check,
        Data::{Empty, Numbers, Whole, Wide},
        Field::{F, U},
    },
    storage::normal,
};

pub(crate) fn widen_codes(check: &mut Check) {
    const BLOCK: usize = 64;
    const SCALES: usize = 4;
    // Not from the first number on, and in the middle of a byte where that can be.
    let (first, count): (usize, usize) = if check.storage.lanes() == 4 {
        (68, 1_020)
    } else {
        (67, 1_003)
    };
    let blocks = (first + count).div_ceil(BLOCK);
    let words: Vec<u32> = (0..blocks * BLOCK / 8)
        .map(|at| (at as u32).wrapping_mul(0x9e37_79b9) ^ 0x5bd1_e995)
        .collect();
    let byte = |words: &[u32], at: usize| words[at / 4].to_le_bytes()[at % 4];
    let code = |number: usize| match number % 2 {
        0 => usize::from(byte(&words, number / 2) >> 4),
        _ => usize::from(byte(&words, number / 2) & 15),
    };
    let (values, scales, scale_values) = (normal(1, 16), normal(2, blocks), normal(3, 256));
    let pairs = each(512, |at| {
        values[if at % 2 == 0 { at / 32 } else { at / 2 % 16 }]
    });
    let offset = 0.25;
    for in_codes in [false, true] {
        let scale = |block: usize| match in_codes {
            false => scales[block],
            true => {
                let code = usize::from(byte(&words, block));
                scale_values[code] * scales[block / SCALES] + offset
            }
        };
        let data = [
            Whole(&words),
            Wide(&pairs),
            Whole(&words),
            Wide(&scale_values),
            Wide(&scales),
            Empty(count),
        ];
        let group = if in_codes { SCALES } else { 0 };
        let fields = [
            U(count),
            U(first),
            U(BLOCK),
            U(group),
            F(offset),
            U(0),
            U(0),
            U(0),
        ];
        if let Some(out) = check.run("widen_codes", &data, &fields, [2, 1]) {
            let want = each(count, |at| {
                let number = first + at;
                values[code(number)] * scale(number / BLOCK)
            });
            check.same(
                &format!("widen_codes, scales in codes: {in_codes}"),
                &out[5],
                &want,
            );
        }
    }
}

pub(crate) fn dropout(check: &mut Check) {
    let n = if check.storage.lanes() == 4 {
        5_000
    } else {
        1_003
    };
    let x = check.storage.normal(1, n, 1.0);
    let (low, high, threshold, kept) =
        (0x1234_5678u32, 0x9abc_def0u32, 0x4ccc_cccc_u32, 10.0 / 7.0);
    let mix = |bits: u32| {
        let bits = (bits ^ bits >> 16).wrapping_mul(0x7feb_352d);
        let bits = (bits ^ bits >> 15).wrapping_mul(0x846c_a68b);
        bits ^ bits >> 16
    };
    let fields = [
        U(n),
        U(low as usize),
        U(high as usize),
        U(threshold as usize),
        F(kept),
        U(0),
        U(0),
        U(0),
    ];
    if let Some(out) = check.run("dropout", &[Numbers(&x), Empty(n)], &fields, [2, 1]) {
        let want = each(n, |at| {
            match mix(mix(at as u32 ^ low).wrapping_add(high)) >= threshold {
                true => x[at] * kept,
                false => 0.0,
            }
        });
        check.same("dropout", &out[1], &want);
    }
}
