//! Each number moves by the learning rate against the sign of its gradient (Bernstein et al., 2018,
//! <https://arxiv.org/abs/1802.04434>), row by row: for tables of which a batch sees a few rows.
//!
//! With gradient g, learning rate η and decay λ: θ ← (1 - η λ) θ - η sign(g), where sign(0) is 0. Rows that no slot of the batch
//! used stay as they are, without decay. Nothing is kept from step to step.

use candle_core::{DType, Tensor};
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
        let moved = |weight: &Tensor, gradient: &Tensor| -> Result<Tensor> {
            let sign = (gradient.gt(0.0)?.to_dtype(DType::F32)?
                - gradient.lt(0.0)?.to_dtype(DType::F32)?)?;
            Ok((weight.affine(shrink, 0.0)? - sign.affine(rate, 0.0)?)?)
        };
        for part in parts {
            let (weight, gradient) = (&part.weight, &part.gradient);
            let Some(rows) = &part.rows else {
                flat::write(weight, &moved(weight, gradient)?)?;
                continue;
            };
            if rows.is_empty() {
                continue;
            }
            // A table can be far larger than what a batch uses of it.
            let rows = Tensor::new(rows.as_slice(), weight.device())?;
            let used = |all: &Tensor| all.index_select(&rows, 0);
            let moved = moved(&used(weight)?, &used(gradient)?)?;
            flat::write_rows(weight, &rows, &moved)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{Device, Tensor};

    use super::*;
    use crate::{
        ops::embedding::embedding,
        optim::{DecayScope, Optimizer},
        parameters::{Parameter, Parameters},
        tape::{Gradients, Tape, Value},
    };

    /// Uses rows of a table, each with this gradient, and takes a step. Row 1 is used or not, and has a gradient of 0.
    #[track_caller]
    fn check(used: &[u32], expected: [[f32; 2]; 3]) {
        let table = [[1.0f32, -1.0], [2.0, 2.0], [0.0, 4.0]];
        let table = Tensor::new(&table, &Device::Cpu).unwrap();
        let mut parameters = Parameters::default();
        parameters.insert(Parameter::new("table", &table, true).unwrap());
        let slopes = [[3.0f32, -1e-9], [0.0, 0.0], [0.0, 7.0]].map(|row| row.to_vec());
        let slopes: Vec<Vec<f32>> = used
            .iter()
            .map(|row| slopes[*row as usize].clone())
            .collect();
        let tape = Tape::new(0);
        let rows = Tensor::new(used, &Device::Cpu).unwrap();
        let value = embedding(&parameters.get("table").unwrap().on(Some(&tape)), &rows).unwrap();
        tape.note_rows("table", used.iter().copied());
        let slopes = Tensor::new(slopes, &Device::Cpu).unwrap();
        let mut gradients = Gradients::default();
        let inputs: &[&Value] = &[];
        tape.backward_to(&value, slopes, inputs, &mut gradients)
            .unwrap();
        let rule = SignSgd { weight_decay: 0.5 };
        let mut optimizer = Optimizer::new(rule.into(), DecayScope::All, &parameters).unwrap();
        optimizer.step(&parameters, &gradients, 0.1, 1.0).unwrap();
        let moved = parameters.get("table").unwrap().tensor();
        let moved: Vec<Vec<f32>> = moved.to_vec2().unwrap();
        for (moved, expected) in moved.iter().flatten().zip(expected.iter().flatten()) {
            assert!((moved - expected).abs() < 1e-6, "{moved} {expected}");
        }
    }

    #[test]
    fn rows_in_use_move_by_the_sign_and_others_stay() {
        check(&[0, 2], [[0.85, -0.85], [2.0, 2.0], [0.0, 3.7]]);
        check(&[2, 2], [[1.0, -1.0], [2.0, 2.0], [0.0, 3.7]]);
    }

    #[test]
    fn a_row_in_use_decays_also_when_its_gradient_is_zero() {
        check(&[1], [[1.0, -1.0], [1.9, 1.9], [0.0, 4.0]]);
    }
}
