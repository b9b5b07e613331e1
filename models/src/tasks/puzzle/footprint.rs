//! What a run that learns puzzles will take, from the shape of the model.
//!
//! Letters: b slots at once, l places, d width, f and f' widths of the feed-forward parts beside the width and beside the places.
//! Only the last cycle is kept for the way back, so how long a puzzle is thought about changes nothing.

use super::{curriculum::Curriculum, request::PuzzlePlan};
use crate::{
    arch::trm::{Cycles, TrmConfig},
    train::{
        estimate::{Estimate, MemoryGroup, MemoryPart, program_bytes},
        plan::TrainPlan,
    },
};

/// The estimate for a plan that trains a model of this shape.
pub(super) fn estimate(plan: &TrainPlan<PuzzlePlan>, config: &TrmConfig) -> Estimate {
    use MemoryGroup::*;
    let run = &plan.run;
    let count = |shape: &[usize]| shape.iter().product::<usize>() as u64;
    let learned = config.weights().into_iter();
    let parameters: u64 = learned.map(|(_, shape, _)| count(&shape)).sum();
    let number_bytes = run.tensor_dtype().bytes() as u64;
    let rows = run.batch.rows as u64;
    let calls = (config.l_cycles + 1) as u64;
    let state_bytes =
        (rows * number_bytes).saturating_mul((config.places() * config.hidden_size) as u64);
    let kept = [
        calls,
        config.l_layers as u64,
        kept_numbers(config),
        number_bytes,
    ]
    .iter()
    .fold(rows, |product, factor| product.saturating_mul(*factor));
    let passing = (rows * number_bytes).saturating_mul(passing_numbers(config));
    let carried = state_bytes.saturating_mul(2 * run.batch.accumulate as u64);
    let gradients = parameters * 4;
    let averages = gradients * u64::from(run.ema > 0.0);
    let optimizer = run.state_bytes(parameters, 0, 0) + averages;
    let states = carried.saturating_add(state_bytes.saturating_mul(6));
    let used = (parameters * 4 + gradients + optimizer)
        .saturating_add(kept)
        .saturating_add(passing)
        .saturating_add(states);
    let parts = [
        (Weights, "weights", parameters * 4),
        (Training, "gradients", gradients),
        (Training, "optimizer", optimizer),
        (Activations, "the last cycle", kept),
        (Activations, "one block on the way back", passing),
        (Activations, "states", states),
        (Rest, "program and spare", program_bytes(run.device, used)),
    ];
    // Forward through all cycles, back through the last; a product is a multiplication and an addition for each weight it meets.
    let own = Cycles {
        answer: config.h_cycles,
        thought: config.l_cycles,
    };
    let passes = |it: Cycles| (it.answer + 2) as f64 * (it.thought + 1) as f64;
    let curriculum = Curriculum::read(&plan.task.curriculum, config).unwrap_or_default();
    let passes = curriculum.mean(own, passes);
    let per_row = passes * config.l_layers as f64 * products(config);
    Estimate {
        parameters,
        trainable_parameters: parameters,
        parts: parts
            .map(|(group, name, bytes)| MemoryPart::new(group, name, bytes))
            .to_vec(),
        operations: 2.0 * per_row * rows as f64 * run.batch.accumulate as f64 * run.steps as f64,
    }
}

/// Numbers of a puzzle that a block keeps for the way back.
fn kept_numbers(config: &TrmConfig) -> u64 {
    let (l, d) = (config.places(), config.hidden_size);
    // What comes out of both norms, and gate and up.
    let mlp = l * (d + 2 * config.inner(d));
    let mix = match config.mlp_t {
        true => d * (l + 2 * config.inner(l)),
        // Queries, keys, values, and what was attended to.
        false => 5 * l * d,
    };
    (mlp + mix) as u64
}

/// Numbers of a puzzle that exist only while a block is gone back through: the product of gate and up, its gradient and theirs.
fn passing_numbers(config: &TrmConfig) -> u64 {
    let (l, d) = (config.places(), config.hidden_size);
    let of_mix = match config.mlp_t {
        true => d * config.inner(l),
        false => 0,
    };
    4 * (l * config.inner(d)).max(of_mix) as u64
}

/// Multiplications of a block for a puzzle.
fn products(config: &TrmConfig) -> f64 {
    let (l, d) = (config.places() as f64, config.hidden_size as f64);
    let mlp = 3.0 * l * d * config.inner(config.hidden_size) as f64;
    let mix = match config.mlp_t {
        true => 3.0 * d * l * config.inner(config.places()) as f64,
        false => 4.0 * l * d * d + 2.0 * l * l * d,
    };
    mlp + mix
}
