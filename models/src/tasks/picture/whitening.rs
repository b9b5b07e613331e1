//! A first layer that follows from the pictures: small patches of them, turned so that their numbers say nothing of one another and
//! have the deviation 1 (Jordan's airbench94, <https://github.com/KellerJordan/cifar10-airbench>).
//!
//! The weights are the eigenvectors of the covariance of patches, the largest eigenvalue first, each divided by √(λ + 5e-4), and then
//! the negatives of all.

use candle_core::{Device, Tensor};

use super::pixels::Shape;
use crate::Result;

/// What is added to an eigenvalue.
const EPSILON: f64 = 5e-4;
/// Pictures that are enough to know the covariance.
pub(super) const PICTURES: usize = 5000;
/// Turns after which a matrix of some dozen rows is diagonal to the last digit.
const MAX_SWEEPS: usize = 60;

/// The weights [2 d, c, k, k] of pictures as a network is shown them, [n, h, w, c] of `shape`, with d = c k k.
pub(super) fn weights(pictures: &[f32], shape: Shape, side: usize) -> Result<Tensor> {
    let covariance = covariance(pictures, shape, side);
    let (values, vectors) = eigen(covariance);
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*b].total_cmp(&values[*a]));
    let turned: Vec<f32> = order
        .iter()
        .flat_map(|&at| {
            let vector = upright(vectors.iter().map(|row| row[at]).collect());
            let factor = 1.0 / (values[at].max(0.0) + EPSILON).sqrt();
            vector.into_iter().map(move |it| (it * factor) as f32)
        })
        .collect();
    let all: Vec<f32> = turned
        .iter()
        .copied()
        .chain(turned.iter().map(|it| -it))
        .collect();
    let dims = (2 * values.len(), shape.channels, side, side);
    Ok(Tensor::from_vec(all, dims, &Device::Cpu)?)
}

/// A vector or its negative, which is an eigenvector as well: the one whose largest number is positive.
fn upright(vector: Vec<f64>) -> Vec<f64> {
    let largest = vector.iter().fold(
        0.0f64,
        |most, it| if it.abs() > most.abs() { *it } else { most },
    );
    match largest < 0.0 {
        true => vector.into_iter().map(|it| -it).collect(),
        false => vector,
    }
}

/// Mean products of the numbers of all patches, channel by channel as in weights: [d][d]. As in the source, no mean is taken away:
/// pictures have mean 0 already.
fn covariance(pictures: &[f32], shape: Shape, side: usize) -> Vec<Vec<f64>> {
    let Shape {
        height,
        width,
        channels,
    } = shape;
    let depth = channels * side * side;
    let mut sums = vec![vec![0.0; depth]; depth];
    let mut patch = vec![0.0; depth];
    let mut count = 0.0;
    for picture in pictures.chunks_exact(shape.bytes().max(1)) {
        for top in 0..=height.saturating_sub(side) {
            for left in 0..=width.saturating_sub(side) {
                for (at, number) in patch.iter_mut().enumerate() {
                    let (channel, place) = (at / (side * side), at % (side * side));
                    let (row, column) = (top + place / side, left + place % side);
                    *number = f64::from(picture[(row * width + column) * channels + channel]);
                }
                for (sums, one) in sums.iter_mut().zip(&patch) {
                    for (sum, other) in sums.iter_mut().zip(&patch) {
                        *sum += one * other;
                    }
                }
                count += 1.0;
            }
        }
    }
    for sum in sums.iter_mut().flatten() {
        *sum /= f64::max(count, 1.0);
    }
    sums
}

/// The eigenvalues of a symmetric matrix, and its eigenvectors as columns, by the turns of Jacobi.
fn eigen(mut matrix: Vec<Vec<f64>>) -> (Vec<f64>, Vec<Vec<f64>>) {
    let size = matrix.len();
    let mut vectors: Vec<Vec<f64>> = (0..size)
        .map(|row| {
            (0..size)
                .map(|column| f64::from(u8::from(row == column)))
                .collect()
        })
        .collect();
    for _ in 0..MAX_SWEEPS {
        let mut left = 0.0;
        for p in 0..size {
            for q in p + 1..size {
                let off = matrix[p][q];
                left += off * off;
                if off == 0.0 {
                    continue;
                }
                let slope = (matrix[q][q] - matrix[p][p]) / (2.0 * off);
                let tangent = slope.signum() / (slope.abs() + (slope * slope + 1.0).sqrt());
                let tangent = if slope == 0.0 { 1.0 } else { tangent };
                let cosine = 1.0 / (tangent * tangent + 1.0).sqrt();
                let sine = tangent * cosine;
                for row in &mut matrix {
                    (row[p], row[q]) = (
                        cosine * row[p] - sine * row[q],
                        sine * row[p] + cosine * row[q],
                    );
                }
                let (above, below) = matrix.split_at_mut(q);
                for (one, other) in above[p].iter_mut().zip(&mut below[0]) {
                    (*one, *other) = (cosine * *one - sine * *other, sine * *one + cosine * *other);
                }
                for row in &mut vectors {
                    (row[p], row[q]) = (
                        cosine * row[p] - sine * row[q],
                        sine * row[p] + cosine * row[q],
                    );
                }
            }
        }
        if left < 1e-30 {
            break;
        }
    }
    let values = (0..size).map(|at| matrix[at][at]).collect();
    (values, vectors)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn turned_patches_have_deviation_one_and_say_nothing_of_one_another() {
        let shape = Shape::square(6, 3);
        let mut random = Random::new(1);
        let mut last = [0.0f32; 3];
        // Neighbours are alike, as in pictures.
        let pictures: Vec<f32> = (0..40 * shape.bytes())
            .map(|at| {
                let kept = 0.8 * last[at % 3] + 0.4 * random.normal() as f32;
                last[at % 3] = kept;
                kept
            })
            .collect();
        let weights = weights(&pictures, shape, 2).unwrap();
        assert_eq!(weights.dims(), [24, 3, 2, 2]);
        let rows: Vec<Vec<f32>> = weights.flatten_from(1).unwrap().to_vec2().unwrap();
        let covariance = covariance(&pictures, shape, 2);
        let product = |one: &[f32], other: &[f32]| -> f64 {
            let all = covariance.iter().zip(one);
            all.map(|(line, a)| {
                let sum: f64 = line.iter().zip(other).map(|(c, b)| c * f64::from(*b)).sum();
                f64::from(*a) * sum
            })
            .sum()
        };
        for one in 0..12 {
            for other in 0..12 {
                let found = product(&rows[one], &rows[other]);
                match one == other {
                    // λ / (λ + ε).
                    true => assert!((0.9..1.0).contains(&found), "{one}: {found}"),
                    false => assert!(found.abs() < 1e-5, "{one} and {other}: {found}"),
                }
            }
            assert!(rows[one].iter().zip(&rows[one + 12]).all(|(a, b)| *a == -b));
        }
    }
}
