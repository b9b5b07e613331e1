//! The fields that every run has, as a person meets them: what each is called, does and may be.
//!
//! This is data for the form, the terminal and the guide. Deliberately absent: defaults and checks, which live in
//! `resolve`, and the fields of a kind of learning, which stand beside it.

use std::fmt;

use serde::Serialize;

use crate::{limits, optim::muon::MAX_STEPS as MAX_STEPS_OF_MUON};

use FieldKind::{Choice as Word, Count, Flag, List, Map, Number, Path, Text};

/// The most rows at once.
pub const MAX_ROWS: usize = limits::BATCH_ROWS.most as usize;
/// The most batches of an update.
pub const MAX_ACCUMULATE: usize = limits::ACCUMULATE.most as usize;
/// The most devices.
pub const MAX_DEVICES: usize = limits::DEVICES.most as usize;
/// The most steps.
pub const MAX_STEPS: usize = limits::STEPS.most as usize;

/// A field of a run file.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Field {
    /// As in a run file: `batch.rows`.
    pub name: &'static str,
    /// What it is called, in sentence case: `Batch size`.
    pub label: &'static str,
    /// The section of the form, the terminal's list and the guide that it stands in.
    pub group: &'static str,
    /// One or two sentences: what it does, and what 0 means.
    pub help: &'static str,
    /// What is written there.
    pub kind: FieldKind,
    /// The values it may have, where they are words.
    pub choices: &'static [Choice],
    /// What a number counts, such as `rows`.
    pub unit: Option<&'static str>,
    /// Which numbers are allowed on every machine and with every model.
    pub bounds: Option<Bounds>,
    /// Whether it is rarely changed, so that a form folds it away.
    pub advanced: bool,
    /// The field and its values without which this one has no meaning.
    pub needs: Option<Needs>,
    /// The kind of learning that has it, such as `language`. Without one, every run has it.
    pub task: Option<&'static str>,
}

/// What is written in a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FieldKind {
    /// Any text.
    Text,
    /// A file or folder.
    Path,
    /// One of its choices.
    Choice,
    /// `true` or `false`.
    Flag,
    /// A whole number from 0.
    Count,
    /// A number that needn't be whole.
    Number,
    /// Values in brackets: `[a, b]`.
    List,
    /// Names with values: `{a: b}`.
    Map,
}

/// A word that a field knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Choice {
    /// As in a run file: `lora`.
    pub value: &'static str,
    /// What it is called, in sentence case.
    pub label: &'static str,
}

/// The numbers that a field may have.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Bounds {
    /// The least value. Not allowed itself where `above` is set.
    pub min: f64,
    /// The largest, where there is one.
    pub max: Option<f64>,
    /// Whether the smallest itself is not allowed.
    pub above: bool,
}

/// A field and values of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Needs {
    /// The field: `method`.
    pub field: &'static str,
    /// The values of which it has to have one.
    pub values: &'static [&'static str],
}

impl Field {
    /// What may be written there, in words: `whole number of rows, at least 1`.
    pub fn values(&self) -> String {
        let kind = match self.kind {
            Text => "text",
            Path => "path",
            Flag => "true or false",
            Count => "whole number",
            Number => "number",
            List => "list, such as [a, b]",
            Map => "map, such as {a: b}",
            Word => {
                let words: Vec<&str> = self.choices.iter().map(|it| it.value).collect();
                return words.join(", ");
            }
        };
        let unit = self.unit.map(|unit| format!(" of {unit}"));
        let bounds = self.bounds.map(|bounds| format!(", {bounds}"));
        format!(
            "{kind}{}{}",
            unit.unwrap_or_default(),
            bounds.unwrap_or_default()
        )
    }

    /// What it does, and where it has a meaning.
    pub fn described(&self) -> String {
        match self.needs {
            Some(Needs { field, values }) => {
                let help = self.help;
                format!("{help} Only with `{field}: {}`.", values.join("` or `"))
            }
            None => self.help.to_owned(),
        }
    }

    pub(crate) const fn new(
        group: &'static str,
        name: &'static str,
        label: &'static str,
        kind: FieldKind,
        help: &'static str,
    ) -> Self {
        Self {
            name,
            label,
            group,
            help,
            kind,
            choices: &[],
            unit: None,
            bounds: None,
            advanced: false,
            needs: None,
            task: None,
        }
    }

    pub(crate) const fn choices(mut self, choices: &'static [Choice]) -> Self {
        self.choices = choices;
        self
    }

    pub(crate) const fn unit(mut self, unit: &'static str) -> Self {
        self.unit = Some(unit);
        self
    }

    pub(crate) const fn at_least(mut self, min: f64) -> Self {
        self.bounds = Some(Bounds {
            min,
            max: None,
            above: false,
        });
        self
    }

    pub(crate) const fn above(mut self, min: f64) -> Self {
        self.bounds = Some(Bounds {
            min,
            max: None,
            above: true,
        });
        self
    }

    pub(crate) const fn at_most(mut self, max: f64) -> Self {
        if let Some(bounds) = &mut self.bounds {
            bounds.max = Some(max);
        }
        self
    }

    pub(crate) const fn advanced(mut self) -> Self {
        self.advanced = true;
        self
    }

    pub(crate) const fn needs(
        mut self,
        field: &'static str,
        values: &'static [&'static str],
    ) -> Self {
        self.needs = Some(Needs { field, values });
        self
    }

    pub(crate) const fn of(mut self, task: &'static str) -> Self {
        self.task = Some(task);
        self
    }
}

impl Bounds {
    /// Whether a field may have this number.
    pub fn contain(&self, number: f64) -> bool {
        let is_high_enough = match self.above {
            true => number > self.min,
            false => number >= self.min,
        };
        is_high_enough && self.max.is_none_or(|max| number <= max)
    }
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let min = Figure(self.min);
        match (self.above, self.max.map(Figure)) {
            (false, None) => write!(f, "at least {min}"),
            (false, Some(max)) => write!(f, "from {min} to {max}"),
            (true, None) => write!(f, "above {min}"),
            (true, Some(max)) => write!(f, "above {min}, at most {max}"),
        }
    }
}

/// A bound as it would be typed: tiny ones with an exponent.
struct Figure(f64);

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            tiny if tiny > 0.0 && tiny < 1e-6 => write!(f, "{tiny:e}"),
            figure => write!(f, "{figure}"),
        }
    }
}

/// A word and what it is called.
pub(crate) const fn choice(value: &'static str, label: &'static str) -> Choice {
    Choice { value, label }
}

const DTYPES: &[Choice] = &[
    choice("f32", "32-bit (f32)"),
    choice("bf16", "16-bit, wide range (bf16)"),
    choice("f16", "16-bit, fine steps (f16)"),
];

const DEVICES: &[Choice] = &[
    choice("auto", "Automatic"),
    choice("cpu", "CPU"),
    choice("gpu", "Best GPU"),
    choice("metal", "Metal"),
    choice("cuda", "CUDA"),
];

const SCHEDULES: &[Choice] = &[
    choice("cosine", "Cosine"),
    choice("linear", "Linear"),
    choice("constant", "Constant"),
];

const OPTIMIZERS: &[Choice] = &[
    choice("adamw", "AdamW"),
    choice("adamw_8bit", "AdamW in 8 bits"),
    choice("adam_atan2", "Adam-atan2"),
    choice("muon", "Muon"),
    choice("sgd", "SGD"),
];

/// The field that says which optimizer it is.
pub(super) const OPTIMIZER: &str = "optimizer.kind";

/// What a field or section was called in run files of earlier versions, which are still read.
pub const FORMER_NAMES: [(&str, &str); 2] = [
    ("checkpointing", "gradient_checkpointing"),
    ("relief", "memory_fallback"),
];

/// The fields that every run has.
#[rustfmt::skip]
pub const FIELDS: &[Field] = &[
    Field::new("Run", "name", "Name", Text, "What the run is called. It becomes part of the name of its folder."),
    Field::new("Run", "steps", "Steps", Count, "How many times the weights are updated. Set this or the epochs, not both.").at_least(1.0).at_most(MAX_STEPS as f64),
    Field::new("Run", "epochs", "Epochs", Number, "How many times the whole data is seen. Set this or the steps, not both.").above(0.0),
    Field::new("Run", "seed", "Seed", Count, "Where all randomness starts. The same seed and data give the same run.").advanced(),

    Field::new("Batch", "batch.rows", "Batch size", Count, "Rows computed at once. Memory grows with it.").unit("rows").at_least(1.0).at_most(MAX_ROWS as f64),
    Field::new("Batch", "batch.length", "Sequence length", Count, "Units in a row of a batch, such as the tokens of a text. Memory grows with it.").at_least(2.0),
    Field::new("Batch", "batch.accumulate", "Gradient accumulation", Count, "Batches whose gradients are added up before the weights change. Time grows with it, memory does not.").unit("batches").at_least(1.0).at_most(MAX_ACCUMULATE as f64).advanced(),
    Field::new("Batch", "gradient_checkpointing", "Gradient checkpointing", Flag, "Compute activations twice instead of keeping them: less memory, about a third more time.").advanced(),

    Field::new("Learning", "learning_rate", "Learning rate", Number, "The highest learning rate of the run, such as 2e-4.").above(0.0).at_most(10.0),
    Field::new("Learning", "schedule.kind", "Schedule", Word, "How the learning rate falls after the warm-up.").choices(SCHEDULES).advanced(),
    Field::new("Learning", "schedule.warmup_steps", "Warm-up", Count, "Steps in which the learning rate rises from 0. 0 starts at the highest.").unit("steps").advanced(),
    Field::new("Learning", "schedule.start_ratio", "First learning rate", Number, "Where the warm-up begins, as a share of the highest learning rate.").at_least(0.0).at_most(1.0).advanced(),
    Field::new("Learning", "schedule.min_ratio", "Final learning rate", Number, "The last learning rate, as a share of the highest.").at_least(0.0).at_most(1.0).advanced(),
    Field::new("Learning", "optimizer.kind", "Optimizer", Word, "The rule that turns gradients into updates. AdamW in 8 bits keeps a quarter of the memory of AdamW, which matters where all weights are trained.").choices(OPTIMIZERS).advanced(),
    Field::new("Learning", "optimizer.beta1", "Beta 1", Number, "How much of the mean of past gradients is kept.").at_least(0.0).at_most(0.9999).needs(OPTIMIZER, &["adamw", "adamw_8bit", "adam_atan2", "muon"]).advanced(),
    Field::new("Learning", "optimizer.beta2", "Beta 2", Number, "How much of the mean of past squared gradients is kept.").at_least(0.0).at_most(0.999_999).needs(OPTIMIZER, &["adamw", "adamw_8bit", "adam_atan2", "muon"]).advanced(),
    Field::new("Learning", "optimizer.epsilon", "Epsilon", Number, "Keeps the division from growing without bound.").at_least(1e-20).at_most(1.0).needs(OPTIMIZER, &["adamw", "adamw_8bit", "muon"]).advanced(),
    Field::new("Learning", "optimizer.weight_decay", "Weight decay", Number, "How much of each weight is taken away at each step, times the learning rate. 0 turns it off.").at_least(0.0).at_most(1.0).advanced(),
    Field::new("Learning", "optimizer.momentum", "Momentum", Number, "How much of the last update is kept. 0 turns it off.").at_least(0.0).at_most(0.9999).needs(OPTIMIZER, &["sgd", "muon"]).advanced(),
    Field::new("Learning", "optimizer.nesterov", "Nesterov", Flag, "Look ahead along the momentum.").needs(OPTIMIZER, &["sgd"]).advanced(),
    Field::new("Learning", "optimizer.muon.nesterov", "Nesterov", Flag, "Look ahead along the momentum.").needs(OPTIMIZER, &["muon"]).advanced(),
    Field::new("Learning", "optimizer.muon.newton_schulz_steps", "Newton–Schulz steps", Count, "How often the singular values of an update are brought nearer to 1.").unit("steps").at_least(1.0).at_most(MAX_STEPS_OF_MUON as f64).needs(OPTIMIZER, &["muon"]).advanced(),
    Field::new("Learning", "optimizer.muon.adamw_learning_rate", "Learning rate of AdamW", Number, "The highest learning rate of what Muon leaves to AdamW: tables, heads, and what is no matrix.").at_least(0.0).at_most(10.0).needs(OPTIMIZER, &["muon"]).advanced(),
    Field::new("Learning", "optimizer.muon.adamw_weight_decay", "Weight decay of AdamW", Number, "How much of each of those weights is taken away at each step, times their learning rate. 0 turns it off.").at_least(0.0).at_most(1.0).needs(OPTIMIZER, &["muon"]).advanced(),
    Field::new("Learning", "clip_norm", "Gradient clipping", Number, "Gradients whose norm is larger are scaled down to it. 0 turns it off.").at_least(0.0).at_most(1e6).advanced(),
    Field::new("Learning", "ema", "Weight averaging", Number, "How much of the running average of the weights is kept at each step, such as 0.999. 0 turns it off.").at_least(0.0).at_most(0.999_999).advanced(),

    Field::new("Device", "device", "Device", Word, "Where the run is computed. cuda:1 is the second NVIDIA GPU.").choices(DEVICES),
    Field::new("Device", "devices", "Devices", Count, "How many NVIDIA GPUs of this machine train the run together, with the result of one. Linux only.").unit("devices").at_least(1.0).at_most(MAX_DEVICES as f64).advanced(),
    Field::new("Device", "shard", "Share the optimizer", Flag, "Each of several devices keeps only its part of what the optimizer keeps, and learns the same. Without it, this is done when memory would not be enough.").advanced(),
    Field::new("Device", "dtype.compute", "Compute precision", Word, "The number format of activations and gradients. precision: bf16 at the top of a run file means the same.").choices(DTYPES).advanced(),
    Field::new("Device", "dtype.storage", "Storage precision", Word, "The number format of weights that aren’t trained. Weights that are trained are always f32.").choices(DTYPES).advanced(),
    Field::new("Device", "strict", "Strict", Flag, "Refuse what the device can’t do safely, instead of taking the next best with a warning.").advanced(),
    Field::new("Device", "memory_fallback.narrower_dtype", "Allow narrower precision", Flag, "Continue in a narrower number format when memory runs out, if the device check passed it.").advanced(),
    Field::new("Device", "memory_fallback.cpu", "Allow the CPU", Flag, "Continue on the CPU when the memory of the device runs out.").advanced(),
    Field::new("Device", "avoid_kernels", "Avoided kernels", List, "Operations computed without the kernels made for them, such as rms_norm. Those that failed the device check are added.").advanced(),

    Field::new("Evaluation", "evaluate.every", "Evaluate every", Count, "After how many steps the held-out data is evaluated. 0 turns it off.").unit("steps").advanced(),
    Field::new("Evaluation", "evaluate.batches", "Evaluation batches", Count, "How many batches of the held-out data are evaluated. 0 means all.").unit("batches").advanced(),

    Field::new("Samples", "sample.every", "Sample every", Count, "After how many steps the model shows what it can do. 0 turns it off.").unit("steps").advanced(),

    Field::new("Checkpoints", "save.every", "Save every", Count, "After how many steps the run is saved. 0 saves only at the end and when the run is stopped.").unit("steps").advanced(),
    Field::new("Checkpoints", "save.keep_last", "Keep last", Count, "How many of the newest checkpoints are kept.").unit("checkpoints").at_least(1.0).advanced(),
    Field::new("Checkpoints", "save.keep_every", "Keep every", Count, "After how many steps a checkpoint is saved and kept for good. 0 turns it off.").unit("steps").advanced(),
    Field::new("Checkpoints", "save.keep_best", "Keep best", Flag, "Also keep the checkpoint with the best evaluation.").advanced(),
];
