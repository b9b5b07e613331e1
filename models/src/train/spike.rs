//! Notices that a gradient is out of all proportion before it changes a weight.
//!
//! Published runs meet such spikes too. PaLM went back about 100 steps and left some hundred batches out, and found that
//! the same batches do no harm from another state (Chowdhery et al., 2022, <https://arxiv.org/abs/2204.02311>). OLMo's
//! `SkipStepOptimizer` leaves a step out whose norm is 6 standard deviations above the mean of the latest 128 steps.
//! ZClip clips what is 2.5 of them above a running mean (Kumar et al., 2025, <https://arxiv.org/abs/2504.02507>). To
//! leave out or clip one step too many costs little; here a spike rolls the run back, so it has to be far larger.
//!
//! Norms are compared by their logarithms, since a healthy norm is off by a factor and not by a sum, and with median and
//! median absolute deviation, which a few outliers don't move (Huber, "Robust Statistics", 1981).

use std::{collections::VecDeque, fmt};

use serde::{Deserialize, Serialize};

/// How many of the latest steps are remembered.
const REMEMBERED: usize = 128;

/// How many it takes to know what is usual.
const ENOUGH: usize = 32;

/// How many standard deviations above the median a spike is at least.
const DEVIATIONS: f64 = 10.0;

/// How many times the median a spike is at least, however steady the norms are.
const TIMES_MEDIAN: f64 = 20.0;

/// How many times the largest one remembered it is at least. What happens every hundred steps is no accident; and one
/// spike that was taken keeps the next ones of its size from being called so.
const TIMES_LARGEST: f64 = 2.0;

/// The standard deviation of normal numbers over their median absolute deviation.
const DEVIATION_OVER_MEDIAN: f64 = 1.4826;

/// The gradient norms of the latest steps, as natural logarithms in f32, which a file gives back to the last bit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Norms(VecDeque<f32>);

/// A gradient norm that is out of proportion.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spike {
    /// The norm of all gradients of the step, before clipping.
    pub norm: f64,
    /// The norm over the median of the steps before.
    pub times: f64,
}

impl fmt::Display for Spike {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { norm, times } = self;
        write!(
            f,
            "the gradient norm was {norm:.1e}, {times:.0} times the usual"
        )
    }
}

impl Norms {
    /// Remembers the norm of a step that was taken.
    pub fn add(&mut self, norm: f64) {
        // A step without any gradient says nothing of those that have one.
        if norm > 0.0 && norm.is_finite() {
            self.0.push_back(norm.ln() as f32);
        }
        while self.0.len() > REMEMBERED {
            self.0.pop_front();
        }
    }

    /// Whether the norm of the next step is a spike. One that clipping at `clip_norm` leaves as it is never is.
    pub fn spike(&self, norm: f64, clip_norm: f64) -> Option<Spike> {
        if self.0.len() < ENOUGH || norm <= clip_norm {
            return None;
        }
        let logs: Vec<f64> = self.0.iter().copied().map(f64::from).collect();
        let usual = median(logs.clone());
        let deviation = median(logs.iter().map(|log| (log - usual).abs()).collect());
        let largest = logs.into_iter().fold(f64::MIN, f64::max);
        let above = norm.ln() - usual;
        let is_spike = above > TIMES_MEDIAN.ln()
            && above > DEVIATIONS * DEVIATION_OVER_MEDIAN * deviation
            && norm.ln() > largest + TIMES_LARGEST.ln();
        is_spike.then(|| Spike {
            norm,
            times: above.exp(),
        })
    }
}

/// The middle of some numbers, of which there is at least one.
pub(super) fn median(mut numbers: Vec<f64>) -> f64 {
    let middle = numbers.len() / 2;
    *numbers.select_nth_unstable_by(middle, f64::total_cmp).1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    const STEPS: usize = 20_000;

    /// The first spike among the norms of steps.
    fn first_spike(norm_of: impl Fn(usize, &mut Random) -> f64, clip_norm: f64) -> Option<usize> {
        let mut random = Random::new(5);
        let mut norms = Norms::default();
        (0..STEPS).find(|&step| {
            let norm = norm_of(step, &mut random);
            let spike = norms.spike(norm, clip_norm);
            norms.add(norm);
            spike.is_some()
        })
    }

    fn uniform(random: &mut Random) -> f64 {
        (random.below(1 << 30) as f64 + 1.0) / f64::from(1 << 30)
    }

    #[test]
    fn healthy_norms_are_no_spikes() {
        type NormOf = fn(usize, &mut Random) -> f64;
        let healthy: [(&str, NormOf); 6] = [
            ("steady", |_, _| 0.7),
            ("noisy", |_, random| (random.normal() * 0.6).exp()),
            // Pareto with index 4: one norm in ten thousand is ten times the smallest.
            ("heavy tails", |_, random| uniform(random).powf(-0.25)),
            ("decaying", |step, random| {
                50.0 / (1.0 + step as f64) * (random.normal() * 0.3).exp()
            }),
            ("rising", |step, random| {
                (step as f64 / 500.0).min(9.0).exp() * (random.normal() * 0.3).exp()
            }),
            // What is learned by heart, and now and then a row that is not.
            ("two kinds of rows", |_, random| match random.below(5) {
                0 => 2.0 * (random.normal() * 0.2).exp(),
                _ => 1e-3 * (random.normal() * 0.2).exp(),
            }),
        ];
        for (name, norm_of) in healthy {
            assert_eq!(first_spike(norm_of, 0.0), None, "{name}");
        }
    }

    #[test]
    fn a_norm_far_beyond_the_others_is_one() {
        let noisy = |at: usize, size: f64| {
            move |step: usize, random: &mut Random| match step == at {
                true => size,
                false => (random.normal() * 0.3).exp(),
            }
        };
        assert_eq!(first_spike(noisy(5_000, 4_200.0), 1.0), Some(5_000));
        assert_eq!(first_spike(noisy(ENOUGH, 4_200.0), 1.0), Some(ENOUGH));
        // Too early to tell, not far enough, or no larger than what clipping allows.
        assert_eq!(first_spike(noisy(ENOUGH - 1, 4_200.0), 1.0), None);
        assert_eq!(first_spike(noisy(5_000, 10.0), 1.0), None);
        assert_eq!(first_spike(noisy(5_000, 4_200.0), 5_000.0), None);
    }

    #[test]
    fn a_spike_says_its_size() {
        let mut norms = Norms::default();
        (0..ENOUGH).for_each(|_| norms.add(22.0));
        norms.add(0.0);
        norms.add(f64::NAN);
        let spike = norms.spike(4_180.0, 1.0).unwrap().to_string();
        assert_eq!(spike, "the gradient norm was 4.2e3, 190 times the usual");
        // Once it was taken, the next one like it is not news.
        norms.add(4_180.0);
        assert_eq!(norms.spike(5_000.0, 1.0), None);
    }

    #[test]
    fn what_is_remembered_is_read_back_to_the_last_bit() {
        let mut random = Random::new(1);
        let mut norms = Norms::default();
        (0..REMEMBERED + 9).for_each(|_| norms.add(random.normal().abs()));
        assert_eq!(norms.0.len(), REMEMBERED);
        let text = serde_json::to_string(&norms).unwrap();
        assert_eq!(serde_json::from_str::<Norms>(&text).unwrap(), norms);
    }
}
