//! Logistic regression by Newton's steps, in f64 throughout: for few numbers a row, and to check the other solver.
//!
//! Deliberately absent: sharing among labels, since every label has a Hessian of its own.

use super::lbfgs::LinearClassifier;
use crate::{Error, Result};

/// Steps after which it is given up.
const STEPS: usize = 100;
/// Numbers a row, at most: a step takes d² n products.
pub const WIDEST: usize = 512;

/// Fits one label to rows [n, d]; the objective is that of [`lbfgs`](super::lbfgs). `weights` are those of a negative and of a
/// positive row.
///
/// Errors: [`Error::Data`] when the rows have more numbers than [`WIDEST`].
pub fn minimize(
    rows: &[f64],
    width: usize,
    positive: &[bool],
    weights: [f64; 2],
    c: f64,
) -> Result<LinearClassifier> {
    if width > WIDEST {
        return Err(Error::Data(format!(
            "Newton’s steps are for rows of at most {WIDEST} numbers, and these have {width}; use the solver `exact`"
        )));
    }
    let size = width + 1;
    let mut unknowns = vec![0.0; size];
    let mut fit = LinearClassifier {
        weights: Vec::new(),
        bias: 0.0,
        objective: f64::INFINITY,
        gradient: f64::INFINITY,
        iterations: 0,
        converged: false,
    };
    let objective = |unknowns: &[f64]| objective(rows, positive, unknowns, weights, c);
    let mut value = objective(&unknowns);
    while fit.iterations < STEPS {
        let (gradient, mut hessian) = derivatives(rows, positive, &unknowns, weights, c);
        fit.gradient = gradient.iter().fold(0.0, |most, it| it.abs().max(most));
        let Some(step) = solve(&mut hessian, &gradient) else {
            break;
        };
        let gain: f64 = step.iter().zip(&gradient).map(|(s, g)| s * g).sum();
        if gain <= 1e-14 * value.abs() {
            fit.converged = true;
            break;
        }
        let mut share = 1.0;
        let taken = loop {
            let next: Vec<f64> = unknowns
                .iter()
                .zip(&step)
                .map(|(x, s)| x - share * s)
                .collect();
            let after = objective(&next);
            if after <= value - 1e-4 * share * gain || share < 1e-10 {
                break (after < value).then_some((next, after));
            }
            share /= 2.0;
        };
        let Some((next, after)) = taken else {
            // Rounding is all that is left.
            fit.converged = gain <= 1e-9 * value.abs();
            break;
        };
        (unknowns, value) = (next, after);
        fit.iterations += 1;
    }
    fit.objective = value;
    fit.bias = unknowns.pop().unwrap_or(0.0);
    fit.weights = unknowns;
    Ok(fit)
}

fn objective(rows: &[f64], positive: &[bool], unknowns: &[f64], weights: [f64; 2], c: f64) -> f64 {
    let penalised = &unknowns[..unknowns.len() - 1];
    let each = rows.chunks(penalised.len()).zip(positive);
    let losses = each.map(|(row, &positive)| {
        let margin = score(row, unknowns) * if positive { 1.0 } else { -1.0 };
        weights[usize::from(positive)] * ((-margin).max(0.0) + (-margin.abs()).exp().ln_1p())
    });
    c * losses.sum::<f64>() + penalised.iter().map(|it| it * it).sum::<f64>() / 2.0
}

/// w·x + b, with b after the weights.
fn score(row: &[f64], unknowns: &[f64]) -> f64 {
    let terms = row.iter().zip(unknowns).map(|(x, w)| x * w);
    terms.sum::<f64>() + unknowns[row.len()]
}

/// The gradient [d + 1] and the lower triangle of the Hessian [d + 1, d + 1].
fn derivatives(
    rows: &[f64],
    positive: &[bool],
    unknowns: &[f64],
    weights: [f64; 2],
    c: f64,
) -> (Vec<f64>, Vec<f64>) {
    let size = unknowns.len();
    let mut gradient: Vec<f64> = unknowns.to_vec();
    gradient[size - 1] = 0.0;
    let mut hessian = vec![0.0; size * size];
    for at in 0..size - 1 {
        hessian[at * size + at] = 1.0;
    }
    let mut with_one = vec![1.0; size];
    for (row, &positive) in rows.chunks(size - 1).zip(positive) {
        with_one[..size - 1].copy_from_slice(row);
        let p = 1.0 / (1.0 + (-score(row, unknowns)).exp());
        let weight = c * weights[usize::from(positive)];
        let left = weight * (p - f64::from(u8::from(positive)));
        let spread = weight * p * (1.0 - p);
        for (at, x) in with_one.iter().enumerate() {
            gradient[at] += left * x;
            let line = &mut hessian[at * size..=at * size + at];
            for (to, other) in line.iter_mut().zip(&with_one) {
                *to += spread * x * other;
            }
        }
    }
    (gradient, hessian)
}

/// Solves A x = b by the factor of the lower triangle of A, which it replaces. `None` where A is not positive.
fn solve(matrix: &mut [f64], right: &[f64]) -> Option<Vec<f64>> {
    let n = right.len();
    for row in 0..n {
        let (above, rest) = matrix.split_at_mut(row * n);
        for column in 0..row {
            let of = &above[column * n..];
            let sum: f64 = (0..column).map(|at| rest[at] * of[at]).sum();
            rest[column] = (rest[column] - sum) / of[column];
        }
        let square = rest[row] - rest[..row].iter().map(|it| it * it).sum::<f64>();
        if square.is_nan() || square <= 0.0 {
            return None;
        }
        rest[row] = square.sqrt();
    }
    let mut x = right.to_vec();
    for row in 0..n {
        let sum: f64 = (0..row).map(|at| matrix[row * n + at] * x[at]).sum();
        x[row] = (x[row] - sum) / matrix[row * n + row];
    }
    for row in (0..n).rev() {
        let sum: f64 = (row + 1..n).map(|at| matrix[at * n + row] * x[at]).sum();
        x[row] = (x[row] - sum) / matrix[row * n + row];
    }
    Some(x)
}
