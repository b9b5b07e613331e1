//! How fast bytes come, and how long the rest will take.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// How far back the rate looks.
const WINDOW: Duration = Duration::from_secs(8);
/// A rate from less time than this would jump.
const MIN_TIME: Duration = Duration::from_millis(800);

/// The bytes that were there at some moments.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    moments: VecDeque<(Instant, u64)>,
}

impl Pace {
    /// Notes how many bytes are there now. The clock counts up even when the day of the machine is changed; it may stand still
    /// while the machine sleeps.
    pub(crate) fn note(&mut self, now: Instant, bytes: u64) {
        // Fewer than before: something began anew.
        if self
            .moments
            .back()
            .is_some_and(|&(_, before)| bytes < before)
        {
            self.moments.clear();
        }
        self.moments.push_back((now, bytes));
        while self.moments.len() > 2
            && self
                .moments
                .get(1)
                .is_some_and(|&(then, _)| now - then >= WINDOW)
        {
            self.moments.pop_front();
        }
    }

    /// Bytes per second in the last few seconds.
    pub(crate) fn bytes_per_second(&self) -> Option<f64> {
        let (&(start, from), &(end, to)) = (self.moments.front()?, self.moments.back()?);
        let time = end - start;
        (time >= MIN_TIME).then(|| (to - from) as f64 / time.as_secs_f64())
    }

    /// How long so many bytes will take.
    pub(crate) fn seconds_for(&self, bytes: u64) -> Option<f64> {
        let rate = self.bytes_per_second().filter(|rate| *rate > 0.0)?;
        Some(bytes as f64 / rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_seconds() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        let at = |millis| start + Duration::from_millis(millis);
        pace.note(at(0), 0);
        assert_eq!(pace.bytes_per_second(), None);
        for second in 1..=10 {
            pace.note(at(second * 1000), second * 100);
        }
        assert_eq!(pace.bytes_per_second(), Some(100.0));
        for second in 11..=30 {
            pace.note(at(second * 1000), 1000 + (second - 10) * 500);
        }
        assert_eq!(pace.bytes_per_second(), Some(500.0));
        assert_eq!(pace.seconds_for(1000), Some(2.0));
        pace.note(at(31_000), 7);
        assert_eq!(pace.seconds_for(1000), None);
    }
}
