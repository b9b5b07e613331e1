//! The one source of randomness: seeded, saved with a run, the same on every device.
//!
//! Initial weights, shuffles, dropout and sampling all draw from here, on the host. A device's own generator is
//! never used: it can't be reproduced elsewhere, and on some devices not even there.
//!
//! The generator is xoshiro256++ (Blackman and Vigna, <https://prng.di.unimi.it>), seeded through splitmix64. It is
//! written out here so that no update of a library can change what a saved run would have drawn.

use serde::{Deserialize, Serialize};

/// A seeded generator. Its state is four numbers, so it can be saved and continued exactly.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// A generator that always draws the same for the same seed.
    pub fn new(seed: u64) -> Self {
        let mut splitmix = seed;
        Self {
            state: std::array::from_fn(|_| splitmix64(&mut splitmix)),
        }
    }

    /// A generator for one purpose: independent of every other purpose, and of the order in which they are asked.
    pub fn for_purpose(seed: u64, purpose: &str) -> Self {
        Self::new(stable_hash(seed, purpose.as_bytes()))
    }

    /// The next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let result = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }

    /// Passes over 2^128 draws, so that what two generators draw does not overlap (the jump of its authors).
    pub fn jump(&mut self) {
        const JUMP: [u64; 4] = [
            0x180e_c6d3_3cfd_0aba,
            0xd5a6_1266_f0c9_392c,
            0xa958_2618_e03f_c9aa,
            0x39ab_dc45_29b1_661c,
        ];
        let mut after = [0; 4];
        for bit in (0..256).map(|at| JUMP[at / 64] >> (at % 64) & 1) {
            for (after, now) in after.iter_mut().zip(self.state) {
                *after ^= now * bit;
            }
            self.bits();
        }
        self.state = after;
    }

    /// A number from 0 up to and without 1.
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A whole number from 0 up to and without `end`, each as likely as the others. `end` must not be 0.
    pub fn below(&mut self, end: usize) -> usize {
        // Lemire's multiplication, with rejection of the uneven rest.
        let end = end as u64;
        let rest = end.wrapping_neg() % end;
        loop {
            let product = u128::from(self.bits()) * u128::from(end);
            if product as u64 >= rest {
                return (product >> 64) as usize;
            }
        }
    }

    /// A draw from the normal distribution with mean 0 and standard deviation 1 (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Puts the items into a random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }

    /// One of the items. There must be at least one.
    pub fn choose<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

/// A hash that is the same on every machine and in every version (FNV-1a, mixed at the end).
///
/// For decisions that must not depend on order or on a library: which rows are held out, which seed a purpose gets.
pub fn stable_hash(seed: u64, bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325 ^ seed;
    for &byte in bytes {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    splitmix64(&mut hash)
}

/// One step of splitmix64 (Steele, Lea and Flood, 2014).
fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_what_the_published_generator_draws() {
        // The reference program at https://prng.di.unimi.it/xoshiro256plusplus.c, started from state 1, 2, 3, 4.
        let mut random = Random {
            state: [1, 2, 3, 4],
        };
        let drawn: Vec<u64> = (0..4).map(|_| random.bits()).collect();
        assert_eq!(
            drawn,
            [41943041, 58720359, 3588806011781223, 3591011842654386]
        );
        // As rand_xoshiro 0.7 does after its own jump.
        let mut random = Random {
            state: [1, 2, 3, 4],
        };
        random.jump();
        let drawn = [random.bits(), random.bits()];
        assert_eq!(
            drawn,
            [17_043_750_140_134_683_703, 2_364_973_248_208_838_314]
        );
    }

    #[test]
    fn continues_exactly_from_a_saved_state() {
        let mut random = Random::new(7);
        random.bits();
        let saved = serde_json::to_string(&random).unwrap();
        let mut restored: Random = serde_json::from_str(&saved).unwrap();
        assert_eq!(random.bits(), restored.bits());
    }

    #[test]
    fn uniform_and_normal_have_their_moments() {
        let mut random = Random::new(1);
        let uniform: f64 = (0..100_000).map(|_| random.uniform()).sum::<f64>() / 1e5;
        let normals: Vec<f64> = (0..100_000).map(|_| random.normal()).collect();
        let mean = normals.iter().sum::<f64>() / 1e5;
        let variance = normals.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 1e5;
        assert!(
            (uniform - 0.5).abs() < 0.005 && mean.abs() < 0.02 && (variance - 1.0).abs() < 0.02
        );
    }

    #[test]
    fn a_shuffle_keeps_every_item() {
        let mut items: Vec<usize> = (0..100).collect();
        Random::new(3).shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}
