//! Weights of an untrained model: drawn from the seed and the tensor's name, so the order of asking changes nothing.

use candle_core::{DType, Device, Tensor};

use super::{Initial, WeightRequest, Weights};
use crate::{Result, parameters::tensor_from_host, random::Random};

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

    fn uniform(&self, name: &str, count: usize, bound: f64) -> Vec<f32> {
        let mut random = Random::for_purpose(self.seed, name);
        let draw = |_| ((random.uniform() * 2.0 - 1.0) * bound) as f32;
        (0..count).map(draw).collect()
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
            Initial::Truncated(deviation) => {
                let mut random = Random::for_purpose(self.seed, request.name);
                let draw = |_| (truncated_normal(&mut random) * deviation) as f32;
                (0..count).map(draw).collect()
            }
            Initial::Uniform(bound) => self.uniform(request.name, count, bound),
            Initial::Identity(bound) => {
                let mut numbers = self.uniform(request.name, count, bound);
                pass_on(&mut numbers, request.shape);
                numbers
            }
            Initial::Normal(deviation) => {
                let mut random = Random::for_purpose(self.seed, request.name);
                (0..count)
                    .map(|_| (random.normal() * deviation) as f32)
                    .collect()
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
}
