//! How long the steps of a run take: how long it will still take, how fast it learns, and whether the computer is busy.

use std::collections::VecDeque;

use models::figures;

/// Before so many steps of a session no time left is told: the first steps are slow, and say little of those to come.
const FIRST: usize = 20;

/// How many of the latest steps the present pace is about.
const LATEST: usize = 50;

/// How many groups of [`LATEST`] steps the usual pace is about.
const GROUPS: usize = 200;

/// How many times slower than usual steps are on a computer that has something else to do.
const BUSY: f64 = 1.5;

/// Fewer units than this say nothing of how many there are in a second.
const UNITS: f64 = 10.0;

/// The steps since a run last started, since those before may have been on another machine's terms.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct StepTimes {
    /// Milliseconds and units of the latest steps.
    latest: VecDeque<(f64, usize)>,
    /// The medians of groups of steps, in milliseconds.
    groups: VecDeque<f64>,
    /// How many steps there were.
    steps: usize,
}

impl StepTimes {
    /// Takes a step.
    pub(crate) fn stepped(&mut self, millis: f64, units: usize) {
        self.steps += 1;
        self.latest.push_back((millis, units));
        if self.latest.len() > LATEST {
            self.latest.pop_front();
        }
        if self.steps.is_multiple_of(LATEST) {
            self.groups.extend(self.millis());
            if self.groups.len() > GROUPS {
                self.groups.pop_front();
            }
        }
    }

    /// Milliseconds of a step: the median of the latest, which one long one (a sleep, a swap) does not change.
    pub(crate) fn millis(&self) -> Option<f64> {
        self.median_of_latest(LATEST)
    }

    /// Seconds that so many more steps take. In whole minutes, and in steps of five seconds below two: more would be made up.
    pub(crate) fn seconds_left(&self, steps: usize) -> Option<f64> {
        let millis = self.millis().filter(|_| self.steps >= FIRST && steps > 0)?;
        let seconds = steps as f64 * millis / 1e3;
        let grain = if seconds > 120.0 { 60.0 } else { 5.0 };
        Some(((seconds / grain).round() * grain).max(grain))
    }

    /// Whether the latest steps were much slower than usual ones, since something else uses this computer.
    pub(crate) fn is_busy(&self) -> bool {
        let usual = median(self.groups.iter().copied());
        let now = self.median_of_latest(FIRST);
        matches!((now, usual), (Some(now), Some(usual)) if now > BUSY * usual)
    }

    /// Units a second in the latest steps.
    pub(crate) fn rate(&self) -> Option<f64> {
        let (millis, units) = self
            .latest
            .iter()
            .fold((0.0, 0), |(all, sum), &(millis, units)| {
                (all + millis, sum + units)
            });
        rate(units as f64, millis / 1e3)
    }

    /// The time left in words: `about 4 min left`, and that the computer is busy.
    pub(crate) fn words(&self, steps: usize) -> Option<String> {
        let seconds = self.seconds_left(steps)?;
        let time = match seconds {
            120.0.. => figures::duration(seconds).replace(" 00 s", ""),
            _ => format!("{seconds:.0} s"),
        };
        let busy = if self.is_busy() {
            ", this computer is busy"
        } else {
            ""
        };
        Some(format!("about {time} left{busy}"))
    }

    fn median_of_latest(&self, most: usize) -> Option<f64> {
        median(self.latest.iter().rev().take(most).map(|it| it.0))
    }
}

/// Units a second. None where there were too few of them to say.
pub(crate) fn rate(units: f64, seconds: f64) -> Option<f64> {
    (units >= UNITS && seconds > 0.0).then(|| units / seconds)
}

/// The middle, the lower one of two.
fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().saturating_sub(1) / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(steps: &[(usize, f64)]) -> StepTimes {
        let mut times = StepTimes::default();
        for &(count, millis) in steps {
            (0..count).for_each(|_| times.stepped(millis, 8));
        }
        times
    }

    #[test]
    fn no_time_left_is_told_before_twenty_steps() {
        assert_eq!(after(&[(1, 9_000.0)]).seconds_left(999), None);
        assert_eq!(after(&[(19, 1_000.0)]).seconds_left(900), None);
        assert_eq!(after(&[(20, 1_000.0)]).seconds_left(900), Some(900.0));
        assert_eq!(after(&[(20, 1_000.0)]).seconds_left(0), None);
    }

    #[test]
    fn time_left_is_that_of_usual_steps_and_round() {
        // The first was slow, and the machine slept for an hour.
        let times = after(&[(1, 9_000.0), (60, 1_000.0), (1, 3.6e6), (3, 1_000.0)]);
        assert_eq!(times.seconds_left(899), Some(900.0));
        assert_eq!(times.seconds_left(119), Some(120.0));
        assert_eq!(times.seconds_left(33), Some(35.0));
        assert_eq!(times.seconds_left(1), Some(5.0));
    }

    #[test]
    fn a_computer_is_busy_when_steps_become_much_slower_than_they_were() {
        assert!(!after(&[(40, 1_000.0)]).is_busy());
        assert!(!after(&[(100, 1_000.0), (30, 1_400.0)]).is_busy());
        let busy = after(&[(100, 1_000.0), (30, 3_000.0)]);
        assert!(busy.is_busy());
        assert_eq!(
            busy.words(100).as_deref(),
            Some("about 5 min left, this computer is busy")
        );
        assert_eq!(
            after(&[(20, 500.0)]).words(20).as_deref(),
            Some("about 10 s left")
        );
        // One that has become slower for good is not.
        assert!(!after(&[(100, 1_000.0), (300, 3_000.0)]).is_busy());
    }

    #[test]
    fn no_rate_is_told_of_a_few_units() {
        assert_eq!(rate(9.0, 0.01), None);
        assert_eq!(rate(10.0, 2.0), Some(5.0));
        assert_eq!(after(&[(1, 1_000.0)]).rate(), None);
        assert_eq!(after(&[(3, 1_000.0)]).rate(), Some(8.0));
    }
}
