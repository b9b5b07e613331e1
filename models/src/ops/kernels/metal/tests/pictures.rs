//! What networks for pictures and puzzles are made of, weights in codes, and dropout.

use candle_core::{DType, Tensor};

use super::{check, stand_in};
use crate::{
    Result,
    ops::{
        batch_norm::{Moments, Then, batch_norm, follow},
        classify::{Squash, classify},
        convolution::{Geometry, convolution},
        dropout::{Dropout, dropout},
        linear::linear,
        pool::max_pool,
        testing::{check_close, normal},
        weight::{Quantized, nf4::MakeNf4},
    },
    tape::{Tape, Value},
};

const fn geometry(kernel: usize, stride: usize, padding: usize) -> Geometry {
    Geometry {
        kernel,
        stride,
        padding,
    }
}

#[test]
fn convolutions_equal_the_composition() {
    for (shape, out, geometry) in [
        ([2, 7, 9, 4], 8, geometry(3, 2, 1)),
        ([1, 8, 8, 3], 5, geometry(2, 1, 0)),
        ([2, 6, 5, 8], 4, geometry(1, 2, 0)),
        ([2, 5, 5, 4], 6, geometry(1, 1, 0)),
    ] {
        let side = geometry.kernel;
        let depth = (side * side * shape[3]) as f64;
        let inputs = [
            normal(1, &shape),
            (normal(2, &[out, shape[3], side, side]) / depth.sqrt()).unwrap(),
            normal(3, &[out]),
        ];
        let kernels: &[&str] = match geometry == self::geometry(1, 1, 0) {
            true => &[],
            false => &["patches", "patches_back"],
        };
        check(&inputs, 2e-5, kernels, |v| {
            convolution(&v[0], &v[1], Some(&v[2]), geometry)
        });
    }
}

#[test]
fn pools_equal_the_composition() {
    for (shape, window) in [
        ([2, 9, 7, 4], geometry(3, 2, 1)),
        ([1, 8, 8, 3], geometry(2, 2, 0)),
    ] {
        let kernels = ["max_pool", "max_pool_back"];
        check(&[normal(1, &shape)], 1e-6, &kernels, |v| {
            max_pool(&v[0], window)
        });
    }
}

#[test]
fn norms_over_a_batch_equal_the_composition() {
    let kernels = [
        "batch_apply",
        "batch_back",
        "batch_channels",
        "batch_slope_sums",
        "batch_slopes",
        "batch_sums",
    ];
    for shape in [&[6, 5, 5, 72][..], &[37, 21], &[2, 1]] {
        let channels = &shape[shape.len() - 1..];
        // A mean that is not 0 has to be taken away.
        let x = (normal(1, shape) + 0.5).unwrap();
        let inputs = [
            x,
            normal(2, channels),
            normal(3, channels),
            normal(4, shape),
        ];
        for then in [Then::Nothing, Then::Relu, Then::Gelu] {
            for count in [3, 4] {
                // Two rows are as good as one number and its negative: the gradient is 0 but for roundings.
                if shape[0] == 2 && then != Then::Nothing {
                    continue;
                }
                check(&inputs[..count], 5e-5, &kernels, |v| {
                    let norm = batch_norm(
                        &v[0],
                        [&v[1], &v[2]],
                        Moments::OfBatch,
                        v.get(3),
                        then,
                        1e-2,
                    );
                    Ok(norm?.value)
                });
            }
        }
    }
}

#[test]
fn running_means_follow_as_in_the_composition() {
    if !stand_in::is_there() {
        return;
    }
    let of = |seed, shape: &[usize]| normal(seed, shape).to_dtype(DType::F32).unwrap();
    for width in [72, 21] {
        let (mean, variance, now) = (of(1, &[width]), of(2, &[width]), of(3, &[2, width]));
        let run = || follow([&mean, &variance], &now, 9, 0.1).unwrap();
        let (expected, (got, launches)) = (run(), stand_in::with(run));
        assert_eq!(launches["batch_follow"], 1);
        for (got, expected) in got.iter().zip(&expected) {
            check_close("running", got, expected, 1e-6);
        }
    }
}

#[test]
fn losses_of_few_classes_equal_the_composition() {
    for (rows, classes) in [(300, 12), (33, 11), (5, 2)] {
        let meant: Vec<u32> = (0..rows as u32)
            .map(|row| row * 7 % classes as u32)
            .collect();
        let weights: Vec<f64> = (0..rows).map(|row| f64::from(row % 3 != 1)).collect();
        for squash in [Squash::Stablemax, Squash::Softmax] {
            let scores = (normal(1, &[rows, classes]) * 3.0).unwrap();
            check(&[scores], 2e-5, &["classify"], |v| {
                let device = v[0].tensor().device();
                let meant = Tensor::new(meant.as_slice(), device)?;
                let weights = Tensor::new(weights.as_slice(), device)?;
                classify(&v[0], &meant, &weights, squash, 0.1)
            });
        }
    }
}

#[test]
fn dropout_draws_the_mask_of_the_composition() {
    for shape in [[70, 64], [33, 7]] {
        check(&[normal(1, &shape)], 1e-6, &["dropout"], |v| {
            dropout(&v[0], Dropout::new(Some(&Tape::new(7)), 0.3, "place"))
        });
    }
}

#[test]
fn weights_in_codes_give_what_their_numbers_give() {
    for (outputs, width, nested) in [(24, 64, true), (5, 33, true), (5, 47, false)] {
        let mut made = MakeNf4::new([outputs, width]);
        let numbers = normal(2, &[outputs, width]).to_dtype(DType::F32).unwrap();
        made.push(&numbers.flatten_all().unwrap().to_vec1().unwrap());
        let stored = if nested { made.nested() } else { made.plain() };
        let x = (normal(1, &[9, width]) / (width as f64).sqrt()).unwrap();
        check(&[x], 2e-5, &["widen_codes"], |v| -> Result<Value> {
            let codes = stored.clone().on(v[0].tensor().device())?;
            linear(&v[0], Quantized::new(codes)?, None)
        });
    }
}
