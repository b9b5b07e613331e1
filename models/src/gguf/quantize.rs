//! Numbers to blocks, as ggml makes them.
//!
//! Q8_0, Q4_0, Q5_0 and Q5_1 are equal to those of ggml's reference bit for bit, and the larger blocks follow its search: for each
//! group of numbers some twenty scales are tried, and the one with the least error is kept, where large numbers count more. After the
//! descriptions of the formats in ggml; `tests/goldens/gguf_blocks.py` has ggml make blocks of the same numbers.
//!
//! Deliberately absent: importances measured on text, and types below 4 bits, for which those are needed.

use half::{bf16, f16};
use rayon::prelude::*;

use super::TensorType;

/// The numbers of a large block.
const LARGE: usize = 256;
/// The numbers of a small one, and of a group with a scale and a smallest value in Q4_K and Q5_K.
const SMALL: usize = 32;
/// The numbers of a group with a scale in Q6_K.
const SIXTEEN: usize = 16;
/// A largest number below this is none.
const NOTHING: f32 = 1e-15;
/// How many blocks one task makes.
const BLOCKS_OF_TASK: usize = 256;

/// The blocks of some rows, each of which is whole blocks long. Nothing where a type is only read.
pub(super) fn blocks(of: TensorType, numbers: &[f32]) -> Option<Vec<u8>> {
    let block = block_of(of)?;
    let (width, bytes) = (of.block(), of.block_bytes());
    let mut blocks = vec![0; numbers.len() / width * bytes];
    let parts = blocks.par_chunks_mut(BLOCKS_OF_TASK * bytes);
    let numbers = numbers.par_chunks(BLOCKS_OF_TASK * width);
    parts.zip(numbers).for_each(|(to, from)| {
        let each = to.chunks_exact_mut(bytes).zip(from.chunks_exact(width));
        each.for_each(|(to, from)| block(from, to));
    });
    Some(blocks)
}

/// What makes one block from its numbers.
type MakeBlock = fn(&[f32], &mut [u8]);

fn block_of(of: TensorType) -> Option<MakeBlock> {
    Some(match of {
        TensorType::F32 => |x, to| to.copy_from_slice(&first(x).to_le_bytes()),
        TensorType::F16 => |x, to| to.copy_from_slice(&f16::from_f32(first(x)).to_le_bytes()),
        TensorType::BF16 => |x, to| to.copy_from_slice(&bf16::from_f32(first(x)).to_le_bytes()),
        TensorType::Q8_0 => q8_0,
        TensorType::Q4_0 => q4_0,
        TensorType::Q5_0 => q5_0,
        TensorType::Q5_1 => q5_1,
        TensorType::Q4K => q4_k,
        TensorType::Q5K => q5_k,
        TensorType::Q6K => q6_k,
        TensorType::Q4_1 | TensorType::Q2K | TensorType::Q3K => return None,
    })
}

fn first(numbers: &[f32]) -> f32 {
    numbers.first().copied().unwrap_or_default()
}

fn put_half(to: &mut [u8], number: f32) {
    to.copy_from_slice(&f16::from_f32(number).to_le_bytes());
}

/// One by a number, and 0 of 0.
fn inverse(number: f32) -> f32 {
    if number == 0.0 { 0.0 } else { 1.0 / number }
}

/// The number that is furthest from 0, with its sign. Of two that are as far, the first.
fn furthest(numbers: &[f32]) -> f32 {
    let further = |most: f32, it: &f32| if it.abs() > most.abs() { *it } else { most };
    numbers.iter().fold(0.0, further)
}

fn q8_0(x: &[f32], to: &mut [u8]) {
    let largest = furthest(x).abs();
    let scale = largest / 127.0;
    let inverse = inverse(scale);
    let (half, codes) = to.split_at_mut(2);
    put_half(half, scale);
    for (code, x) in codes.iter_mut().zip(x) {
        *code = (x * inverse).round() as i8 as u8;
    }
}

fn q4_0(x: &[f32], to: &mut [u8]) {
    let scale = furthest(x) / -8.0;
    let inverse = inverse(scale);
    let (half, codes) = to.split_at_mut(2);
    put_half(half, scale);
    let code = |x: f32| ((x * inverse + 8.5) as u8).min(15);
    let (low, high) = x.split_at(SMALL / 2);
    for (to, (low, high)) in codes.iter_mut().zip(low.iter().zip(high)) {
        *to = code(*low) | code(*high) << 4;
    }
}

/// The nibbles of codes of five bits, and the fifth bits of all.
fn put_five_bits(codes: [u8; SMALL], high: &mut [u8], nibbles: &mut [u8]) {
    let mut fifths = 0u32;
    for (at, code) in codes.iter().enumerate() {
        fifths |= u32::from(code >> 4) << at;
    }
    high.copy_from_slice(&fifths.to_le_bytes());
    for (at, to) in nibbles.iter_mut().enumerate() {
        *to = codes[at] & 15 | (codes[at + SMALL / 2] & 15) << 4;
    }
}

/// A code for each of the numbers of a small block.
fn codes_of(x: &[f32], code: impl Fn(f32) -> u8) -> [u8; SMALL] {
    let mut codes = [0; SMALL];
    for (to, x) in codes.iter_mut().zip(x) {
        *to = code(*x);
    }
    codes
}

fn q5_0(x: &[f32], to: &mut [u8]) {
    let scale = furthest(x) / -16.0;
    let inverse = inverse(scale);
    put_half(&mut to[..2], scale);
    let codes = codes_of(x, |x| ((x * inverse + 16.5) as u8).min(31));
    let (high, nibbles) = to[2..].split_at_mut(4);
    put_five_bits(codes, high, nibbles);
}

fn q5_1(x: &[f32], to: &mut [u8]) {
    let (least, most) = range(x);
    let scale = (most - least) / 31.0;
    let inverse = inverse(scale);
    put_half(&mut to[..2], scale);
    put_half(&mut to[2..4], least);
    let codes = codes_of(x, |x| ((x - least) * inverse + 0.5) as u8);
    let (high, nibbles) = to[4..].split_at_mut(4);
    put_five_bits(codes, high, nibbles);
}

fn range(x: &[f32]) -> (f32, f32) {
    let start = (f32::INFINITY, f32::NEG_INFINITY);
    x.iter()
        .fold(start, |(least, most), it| (least.min(*it), most.max(*it)))
}

/// The nearest whole number, the even one of two, and within these.
fn code(number: f32, least: i32, most: i32) -> i32 {
    (number.round_ties_even() as i32).clamp(least, most)
}

/// How the numbers of a group become `scale` · code - `offset`.
#[derive(Clone, Copy, Default)]
struct ScaleAndOffset {
    scale: f32,
    offset: f32,
}

/// Tries codes 0 to `most` by scales from a little wider than the range of the numbers on. Large numbers weigh more.
///
/// For codes that were tried, the scale and offset with the least weighted square error follow from two equations; an offset is
/// never below 0.
fn fit(x: &[f32; SMALL], most: i32, widest: f32, tries: u8) -> ScaleAndOffset {
    let mean_square = x.iter().map(|x| x * x).sum::<f32>() / SMALL as f32;
    let weights = x.map(|x| mean_square.sqrt() + x.abs());
    let (least, largest) = range(x);
    let least = least.min(0.0);
    if largest <= least {
        return ScaleAndOffset {
            scale: 0.0,
            offset: -least,
        };
    }
    let weighted = || weights.iter().zip(x);
    let sum_w: f32 = weights.iter().sum();
    let sum_x: f32 = weighted().map(|(w, x)| w * x).sum();
    let codes = |inverse: f32| x.map(|x| code(inverse * (x - least), 0, most) as f32);
    let error = |codes: &[f32; SMALL], scale: f32, least: f32| -> f32 {
        let each = weighted().zip(codes);
        each.map(|((w, x), code)| {
            let off = scale * code + least - x;
            w * off * off
        })
        .sum()
    };
    let span = largest - least;
    let scale = span / most as f32;
    let mut best = ScaleAndOffset {
        scale,
        offset: -least,
    };
    let mut best_error = error(&codes(most as f32 / span), scale, least);
    for step in 0..=tries {
        let tried = codes((widest + 0.1 * f32::from(step) + most as f32) / span);
        let (mut sum_l, mut sum_l2, mut sum_xl) = (0.0f32, 0.0f32, 0.0f32);
        for ((w, x), l) in weighted().zip(&tried) {
            sum_l += w * l;
            sum_l2 += w * l * l;
            sum_xl += w * l * x;
        }
        let determinant = sum_w * sum_l2 - sum_l * sum_l;
        if determinant <= 0.0 {
            continue;
        }
        let mut scale = (sum_w * sum_xl - sum_x * sum_l) / determinant;
        let mut least = (sum_l2 * sum_x - sum_l * sum_xl) / determinant;
        if least > 0.0 {
            (least, scale) = (0.0, sum_xl / sum_l2);
        }
        let error = error(&tried, scale, least);
        if error < best_error {
            best_error = error;
            best = ScaleAndOffset {
                scale,
                offset: -least,
            };
        }
    }
    best
}

/// What Q4_K and Q5_K have in common: the two halves, the twelve bytes of scales and offsets, and the codes.
fn scaled_groups(x: &[f32], most: i32, widest: f32, tries: u8, to: &mut [u8]) -> [u8; LARGE] {
    let (groups, _) = x.as_chunks::<SMALL>();
    let mut fits = [ScaleAndOffset::default(); LARGE / SMALL];
    for (to, group) in fits.iter_mut().zip(groups) {
        *to = fit(group, most, widest, tries);
    }
    let largest = |of: fn(&ScaleAndOffset) -> f32| fits.iter().map(of).fold(0.0f32, f32::max);
    let (scale, offset) = (largest(|it| it.scale), largest(|it| it.offset));
    let six_bits = |number: f32, largest: f32| code(63.0 * inverse(largest) * number, 0, 63) as u8;
    let (halves, packed) = to.split_at_mut(4);
    put_half(&mut halves[..2], scale / 63.0);
    put_half(&mut halves[2..], offset / 63.0);
    let (scale_unit, offset_unit) = (half(&halves[..2]), half(&halves[2..]));
    let mut codes = [0; LARGE];
    let (of_groups, _) = codes.as_chunks_mut::<SMALL>();
    for (at, (fit, (group, codes))) in fits.iter().zip(groups.iter().zip(of_groups)).enumerate() {
        let (s, m) = (six_bits(fit.scale, scale), six_bits(fit.offset, offset));
        match at {
            0..4 => (packed[at], packed[at + 4]) = (s, m),
            _ => {
                packed[at + 4] = s & 15 | (m & 15) << 4;
                packed[at - 4] |= s >> 4 << 6;
                packed[at] |= m >> 4 << 6;
            }
        }
        let (scale, offset) = (scale_unit * f32::from(s), offset_unit * f32::from(m));
        if scale != 0.0 {
            *codes = group.map(|x| code((x + offset) / scale, 0, most) as u8);
        }
    }
    codes
}

fn half(bytes: &[u8]) -> f32 {
    bytes
        .first_chunk()
        .map_or(0.0, |it| f16::from_le_bytes(*it).to_f32())
}

fn q4_k(x: &[f32], to: &mut [u8]) {
    let (head, nibbles) = to.split_at_mut(16);
    let codes = scaled_groups(x, 15, -1.0, 20, head);
    let (pairs, _) = codes.as_chunks::<{ 2 * SMALL }>();
    for (to, pair) in nibbles.chunks_exact_mut(SMALL).zip(pairs) {
        for (at, to) in to.iter_mut().enumerate() {
            *to = pair[at] | pair[at + SMALL] << 4;
        }
    }
}

fn q5_k(x: &[f32], to: &mut [u8]) {
    let (head, rest) = to.split_at_mut(16);
    let (high, nibbles) = rest.split_at_mut(SMALL);
    let codes = scaled_groups(x, 31, -0.5, 15, head);
    let (pairs, _) = codes.as_chunks::<{ 2 * SMALL }>();
    for (number, (to, pair)) in nibbles.chunks_exact_mut(SMALL).zip(pairs).enumerate() {
        for (at, to) in to.iter_mut().enumerate() {
            let (low, upper) = (pair[at], pair[at + SMALL]);
            *to = low & 15 | (upper & 15) << 4;
            high[at] |= (low >> 4 | upper >> 4 << 1) << (2 * number);
        }
    }
}

/// The scale with which codes -32 to 31 come nearest to these numbers, where each counts by its square.
fn fit_without_offset(x: &[f32; SIXTEEN]) -> f32 {
    let furthest = furthest(x);
    if furthest.abs() < NOTHING {
        return 0.0;
    }
    let sums = |inverse: f32| {
        let (mut sum_xl, mut sum_l2) = (0.0f32, 0.0f32);
        for x in x {
            let (w, l) = (x * x, code(inverse * x, -32, 31) as f32);
            sum_xl += w * x * l;
            sum_l2 += w * l * l;
        }
        (sum_xl, sum_l2)
    };
    let (sum_xl, sum_l2) = sums(-32.0 / furthest);
    let mut scale = if sum_l2 == 0.0 { 0.0 } else { sum_xl / sum_l2 };
    let mut best = scale * sum_xl;
    for step in (-9i8..=9).filter(|step| *step != 0) {
        let (sum_xl, sum_l2) = sums(-(32.0 + 0.1 * f32::from(step)) / furthest);
        if sum_l2 > 0.0 && sum_xl * sum_xl > best * sum_l2 {
            scale = sum_xl / sum_l2;
            best = scale * sum_xl;
        }
    }
    scale
}

fn q6_k(x: &[f32], to: &mut [u8]) {
    let (groups, _) = x.as_chunks::<SIXTEEN>();
    let mut fits = [0.0; LARGE / SIXTEEN];
    for (to, group) in fits.iter_mut().zip(groups) {
        *to = fit_without_offset(group);
    }
    let largest = furthest(&fits);
    if largest.abs() < NOTHING {
        return;
    }
    let inverse = -128.0 / largest;
    let (low, rest) = to.split_at_mut(LARGE / 2);
    let (high, rest) = rest.split_at_mut(LARGE / 4);
    let (scales, unit) = rest.split_at_mut(LARGE / SIXTEEN);
    put_half(unit, 1.0 / inverse);
    let unit = half(unit);
    let mut codes = [0u8; LARGE];
    let (of_groups, _) = codes.as_chunks_mut::<SIXTEEN>();
    for ((fit, to), (group, codes)) in fits
        .iter()
        .zip(scales.iter_mut())
        .zip(groups.iter().zip(of_groups))
    {
        let step = code(inverse * fit, -128, 127);
        *to = step as i8 as u8;
        let scale = unit * step as f32;
        *codes = match scale == 0.0 {
            true => [32; SIXTEEN],
            false => group.map(|x| (code(x / scale, -32, 31) + 32) as u8),
        };
    }
    let (halves, _) = codes.as_chunks::<{ LARGE / 2 }>();
    let lows = low.chunks_exact_mut(LARGE / 4);
    for ((codes, low), high) in halves.iter().zip(lows).zip(high.chunks_exact_mut(SMALL)) {
        for at in 0..SMALL {
            let four = [0, 1, 2, 3].map(|it| codes[at + it * SMALL]);
            low[at] = four[0] & 15 | (four[2] & 15) << 4;
            low[at + SMALL] = four[1] & 15 | (four[3] & 15) << 4;
            high[at] = four[0] >> 4 | four[1] >> 4 << 2 | four[2] >> 4 << 4 | four[3] >> 4 << 6;
        }
    }
}
