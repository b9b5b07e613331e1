//! Whether probabilities are what they say: Brier’s score, the expected calibration error, and a scale fitted to correct them.

use serde::{Deserialize, Serialize};

use super::newton;
use crate::Result;

/// Parts of equally many rows that the calibration error is measured in.
pub const BINS: usize = 15;

/// Rows of similar probability, and how often they are positive.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "specta",
    derive(specta::Type),
    serde(rename = "CalibrationBin")
)]
pub struct Bin {
    /// Rows.
    pub rows: u64,
    /// The mean of their probabilities.
    pub probability: f64,
    /// The share of them that are positive.
    pub positive: f64,
}

/// Scores to probabilities: 1 / (1 + e^-(scale · score + shift)). Fitted on validation rows (Platt, 1999).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "specta",
    derive(specta::Type),
    serde(rename = "CalibrationScale")
)]
pub struct Scale {
    /// What a score is multiplied by: one over the temperature.
    pub scale: f64,
    /// What is added after that.
    pub shift: f64,
}

/// 1 / (1 + e^-score).
pub fn probability(score: f32) -> f64 {
    1.0 / (1.0 + (-f64::from(score)).exp())
}

/// The mean of (p - y)². `None` without rows.
pub fn brier(probabilities: &[f64], positive: &[bool]) -> Option<f64> {
    let squares = probabilities
        .iter()
        .zip(positive)
        .map(|(p, &y)| (p - f64::from(u8::from(y))).powi(2));
    (!positive.is_empty()).then(|| squares.sum::<f64>() / positive.len() as f64)
}

/// Rows in [`BINS`] parts of equal size by their probability. Rows of one probability stay in one part, so that the order of rows
/// says nothing.
pub fn bins(probabilities: &[f64], positive: &[bool]) -> Vec<Bin> {
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    order.sort_by(|&a, &b| probabilities[a].total_cmp(&probabilities[b]));
    let mut bins = Vec::new();
    let (mut current, mut sum, mut yes, mut rows) = (0, 0.0, 0u64, 0u64);
    let mut close = |sum: &mut f64, yes: &mut u64, rows: &mut u64| {
        if *rows > 0 {
            bins.push(Bin {
                rows: *rows,
                probability: *sum / *rows as f64,
                positive: *yes as f64 / *rows as f64,
            });
        }
        (*sum, *yes, *rows) = (0.0, 0, 0);
    };
    for (at, &row) in order.iter().enumerate() {
        let is_new = at == 0 || probabilities[order[at - 1]] != probabilities[row];
        let bin = at * BINS / order.len();
        if is_new && bin != current {
            close(&mut sum, &mut yes, &mut rows);
            current = bin;
        }
        sum += probabilities[row];
        yes += u64::from(positive[row]);
        rows += 1;
    }
    close(&mut sum, &mut yes, &mut rows);
    bins
}

/// Σ (rows / n) |positive - probability| over the parts: the expected calibration error. `None` without rows.
pub fn error(bins: &[Bin]) -> Option<f64> {
    let n: u64 = bins.iter().map(|it| it.rows).sum();
    let parts = bins
        .iter()
        .map(|it| it.rows as f64 * (it.positive - it.probability).abs());
    (n > 0).then(|| parts.sum::<f64>() / n as f64)
}

/// Fits the scale on validation rows. `None` where a class is absent, or where higher scores are not more often positive.
pub fn fit(scores: &[f32], positive: &[bool]) -> Result<Option<Scale>> {
    /// So weak a penalty that it only keeps scores without overlap from growing without end.
    const WEAK: f64 = 1e4;
    let first = positive.first();
    if positive.iter().all(|it| Some(it) == first) {
        return Ok(None);
    }
    let rows: Vec<f64> = scores.iter().map(|&it| f64::from(it)).collect();
    let fit = newton::minimize(&rows, 1, positive, [1.0; 2], WEAK)?;
    Ok((fit.weights[0] > 0.0).then_some(Scale {
        scale: fit.weights[0],
        shift: fit.bias,
    }))
}

impl Scale {
    /// The probability of a score.
    pub fn probability(&self, score: f32) -> f64 {
        1.0 / (1.0 + (-(self.scale * f64::from(score) + self.shift)).exp())
    }
}
