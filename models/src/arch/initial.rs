//! Weights of an untrained model: drawn from the seed and the tensor's name, so the order of asking changes nothing.

use candle_core::{DType, Device, Tensor};
use rayon::prelude::*;

use super::{Initial, WeightRequest, Weights};
use crate::{Result, parameters::tensor_from_host, random::Random};

/// So many numbers are drawn one after the other, and others at the same time.
const PART: usize = 1 << 20;

/// Draws every weight it is asked for.
#[derive(Debug, Clone)]
pub struct InitialWeights {
    /// The seed of the run.
    pub seed: u64,
    /// The dtype the weights are kept in.
    pub dtype: DType,
    /// Where they are kept.
    pub device: Device,
}

/// A draw from the normal distribution cut at two deviations, spread so that what is left has the deviation 1, as JAX draws it.
fn truncated_normal(random: &mut Random) -> f64 {
    /// 1 / √(1 - 4 φ(2) / (2 Φ(2) - 1)).
    const SPREAD: f64 = 1.136_847_234_338_556_5;
    loop {
        let drawn = random.normal();
        if drawn.abs() <= 2.0 {
            return drawn * SPREAD;
        }
    }
}

impl InitialWeights {
    /// Weights that are kept in f32.
    pub fn new(seed: u64, device: &Device) -> Self {
        Self {
            seed,
            dtype: DType::F32,
            device: device.clone(),
        }
    }

    /// Draws so many numbers, on all cores: the same on any number of them.
    fn draw(&self, name: &str, count: usize, one: impl Fn(&mut Random) -> f64 + Sync) -> Vec<f32> {
        let mut numbers = vec![0.0; count];
        let mut random = Random::for_purpose(self.seed, name);
        let parts: Vec<_> = numbers
            .chunks_mut(PART)
            .map(|part| {
                let own = random.clone();
                random.jump();
                (part, own)
            })
            .collect();
        parts.into_par_iter().for_each(|(part, mut random)| {
            for number in part {
                *number = one(&mut random) as f32;
            }
        });
        numbers
    }

    fn uniform(&self, name: &str, count: usize, bound: f64) -> Vec<f32> {
        let one = |random: &mut Random| (random.uniform() * 2.0 - 1.0) * bound;
        self.draw(name, count, one)
    }
}

/// Has the first outputs of a convolution [o, c, k, k] pass their inputs on: 1 in the middle of the kernel, 0 elsewhere.
fn pass_on(numbers: &mut [f32], shape: &[usize]) {
    let &[_, channels, side, _] = shape else {
        return;
    };
    let of_kernel = side * side;
    let outputs = numbers.chunks_mut(channels * of_kernel).take(channels);
    for (channel, output) in outputs.enumerate() {
        output.fill(0.0);
        output[channel * of_kernel + side / 2 * side + side / 2] = 1.0;
    }
}

impl Weights for InitialWeights {
    fn tensor(&mut self, request: &WeightRequest) -> Result<Tensor> {
        let count = request.shape.iter().product();
        let numbers = match request.initial {
            Initial::Constant(number) => vec![number as f32; count],
            Initial::Truncated(deviation) => self.draw(request.name, count, |random| {
                truncated_normal(random) * deviation
            }),
            Initial::Uniform(bound) => self.uniform(request.name, count, bound),
            Initial::Identity(bound) => {
                let mut numbers = self.uniform(request.name, count, bound);
                pass_on(&mut numbers, request.shape);
                numbers
            }
            Initial::Normal(deviation) => {
                self.draw(request.name, count, |random| random.normal() * deviation)
            }
        };
        tensor_from_host(numbers, request.shape, self.dtype, &self.device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_truncated_normal_has_its_deviation_and_its_bound() {
        let mut random = Random::new(3);
        let drawn: Vec<f64> = (0..100_000)
            .map(|_| truncated_normal(&mut random))
            .collect();
        let variance = drawn.iter().map(|it| it * it).sum::<f64>() / 1e5;
        let largest = drawn.iter().fold(0.0f64, |most, it| most.max(it.abs()));
        assert!((variance - 1.0).abs() < 0.02, "{variance}");
        assert!((2.27..=2.2737).contains(&largest), "{largest}");
    }

    #[test]
    fn a_large_tensor_is_drawn_in_parts_of_which_none_is_like_another() {
        let weights = InitialWeights::new(5, &Device::Cpu);
        let one = |random: &mut Random| random.uniform();
        let whole = weights.draw("w", 2 * PART + 3, one);
        let mut random = Random::for_purpose(5, "w");
        for part in whole.chunks(PART) {
            let mut own = random.clone();
            random.jump();
            assert!(part.iter().all(|it| *it == own.uniform() as f32));
        }
        assert_ne!(whole[..3], whole[PART..][..3]);
        assert_eq!(weights.draw("w", 7, one), whole[..7]);
    }
}
