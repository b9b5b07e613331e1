//! Whole numbers of eight bits, multiplied by AVX2: 32 at a time, eight groups of which share what is to be done for each.
//!
//! Codes from 0 on are multiplied as they are, and what the smallest number of a group adds follows from the sum of its x. Codes of
//! either sign give their signs to x.
#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m128i, __m256, __m256i, _mm_add_ps, _mm_add_ss, _mm_and_si128, _mm_cvtph_ps,
    _mm_cvtsi32_si128, _mm_cvtsi64_si128, _mm_cvtss_f32, _mm_loadu_si128, _mm_max_ps, _mm_max_ss,
    _mm_movehl_ps, _mm_set1_epi8, _mm_set1_ps, _mm_shuffle_ps, _mm_srli_epi16, _mm256_abs_epi8,
    _mm256_add_ps, _mm256_and_si256, _mm256_andnot_ps, _mm256_castps256_ps128, _mm256_cmpeq_epi8,
    _mm256_cvtepi8_epi32, _mm256_cvtepi32_ps, _mm256_cvtepu8_epi32, _mm256_cvtph_ps,
    _mm256_cvtps_epi32, _mm256_extractf128_ps, _mm256_fmadd_ps, _mm256_loadu_ps,
    _mm256_loadu_si256, _mm256_madd_epi16, _mm256_maddubs_epi16, _mm256_max_ps, _mm256_mul_ps,
    _mm256_or_si256, _mm256_packs_epi16, _mm256_packs_epi32, _mm256_permutevar8x32_epi32,
    _mm256_set_m128, _mm256_set_m128i, _mm256_set1_epi8, _mm256_set1_epi16, _mm256_set1_epi32,
    _mm256_set1_ps, _mm256_setr_epi32, _mm256_setr_epi64x, _mm256_setzero_ps, _mm256_shuffle_epi8,
    _mm256_sign_epi8, _mm256_slli_epi16, _mm256_srl_epi16, _mm256_srli_epi16, _mm256_storeu_ps,
    _mm256_storeu_si256, _mm256_sub_epi8,
};

use candle_core::quantized::GgmlDType;

/// Numbers that share a scale.
const GROUP: usize = 32;
/// The largest whole number.
const MOST: f32 = 127.0;

/// Whether this processor has the instructions.
pub(super) fn is_here() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c")
}

/// A row of x in eight bits, by groups.
pub(super) struct Rounded {
    pub(super) codes: Vec<[i8; GROUP]>,
    pub(super) scales: Vec<f32>,
    /// Of the numbers that the codes stand for.
    sums: Vec<f32>,
}

/// Some of its groups.
#[derive(Clone, Copy)]
struct Groups<'a, const COUNT: usize> {
    codes: &'a [[i8; GROUP]; COUNT],
    scales: &'a [f32; COUNT],
    sums: &'a [f32; COUNT],
}

impl Rounded {
    /// Its groups, so many at a time.
    #[inline(always)]
    fn groups<const COUNT: usize>(&self) -> impl Iterator<Item = Groups<'_, COUNT>> {
        let codes = self.codes.as_chunks().0.iter();
        let scales = self.scales.as_chunks().0.iter();
        let sums = self.sums.as_chunks().0.iter();
        codes
            .zip(scales)
            .zip(sums)
            .map(|((codes, scales), sums)| Groups {
                codes,
                scales,
                sums,
            })
    }
}

/// A row of whole groups, rounded.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn rounded(x: &[f32]) -> Rounded {
    let groups = x.as_chunks().0;
    let mut rounded = Rounded {
        codes: Vec::with_capacity(groups.len()),
        scales: Vec::with_capacity(groups.len()),
        sums: Vec::with_capacity(groups.len()),
    };
    for x in groups {
        push(&mut rounded, x);
    }
    rounded
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn push(rounded: &mut Rounded, x: &[f32; GROUP]) {
    let at = |index: usize| load_numbers(&x.as_chunks().0[index]);
    let x = [at(0), at(1), at(2), at(3)];
    let sizes = x.map(|it| _mm256_andnot_ps(_mm256_set1_ps(-0.0), it));
    let most = largest(_mm256_max_ps(
        _mm256_max_ps(sizes[0], sizes[1]),
        _mm256_max_ps(sizes[2], sizes[3]),
    ));
    let inverse = _mm256_set1_ps(if most > 0.0 { MOST / most } else { 0.0 });
    let whole = x.map(|it| _mm256_cvtps_epi32(_mm256_mul_ps(it, inverse)));
    // Four numbers of each at a time, until they are put in order again.
    let halves = [
        _mm256_packs_epi32(whole[0], whole[1]),
        _mm256_packs_epi32(whole[2], whole[3]),
    ];
    let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    let bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(halves[0], halves[1]), order);
    let mut codes = [0; GROUP];
    // Safety: 32 bytes are written, where there are as many; they need not be aligned.
    unsafe { _mm256_storeu_si256(codes.as_mut_ptr().cast(), bytes) };
    let pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes);
    let fours = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
    let scale = most / MOST;
    rounded.codes.push(codes);
    rounded.scales.push(scale);
    rounded.sums.push(scale * total(_mm256_cvtepi32_ps(fours)));
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(in crate::ops::kernels::cpu) fn load_numbers(numbers: &[f32; 8]) -> __m256 {
    // Safety: eight numbers are read, which need not be aligned.
    unsafe { _mm256_loadu_ps(numbers.as_ptr()) }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(in crate::ops::kernels::cpu) fn stored(numbers: __m256) -> [f32; 8] {
    let mut to = [0.0; 8];
    // Safety: eight numbers are written, where there are as many; they need not be aligned.
    unsafe { _mm256_storeu_ps(to.as_mut_ptr(), numbers) };
    to
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn largest(x: __m256) -> f32 {
    let four = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
    let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps::<1>(two, two)))
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(in crate::ops::kernels::cpu) fn total(x: __m256) -> f32 {
    let four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
    let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
}

/// The product of a row of blocks with a row of x.
///
/// Safety: the processor has AVX2, FMA and F16C.
pub(super) type Dot = unsafe fn(&[u8], &Rounded) -> f32;

/// How rows of blocks of this kind are multiplied, if they can be.
pub(super) fn dot(dtype: GgmlDType) -> Option<Dot> {
    let dot: Dot = match dtype {
        GgmlDType::Q4_0 => q4_0,
        GgmlDType::Q4_1 => q4_1,
        GgmlDType::Q5_0 => q5_0,
        GgmlDType::Q5_1 => q5_1,
        GgmlDType::Q8_0 => q8_0,
        GgmlDType::Q4K => q4_k,
        GgmlDType::Q5K => q5_k,
        GgmlDType::Q6K => q6_k,
        _ => return None,
    };
    Some(dot)
}

/// What products add up to: two sums side by side, so that an addition need not wait for the one before it.
struct Sum {
    products: [__m256; 2],
    /// What the smallest numbers of groups add.
    least: __m256,
}

impl Sum {
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    fn new() -> Self {
        Self {
            products: [_mm256_setzero_ps(); 2],
            least: _mm256_setzero_ps(),
        }
    }

    /// Adds eight groups of numbers scale · code + least, with codes from 0 on.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    fn add(
        &mut self,
        codes: impl Fn(usize) -> __m256i,
        [scales, least]: [__m256; 2],
        x: Groups<8>,
    ) {
        let scales = stored(_mm256_mul_ps(scales, load_numbers(x.scales)));
        for (group, scale) in scales.into_iter().enumerate() {
            let pairs = _mm256_maddubs_epi16(codes(group), load(&x.codes[group]));
            self.add_pairs(group % 2, pairs, _mm256_set1_ps(scale));
        }
        self.least = _mm256_fmadd_ps(least, load_numbers(x.sums), self.least);
    }

    /// Adds groups of numbers scale · code, with codes of either sign. Half a group may have a scale of its own.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    fn add_signed<const COUNT: usize>(
        &mut self,
        codes: impl Fn(usize) -> __m256i,
        scale: impl Fn(usize) -> __m256,
        x: Groups<COUNT>,
    ) {
        for group in 0..COUNT {
            let codes = codes(group);
            let signed = _mm256_sign_epi8(load(&x.codes[group]), codes);
            let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(codes), signed);
            self.add_pairs(group % 2, pairs, scale(group));
        }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    fn add_pairs(&mut self, side: usize, pairs: __m256i, scale: __m256) {
        let fours = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
        let sum = &mut self.products[side];
        *sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(fours), scale, *sum);
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    fn total(self) -> f32 {
        let [one, other] = self.products;
        total(_mm256_add_ps(_mm256_add_ps(one, other), self.least))
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn load(codes: &[i8; GROUP]) -> __m256i {
    // Safety: 32 bytes are read, which need not be aligned.
    unsafe { _mm256_loadu_si256(codes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn load_bytes(codes: &[u8; GROUP]) -> __m256i {
    // Safety: as above.
    unsafe { _mm256_loadu_si256(codes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn half(bytes: &[u8]) -> f32 {
    let bits = u16::from_le_bytes([bytes[0], bytes[1]]);
    _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(bits.into())))
}

/// The two bytes at a place of each of eight blocks, as a number.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn halves_at<const BYTES: usize>(blocks: &[[u8; BYTES]; 8], at: usize) -> __m256 {
    let of = |block: usize| u16::from_le_bytes([blocks[block][at], blocks[block][at + 1]]);
    // No `map`: a function of the library is not compiled for these instructions.
    let bits = [of(0), of(1), of(2), of(3), of(4), of(5), of(6), of(7)];
    // Safety: sixteen bytes are read, which need not be aligned.
    _mm256_cvtph_ps(unsafe { _mm_loadu_si128(bits.as_ptr().cast()) })
}

/// The lower halves of sixteen bytes, and behind them the upper ones.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn nibbles(codes: &[u8; 16]) -> __m256i {
    // Safety: sixteen bytes are read, which need not be aligned.
    let codes: __m128i = unsafe { _mm_loadu_si128(codes.as_ptr().cast()) };
    let mask = _mm_set1_epi8(15);
    let upper = _mm_and_si128(_mm_srli_epi16::<4>(codes), mask);
    _mm256_set_m128i(upper, _mm_and_si128(codes, mask))
}

/// 16 in each byte whose bit of 32 is set.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn fifth_bits(bits: &[u8; 4]) -> __m256i {
    let bits = _mm256_set1_epi32(i32::from_le_bytes(*bits));
    let of_byte = |byte: i64| byte * 0x0101_0101_0101_0101;
    let spread = _mm256_setr_epi64x(of_byte(0), of_byte(1), of_byte(2), of_byte(3));
    let bytes = _mm256_shuffle_epi8(bits, spread);
    let one_each = _mm256_setr_epi64x(EACH_BIT, EACH_BIT, EACH_BIT, EACH_BIT);
    let is_set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, one_each), one_each);
    _mm256_and_si256(is_set, _mm256_set1_epi8(16))
}

/// Bit n in byte n.
const EACH_BIT: i64 = i64::from_le_bytes([1, 2, 4, 8, 16, 32, 64, 128]);

/// Blocks whose last 16 bytes are nibbles of codes from 0 on, with a scale first. `least` gives the smallest numbers of eight blocks by
/// their scales and `least_of` that of one, `fifth` what is above the nibbles of one.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn small<const BYTES: usize>(
    row: &[u8],
    x: &Rounded,
    least: impl Fn(&[[u8; BYTES]; 8], __m256) -> __m256,
    least_of: impl Fn(&[u8; BYTES], f32) -> f32,
    fifth: impl Fn(&[u8; BYTES]) -> __m256i,
) -> f32 {
    let mut sum = Sum::new();
    let codes = |block: &[u8; BYTES]| match block.last_chunk() {
        Some(codes) => _mm256_or_si256(nibbles(codes), fifth(block)),
        None => _mm256_set1_epi8(0),
    };
    let (eights, rest) = row.as_chunks::<BYTES>().0.as_chunks::<8>();
    for (blocks, x) in eights.iter().zip(x.groups::<8>()) {
        let scales = halves_at(blocks, 0);
        let numbers = [scales, least(blocks, scales)];
        sum.add(|group| codes(&blocks[group]), numbers, x);
    }
    let mut others = 0.0;
    let first = 8 * eights.len();
    for (block, x) in rest.iter().zip(x.groups::<1>().skip(first)) {
        let scale = half(block);
        let pairs = _mm256_maddubs_epi16(codes(block), load(&x.codes[0]));
        sum.add_pairs(0, pairs, _mm256_set1_ps(scale * x.scales[0]));
        others = least_of(block, scale).mul_add(x.sums[0], others);
    }
    sum.total() + others
}

/// The same, where a code of `zero` is 0.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn around_zero<const BYTES: usize>(
    row: &[u8],
    x: &Rounded,
    zero: f32,
    fifth: impl Fn(&[u8; BYTES]) -> __m256i,
) -> f32 {
    let least = |_: &_, scales| _mm256_mul_ps(scales, _mm256_set1_ps(-zero));
    small(row, x, least, |_, scale| -zero * scale, fifth)
}

/// The same, where the smallest number follows the scale.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn from_least<const BYTES: usize>(
    row: &[u8],
    x: &Rounded,
    fifth: impl Fn(&[u8; BYTES]) -> __m256i,
) -> f32 {
    let least = |blocks: &_, _| halves_at(blocks, 2);
    small(row, x, least, |block, _| half(&block[2..]), fifth)
}

#[target_feature(enable = "avx2,fma,f16c")]
fn q4_0(row: &[u8], x: &Rounded) -> f32 {
    around_zero::<18>(row, x, 8.0, |_| _mm256_set1_epi8(0))
}

#[target_feature(enable = "avx2,fma,f16c")]
fn q4_1(row: &[u8], x: &Rounded) -> f32 {
    from_least::<20>(row, x, |_| _mm256_set1_epi8(0))
}

#[target_feature(enable = "avx2,fma,f16c")]
fn q5_0(row: &[u8], x: &Rounded) -> f32 {
    around_zero::<22>(row, x, 16.0, |block| {
        fifth_bits(&[block[2], block[3], block[4], block[5]])
    })
}

#[target_feature(enable = "avx2,fma,f16c")]
fn q5_1(row: &[u8], x: &Rounded) -> f32 {
    from_least::<24>(row, x, |block| {
        fifth_bits(&[block[4], block[5], block[6], block[7]])
    })
}

#[target_feature(enable = "avx2,fma,f16c")]
fn q8_0(row: &[u8], x: &Rounded) -> f32 {
    let mut sum = Sum::new();
    let codes = |block: &[u8; 34]| match block.last_chunk() {
        Some(codes) => load_bytes(codes),
        None => _mm256_set1_epi8(0),
    };
    let (eights, rest) = row.as_chunks::<34>().0.as_chunks::<8>();
    for (blocks, x) in eights.iter().zip(x.groups::<8>()) {
        let scales = stored(_mm256_mul_ps(halves_at(blocks, 0), load_numbers(x.scales)));
        let scale = |group: usize| _mm256_set1_ps(scales[group]);
        sum.add_signed(|group| codes(&blocks[group]), scale, x);
    }
    let first = 8 * eights.len();
    for (block, x) in rest.iter().zip(x.groups::<1>().skip(first)) {
        let scale = half(block) * x.scales[0];
        sum.add_signed(|_| codes(block), |_| _mm256_set1_ps(scale), x);
    }
    sum.total()
}

/// Scales and smallest values of eight groups, by their units: six bits each, in twelve bytes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn scales_and_least(bytes: &[u8; 12], units: (f32, f32)) -> [__m256; 2] {
    let word = |at: usize| {
        let four = &bytes.as_chunks::<4>().0[at];
        u32::from_le_bytes(*four)
    };
    let (six, four, two) = (0x3f3f_3f3f, 0x0f0f_0f0f, 0x0303_0303);
    let high = word(2);
    let scales = [word(0) & six, high & four | (word(0) >> 6 & two) << 4];
    let least = [word(1) & six, high >> 4 & four | (word(1) >> 6 & two) << 4];
    let numbers = |[low, high]: [u32; 2]| {
        let both = i64::from(low) | i64::from(high) << 32;
        _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(both)))
    };
    [
        _mm256_mul_ps(numbers(scales), _mm256_set1_ps(units.0)),
        _mm256_mul_ps(numbers(least), _mm256_set1_ps(-units.1)),
    ]
}

/// Blocks of eight groups, of which two share 32 bytes of nibbles. `fifth` gives what is above them, of a group.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn large<const BYTES: usize>(
    row: &[u8],
    x: &Rounded,
    fifth: impl Fn(&[u8; BYTES], usize) -> __m256i,
) -> f32 {
    let mut sum = Sum::new();
    let mask = _mm256_set1_epi8(15);
    for (block, x) in row.as_chunks::<BYTES>().0.iter().zip(x.groups::<8>()) {
        let units = (half(block), half(&block[2..]));
        let (Some(nibbles), Some(scales)) = (block.last_chunk::<128>(), block[4..].first_chunk())
        else {
            continue;
        };
        let codes = |group: usize| {
            let codes = load_bytes(&nibbles.as_chunks().0[group / 2]);
            let codes = match group % 2 {
                0 => codes,
                _ => _mm256_srli_epi16::<4>(codes),
            };
            _mm256_or_si256(_mm256_and_si256(codes, mask), fifth(block, group))
        };
        sum.add(codes, scales_and_least(scales, units), x);
    }
    sum.total()
}

#[target_feature(enable = "avx2,fma,f16c")]
fn q4_k(row: &[u8], x: &Rounded) -> f32 {
    large::<144>(row, x, |_, _| _mm256_set1_epi8(0))
}

#[target_feature(enable = "avx2,fma,f16c")]
fn q5_k(row: &[u8], x: &Rounded) -> f32 {
    large::<176>(row, x, |block, group| {
        let Some(fifths) = block[16..].first_chunk() else {
            return _mm256_set1_epi8(0);
        };
        let bit = _mm256_set1_epi8((1u8 << group) as i8);
        let is_set = _mm256_cmpeq_epi8(_mm256_and_si256(load_bytes(fifths), bit), bit);
        _mm256_and_si256(is_set, _mm256_set1_epi8(16))
    })
}

#[target_feature(enable = "avx2,fma,f16c")]
fn q6_k(row: &[u8], x: &Rounded) -> f32 {
    let mut sum = Sum::new();
    let (four, two) = (_mm256_set1_epi8(15), _mm256_set1_epi8(3));
    for (block, x) in row.as_chunks::<210>().0.iter().zip(x.groups::<8>()) {
        let (low, high) = (
            block.as_chunks::<GROUP>().0,
            block[128..192].as_chunks::<GROUP>().0,
        );
        let unit = _mm256_set1_ps(half(&block[208..]));
        let of_eight = |first: usize| {
            let eight = block[first..].first_chunk().copied().unwrap_or_default();
            let eight = _mm_cvtsi64_si128(i64::from_le_bytes(eight));
            stored(_mm256_mul_ps(
                _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight)),
                unit,
            ))
        };
        let scales = [of_eight(192), of_eight(200)];
        let codes = |group: usize| {
            let (part, quarter) = (group / 4, group % 4);
            let shifted = |codes, by: usize| _mm256_srl_epi16(codes, _mm_cvtsi32_si128(by as i32));
            let low = load_bytes(&low[2 * part + quarter % 2]);
            let high = load_bytes(&high[part]);
            let low = _mm256_and_si256(shifted(low, 4 * (quarter / 2)), four);
            let high = _mm256_and_si256(shifted(high, 2 * quarter), two);
            let codes = _mm256_or_si256(low, _mm256_slli_epi16::<4>(high));
            _mm256_sub_epi8(codes, _mm256_set1_epi8(32))
        };
        let scale = |group: usize| {
            let of_half = |half: usize| _mm_set1_ps(scales[group / 4][2 * (group % 4) + half]);
            let scale = _mm256_set_m128(of_half(1), of_half(0));
            _mm256_mul_ps(scale, _mm256_set1_ps(x.scales[group]))
        };
        sum.add_signed(codes, scale, x);
    }
    sum.total()
}
