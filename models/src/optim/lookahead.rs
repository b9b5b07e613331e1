//! Lookahead: weights that go back to a slower copy of them once in a while (Zhang et al., 2019,
//! <https://arxiv.org/abs/1907.08610>).
//!
//! After each `every` steps, and after the last:
//!
//! ```text
//! slow ← κ slow + (1 - κ) θ
//! θ ← slow
//! ```
//!
//! The paper's α is 1 - κ. Here κ grows over the run from zero: after `step` of `steps` it is `decay`ᵉᵛᵉʳʸ (step/steps)³, and 1 in the
//! end, where the copy takes the place of the weights (Jordan, 2024, <https://arxiv.org/abs/2404.00498>).
//!
//! Deliberately absent: whose copy it is, and how it is written to files, which a task knows.

use candle_core::Tensor;
use serde::{Deserialize, Serialize};

use crate::Result;

/// When weights go back to their copy, and how much of it is kept then.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Lookahead {
    /// After how many steps they go back. 0 is never.
    pub every: usize,
    /// How much of the copy is kept for each step.
    pub decay: f64,
}

impl Lookahead {
    /// The share of the copy that is kept after so many of all steps, where weights go back to it then.
    pub fn kept(self, done: usize, steps: usize) -> Option<f64> {
        let Self { every, decay } = self;
        let is_end = done == steps;
        if every == 0 || !(done.is_multiple_of(every) || is_end) {
            return None;
        }
        let kept = decay.powi(every as i32) * (done as f64 / steps.max(1) as f64).powi(3);
        Some(if is_end { 1.0 } else { kept })
    }
}

/// What a copy and its weights both become.
pub fn meet(slow: &Tensor, weights: &Tensor, kept: f64) -> Result<Tensor> {
    Ok((slow.affine(kept, 0.0)? + weights.affine(1.0 - kept, 0.0)?)?)
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    #[test]
    fn weights_go_back_after_so_many_steps_and_in_the_end_to_all_of_the_copy() {
        let lookahead = Lookahead {
            every: 2,
            decay: 0.5,
        };
        let kept: Vec<_> = (1..=5).map(|done| lookahead.kept(done, 5)).collect();
        let after = |done: f64| Some(0.25 * (done / 5.0).powi(3));
        assert_eq!(kept, [None, after(2.0), None, after(4.0), Some(1.0)]);
        assert_eq!(Lookahead::default().kept(5, 5), None);
    }

    #[test]
    fn both_become_the_share_of_the_copy_that_is_kept() {
        let [slow, weights] = [2f32, 10.0].map(|it| Tensor::new(&[it], &Device::Cpu).unwrap());
        let met = meet(&slow, &weights, 0.25).unwrap();
        assert_eq!(met.to_vec1::<f32>().unwrap(), [8.0]);
    }
}
