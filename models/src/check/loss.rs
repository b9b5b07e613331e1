//! Both ends of a language model: the embedding of tokens, and the head with its loss.

use candle_core::Tensor;

use super::trial::{Input, Operation, StepTrial, stored_dtypes, trial};
use crate::{
    Result,
    device::dtype::{DeviceClass, Dtype},
    ops::{
        classify::{Squash, classify},
        cross_entropy::{IGNORE, head_cross_entropy},
        embedding::embedding,
    },
};

/// The longest sum: probabilities of a vocabulary.
const VOCABULARY: usize = 5003;

pub(super) fn embeddings(class: DeviceClass, dtype: Dtype) -> Result<Operation> {
    let learned = |shape: &[usize]| Input::master("the table", shape);
    let mut trials = vec![
        // One token, and tokens that come again and again and add up in one row.
        look_up(learned(&[300, 33])?, &[1, 1]),
        look_up(learned(&[7, 131])?, &[3, 200]),
        look_up(learned(&[50, 1025])?, &[2, 9]),
        look_up(
            Input::activation("the table", &[50, 64])?.frozen(),
            &[1, 1030],
        ),
    ];
    for stored in stored_dtypes(class, dtype) {
        trials.push(look_up(
            Input::stored("the table", &[50, 64], stored)?,
            &[2, 9],
        ));
    }
    trials.push(look_up(learned(&[VOCABULARY, 256])?, &[4, 256]));
    Operation::of(1, trials)
}

fn look_up(table: Input, shape: &'static [usize; 2]) -> StepTrial {
    let vocabulary = table.dims()[0] as u32;
    trial(vec![table], move |_, v| {
        let tokens = (0..(shape[0] * shape[1]) as u32).map(|at| at * at % vocabulary);
        let device = v[0].tensor().device();
        let tokens = Tensor::from_vec(tokens.collect(), shape.as_slice(), device)?;
        embedding(&v[0], &tokens)
    })
}

pub(super) fn head_and_loss(class: DeviceClass, dtype: Dtype) -> Result<Operation> {
    // Logits are about as far from 0 as those of a model.
    let hidden = |shape: &[usize]| {
        let width = *shape.last().unwrap_or(&1) as f64;
        Input::activation("hidden", shape)?.affine(2.0 / width.sqrt(), 0.0)
    };
    let head = |shape: &[usize]| Input::master("the head", shape);
    let kept = |shape: &[usize]| Input::activation("the head", shape);
    // In f32 logits in the hundreds, whose exponentials have no number. A narrower dtype rounds logits that large so far
    // that nothing could be compared.
    let large = if dtype == Dtype::F32 { 100.0 } else { 2.0 };
    let mut trials = vec![
        loss(hidden(&[1, 16])?, head(&[5, 16])?, None),
        loss(hidden(&[40, 33])?, head(&[70, 33])?, None),
        loss(
            hidden(&[2, 35, 64])?.inside(),
            head(&[1025, 64])?,
            Some(5.0),
        ),
        loss(
            hidden(&[64, 35])?.transposed(),
            kept(&[257, 35])?.frozen(),
            None,
        ),
        loss(
            hidden(&[9, 64])?.affine(large, 0.0)?,
            head(&[70, 64])?,
            None,
        ),
        loss(hidden(&[9, 64])?.affine(1e-3, 0.0)?, head(&[70, 64])?, None),
        sparse_loss(hidden(&[1030, 24])?, head(&[70, 24])?),
    ];
    for stored in stored_dtypes(class, dtype) {
        let head = Input::stored("the head", &[257, 64], stored)?;
        trials.push(loss(hidden(&[9, 64])?, head, None));
    }
    trials.push(loss(
        hidden(&[2, 128, 128])?,
        head(&[VOCABULARY, 128])?,
        None,
    ));
    Operation::of(VOCABULARY, trials)
}

/// Few classes, more than one thread reads, and rows that don't count.
pub(super) fn few_classes() -> Result<Operation> {
    const CLASSES: usize = 300;
    let mut trials = Vec::new();
    for squash in [Squash::Stablemax, Squash::Softmax] {
        for (rows, classes, smoothing) in [
            (1, 2, 0.0),
            (70, 11, 0.0),
            (33, 12, 0.2),
            (9, CLASSES, 0.1),
            (4096, 12, 0.0),
        ] {
            let scores = Input::activation("scores", &[rows, classes])?.affine(3.0, 0.0)?;
            trials.push(trial(vec![scores], move |_, v| {
                let device = v[0].tensor().device();
                let meant = (0..rows as u32).map(|row| row * 7 % classes as u32);
                let meant = Tensor::from_vec(meant.collect::<Vec<_>>(), rows, device)?;
                let weights = (0..rows).map(|row| if row % 5 == 3 { 0.0 } else { 1.0 });
                let weights = Tensor::from_vec(weights.collect::<Vec<f32>>(), rows, device)?;
                classify(&v[0], &meant, &weights, squash, smoothing)
            }));
        }
    }
    Operation::of(CLASSES, trials)
}

/// Every fifth token has no target.
fn loss(hidden: Input, head: Input, soft_cap: Option<f64>) -> StepTrial {
    loss_of(hidden, head, soft_cap, |row| row % 5 != 3)
}

/// Every fifth token alone has a target, as in a talk.
fn sparse_loss(hidden: Input, head: Input) -> StepTrial {
    loss_of(hidden, head, None, |row| row % 5 == 3)
}

fn loss_of(
    hidden: Input,
    head: Input,
    soft_cap: Option<f64>,
    has_target: fn(usize) -> bool,
) -> StepTrial {
    let [vocabulary, width] = [head.dims()[0], head.width()];
    let rows = hidden.dims().iter().product::<usize>() / width;
    let target = move |row: usize| match has_target(row) {
        true => (row * row % vocabulary) as u32,
        false => IGNORE,
    };
    let targets: Vec<u32> = (0..rows).map(target).collect();
    trial(vec![hidden, head], move |_, v| {
        head_cross_entropy(&v[0], &v[1], &targets, soft_cap, rows as f64)
    })
}
