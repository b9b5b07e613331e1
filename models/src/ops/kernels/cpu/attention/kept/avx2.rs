//! Numbers of 16 and 8 bits, eight at a time. What all tokens are multiplied with, and what is added up, stays in registers: a part of
//! each head after the other.
#![allow(unsafe_code)]

use std::{
    arch::x86_64::{
        __m256, _mm_add_ps, _mm_loadl_epi64, _mm_loadu_si128, _mm_set1_epi16, _mm_storeu_ps,
        _mm256_castps256_ps128, _mm256_cvtepi8_epi32, _mm256_cvtepi32_ps, _mm256_cvtph_ps,
        _mm256_extractf128_ps, _mm256_fmadd_ps, _mm256_hadd_ps, _mm256_mul_ps, _mm256_set1_ps,
        _mm256_setzero_ps,
    },
    array,
};

use super::{Form, Head};
use crate::ops::{
    kept::{GROUP, GROUP_BYTES},
    kernels::cpu::rounded::{
        self,
        avx2::{load_numbers, stored, total},
    },
};

/// Numbers in a vector.
const LANES: usize = 8;
/// Tokens whose products are taken at once.
const TOKENS: usize = 4;

fn serves(width: usize) -> bool {
    width.is_multiple_of(LANES) && rounded::is_here()
}

/// See [`Head::dots`]. Whether it can be done here; if not, nothing is changed.
pub(super) fn dots(head: &Head, q: &[f32], dots: &mut [f32]) -> bool {
    if !serves(q.len()) {
        return false;
    }
    dots.fill(0.0);
    let (mut q, _) = q.as_chunks::<LANES>();
    let width = q.len() * LANES;
    while !q.is_empty() {
        let at = width - q.len() * LANES;
        // SAFETY: the processor has what they need.
        let done = unsafe {
            match (head.form, q.len()) {
                (Form::F16, 8..) => dots_of::<true, 8>(head, width, at, q, dots),
                (Form::F16, 4..) => dots_of::<true, 4>(head, width, at, q, dots),
                (Form::F16, _) => dots_of::<true, 1>(head, width, at, q, dots),
                (Form::Q8, 8..) => dots_of::<false, 8>(head, width, at, q, dots),
                (Form::Q8, _) => dots_of::<false, 4>(head, width, at, q, dots),
            }
        };
        q = &q[done..];
    }
    true
}

/// See [`Head::add_up`]. Whether it can be done here; if not, nothing is changed.
pub(super) fn add_up(head: &Head, weights: &[f32], y: &mut [f32]) -> bool {
    let width = y.len();
    if !serves(width) {
        return false;
    }
    let (mut y, _) = y.as_chunks_mut::<LANES>();
    while !y.is_empty() {
        let at = width - y.len() * LANES;
        // SAFETY: the processor has what they need.
        let done = unsafe {
            match (head.form, y.len()) {
                (Form::F16, 8..) => add_up_of::<true, 8>(head, width, at, weights, y),
                (Form::F16, 4..) => add_up_of::<true, 4>(head, width, at, weights, y),
                (Form::F16, _) => add_up_of::<true, 1>(head, width, at, weights, y),
                (Form::Q8, 8..) => add_up_of::<false, 8>(head, width, at, weights, y),
                (Form::Q8, _) => add_up_of::<false, 4>(head, width, at, weights, y),
            }
        };
        y = &mut y[done..];
    }
    true
}

/// Adds the products of `VECTORS` of q, which are those from `at` on, with the same of all keys. Returns how many vectors that were.
#[target_feature(enable = "avx2,fma,f16c")]
fn dots_of<const IS_F16: bool, const VECTORS: usize>(
    head: &Head,
    width: usize,
    at: usize,
    q: &[[f32; LANES]],
    dots: &mut [f32],
) -> usize {
    let q: [__m256; VECTORS] = array::from_fn(|index| load_numbers(&q[index]));
    let (fours, rest) = dots.as_chunks_mut::<TOKENS>();
    let first_of_rest = fours.len() * TOKENS;
    for (four, dots) in fours.iter_mut().enumerate() {
        let mut sums = [_mm256_setzero_ps(); TOKENS];
        for (token, sum) in sums.iter_mut().enumerate() {
            *sum = product::<IS_F16, VECTORS>(head.token(four * TOKENS + token, width), at, &q);
        }
        let [a, b, c, d] = sums;
        let pairs = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
        let (low, high) = (
            _mm256_castps256_ps128(pairs),
            _mm256_extractf128_ps::<1>(pairs),
        );
        let mut sums = [0.0; TOKENS];
        // SAFETY: four numbers are written, which need not be aligned.
        unsafe { _mm_storeu_ps(sums.as_mut_ptr(), _mm_add_ps(low, high)) };
        for (dot, sum) in dots.iter_mut().zip(sums) {
            *dot += sum;
        }
    }
    for (token, dot) in rest.iter_mut().enumerate() {
        let row = head.token(first_of_rest + token, width);
        *dot += total(product::<IS_F16, VECTORS>(row, at, &q));
    }
    VECTORS
}

/// Products of vectors of q with those of a key from `at` on, to be added up.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn product<const IS_F16: bool, const VECTORS: usize>(
    row: &[u8],
    at: usize,
    q: &[__m256; VECTORS],
) -> __m256 {
    let mut sum = _mm256_setzero_ps();
    for (index, q) in q.iter().enumerate() {
        sum = _mm256_fmadd_ps(*q, eight::<IS_F16>(row, at + LANES * index), sum);
    }
    sum
}

/// Overwrites `VECTORS` of y, which are those from `at` on, with the sum of the same of all values, each times its weight. Returns how
/// many vectors that were.
#[target_feature(enable = "avx2,fma,f16c")]
fn add_up_of<const IS_F16: bool, const VECTORS: usize>(
    head: &Head,
    width: usize,
    at: usize,
    weights: &[f32],
    y: &mut [[f32; LANES]],
) -> usize {
    let mut sums = [_mm256_setzero_ps(); VECTORS];
    for (token, weight) in weights.iter().enumerate() {
        let row = head.token(token, width);
        let weight = _mm256_set1_ps(*weight);
        for (index, sum) in sums.iter_mut().enumerate() {
            let value = eight::<IS_F16>(row, at + LANES * index);
            *sum = _mm256_fmadd_ps(weight, value, *sum);
        }
    }
    for (y, sum) in y.iter_mut().zip(sums) {
        *y = stored(sum);
    }
    VECTORS
}

/// Eight numbers of a token from `at` on, of which there are as many.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn eight<const IS_F16: bool>(row: &[u8], at: usize) -> __m256 {
    let first = match IS_F16 {
        true => 2 * at,
        false => at / GROUP * GROUP_BYTES,
    };
    debug_assert!(first + 2 * LANES <= row.len());
    // SAFETY: a token has the bytes of its whole width, so 16 of eight numbers or 34 of a group are there; they need not be aligned.
    unsafe {
        let bytes = row.as_ptr().add(first);
        if IS_F16 {
            return _mm256_cvtph_ps(_mm_loadu_si128(bytes.cast()));
        }
        let scale = _mm_set1_epi16(bytes.cast::<i16>().read_unaligned());
        let codes = _mm_loadl_epi64(bytes.add(2 + at % GROUP).cast());
        let codes = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(codes));
        _mm256_mul_ps(codes, _mm256_cvtph_ps(scale))
    }
}
