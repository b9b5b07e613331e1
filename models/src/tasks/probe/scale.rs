//! Standardisation: every number of a hidden state with mean 0 and standard deviation 1 over the training rows.
//!
//! Means and deviations are computed in f64, in two passes. A number that hardly varies is divided by a millionth of the median
//! deviation at least, so that rounding is not blown up.

use rayon::prelude::*;

/// The smallest deviation, as a share of the median one.
const SMALLEST: f64 = 1e-6;

/// Rows that one thread adds up.
const ROWS: usize = 2_048;

/// What is taken from each of d numbers, and what it is divided by.
#[derive(Debug, Clone, PartialEq)]
pub struct Standard {
    /// Means over the training rows: [d].
    pub mean: Vec<f64>,
    /// Standard deviations over the training rows: [d].
    pub deviation: Vec<f64>,
}

impl Standard {
    /// Measures training rows [n, d].
    pub fn of(rows: &[f32], width: usize) -> Self {
        let n = (rows.len() / width.max(1)).max(1) as f64;
        let sums = |term: &(dyn Fn(usize, f64) -> f64 + Sync)| {
            let parts: Vec<Vec<f64>> = rows
                .par_chunks(ROWS * width.max(1))
                .map(|chunk| {
                    let mut sums = vec![0.0; width];
                    for row in chunk.chunks(width) {
                        for (column, (sum, &x)) in sums.iter_mut().zip(row).enumerate() {
                            *sum += term(column, f64::from(x));
                        }
                    }
                    sums
                })
                .collect();
            // Parts are added in their order, whatever the number of threads.
            parts.iter().fold(vec![0.0; width], |mut sums, part| {
                sums.iter_mut().zip(part).for_each(|(sum, it)| *sum += it);
                sums
            })
        };
        let mean: Vec<f64> = sums(&|_, x| x).iter().map(|sum| sum / n).collect();
        let squares = sums(&|column, x| (x - mean[column]).powi(2));
        let mut deviation: Vec<f64> = squares.iter().map(|sum| (sum / n).sqrt()).collect();
        let mut sorted = deviation.clone();
        sorted.sort_by(f64::total_cmp);
        let median = sorted.get(width / 2).copied().unwrap_or(0.0);
        // What never varies is 0 whatever it is divided by.
        let smallest = if median > 0.0 { median * SMALLEST } else { 1.0 };
        for deviation in &mut deviation {
            *deviation = deviation.max(smallest);
        }
        Self { mean, deviation }
    }

    /// Replaces rows [n, d] by standardised ones.
    pub fn apply(&self, rows: &mut [f32]) {
        let width = self.mean.len().max(1);
        rows.par_chunks_mut(width).for_each(|row| {
            for ((x, mean), deviation) in row.iter_mut().zip(&self.mean).zip(&self.deviation) {
                *x = ((f64::from(*x) - mean) / deviation) as f32;
            }
        });
    }

    /// How far a row [d] lies from the mean: the length of it when it is standardised.
    pub fn distance(&self, row: &[f32]) -> f64 {
        let columns = row.iter().zip(&self.mean).zip(&self.deviation);
        let squares =
            columns.map(|((x, mean), deviation)| ((f64::from(*x) - mean) / deviation).powi(2));
        squares.sum::<f64>().sqrt()
    }

    /// The same classifier for rows that were not standardised: weights [d] and a bias.
    pub fn fold_back(&self, weights: &[f64], bias: f64) -> (Vec<f64>, f64) {
        let raw = weights.iter().zip(&self.deviation).map(|(w, s)| w / s);
        let raw: Vec<f64> = raw.collect();
        let shift: f64 = raw.iter().zip(&self.mean).map(|(w, m)| w * m).sum();
        (raw, bias - shift)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn what_is_folded_back_scores_raw_rows_the_same() {
        let mut random = Random::new(3);
        let raw: Vec<f32> = (0..600)
            .map(|it| (random.normal() * 10f64.powi(it % 3) + 5.0) as f32)
            .collect();
        let standard = Standard::of(&raw, 3);
        let mut rows = raw.clone();
        standard.apply(&mut rows);
        let weights = [0.3, -1.2, 0.7];
        let (folded, bias) = standard.fold_back(&weights, 0.25);
        let score = |row: &[f32], weights: &[f64], bias: f64| {
            row.iter()
                .zip(weights)
                .map(|(x, w)| f64::from(*x) * w)
                .sum::<f64>()
                + bias
        };
        for (raw, row) in raw.chunks(3).zip(rows.chunks(3)) {
            let apart = score(raw, &folded, bias) - score(row, &weights, 0.25);
            assert!(apart.abs() < 1e-5, "{apart}");
        }
    }

    #[test]
    fn a_row_is_as_far_from_the_mean_as_it_is_long_when_standardised() {
        let standard = Standard {
            mean: vec![1.0, -2.0],
            deviation: vec![2.0, 0.5],
        };
        assert_eq!(standard.distance(&[1.0, -2.0]), 0.0);
        assert_eq!(standard.distance(&[7.0, 0.0]), 5.0);
    }

    #[test]
    fn a_number_that_never_varies_does_no_harm() {
        let mut rows = vec![1.0, 7.0, 2.0, 7.0, 3.0, 7.0];
        Standard::of(&rows, 2).apply(&mut rows);
        assert!(rows.iter().all(|it| it.is_finite()));
        assert_eq!([rows[1], rows[3], rows[5]], [0.0; 3]);
        let mut same = vec![4.0; 6];
        Standard::of(&same, 2).apply(&mut same);
        assert_eq!(same, [0.0; 6]);
    }
}
