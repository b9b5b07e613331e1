//! How the numbers of a tensor are kept: one row for each type that is read or written.

use candle_core::quantized::GgmlDType;

use super::quantize;

/// A type of tensor. Numbers are kept in blocks along a row, which no block leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TensorType {
    /// 32 bits.
    F32,
    /// IEEE half.
    F16,
    /// The upper half of an f32.
    BF16,
    /// 4 bits and a scale for 32 numbers.
    Q4_0,
    /// 4 bits, a scale and a smallest value for 32 numbers.
    Q4_1,
    /// 5 bits and a scale for 32 numbers.
    Q5_0,
    /// 5 bits, a scale and a smallest value for 32 numbers.
    Q5_1,
    /// 8 bits and a scale for 32 numbers.
    Q8_0,
    /// 2 bits, in blocks of 256.
    Q2K,
    /// 3 bits, in blocks of 256.
    Q3K,
    /// 4 bits, in blocks of 256 of which each 32 have a scale and a smallest value of 6 bits.
    Q4K,
    /// 5 bits, likewise.
    Q5K,
    /// 6 bits, in blocks of 256 of which each 16 have a scale of 8 bits.
    Q6K,
}

use TensorType as T;

/// Each type: its number in files, its name, the numbers of a block, the bytes of one, and what candle calls it.
const TYPES: [(T, u32, &str, usize, usize, GgmlDType); 13] = [
    (T::F32, 0, "F32", 1, 4, GgmlDType::F32),
    (T::F16, 1, "F16", 1, 2, GgmlDType::F16),
    (T::Q4_0, 2, "Q4_0", 32, 18, GgmlDType::Q4_0),
    (T::Q4_1, 3, "Q4_1", 32, 20, GgmlDType::Q4_1),
    (T::Q5_0, 6, "Q5_0", 32, 22, GgmlDType::Q5_0),
    (T::Q5_1, 7, "Q5_1", 32, 24, GgmlDType::Q5_1),
    (T::Q8_0, 8, "Q8_0", 32, 34, GgmlDType::Q8_0),
    (T::Q2K, 10, "Q2_K", 256, 84, GgmlDType::Q2K),
    (T::Q3K, 11, "Q3_K", 256, 110, GgmlDType::Q3K),
    (T::Q4K, 12, "Q4_K", 256, 144, GgmlDType::Q4K),
    (T::Q5K, 13, "Q5_K", 256, 176, GgmlDType::Q5K),
    (T::Q6K, 14, "Q6_K", 256, 210, GgmlDType::Q6K),
    (T::BF16, 30, "BF16", 1, 2, GgmlDType::BF16),
];

/// The names of types that are not read, by their numbers, for messages.
const OTHERS: [(u32, &str); 16] = [
    (9, "Q8_1"),
    (15, "Q8_K"),
    (16, "IQ2_XXS"),
    (17, "IQ2_XS"),
    (18, "IQ3_XXS"),
    (19, "IQ1_S"),
    (20, "IQ4_NL"),
    (21, "IQ3_S"),
    (22, "IQ2_S"),
    (23, "IQ4_XS"),
    (24, "I8"),
    (26, "I32"),
    (29, "IQ1_M"),
    (34, "TQ1_0"),
    (35, "TQ2_0"),
    (39, "MXFP4"),
];

impl TensorType {
    fn row(self) -> &'static (T, u32, &'static str, usize, usize, GgmlDType) {
        // The table has a row for every type, in the order of their numbers.
        let row = TYPES.iter().find(|it| it.0 == self);
        row.unwrap_or(&TYPES[0])
    }

    /// The type of a number in a file. An error is the name of another.
    pub(super) fn of_number(number: u32) -> Result<Self, String> {
        let known = TYPES.iter().find(|it| it.1 == number);
        known.map(|it| it.0).ok_or_else(|| {
            let other = OTHERS.iter().find(|it| it.0 == number);
            other.map_or_else(|| format!("number {number}"), |it| it.1.to_owned())
        })
    }

    /// Its number in files.
    pub fn number(self) -> u32 {
        self.row().1
    }

    /// What it is called: `Q4_K`.
    pub fn name(self) -> &'static str {
        self.row().2
    }

    /// The numbers of a block.
    pub fn block(self) -> usize {
        self.row().3
    }

    /// The bytes of a block.
    pub fn block_bytes(self) -> usize {
        self.row().4
    }

    /// Whether blocks hold fewer bits than a number of their own would have.
    pub fn is_quantized(self) -> bool {
        self.block() > 1
    }

    /// What candle calls it.
    pub fn of_candle(self) -> GgmlDType {
        self.row().5
    }

    /// The blocks of some rows of finite numbers, each of which is whole blocks long. Nothing where a type is only read.
    pub fn blocks(self, numbers: &[f32]) -> Option<Vec<u8>> {
        quantize::blocks(self, numbers)
    }

    /// Whether no block of these bytes has a scale that is NaN or infinite; of numbers of their own, whether all are finite.
    pub fn has_finite_scales(self, bytes: &[u8]) -> bool {
        let is_finite = |half: &[u8; 2]| u16::from_le_bytes(*half) & 0x7c00 != 0x7c00;
        let halves: &[usize] = match self {
            T::F32 => {
                let (numbers, _) = bytes.as_chunks::<4>();
                return numbers.iter().all(|it| f32::from_le_bytes(*it).is_finite());
            }
            T::BF16 => {
                let (numbers, _) = bytes.as_chunks::<2>();
                return numbers
                    .iter()
                    .all(|it| u16::from_le_bytes(*it) & 0x7f80 != 0x7f80);
            }
            T::F16 | T::Q4_0 | T::Q5_0 | T::Q8_0 => &[0],
            T::Q4_1 | T::Q5_1 | T::Q4K | T::Q5K => &[0, 2],
            T::Q2K => &[80, 82],
            T::Q3K => &[108],
            T::Q6K => &[208],
        };
        let mut blocks = bytes.chunks_exact(self.block_bytes());
        blocks.all(|block| {
            let mut scales = halves
                .iter()
                .filter_map(|at| block.get(*at..)?.first_chunk());
            scales.all(is_finite)
        })
    }

    /// The bytes of so many rows of this width, where blocks fill a row and memory could hold them.
    pub fn bytes(self, rows: u64, width: u64) -> Option<u64> {
        let blocks = width.checked_div(self.block() as u64)?;
        let is_whole = blocks * self.block() as u64 == width;
        let bytes = rows
            .checked_mul(blocks)?
            .checked_mul(self.block_bytes() as u64)?;
        is_whole.then_some(bytes)
    }
}
