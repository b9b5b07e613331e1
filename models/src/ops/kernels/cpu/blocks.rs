//! Rows of weights in blocks of ggml, widened where they are multiplied: what is read from memory are the blocks.
//!
//! Each number is computed as candle's `to_float` does it, in the same order, so that it has the same bits. Deliberately absent:
//! blocks of 2 and 3 bits, which nobody makes of small models, and products that round x to 8 bits too, which are in `rounded`.

use candle_core::quantized::GgmlDType;
use half::f16;

use super::product::Stored;

/// Numbers of a small block.
const SMALL: usize = 32;
/// Numbers of a large one.
const LARGE: usize = 256;

/// A kind of blocks.
pub(super) trait Block: Sync {
    /// Bytes of a block.
    const BYTES: usize;
    /// The numbers that it stands for.
    const NUMBERS: usize;

    /// Writes these numbers.
    fn widen(block: &[u8], numbers: &mut [f32]);

    /// Writes those of a whole row, if there is a faster way to on this processor. Whether there is.
    #[inline(always)]
    fn widen_row_faster(_row: &[u8], _numbers: &mut [f32]) -> bool {
        false
    }
}

/// Does something with the type of a kind of blocks, if it is one of those that are here.
macro_rules! with_block {
    ($dtype:expr, $block:ident => $body:expr) => {
        with_block!($dtype, $block => $body, [Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4K, Q5K, Q6K])
    };
    ($dtype:expr, $block:ident => $body:expr, [$($name:ident),*]) => {
        match $dtype {
            $(candle_core::quantized::GgmlDType::$name => {
                type $block = $crate::ops::kernels::cpu::blocks::$name;
                Some($body)
            })*
            _ => None,
        }
    };
}
pub(super) use with_block;

/// Whether blocks of this kind can be widened here.
pub(super) fn serves(dtype: GgmlDType) -> bool {
    with_block!(dtype, B => B::NUMBERS).is_some()
}

/// Widens a row of blocks.
#[inline(always)]
pub(super) fn widen_row<B: Block>(row: &[u8], numbers: &mut [f32]) {
    if !B::widen_row_faster(row, numbers) {
        widen_blocks::<B>(row, numbers);
    }
}

#[inline(always)]
fn widen_blocks<B: Block>(row: &[u8], numbers: &mut [f32]) {
    let blocks = row.chunks_exact(B::BYTES);
    for (block, numbers) in blocks.zip(numbers.chunks_exact_mut(B::NUMBERS)) {
        B::widen(block, numbers);
    }
}

#[inline(always)]
fn half(bytes: &[u8]) -> f32 {
    f16::from_le_bytes([bytes[0], bytes[1]]).widen()
}

/// Both halves of each byte: the lower ones first, then the upper ones.
#[inline(always)]
fn nibbles(codes: &[u8], numbers: &mut [f32], number: impl Fn(u8) -> f32) {
    let (low, high) = numbers.split_at_mut(SMALL / 2);
    for ((code, low), high) in codes.iter().zip(low).zip(high) {
        *low = number(code & 15);
        *high = number(code >> 4);
    }
}

pub(super) struct Q4_0;

impl Block for Q4_0 {
    const BYTES: usize = 18;
    const NUMBERS: usize = SMALL;

    #[inline(always)]
    fn widen(block: &[u8], numbers: &mut [f32]) {
        let scale = half(block);
        nibbles(
            &block[2..18],
            numbers,
            #[inline(always)]
            |code| (i32::from(code) - 8) as f32 * scale,
        );
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn widen_row_faster(row: &[u8], numbers: &mut [f32]) -> bool {
        avx2::row(avx2::q4_0, row, numbers)
    }
}

pub(super) struct Q4_1;

impl Block for Q4_1 {
    const BYTES: usize = 20;
    const NUMBERS: usize = SMALL;

    #[inline(always)]
    fn widen(block: &[u8], numbers: &mut [f32]) {
        let (scale, least) = (half(block), half(&block[2..]));
        nibbles(
            &block[4..20],
            numbers,
            #[inline(always)]
            |code| f32::from(code) * scale + least,
        );
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn widen_row_faster(row: &[u8], numbers: &mut [f32]) -> bool {
        avx2::row(avx2::q4_1, row, numbers)
    }
}

/// Codes of five bits: four in nibbles, and the fifth ones of all in four bytes before them.
#[inline(always)]
fn five_bits(bytes: &[u8], numbers: &mut [f32], number: impl Fn(u32) -> f32) {
    let fifths = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    let (low, high) = numbers.split_at_mut(SMALL / 2);
    for (at, ((code, low), high)) in bytes[4..20].iter().zip(low).zip(high).enumerate() {
        let fifth = |at: usize| (fifths >> at & 1) << 4;
        *low = number(u32::from(code & 15) | fifth(at));
        *high = number(u32::from(code >> 4) | fifth(at + SMALL / 2));
    }
}

pub(super) struct Q5_0;

impl Block for Q5_0 {
    const BYTES: usize = 22;
    const NUMBERS: usize = SMALL;

    #[inline(always)]
    fn widen(block: &[u8], numbers: &mut [f32]) {
        let scale = half(block);
        five_bits(
            &block[2..22],
            numbers,
            #[inline(always)]
            |code: u32| (code as i32 - 16) as f32 * scale,
        );
    }
}

pub(super) struct Q5_1;

impl Block for Q5_1 {
    const BYTES: usize = 24;
    const NUMBERS: usize = SMALL;

    #[inline(always)]
    fn widen(block: &[u8], numbers: &mut [f32]) {
        let (scale, least) = (half(block), half(&block[2..]));
        five_bits(
            &block[4..24],
            numbers,
            #[inline(always)]
            |code: u32| code as i32 as f32 * scale + least,
        );
    }
}

pub(super) struct Q8_0;

impl Block for Q8_0 {
    const BYTES: usize = 34;
    const NUMBERS: usize = SMALL;

    #[inline(always)]
    fn widen(block: &[u8], numbers: &mut [f32]) {
        let scale = half(block);
        for (code, number) in block[2..34].iter().zip(numbers) {
            *number = f32::from(*code as i8) * scale;
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn widen_row_faster(row: &[u8], numbers: &mut [f32]) -> bool {
        avx2::row(avx2::q8_0, row, numbers)
    }
}

/// The scale and the smallest value of a group of 32, of eight, by their units: six bits each, in twelve bytes.
#[inline(always)]
fn scale_and_least(bytes: &[u8], group: usize, units: (f32, f32)) -> (f32, f32) {
    let (scale, least) = match group < 4 {
        true => (bytes[group] & 63, bytes[group + 4] & 63),
        false => (
            bytes[group + 4] & 15 | bytes[group - 4] >> 6 << 4,
            bytes[group + 4] >> 4 | bytes[group] >> 6 << 4,
        ),
    };
    (units.0 * f32::from(scale), units.1 * f32::from(least))
}

pub(super) struct Q4K;

impl Block for Q4K {
    const BYTES: usize = 144;
    const NUMBERS: usize = LARGE;

    #[inline(always)]
    fn widen(block: &[u8], numbers: &mut [f32]) {
        let units = (half(block), half(&block[2..]));
        for (group, numbers) in numbers.chunks_exact_mut(SMALL).enumerate() {
            let (scale, least) = scale_and_least(&block[4..16], group, units);
            // Of two groups, the codes share their bytes.
            let codes = &block[16 + SMALL * (group / 2)..][..SMALL];
            let shift = 4 * (group % 2);
            for (code, number) in codes.iter().zip(numbers) {
                *number = scale * f32::from(code >> shift & 15) - least;
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn widen_row_faster(row: &[u8], numbers: &mut [f32]) -> bool {
        avx2::row(avx2::q4_k, row, numbers)
    }
}

pub(super) struct Q5K;

impl Block for Q5K {
    const BYTES: usize = 176;
    const NUMBERS: usize = LARGE;

    #[inline(always)]
    fn widen(block: &[u8], numbers: &mut [f32]) {
        let units = (half(block), half(&block[2..]));
        let fifths = &block[16..48];
        for (group, numbers) in numbers.chunks_exact_mut(SMALL).enumerate() {
            let (scale, least) = scale_and_least(&block[4..16], group, units);
            let codes = &block[48 + SMALL * (group / 2)..][..SMALL];
            let shift = 4 * (group % 2);
            for ((code, fifths), number) in codes.iter().zip(fifths).zip(numbers) {
                let fifth = (fifths >> group & 1) << 4;
                *number = scale * f32::from(code >> shift & 15 | fifth) - least;
            }
        }
    }
}

pub(super) struct Q6K;

impl Block for Q6K {
    const BYTES: usize = 210;
    const NUMBERS: usize = LARGE;

    #[inline(always)]
    fn widen(block: &[u8], numbers: &mut [f32]) {
        let unit = half(&block[208..]);
        for (part, numbers) in numbers.chunks_exact_mut(LARGE / 2).enumerate() {
            let low = &block[64 * part..][..64];
            let high = &block[128 + 32 * part..][..32];
            let scales = &block[192 + 8 * part..][..8];
            for (quarter, numbers) in numbers.chunks_exact_mut(SMALL).enumerate() {
                let codes = &low[SMALL * (quarter % 2)..][..SMALL];
                let shift = 4 * (quarter / 2);
                for (half, numbers) in numbers.chunks_exact_mut(SMALL / 2).enumerate() {
                    let scale = unit * f32::from(scales[2 * quarter + half] as i8);
                    let first = half * SMALL / 2;
                    let codes = codes[first..].iter().zip(&high[first..]);
                    for ((low, high), number) in codes.zip(numbers) {
                        let code = low >> shift & 15 | (high >> (2 * quarter) & 3) << 4;
                        *number = scale * f32::from(code as i8 - 32);
                    }
                }
            }
        }
    }
}

/// The same for processors with AVX2: compilers make slow code of the loops above, which take six times as long there.
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod avx2 {
    use std::arch::x86_64::{
        __m128i, _mm_and_si128, _mm_loadu_si128, _mm_set1_epi8, _mm_srli_epi16, _mm_srli_si128,
        _mm256_add_ps, _mm256_cvtepi8_epi32, _mm256_cvtepi32_ps, _mm256_mul_ps, _mm256_set1_epi32,
        _mm256_set1_ps, _mm256_storeu_ps, _mm256_sub_epi32,
    };

    use super::{SMALL, half, scale_and_least};

    /// Widens a row, where the processor has the instructions. Whether it has.
    pub(super) fn row(
        widen: unsafe fn(&[u8], &mut [f32]),
        row: &[u8],
        numbers: &mut [f32],
    ) -> bool {
        let is_here = is_x86_feature_detected!("avx2");
        if is_here {
            // Safety: these functions need nothing but AVX2, which is there.
            unsafe { widen(row, numbers) };
        }
        is_here
    }

    /// What is done to a code, in this order.
    #[derive(Clone, Copy)]
    struct Number {
        less: i32,
        scale: f32,
        more: Option<f32>,
    }

    impl Number {
        fn times(scale: f32) -> Self {
            Self {
                less: 0,
                scale,
                more: None,
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn load(codes: &[u8; 16]) -> __m128i {
        // Safety: sixteen bytes are read, which need not be aligned.
        unsafe { _mm_loadu_si128(codes.as_ptr().cast()) }
    }

    /// Both halves of sixteen bytes: the lower ones, and the upper ones.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn nibbles(codes: &[u8; 16]) -> [__m128i; 2] {
        let (codes, mask) = (load(codes), _mm_set1_epi8(15));
        [codes, _mm_srli_epi16::<4>(codes)].map(|it| _mm_and_si128(it, mask))
    }

    /// Sixteen codes, with their signs, as numbers.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn put(codes: __m128i, number: Number, to: &mut [f32; 16]) {
        let scale = _mm256_set1_ps(number.scale);
        for (to, codes) in to
            .as_chunks_mut::<8>()
            .0
            .iter_mut()
            .zip([codes, _mm_srli_si128::<8>(codes)])
        {
            let codes =
                _mm256_sub_epi32(_mm256_cvtepi8_epi32(codes), _mm256_set1_epi32(number.less));
            let mut numbers = _mm256_mul_ps(_mm256_cvtepi32_ps(codes), scale);
            if let Some(more) = number.more {
                numbers = _mm256_add_ps(numbers, _mm256_set1_ps(more));
            }
            // Safety: eight numbers are written, where there are eight; they need not be aligned.
            unsafe { _mm256_storeu_ps(to.as_mut_ptr(), numbers) };
        }
    }

    /// Writes blocks whose last 16 bytes are nibbles; what is done to them follows from the bytes before.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn small<const BYTES: usize>(
        row: &[u8],
        numbers: &mut [f32],
        number: impl Fn(&[u8; BYTES]) -> Number,
    ) {
        let blocks = row.as_chunks::<BYTES>().0.iter();
        for (block, numbers) in blocks.zip(numbers.as_chunks_mut::<SMALL>().0) {
            let Some(codes) = block.last_chunk() else {
                continue;
            };
            let (number, halves) = (number(block), numbers.as_chunks_mut().0);
            for (codes, to) in nibbles(codes).into_iter().zip(halves) {
                put(codes, number, to);
            }
        }
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn q4_0(row: &[u8], numbers: &mut [f32]) {
        small::<18>(row, numbers, |block| Number {
            less: 8,
            ..Number::times(half(block))
        });
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn q4_1(row: &[u8], numbers: &mut [f32]) {
        small::<20>(row, numbers, |block| Number {
            more: Some(half(&block[2..])),
            ..Number::times(half(block))
        });
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn q8_0(row: &[u8], numbers: &mut [f32]) {
        let blocks = row.as_chunks::<34>().0.iter();
        for (block, numbers) in blocks.zip(numbers.as_chunks_mut::<SMALL>().0) {
            let number = Number::times(half(block));
            let codes = block[2..].as_chunks().0.iter();
            for (codes, to) in codes.zip(numbers.as_chunks_mut().0) {
                put(load(codes), number, to);
            }
        }
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn q4_k(row: &[u8], numbers: &mut [f32]) {
        let blocks = row.as_chunks::<144>().0.iter();
        for (block, numbers) in blocks.zip(numbers.as_chunks_mut::<256>().0) {
            let units = (half(block), half(&block[2..]));
            let pairs = block[16..].as_chunks::<SMALL>().0.iter();
            for (pair, (codes, numbers)) in pairs
                .zip(numbers.as_chunks_mut::<{ 2 * SMALL }>().0)
                .enumerate()
            {
                let number = |group| {
                    let (scale, least) = scale_and_least(&block[4..16], group, units);
                    Number {
                        more: Some(-least),
                        ..Number::times(scale)
                    }
                };
                let of = [number(2 * pair), number(2 * pair + 1)];
                let to = numbers.as_chunks_mut::<16>().0;
                for (half, codes) in codes.as_chunks().0.iter().enumerate() {
                    let [low, high] = nibbles(codes);
                    put(low, of[0], &mut to[half]);
                    put(high, of[1], &mut to[2 + half]);
                }
            }
        }
    }
}

/// The kinds of blocks that are here.
#[cfg(test)]
pub(super) const KINDS: [GgmlDType; 8] = [
    GgmlDType::Q4_0,
    GgmlDType::Q4_1,
    GgmlDType::Q5_0,
    GgmlDType::Q5_1,
    GgmlDType::Q8_0,
    GgmlDType::Q4K,
    GgmlDType::Q5K,
    GgmlDType::Q6K,
];

#[cfg(test)]
mod tests {
    use candle_core::{DType, Device, Tensor, quantized::QTensor};

    use super::*;
    use crate::ops::testing::normal;

    #[test]
    fn numbers_have_the_bits_that_the_library_gives_them() {
        for dtype in KINDS {
            let numbers = normal(7, &[3, 2 * LARGE]).to_dtype(DType::F32).unwrap();
            // Scales of every size, subnormal ones too.
            let sizes = Tensor::new(&[[1f32], [1e-6], [3e4]], &Device::Cpu).unwrap();
            let numbers = numbers.broadcast_mul(&sizes).unwrap();
            let blocks = QTensor::quantize(&numbers, dtype).unwrap();
            let expected = blocks.dequantize(&Device::Cpu).unwrap();
            let expected: Vec<f32> = expected.flatten_all().unwrap().to_vec1().unwrap();
            let bytes = blocks.data().unwrap();
            let mut found = vec![0f32; expected.len()];
            let bits = |numbers: &[f32]| numbers.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            let widened = with_block!(dtype, B => widen_row::<B>(&bytes, &mut found));
            assert_eq!(widened, Some(()), "{dtype:?}");
            assert_eq!(bits(&found), bits(&expected), "{dtype:?}");
            // Also the way of processors that have no faster one.
            found.fill(0.0);
            let widened = with_block!(dtype, B => widen_blocks::<B>(&bytes, &mut found));
            assert_eq!(widened, Some(()), "{dtype:?}");
            assert_eq!(bits(&found), bits(&expected), "{dtype:?}, block by block");
        }
        assert!(!serves(GgmlDType::Q2K));
    }
}
