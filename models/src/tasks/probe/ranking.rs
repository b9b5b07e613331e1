//! What the order of scores says about two classes: area under the curve, average precision, and the points of both curves.
//!
//! Scores are logits in f32; everything else is f64. Equal scores are one point of a curve, whatever the order of the rows.
//! A figure that has no meaning, since a class is absent, is `None` and never a number. Deliberately absent: probabilities, which
//! are in [`calibration`](super::calibration), and more than two classes, which are in [`classes`](super::classes).
//!
//! Figures are those of scikit-learn 1.9: `roc_auc_score`, `average_precision_score`, `precision_recall_curve`, `roc_curve`.

use serde::{Deserialize, Serialize};

/// The most points of a curve that are kept.
pub const POINTS: usize = 200;

/// What a threshold does: the score, and how many positive and how many negative rows have at least that.
pub type Point = (f32, u32, u32);

/// Rows in the order of their scores, cut into runs of equal scores. It is made once and read by every figure.
#[derive(Debug, Clone)]
pub struct Ranking {
    /// Rows from the lowest score to the highest.
    order: Vec<u32>,
    /// Where in `order` each run of equal scores ends.
    ends: Vec<u32>,
    /// The score of each run.
    scores: Vec<f32>,
}

/// Rows of both classes above a threshold, and in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "specta", derive(specta::Type))]
pub struct Confusion {
    /// Positive, and called so.
    pub true_positives: u64,
    /// Negative, and called positive.
    pub false_positives: u64,
    /// Negative, and called so.
    pub true_negatives: u64,
    /// Positive, and called negative.
    pub false_negatives: u64,
}

/// How many positives are found while few negatives are called positive.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "specta", derive(specta::Type))]
pub struct RecallAt {
    /// The share of negatives that may be called positive.
    pub rate: f64,
    /// The share of positives that are found.
    pub recall: f64,
    /// Negatives that it was measured with.
    pub negatives: u64,
    /// Whether there are so many negatives that the share means something: at least three of them may be wrong.
    pub is_measurable: bool,
}

impl Ranking {
    /// Sorts the scores of n rows. A score that is not a number counts as larger than all others.
    pub fn new(scores: &[f32]) -> Self {
        // Zero has two signs and one value.
        let score = |row: u32| scores[row as usize] + 0.0;
        let mut order: Vec<u32> = (0..scores.len() as u32).collect();
        order.sort_unstable_by(|&a, &b| score(a).total_cmp(&score(b)).then(a.cmp(&b)));
        let (mut ends, mut runs) = (Vec::new(), Vec::new());
        for (at, &row) in order.iter().enumerate() {
            let next = order.get(at + 1).map(|&it| score(it));
            if next.is_none_or(|next| next.total_cmp(&score(row)).is_ne()) {
                ends.push(at as u32 + 1);
                runs.push(score(row));
            }
        }
        Self {
            order,
            ends,
            scores: runs,
        }
    }

    /// Weights of positives and negatives of each run, from the lowest score to the highest.
    fn runs<'a>(
        &'a self,
        positive: &'a [bool],
        weight: impl Fn(usize) -> f64 + 'a,
    ) -> impl DoubleEndedIterator<Item = (f32, f64, f64)> + 'a {
        let run = move |index: usize| {
            let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
            let rows = &self.order[start as usize..self.ends[index] as usize];
            let (mut yes, mut no) = (0.0, 0.0);
            for &row in rows {
                let row = row as usize;
                match positive[row] {
                    true => yes += weight(row),
                    false => no += weight(row),
                }
            }
            (self.scores[index], yes, no)
        };
        (0..self.ends.len()).map(run)
    }

    /// The chance that a positive row has a higher score than a negative one, equal ones counting half. `None` without rows of
    /// both classes.
    pub fn auc(&self, positive: &[bool]) -> Option<f64> {
        self.weighted_auc(positive, |_| 1.0)
    }

    /// The same, with each row counted `weight` times.
    pub fn weighted_auc(&self, positive: &[bool], weight: impl Fn(usize) -> f64) -> Option<f64> {
        let (mut below, mut pairs, mut positives) = (0.0, 0.0, 0.0);
        for (_, yes, no) in self.runs(positive, weight) {
            pairs += yes * (below + no / 2.0);
            positives += yes;
            below += no;
        }
        (positives > 0.0 && below > 0.0).then(|| pairs / (positives * below))
    }

    /// Σ (Rₖ - Rₖ₋₁) Pₖ over thresholds: recall in steps, precision at each. `None` without a positive row.
    pub fn average_precision(&self, positive: &[bool]) -> Option<f64> {
        let (mut found, mut called, mut sum) = (0.0, 0.0, 0.0);
        for (_, yes, no) in self.runs(positive, |_| 1.0).rev() {
            found += yes;
            called += yes + no;
            sum += yes * (found / called);
        }
        (found > 0.0).then(|| sum / found)
    }

    /// The threshold with the highest F1, and that F1; of equal ones the highest threshold. `None` without a positive row.
    pub fn best_f1(&self, positive: &[bool]) -> Option<(f32, f64)> {
        let all = positive.iter().filter(|it| **it).count() as f64;
        let (mut found, mut called) = (0.0, 0.0);
        let mut best: Option<(f32, f64)> = None;
        for (score, yes, no) in self.runs(positive, |_| 1.0).rev() {
            found += yes;
            called += yes + no;
            let f1 = 2.0 * found / (all + called);
            if all > 0.0 && best.is_none_or(|(_, before)| f1 > before) {
                best = Some((score, f1));
            }
        }
        best
    }

    /// The highest precision of a threshold that finds at least this share of the positives. `None` without a positive row.
    pub fn precision_at_recall(&self, positive: &[bool], recall: f64) -> Option<f64> {
        let all = positive.iter().filter(|it| **it).count() as f64;
        let (mut found, mut called) = (0.0, 0.0);
        let mut best = None;
        for (_, yes, no) in self.runs(positive, |_| 1.0).rev() {
            found += yes;
            called += yes + no;
            if all > 0.0 && found / all >= recall {
                best = best.max_by_value(found / called);
            }
        }
        best
    }

    /// The largest share of positives that a threshold finds while it calls at most this share of the negatives positive. `None`
    /// without rows of both classes.
    pub fn recall_at(&self, positive: &[bool], rate: f64) -> Option<RecallAt> {
        let all = positive.iter().filter(|it| **it).count();
        let negatives = positive.len() - all;
        let (mut found, mut wrong, mut recall) = (0.0, 0.0, 0.0);
        for (_, yes, no) in self.runs(positive, |_| 1.0).rev() {
            found += yes;
            wrong += no;
            if wrong / negatives as f64 <= rate {
                recall = found / all as f64;
            }
        }
        (all > 0 && negatives > 0).then_some(RecallAt {
            rate,
            recall,
            negatives: negatives as u64,
            is_measurable: negatives as f64 * rate >= 3.0,
        })
    }

    /// Points of the curve of false and true positives, from (0, 0) to (1, 1), with the threshold of each; equal scores are one
    /// point. Empty without rows of both classes.
    pub fn curve(&self, positive: &[bool]) -> Vec<(f32, f64, f64)> {
        let all = positive.iter().filter(|it| **it).count() as f64;
        let negatives = positive.len() as f64 - all;
        if all == 0.0 || negatives == 0.0 {
            return Vec::new();
        }
        let (mut found, mut wrong) = (0.0, 0.0);
        let points = self.runs(positive, |_| 1.0).rev().map(|(score, yes, no)| {
            found += yes;
            wrong += no;
            (score, wrong / negatives, found / all)
        });
        let mut curve = vec![(f32::INFINITY, 0.0, 0.0)];
        curve.extend(points);
        curve
    }

    /// What thresholds do, from the highest to the lowest: those that are asked for, and so many others that there are [`POINTS`] at
    /// most, evenly along the curve of false and true positives. Both curves follow from them, and the rows of all four kinds at
    /// each. Empty without rows of both classes.
    pub fn points(&self, positive: &[bool], asked: &[f32]) -> Vec<Point> {
        let all = positive.iter().filter(|it| **it).count() as f64;
        let negatives = positive.len() as f64 - all;
        if all == 0.0 || negatives == 0.0 {
            return Vec::new();
        }
        let (mut found, mut wrong) = (0, 0);
        let every = self.runs(positive, |_| 1.0).rev().map(|(score, yes, no)| {
            (found, wrong) = (found + yes as u32, wrong + no as u32);
            (score, found, wrong)
        });
        let every: Vec<Point> = every.collect();
        let steps = POINTS.saturating_sub(asked.len() + 1) as f64;
        let step = |(_, found, wrong): Point| {
            let along = (f64::from(found) / all + f64::from(wrong) / negatives) / 2.0;
            (along * steps) as usize
        };
        let keeps_all = every.len() + asked.len() <= POINTS;
        let is_kept = |at: &usize| {
            let before = at.checked_sub(1).map_or(0, |it| step(every[it]));
            keeps_all || at + 1 == every.len() || step(every[*at]) > before
        };
        let kept = (0..every.len()).filter(is_kept).map(|at| every[at]);
        let of = |&threshold: &f32| {
            let above = every.partition_point(|it| it.0 >= threshold);
            let (_, found, wrong) = above.checked_sub(1).map_or((0.0, 0, 0), |it| every[it]);
            (threshold, found, wrong)
        };
        let mut points: Vec<Point> = asked.iter().map(of).chain(kept).collect();
        points.sort_by(|a, b| b.0.total_cmp(&a.0));
        points.dedup_by_key(|it| it.0);
        points
    }
}

/// The larger of what was found and what is new.
trait Largest {
    fn max_by_value(self, new: f64) -> Option<f64>;
}

impl Largest for Option<f64> {
    fn max_by_value(self, new: f64) -> Option<f64> {
        Some(self.map_or(new, |before| before.max(new)))
    }
}

impl Confusion {
    /// What becomes of rows with these scores when those of at least `threshold` are called positive.
    pub fn at(scores: &[f32], positive: &[bool], threshold: f32) -> Self {
        let mut it = Self::default();
        for (&score, &positive) in scores.iter().zip(positive) {
            *match (positive, score >= threshold) {
                (true, true) => &mut it.true_positives,
                (false, true) => &mut it.false_positives,
                (false, false) => &mut it.true_negatives,
                (true, false) => &mut it.false_negatives,
            } += 1;
        }
        it
    }

    /// The share of those called positive that are. 0 when none is called so.
    pub fn precision(&self) -> f64 {
        share(
            self.true_positives,
            self.true_positives + self.false_positives,
        )
    }

    /// The share of positives that are called so. 0 when there is none.
    pub fn recall(&self) -> f64 {
        share(
            self.true_positives,
            self.true_positives + self.false_negatives,
        )
    }

    /// The harmonic mean of precision and recall. 0 when there is no positive, real or called.
    pub fn f1(&self) -> f64 {
        share(
            2 * self.true_positives,
            2 * self.true_positives + self.false_positives + self.false_negatives,
        )
    }

    /// The share of rows that are called what they are. 0 without rows.
    pub fn accuracy(&self) -> f64 {
        let right = self.true_positives + self.true_negatives;
        share(right, right + self.false_positives + self.false_negatives)
    }

    /// The mean of the shares of positives and of negatives that are called what they are. `None` without both.
    pub fn balanced_accuracy(&self) -> Option<f64> {
        let positives = self.true_positives + self.false_negatives;
        let negatives = self.true_negatives + self.false_positives;
        (positives > 0 && negatives > 0)
            .then(|| (self.recall() + share(self.true_negatives, negatives)) / 2.0)
    }

    /// Matthews’ correlation of what is called with what is. 0 where one of them is always the same.
    pub fn matthews(&self) -> f64 {
        let [tp, fp, tn, fun] = [
            self.true_positives,
            self.false_positives,
            self.true_negatives,
            self.false_negatives,
        ]
        .map(|it| it as f64);
        let under = (tp + fp) * (tp + fun) * (tn + fp) * (tn + fun);
        match under > 0.0 {
            true => (tp * tn - fp * fun) / under.sqrt(),
            false => 0.0,
        }
    }
}

fn share(part: u64, of: u64) -> f64 {
    if of == 0 {
        return 0.0;
    }
    part as f64 / of as f64
}

/// The standard error of an area under the curve with so many rows of each class (Hanley and McNeil, 1982).
pub fn standard_error(auc: f64, positives: usize, negatives: usize) -> f64 {
    let (n1, n0) = (positives as f64, negatives as f64);
    let (q1, q2) = (auc / (2.0 - auc), 2.0 * auc * auc / (1.0 + auc));
    let square = auc * auc;
    let spread = auc * (1.0 - auc) + (n1 - 1.0) * (q1 - square) + (n0 - 1.0) * (q2 - square);
    (spread / (n1 * n0)).max(0.0).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_that_is_absent_leaves_figures_undefined() {
        let ranking = Ranking::new(&[0.1, 0.4, 0.3]);
        for positive in [[false; 3], [true; 3]] {
            assert_eq!(ranking.auc(&positive), None);
            assert_eq!(ranking.recall_at(&positive, 0.05), None);
            assert!(ranking.curve(&positive).is_empty());
        }
        assert_eq!(ranking.average_precision(&[false; 3]), None);
        assert_eq!(ranking.best_f1(&[false; 3]), None);
        assert_eq!(ranking.precision_at_recall(&[false; 3], 0.9), None);
        assert_eq!(Ranking::new(&[]).auc(&[]), None);
    }

    #[test]
    fn equal_scores_count_half_in_any_order() {
        let ranking = Ranking::new(&[2.0; 4]);
        assert_eq!(ranking.auc(&[true, false, false, true]), Some(0.5));
        assert_eq!(ranking.auc(&[false, true, true, false]), Some(0.5));
        // Both zeros are one score.
        let ranking = Ranking::new(&[0.0, -0.0]);
        assert_eq!(ranking.auc(&[true, false]), Some(0.5));
    }

    #[test]
    fn the_points_that_are_kept_draw_the_curve_and_are_exact_where_it_is_asked_for() {
        let mut random = crate::random::Random::new(3);
        let positive: Vec<bool> = (0..5_000).map(|_| random.uniform() < 0.02).collect();
        let shift = |it: &bool| if *it { 1.5 } else { 0.0 };
        let scores: Vec<f32> = positive
            .iter()
            .map(|it| (random.normal() + shift(it)) as f32)
            .collect();
        let ranking = Ranking::new(&scores);
        let points = ranking.points(&positive, &[0.7, 0.0, 99.0]);
        assert!(points.len() <= POINTS && points.len() > POINTS / 2);
        assert!(points.windows(2).all(|it| it[0].0 > it[1].0));
        for threshold in [0.7, 0.0, 99.0] {
            let confusion = Confusion::at(&scores, &positive, threshold);
            let counts = (
                confusion.true_positives as u32,
                confusion.false_positives as u32,
            );
            assert!(points.contains(&(threshold, counts.0, counts.1)));
        }
        let (mut area, mut before) = (0.0, (0.0, 0.0));
        let all = positive.iter().filter(|it| **it).count() as f64;
        for (_, found, wrong) in points {
            let here = (f64::from(wrong) / (5_000.0 - all), f64::from(found) / all);
            area += (here.0 - before.0) * (here.1 + before.1) / 2.0;
            before = here;
        }
        assert_eq!(before, (1.0, 1.0));
        assert!((area - ranking.auc(&positive).unwrap()).abs() < 2e-3);
        // Few rows are kept as they are, and equal scores are one point.
        let few = Ranking::new(&[0.5, 0.5, -1.0]).points(&[true, false, false], &[]);
        assert_eq!(few, [(0.5, 1, 1), (-1.0, 1, 2)]);
    }

    #[test]
    fn few_negatives_make_a_rare_mistake_unmeasurable() {
        let scores: Vec<f32> = (0..300).map(|it| it as f32).collect();
        let positive: Vec<bool> = (0..300).map(|it| it >= 200).collect();
        let ranking = Ranking::new(&scores);
        let at = |rate| ranking.recall_at(&positive, rate).unwrap();
        assert!(!at(0.01).is_measurable && at(0.05).is_measurable);
        assert_eq!((at(0.01).recall, at(0.01).negatives), (1.0, 200));
    }

    #[test]
    fn the_standard_error_is_that_of_the_paper() {
        // 105 positives of 4,725 rows at 0.95: 0.015; at 0.5 the null one, 0.0285.
        assert!((standard_error(0.95, 105, 4620) - 0.015).abs() < 5e-4);
        assert!((standard_error(0.5, 105, 4620) - 0.0285).abs() < 1e-3);
    }
}
