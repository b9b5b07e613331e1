//! How long steps take: how many are enough, and what of them is told.

use std::{cell::Cell, time::Instant};

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Steps after the first that are not counted: memory is still being taken, clocks of the device still rise.
const WARM_UP: usize = 2;
/// Steps that are counted at least.
const MIN_STEPS: usize = 3;
/// After so many times the time that there is, one counted step after one warm-up has to do.
const OVERTIME: f64 = 3.0;
/// Steps that are counted at most. More say nothing more.
const MAX_STEPS: usize = 1000;
/// Steps of which each is kept. Of more, every second or third is.
const KEPT: usize = 250;
/// Steps, and milliseconds, that show whether a device becomes slower. Less says nothing of it.
const MIN_FOR_SLOWING: (usize, f64) = (12, 1000.0);

/// Says when enough was measured.
pub struct Clock<'a> {
    started: Instant,
    seconds: f64,
    stop: &'a dyn Fn() -> bool,
    /// How often it was asked: once before each step.
    asked: Cell<usize>,
}

impl<'a> Clock<'a> {
    pub(super) fn start(seconds: f64, stop: &'a dyn Fn() -> bool) -> Self {
        Self {
            started: Instant::now(),
            seconds,
            stop,
            asked: Cell::new(0),
        }
    }

    /// Whether no other step is needed. To be asked once before each.
    pub fn is_over(&self) -> bool {
        let taken = self.asked.get();
        self.asked.set(taken + 1);
        let (least, most) = (1 + WARM_UP + MIN_STEPS, 1 + WARM_UP + MAX_STEPS);
        let elapsed = self.started.elapsed().as_secs_f64();
        let is_enough = taken >= least && elapsed >= self.seconds;
        let has_to_do = taken >= 3 && elapsed >= OVERTIME * self.seconds.max(1.0);
        (self.stop)() || taken >= most || is_enough || has_to_do
    }

    /// Steps that it lets happen at most.
    pub fn most() -> usize {
        1 + WARM_UP + MAX_STEPS
    }
}

/// The milliseconds that something takes.
pub(super) fn time(step: impl FnOnce() -> Result<()>) -> Result<f64> {
    let started = Instant::now();
    step()?;
    Ok(started.elapsed().as_secs_f64() * 1e3)
}

/// What one step does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct StepWork {
    /// What of the unit it does.
    pub amount: f64,
    /// Multiplications and additions, each counted as one; 0 where they are not what it is about.
    pub operations: f64,
    /// Bytes that it has to read at least; 0 where they are not what it is about.
    pub bytes: f64,
    /// The most memory that a plan would expect. Nothing where there is no plan.
    pub estimated_bytes: Option<u64>,
}

/// What a case took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Milliseconds of the very first step, in which memory is taken and kernels are made.
    pub first_millis: f64,
    /// Milliseconds of a median step after the warm-up.
    pub median_millis: f64,
    /// A quarter of the steps took less.
    pub low_millis: f64,
    /// A quarter of the steps took more.
    pub high_millis: f64,
    /// How many steps there were after the warm-up.
    pub steps: usize,
    /// Milliseconds of these steps, in order; of many, evenly spaced ones.
    pub step_millis: Vec<f64>,
    /// What each of them did.
    #[serde(flatten)]
    pub step: StepWork,
    /// The most memory that was in use on the device; on a processor, by the whole process. Nothing where the system does
    /// not say.
    pub peak_bytes: Option<u64>,
}

impl Measured {
    /// What follows from the milliseconds of all steps, the first one too.
    pub(super) fn new(millis: &[f64], step: StepWork, peak_bytes: Option<u64>) -> Result<Self> {
        let (Some(&first_millis), 3..) = (millis.first(), millis.len()) else {
            return Err(Error::Device(format!(
                "stopped after {} steps, too few to say",
                millis.len()
            )));
        };
        let steady = &millis[1 + WARM_UP.min(millis.len() - 2)..];
        let [low_millis, median_millis, high_millis] = quartiles(steady);
        Ok(Self {
            first_millis,
            median_millis,
            low_millis,
            high_millis,
            steps: steady.len(),
            step_millis: steady
                .iter()
                .step_by(steady.len().div_ceil(KEPT))
                .copied()
                .collect(),
            step,
            peak_bytes,
        })
    }

    /// What of the unit was done each second, in a median step.
    pub fn per_second(&self) -> f64 {
        self.step.amount / self.median_millis * 1e3
    }

    /// Half the distance of the quartiles, as a share of the median.
    pub fn spread(&self) -> f64 {
        (self.high_millis - self.low_millis) / 2.0 / self.median_millis
    }

    /// By which share the last third of the steps was slower than the first: a device that gets hot or saves power.
    /// Nothing when there were too few steps to say.
    pub fn slowing(&self) -> Option<f64> {
        let kept = self.step_millis.len();
        let third = kept / 3;
        let millis = self.steps as f64 * self.median_millis;
        if kept < MIN_FOR_SLOWING.0 || millis < MIN_FOR_SLOWING.1 {
            return None;
        }
        let [_, before, _] = quartiles(&self.step_millis[..third]);
        let [_, after, _] = quartiles(&self.step_millis[kept - third..]);
        Some(after / before - 1.0)
    }
}

/// A quarter, a half, and three quarters of the numbers are below. There must be some.
fn quartiles(numbers: &[f64]) -> [f64; 3] {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    [0.25, 0.5, 0.75].map(|share| {
        let at = share * (sorted.len() - 1) as f64;
        let (low, high) = (sorted[at as usize], sorted[at.ceil() as usize]);
        low + (high - low) * at.fract()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(millis: &[f64]) -> Measured {
        let step = StepWork {
            amount: 100.0,
            ..StepWork::default()
        };
        Measured::new(millis, step, None).unwrap()
    }

    #[test]
    fn the_first_step_and_the_warm_up_are_not_in_the_median() {
        let found = measured(&[900.0, 500.0, 400.0, 10.0, 30.0, 20.0, 40.0, 50.0]);
        assert_eq!((found.first_millis, found.median_millis), (900.0, 30.0));
        assert_eq!((found.low_millis, found.high_millis), (20.0, 40.0));
        assert_eq!(found.per_second(), 100.0 / 0.03);
        assert!((found.spread() - 1.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn many_steps_are_counted_and_some_are_kept() {
        let millis: Vec<f64> = (0..603).map(f64::from).collect();
        let found = measured(&millis);
        assert_eq!((found.steps, found.step_millis.len()), (600, 200));
        assert_eq!(found.step_millis[..3], [3.0, 6.0, 9.0]);
        assert_eq!(found.median_millis, 302.5);
    }

    #[test]
    fn too_few_steps_are_no_measurement() {
        for steps in 0..3 {
            assert!(Measured::new(&vec![1.0; steps], StepWork::default(), None).is_err());
        }
    }

    #[test]
    fn of_steps_that_take_very_long_one_is_counted() {
        let found = measured(&[900.0, 500.0, 400.0]);
        assert_eq!((found.steps, found.median_millis), (1, 400.0));
    }

    #[test]
    fn a_device_that_becomes_slower_is_noticed() {
        let steps = |last: f64| [vec![100.0; 11], vec![last; 4]].concat();
        assert!((measured(&steps(130.0)).slowing().unwrap() - 0.3).abs() < 1e-12);
        assert_eq!(measured(&steps(100.0)).slowing(), Some(0.0));
        assert_eq!(measured(&[1000.0; 8]).slowing(), None);
        assert_eq!(measured(&[1.0; 100]).slowing(), None);
    }

    #[test]
    fn the_clock_lets_some_steps_happen_and_ends_when_asked() {
        let steps = |seconds, stop: &dyn Fn() -> bool| {
            let clock = Clock::start(seconds, stop);
            (0..10_000).take_while(|_| !clock.is_over()).count()
        };
        assert_eq!(steps(0.0, &|| false), 1 + WARM_UP + MIN_STEPS);
        assert_eq!(steps(600.0, &|| false), Clock::most());
        assert_eq!(steps(600.0, &|| true), 0);
    }
}
