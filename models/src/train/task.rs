//! What one loop needs of a model and its data to train it.

use std::{collections::HashMap, path::Path};

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::{exhibit::Exhibit, group::Together};
use crate::{
    Error, Result,
    checkpoint::{folder::WEIGHTS, save::write_safetensors, tensors::read_tensors},
    optim::{DecayScope, OwnRules},
    parameters::Parameters,
    tape::{FixedPass, Left, Tape, Value},
};

/// A model with its data: everything a loop needs and does not know.
pub trait Task {
    /// What one forward pass reads.
    type Batch;

    /// The weights; the trainable ones are updated by the loop.
    fn parameters(&self) -> &Parameters;

    /// The weights that don't learn by the rule of the run.
    fn own_rules(&self) -> OwnRules {
        OwnRules::new()
    }

    /// Which of the others shrink a little at each step.
    fn decays(&self) -> DecayScope {
        DecayScope::default()
    }

    /// Takes the next step, if it is none of gradients: what is solved is solved here, and the batches below are not asked for.
    /// `done` steps are done.
    ///
    /// Errors: [`Error::Interrupted`] when it takes long and `goes_on`, asked in between, says no. The same step comes next again.
    fn own_step(&mut self, _done: usize, _goes_on: &dyn Fn() -> bool) -> Result<Option<OwnStep>> {
        Ok(None)
    }

    /// Tries what its own steps do, if it takes such. Afterwards the task is of no use.
    ///
    /// Errors: [`Error::Interrupted`] when `stop`, asked in between, says so.
    fn own_trial(&mut self, _stop: &dyn Fn() -> bool) -> Result<Option<OwnTrial>> {
        Ok(None)
    }

    /// The next micro-batch. Moves the position in the data.
    fn next_batch(&mut self) -> Result<Self::Batch>;

    /// The size of a batch.
    fn size(&self, batch: &Self::Batch) -> BatchSize;

    /// The loss of a batch: a sum over its targets, divided by `targets`, those of all micro-batches of the step.
    ///
    /// It may change the task, such as a carry from step to step or running statistics. What it changes must be in
    /// [`Task::state`] or in what [`Task::save`] writes, and [`Task::undo_losses`] must be able to take it back.
    fn loss(&mut self, tape: &Tape, batch: &Self::Batch, targets: f64) -> Result<Value>;

    /// The same as a pass that can be recorded, where there is one. It is asked for on a GPU whose own kernels are all used. What
    /// [`Task::loss`] changes of the task then follows from what the pass leaves, which [`Task::passed`] is told.
    fn fixed_pass<'a>(
        &'a self,
        _batch: &'a Self::Batch,
        _targets: f64,
    ) -> Result<Option<Box<dyn FixedPass + 'a>>> {
        Ok(None)
    }

    /// Brings what each rank carries from step to step to the first, which saves the run, where several train it. All call it at once.
    fn gather(&mut self, _together: &mut Together) -> Result<()> {
        Ok(())
    }

    /// Told what the pass over a batch left beside its loss, which was recorded or played.
    fn passed(&mut self, _batch: &Self::Batch, _left: Left) -> Result<()> {
        Ok(())
    }

    /// Told before the losses of a step. A task that its losses change remembers how it is now.
    fn begin_losses(&mut self) -> Result<()> {
        Ok(())
    }

    /// Takes back what the losses since [`Task::begin_losses`] changed: the step is not taken, or is tried again.
    fn undo_losses(&mut self) -> Result<()> {
        Ok(())
    }

    /// Told after the update that follows from the losses, when `done` steps are done: what follows the weights, such as running
    /// statistics or a slower copy of them, moves here.
    fn stepped(&mut self, _done: usize) -> Result<()> {
        Ok(())
    }

    /// Measures held-out data, `batches` of it or all for 0. `None` when there is none.
    ///
    /// Errors: [`Error::Interrupted`] when it takes long and is to stop, which is asked between batches. The task is as before.
    fn evaluate(
        &mut self,
        _batches: usize,
        _measuring: &mut Measuring,
    ) -> Result<Option<Evaluation>> {
        Ok(None)
    }

    /// The name of the metric by which one checkpoint is better than another. `None` is the loss.
    fn judged_by(&self) -> Option<&'static str> {
        None
    }

    /// What is measured only once, when all steps are done, beside what [`Task::evaluate`] measures. Ends early like that. What
    /// is measured on one rank is told by the first.
    fn examine(&mut self, _measuring: &mut Measuring) -> Result<Vec<Metric>> {
        Ok(Vec::new())
    }

    /// What the model shows of itself now. Must not move the position in the data.
    fn show(&mut self) -> Result<Vec<Exhibit>> {
        Ok(Vec::new())
    }

    /// The task's own state: the position in the data, and whatever else a step leaves behind.
    fn state(&self) -> Json;

    /// Continues from a saved state.
    fn restore(&mut self, state: &Json) -> Result<()>;

    /// Writes the model into a folder, so that it can be used from there and training can continue.
    fn save(&self, folder: &Path) -> Result<()> {
        let weights = self.parameters().trainable();
        let weights = weights.map(|it| (it.name().to_owned(), it.tensor()));
        write_safetensors(&folder.join(WEIGHTS), &weights.collect(), HashMap::new())
    }

    /// Reads the trainable weights that [`Task::save`] wrote.
    fn load(&mut self, folder: &Path) -> Result<()> {
        load_weights(self.parameters(), folder)
    }

    /// A batch of so many rows of so many units, all of them filled, to see what one takes.
    fn full_batch(&mut self, _rows: usize, _length: usize) -> Result<Self::Batch> {
        self.next_batch()
    }

    /// The units of the longest row, and of a batch of so many rows on average.
    fn row_length(&mut self, rows: usize) -> (usize, f64) {
        (1, rows as f64)
    }

    /// How many batches of held-out data there are.
    fn held_out_batches(&self) -> usize {
        0
    }
}

/// Reads the trainable weights that a folder has.
pub fn load_weights(parameters: &Parameters, folder: &Path) -> Result<()> {
    let path = folder.join(WEIGHTS);
    let mut read = read_tensors(&path)?;
    for weight in parameters.trainable() {
        let name = weight.name();
        let missing = || Error::format(&path, format!("`{name}` is missing"));
        weight.assign(&read.remove(name).ok_or_else(missing)?)?;
    }
    Ok(())
}

/// What a step did that is none of gradients.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct OwnStep {
    /// Units read: what the speed is told in.
    pub units: usize,
}

/// What all own steps of a run will take, as some of them say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct OwnTrial {
    /// Steps that were tried, or what stands for them.
    pub steps: usize,
    /// All steps of the run.
    pub seconds: f64,
}

/// The size of a batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BatchSize {
    /// Things that are predicted and count in the loss.
    pub targets: usize,
    /// Units read, without padding: what the speed is told in.
    pub units: usize,
}

/// What held-out data said.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// Mean loss per target, in nats.
    pub loss: f64,
    /// What else was measured. Figures that are not finite are left out of the run.
    pub metrics: Vec<Metric>,
    /// Targets measured.
    pub targets: usize,
}

impl Evaluation {
    /// The value of a metric, larger where it is better.
    pub fn score(&self, name: &str) -> Option<f64> {
        let metric = self.metrics.iter().find(|it| it.name == name)?;
        Some(if metric.higher_is_better {
            metric.value
        } else {
            -metric.value
        })
    }
}

/// How held-out data is measured: until somebody wants it to end, and by several ranks where there are some.
pub struct Measuring<'a> {
    goes_on: &'a dyn Fn() -> bool,
    together: Option<&'a mut Together>,
}

impl<'a> Measuring<'a> {
    /// All of it here, as long as `goes_on` says so.
    pub fn alone(goes_on: &'a dyn Fn() -> bool) -> Self {
        Self {
            goes_on,
            together: None,
        }
    }

    /// Shared with other ranks, where there are some.
    pub(super) fn with(goes_on: &'a dyn Fn() -> bool, together: Option<&'a mut Together>) -> Self {
        Self { goes_on, together }
    }

    /// Whether the batch with this number, from 0, is measured here.
    ///
    /// Errors: [`Error::Interrupted`] where it is to end.
    pub fn takes(&self, batch: usize) -> Result<bool> {
        if !(self.goes_on)() {
            return Err(Error::Interrupted);
        }
        Ok(self
            .together
            .as_ref()
            .is_none_or(|together| together.share().has(batch)))
    }

    /// The numbers of all batches, from those that were measured here, with 0 for the others: the same numbers on every rank, and
    /// those that one rank would have found.
    pub fn of_all(&mut self, own: Vec<f64>) -> Result<Vec<f64>> {
        match &mut self.together {
            Some(together) => together.sum(own),
            None => Ok(own),
        }
    }

    /// What the other ranks found, where it is no sum of numbers, for what is found here.
    pub fn of_others(&mut self, own: impl FnOnce() -> Vec<u8>) -> Result<Vec<Vec<u8>>> {
        let Some(together) = &mut self.together else {
            return Ok(Vec::new());
        };
        let mut all = together.of_each(&own())?;
        all.remove(together.share().rank);
        Ok(all)
    }

    /// Whether this rank tells what was measured. What is not shared is to be measured here alone.
    pub fn is_told(&self) -> bool {
        let together = self.together.as_ref();
        together.is_none_or(|together| together.share().is_first())
    }

    /// Whether it goes on.
    pub fn goes_on(&self) -> &dyn Fn() -> bool {
        self.goes_on
    }
}

/// A figure beside the loss.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// Its name, the same in all runs of a kind: `accuracy`.
    pub name: String,
    /// What a person reads.
    pub label: String,
    /// What was measured. A share, from 0 to 1, where `of` is set.
    pub value: f64,
    /// Which direction is better.
    pub higher_is_better: bool,
    /// Of how many it is the share, where it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<usize>,
}

impl Metric {
    /// The 95 % interval of a share, by Wilson: from where to where it could be for all there are, if these were drawn from them.
    pub fn interval(&self) -> Option<(f64, f64)> {
        let count = self.of.filter(|it| *it > 0)? as f64;
        let (share, z) = (self.value, 1.959_963_985);
        let spread = z * z / count;
        let middle = share + spread / 2.0;
        let half = z * ((share * (1.0 - share) + spread / 4.0) / count).sqrt();
        let end = |it: f64| (it / (1.0 + spread)).clamp(0.0, 1.0);
        (0.0..=1.0)
            .contains(&share)
            .then(|| (end(middle - half), end(middle + half)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_has_the_interval_of_wilson() {
        let interval = |value, of| {
            let metric = Metric {
                name: String::new(),
                label: String::new(),
                value,
                higher_is_better: true,
                of,
            };
            metric
                .interval()
                .map(|(low, high)| [low, high].map(|it| (it * 1e4).round() / 1e4))
        };
        // 10 of 10, 0 of 10 and 1,740 of 2,000, by the formula in another language.
        assert_eq!(interval(1.0, Some(10)), Some([0.7225, 1.0]));
        assert_eq!(interval(0.0, Some(10)), Some([0.0, 0.2775]));
        assert_eq!(interval(0.87, Some(2000)), Some([0.8545, 0.884]));
        assert_eq!(interval(0.5, None), None);
        assert_eq!(interval(1.5, Some(10)), None);
    }
}
