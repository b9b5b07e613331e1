//! Stochastic gradient descent with momentum, as `torch.optim.SGD` does it.
//!
//! With gradient g, learning rate η, decay λ and momentum μ:
//!
//! ```text
//! g ← g + λ θ
//! u ← μ u + g
//! θ ← θ - η u              or, with Nesterov's momentum,  θ ← θ - η (g + μ u)
//! ```
//!
//! Unlike in AdamW the decay goes through the momentum.

use candle_core::Tensor;
use serde::{Deserialize, Serialize};

use super::{Backend, Group, Part, Update, numbers::change_together, rule::Kept};
use crate::{Error, Result, ops::kernels::Kernel};

/// The settings of SGD.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Sgd {
    /// How much of the velocity is kept at each step: μ. With 0 nothing is kept and no state is needed.
    pub momentum: f64,
    /// Looks ahead along the velocity (Sutskever et al., 2013).
    pub nesterov: bool,
    /// The share of a weight added to its gradient: λ.
    pub weight_decay: f64,
}

#[derive(Clone, Copy)]
struct Factors {
    gradient_scale: f64,
    momentum: f64,
    nesterov: bool,
    weight_decay: f64,
    rate: f64,
}

impl Sgd {
    /// What is kept for each parameter, by the names it is saved under.
    pub(super) fn state(&self) -> &'static [Kept] {
        if self.momentum == 0.0 {
            &[]
        } else {
            const { &[Kept::number("velocity")] }
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        if !(0.0..1.0).contains(&self.momentum) {
            let problem = format!("is {}; it must be at least 0 and below 1", self.momentum);
            return Err(Error::setting("optimizer.momentum", problem));
        }
        if self.nesterov && self.momentum == 0.0 {
            let problem = "is on and `optimizer.momentum` is 0; it needs a momentum above 0";
            return Err(Error::setting("optimizer.nesterov", problem));
        }
        Ok(())
    }

    pub(super) fn step(&self, group: &mut Group, parts: &[Part], update: Update) -> Result<()> {
        let factors = self.factors(group.weight_decay, update);
        match group.way(Kernel::Sgd) {
            Backend::InPlace => step_in_place(factors, group, parts),
            #[cfg(feature = "cuda")]
            Backend::OnCuda => step_on_cuda(factors, group, parts),
            Backend::OnMetal | Backend::Composed => step_composed(factors, group, parts),
        }
    }

    fn factors(&self, weight_decay: f64, update: Update) -> Factors {
        Factors {
            gradient_scale: update.gradient_scale,
            momentum: self.momentum,
            nesterov: self.nesterov,
            weight_decay,
            rate: update.learning_rate,
        }
    }
}

/// One pass over each parameter, on all cores.
fn step_in_place(factors: Factors, group: &Group, parts: &[Part]) -> Result<()> {
    for part in parts {
        let (weight, gradient) = (&part.weight, &part.gradient);
        match group.state_of(part)?.first() {
            None => change_together([weight], gradient, |[weight], gradient| {
                descend(factors, weight, gradient);
            }),
            Some(velocity) => {
                let targets = [weight, velocity];
                change_together(targets, gradient, |[weight, velocity], gradient| {
                    roll(factors, weight, velocity, gradient);
                })
            }
        }?;
    }
    Ok(())
}

/// Without momentum.
fn descend(factors: Factors, weight: &mut [f32], gradient: &[f32]) {
    let (scale, decay) = (factors.gradient_scale as f32, factors.weight_decay as f32);
    let rate = factors.rate as f32;
    for (weight, &gradient) in weight.iter_mut().zip(gradient) {
        *weight -= (gradient * scale + *weight * decay) * rate;
    }
}

/// With momentum.
fn roll(factors: Factors, weight: &mut [f32], velocity: &mut [f32], gradient: &[f32]) {
    let (scale, decay) = (factors.gradient_scale as f32, factors.weight_decay as f32);
    let (momentum, rate) = (factors.momentum as f32, factors.rate as f32);
    for ((weight, velocity), &gradient) in weight.iter_mut().zip(velocity).zip(gradient) {
        let gradient = gradient * scale + *weight * decay;
        *velocity = *velocity * momentum + gradient;
        let direction = if factors.nesterov {
            gradient + *velocity * momentum
        } else {
            *velocity
        };
        *weight -= direction * rate;
    }
}

#[cfg(feature = "cuda")]
fn step_on_cuda(factors: Factors, group: &Group, parts: &[Part]) -> Result<()> {
    let factors = [
        factors.gradient_scale,
        factors.weight_decay,
        factors.momentum,
        factors.rate,
        f64::from(u8::from(factors.nesterov)),
    ];
    let states = parts.iter().map(|part| group.state_of(part));
    let states = states.collect::<Result<Vec<_>>>()?;
    let entries = parts
        .iter()
        .zip(&states)
        .map(|(part, state)| [Some(&part.weight), state.first(), Some(&part.gradient)]);
    let entries: Vec<_> = entries.collect();
    crate::ops::kernels::cuda::many::sgd(&entries, factors)
}

/// The same with tensor operations over all parameters of the group at once, for devices.
fn step_composed(factors: Factors, group: &mut Group, parts: &[Part]) -> Result<()> {
    let [weight, gradient] = group.gather(parts, factors.gradient_scale)?;
    let gradient = (gradient + weight.affine(factors.weight_decay, 0.0)?)?;

    let direction = match group.state.first_mut() {
        None => gradient,
        Some(velocity) => {
            *velocity = (velocity.affine(factors.momentum, 0.0)? + &gradient)?;
            match factors.nesterov {
                true => (gradient + velocity.affine(factors.momentum, 0.0)?)?,
                false => velocity.clone(),
            }
        }
    };
    let weight: Tensor = (weight - direction.affine(factors.rate, 0.0)?)?;
    group.write(parts, &weight)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optim::testing::{check_composed_equals_in_place, check_golden};

    const MOMENTUM: Sgd = Sgd {
        momentum: 0.9,
        nesterov: false,
        weight_decay: 0.01,
    };
    const NESTEROV: Sgd = Sgd {
        nesterov: true,
        ..MOMENTUM
    };

    #[test]
    fn it_learns_as_the_reference_does() {
        check_golden("sgd_plain", Sgd::default().into(), true, None);
        check_golden("sgd_momentum", MOMENTUM.into(), true, None);
        check_golden("sgd_nesterov", NESTEROV.into(), true, None);
    }

    #[test]
    fn a_device_computes_the_same_as_the_cpu() {
        for sgd in [Sgd::default(), MOMENTUM, NESTEROV] {
            check_composed_equals_in_place(sgd.into(), |group, parts, update| {
                step_composed(sgd.factors(group.weight_decay, update), group, parts)
            });
        }
    }

    #[test]
    fn settings_out_of_range_are_refused_by_name() {
        let bad = Sgd {
            nesterov: true,
            ..Sgd::default()
        };
        let error = bad.check().unwrap_err().to_string();
        assert!(error.starts_with("`optimizer.nesterov` is on"), "{error}");
        let bad = Sgd {
            momentum: -0.1,
            ..Sgd::default()
        };
        assert!(bad.check().is_err());
    }
}
