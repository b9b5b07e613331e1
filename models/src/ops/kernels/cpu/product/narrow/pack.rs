//! Operands of a product as tiles of bf16.
//!
//! Rows of the left operand and columns of the right one are lines here. A panel has 32 lines; it holds two tiles of 16
//! lines for each step of 32 terms. Two terms that follow each other are a pair, in one word of 32 bits. A tile of the
//! left operand has a line of pairs for each row; one of the right operand has, for each pair, the words of 16 columns.

use half::bf16;

use super::{
    super::{Kept, Matrix, Stored},
    Unit,
};

/// Lines in a tile, and pairs in a step.
pub(super) const TILE: usize = 16;

/// Terms in a step.
pub(super) const STEP: usize = 2 * TILE;

/// Lines in a panel.
pub(super) const PANEL: usize = 2 * TILE;

/// 16 pairs, or one pair of 16 columns: a line of the processor's cache.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
pub(super) struct Line(pub(super) [u32; TILE]);

/// Lines of the cache in a panel with so many terms.
pub(super) fn panel_length(depth: usize) -> usize {
    depth.div_ceil(STEP) * PANEL
}

/// An operand, as the lines that are packed.
#[derive(Clone, Copy)]
pub(super) struct Lines<'a> {
    numbers: Kept<'a>,
    /// How far one line is from the next, and one term from the next.
    apart: (usize, usize),
    pub(super) count: usize,
    pub(super) depth: usize,
    /// What numbers of f32 are multiplied with before they are rounded. Others have none.
    factor: f32,
    /// Whether the words of a pair lie side by side.
    by_pair: bool,
}

impl<'a> Lines<'a> {
    /// The left operand, times a factor.
    pub(super) fn of_rows(matrix: Matrix<'a>, rows: usize, depth: usize, factor: f32) -> Self {
        Self {
            numbers: Kept::F32(matrix.numbers),
            apart: (matrix.rows_apart, matrix.columns_apart),
            count: rows,
            depth,
            factor,
            by_pair: false,
        }
    }

    /// The right operand.
    pub(super) fn of_columns<T: Stored>(
        matrix: Matrix<'a, T>,
        columns: usize,
        depth: usize,
    ) -> Self {
        Self {
            numbers: T::kept(matrix.numbers),
            apart: (matrix.columns_apart, matrix.rows_apart),
            count: columns,
            depth,
            factor: 1.0,
            by_pair: true,
        }
    }

    /// So many lines from one on.
    pub(super) fn lines(self, first: usize, count: usize) -> Self {
        let numbers = self.numbers.starting_at(first * self.apart.0);
        Self {
            numbers,
            count,
            ..self
        }
    }

    /// So many terms from one on.
    pub(super) fn terms(self, first: usize, depth: usize) -> Self {
        let numbers = self.numbers.starting_at(first * self.apart.1);
        Self {
            numbers,
            depth,
            ..self
        }
    }
}

/// Packs the panel that begins with this line. What is not there is zero.
pub(super) fn pack_panel(unit: Unit, lines: &Lines, first: usize, panel: &mut [Line]) {
    match lines.numbers {
        Kept::F32(numbers) => pack_numbers(unit, numbers, lines, first, panel),
        Kept::Bf16(numbers) => pack_numbers(unit, numbers, lines, first, panel),
        Kept::F16(numbers) => pack_numbers(unit, numbers, lines, first, panel),
    }
}

fn pack_numbers<T: Stored>(
    unit: Unit,
    numbers: &[T],
    lines: &Lines,
    first: usize,
    panel: &mut [Line],
) {
    #[cfg(target_arch = "x86_64")]
    if !unit.is_portable() {
        // Safety: the units have these instructions.
        #[allow(unsafe_code)]
        return unsafe { avx512::pack_panel(numbers, lines, first, panel) };
    }
    let _ = unit;
    for (index, tile) in panel.chunks_mut(TILE).enumerate() {
        let (line, term) = (first + index % 2 * TILE, index / 2 * STEP);
        pack_tile(numbers, lines, (line, term), tile);
    }
}

/// Packs a tile number by number, with zeros for what is not there.
fn pack_tile<T: Stored>(
    numbers: &[T],
    lines: &Lines,
    (first, term): (usize, usize),
    tile: &mut [Line],
) {
    let number = |line: usize, term: usize| {
        let at = line * lines.apart.0 + term * lines.apart.1;
        let is_there = line < lines.count && term < lines.depth;
        let number = if is_there { numbers[at].widen() } else { 0.0 };
        u32::from(bf16::from_f32(number * lines.factor).to_bits())
    };
    for line in 0..TILE {
        for pair in 0..TILE {
            let term = term + 2 * pair;
            let word = number(first + line, term) | number(first + line, term + 1) << 16;
            match lines.by_pair {
                true => tile[pair].0[line] = word,
                false => tile[line].0[pair] = word,
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod avx512 {
    use std::arch::x86_64::{
        __m256i, __m512i, _mm512_castsi256_si512, _mm512_castsi512_si256, _mm512_cvtepu16_epi32,
        _mm512_cvtneps_pbh, _mm512_cvtph_ps, _mm512_inserti64x4, _mm512_maskz_loadu_epi16,
        _mm512_maskz_loadu_ps, _mm512_mul_ps, _mm512_or_si512, _mm512_set1_ps,
        _mm512_setzero_si512, _mm512_shuffle_i32x4, _mm512_slli_epi32, _mm512_store_si512,
        _mm512_unpackhi_epi32, _mm512_unpackhi_epi64, _mm512_unpacklo_epi32, _mm512_unpacklo_epi64,
    };

    use candle_core::DType;

    use super::{Line, Lines, STEP, Stored, TILE, pack_tile};

    /// [`super::pack_panel`] in vectors.
    #[target_feature(enable = "avx512bf16")]
    pub(super) fn pack_panel<T: Stored>(
        numbers: &[T],
        lines: &Lines,
        first: usize,
        panel: &mut [Line],
    ) {
        let (line_apart, term_apart) = lines.apart;
        for (index, tile) in panel.chunks_exact_mut(TILE).enumerate() {
            let (line, term) = (first + index % 2 * TILE, index / 2 * STEP);
            if line_apart != 1 && term_apart != 1 {
                pack_tile(numbers, lines, (line, term), tile);
                continue;
            }
            let here = lines.count.saturating_sub(line).min(TILE);
            let terms = lines.depth - term;
            let mut words = [_mm512_setzero_si512(); TILE];
            for (row, words) in words.iter_mut().enumerate() {
                // Safety: the operand was checked to lie within its numbers, and what is masked is not read.
                *words = unsafe {
                    let start = numbers.as_ptr().wrapping_add(line * line_apart);
                    let start = start.wrapping_add(term * term_apart);
                    let (low, high) = match term_apart == 1 {
                        true if row >= here => break,
                        true => {
                            let start = start.wrapping_add(row * line_apart);
                            let low = rounded(start, lines.factor, first_of(terms));
                            let next = start.wrapping_add(TILE);
                            let mask = first_of(terms.saturating_sub(TILE));
                            (low, rounded(next, lines.factor, mask))
                        }
                        false if 2 * row >= terms => break,
                        false => {
                            let start = start.wrapping_add(2 * row * term_apart);
                            let low = rounded(start, lines.factor, first_of(here));
                            let is_there = 2 * row + 1 < terms;
                            let mask = first_of(if is_there { here } else { 0 });
                            let next = start.wrapping_add(term_apart);
                            (low, rounded(next, lines.factor, mask))
                        }
                    };
                    if term_apart == 1 {
                        _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
                    } else {
                        let high = _mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(high));
                        _mm512_or_si512(_mm512_cvtepu16_epi32(low), high)
                    }
                };
            }
            if (term_apart == 1) == lines.by_pair {
                turn(&mut words);
            }
            for (line, words) in tile.iter_mut().zip(&words) {
                // Safety: a line has the size and the alignment of a vector.
                unsafe { _mm512_store_si512((&raw mut line.0).cast(), *words) };
            }
        }
    }

    /// A mask for the first of 16 numbers.
    fn first_of(count: usize) -> u16 {
        ((1_u32 << count.min(TILE)) - 1) as u16
    }

    /// 16 numbers of 16 bits that lie side by side; zero for those that are masked.
    #[target_feature(enable = "avx512bf16")]
    #[inline]
    unsafe fn halves(start: *const i16, mask: u16) -> __m256i {
        // Safety: the caller's.
        let all = unsafe { _mm512_maskz_loadu_epi16(u32::from(mask), start) };
        _mm512_castsi512_si256(all)
    }

    /// 16 numbers that lie side by side, those of f32 times a factor, in bf16; zero for those that are masked.
    #[target_feature(enable = "avx512bf16")]
    #[inline]
    unsafe fn rounded<T: Stored>(start: *const T, factor: f32, mask: u16) -> __m256i {
        // Safety: the caller's; the dtype says what T is.
        unsafe {
            let numbers = match T::DTYPE {
                DType::BF16 => return halves(start.cast(), mask),
                DType::F16 => _mm512_cvtph_ps(halves(start.cast(), mask)),
                _ => {
                    let numbers = _mm512_maskz_loadu_ps(mask, start.cast());
                    _mm512_mul_ps(numbers, _mm512_set1_ps(factor))
                }
            };
            let narrow = _mm512_cvtneps_pbh(numbers);
            std::mem::transmute(narrow)
        }
    }

    /// Exchanges rows and columns of 16 x 16 words.
    #[target_feature(enable = "avx512bf16")]
    #[inline]
    fn turn(rows: &mut [__m512i; TILE]) {
        let mut twos = [_mm512_setzero_si512(); TILE];
        for two in 0..TILE / 2 {
            let (a, b) = (rows[2 * two], rows[2 * two + 1]);
            twos[2 * two] = _mm512_unpacklo_epi32(a, b);
            twos[2 * two + 1] = _mm512_unpackhi_epi32(a, b);
        }
        // Each vector of `fours` has, of four rows, one column in each of its four parts.
        let mut fours = [_mm512_setzero_si512(); TILE];
        for four in (0..TILE).step_by(4) {
            fours[four] = _mm512_unpacklo_epi64(twos[four], twos[four + 2]);
            fours[four + 1] = _mm512_unpackhi_epi64(twos[four], twos[four + 2]);
            fours[four + 2] = _mm512_unpacklo_epi64(twos[four + 1], twos[four + 3]);
            fours[four + 3] = _mm512_unpackhi_epi64(twos[four + 1], twos[four + 3]);
        }
        for column in 0..4 {
            let [a, b] = [fours[column], fours[4 + column]];
            let [c, d] = [fours[8 + column], fours[12 + column]];
            let even = _mm512_shuffle_i32x4::<0x88>(a, b);
            let odd = _mm512_shuffle_i32x4::<0xdd>(a, b);
            let more_even = _mm512_shuffle_i32x4::<0x88>(c, d);
            let more_odd = _mm512_shuffle_i32x4::<0xdd>(c, d);
            rows[column] = _mm512_shuffle_i32x4::<0x88>(even, more_even);
            rows[4 + column] = _mm512_shuffle_i32x4::<0x88>(odd, more_odd);
            rows[8 + column] = _mm512_shuffle_i32x4::<0xdd>(even, more_even);
            rows[12 + column] = _mm512_shuffle_i32x4::<0xdd>(odd, more_odd);
        }
    }
}
