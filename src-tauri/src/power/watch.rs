//! Whether a run should wait for the machine's power, and why.
//!
//! Deliberately absent: pausing. The trainer asks here, and pauses as it does for a user.

use std::time::{Duration, Instant};

use super::supply::Power;

/// How often the system is asked: macOS and Linux start a program or read files for it.
const LOOK: Duration = Duration::from_secs(15);

/// How many percent above the limit a run continues, so that it does not pause and continue by turns.
const ABOVE: u8 = 5;

/// When the user wants a run to wait for the machine's power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PauseRules {
    /// Whenever it runs on its battery.
    pub(crate) on_battery: bool,
    /// On its battery below so many percent. 0 is never.
    pub(crate) below_percent: u8,
}

/// Remembers what the machine's power was when it last looked, and whether it said to pause.
#[derive(Debug, Default)]
pub(crate) struct PowerWatch {
    looked: Option<Instant>,
    power: Power,
    /// Whether the battery was too low, and has not come back above the limit since.
    is_low: bool,
}

impl PowerWatch {
    /// Nothing was looked at yet.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Why a run should pause now, as the end of a sentence: `on battery`. Nothing when it may continue.
    ///
    /// Cheap enough to ask before every step. The system is asked every 15 s at most, and never when no rule wants it.
    pub(crate) fn why_pause(&mut self, rules: PauseRules) -> Option<String> {
        self.why_pause_at(rules, Instant::now(), Power::now)
    }

    fn why_pause_at(
        &mut self,
        rules: PauseRules,
        now: Instant,
        look: impl FnOnce() -> Power,
    ) -> Option<String> {
        if !rules.on_battery && rules.below_percent == 0 {
            *self = Self::new();
            return None;
        }
        let is_due = |looked: Instant| now.duration_since(looked) >= LOOK;
        if self.looked.is_none_or(is_due) {
            self.looked = Some(now);
            self.power = look();
        }
        self.decide(rules)
    }

    fn decide(&mut self, rules: PauseRules) -> Option<String> {
        let limit = rules.below_percent;
        let goes_on_at = limit.saturating_add(ABOVE).min(100);
        let on_battery = self.power.on_battery == Some(true);
        let percent = self.power.percent.filter(|_| on_battery && limit > 0);
        let wanted = if self.is_low { goes_on_at } else { limit };
        self.is_low = percent.is_some_and(|percent| percent < wanted);
        if rules.on_battery && on_battery {
            return Some("on battery".to_owned());
        }
        match percent.filter(|_| self.is_low)? {
            percent if percent < limit => {
                Some(format!("the battery is at {percent} %, below {limit} %"))
            }
            percent => Some(format!(
                "the battery is at {percent} %, and the run resumes at {goes_on_at} %"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(on_battery: bool, below_percent: u8) -> PauseRules {
        PauseRules {
            on_battery,
            below_percent,
        }
    }

    fn supply(on_battery: bool, percent: u8) -> Power {
        Power {
            on_battery: Some(on_battery),
            percent: Some(percent),
            ..Power::default()
        }
    }

    /// What is said of each reading, one after the other.
    fn said(rules: PauseRules, readings: &[Power]) -> Vec<Option<String>> {
        let mut watch = PowerWatch::new();
        let mut now = Instant::now();
        let mut report = |reading: &Power| {
            now += LOOK;
            watch.why_pause_at(rules, now, || *reading)
        };
        readings.iter().map(&mut report).collect()
    }

    #[test]
    fn without_a_rule_the_system_is_not_asked() {
        let never = || unreachable!("nobody wants to know");
        assert_eq!(
            PowerWatch::new().why_pause_at(rules(false, 0), Instant::now(), never),
            None
        );
    }

    #[test]
    fn on_battery_a_run_waits_for_the_mains() {
        let readings = [
            supply(false, 50),
            supply(true, 99),
            supply(false, 99),
            Power::default(),
        ];
        let reason = Some("on battery".to_owned());
        let expected = [None, reason, None, None];
        assert_eq!(said(rules(true, 0), &readings), expected);
    }

    #[test]
    fn below_the_limit_a_run_waits_until_it_is_well_above() {
        let readings = [20, 18, 22, 24, 25, 21, 19].map(|percent| supply(true, percent));
        let expected = [
            None,
            Some("the battery is at 18 %, below 20 %".to_owned()),
            Some("the battery is at 22 %, and the run resumes at 25 %".to_owned()),
            Some("the battery is at 24 %, and the run resumes at 25 %".to_owned()),
            None,
            None,
            Some("the battery is at 19 %, below 20 %".to_owned()),
        ];
        assert_eq!(said(rules(false, 20), &readings), expected);
        // Mains power is enough, however empty the battery is; and then it begins anew.
        let readings = [supply(true, 5), supply(false, 5), supply(true, 21)];
        let pauses = said(rules(false, 20), &readings);
        assert_eq!(
            pauses.iter().map(Option::is_some).collect::<Vec<_>>(),
            [true, false, false]
        );
        // What does not say its charge is left alone.
        let unknown = Power {
            percent: None,
            ..supply(true, 0)
        };
        assert_eq!(said(rules(false, 20), &[unknown]), [None]);
    }

    #[test]
    fn the_system_is_asked_every_fifteen_seconds() {
        let start = Instant::now();
        let mut watch = PowerWatch::new();
        let mut looks = 0;
        for second in 0..31 {
            let now = start + Duration::from_secs(second);
            watch.why_pause_at(rules(true, 0), now, || {
                looks += 1;
                supply(true, 50)
            });
        }
        assert_eq!(looks, 3);
    }
}
