//! One benchmark beside another: of two machines, or of one machine at two times.

use super::{BenchRow, Measured};

/// How one case changed.
#[derive(Debug, Clone, PartialEq)]
pub struct Change<'a> {
    /// The later row.
    pub row: &'a BenchRow,
    /// What was done each second before and after.
    pub before: f64,
    /// The same after.
    pub after: f64,
    /// Whether the middle halves of all steps don't overlap. Otherwise it may be chance.
    pub is_clear: bool,
}

impl Change<'_> {
    /// The rate after over the rate before: above 1 is faster.
    pub fn ratio(&self) -> f64 {
        self.after / self.before
    }

    /// What came of it, in words: `3 % slower`.
    pub fn describe(&self) -> String {
        match self.is_clear {
            true => describe(self.ratio()),
            false => "no clear change".to_owned(),
        }
    }
}

/// What both measured, in the order of the later one.
pub fn changes<'a>(before: &[BenchRow], after: &'a [BenchRow]) -> Vec<Change<'a>> {
    let change = |row: &'a BenchRow| {
        let is_same = |it: &&BenchRow| it.case == row.case && it.config == row.config;
        let earlier = before.iter().find(is_same)?;
        let (one, other) = (earlier.measured.as_ref()?, row.measured.as_ref()?);
        Some(Change {
            row,
            before: one.per_second(),
            after: other.per_second(),
            is_clear: are_apart(one, other),
        })
    };
    after.iter().filter_map(change).collect()
}

/// The geometric mean of ratios. Nothing of none.
pub fn mean(ratios: &[f64]) -> Option<f64> {
    let sum: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
    (!ratios.is_empty()).then(|| (sum / ratios.len() as f64).exp())
}

/// A ratio of rates in words: `1.69x faster`, `3 % slower`, `as fast`.
pub fn describe(ratio: f64) -> String {
    let (times, word) = match ratio >= 1.0 {
        true => (ratio, "faster"),
        false => (1.0 / ratio, "slower"),
    };
    // Slower by a share of what it was; faster likewise.
    let percent = ((ratio - 1.0).abs() * 100.0).round();
    match times {
        times if times >= 100.0 => format!("{times:.0}x {word}"),
        times if times >= 10.0 => format!("{times:.1}x {word}"),
        times if times >= 1.2 => format!("{times:.2}x {word}"),
        _ if percent >= 1.0 => format!("{percent:.0} % {word}"),
        _ => "as fast".to_owned(),
    }
}

fn are_apart(one: &Measured, other: &Measured) -> bool {
    one.high_millis < other.low_millis || other.high_millis < one.low_millis
}
