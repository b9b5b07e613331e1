//! How the learning rate rises and falls over a run.

use std::f64::consts::PI;

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// The way down after the warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleKind {
    /// Half a cosine wave (Loshchilov and Hutter, <https://arxiv.org/abs/1608.03983>).
    Cosine,
    /// A straight line.
    Linear,
    /// No way down.
    Constant,
}

/// The learning rate of every step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    /// The highest learning rate.
    pub peak: f64,
    /// The way down.
    pub kind: ScheduleKind,
    /// Steps before the peak. The first of them already learns a little.
    pub warmup_steps: usize,
    /// Steps of the whole run.
    pub steps: usize,
    /// What the warm-up begins above, as a share of the peak.
    pub start_ratio: f64,
    /// What the learning rate approaches at the end, as a share of the peak.
    pub min_ratio: f64,
}

impl Schedule {
    /// Errors: [`Error::Setting`] naming what can't be.
    pub fn check(&self) -> Result<()> {
        if !(self.peak >= 0.0 && self.peak.is_finite()) {
            let problem = format!("is {}; it must be a number of at least 0", self.peak);
            return Err(Error::setting("learning_rate", problem));
        }
        for (field, ratio) in [
            ("schedule.start_ratio", self.start_ratio),
            ("schedule.min_ratio", self.min_ratio),
        ] {
            if !(0.0..=1.0).contains(&ratio) {
                let problem = format!("is {ratio}; it must be between 0 and 1");
                return Err(Error::setting(field, problem));
            }
        }
        if self.warmup_steps > self.steps {
            let problem = format!(
                "is {}, longer than the whole run of {} steps",
                self.warmup_steps, self.steps
            );
            return Err(Error::setting("schedule.warmup_steps", problem));
        }
        Ok(())
    }

    /// The learning rate of a step, counted from 0.
    ///
    /// With warm-up w, step s of S and p = (s - w) / (S - w): peak · (q + (1 - q) (s + 1) / (w + 1)) before w with q the first ratio,
    /// and from w on peak · (r + (1 - r) f(p)) with r the smallest ratio and f(p) = (1 + cos π p) / 2, 1 - p or 1.
    pub fn at(&self, step: usize) -> f64 {
        if step < self.warmup_steps {
            let rise = (step + 1) as f64 / (self.warmup_steps + 1) as f64;
            return self.peak * (self.start_ratio + (1.0 - self.start_ratio) * rise);
        }
        let rest = self.steps.saturating_sub(self.warmup_steps).max(1);
        let progress = ((step - self.warmup_steps) as f64 / rest as f64).min(1.0);
        let height = match self.kind {
            ScheduleKind::Cosine => (1.0 + (PI * progress).cos()) / 2.0,
            ScheduleKind::Linear => 1.0 - progress,
            ScheduleKind::Constant => 1.0,
        };
        self.peak * (self.min_ratio + (1.0 - self.min_ratio) * height)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optim::testing::golden;

    fn schedule(kind: ScheduleKind, warmup_steps: usize, steps: usize) -> Schedule {
        Schedule {
            peak: 1.0,
            kind,
            warmup_steps,
            steps,
            start_ratio: 0.0,
            min_ratio: 0.0,
        }
    }

    #[track_caller]
    fn check(name: &str, kind: ScheduleKind) {
        let schedule = Schedule {
            peak: 2.0,
            min_ratio: 0.1,
            ..schedule(kind, 3, 13)
        };
        let expected = golden();
        let expected = expected["schedules"][name].as_array().unwrap();
        for (step, expected) in expected.iter().enumerate() {
            let (rate, expected) = (schedule.at(step + 3), expected.as_f64().unwrap());
            let off = (rate - expected).abs();
            assert!(off < 1e-9, "step {step}: {rate}, not {expected}");
        }
    }

    #[test]
    fn the_way_down_is_the_references() {
        check("cosine", ScheduleKind::Cosine);
        check("linear", ScheduleKind::Linear);
        check("constant", ScheduleKind::Constant);
    }

    #[test]
    fn the_warm_up_rises_evenly_from_above_zero_to_the_peak() {
        let schedule = schedule(ScheduleKind::Cosine, 3, 10);
        let rates: Vec<f64> = (0..4).map(|step| schedule.at(step)).collect();
        assert_eq!(rates, [0.25, 0.5, 0.75, 1.0]);
        assert_eq!(schedule.at(10), 0.0);
        assert_eq!(schedule.at(1000), 0.0);
    }

    #[test]
    fn a_warm_up_can_begin_above_nothing() {
        let schedule = Schedule {
            start_ratio: 0.2,
            ..schedule(ScheduleKind::Linear, 3, 10)
        };
        let rates = [0, 1, 2, 3].map(|step| (schedule.at(step) * 1e3).round());
        assert_eq!(rates, [400.0, 600.0, 800.0, 1000.0]);
    }

    #[test]
    fn a_warm_up_longer_than_the_run_is_refused() {
        let schedule = schedule(ScheduleKind::Linear, 500, 300);
        assert_eq!(
            schedule.check().unwrap_err().to_string(),
            "`schedule.warmup_steps` is 500, longer than the whole run of 300 steps"
        );
        let bad = Schedule {
            peak: f64::NAN,
            ..schedule
        };
        let error = bad.check().unwrap_err().to_string();
        assert!(error.starts_with("`learning_rate` is NaN"), "{error}");
    }
}
