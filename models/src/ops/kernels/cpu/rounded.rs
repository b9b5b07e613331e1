//! Products of one row with weights in blocks of ggml, where that row is rounded to eight bits as well: whole numbers are multiplied,
//! as llama.cpp does it when it writes. They are not those of [`super::blocks`], so nothing learns by them.
//!
//! Each group of 32 numbers of x has a scale of its own, so a product is off by less than a hundredth of what it is made of.
//! Deliberately absent: processors without AVX2, where nothing is rounded.

use candle_core::quantized::GgmlDType;

use super::product::Output;

/// One product: x [i] with a weight [o, i].
pub(super) struct Product<'a> {
    /// [o].
    pub(super) y: &'a mut [f32],
    pub(super) output: Output,
    pub(super) dtype: GgmlDType,
    /// Those of the weight, row after row.
    pub(super) blocks: &'a [u8],
}

/// Takes products of one row x [i] with several weights, all on all threads. Whether that can be done here; if not, nothing is changed.
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
pub(super) fn project(x: &[f32], products: Vec<Product>) -> bool {
    use super::{block_rows, each, fetch_ahead};

    let dots: Option<Vec<_>> = products.iter().map(|it| avx2::dot(it.dtype)).collect();
    let (Some(dots), true) = (dots, avx2::is_here()) else {
        return false;
    };
    let outputs: usize = products.iter().map(|it| it.y.len()).sum();
    let rows = ROWS_OF_A_TASK * block_rows(x.len());
    // Safety: the processor has what they need.
    let rounded = unsafe { avx2::rounded(x) };
    let mut tasks = Vec::new();
    for (product, dot) in products.into_iter().zip(dots) {
        let row_bytes = product.blocks.len() / product.y.len().max(1);
        let ys = product.y.chunks_mut(rows);
        let parts = ys.zip(product.blocks.chunks(rows * row_bytes));
        tasks.extend(parts.map(|(y, blocks)| (y, blocks, row_bytes, product.output, dot)));
    }
    each(
        tasks,
        outputs * x.len(),
        |(y, blocks, row_bytes, output, dot)| {
            for (y, row) in y.iter_mut().zip(blocks.chunks(row_bytes)) {
                fetch_ahead(row);
                // Safety: as above.
                let product = unsafe { dot(row, &rounded) };
                *y = match output {
                    Output::Replace => product,
                    Output::Add => *y + product,
                };
            }
        },
    );
    true
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn project(_: &[f32], _: Vec<Product>) -> bool {
    false
}

/// A task has so many times the rows of another, since each takes less time.
#[cfg(target_arch = "x86_64")]
const ROWS_OF_A_TASK: usize = 4;

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod avx2 {
    use std::arch::x86_64::{
        __m128i, __m256, __m256i, _mm_add_ps, _mm_add_ss, _mm_and_si128, _mm_cvtph_ps,
        _mm_cvtsi32_si128, _mm_cvtss_f32, _mm_loadu_si128, _mm_max_ps, _mm_max_ss, _mm_movehl_ps,
        _mm_set1_epi8, _mm_set1_ps, _mm_shuffle_ps, _mm_srli_epi16, _mm256_abs_epi8,
        _mm256_and_si256, _mm256_andnot_ps, _mm256_castps256_ps128, _mm256_cmpeq_epi8,
        _mm256_cvtepi32_ps, _mm256_cvtps_epi32, _mm256_extractf128_ps, _mm256_fmadd_ps,
        _mm256_loadu_ps, _mm256_loadu_si256, _mm256_madd_epi16, _mm256_maddubs_epi16,
        _mm256_max_ps, _mm256_mul_ps, _mm256_or_si256, _mm256_packs_epi16, _mm256_packs_epi32,
        _mm256_permutevar8x32_epi32, _mm256_set_m128, _mm256_set_m128i, _mm256_set1_epi8,
        _mm256_set1_epi16, _mm256_set1_epi32, _mm256_set1_ps, _mm256_setr_epi32,
        _mm256_setr_epi64x, _mm256_setzero_ps, _mm256_shuffle_epi8, _mm256_sign_epi8,
        _mm256_slli_epi16, _mm256_srl_epi16, _mm256_storeu_si256, _mm256_sub_epi8,
    };

    use candle_core::quantized::GgmlDType;

    use crate::ops::kernels::cpu::blocks::scale_and_least;

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

    /// A row of x in eight bits.
    pub(super) struct Rounded(pub(super) Vec<Group>);

    #[derive(Clone, Copy)]
    pub(super) struct Group {
        pub(super) codes: [i8; GROUP],
        pub(super) scale: f32,
        /// Of the numbers that the codes stand for.
        sum: f32,
    }

    /// A row of whole groups, rounded.
    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) fn rounded(x: &[f32]) -> Rounded {
        Rounded(x.as_chunks().0.iter().map(|x| group(x)).collect())
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    fn group(x: &[f32; GROUP]) -> Group {
        let at = |index: usize| {
            let eight = &x.as_chunks::<8>().0[index];
            // Safety: eight numbers are read, which need not be aligned.
            unsafe { _mm256_loadu_ps(eight.as_ptr()) }
        };
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
        Group {
            codes,
            scale,
            sum: scale * total(_mm256_cvtepi32_ps(fours)),
        }
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
    fn total(x: __m256) -> f32 {
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

    /// What products add up to.
    struct Sum {
        products: __m256,
        /// What the smallest numbers of groups add.
        least: f32,
    }

    impl Sum {
        #[inline]
        #[target_feature(enable = "avx2,fma,f16c")]
        fn new() -> Self {
            Self {
                products: _mm256_setzero_ps(),
                least: 0.0,
            }
        }

        /// Adds numbers scale · code + least, with codes from 0 on.
        #[inline]
        #[target_feature(enable = "avx2,fma,f16c")]
        fn add(&mut self, codes: __m256i, scale: f32, least: f32, x: &Group) {
            let pairs = _mm256_maddubs_epi16(codes, load(&x.codes));
            self.add_pairs(pairs, _mm256_set1_ps(scale * x.scale));
            self.least = least.mul_add(x.sum, self.least);
        }

        /// Adds numbers scale · code, with codes of either sign.
        #[inline]
        #[target_feature(enable = "avx2,fma,f16c")]
        fn add_signed(&mut self, codes: __m256i, scale: __m256, x: &Group) {
            let signed = _mm256_sign_epi8(load(&x.codes), codes);
            let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(codes), signed);
            self.add_pairs(pairs, _mm256_mul_ps(scale, _mm256_set1_ps(x.scale)));
        }

        #[inline]
        #[target_feature(enable = "avx2,fma,f16c")]
        fn add_pairs(&mut self, pairs: __m256i, scale: __m256) {
            let fours = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
            self.products = _mm256_fmadd_ps(_mm256_cvtepi32_ps(fours), scale, self.products);
        }

        #[inline]
        #[target_feature(enable = "avx2,fma,f16c")]
        fn total(self) -> f32 {
            total(self.products) + self.least
        }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    fn load<T: Copy>(codes: &[T; GROUP]) -> __m256i {
        const { assert!(size_of::<T>() == 1) };
        // Safety: 32 bytes are read, which need not be aligned.
        unsafe { _mm256_loadu_si256(codes.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    fn half(bytes: &[u8]) -> f32 {
        let bits = u16::from_le_bytes([bytes[0], bytes[1]]);
        _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(bits.into())))
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

    /// Blocks of one group each, whose last 16 bytes are nibbles.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    fn small<const BYTES: usize>(
        row: &[u8],
        x: &Rounded,
        mut add: impl FnMut(&mut Sum, &[u8; BYTES], __m256i, &Group),
    ) -> f32 {
        let mut sum = Sum::new();
        for (block, x) in row.as_chunks::<BYTES>().0.iter().zip(&x.0) {
            if let Some(codes) = block.last_chunk() {
                add(&mut sum, block, nibbles(codes), x);
            }
        }
        sum.total()
    }

    #[target_feature(enable = "avx2,fma,f16c")]
    fn q4_0(row: &[u8], x: &Rounded) -> f32 {
        small::<18>(row, x, |sum, block, codes, x| {
            let codes = _mm256_sub_epi8(codes, _mm256_set1_epi8(8));
            sum.add_signed(codes, _mm256_set1_ps(half(block)), x);
        })
    }

    #[target_feature(enable = "avx2,fma,f16c")]
    fn q4_1(row: &[u8], x: &Rounded) -> f32 {
        small::<20>(row, x, |sum, block, codes, x| {
            sum.add(codes, half(block), half(&block[2..]), x);
        })
    }

    #[target_feature(enable = "avx2,fma,f16c")]
    fn q5_0(row: &[u8], x: &Rounded) -> f32 {
        small::<22>(row, x, |sum, block, codes, x| {
            let fifths = fifth_bits(&[block[2], block[3], block[4], block[5]]);
            let codes = _mm256_or_si256(codes, fifths);
            let codes = _mm256_sub_epi8(codes, _mm256_set1_epi8(16));
            sum.add_signed(codes, _mm256_set1_ps(half(block)), x);
        })
    }

    #[target_feature(enable = "avx2,fma,f16c")]
    fn q5_1(row: &[u8], x: &Rounded) -> f32 {
        small::<24>(row, x, |sum, block, codes, x| {
            let fifths = fifth_bits(&[block[4], block[5], block[6], block[7]]);
            let codes = _mm256_or_si256(codes, fifths);
            sum.add(codes, half(block), half(&block[2..]), x);
        })
    }

    #[target_feature(enable = "avx2,fma,f16c")]
    fn q8_0(row: &[u8], x: &Rounded) -> f32 {
        let mut sum = Sum::new();
        for (block, x) in row.as_chunks::<34>().0.iter().zip(&x.0) {
            if let Some(codes) = block.last_chunk::<GROUP>() {
                sum.add_signed(load(codes), _mm256_set1_ps(half(block)), x);
            }
        }
        sum.total()
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
        for (block, x) in row
            .as_chunks::<BYTES>()
            .0
            .iter()
            .zip(x.0.as_chunks::<8>().0)
        {
            let units = (half(block), half(&block[2..]));
            let Some(nibbles) = block.last_chunk::<128>() else {
                continue;
            };
            for (group, x) in x.iter().enumerate() {
                let (scale, least) = scale_and_least(&block[4..16], group, units);
                let codes = load(&nibbles.as_chunks::<GROUP>().0[group / 2]);
                let codes = _mm256_srl_epi16(codes, _mm_cvtsi32_si128(4 * (group % 2) as i32));
                let codes = _mm256_or_si256(_mm256_and_si256(codes, mask), fifth(block, group));
                sum.add(codes, scale, -least, x);
            }
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
            let Some(fifths) = block[16..].first_chunk::<GROUP>() else {
                return _mm256_set1_epi8(0);
            };
            let bit = _mm256_set1_epi8((1u8 << group) as i8);
            let is_set = _mm256_cmpeq_epi8(_mm256_and_si256(load(fifths), bit), bit);
            _mm256_and_si256(is_set, _mm256_set1_epi8(16))
        })
    }

    #[target_feature(enable = "avx2,fma,f16c")]
    fn q6_k(row: &[u8], x: &Rounded) -> f32 {
        let mut sum = Sum::new();
        let (four, two) = (_mm256_set1_epi8(15), _mm256_set1_epi8(3));
        for (block, x) in row.as_chunks::<210>().0.iter().zip(x.0.as_chunks::<8>().0) {
            let unit = half(&block[208..]);
            for (group, x) in x.iter().enumerate() {
                let (part, quarter) = (group / 4, group % 4);
                let low = block[64 * part + GROUP * (quarter % 2)..].first_chunk();
                let high = block[128 + GROUP * part..].first_chunk();
                let (Some(low), Some(high)) = (low, high) else {
                    continue;
                };
                let shifted =
                    |codes, by: usize| _mm256_srl_epi16(codes, _mm_cvtsi32_si128(by as i32));
                let low = _mm256_and_si256(shifted(load::<u8>(low), 4 * (quarter / 2)), four);
                let high = _mm256_and_si256(shifted(load::<u8>(high), 2 * quarter), two);
                let codes = _mm256_or_si256(low, _mm256_slli_epi16::<4>(high));
                let codes = _mm256_sub_epi8(codes, _mm256_set1_epi8(32));
                let scales = &block[192 + 2 * group..][..2];
                let scale = |at: usize| _mm_set1_ps(unit * f32::from(scales[at] as i8));
                sum.add_signed(codes, _mm256_set_m128(scale(1), scale(0)), x);
            }
        }
        sum.total()
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
#[allow(unsafe_code)]
mod tests {
    use candle_core::{DType, Device, Tensor, quantized::QTensor};

    use super::{
        avx2::{Group, dot, is_here, rounded},
        *,
    };
    use crate::ops::testing::normal;

    #[test]
    fn products_are_those_of_the_numbers_that_codes_stand_for() {
        let x = normal(3, &[512]).to_dtype(DType::F32).unwrap();
        let mut x: Vec<f32> = x.to_vec1().unwrap();
        x[32..64].fill(0.0);
        if !is_here() {
            return;
        }
        // Safety: the processor can.
        let rounded = unsafe { rounded(&x) };
        let numbers = |group: &Group| group.codes.map(|it| f64::from(it) * f64::from(group.scale));
        let meant: Vec<f64> = rounded.0.iter().flat_map(numbers).collect();
        for (x, meant) in x.iter().zip(&meant) {
            assert!((f64::from(*x) - meant).abs() < 0.02, "{x} {meant}");
        }
        for dtype in [
            GgmlDType::Q4_0,
            GgmlDType::Q4_1,
            GgmlDType::Q5_0,
            GgmlDType::Q5_1,
            GgmlDType::Q8_0,
            GgmlDType::Q4K,
            GgmlDType::Q5K,
            GgmlDType::Q6K,
        ] {
            let dot = dot(dtype).unwrap();
            let weights = normal(7, &[3, 512]).to_dtype(DType::F32).unwrap();
            let sizes = Tensor::new(&[[1f32], [1e-3], [1e3]], &Device::Cpu).unwrap();
            let weights = weights.broadcast_mul(&sizes).unwrap();
            let blocks = QTensor::quantize(&weights, dtype).unwrap();
            let widened = blocks.dequantize(&Device::Cpu).unwrap();
            let widened = widened.to_vec2::<f32>().unwrap();
            let bytes = blocks.data().unwrap();
            let rows = bytes.chunks(bytes.len() / 3);
            for (row, weights) in rows.zip(widened) {
                let of_pair = |(weight, x): (&f32, &f64)| f64::from(*weight) * x;
                let products: Vec<f64> = weights.iter().zip(&meant).map(of_pair).collect();
                let expected: f64 = products.iter().sum();
                let size: f64 = products.iter().map(|it| it.abs()).sum();
                // Safety: the processor can.
                let found = f64::from(unsafe { dot(row, &rounded) });
                let off = (found - expected).abs() / size;
                assert!(off < 1e-6, "{dtype:?}: {found} for {expected}");
            }
        }
        assert!(dot(GgmlDType::Q2K).is_none());
    }
}
