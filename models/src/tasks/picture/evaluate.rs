//! How well a network tells classes apart, counted over pictures that it never learned from.
//!
//! - accuracy: the share of right answers; top-5 accuracy: of those whose class is among the five most probable
//! - macro recall: the mean over the classes of the share that is recognized, in which small classes count as large ones do
//! - calibration error: how far probabilities are from how often they are right, over 15 bins (Naeini et al., 2015)
//!
//! Probabilities are those of scores divided by a temperature (Guo et al., 2017, <https://arxiv.org/abs/1706.04599>), which is fitted
//! on held-out pictures: a number alone, which changes no answer.
//!
//! Letters: n pictures, v classes.

use std::{cmp::Reverse, collections::BTreeMap};

use crate::train::task::Metric;

/// The metric by which one checkpoint is better than another.
pub const ACCURACY: &str = "accuracy";
/// Classes from which on the five most probable say something.
const CLASSES_FOR_TOP_FIVE: usize = 10;
/// Bins of probabilities.
const BINS: usize = 15;
/// Temperatures that are looked at, and how exactly.
const TEMPERATURES: (f64, f64) = (0.05, 20.0);
const ROUNDS: usize = 40;

/// What a network said of pictures.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Said {
    /// The pictures, by their places in the set.
    pub pictures: Vec<usize>,
    /// The scores of the classes: [n][v].
    pub scores: Vec<Vec<f32>>,
    /// The class of each.
    pub labels: Vec<u32>,
}

impl Said {
    /// The most probable class of each; of equally probable ones the first.
    pub fn answers(&self) -> Vec<u32> {
        let best = |scores: &Vec<f32>| {
            let ranked = scores.iter().enumerate();
            let best = ranked.fold((0, f32::NEG_INFINITY), |best, (class, score)| {
                if *score > best.1 {
                    (class, *score)
                } else {
                    best
                }
            });
            best.0 as u32
        };
        self.scores.iter().map(best).collect()
    }

    /// How many of the class of a row were said to be of the class of a column.
    pub fn confusion(&self, classes: usize) -> Vec<Vec<u32>> {
        let mut counts = vec![vec![0; classes]; classes];
        for (label, answer) in self.labels.iter().zip(self.answers()) {
            counts[*label as usize][answer as usize] += 1;
        }
        counts
    }

    /// The mean loss in nats, with scores divided by a temperature.
    pub fn loss(&self, temperature: f64) -> f64 {
        let of = |(scores, label): (&Vec<f32>, &u32)| {
            let [log_sum, own] = logs(scores, *label as usize, temperature);
            log_sum - own
        };
        let sum: f64 = self.scores.iter().zip(&self.labels).map(of).sum();
        sum / self.labels.len().max(1) as f64
    }

    /// The temperature at which the loss is least. 1 without pictures.
    pub fn temperature(&self) -> f64 {
        if self.labels.is_empty() {
            return 1.0;
        }
        let at = |log: f64| self.loss(log.exp());
        let (mut low, mut high) = (TEMPERATURES.0.ln(), TEMPERATURES.1.ln());
        // Golden section: the loss has one valley.
        let ratio = (5f64.sqrt() - 1.0) / 2.0;
        for _ in 0..ROUNDS {
            let (left, right) = (high - ratio * (high - low), low + ratio * (high - low));
            match at(left) < at(right) {
                true => high = right,
                false => low = left,
            }
        }
        f64::midpoint(low, high).exp()
    }

    /// How probable the answer to each picture is.
    pub fn confidences(&self, temperature: f64) -> Vec<f64> {
        let answers = self.answers();
        let all = self.scores.iter().zip(answers);
        all.map(|(scores, answer)| {
            let [log_sum, own] = logs(scores, answer as usize, temperature);
            (own - log_sum).exp()
        })
        .collect()
    }

    /// The shares and errors of this module. `end` is added to names, and `words` to labels.
    pub fn metrics(&self, classes: usize, temperature: f64, end: &str, words: &str) -> Vec<Metric> {
        let n = self.labels.len();
        if n == 0 {
            return Vec::new();
        }
        let answers = self.answers();
        let right = self
            .labels
            .iter()
            .zip(&answers)
            .filter(|(a, b)| a == b)
            .count();
        let share = |name: &str, label: &str, value: f64, of: Option<usize>| Metric {
            name: format!("{name}{end}"),
            label: format!("{label}{words}"),
            value,
            higher_is_better: true,
            of,
        };
        let mut metrics = vec![share(
            ACCURACY,
            "accuracy",
            right as f64 / n as f64,
            Some(n),
        )];
        if classes >= CLASSES_FOR_TOP_FIVE {
            let count = self.labels.iter().zip(&self.scores);
            let count = count
                .filter(|(label, scores)| is_among_five(scores, **label as usize))
                .count();
            metrics.push(share(
                "top5_accuracy",
                "top-5 accuracy",
                count as f64 / n as f64,
                Some(n),
            ));
        }
        metrics.push(share(
            "macro_recall",
            "macro recall",
            macro_recall(&self.confusion(classes)),
            None,
        ));
        metrics.push(Metric {
            higher_is_better: false,
            ..share(
                "calibration_error",
                "calibration error",
                self.calibration_error(temperature),
                None,
            )
        });
        metrics
    }

    fn calibration_error(&self, temperature: f64) -> f64 {
        let mut bins = [[0.0; 3]; BINS];
        let all = self
            .confidences(temperature)
            .into_iter()
            .zip(self.answers());
        for ((confidence, answer), label) in all.zip(&self.labels) {
            let at = ((confidence * BINS as f64) as usize).min(BINS - 1);
            let [count, sum, right] = &mut bins[at];
            *count += 1.0;
            *sum += confidence;
            *right += f64::from(u8::from(answer == *label));
        }
        let off: f64 = bins.iter().map(|[_, sum, right]| (sum - right).abs()).sum();
        off / self.labels.len().max(1) as f64
    }

    /// The pictures that were called by a wrong class, the surest mistakes first.
    pub fn surest_mistakes(&self, temperature: f64, most: usize) -> Vec<Called> {
        let mut all = self.called(temperature);
        all.retain(|it| !it.is_right());
        all.truncate(most);
        all
    }

    /// Some pictures of each pair of a class and what it was called, so many mistakes and so many that are right at most. Each pair
    /// has one before any has two, those with the most pictures first; in each the surest mistakes, and what was right by a hair.
    pub fn examples(&self, temperature: f64, mistakes: usize, right: usize) -> Vec<Called> {
        let (right_ones, wrong) = self
            .called(temperature)
            .into_iter()
            .partition(Called::is_right);
        let mut examples = spread(wrong, mistakes);
        let least_sure: Vec<Called> = right_ones.into_iter().rev().collect();
        examples.extend(spread(least_sure, right));
        examples
    }

    /// All pictures with what they were called, the surest first.
    fn called(&self, temperature: f64) -> Vec<Called> {
        let answers = self.answers();
        let confidences = self.confidences(temperature);
        let called = |at: usize| Called {
            picture: self.pictures[at],
            answer: answers[at],
            label: self.labels[at],
            confidence: confidences[at],
        };
        let mut all: Vec<Called> = (0..self.labels.len()).map(called).collect();
        all.sort_by(|a, b| {
            b.confidence
                .total_cmp(&a.confidence)
                .then(a.picture.cmp(&b.picture))
        });
        all
    }
}

/// A picture with what it was called.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Called {
    /// Its place in the set.
    pub picture: usize,
    /// What it was called.
    pub answer: u32,
    /// What it is.
    pub label: u32,
    /// How sure the network was.
    pub confidence: f64,
}

impl Called {
    fn is_right(&self) -> bool {
        self.answer == self.label
    }

    /// The pair of what it is and what it was called.
    fn pair(&self) -> (u32, u32) {
        (self.label, self.answer)
    }
}

/// The first of each pair, the second of each, and so on until there are so many: of the pair with the most pictures first.
fn spread(all: Vec<Called>, most: usize) -> Vec<Called> {
    let mut counts: BTreeMap<(u32, u32), usize> = BTreeMap::new();
    let mut ranked = Vec::with_capacity(all.len());
    for called in all {
        let rank = counts.entry(called.pair()).or_default();
        ranked.push((*rank, called));
        *rank += 1;
    }
    ranked.sort_by_key(|(rank, it)| (*rank, Reverse(counts[&it.pair()]), it.pair()));
    ranked.truncate(most);
    ranked.into_iter().map(|(_, it)| it).collect()
}

/// ln Σ eˣ and x of a class, of scores divided by a temperature.
fn logs(scores: &[f32], class: usize, temperature: f64) -> [f64; 2] {
    let scaled = |it: &f32| f64::from(*it) / temperature;
    let most = scores.iter().map(scaled).fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = scores.iter().map(|it| (scaled(it) - most).exp()).sum();
    [most + sum.ln(), scaled(&scores[class])]
}

fn is_among_five(scores: &[f32], label: usize) -> bool {
    let own = scores[label];
    let before = scores.iter().enumerate();
    let before = before.filter(|(class, it)| **it > own || **it == own && *class < label);
    before.count() < 5
}

/// The mean recall of the classes that there are pictures of.
fn macro_recall(confusion: &[Vec<u32>]) -> f64 {
    let recalls: Vec<f64> = confusion
        .iter()
        .enumerate()
        .filter_map(|(class, row)| {
            let all: u32 = row.iter().sum();
            (all > 0).then(|| f64::from(row[class]) / f64::from(all))
        })
        .collect();
    recalls.iter().sum::<f64>() / recalls.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn said(scores: &[[f32; 3]], labels: &[u32]) -> Said {
        Said {
            pictures: (0..labels.len()).collect(),
            scores: scores.iter().map(|it| it.to_vec()).collect(),
            labels: labels.to_vec(),
        }
    }

    #[test]
    fn answers_are_counted_by_their_classes() {
        let said = said(
            &[
                [2.0, 1.0, 0.0],
                [0.0, 3.0, 1.0],
                [5.0, 5.0, 0.0],
                [0.0, 0.0, 1.0],
            ],
            &[0, 2, 1, 2],
        );
        assert_eq!(said.answers(), [0, 1, 0, 2]);
        assert_eq!(said.confusion(3), [[1, 0, 0], [1, 0, 0], [0, 1, 1]]);
        let metrics = said.metrics(3, 1.0, "", "");
        let value = |name: &str| metrics.iter().find(|it| it.name == name).map(|it| it.value);
        assert_eq!(value("accuracy"), Some(0.5));
        assert_eq!(value("macro_recall"), Some(0.5));
        assert_eq!(value("top5_accuracy"), None);
        let mistakes = said.surest_mistakes(1.0, 5);
        let found: Vec<(usize, u32, u32)> = mistakes
            .iter()
            .map(|it| (it.picture, it.label, it.answer))
            .collect();
        assert_eq!(found, [(1, 2, 1), (2, 1, 0)]);
    }

    #[test]
    fn each_pair_of_classes_has_an_example_before_any_has_two() {
        // Of class 0 three were called 1, the second the surest, and one was called 2; one of each class is right.
        let said = said(
            &[
                [0.0, 1.0, 0.0],
                [0.0, 5.0, 0.0],
                [0.0, 2.0, 0.0],
                [0.0, 0.0, 9.0],
                [1.0, 0.0, 0.0],
                [0.0, 2.0, 0.0],
                [0.0, 3.0, 0.0],
            ],
            &[0, 0, 0, 0, 0, 1, 1],
        );
        let pictures = |mistakes: usize, right: usize| -> Vec<usize> {
            let examples = said.examples(1.0, mistakes, right);
            examples.iter().map(|it| it.picture).collect()
        };
        assert_eq!(pictures(9, 0), [1, 3, 2, 0]);
        assert_eq!(pictures(2, 0), [1, 3]);
        // Of what is right the least sure comes first.
        assert_eq!(pictures(0, 9), [5, 4, 6]);
        assert_eq!(pictures(1, 1), [1, 5]);
    }

    #[test]
    fn the_temperature_undoes_scores_that_were_multiplied() {
        let mut random = Random::new(4);
        let mut drawn = Said::default();
        for at in 0..4000 {
            let scores: Vec<f64> = (0..3).map(|_| random.normal()).collect();
            let weights: Vec<f64> = scores.iter().map(|it| it.exp()).collect();
            let mut rest = random.uniform() * weights.iter().sum::<f64>();
            let label = weights.iter().position(|it| {
                rest -= it;
                rest < 0.0
            });
            drawn.pictures.push(at);
            drawn.labels.push(label.unwrap_or(2) as u32);
            drawn
                .scores
                .push(scores.iter().map(|it| (it * 3.0) as f32).collect());
        }
        let found = drawn.temperature();
        assert!((found - 3.0).abs() < 0.3, "{found}");
        let (before, after) = (drawn.calibration_error(1.0), drawn.calibration_error(found));
        assert!(before > 0.15 && after < 0.03, "{before} {after}");
    }
}
