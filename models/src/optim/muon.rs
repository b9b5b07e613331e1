//! Muon: the momentum of a matrix with all its singular values brought near 1 (Jordan et al., 2024,
//! <https://kellerjordan.github.io/posts/muon/>), for the matrices of layers; AdamW for every other weight.
//!
//! With gradient g [r, c], learning rate η, decay λ and momentum μ:
//!
//! ```text
//! B ← μ B + (1 - μ) g
//! X ← B                    or, with Nesterov's momentum,  X ← (1 - μ) g + μ B
//! X ← X / max(‖X‖, 10⁻⁷)
//! X ← a X + (b X Xᵀ + c (X Xᵀ)²) X        k times, by Newton and Schulz
//! θ ← (1 - η λ) θ - η √max(1, r/c) X
//! ```
//!
//! The factors a, b, c and the scale by r/c are those of the author's own program, which `torch.optim.Muon` has as `original`. There
//! the products are in bf16, and here in f32. Several projections that are kept as one matrix are changed as one. Tables whose rows are
//! looked up, heads, and what is no matrix learn by AdamW at a rate of its own.

use candle_core::Tensor;
use serde::{Deserialize, Serialize};

use super::{
    Group, Part, Update,
    adamw::AdamW,
    flat::{self, Form},
    rule::Kept,
};
use crate::{Error, Result, parameters::Parameter};

/// a, b, c: the steepest rise from 0 that still ends near 1.
const FACTORS: [f64; 3] = [3.4445, -4.7750, 2.0315];
/// What keeps a gradient of 0 from a division by it.
const MIN_NORM: f32 = 1e-7;
/// The most steps of Newton and Schulz. Five are usual, and after ten nothing changes but rounding.
pub const MAX_STEPS: usize = 100;

/// The settings of Muon.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Muon {
    /// How much of the mean of gradients is kept at each step: μ.
    pub momentum: f64,
    /// Looks ahead along the momentum.
    pub nesterov: bool,
    /// Steps of Newton and Schulz: k.
    pub newton_schulz_steps: usize,
    /// The share of a weight taken away at each step, times the learning rate: λ.
    pub weight_decay: f64,
    /// How the other weights learn.
    pub others: AdamW,
    /// Their learning rate, as a multiple of that of the matrices.
    pub others_rate_ratio: f64,
}

impl Muon {
    /// What is kept for each parameter, by the names it is saved under.
    pub(super) const STATE: &'static [Kept] = &[Kept::number("momentum")];

    /// Whether a weight is one of the matrices.
    pub fn takes(parameter: &Parameter) -> bool {
        parameter.tensor().rank() == 2 && !parameter.is_embedding() && !parameter.is_head()
    }

    pub(super) fn check(&self) -> Result<()> {
        if !(0.0..1.0).contains(&self.momentum) {
            let problem = format!("is {}; it must be at least 0 and below 1", self.momentum);
            return Err(Error::setting("optimizer.momentum", problem));
        }
        if !(1..=MAX_STEPS).contains(&self.newton_schulz_steps) {
            let problem = format!(
                "is {}; it must be from 1 to {MAX_STEPS}",
                self.newton_schulz_steps
            );
            return Err(Error::setting(
                "optimizer.muon.newton_schulz_steps",
                problem,
            ));
        }
        let ratio = self.others_rate_ratio;
        if !(ratio >= 0.0 && ratio.is_finite()) {
            let problem = format!("is {ratio} times that of the matrices");
            return Err(Error::setting(
                "optimizer.muon.adamw_learning_rate",
                problem,
            ));
        }
        self.others.check()
    }

    pub(super) fn step(&self, group: &Group, parts: &[Part], update: Update) -> Result<()> {
        let rate = update.learning_rate;
        for part in parts {
            let (rows, columns) = part.weight.dims2()?;
            let kept = part.place.of(&group.state[0], Form::Number)?;
            let kept = kept.reshape((rows, columns))?;
            let gradient = part.gradient.affine(update.gradient_scale, 0.0)?;
            let momentum = toward(&gradient, &kept, self.momentum)?;
            let direction = match self.nesterov {
                true => toward(&gradient, &momentum, self.momentum)?,
                false => momentum.clone(),
            };
            flat::write(&kept, &momentum)?;
            let scale = (rows as f64 / columns as f64).max(1.0).sqrt();
            let moved = orthogonal(&direction, self.newton_schulz_steps)?;
            let shrunk = part.weight.affine(1.0 - rate * group.weight_decay, 0.0)?;
            flat::write(&part.weight, &(shrunk - moved.affine(rate * scale, 0.0)?)?)?;
        }
        Ok(())
    }
}

/// (1 - share) a + share b.
fn toward(a: &Tensor, b: &Tensor, share: f64) -> Result<Tensor> {
    Ok((a.affine(1.0 - share, 0.0)? + b.affine(share, 0.0)?)?)
}

/// The matrix [r, c] with its singular values near 1. The products are with the shorter side.
fn orthogonal(matrix: &Tensor, steps: usize) -> Result<Tensor> {
    let (rows, columns) = matrix.dims2()?;
    let is_tall = rows > columns;
    let mut x = match is_tall {
        true => matrix.t()?.contiguous()?,
        false => matrix.contiguous()?,
    };
    let norm = x.sqr()?.sum_all()?.sqrt()?.maximum(MIN_NORM)?;
    x = x.broadcast_div(&norm)?;
    let [a, b, c] = FACTORS;
    for _ in 0..steps {
        let square = x.matmul(&x.t()?.contiguous()?)?;
        let factor = (square.affine(b, 0.0)? + square.matmul(&square)?.affine(c, 0.0)?)?;
        x = (x.affine(a, 0.0)? + factor.matmul(&x)?)?;
    }
    Ok(if is_tall { x.t()?.contiguous()? } else { x })
}

#[cfg(test)]
mod tests {
    use candle_core::Device;
    use serde_json::Value;

    use super::*;
    use crate::{
        optim::{
            DecayScope, Optimizer,
            testing::{assert_close, numbers_of},
        },
        parameters::Parameters,
        tape::Gradients,
    };

    fn golden() -> Value {
        serde_json::from_str(include_str!("../../../tests/goldens/optim/muon.json")).unwrap()
    }

    fn tensor(value: &Value) -> Tensor {
        let numbers = |value: &Value| -> Vec<f32> {
            let all = value.as_array().unwrap().iter();
            all.map(|it| it.as_f64().unwrap() as f32).collect()
        };
        let shape: Vec<usize> = numbers(&value["shape"])
            .iter()
            .map(|it| *it as usize)
            .collect();
        Tensor::from_vec(numbers(&value["values"]), shape, &Device::Cpu).unwrap()
    }

    fn parameters(golden: &Value) -> Parameters {
        let mut parameters = Parameters::default();
        for (name, value) in golden["initial"].as_object().unwrap() {
            let parameter = Parameter::new(name, &tensor(value), true).unwrap();
            parameters.insert(match name.as_str() {
                "table.weight" => parameter.as_embedding(),
                "lm_head.weight" => parameter.as_head(),
                _ => parameter,
            });
        }
        parameters
    }

    fn rule(case: &Value) -> Muon {
        Muon {
            momentum: case["momentum"].as_f64().unwrap(),
            nesterov: case["nesterov"].as_bool().unwrap(),
            newton_schulz_steps: case["steps"].as_u64().unwrap() as usize,
            weight_decay: 0.1,
            others: AdamW {
                weight_decay: 0.5,
                ..AdamW::default()
            },
            others_rate_ratio: 0.05,
        }
    }

    /// Takes the golden's steps from number `from` on.
    fn learn(optimizer: &mut Optimizer, parameters: &Parameters, golden: &Value, from: usize) {
        let steps = golden["gradients"]
            .as_array()
            .unwrap()
            .iter()
            .zip(golden["rates"].as_array().unwrap());
        for (step, rate) in steps.skip(from) {
            let mut gradients = Gradients::default();
            for (name, value) in step.as_object().unwrap() {
                gradients.add(name, tensor(value)).unwrap();
            }
            let rate = rate.as_f64().unwrap();
            optimizer.step(parameters, &gradients, rate, 1.0).unwrap();
        }
    }

    #[test]
    fn it_learns_as_torch_does_in_wide_numbers() {
        let golden = golden();
        for case in golden["cases"].as_array().unwrap() {
            let parameters = parameters(&golden);
            let rule = rule(case).into();
            let mut optimizer = Optimizer::new(rule, DecayScope::All, &parameters).unwrap();
            learn(&mut optimizer, &parameters, &golden, 0);
            for parameter in parameters.iter() {
                let name = parameter.name();
                assert_close(&parameter.tensor(), &case["after"][name]["values"], name);
            }
        }
    }

    #[test]
    fn matrices_of_layers_keep_one_number_for_each_weight_and_others_two() {
        let golden = golden();
        let parameters = parameters(&golden);
        let rule = rule(&golden["cases"][0]).into();
        let optimizer = Optimizer::new(rule, DecayScope::All, &parameters).unwrap();
        let state: Vec<String> = optimizer.state().unwrap().into_keys().collect();
        let expected = [
            "layer.bias.first_moment",
            "layer.bias.second_moment",
            "layer.tall.weight.momentum",
            "layer.wide.weight.momentum",
            "lm_head.weight.first_moment",
            "lm_head.weight.second_moment",
            "step",
            "table.weight.first_moment",
            "table.weight.second_moment",
        ];
        assert_eq!(state, expected);
    }

    #[test]
    fn a_saved_state_continues_with_the_same_bits() {
        let golden = golden();
        let rule: super::super::Rule = rule(&golden["cases"][0]).into();
        let (straight, restarted) = (parameters(&golden), parameters(&golden));
        let new = |parameters| Optimizer::new(rule, DecayScope::All, parameters).unwrap();
        learn(&mut new(&straight), &straight, &golden, 0);

        let mut short = golden.clone();
        short["gradients"].as_array_mut().unwrap().truncate(3);
        let mut before = new(&restarted);
        learn(&mut before, &restarted, &short, 0);
        let mut after = new(&restarted);
        after.load_state(before.state().unwrap()).unwrap();
        learn(&mut after, &restarted, &golden, 3);
        assert_eq!(numbers_of(&straight), numbers_of(&restarted));
    }

    #[test]
    fn a_gradient_of_zero_moves_nothing() {
        let zeros = Tensor::zeros((3, 2), candle_core::DType::F32, &Device::Cpu).unwrap();
        let moved = orthogonal(&zeros, 5).unwrap();
        assert_eq!(moved.to_vec2::<f32>().unwrap(), [[0.0; 2]; 3]);
    }

    #[test]
    fn settings_out_of_range_are_refused_by_name() {
        let good = rule(&golden()["cases"][0]);
        let check = |bad: Muon, name: &str| {
            let error = bad.check().unwrap_err().to_string();
            assert!(error.starts_with(name), "{error}");
        };
        assert!(good.check().is_ok());
        check(
            Muon {
                momentum: 1.0,
                ..good
            },
            "`optimizer.momentum` is 1",
        );
        let none = Muon {
            newton_schulz_steps: 0,
            ..good
        };
        check(none, "`optimizer.muon.newton_schulz_steps` is 0");
        let endless = Muon {
            others_rate_ratio: f64::INFINITY,
            ..good
        };
        check(endless, "`optimizer.muon.adamw_learning_rate` is inf");
    }
}
