//! Notices that a machine has become slower than it was, for example because it is hot or busy with something else.
//!
//! Steps are compared by the medians of windows of 30, so that a pause, an evaluation or a sleep does not count. Three
//! slow windows in a row are needed: when steps are noisy, the best median so far is a lucky one, and the next ones
//! are a little slower for no reason.

/// How many steps have a median.
const WINDOW: usize = 30;

/// How many times slower than at its best a machine is when it says so.
const SLOWER: f64 = 1.3;

/// How many times slower it may be, at most, to count as recovered.
const RECOVERED: f64 = 1.15;

/// How many windows in a row have to be slow.
const SLOW_WINDOWS: usize = 3;

/// The pace of the steps of one process.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Steps since the last window was full.
    window: Vec<f64>,
    /// The lowest median of a window.
    best: Option<f64>,
    slow_windows: usize,
    /// Whether it was said, and the machine has not recovered since.
    reported: bool,
}

impl Pace {
    /// No step was taken yet.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Takes the duration of a step. Says how many times slower than at their best steps have become: once, when they
    /// are for long enough, and again only after they recovered.
    pub(crate) fn stepped(&mut self, millis_per_unit: f64) -> Option<f64> {
        if !(millis_per_unit.is_finite() && millis_per_unit > 0.0) {
            return None;
        }
        self.window.push(millis_per_unit);
        if self.window.len() < WINDOW {
            return None;
        }
        self.window.sort_by(f64::total_cmp);
        let median = self.window[WINDOW / 2];
        self.window.clear();
        let best = self.best.unwrap_or(median);
        self.best = Some(best.min(median));

        let times = median / best;
        self.reported &= times > RECOVERED;
        self.slow_windows = if times >= SLOWER {
            self.slow_windows + 1
        } else {
            0
        };
        if self.reported || self.slow_windows < SLOW_WINDOWS {
            return None;
        }
        self.reported = true;
        Some(times)
    }
}

#[cfg(test)]
mod tests {
    use models::random::Random;

    use super::*;

    /// The steps after which something was said, and what.
    fn said(steps: usize, millis: impl Fn(usize, &mut Random) -> f64) -> Vec<(usize, f64)> {
        let mut random = Random::new(2);
        let mut pace = Pace::new();
        let mut report = |step| Some((step, pace.stepped(millis(step, &mut random))?));
        (0..steps).filter_map(&mut report).collect()
    }

    fn noisy(random: &mut Random) -> f64 {
        2.0 * (random.normal() * 0.2).exp()
    }

    #[test]
    fn steady_noisy_and_odd_steps_are_no_reason_to_say_anything() {
        assert_eq!(said(1_000, |_, _| 2.0), []);
        assert_eq!(said(20_000, |_, random| noisy(random)), []);
        // Every tenth step is long, and one takes an hour.
        let odd = |step, random: &mut Random| match step {
            500 => 3.6e6,
            step if step % 10 == 0 => 50.0,
            _ => noisy(random),
        };
        assert_eq!(said(5_000, odd), []);
        // Slow for a while, and not long enough.
        let short =
            |step, random: &mut Random| noisy(random) * if step / 60 == 10 { 2.0 } else { 1.0 };
        assert_eq!(said(5_000, short), []);
        assert_eq!(said(500, |_, _| f64::NAN), []);
    }

    #[test]
    fn a_machine_that_slows_down_is_noticed_once() {
        let throttled =
            |step: usize, random: &mut Random| noisy(random) * if step < 600 { 1.0 } else { 1.6 };
        let reported = said(5_000, throttled);
        let [(step, times)] = reported[..] else {
            panic!("{reported:?}");
        };
        assert!((660..=720).contains(&step), "{step}");
        assert!((1.4..2.0).contains(&times), "{times}");
    }

    #[test]
    fn it_is_noticed_again_only_after_it_recovered() {
        let again = |recovered: f64| {
            let factor = move |step: usize| match step / 300 {
                1 | 3 => 1.8,
                2 => recovered,
                _ => 1.0,
            };
            let reported = said(1_500, move |step, _| 2.0 * factor(step));
            reported.iter().map(|it| it.0 / 300).collect::<Vec<_>>()
        };
        assert_eq!(again(1.0), [1, 3]);
        assert_eq!(again(1.25), [1]);
    }
}
