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

impl InitialWeights {
    /// Weights that are kept in f32.
    pub fn new(seed: u64, device: &Device) -> Self {
        Self {
            seed,
            dtype: DType::F32,
            device: device.clone(),
        }
    }
}

impl Weights for InitialWeights {
    fn tensor(&mut self, request: &WeightRequest) -> Result<Tensor> {
        let count = request.shape.iter().product();
        let numbers = match request.initial {
            Initial::Constant(number) => vec![number as f32; count],
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
