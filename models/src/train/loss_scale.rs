//! Keeping small gradients alive in f16, by multiplying the loss.
//!
//! Micikevicius et al., "Mixed Precision Training", 2018 (<https://arxiv.org/abs/1710.03740>), with the numbers of
//! PyTorch's `GradScaler`: the loss is multiplied with a power of two before the way back, and the gradients are divided
//! by it in f32. A gradient that is not finite halves the scale, and many good steps in a row double it.
//!
//! Unlike there, no step is left out: the loop takes the same one again with the lower scale. All scales are powers of
//! two, so that they change the exponents of numbers and none of their digits.

use serde::{Deserialize, Serialize};

/// Where a run begins. f16 ends at 65,504, so a loss that is no mean of many overflows at once and halves it.
const FIRST: f64 = 65_536.0;

/// Good steps in a row after which a larger scale is tried.
const GOOD_STEPS: u32 = 2_000;

/// The lowest scale, as in DeepSpeed and Megatron: gradients that overflow unscaled are no matter of the scale.
const LOWEST: f64 = 1.0;

/// What the loss of a run in f16 is multiplied with. It is saved with the run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LossScale {
    /// The factor, a power of two.
    pub factor: f64,
    /// Steps taken with this factor since it last changed.
    pub good_steps: u32,
}

impl Default for LossScale {
    fn default() -> Self {
        Self {
            factor: FIRST,
            good_steps: 0,
        }
    }
}

impl LossScale {
    /// A step was taken.
    pub fn went_well(&mut self) {
        self.good_steps += 1;
        if self.good_steps >= GOOD_STEPS {
            self.factor *= 2.0;
            self.good_steps = 0;
        }
    }

    /// A gradient was not finite: halves the factor. False when it is the lowest already.
    pub fn overflowed(&mut self) -> bool {
        self.good_steps = 0;
        let lower = self.factor / 2.0;
        if lower < LOWEST {
            return false;
        }
        self.factor = lower;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overflow_halves_the_scale_until_it_is_one() {
        let mut scale = LossScale::default();
        let halved: Vec<f64> = std::iter::from_fn(|| scale.overflowed().then_some(scale.factor))
            .take(99)
            .collect();
        let expected: Vec<f64> = (0..16).rev().map(|power| f64::from(1 << power)).collect();
        assert_eq!(halved, expected);
        assert_eq!(scale.factor, 1.0);
    }

    #[test]
    fn two_thousand_good_steps_in_a_row_double_it() {
        let mut scale = LossScale::default();
        let take = |steps: u32, scale: &mut LossScale| {
            (0..steps).for_each(|_| scale.went_well());
            scale.factor
        };
        assert_eq!(take(1_999, &mut scale), 65_536.0);
        assert!(scale.overflowed());
        // The row begins anew.
        assert_eq!(take(1_999, &mut scale), 32_768.0);
        assert_eq!(take(1, &mut scale), 65_536.0);
        assert_eq!(take(1_999, &mut scale), 65_536.0);
        assert_eq!(take(1, &mut scale), 131_072.0);
    }

    #[test]
    fn it_is_read_back_as_it_was_saved() {
        let mut scale = LossScale::default();
        scale.overflowed();
        scale.went_well();
        let text = serde_json::to_string(&scale).unwrap();
        assert_eq!(text, r#"{"factor":32768.0,"good_steps":1}"#);
        assert_eq!(serde_json::from_str::<LossScale>(&text).unwrap(), scale);
    }
}
