//! How often simpler answers would be right: always the largest class, and the colours alone.
//!
//! A network that does no better than the colours of 8 x 8 fields may recognize the background instead of the object.

use rayon::prelude::*;

use super::{
    pixels::Shape,
    resize::{Filter, Region, resize_into},
    source::PictureSet,
};
use crate::{
    Error, Result,
    tasks::probe::{
        features::Features,
        lbfgs::{self, Options},
        scale::Standard,
    },
    train::task::Metric,
};

/// Fields of a picture from top to bottom, and from left to right.
const FIELDS: usize = 8;
/// Pictures that are enough to know what colours say.
const LEARNED: usize = 5000;
/// How much pictures count beside the penalty of weights.
const C: f64 = 0.1;
/// When the colours are learned well enough for a comparison.
const OPTIONS: Options = Options {
    gradient: 1e-3,
    gain: 1e-6,
    iterations: 100,
};

/// Both as metrics, over the pictures to test with, or those kept aside where there are none.
pub(super) fn metrics(set: &PictureSet, goes_on: &dyn Fn() -> bool) -> Result<Vec<Metric>> {
    let measured = match set.test.is_empty() {
        true => &set.held_out,
        false => &set.test,
    };
    if measured.is_empty() {
        return Ok(Vec::new());
    }
    let mut counts = vec![0usize; set.classes.len()];
    set.train
        .iter()
        .for_each(|at| counts[set.labels[*at] as usize] += 1);
    // Of equally large ones, the first.
    let largest = (0..counts.len())
        .rev()
        .max_by_key(|it| counts[*it])
        .unwrap_or(0) as u32;
    let share = |right: usize| right as f64 / measured.len() as f64;
    let metric = |name: &str, label: &str, right: usize| Metric {
        name: name.to_owned(),
        label: label.to_owned(),
        value: share(right),
        higher_is_better: true,
        of: Some(measured.len()),
    };
    let of_largest = measured
        .iter()
        .filter(|at| set.labels[**at] == largest)
        .count();
    goes_on().then_some(()).ok_or(Error::Interrupted)?;
    Ok(vec![
        metric(
            "majority_accuracy",
            "accuracy of always the largest class",
            of_largest,
        ),
        metric(
            "colour_accuracy",
            "accuracy of colours alone",
            by_colours(set, measured),
        ),
    ])
}

/// How many of these pictures are told by their colours alone.
fn by_colours(set: &PictureSet, measured: &[usize]) -> usize {
    let learned: Vec<usize> = every(&set.train, LEARNED);
    let (mut rows, width) = colours(set, &learned);
    let standard = Standard::of(&rows, width);
    standard.apply(&mut rows);
    let classes: Vec<u32> = learned.iter().map(|at| set.labels[*at]).collect();
    let weights = vec![1.0; set.classes.len()];
    let features = Features::Dense(&rows, width);
    let fits = lbfgs::multinomial(features, &classes, &weights, C, None, OPTIONS);
    let (mut asked, _) = colours(set, measured);
    standard.apply(&mut asked);
    let answers = asked.chunks_exact(width).map(|row| {
        let score = |fit: &lbfgs::LinearClassifier| {
            let products = fit.weights.iter().zip(row).map(|(w, x)| w * f64::from(*x));
            products.sum::<f64>() + fit.bias
        };
        let scores = fits.iter().map(score).enumerate();
        scores
            .fold((0, f64::NEG_INFINITY), |best, it| {
                if it.1 > best.1 { it } else { best }
            })
            .0 as u32
    });
    answers
        .zip(measured)
        .filter(|(answer, at)| *answer == set.labels[**at])
        .count()
}

/// So many of these, evenly.
fn every(all: &[usize], most: usize) -> Vec<usize> {
    let step = all.len().div_ceil(most).max(1);
    all.iter().copied().step_by(step).collect()
}

/// The mean colours of the fields of pictures, from 0 to 1: [n, d], and d.
fn colours(set: &PictureSet, pictures: &[usize]) -> (Vec<f32>, usize) {
    let to = Shape::square(FIELDS, set.shape.channels);
    let width = to.bytes();
    let mut all = vec![0f32; pictures.len() * width];
    all.par_chunks_exact_mut(width)
        .zip(pictures)
        .for_each(|(out, at)| {
            let mut fields = vec![0; width];
            let whole = Region::all(set.shape);
            resize_into(
                set.pixels(*at),
                set.shape,
                whole,
                to,
                Filter::Bilinear,
                &mut fields,
            );
            out.iter_mut()
                .zip(fields)
                .for_each(|(out, byte)| *out = f32::from(byte) / 255.0);
        });
    (all, width)
}
