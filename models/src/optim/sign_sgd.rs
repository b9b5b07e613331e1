//! Each number moves by the learning rate against the sign of its gradient (Bernstein et al., 2018,
//! <https://arxiv.org/abs/1802.04434>), row by row: for tables of which a batch sees a few rows.
//!
//! With gradient g, learning rate η and decay λ: θ ← (1 - η λ) θ - η sign(g), where sign(0) is 0. A row whose gradient is 0
//! everywhere was not in the batch, and stays as it is, without decay. Nothing is kept from step to step.

use candle_core::{D, DType, Tensor};
use serde::{Deserialize, Serialize};

use super::{Group, Part, Update, flat};
use crate::Result;

/// The settings of SignSGD.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct SignSgd {
    /// The share of a row taken away when it is in a batch, times the learning rate: λ.
    pub weight_decay: f64,
}

impl SignSgd {
    pub(super) fn step(self, group: &Group, parts: &[Part], update: Update) -> Result<()> {
        let rate = update.learning_rate;
        let shrink = 1.0 - rate * group.weight_decay;
        for Part {
            weight, gradient, ..
        } in parts
        {
            let sign = (gradient.gt(0.0)?.to_dtype(DType::F32)?
                - gradient.lt(0.0)?.to_dtype(DType::F32)?)?;
            let moved = (weight.affine(shrink, 0.0)? - sign.affine(rate, 0.0)?)?;
            let is_met = gradient.abs()?.max_keepdim(D::Minus1)?.gt(0.0)?;
            let is_met: Tensor = is_met.broadcast_as(weight.shape())?.contiguous()?;
            flat::write(
                weight,
                &is_met.where_cond(&moved, &weight.force_contiguous()?)?,
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{Device, Tensor};

    use super::*;
    use crate::{
        optim::{DecayScope, Optimizer},
        parameters::{Parameter, Parameters},
        tape::Gradients,
    };

    #[test]
    fn rows_of_the_batch_move_by_the_sign_and_others_stay() {
        let tensor = |rows: [[f32; 2]; 3]| Tensor::new(&rows, &Device::Cpu).unwrap();
        let table = tensor([[1.0, -1.0], [2.0, 2.0], [0.0, 4.0]]);
        let mut parameters = Parameters::default();
        parameters.insert(Parameter::new("table", &table, true).unwrap());
        let mut gradients = Gradients::default();
        let gradient = tensor([[3.0, -1e-9], [0.0, 0.0], [0.0, 7.0]]);
        gradients.add("table", gradient).unwrap();
        let rule = SignSgd { weight_decay: 0.5 };
        let mut optimizer = Optimizer::new(rule.into(), DecayScope::All, &parameters).unwrap();
        optimizer.step(&parameters, &gradients, 0.1, 1.0).unwrap();
        let moved = parameters.get("table").unwrap().tensor();
        let moved: Vec<Vec<f32>> = moved.to_vec2().unwrap();
        let expected = [[0.85, -0.85], [2.0, 2.0], [0.0, 3.7]];
        for (moved, expected) in moved.iter().flatten().zip(expected.iter().flatten()) {
            assert!((moved - expected).abs() < 1e-6, "{moved} {expected}");
        }
    }
}
