//! Adam without a division: Adam-atan2 (Everett et al., 2024, <https://arxiv.org/abs/2407.05872>), in the form that Tiny Recursive
//! Models are trained with.
//!
//! With gradient g, learning rate η, decay λ and step t, counted from 1:
//!
//! ```text
//! θ ← (1 - η λ) θ
//! m ← β₁ m + (1 - β₁) g
//! v ← β₂ v + (1 - β₂) g²
//! θ ← θ - η / (1 - β₁ᵗ) · atan2(m, √v / √(1 - β₂ᵗ))
//! ```
//!
//! There is no ε, and a gradient that is twice as large all along gives the same weights. atan2(0, 0) is 0. Unlike in the
//! package `adam-atan2-pytorch`, nothing scales the angle.

use candle_core::Tensor;
use serde::{Deserialize, Serialize};

use super::{
    Group, Part, Update,
    adamw::{change_with_moments, check_betas},
    rule::Kept,
};
use crate::Result;

/// The settings of Adam-atan2.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AdamAtan2 {
    /// How much of the mean of gradients is kept at each step: β₁.
    pub beta1: f64,
    /// How much of the mean of squared gradients is kept at each step: β₂.
    pub beta2: f64,
    /// The share of a weight taken away at each step, times the learning rate: λ.
    pub weight_decay: f64,
}

/// The numbers of the formula that are the same for all weights of a step.
#[derive(Clone, Copy)]
struct Factors {
    gradient_scale: f64,
    beta1: f64,
    beta2: f64,
    /// 1 - η λ.
    shrink: f64,
    /// η / (1 - β₁ᵗ).
    rate: f64,
    /// 1 / √(1 - β₂ᵗ).
    correction: f64,
}

impl AdamAtan2 {
    /// What is kept for each parameter, by the names it is saved under.
    pub(super) const STATE: &'static [Kept] =
        &[Kept::number("first_moment"), Kept::number("second_moment")];

    pub(super) fn check(&self) -> Result<()> {
        check_betas(self.beta1, self.beta2)
    }

    pub(super) fn step(&self, group: &mut Group, parts: &[Part], update: Update) -> Result<()> {
        let factors = self.factors(group.weight_decay, update);
        match group.is_on_cpu() {
            true => change_with_moments(group, parts, |[weight, first, second], gradient| {
                change(factors, weight, first, second, gradient);
            }),
            false => step_composed(factors, group, parts),
        }
    }

    fn factors(&self, weight_decay: f64, update: Update) -> Factors {
        let step = update.step as f64;
        Factors {
            gradient_scale: update.gradient_scale,
            beta1: self.beta1,
            beta2: self.beta2,
            shrink: 1.0 - update.learning_rate * weight_decay,
            rate: update.learning_rate / (1.0 - self.beta1.powf(step)),
            correction: 1.0 / (1.0 - self.beta2.powf(step)).sqrt(),
        }
    }
}

fn change(
    factors: Factors,
    weight: &mut [f32],
    first: &mut [f32],
    second: &mut [f32],
    gradient: &[f32],
) {
    let scale = factors.gradient_scale as f32;
    let (rest1, rest2) = ((1.0 - factors.beta1) as f32, (1.0 - factors.beta2) as f32);
    let (shrink, rate) = (factors.shrink as f32, factors.rate as f32);
    let correction = factors.correction as f32;
    for (((weight, first), second), &gradient) in
        weight.iter_mut().zip(first).zip(second).zip(gradient)
    {
        let gradient = gradient * scale;
        *first += rest1 * (gradient - *first);
        *second += rest2 * (gradient * gradient - *second);
        *weight = *weight * shrink - rate * first.atan2(second.sqrt() * correction);
    }
}

/// The same with tensor operations over all parameters of the group at once, for devices.
fn step_composed(factors: Factors, group: &mut Group, parts: &[Part]) -> Result<()> {
    let [weight, gradient] = group.gather(parts, factors.gradient_scale)?;
    let toward = |kept: &Tensor, new: &Tensor, beta: f64| -> Result<Tensor> {
        Ok((kept + (new - kept)?.affine(1.0 - beta, 0.0)?)?)
    };
    let first = toward(&group.state[0], &gradient, factors.beta1)?;
    let second = toward(&group.state[1], &gradient.sqr()?, factors.beta2)?;
    let spread = second.sqrt()?.affine(factors.correction, 0.0)?;
    let turned = angle(&first, &spread)?.affine(factors.rate, 0.0)?;
    let weight = (weight.affine(factors.shrink, 0.0)? - turned)?;
    group.state = vec![first, second];
    group.write(parts, &weight)
}

/// atan2(y, x) for x ≥ 0, from what every device has: the angle is halved three times, by tan(a/2) = y / (x + √(x² + y²)), until its
/// series ends soon.
fn angle(y: &Tensor, x: &Tensor) -> Result<Tensor> {
    // The larger is made 1, so that no square vanishes. Where both are 0, so is the angle.
    let largest = y.abs()?.maximum(x)?.maximum(f32::MIN_POSITIVE)?;
    let (y, x) = ((y / &largest)?, (x / &largest)?);
    let root = |y: &Tensor, x: &Tensor| (y.sqr()? + x.sqr()?)?.sqrt();
    let mut tangent = (&y / (&x + root(&y, &x)?)?.maximum(f32::MIN_POSITIVE)?)?;
    for _ in 0..2 {
        let root = (tangent.sqr()? + 1.0)?.sqrt()?;
        tangent = (&tangent / (root + 1.0)?)?;
    }
    let square = tangent.sqr()?;
    let mut series = square.affine(1.0 / 9.0, -1.0 / 7.0)?;
    for term in [1.0 / 5.0, -1.0 / 3.0, 1.0] {
        series = (series * &square)?.affine(1.0, term)?;
    }
    Ok((series * tangent)?.affine(8.0, 0.0)?)
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;
    use crate::optim::testing::check_composed_equals_in_place;

    const USUAL: AdamAtan2 = AdamAtan2 {
        beta1: 0.9,
        beta2: 0.95,
        weight_decay: 0.1,
    };

    #[test]
    fn a_device_computes_the_same_as_the_cpu() {
        check_composed_equals_in_place(USUAL.into(), |group, parts, update| {
            step_composed(USUAL.factors(group.weight_decay, update), group, parts)
        });
    }

    #[test]
    fn the_composed_angle_is_that_of_the_library_for_any_size() {
        let y = [0.0, 1e-30, -3e-12, 1.0, -2.5, 4e9, -1e-20, 0.3, -1e30f32];
        let x = [0.0, 2e-30, 1e-12, 0.0, 1.5, 1.0, 1e20, 1e-7, 1e30f32];
        let tensor = |numbers: &[f32]| Tensor::new(numbers, &Device::Cpu).unwrap();
        let found = angle(&tensor(&y), &tensor(&x)).unwrap();
        let found: Vec<f32> = found.to_vec1().unwrap();
        for ((y, x), found) in y.iter().zip(x).zip(found) {
            let expected = y.atan2(x);
            let error = (found - expected).abs();
            assert!(
                error <= 4e-7 * expected.abs() + f32::MIN_POSITIVE,
                "{y} {x}: {found} {expected}"
            );
        }
    }

    #[test]
    fn weights_move_as_far_whatever_the_size_of_their_gradients() {
        let [mut small, mut large] = [[0.5f32], [0.5]];
        for (weight, size) in [(&mut small, 1e-9f32), (&mut large, 1e6)] {
            let (mut first, mut second) = ([0.0], [0.0]);
            for step in 1..=20 {
                let factors = USUAL.factors(
                    0.1,
                    Update {
                        learning_rate: 0.01,
                        gradient_scale: 1.0,
                        step,
                    },
                );
                change(
                    factors,
                    weight,
                    &mut first,
                    &mut second,
                    &[size * (step as f32).cos()],
                );
            }
        }
        assert!((small[0] - large[0]).abs() < 1e-6, "{small:?} {large:?}");
    }
}
