//! What a run is going to do. Nothing is left open: this is all the loop reads.
//!
//! Field names are those of [`TrainRequest`](super::request::TrainRequest), so a saved plan can be trained again.
//! A number that turns something off is 0. Sections that only one method has are absent for the others.

use std::{collections::BTreeMap, fmt, path::PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    estimate::Estimate,
    fit::Fit,
    request::{Learn, Method, OptimizerKind, ScheduleKind, TokenizerSource},
};
use crate::{
    Error,
    arch::{config::DecoderConfig, lora::LoraConfig},
    data::{DataRequest, TextRows, format::Format},
    device::{
        self, RequestedDevice,
        check::Checked,
        dtype::{Dtype, Role},
    },
};

/// A whole run, decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrainPlan {
    /// What the run is called.
    pub name: String,
    /// What is trained.
    pub method: Method,
    /// The folder of the model to start from. Absent from scratch.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub model: Option<PathBuf>,
    /// The new model. Present from scratch only.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub scratch: Option<ScratchPlan>,
    /// What to learn from.
    pub data: DataPlan,
    /// The adapter. Present for LoRA only.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lora: Option<LoraPlan>,
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
    pub checkpointing: bool,
    /// The kinds of numbers.
    pub dtype: DtypePlan,
    /// What may be given up when memory runs out.
    #[serde(default)]
    pub relief: ReliefPlan,
    /// The operations that are computed without the kernels made for them, since those are wrong on this device.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub avoid_kernels: Vec<String>,
    /// The device. Never `auto`.
    pub device: RequestedDevice,
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

/// A new model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScratchPlan {
    /// The whole `config.json`.
    pub config: Map<String, Value>,
    /// Where its tokenizer comes from.
    pub tokenizer: TokenizerSource,
    /// The most tokens a tokenizer trained for it may have.
    pub vocab_size: usize,
}

/// What to learn from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DataPlan {
    /// The files, in order.
    pub files: Vec<PathBuf>,
    /// The layout of a row. Absent when it is found for each file.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub format: Option<Format>,
    /// Which column plays which part. Empty when the layout says so itself.
    pub columns: BTreeMap<String, String>,
    /// How bytes become letters.
    pub encoding: String,
    /// What a row of plain text is.
    pub rows: TextRows,
    /// The share kept aside.
    pub held_out: f64,
    /// Which words count.
    pub learn: Learn,
    /// Rows with more tokens are cut.
    pub max_length: usize,
    /// Whether several rows share a row of a batch.
    pub packing: bool,
    /// Whether unreadable rows are left out.
    pub skip_bad_rows: bool,
}

impl TrainPlan {
    /// Whether held-out data is looked at after a step.
    pub fn evaluates_after(&self, step: usize) -> bool {
        self.evaluate.every > 0 && (is_due(self.evaluate.every, step) || step == self.steps)
    }

    /// Whether the model writes after a step.
    pub fn samples_after(&self, step: usize) -> bool {
        self.sample.every > 0 && (is_due(self.sample.every, step) || step == self.steps)
    }

    /// Whether the run is saved after a step, which may be the best so far.
    pub fn saves_after(&self, step: usize, is_best: bool) -> bool {
        self.save.is_due(step) || step == self.steps || (is_best && self.save.keep_best)
    }

    /// Bytes of the tensors that a checkpoint holds when so many numbers learn: each with its moments. Of a run that keeps
    /// an average of its weights, both are saved, and the average once more as the model.
    pub fn checkpoint_bytes(&self, learning_numbers: u64) -> u64 {
        let copies = 1 + self.optimizer.moments() + if self.ema > 0.0 { 2 } else { 0 };
        learning_numbers * copies * 4
    }

    /// Has at most so many rows computed at once, and more batches, so that an update and a look at held-out data see as many
    /// rows as before.
    pub fn limit_rows(&mut self, most: usize) {
        let before = self.batch.rows;
        let all = before * self.batch.accumulate;
        let divides = |rows: &usize| all.is_multiple_of(*rows);
        let rows = (1..=most.min(before)).rev().find(divides).unwrap_or(1);
        self.batch.rows = rows;
        self.batch.accumulate = all / rows;
        self.evaluate.batches = (self.evaluate.batches * before).div_ceil(rows);
    }
}

impl DataPlan {
    /// What of it says how files are read.
    pub fn source(&self) -> DataRequest {
        DataRequest {
            paths: self.files.clone(),
            format: self.format,
            columns: self.columns.clone(),
            encoding: Some(self.encoding.clone()),
            rows: Some(self.rows),
            skip_bad_rows: self.skip_bad_rows,
        }
    }
}

/// A low-rank adapter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoraPlan {
    /// The width of the two matrices.
    pub rank: usize,
    /// How strongly it counts.
    pub alpha: f64,
    /// The share of its input dropped.
    pub dropout: f64,
    /// The weights that get one, by the last part of their names.
    pub targets: Vec<String>,
    /// The layers that get one, from 0.
    pub layers: Vec<usize>,
    /// Whether the scale is alpha / sqrt(rank).
    pub rslora: bool,
}

impl LoraPlan {
    /// The adapter as an architecture attaches it.
    pub fn config(&self) -> LoraConfig {
        LoraConfig {
            rank: self.rank,
            alpha: self.alpha,
            dropout: self.dropout,
            rank_stabilized: self.rslora,
            targets: self.targets.clone(),
            layers: Some(self.layers.clone()),
        }
    }

    /// What the adapter's output is multiplied with.
    pub fn scale(&self) -> f64 {
        let rank = self.rank as f64;
        self.alpha / if self.rslora { rank.sqrt() } else { rank }
    }
}

/// The size of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BatchPlan {
    /// Rows computed at once.
    pub rows: usize,
    /// Tokens in a row.
    pub length: usize,
    /// Batches per update.
    pub accumulate: usize,
}

impl BatchPlan {
    /// Tokens one update sees when no part of a batch is empty.
    pub fn tokens_per_step(&self) -> usize {
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
    /// SGD's memory of updates.
    pub momentum: f64,
}

impl OptimizerPlan {
    /// How many numbers the rule keeps for each weight.
    pub fn moments(&self) -> u64 {
        match self.kind {
            OptimizerKind::Adamw => 2,
            OptimizerKind::Sgd => u64::from(self.momentum > 0.0),
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
pub struct ReliefPlan {
    /// The width of the numbers that are computed in, where the device check found a narrower format right.
    pub narrower_dtype: bool,
    /// The device: the processor may go on instead.
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
    /// What to continue or answer. With none, the beginning of a held-out row.
    pub prompts: Vec<String>,
    /// How many tokens.
    pub tokens: usize,
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
pub struct Facts {
    /// The model the request names. `None` from scratch.
    pub model: Option<ModelFacts>,
    /// The data the request names.
    pub data: DataFacts,
    /// How many tokens the tokenizer really has: one trained on little text may have fewer than asked.
    pub vocab_size: usize,
    /// The device that was chosen.
    pub device: device::Choice,
    /// What the device check found on it.
    pub checked: Checked,
}

/// A model on disk.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelFacts {
    /// Its shape, where that is known.
    pub config: Option<DecoderConfig>,
    /// The longest text it was made for, in tokens.
    pub context: usize,
    /// How many layers.
    pub layers: usize,
    /// The linear weights of a layer, by the last part of their names: what LoRA can be put beside.
    pub linears: Vec<String>,
}

impl ModelFacts {
    /// The facts about a model of this shape.
    pub fn of(config: &DecoderConfig) -> Self {
        let linears = config.linears().iter();
        Self {
            config: Some(config.clone()),
            context: config.max_position_embeddings,
            layers: config.layers.len(),
            linears: linears.map(|&name| name.to_owned()).collect(),
        }
    }
}

/// Data on disk.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DataFacts {
    /// How the files are read, in words.
    pub read_as: String,
    /// Whether rows have turns, so that the assistant's words can be told from the rest.
    pub chat: bool,
    /// Rows to learn from.
    pub rows: usize,
    /// Rows kept aside.
    pub held_out_rows: usize,
    /// Tokens to learn from.
    pub tokens: usize,
    /// 19 of 20 rows have at most this many tokens.
    pub length_95: usize,
    /// Tokens of the longest row.
    pub length_longest: usize,
    /// How many rows are longer than each power of two up to the longest. Empty for text that has no rows.
    pub longer: Vec<(usize, usize)>,
}

/// A value with the reason for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Chosen<T> {
    /// The value.
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
pub struct Resolved {
    /// What will be done.
    pub plan: TrainPlan,
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

impl Resolved {
    /// What the run needs beside what there is, where that is known and too little.
    pub fn misfit(&self) -> Option<&Fit> {
        self.fit.as_ref().filter(|fit| !fit.fits)
    }
}

/// Why a field of the plan has its value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reason {
    /// The field, as in a run file: `batch.rows`.
    pub field: String,
    /// Its value, as in a run file.
    pub value: String,
    /// A sentence.
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
            None => Self::setting("request", "can't be planned"),
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
