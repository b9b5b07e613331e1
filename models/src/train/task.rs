//! What a kind of learning must say, so that one loop can train it.

use std::path::Path;

use serde_json::Value as Json;

use crate::{
    Result,
    parameters::Parameters,
    tape::{Tape, Value},
    train::plan::SamplePlan,
};

/// A model with its data: everything a loop needs and does not know.
pub trait Task {
    /// What one forward pass reads.
    type Batch;

    /// The weights; the trainable ones are updated by the loop.
    fn parameters(&self) -> &Parameters;

    /// The next micro-batch. Moves the position in the data.
    fn next_batch(&mut self) -> Result<Self::Batch>;

    /// The size of a batch.
    fn size(&self, batch: &Self::Batch) -> BatchSize;

    /// The loss of a batch: a sum over its targets, divided by `targets`, those of all micro-batches of the step.
    fn loss(&self, tape: &Tape, batch: &Self::Batch, targets: f64) -> Result<Value>;

    /// Measures held-out data, `batches` of it or all for 0. `None` when there is none.
    fn evaluate(&mut self, batches: usize) -> Result<Option<Evaluation>>;

    /// What the model writes now. Must not move the position in the data.
    fn sample(&mut self, plan: &SamplePlan) -> Result<Vec<Sample>>;

    /// The task's own state: the position in the data, and whatever else a step leaves behind.
    fn state(&self) -> Json;

    /// Continues from a saved state.
    fn restore(&mut self, state: &Json) -> Result<()>;

    /// Writes the model into a folder, so that it can be used from there and training can continue.
    fn save(&self, folder: &Path) -> Result<()>;

    /// Reads the trainable weights that [`Task::save`] wrote.
    fn load(&mut self, folder: &Path) -> Result<()>;
}

/// The size of a batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BatchSize {
    /// Things that are predicted and count in the loss.
    pub targets: usize,
    /// Tokens read, without padding.
    pub tokens: usize,
}

/// What held-out data said.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// Mean loss per target, in nats.
    pub loss: f64,
    /// Mean loss per character of text, in nats, where all of it is learned.
    pub loss_per_character: Option<f64>,
    /// Share of targets whose most likely prediction was right.
    pub accuracy: Option<f64>,
    /// Targets measured.
    pub targets: usize,
}

/// What a model wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// What it was given.
    pub prompt: String,
    /// What it wrote.
    pub text: String,
}
