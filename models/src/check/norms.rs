//! Norms: one row, widths just over 1024, rows that are apart in memory, and numbers far from 1.

use super::trial::{Input, Operation, trial};
use crate::{
    Result,
    ops::{
        feed_forward::Along,
        norm::{layer_norm, residual_norm, rms_norm},
    },
};

const EPSILON: f64 = 1e-5;

/// The longest sum goes over the rows, for the gradient of the weight.
const MAX_ROWS: usize = 1030;

pub(super) fn rms_norm_on_rows() -> Result<Operation> {
    let mut trials = Vec::new();
    for (index, x) in rows(0.0)?.into_iter().enumerate() {
        let width = [x.width()];
        // A weight that learns is f32 whatever the rows are; one that doesn't is kept as they are.
        let weight = match index % 2 == 0 {
            true => Input::activation("weight", &width)?.frozen(),
            false => Input::master("weight", &width)?,
        };
        let offset = (index % 3) as f64 / 2.0;
        trials.push(trial(vec![x, weight], move |_, v| {
            rms_norm(&v[0], &v[1], offset, EPSILON)
        }));
    }
    Operation::of(MAX_ROWS, trials)
}

pub(super) fn layer_norm_on_rows() -> Result<Operation> {
    let mut trials = Vec::new();
    // A mean that is not 0 has to be taken away.
    for x in rows(0.5)? {
        let width = [x.width()];
        let inputs = vec![
            x,
            Input::master("weight", &width)?,
            Input::master("bias", &width)?,
        ];
        trials.push(trial(inputs, |_, v| {
            layer_norm(&v[0], &v[1], &v[2], EPSILON)
        }));
    }
    Operation::of(MAX_ROWS, trials)
}

/// Along both dimensions: whole packs of numbers and others, and more lines than a kernel keeps at hand. A line has several numbers:
/// that of one is its sign, whose gradient is nothing but what was rounded.
pub(super) fn norms_of_sums() -> Result<Operation> {
    let mut trials = Vec::new();
    for along in [Along::First, Along::Last] {
        let of = |shape: &[usize]| -> Result<[Input; 2]> {
            Ok([
                Input::activation("x", shape)?,
                Input::activation("the branch", shape)?,
            ])
        };
        let [inside, plain] = of(&[2, 5, 64])?;
        let [turned, other] = of(&[40, 72])?;
        let [large, small] = of(&[97, 130])?;
        let pairs = [
            of(&[4, 65])?,
            of(&[65, 4])?,
            of(&[3, 33])?,
            [inside.inside(), plain],
            [turned.transposed(), other],
            [large.affine(1e3, 0.0)?, small],
            of(&[97, 520])?,
            of(&[MAX_ROWS, 1032])?,
        ];
        for inputs in pairs {
            trials.push(trial(inputs.into(), move |_, v| {
                residual_norm(&v[0], &v[1], along, EPSILON)
            }));
        }
    }
    Operation::of(MAX_ROWS, trials)
}

/// Rows with this mean, in units of their own size.
fn rows(mean: f64) -> Result<Vec<Input>> {
    let x = |shape: &[usize]| Input::activation("x", shape)?.affine(1.0, mean);
    Ok(vec![
        x(&[1, 64])?,
        x(&[3, 33])?,
        x(&[3, 1025])?,
        x(&[2, 5, 576])?.inside(),
        x(&[40, 72])?.transposed(),
        x(&[7, 130])?.affine(1e3, 0.0)?,
        x(&[7, 130])?.affine(1e-3, 0.0)?,
        x(&[MAX_ROWS, 512])?,
    ])
}
