//! What networks for pictures compute: kernels of every kind that they have, norms over a batch, pools, patches as tokens.

use candle_core::Tensor;

use super::trial::{Input, Operation, StepTrial, trial};
use crate::{
    Result,
    ops::{
        batch_norm::{Moments, Then, batch_norm, follow},
        convolution::{Geometry, convolution},
        patches::with_class_token,
        pool::max_pool,
    },
    tape::Value,
};

const EPSILON: f64 = 1e-5;

/// Pixels of all pictures of the largest trial, over which a weight's gradient is summed.
const MAX_PLACES: usize = 4 * 32 * 32;

const fn geometry(kernel: usize, stride: usize, padding: usize) -> Geometry {
    Geometry {
        kernel,
        stride,
        padding,
    }
}

/// A picture [n, h, w, c], and how many channels are made of it by which kernel.
type Convolved = ([usize; 4], usize, Geometry);

pub(super) fn convolutions() -> Result<Operation> {
    // One channel, odd sides, more channels than a tile has, stems of photos and of small pictures, and shortcuts.
    const SIZES: &[Convolved] = &[
        ([1, 7, 9, 1], 1, geometry(3, 1, 1)),
        ([2, 5, 7, 33], 17, geometry(3, 1, 0)),
        ([2, 9, 8, 3], 24, geometry(2, 1, 0)),
        ([2, 13, 15, 3], 16, geometry(7, 2, 3)),
        ([2, 8, 8, 16], 40, geometry(5, 1, 2)),
        ([2, 8, 8, 64], 128, geometry(1, 2, 0)),
        ([2, 8, 8, 64], 64, geometry(1, 1, 0)),
        ([2, 9, 9, 64], 128, geometry(3, 2, 1)),
        ([3, 4, 4, 512], 256, geometry(3, 1, 1)),
        ([4, 32, 32, 64], 64, geometry(3, 1, 1)),
    ];
    let mut trials = Vec::new();
    for (index, &(shape, out, geometry)) in SIZES.iter().enumerate() {
        let side = geometry.kernel;
        let x = Input::activation("the picture", &shape)?;
        let x = if index % 4 == 1 { x.inside() } else { x };
        let weight = Input::master("the kernel", &[out, shape[3], side, side])?;
        let mut inputs = vec![x, weight];
        if index % 2 == 0 {
            inputs.push(Input::master("bias", &[out])?);
        }
        trials.push(trial(inputs, move |_, v| {
            convolution(&v[0], &v[1], v.get(2), geometry)
        }));
    }
    Operation::of(MAX_PLACES, trials)
}

pub(super) fn norms_of_batches() -> Result<Operation> {
    let mut trials = Vec::new();
    for then in [Then::Nothing, Then::Relu, Then::Gelu] {
        // A mean that is not 0 has to be taken away.
        let x = |shape: &[usize]| Input::activation("x", shape)?.affine(1.0, 0.5);
        for rows in [
            x(&[5, 1])?,
            x(&[2, 3, 3, 33])?,
            x(&[40, 72])?.transposed(),
            x(&[7, 130])?.affine(1e3, 0.0)?,
        ] {
            trials.push(norm(rows, then, None)?);
        }
        let added = Input::activation("what is added", &[2, 5, 5, 64])?;
        trials.push(norm(x(&[2, 5, 5, 64])?.inside(), then, Some(added))?);
    }
    for width in [33, 64] {
        trials.push(running(width)?);
    }
    let large = [4, 16, 16, 128];
    let added = Input::activation("what is added", &large)?;
    trials.push(norm(
        Input::activation("x", &large)?,
        Then::Relu,
        Some(added),
    )?);
    Operation::of(MAX_PLACES, trials)
}

/// What is known of channels follows a batch.
fn running(width: usize) -> Result<StepTrial> {
    let inputs = ["mean", "variance"].map(|name| Input::master(name, &[width]));
    let [mean, variance] = inputs;
    let now = Input::master("of the batch", &[2, width])?;
    let inputs = [mean?, variance?, now].map(Input::frozen).to_vec();
    Ok(trial(inputs, |_, v| {
        let running = [v[0].tensor(), v[1].tensor()];
        let after = follow(running, v[2].tensor(), 9, 0.1)?;
        Ok(Value::constant(Tensor::stack(&after, 0)?))
    }))
}

fn norm(x: Input, then: Then, added: Option<Input>) -> Result<StepTrial> {
    let width = [x.width()];
    let mut inputs = vec![
        x,
        Input::master("weight", &width)?,
        Input::master("bias", &width)?,
    ];
    inputs.extend(added);
    Ok(trial(inputs, move |_, v| {
        let both = [&v[1], &v[2]];
        Ok(batch_norm(&v[0], both, Moments::OfBatch, v.get(3), then, EPSILON)?.value)
    }))
}

pub(super) fn pools() -> Result<Operation> {
    let mut trials = Vec::new();
    for (shape, window) in [
        ([1, 4, 4, 1], geometry(2, 2, 0)),
        ([2, 7, 9, 33], geometry(2, 2, 0)),
        ([2, 9, 7, 5], geometry(3, 2, 1)),
        ([2, 6, 6, 40], geometry(3, 3, 0)),
        ([4, 32, 32, 64], geometry(3, 2, 1)),
    ] {
        let x = Input::activation("x", &shape)?;
        trials.push(trial(vec![x], move |_, v| max_pool(&v[0], window)));
    }
    Operation::of(9, trials)
}

/// Pictures whose gradients the learned vectors of all places sum.
const MAX_PICTURES: usize = 3;

pub(super) fn patches() -> Result<Operation> {
    let mut trials = Vec::new();
    for [b, h, w, d] in [[1, 1, 1, 1], [2, 3, 5, 33], [MAX_PICTURES, 14, 14, 192]] {
        let inputs = vec![
            Input::activation("the patches", &[b, h, w, d])?,
            Input::master("the class", &[1, 1, d])?,
            Input::master("the places", &[1, 1 + h * w, d])?,
        ];
        trials.push(trial(inputs, |_, v| with_class_token(&v[0], &v[1], &v[2])));
    }
    Operation::of(MAX_PICTURES, trials)
}
