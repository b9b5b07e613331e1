//! How sure a figure is: intervals from drawing the groups of rows again, the same draws for every probe.
//!
//! Groups are drawn with replacement, stratum by stratum, as often as there are groups in it. A draw is kept as how often each row
//! came, so that figures over sorted scores are counted again without sorting. Draws in which a figure is not defined are left out
//! and counted. Intervals are percentiles (Efron and Tibshirani, 1993).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ranking::Ranking;
use crate::random::Random;

/// Draws of a study, unless said otherwise.
pub const DRAWS: usize = 2_000;

/// The share of studies whose interval holds the truth.
pub const LEVEL: f64 = 0.95;

/// How often each of n rows came in each draw.
#[derive(Debug)]
pub struct Draws {
    counts: Vec<u16>,
    rows: usize,
}

/// Where a figure lies.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "specta", derive(specta::Type))]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// Draws that it was taken from.
    pub draws: usize,
    /// Draws in which the figure was not defined.
    pub undefined: usize,
}

/// How much larger one figure is than another, of the same rows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "specta", derive(specta::Type))]
pub struct Difference {
    /// The one less the other.
    pub difference: f64,
    /// Where the difference lies.
    pub interval: Interval,
    /// How often a difference so far from 0 comes by chance, on either side.
    pub p: f64,
}

impl Draws {
    /// Draws groups. `groups` and `strata` have one number for each of n rows; the stratum of a group is that of its first row.
    pub fn new(groups: &[u64], strata: &[u32], times: usize, seed: u64) -> Self {
        let mut members: BTreeMap<u64, (u32, Vec<u32>)> = BTreeMap::new();
        for (row, (&group, &stratum)) in groups.iter().zip(strata).enumerate() {
            let group = members.entry(group).or_insert((stratum, Vec::new()));
            group.1.push(row as u32);
        }
        let mut by_stratum: BTreeMap<u32, Vec<Vec<u32>>> = BTreeMap::new();
        for (stratum, rows) in members.into_values() {
            by_stratum.entry(stratum).or_default().push(rows);
        }
        let mut random = Random::for_purpose(seed, "probe bootstrap");
        let rows = groups.len();
        let mut counts = vec![0u16; rows * times];
        for counts in counts.chunks_mut(rows.max(1)) {
            for groups in by_stratum.values() {
                for _ in 0..groups.len() {
                    for &row in random.choose(groups) {
                        let count = &mut counts[row as usize];
                        *count = count.saturating_add(1);
                    }
                }
            }
        }
        Self { counts, rows }
    }

    /// How often each row came, draw by draw.
    pub fn counts(&self) -> impl Iterator<Item = &[u16]> {
        self.counts.chunks(self.rows.max(1))
    }

    /// The area under the curve in each draw.
    pub fn aucs(&self, ranking: &Ranking, positive: &[bool]) -> Vec<Option<f64>> {
        let auc = |counts: &[u16]| ranking.weighted_auc(positive, |row| f64::from(counts[row]));
        self.counts().map(auc).collect()
    }

    /// The share of rows of which something is true, in each draw.
    pub fn shares(&self, of: &[bool]) -> Vec<Option<f64>> {
        let share = |counts: &[u16]| {
            let (mut yes, mut all) = (0.0, 0.0);
            for (&count, &of) in counts.iter().zip(of) {
                let count = f64::from(count);
                all += count;
                yes += if of { count } else { 0.0 };
            }
            (all > 0.0).then(|| yes / all)
        };
        self.counts().map(share).collect()
    }
}

/// The mean over figures in each draw, of those that are defined there.
pub fn means(figures: &[&[Option<f64>]]) -> Vec<Option<f64>> {
    let draws = figures.first().map_or(0, |it| it.len());
    let mean = |draw: usize| {
        let defined: Vec<f64> = figures.iter().filter_map(|it| it[draw]).collect();
        super::classes::mean(&defined)
    };
    (0..draws).map(mean).collect()
}

/// The middle [`LEVEL`] of a figure in all draws. `None` where it is defined in none.
pub fn interval(figures: &[Option<f64>]) -> Option<Interval> {
    let mut defined: Vec<f64> = figures.iter().filter_map(|it| *it).collect();
    defined.sort_by(f64::total_cmp);
    let tail = (1.0 - LEVEL) / 2.0;
    (!defined.is_empty()).then(|| Interval {
        low: quantile(&defined, tail),
        high: quantile(&defined, 1.0 - tail),
        draws: defined.len(),
        undefined: figures.len() - defined.len(),
    })
}

/// The number below which this share of sorted numbers lies, with straight lines between them.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let at = share * (sorted.len() - 1) as f64;
    let (low, rest) = (at.floor() as usize, at.fract());
    let high = (low + 1).min(sorted.len() - 1);
    sorted[low] + rest * (sorted[high] - sorted[low])
}

/// Compares two figures of the same rows, each with its value in every draw. `None` where they are defined together in none.
pub fn difference(
    (one, ones): (f64, &[Option<f64>]),
    (other, others): (f64, &[Option<f64>]),
) -> Option<Difference> {
    let both = ones.iter().zip(others);
    let differences: Vec<Option<f64>> = both.map(|(a, b)| Some((*a)? - (*b)?)).collect();
    let interval = interval(&differences)?;
    let defined = differences.iter().flatten();
    let below = defined.clone().filter(|it| **it <= 0.0).count();
    let above = defined.filter(|it| **it >= 0.0).count();
    // One more of each: no number of draws shows that something never happens.
    let p = 2.0 * (below.min(above) + 1) as f64 / (interval.draws + 1) as f64;
    Some(Difference {
        difference: one - other,
        interval,
        p: p.min(1.0),
    })
}

impl Difference {
    /// Whether the interval is all on one side of 0.
    pub fn is_clear(&self) -> bool {
        self.interval.low > 0.0 || self.interval.high < 0.0
    }
}

/// The chances corrected for how many there are (Holm, 1979): each stays comparable with a level for all of them together.
pub fn holm(chances: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..chances.len()).collect();
    order.sort_by(|&a, &b| chances[a].total_cmp(&chances[b]));
    let mut corrected = vec![0.0; chances.len()];
    let mut largest: f64 = 0.0;
    for (rank, &at) in order.iter().enumerate() {
        largest = largest.max(chances[at] * (chances.len() - rank) as f64);
        corrected[at] = largest.min(1.0);
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_draw_has_as_many_groups_of_each_stratum() {
        let groups = [1, 1, 2, 3, 3, 4];
        let strata = [0, 0, 0, 1, 1, 1];
        let draws = Draws::new(&groups, &strata, 50, 7);
        assert_eq!(draws.counts().count(), 50);
        for counts in draws.counts() {
            assert_eq!(counts[0], counts[1], "rows of a group come together");
            assert_eq!(counts[0] + counts[2], 2);
            assert_eq!(counts[3] + counts[5], 2);
        }
    }

    #[test]
    fn a_draw_of_one_class_is_left_out_and_counted() {
        let positive = [true, false, false];
        let draws = Draws::new(&[1, 2, 3], &[0; 3], 400, 7);
        let aucs = draws.aucs(&Ranking::new(&[0.9, 0.1, 0.2]), &positive);
        let interval = interval(&aucs).unwrap();
        assert!(interval.undefined > 50 && interval.draws + interval.undefined == 400);
        assert_eq!((interval.low, interval.high), (1.0, 1.0));
    }

    #[test]
    fn many_chances_are_corrected_in_their_order() {
        // p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm") of R.
        let corrected = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (found, expected) in corrected.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((found - expected).abs() < 1e-12, "{corrected:?}");
        }
    }

    #[test]
    fn the_same_probe_differs_by_nothing() {
        let aucs = [Some(0.5), None, Some(0.7)];
        let same = difference((0.6, &aucs), (0.6, &aucs)).unwrap();
        assert_eq!((same.difference, same.p), (0.0, 1.0));
        assert!(!same.is_clear());
    }
}
