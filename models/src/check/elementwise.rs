//! Gates, sums, and what changes shape, dtype or nothing but a share of the numbers.

use candle_core::{D, DType};

use super::trial::{Input, Operation, trial};
use crate::{
    Result,
    ops::{
        dropout::{Dropout, dropout},
        elementwise::{add, convert, narrow, reshape, scale},
        gated::{Activation, gated, gated_joined},
    },
    tape::{Tape, Value},
};

pub(super) fn gates() -> Result<Operation> {
    let mut trials = Vec::new();
    for activation in [Activation::Gelu, Activation::GeluTanh, Activation::Silu] {
        let both = |shape: &[usize], size: f64| -> Result<Vec<Input>> {
            let gate = Input::activation("the gate", shape)?.affine(size, 0.0)?;
            Ok(vec![gate, Input::activation("up", shape)?])
        };
        let gate = move |_: &Tape, v: &[Value]| gated(&v[0], &v[1], activation);
        // Wide enough to meet both ends of the activation.
        trials.push(trial(both(&[1, 7], 6.0)?, gate));
        trials.push(trial(both(&[3, 1025], 6.0)?, gate));
        trials.push(trial(both(&[3, 33], 100.0)?, gate));
        trials.push(trial(both(&[3, 33], 1e-3)?, gate));
        let parts = both(&[2, 5, 40], 2.0)?.into_iter().map(Input::inside);
        trials.push(trial(parts.collect(), gate));
        let parts = both(&[40, 72], 2.0)?.into_iter().map(Input::transposed);
        trials.push(trial(parts.collect(), gate));
        for width in [2 * 33, 2 * 40] {
            let both = Input::activation("gate and up", &[3, width])?;
            trials.push(trial(vec![both], move |_, v| {
                gated_joined(&v[0], activation)
            }));
        }
        trials.push(trial(both(&[2, 256, 1536], 3.0)?, gate));
    }
    Operation::of(1, trials)
}

pub(super) fn sums() -> Result<Operation> {
    let pair = |shape: &[usize]| -> Result<[Input; 2]> {
        Ok([
            Input::activation("x", shape)?,
            Input::activation("y", shape)?,
        ])
    };
    let [x, y] = pair(&[3, 33])?;
    let [inside, plain] = pair(&[2, 5, 40])?;
    let [transposed, other] = pair(&[40, 72])?;
    let [large, one] = pair(&[7, 130])?;
    let trials = [
        vec![x, y],
        vec![inside.inside(), plain],
        vec![transposed.transposed(), other],
        vec![large.affine(1e3, 0.0)?, one],
        pair(&[1, 1025])?.into(),
        pair(&[4, 256, 576])?.into(),
    ];
    let trials = trials.map(|inputs| trial(inputs, |_, v| add(&v[0], &v[1])));
    Operation::of(1, trials.into())
}

pub(super) fn scaling() -> Result<Operation> {
    on_each_layout(|_, v| scale(&v[0], -1.5))
}

/// A part of each row, as of projections that are computed as one.
pub(super) fn parts_of_rows() -> Result<Operation> {
    on_each_layout(|_, v| narrow(&v[0], D::Minus1, 7, 20))
}

pub(super) fn shapes() -> Result<Operation> {
    on_each_layout(|_, v| {
        let count = v[0].tensor().elem_count();
        reshape(&v[0], &[count / 4, 2, 2])
    })
}

/// From f32 to what activations are computed in, and the gradient back.
pub(super) fn conversions() -> Result<Operation> {
    let mut trials = Vec::new();
    for shape in [[1, 1025], [33, 7], [512, 576]] {
        let inputs = vec![
            Input::master("x", &shape)?,
            Input::activation("like", &[1])?.frozen(),
        ];
        trials.push(trial(inputs, |_, v| convert(&v[0], v[1].tensor().dtype())));
    }
    let back = vec![Input::activation("x", &[33, 7])?];
    trials.insert(0, trial(back, |_, v| convert(&v[0], DType::F32)));
    Operation::of(1, trials)
}

pub(super) fn dropped() -> Result<Operation> {
    on_each_layout(|tape, v| dropout(&v[0], Dropout::new(Some(tape), 0.3, "x")))
}

/// Shapes with a multiple of 4 numbers, in rows of 27 at least.
fn on_each_layout(
    operation: impl Fn(&Tape, &[Value]) -> Result<Value> + Copy + 'static,
) -> Result<Operation> {
    let x = |shape: &[usize]| Input::activation("x", shape);
    let inputs = [
        x(&[1, 1028])?,
        x(&[3, 36])?,
        x(&[2, 5, 40])?.inside(),
        x(&[40, 72])?.transposed(),
        x(&[7, 132])?.affine(1e3, 0.0)?,
        x(&[7, 132])?.affine(1e-3, 0.0)?,
        x(&[4, 256, 576])?,
    ];
    let trials = inputs.map(|input| trial(vec![input], operation));
    Operation::of(1, trials.into())
}
