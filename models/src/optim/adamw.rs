//! AdamW: Adam with decoupled weight decay (Loshchilov and Hutter, <https://arxiv.org/abs/1711.05101>).
//!
//! With gradient g, learning rate η, decay λ and step t, counted from 1:
//!
//! ```text
//! m ← β₁ m + (1 - β₁) g
//! v ← β₂ v + (1 - β₂) g²
//! θ ← (1 - η λ) θ - η / (1 - β₁ᵗ) · m / (√v / √(1 - β₂ᵗ) + ε)
//! ```
//!
//! The same as `torch.optim.AdamW`, whose numbers the tests hold.

use candle_core::Tensor;
use serde::{Deserialize, Serialize};

use super::{Backend, Group, Part, Update, flat::Form, numbers::change_together, rule::Kept};
use crate::{
    Error, Result,
    ops::kernels::{self, Kernel},
};

/// The settings of AdamW.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AdamW {
    /// How much of the mean of gradients is kept at each step: β₁.
    pub beta1: f64,
    /// How much of the mean of squared gradients is kept at each step: β₂.
    pub beta2: f64,
    /// Keeps the division finite: ε.
    pub epsilon: f64,
    /// The share of a weight taken away at each step, times the learning rate: λ.
    pub weight_decay: f64,
}

impl Default for AdamW {
    /// PyTorch's settings.
    fn default() -> Self {
        Self {
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            weight_decay: 0.01,
        }
    }
}

/// The numbers of the formula that are the same for all weights of a step.
#[derive(Clone, Copy)]
pub(super) struct Factors {
    pub(super) gradient_scale: f64,
    beta1: f64,
    beta2: f64,
    epsilon: f64,
    /// 1 - η λ.
    shrink: f64,
    /// η / (1 - β₁ᵗ).
    rate: f64,
    /// 1 / √(1 - β₂ᵗ).
    correction: f64,
}

impl Factors {
    /// In the order in which the kernels of devices read them.
    pub(super) fn for_kernels(self) -> [f64; 9] {
        [
            self.gradient_scale,
            self.beta1,
            1.0 - self.beta1,
            self.beta2,
            1.0 - self.beta2,
            self.epsilon,
            self.shrink,
            self.rate,
            self.correction,
        ]
    }
}

impl AdamW {
    /// What is kept for each parameter, by the names it is saved under.
    pub(super) const STATE: &'static [Kept] =
        &[Kept::number("first_moment"), Kept::number("second_moment")];

    pub(super) fn check(&self) -> Result<()> {
        check_betas(self.beta1, self.beta2)?;
        if !(self.epsilon > 0.0 && self.epsilon.is_finite()) {
            let problem = format!("is {}; it must be above 0", self.epsilon);
            return Err(Error::setting("optimizer.epsilon", problem));
        }
        Ok(())
    }

    pub(super) fn step(&self, group: &mut Group, parts: &[Part], update: Update) -> Result<()> {
        let factors = self.factors(group.weight_decay, update);
        match group.way(Kernel::Adamw) {
            Backend::InPlace => step_in_place(factors, group, parts),
            #[cfg(feature = "cuda")]
            Backend::OnCuda => step_on_cuda(factors, group, parts),
            Backend::OnMetal => step_on_metal(factors, group, parts),
            Backend::Composed => step_composed(factors, group, parts),
        }
    }

    pub(super) fn factors(&self, weight_decay: f64, update: Update) -> Factors {
        let step = update.step as f64;
        Factors {
            gradient_scale: update.gradient_scale,
            beta1: self.beta1,
            beta2: self.beta2,
            epsilon: self.epsilon,
            shrink: 1.0 - update.learning_rate * weight_decay,
            rate: update.learning_rate / (1.0 - self.beta1.powf(step)),
            correction: 1.0 / (1.0 - self.beta2.powf(step)).sqrt(),
        }
    }
}

/// Refuses memories of gradients that keep more than all of what was.
pub(super) fn check_betas(beta1: f64, beta2: f64) -> Result<()> {
    for (field, beta) in [("beta1", beta1), ("beta2", beta2)] {
        if !(0.0..1.0).contains(&beta) {
            let problem = format!("is {beta}; it must be at least 0 and below 1");
            return Err(Error::setting(format!("optimizer.{field}"), problem));
        }
    }
    Ok(())
}

/// One pass over each parameter and its two moments, on all cores.
pub(super) fn change_with_moments(
    group: &Group,
    parts: &[Part],
    change: impl Fn([&mut [f32]; 3], &[f32]) + Sync,
) -> Result<()> {
    for part in parts {
        let state = group.state_of(part)?;
        let targets = [&part.weight, &state[0], &state[1]];
        change_together(targets, &part.gradient, &change)?;
    }
    Ok(())
}

fn step_in_place(factors: Factors, group: &Group, parts: &[Part]) -> Result<()> {
    change_with_moments(group, parts, |[weight, first, second], gradient| {
        change(factors, weight, first, second, gradient);
    })
}

/// The formula for some weights.
pub(super) fn change(
    factors: Factors,
    weight: &mut [f32],
    first: &mut [f32],
    second: &mut [f32],
    gradient: &[f32],
) {
    let scale = factors.gradient_scale as f32;
    let (beta1, beta2) = (factors.beta1 as f32, factors.beta2 as f32);
    let (rest1, rest2) = ((1.0 - factors.beta1) as f32, (1.0 - factors.beta2) as f32);
    let (shrink, rate) = (factors.shrink as f32, factors.rate as f32);
    let (correction, epsilon) = (factors.correction as f32, factors.epsilon as f32);
    for (((weight, first), second), &gradient) in
        weight.iter_mut().zip(first).zip(second).zip(gradient)
    {
        let gradient = gradient * scale;
        *first = *first * beta1 + gradient * rest1;
        *second = *second * beta2 + gradient * gradient * rest2;
        *weight = *weight * shrink - *first / (second.sqrt() * correction + epsilon) * rate;
    }
}

/// One pass over all parameters, in place, by a kernel.
#[cfg(feature = "cuda")]
fn step_on_cuda(factors: Factors, group: &Group, parts: &[Part]) -> Result<()> {
    let states = parts.iter().map(|part| group.state_of(part));
    let states = states.collect::<Result<Vec<_>>>()?;
    let entries = parts
        .iter()
        .zip(&states)
        .map(|(part, state)| [&part.weight, &state[0], &state[1], &part.gradient].map(Some));
    let entries: Vec<_> = entries.collect();
    kernels::cuda::many::adamw(&entries, factors.for_kernels())
}

/// The same on Metal, a launch for several parameters.
fn step_on_metal(factors: Factors, group: &Group, parts: &[Part]) -> Result<()> {
    let [first, second] = group.state.as_slice() else {
        return Err(Error::Data("AdamW keeps two numbers per weight".to_owned()));
    };
    let parameters = parts.iter().map(|part| {
        (
            [&part.weight, &part.gradient],
            part.place.range(Form::Number).start,
        )
    });
    let parameters: Vec<_> = parameters.collect();
    kernels::metal::adamw::step([first, second], &parameters, factors.for_kernels())
}

/// The same with tensor operations over all parameters of the group at once, for devices.
fn step_composed(factors: Factors, group: &mut Group, parts: &[Part]) -> Result<()> {
    let gathered = group.gather(parts, factors.gradient_scale)?;
    let [first, second] = group.state.as_mut_slice() else {
        return Err(Error::Data("AdamW keeps two numbers per weight".to_owned()));
    };
    let weight = compose(factors, gathered, [first, second])?;
    group.write(parts, &weight)
}

/// The formula by tensor operations: new weights from these and their gradients, which are scaled. The moments become the new ones.
pub(super) fn compose(
    factors: Factors,
    [weight, gradient]: [Tensor; 2],
    [first, second]: [&mut Tensor; 2],
) -> Result<Tensor> {
    let kept = first.affine(factors.beta1, 0.0)?;
    *first = (kept + gradient.affine(1.0 - factors.beta1, 0.0)?)?;
    let kept = second.affine(factors.beta2, 0.0)?;
    *second = (kept + gradient.sqr()?.affine(1.0 - factors.beta2, 0.0)?)?;
    let denominator = second.sqrt()?.affine(factors.correction, factors.epsilon)?;
    let moved = (&*first / denominator)?.affine(factors.rate, 0.0)?;
    Ok((weight.affine(factors.shrink, 0.0)? - moved)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optim::testing::{check_composed_equals_in_place, check_golden};

    fn adamw(weight_decay: f64) -> AdamW {
        AdamW {
            beta2: 0.95,
            weight_decay,
            ..AdamW::default()
        }
    }

    #[test]
    fn it_learns_as_the_reference_does() {
        check_golden("adamw_all", adamw(0.1).into(), true, None);
    }

    #[test]
    fn biases_and_embeddings_do_not_decay() {
        check_golden("adamw_matrices", adamw(0.1).into(), false, None);
    }

    #[test]
    fn clipped_gradients_give_the_references_weights() {
        check_golden("adamw_clipped", adamw(0.1).into(), true, Some(1.0));
    }

    #[test]
    fn a_device_computes_the_same_as_the_cpu() {
        check_composed_equals_in_place(adamw(0.1).into(), |group, parts, update| {
            let factors = adamw(0.1).factors(group.weight_decay, update);
            step_composed(factors, group, parts)
        });
    }

    #[test]
    fn settings_out_of_range_are_refused_by_name() {
        let bad = AdamW {
            beta1: 1.0,
            ..AdamW::default()
        };
        assert_eq!(
            bad.check().unwrap_err().to_string(),
            "`optimizer.beta1` is 1; it must be at least 0 and below 1"
        );
        let bad = AdamW {
            epsilon: f64::NAN,
            ..AdamW::default()
        };
        assert!(bad.check().is_err());
    }
}
