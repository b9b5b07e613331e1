//! What a run is going to do. Nothing is left open: this is all the loop reads.
//!
//! Field names are those of [`TrainRequest`](super::request::TrainRequest), so a saved plan can be trained again.
//! A number that turns something off is 0. Sections that only one method has are absent for the others.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};
use serde_json::Value;

use super::{
    estimate::Estimate,
    fit::Fit,
    request::{OptimizerKind, ScheduleKind},
    tree::{Part, join, read_parts, with_unread},
};
use crate::{
    Error, Result,
    device::{
        self, Checked, RequestedDevice,
        dtype::{Dtype, Role},
    },
    ops::kernels::{self, Computing},
    optim::adamw_8bit,
};

/// A whole run, decided: the part of every run, and that of its kind of learning.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainPlan<T> {
    /// What every run decides, which is all that the loop reads.
    pub run: RunPlan,
    /// What only its kind decides.
    pub task: T,
}

impl<T> TrainPlan<T> {
    /// The same run, with another form of its kind's part.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> TrainPlan<U> {
        TrainPlan {
            run: self.run,
            task: change(self.task),
        }
    }
}

impl<T: Part> Serialize for TrainPlan<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut tree = join(&self.run, &self.task).map_err(ser::Error::custom)?;
        if let Value::Object(fields) = &mut tree {
            fields.retain(|name, _| !self.task.unread().contains(&name.as_str()));
        }
        tree.serialize(to)
    }
}

impl<'de, T: Part> Deserialize<'de> for TrainPlan<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let parts = read_parts(&Value::deserialize(from)?, false);
        let (run, task) = parts.map_err(de::Error::custom)?;
        Ok(Self { run, task })
    }
}

/// What every run decides. Of it, each kind of learning reads what it needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunPlan {
    /// What the run is called.
    pub name: String,
    /// Updates in the whole run.
    pub steps: usize,
    /// The size of a step.
    pub batch: BatchPlan,
    /// The highest learning rate.
    pub learning_rate: f64,
    /// The learning rate over the run.
    pub schedule: SchedulePlan,
    /// The rule of the update.
    pub optimizer: OptimizerPlan,
    /// The gradient norm above which a step is scaled down. 0 is off.
    pub clip_norm: f64,
    /// The share of the previous average of the weights that is kept. 0 is off.
    pub ema: f64,
    /// Whether activations are computed twice instead of kept.
    #[serde(alias = "checkpointing")]
    pub gradient_checkpointing: bool,
    /// The kinds of numbers.
    pub dtype: DtypePlan,
    /// What may be given up when memory runs out.
    #[serde(default, alias = "relief")]
    pub memory_fallback: MemoryFallbackPlan,
    /// The operations that are computed without the kernels made for them, since those are wrong on this device.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub avoid_kernels: Vec<String>,
    /// The device. Never `auto`.
    pub device: RequestedDevice,
    /// How many of them train it together.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub devices: usize,
    /// Whether each of them keeps only its part of what the optimizer keeps.
    #[serde(default, skip_serializing_if = "is_off")]
    pub shard: bool,
    /// Whether what the device can't do is refused rather than replaced.
    pub strict: bool,
    /// Where all randomness starts.
    pub seed: u64,
    /// When to measure.
    pub evaluate: EvaluatePlan,
    /// When to write.
    pub sample: SamplePlan,
    /// When to save.
    pub save: SavePlan,
}

/// The first steps after which a model shows itself.
const EARLY_SAMPLES: [usize; 5] = [0, 10, 25, 50, 100];

impl RunPlan {
    /// The same, without what a kind of learning doesn't read.
    pub(super) fn without(self, unread: &[&str]) -> Self {
        let plain = |plan: &Self| {
            let tree = serde_json::to_value(plan).ok()?;
            Self::deserialize(&*with_unread(&tree, unread)).ok()
        };
        plain(&self).unwrap_or(self)
    }

    /// The kind of numbers that activations and gradients are kept in.
    pub fn tensor_dtype(&self) -> Dtype {
        self.dtype.compute.kept_in(self.is_on_cpu())
    }

    /// Whether products round what they multiply to bf16, and tensors stay f32.
    pub fn narrows_products(&self) -> bool {
        self.dtype.compute.narrows_products(self.is_on_cpu())
    }

    fn is_on_cpu(&self) -> bool {
        self.device == RequestedDevice::Cpu
    }

    /// Has this thread compute as the plan says, until what is returned is dropped.
    ///
    /// Errors: [`Error::Setting`] for an operation to avoid that has no kernel.
    pub(crate) fn choose_kernels(&self) -> Result<Computing> {
        kernels::choose(&self.avoid_kernels, self.narrows_products())
    }

    /// Whether held-out data is looked at after a step; 0 is before the first.
    pub fn evaluates_after(&self, step: usize) -> bool {
        let is_end = step == 0 || step == self.steps;
        self.evaluate.every > 0 && (is_due(self.evaluate.every, step) || is_end)
    }

    /// Whether the model shows itself after a step: early, while it learns fast, then once in a while, and at the end.
    pub fn samples_after(&self, step: usize) -> bool {
        let is_time = is_due(self.sample.every, step) || EARLY_SAMPLES.contains(&step);
        self.sample.every > 0 && (is_time || step == self.steps)
    }

    /// Whether the run is saved after a step, which may be the best so far.
    pub fn saves_after(&self, step: usize, is_best: bool) -> bool {
        let is_end = step == 0 || step == self.steps;
        self.save.is_due(step) || is_end || (is_best && self.save.keep_best)
    }

    /// Bytes that the rule keeps on a device of so many weights, of which so many are no matrices of layers, and the largest has so many
    /// numbers. A weight is not divided.
    pub fn state_bytes(&self, weights: u64, others: u64, largest: u64) -> u64 {
        let all = self.optimizer.state_bytes(weights, others);
        match self.shard {
            true => all
                .div_ceil(self.devices.max(1) as u64)
                .max(self.optimizer.state_bytes(largest, largest.min(others))),
            false => all,
        }
    }

    /// Bytes of the tensors that a checkpoint holds when so many numbers learn: each with what the optimizer keeps of it, at most.
    /// Of a run that keeps an average of its weights, both are saved, and the average once more as the model.
    pub fn checkpoint_bytes(&self, learning_numbers: u64) -> u64 {
        let copies = 1 + if self.ema > 0.0 { 2 } else { 0 };
        let state_bytes = self
            .optimizer
            .state_bytes(learning_numbers, learning_numbers);
        learning_numbers * copies * 4 + state_bytes
    }

    /// Has so many devices train the run, with as many rows in an update and a look at held-out data as before. An error with the rows
    /// of an update, where they can’t be shared.
    pub fn share_among(&mut self, devices: usize) -> Result<(), usize> {
        let before = self.batch.rows;
        self.batch.share_among(devices)?;
        self.devices = devices;
        let batches = self.evaluate.batches.saturating_mul(before);
        self.evaluate.batches = batches.div_ceil(self.batch.rows.max(1));
        Ok(())
    }

    /// Has at most so many rows computed at once, and more batches, so that an update and a look at held-out data see as many
    /// rows as before. Rows that are normalized together stay as many as they have to be.
    pub fn limit_rows(&mut self, most: usize) {
        let before = self.batch.rows;
        let all = before * self.batch.accumulate;
        // Devices that share an update have as many batches each.
        let divides = |rows: &usize| all.is_multiple_of(*rows * self.devices.max(1));
        let least = self.batch.least_rows();
        let fewer = (least..=most.min(before)).rev().find(divides);
        // Where none divides, an update sees what it saw.
        let rows = fewer.unwrap_or(if least > 1 { before } else { 1 });
        self.batch.rows = rows;
        self.batch.accumulate = all / rows;
        // More than there are is all of them.
        self.evaluate.batches = self.evaluate.batches.saturating_mul(before).div_ceil(rows);
    }
}

/// The size of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BatchPlan {
    /// Rows computed at once.
    pub rows: usize,
    /// Units in a row, such as the tokens of a text; 1 where a row is a unit.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub length: usize,
    /// Batches per update.
    pub accumulate: usize,
    /// Whether the rows that are computed at once are normalized together (batch norm), so that fewer at once learn something else.
    #[serde(default, skip_serializing_if = "is_off")]
    pub normalized: bool,
}

fn one() -> usize {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_one(length: &usize) -> bool {
    *length == 1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_nothing(ratio: &f64) -> bool {
    *ratio == 0.0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_off(switch: &bool) -> bool {
    !*switch
}

impl BatchPlan {
    /// Rows that a batch has at least, where what they are together matters.
    pub const MIN_NORMALIZED: usize = 16;

    /// The fewest rows at once that a run may be halved to.
    pub fn least_rows(&self) -> usize {
        match self.normalized {
            true => Self::MIN_NORMALIZED.min(self.rows),
            false => 1,
        }
    }

    /// Has so many devices share the batches of an update, each as many, with the rows that it saw before. An error with the rows,
    /// where they can’t be shared so.
    pub fn share_among(&mut self, devices: usize) -> Result<(), usize> {
        let all = self.rows * self.accumulate;
        if devices <= 1 || self.accumulate.is_multiple_of(devices) {
            return Ok(());
        }
        let fits = |rows: &usize| all.is_multiple_of(*rows * devices);
        let rows = (1..=self.rows).rev().find(fits).ok_or(all)?;
        (self.rows, self.accumulate) = (rows, all / rows);
        Ok(())
    }

    /// Units one update sees when no part of a batch is empty.
    pub fn units_per_step(&self) -> usize {
        self.rows * self.length * self.accumulate
    }
}

/// The learning rate over the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SchedulePlan {
    /// The shape after the warm-up.
    pub kind: ScheduleKind,
    /// Steps in which the rate rises.
    pub warmup_steps: usize,
    /// Where it begins to rise, as a share of the highest.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub start_ratio: f64,
    /// The last rate as a share of the highest.
    pub min_ratio: f64,
}

/// The rule of the update. Each kind reads its own fields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OptimizerPlan {
    /// Which one.
    pub kind: OptimizerKind,
    /// AdamW's memory of gradients.
    pub beta1: f64,
    /// AdamW's memory of squared gradients.
    pub beta2: f64,
    /// AdamW's guard of the division.
    pub epsilon: f64,
    /// How much each weight shrinks.
    pub weight_decay: f64,
    /// SGD's and Muon's memory of updates.
    pub momentum: f64,
    /// Whether SGD looks ahead along it.
    #[serde(default, skip_serializing_if = "is_off")]
    pub nesterov: bool,
    /// What only Muon has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub muon: Option<MuonPlan>,
}

/// Muon, and AdamW for what is no matrix of a layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MuonPlan {
    /// Whether it looks ahead along the momentum.
    pub nesterov: bool,
    /// How often its singular values are brought nearer to 1.
    pub newton_schulz_steps: usize,
    /// The highest learning rate of the other weights.
    pub adamw_learning_rate: f64,
    /// How much of each of them is taken away at each step, times that rate.
    pub adamw_weight_decay: f64,
}

impl OptimizerPlan {
    /// Bytes that the rule keeps of so many weights, of which so many are no matrices of layers: tables, heads, vectors.
    pub fn state_bytes(&self, weights: u64, others: u64) -> u64 {
        match self.kind {
            OptimizerKind::Adamw8Bit => {
                let others = others.min(weights);
                adamw_8bit::state_bytes(weights - others) + 8 * others
            }
            OptimizerKind::Adamw | OptimizerKind::AdamAtan2 | OptimizerKind::Muon => 8 * weights,
            OptimizerKind::Sgd if self.momentum > 0.0 => 4 * weights,
            OptimizerKind::Sgd => 0,
        }
    }
}

/// The kinds of numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DtypePlan {
    /// For activations and gradients.
    pub compute: Dtype,
    /// For weights that don't learn.
    pub storage: Dtype,
}

impl DtypePlan {
    /// The kind of numbers for a role: of those that a plan decides about, computing and storing.
    pub fn of(&self, role: Role) -> Dtype {
        match role {
            Role::Storage => self.storage,
            _ => self.compute,
        }
    }

    /// Takes another kind for a role.
    pub fn set(&mut self, role: Role, dtype: Dtype) {
        match role {
            Role::Storage => self.storage = dtype,
            _ => self.compute = dtype,
        }
    }
}

/// What may be given up when memory runs out, beside what leaves the result as it is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryFallbackPlan {
    /// The width of the numbers that are computed in, where the device check found a narrower format right.
    pub narrower_dtype: bool,
    /// The device: the processor may continue instead.
    pub cpu: bool,
}

/// When to measure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EvaluatePlan {
    /// After how many steps. 0 is never.
    pub every: usize,
    /// How many batches. 0 is all.
    pub batches: usize,
}

/// When to write.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SamplePlan {
    /// After how many steps. 0 is never.
    pub every: usize,
}

/// When to save.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SavePlan {
    /// After how many steps. 0 is only at the end and when stopped.
    pub every: usize,
    /// How many of the newest are kept.
    pub keep_last: usize,
    /// After how many steps one is saved that is kept for good. 0 is never.
    #[serde(default)]
    pub keep_every: usize,
    /// Whether the best is kept too.
    pub keep_best: bool,
}

impl SavePlan {
    /// Whether the run is saved now because so many steps are done.
    pub fn is_due(&self, step: usize) -> bool {
        is_due(self.every, step) || is_due(self.keep_every, step)
    }
}

/// Whether something that happens after `every` steps happens now. Never at step 0, never when `every` is 0.
pub fn is_due(every: usize, step: usize) -> bool {
    every != 0 && step != 0 && step.is_multiple_of(every)
}

/// What was looked up before a plan can be made. Looking up reads files, so it is not done here.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts<F> {
    /// What the kind of learning looked up.
    pub task: F,
    /// The device that was chosen.
    pub device: device::Choice,
    /// What the device check found on it.
    pub checked: Checked,
}

/// A value with the reason for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Chosen<T> {
    /// What the run will use.
    pub value: T,
    /// Why this one.
    pub why: String,
}

impl<T> Chosen<T> {
    /// A value with its reason.
    pub fn new(value: T, why: impl Into<String>) -> Self {
        Self {
            value,
            why: why.into(),
        }
    }
}

/// A plan, and what a person wants to know about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(bound = "T: Part")]
pub struct Resolved<T> {
    /// What will be done.
    pub plan: TrainPlan<T>,
    /// Why, for every value, in the order of the plan.
    pub reasons: Vec<Reason>,
    /// What will probably not be what was wanted.
    pub warnings: Vec<String>,
    /// What it will take, from shapes alone, where the shape is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub estimate: Option<Estimate>,
    /// Whether that fits, where it is known what is free.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fit: Option<Fit>,
}

impl<T> Resolved<T> {
    /// The same, with another form of its kind's part of the plan.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Resolved<U> {
        Resolved {
            plan: self.plan.map(change),
            reasons: self.reasons,
            warnings: self.warnings,
            estimate: self.estimate,
            fit: self.fit,
        }
    }

    /// What the run needs beside what there is, where that is known and too little.
    pub fn misfit(&self) -> Option<&Fit> {
        self.fit.as_ref().filter(|fit| !fit.fits)
    }
}

/// Why a field of the plan has its value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "specta", derive(specta::Type))]
pub struct Reason {
    /// The field, as in a run file: `batch.rows`.
    pub field: String,
    /// Its value, as in a run file.
    pub value: String,
    /// The reason for the value, as one sentence.
    pub why: String,
    /// Whether the value was chosen here, rather than asked for.
    pub automatic: bool,
}

/// Everything that is wrong with a request, in the order of the plan. Never empty.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Problems(pub Vec<Problem>);

/// One thing that is wrong with a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Problem {
    /// The field, as in a run file.
    pub field: String,
    /// What is wrong with its value, with the value.
    pub problem: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}", self.field, self.problem)
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problems: Vec<String> = self.0.iter().map(Problem::to_string).collect();
        f.write_str(&problems.join("; "))
    }
}

impl std::error::Error for Problems {}

/// The first of them, for callers that show one.
impl From<Problems> for Error {
    fn from(problems: Problems) -> Self {
        match problems.0.into_iter().next() {
            Some(Problem { field, problem }) => Self::setting(field, problem),
            None => Self::setting("request", "can’t be planned"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_due;

    #[test]
    fn things_are_due_after_so_many_steps_and_never_when_off() {
        let due = |every| (0..=6).filter(|&step| is_due(every, step)).collect();
        let cases: [(usize, Vec<usize>); 3] =
            [(0, vec![]), (1, vec![1, 2, 3, 4, 5, 6]), (3, vec![3, 6])];
        for (every, steps) in cases {
            let found: Vec<usize> = due(every);
            assert_eq!(found, steps);
        }
    }
}
