//! The layers of probes that are no weighted sum alone: those that another program learned as perceptrons.
//!
//! A layer gives max(0, W x + b). Deliberately absent: learning them, since linear probes say more about what a state holds.

use candle_core::{Device, Tensor};

use super::folder::weighted;
use crate::Result;

/// One layer of all probes of a folder.
#[derive(Debug, Clone)]
pub struct Hidden {
    /// Numbers that it reads.
    pub inputs: usize,
    /// Numbers that it gives.
    pub outputs: usize,
    /// [P, outputs, inputs].
    pub weights: Vec<f32>,
    /// [P, outputs].
    pub biases: Vec<f32>,
}

impl Hidden {
    /// What the layer of a probe gives for numbers [inputs].
    pub(super) fn of(&self, probe: usize, x: &[f64]) -> Vec<f64> {
        let (weights, biases) = self.of_probe(probe);
        let rows = weights.chunks(self.inputs.max(1)).zip(biases);
        let rows = rows.map(|(row, bias)| weighted(row, x.iter().copied()) + f64::from(*bias));
        rows.map(|it| it.max(0.0)).collect()
    }

    /// Weights [k, inputs, outputs] and biases [k, 1, outputs] of some probes, by their places.
    pub(super) fn of_probes(
        &self,
        probes: impl Iterator<Item = usize>,
        device: &Device,
    ) -> Result<(Tensor, Tensor)> {
        let (mut weights, mut biases, mut count) = (Vec::new(), Vec::new(), 0);
        for probe in probes {
            let (own, own_biases) = self.of_probe(probe);
            weights.extend_from_slice(own);
            biases.extend_from_slice(own_biases);
            count += 1;
        }
        let weights = Tensor::from_vec(weights, (count, self.outputs, self.inputs), device)?;
        let biases = Tensor::from_vec(biases, (count, 1, self.outputs), device)?;
        Ok((weights.transpose(1, 2)?.contiguous()?, biases))
    }

    /// Weights [outputs, inputs] and biases [outputs] of a probe.
    fn of_probe(&self, probe: usize) -> (&[f32], &[f32]) {
        let size = self.inputs * self.outputs;
        (
            &self.weights[probe * size..(probe + 1) * size],
            &self.biases[probe * self.outputs..(probe + 1) * self.outputs],
        )
    }
}
