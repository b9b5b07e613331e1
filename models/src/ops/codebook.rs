//! Tables of the numbers that codes of a few bits stand for.
//!
//! | table | codes | of |
//! |---|---|---|
//! | [`NF4`] | 16 | weights of a block, divided by its largest: the quantiles of a normal distribution (Dettmers et al., "QLoRA", 2023, <https://arxiv.org/abs/2305.14314>) |
//! | [`signed`] | 256 | numbers of both signs over seven powers of ten (Dettmers, "8-Bit Approximations for Parallelism in Deep Learning", 2015, <https://arxiv.org/abs/1511.04561>) |
//! | [`unsigned`] | 256 | numbers that are never below 0, alike |
//!
//! All are those of bitsandbytes to the last bit, so that what it wrote is read as it was meant.

use std::sync::LazyLock;

use candle_core::{Device, Tensor};

/// The values of NF4.
#[expect(clippy::excessive_precision, reason = "as they are published")]
pub const NF4: [f32; 16] = [
    -1.0,
    -0.6961928009986877,
    -0.5250730514526367,
    -0.39491748809814453,
    -0.28444138169288635,
    -0.18477343022823334,
    -0.09105003625154495,
    0.0,
    0.07958029955625534,
    0.16093020141124725,
    0.24611230194568634,
    0.33791524171829224,
    0.44070982933044434,
    0.5626170039176941,
    0.7229568362236023,
    1.0,
];

/// How many powers of ten a table of 256 covers.
const POWERS: u32 = 7;

/// A table, in rising order, with what is needed to find the nearest code.
#[derive(Debug)]
pub struct Codebook<const N: usize> {
    /// What each code stands for.
    pub values: [f32; N],
    /// The middle between each value and the next.
    middles: Vec<f32>,
}

impl<const N: usize> Codebook<N> {
    fn new(values: [f32; N]) -> Self {
        let neighbours = values.windows(2);
        let middles = neighbours.map(|pair| (pair[0] + pair[1]) / 2.0);
        Self {
            middles: middles.collect(),
            values,
        }
    }

    /// The middle between each value and the next.
    pub fn middles(&self) -> &[f32] {
        &self.middles
    }

    /// The code of the nearest value. Of two as near, the lower.
    pub fn nearest(&self, number: f32) -> u8 {
        self.middles.partition_point(|&middle| middle < number) as u8
    }

    /// The same of many numbers at once, which takes a table as short as that of 4 bits.
    pub fn nearest_of(&self, numbers: &[f32], codes: &mut [u8]) {
        codes.fill(0);
        for &middle in &self.middles {
            for (code, &number) in codes.iter_mut().zip(numbers) {
                *code += u8::from(middle < number);
            }
        }
    }
}

impl Codebook<256> {
    /// The same of many numbers at once, in eight rounds that halve what is left of the table.
    pub fn nearest_by_halves(&self, numbers: &[f32], codes: &mut [u8]) {
        codes.fill(0);
        for half in (0..u8::BITS).rev().map(|bit| 1 << bit) {
            for (code, &number) in codes.iter_mut().zip(numbers) {
                let middle = self.middles[usize::from(*code + (half - 1))];
                *code += half * u8::from(middle < number);
            }
        }
    }

    /// The values, and the middle between each and the next, on a device.
    pub fn on(&self, device: &Device) -> candle_core::Result<[Tensor; 2]> {
        let values = Tensor::new(self.values.as_slice(), device)?;
        Ok([values, Tensor::new(self.middles.as_slice(), device)?])
    }
}

/// That of weights in 4 bits.
pub fn nf4() -> &'static Codebook<16> {
    static TABLE: LazyLock<Codebook<16>> = LazyLock::new(|| Codebook::new(NF4));
    &TABLE
}

/// Numbers of both signs: first moments, and what is left of the largest weights of blocks.
pub fn signed() -> &'static Codebook<256> {
    static TABLE: LazyLock<Codebook<256>> = LazyLock::new(|| Codebook::new(dynamic(true)));
    &TABLE
}

/// Numbers that are never below 0: second moments.
pub fn unsigned() -> &'static Codebook<256> {
    static TABLE: LazyLock<Codebook<256>> = LazyLock::new(|| Codebook::new(dynamic(false)));
    &TABLE
}

/// 0, 1, and for each power of ten the middles of ever more equal steps from 0.1 to 1.
fn dynamic(is_signed: bool) -> [f32; 256] {
    let mut values = vec![0.0, 1.0];
    for power in 0..POWERS {
        let steps = 1 << (power + u32::from(!is_signed));
        let bounds = evenly(0.1, 1.0, steps);
        let unit = 10f64.powi(power as i32 + 1 - POWERS as i32) as f32;
        for pair in bounds.windows(2) {
            let value = unit * ((pair[0] + pair[1]) / 2.0);
            values.push(value);
            if is_signed {
                values.push(-value);
            }
        }
    }
    values.sort_by(f32::total_cmp);
    let mut table = [0.0; 256];
    table.copy_from_slice(&values);
    table
}

/// So many equal steps from one number to another, counted from the nearer end and rounded once, as torch does.
fn evenly(from: f32, to: f32, steps: usize) -> Vec<f32> {
    let step = (to - from) / steps as f32;
    let at = |at: usize| match at < steps.div_ceil(2) {
        true => step.mul_add(at as f32, from),
        false => (-step).mul_add((steps - at) as f32, to),
    };
    (0..=steps).map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_has_its_own_code_and_what_lies_between_the_nearer() {
        let table = nf4();
        for (code, value) in table.values.iter().enumerate() {
            assert_eq!(usize::from(table.nearest(*value)), code);
        }
        let numbers: Vec<f32> = (-120..=120).map(|it| it as f32 / 100.0).collect();
        let mut codes = vec![0; numbers.len()];
        table.nearest_of(&numbers, &mut codes);
        for (number, code) in numbers.iter().zip(codes) {
            let far = |value: &f32| (value - number).abs();
            let nearest = table.values.iter().map(far).fold(f32::INFINITY, f32::min);
            assert_eq!(far(&table.values[usize::from(code)]), nearest, "{number}");
            assert_eq!(code, table.nearest(*number), "{number}");
        }
    }

    #[test]
    fn halving_a_table_finds_the_same_codes_as_looking_through_it() {
        for table in [signed(), unsigned()] {
            let between = table.middles.iter().map(|middle| middle.next_up());
            let all = table.values.iter().copied().chain(between);
            let numbers: Vec<f32> = all.chain(table.middles.iter().copied()).collect();
            let mut codes = vec![0; numbers.len()];
            table.nearest_by_halves(&numbers, &mut codes);
            let expected: Vec<u8> = numbers.iter().map(|it| table.nearest(*it)).collect();
            assert_eq!(codes, expected);
        }
    }
}
