//! Figures of one answer among several classes: accuracy, macro F1, macro area under the curve, and who is taken for whom.

use serde::{Deserialize, Serialize};

use super::ranking::Ranking;

/// How well rows are told into one of K classes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "specta", derive(specta::Type))]
pub struct Classes {
    /// The share of rows that are called what they are.
    pub accuracy: f64,
    /// The mean F1 of the classes that occur, in rows or in answers.
    pub macro_f1: f64,
    /// The mean area under the curve, each class against the rest, of those for which it is defined. `None` if for none.
    pub macro_auc: Option<f64>,
    /// Classes for which the area is not defined, since no row, or every row, is of them.
    pub undefined: usize,
    /// Rows of the first class called the second: [K, K].
    pub confusion: Vec<Vec<u64>>,
}

/// The class with the highest score of each row; of equal ones the first. Scores are [K, n], class by class.
pub fn answers(scores: &[Vec<f32>]) -> Vec<usize> {
    let rows = scores.first().map_or(0, Vec::len);
    let best = |row: usize| {
        (1..scores.len()).fold(0, |best, class| {
            match scores[class][row] > scores[best][row] {
                true => class,
                false => best,
            }
        })
    };
    (0..rows).map(best).collect()
}

/// Compares scores [K, n] with the class of each of n rows. `None` without rows.
pub fn classes(scores: &[Vec<f32>], truth: &[usize]) -> Option<Classes> {
    let k = scores.len();
    if truth.is_empty() || k == 0 {
        return None;
    }
    let mut confusion = vec![vec![0u64; k]; k];
    for (&class, answer) in truth.iter().zip(answers(scores)) {
        confusion[class][answer] += 1;
    }
    let right: u64 = (0..k).map(|it| confusion[it][it]).sum();
    let f1s = (0..k).filter_map(|class| {
        let is: u64 = confusion[class].iter().sum();
        let called: u64 = confusion.iter().map(|row| row[class]).sum();
        (is + called > 0).then(|| 2.0 * confusion[class][class] as f64 / (is + called) as f64)
    });
    let f1s: Vec<f64> = f1s.collect();
    let aucs = scores.iter().enumerate().filter_map(|(class, scores)| {
        let positive: Vec<bool> = truth.iter().map(|&it| it == class).collect();
        Ranking::new(scores).auc(&positive)
    });
    let aucs: Vec<f64> = aucs.collect();
    Some(Classes {
        accuracy: right as f64 / truth.len() as f64,
        macro_f1: mean(&f1s).unwrap_or(0.0),
        macro_auc: mean(&aucs),
        undefined: k - aucs.len(),
        confusion,
    })
}

/// The mean. `None` of nothing.
pub fn mean(numbers: &[f64]) -> Option<f64> {
    (!numbers.is_empty()).then(|| numbers.iter().sum::<f64>() / numbers.len() as f64)
}
