//! What a run that learns pictures will take, from the steps of the network.
//!
//! Kept for the way back: what each convolution reads and what each norm reads, which is what the step before wrote; of attention also
//! its queries, keys and values, and what it wrote before its last product.

use super::request::{Method, PicturePlan};
use crate::{
    arch::picture::{Layer, NetConfig, Written, shapes, weights_of},
    train::{
        estimate::{Estimate, MemoryGroup, MemoryPart, program_bytes},
        plan::TrainPlan,
    },
};

/// The estimate for a plan that trains such a network. A network that can't be has none.
pub(super) fn estimate(plan: &TrainPlan<PicturePlan>, config: &NetConfig) -> Estimate {
    use MemoryGroup::*;
    let run = &plan.run;
    let (Ok(needs), Ok(written)) = (weights_of(config), shapes(config, &config.steps())) else {
        return Estimate::default();
    };
    let count = |shape: &[usize]| shape.iter().product::<usize>() as u64;
    let parameters: u64 = needs.iter().map(|it| count(&it.shape)).sum();
    let learned: u64 = needs
        .iter()
        .filter(|it| it.learns)
        .map(|it| count(&it.shape))
        .sum();
    let of_picture = Picture::of(config, &written);
    let number_bytes = run.tensor_dtype().bytes() as u64;
    let rows = run.batch.rows as u64;
    let numbers = |count: u64| rows.saturating_mul(number_bytes).saturating_mul(count);
    let stays = plan.task.picture.method == Method::Features;
    let learned = if stays { 0 } else { learned };
    let looked_ahead = learned * 4 * u64::from(plan.task.picture.lookahead_every > 0);
    let optimizer = run.state_bytes(learned, 0, 0) + looked_ahead;
    let activations = if stays { 0 } else { numbers(of_picture.kept) };
    let passing = numbers(2 * of_picture.largest);
    let used = (parameters * 4)
        .saturating_add(learned * 4 + optimizer)
        .saturating_add(activations)
        .saturating_add(passing);
    let parts = [
        (Weights, "weights", parameters * 4),
        (Training, "gradients", learned * 4),
        (Training, "optimizer", optimizer),
        (Activations, "what the layers read", activations),
        (Activations, "one layer on the way back", passing),
        (Rest, "program and spare", program_bytes(run.device, used)),
    ];
    let seen = (run.batch.rows * run.batch.accumulate) as f64 * run.steps as f64;
    Estimate {
        parameters,
        trainable_parameters: learned,
        parts: parts
            .map(|(group, name, bytes)| MemoryPart::new(group, name, bytes))
            .to_vec(),
        // Forward, and back to the picture and to the weights; a product is a multiplication and an addition.
        operations: if stays { 2.0 } else { 6.0 } * of_picture.products * seen,
    }
}

/// What one picture takes on its way.
pub(super) struct Picture {
    /// Numbers that are kept.
    kept: u64,
    /// The largest of them.
    largest: u64,
    /// Multiplications forward.
    pub(super) products: f64,
}

impl Picture {
    /// That of a network whose steps write these.
    pub(super) fn of(config: &NetConfig, written: &[Written]) -> Self {
        let mut picture = Self {
            kept: written[0].count() as u64,
            largest: 0,
            products: 0.0,
        };
        for (at, step) in config.steps().iter().enumerate() {
            let (from, to) = (written[step.from], written[at + 1]);
            let count = to.count() as u64;
            let (kept, largest) = match &step.layer {
                Layer::MeanPool | Layer::Flatten => (0, count),
                Layer::Attention { .. } => (5 * count, 3 * count),
                _ => (count, count),
            };
            picture.kept += kept;
            picture.largest = picture.largest.max(largest);
            picture.products += match &step.layer {
                Layer::Convolution { geometry, .. } => {
                    let depth = geometry.kernel * geometry.kernel * from.channels();
                    (to.count() * depth) as f64
                }
                Layer::Linear { out, .. } => from.count() as f64 * *out as f64,
                // Four products with weights, and two of all tokens with all.
                Layer::Attention { .. } => {
                    let (count, width) = (to.count() as f64, to.channels().max(1) as f64);
                    count * 4.0 * width + 2.0 * count * count / width
                }
                _ => 0.0,
            };
        }
        picture
    }
}
