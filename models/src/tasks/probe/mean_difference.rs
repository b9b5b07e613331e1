//! The difference of two means as a classifier: no training, and the direction that steering wants (Marks and Tegmark, 2023).

use super::lbfgs::LinearClassifier;

/// The mean of the positive rows less that of the others, of rows [n, d], with a bias halfway between. `None` where one of both is
/// absent.
pub fn fit(rows: &[f32], width: usize, positive: &[bool]) -> Option<LinearClassifier> {
    let mut sums = [vec![0.0; width], vec![0.0; width]];
    let mut counts = [0.0; 2];
    for (row, &positive) in rows.chunks(width.max(1)).zip(positive) {
        let class = usize::from(positive);
        counts[class] += 1.0;
        for (sum, x) in sums[class].iter_mut().zip(row) {
            *sum += f64::from(*x);
        }
    }
    if counts.contains(&0.0) {
        return None;
    }
    let [no, yes] = sums;
    let mean = |sum: f64, class: usize| sum / counts[class];
    let both = no.iter().zip(&yes).map(|(a, b)| (mean(*a, 0), mean(*b, 1)));
    let weights: Vec<f64> = both.clone().map(|(a, b)| b - a).collect();
    let bias = both.map(|(a, b)| (a - b) * (a + b) / 2.0).sum();
    Some(LinearClassifier {
        weights,
        bias,
        objective: 0.0,
        gradient: 0.0,
        iterations: 0,
        converged: true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bias_lies_halfway_between_the_means() {
        let rows = [0.0, 0.0, 2.0, 0.0, 4.0, 2.0, 6.0, 2.0];
        let fit = fit(&rows, 2, &[false, false, true, true]).unwrap();
        assert_eq!(fit.weights, [4.0, 2.0]);
        // Halfway: (3, 1).
        assert_eq!(4.0 * 3.0 + 2.0 + fit.bias, 0.0);
        assert_eq!(super::fit(&rows, 2, &[true; 4]), None);
    }
}
