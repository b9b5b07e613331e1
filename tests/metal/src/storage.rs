//! Numbers as a kernel finds them in memory, and how exact they can be there.

use half::{bf16, f16};

/// One of the storages, by its name.
#[derive(Clone, Copy)]
pub(crate) struct Storage(pub(crate) &'static str);

impl Storage {
    pub(crate) fn lanes(self) -> usize {
        if self.0.ends_with('4') { 4 } else { 1 }
    }

    fn dtype(self) -> &'static str {
        &self.0[..self.0.len() - 2]
    }

    /// What an output may be off by, as a share of the largest number: a rounding of a number near it, and a little. The device
    /// chooses in which direction f16 is rounded.
    pub(crate) fn rounding(self) -> f64 {
        match self.dtype() {
            "f32" => 2e-6,
            "f16" => 1e-3,
            _ => 8e-3,
        }
    }

    /// The largest number that tests go to.
    pub(crate) fn far(self) -> f64 {
        if self.dtype() == "f16" { 6e4 } else { 1e30 }
    }

    pub(crate) fn encode(self, numbers: &[f64]) -> Vec<u8> {
        let each = numbers.iter();
        match self.dtype() {
            "f32" => each.flat_map(|it| (*it as f32).to_le_bytes()).collect(),
            "f16" => each
                .flat_map(|it| f16::from_f64(*it).to_le_bytes())
                .collect(),
            _ => each
                .flat_map(|it| bf16::from_f64(*it).to_le_bytes())
                .collect(),
        }
    }

    pub(crate) fn decode(self, bytes: &[u8]) -> Vec<f64> {
        let pair = |it: &[u8]| [it[0], it[1]];
        match self.dtype() {
            "f32" => wide(bytes),
            "f16" => bytes
                .chunks(2)
                .map(|it| f16::from_le_bytes(pair(it)).to_f64())
                .collect(),
            _ => bytes
                .chunks(2)
                .map(|it| bf16::from_le_bytes(pair(it)).to_f64())
                .collect(),
        }
    }

    /// The numbers as the storage keeps them.
    pub(crate) fn kept(self, numbers: Vec<f64>) -> Vec<f64> {
        self.decode(&self.encode(&numbers))
    }

    /// So many numbers that look normally distributed, times a factor, as the storage keeps them.
    pub(crate) fn normal(self, seed: u64, count: usize, factor: f64) -> Vec<f64> {
        self.kept(normal(seed, count).iter().map(|it| it * factor).collect())
    }
}

/// f32 as f64.
pub(crate) fn wide(bytes: &[u8]) -> Vec<f64> {
    let number = |it: &[u8]| f64::from(f32::from_le_bytes([it[0], it[1], it[2], it[3]]));
    bytes.chunks(4).map(number).collect()
}

/// Numbers that f32 has, which look normally distributed, the same every time.
pub(crate) fn normal(seed: u64, count: usize) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut uniform = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ((state >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    };
    let mut number = || (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos();
    (0..count).map(|_| f64::from(number() as f32)).collect()
}
