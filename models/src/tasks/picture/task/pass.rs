//! What a step computes of a batch: launched, or recorded once and played again.

use std::cell::RefCell;

use candle_core::Tensor;

use super::{super::loader::Batch, Moments, PictureTask};
use crate::{
    Result,
    arch::picture::{Mode, Network},
    ops::classify::{Squash, classify},
    tape::{FixedPass, Left, Tape, Value},
};

/// The pass over a batch.
pub(super) struct Pass<'a> {
    network: &'a Network,
    batch: &'a Batch,
    mode: Mode,
    label_smoothing: f64,
    /// What the sum of the losses is divided by.
    targets: f64,
    /// The means and variances that norms saw, in the order of the network.
    left: RefCell<Left>,
}

impl PictureTask {
    pub(super) fn pass_of<'a>(&'a self, batch: &'a Batch, targets: f64) -> Pass<'a> {
        Pass {
            network: &self.network,
            batch,
            mode: match self.settings.follows_batches() {
                true => Mode::Batch,
                false => Mode::Running,
            },
            label_smoothing: self.settings.label_smoothing,
            targets,
            left: RefCell::default(),
        }
    }
}

impl Pass<'_> {
    /// The loss, and what norms saw.
    pub(super) fn loss_and_moments(&self, tape: &Tape) -> Result<(Value, Moments)> {
        let Batch { pictures, labels } = self.batch;
        let seen = self.network.see(Some(tape), pictures, self.mode)?;
        let weight = (1.0 / self.targets) as f32;
        let weights = Tensor::full(weight, labels.elem_count(), labels.device())?;
        let loss = classify(
            &seen.scores,
            labels,
            &weights,
            Squash::Softmax,
            self.label_smoothing,
        )?;
        Ok((loss, seen.moments))
    }
}

impl FixedPass for Pass<'_> {
    fn inputs(&self) -> Vec<Tensor> {
        let Batch { pictures, labels } = self.batch;
        vec![pictures.clone(), labels.clone()]
    }

    fn form(&self) -> String {
        format!("{:?}, {} targets", self.mode, self.targets)
    }

    fn loss(&self, tape: &Tape) -> Result<Value> {
        let (loss, moments) = self.loss_and_moments(tape)?;
        *self.left.borrow_mut() = moments.into_iter().map(|(_, it)| it).collect();
        Ok(loss)
    }

    fn take_left(&self) -> Left {
        self.left.take()
    }
}
