//! What a person asked for: a run file, the form, or `--set` on the command line. Everything is optional.
//!
//! [`resolve`](super::resolve::resolve) turns a request into a [`TrainPlan`](super::plan::TrainPlan), where nothing
//! is. A plan uses the same names, so the plan of one run can be the request for the next.
//!
//! The documentation of each field is also its help text, so it says what the field does and what 0 means.
//! Deliberately absent: defaults and checks, which live in `resolve`, and how a request is read from a file.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, MapAccess, Unexpected, Visitor, value::MapAccessDeserializer},
    ser,
};
use serde_json::Value;

use super::{
    plan::Problem,
    tree::{Part, join, read_parts},
};
use crate::device::{RequestedDevice, dtype::Dtype};
pub use crate::optim::schedule::ScheduleKind;

/// What to train, on what, and how: the part of every run, and that of its kind of learning.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TrainRequest<T> {
    /// What every run is asked.
    pub run: RunRequest,
    /// What only its kind is asked.
    pub task: T,
}

impl<T: Part> TrainRequest<T> {
    /// Reads a request from the fields of a run file. An error names the field.
    pub fn read(tree: &Value) -> Result<Self, Problem> {
        let (run, task) = read_parts(tree, true)?;
        Ok(Self { run, task })
    }
}

impl<T> TrainRequest<T> {
    /// The same request, with another form of its kind's part.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> TrainRequest<U> {
        TrainRequest {
            run: self.run,
            task: change(self.task),
        }
    }
}

impl<T: Serialize> Serialize for TrainRequest<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let tree = join(&self.run, &self.task).map_err(ser::Error::custom)?;
        tree.serialize(to)
    }
}

impl<'de, T: Part> Deserialize<'de> for TrainRequest<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::read(&Value::deserialize(from)?).map_err(de::Error::custom)
    }
}

/// What every run is asked. Empty fields are filled in, each with a reason.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunRequest {
    /// What the run is called. Becomes part of its folder's name.
    pub name: Option<String>,
    /// How many times the weights are updated. Instead of `epochs`.
    pub steps: Option<usize>,
    /// How often the whole data is seen. Instead of `steps`.
    pub epochs: Option<f64>,
    /// How much data goes into one step. `auto` is the same as nothing: what fits is chosen.
    #[serde(deserialize_with = "section_or_auto")]
    pub batch: BatchRequest,
    /// The highest learning rate of the run.
    pub learning_rate: Option<f64>,
    /// How the learning rate rises and falls.
    pub schedule: ScheduleRequest,
    /// How gradients become updates.
    pub optimizer: OptimizerRequest,
    /// Gradients whose norm is larger are scaled down to it. 0 turns it off.
    pub clip_norm: Option<f64>,
    /// How much of the previous average of the weights is kept at each step, such as 0.999. 0 turns it off.
    pub ema: Option<f64>,
    /// Compute activations twice instead of keeping them: less memory, about a third more time.
    pub gradient_checkpointing: Option<bool>,
    /// In which numbers to compute.
    pub dtype: DtypeRequest,
    /// What may be given up when memory runs out.
    pub memory_fallback: MemoryFallbackRequest,
    /// Operations to compute without the kernels made for them, such as `rms_norm`. What the device check found wrong is
    /// added.
    pub avoid_kernels: Option<Vec<String>>,
    /// `auto`, `cpu`, `metal`, `cuda`, or `cuda:1` for the second one.
    pub device: Option<RequestedDevice>,
    /// How many devices train the run together: NVIDIA cards on Linux, each with its share of every step. The result is that of
    /// one.
    pub devices: Option<usize>,
    /// Whether each of several devices keeps only its part of what the optimizer keeps, and sends the others the weights that it
    /// changed.
    pub shard: Option<bool>,
    /// Refuse what the device can't do safely, instead of taking the next best with a warning.
    pub strict: Option<bool>,
    /// Where all randomness starts. The same seed and data give the same run.
    pub seed: Option<u64>,
    /// How often the held-out data is looked at.
    pub evaluate: EvaluateRequest,
    /// How often the model is asked to write something.
    pub sample: SampleRequest,
    /// How often the run is saved.
    pub save: SaveRequest,
}

/// The size of one step.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BatchRequest {
    /// Rows computed at once. Memory grows with it. `auto` is the same as nothing: what fits is chosen.
    #[serde(deserialize_with = "count_or_auto")]
    pub rows: Option<usize>,
    /// Units in a row, such as the tokens of a text. Memory grows with it.
    pub length: Option<usize>,
    /// Batches whose gradients are added up before the weights change. Time grows with it, memory does not.
    pub accumulate: Option<usize>,
    /// What a plan says of its rows, which can be a request. It follows from the network, so that nobody asks for it.
    #[serde(skip_serializing)]
    pub normalized: Option<bool>,
}

/// The learning rate over the run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ScheduleRequest {
    /// `cosine`, `linear` or `constant`, after the warm-up.
    pub kind: Option<ScheduleKind>,
    /// Steps in which the learning rate rises from 0.
    pub warmup_steps: Option<usize>,
    /// The first learning rate, as a share of the highest, where there is a warm-up.
    pub start_ratio: Option<f64>,
    /// The last learning rate, as a share of the highest.
    pub min_ratio: Option<f64>,
}

/// The rule that turns gradients into updates.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OptimizerRequest {
    /// `adamw`, `adamw_8bit`, `adam_atan2`, `muon` or `sgd`.
    pub kind: Option<OptimizerKind>,
    /// AdamW: how much of the mean of past gradients is kept.
    pub beta1: Option<f64>,
    /// AdamW: how much of the mean of past squared gradients is kept.
    pub beta2: Option<f64>,
    /// AdamW: keeps the division from growing without bound.
    pub epsilon: Option<f64>,
    /// How much of each weight is taken away at each step, times the learning rate.
    pub weight_decay: Option<f64>,
    /// SGD and Muon: how much of the last update is kept.
    pub momentum: Option<f64>,
    /// SGD: whether it looks ahead along the momentum.
    pub nesterov: Option<bool>,
    /// What only Muon has.
    pub muon: MuonRequest,
}

/// Muon, and AdamW for what is no matrix of a layer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MuonRequest {
    /// Whether it looks ahead along the momentum.
    pub nesterov: Option<bool>,
    /// How often its singular values are brought nearer to 1.
    pub newton_schulz_steps: Option<usize>,
    /// The highest learning rate of the other weights.
    pub adamw_learning_rate: Option<f64>,
    /// How much of each of them is taken away at each step, times that rate.
    pub adamw_weight_decay: Option<f64>,
}

/// The kinds of numbers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DtypeRequest {
    /// For activations and gradients: `f32`, `bf16` or `f16`.
    pub compute: Option<Dtype>,
    /// For weights that don't learn: `f32`, `bf16` or `f16`. Weights that learn are always f32.
    pub storage: Option<Dtype>,
}

/// What may be given up when memory runs out, after fewer rows at once and `gradient_checkpointing`, which leave the result as it is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryFallbackRequest {
    /// Continue in narrower numbers, if the device check found them right.
    pub narrower_dtype: Option<bool>,
    /// Continue on the processor.
    pub cpu: Option<bool>,
}

/// When to measure.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EvaluateRequest {
    /// After how many steps the held-out data is looked at. 0 turns it off.
    pub every: Option<usize>,
    /// How many batches of it. 0 means all.
    pub batches: Option<usize>,
}

/// When to write.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SampleRequest {
    /// After how many steps the model writes something. 0 turns it off.
    pub every: Option<usize>,
}

/// When to save.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SaveRequest {
    /// After how many steps the run is saved. 0 saves only at the end and when the run is stopped.
    pub every: Option<usize>,
    /// How many of the newest checkpoints are kept.
    pub keep_last: Option<usize>,
    /// After how many steps the run is saved and that checkpoint is kept for good. 0 turns it off.
    pub keep_every: Option<usize>,
    /// Also keep the checkpoint that measured best.
    pub keep_best: Option<bool>,
}

/// The optimizers, by their names in a run file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OptimizerKind {
    /// Adam with decoupled weight decay (<https://arxiv.org/abs/1711.05101>).
    Adamw,
    /// The same with what it keeps of large matrices in 8 bits (<https://arxiv.org/abs/2110.02861>).
    #[serde(
        rename = "adamw_8bit",
        alias = "adamw8bit",
        alias = "adamw_bnb_8bit",
        alias = "paged_adamw_8bit"
    )]
    Adamw8Bit,
    /// Adam by an angle instead of a division (<https://arxiv.org/abs/2407.05872>): the size of gradients changes nothing.
    AdamAtan2,
    /// Momentum with singular values near 1 (<https://kellerjordan.github.io/posts/muon/>) for the matrices of layers, and AdamW for
    /// the rest.
    Muon,
    /// Stochastic gradient descent with momentum.
    Sgd,
}

/// The word for what is chosen.
const AUTO: &str = "auto";

fn section_or_auto<'de, D: Deserializer<'de>>(from: D) -> Result<BatchRequest, D::Error> {
    struct Section;

    impl<'de> Visitor<'de> for Section {
        type Value = BatchRequest;

        fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
            f.write_str("a map")
        }

        fn visit_str<E: de::Error>(self, word: &str) -> Result<BatchRequest, E> {
            match word {
                AUTO => Ok(BatchRequest::default()),
                _ => Err(E::invalid_type(Unexpected::Str(word), &self)),
            }
        }

        fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<BatchRequest, M::Error> {
            BatchRequest::deserialize(MapAccessDeserializer::new(map))
        }
    }

    from.deserialize_any(Section)
}

fn count_or_auto<'de, D: Deserializer<'de>>(from: D) -> Result<Option<usize>, D::Error> {
    struct Count;

    impl<'de> Visitor<'de> for Count {
        type Value = Option<usize>;

        fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
            f.write_str("usize")
        }

        fn visit_str<E: de::Error>(self, word: &str) -> Result<Option<usize>, E> {
            match word {
                AUTO => Ok(None),
                _ => Err(E::invalid_type(Unexpected::Str(word), &self)),
            }
        }

        fn visit_u64<E: de::Error>(self, count: u64) -> Result<Option<usize>, E> {
            let wrong = |_| E::invalid_value(Unexpected::Unsigned(count), &self);
            count.try_into().map(Some).map_err(wrong)
        }

        fn visit_i64<E: de::Error>(self, count: i64) -> Result<Option<usize>, E> {
            let wrong = |_| E::invalid_value(Unexpected::Signed(count), &self);
            count.try_into().map(Some).map_err(wrong)
        }

        fn visit_unit<E: de::Error>(self) -> Result<Option<usize>, E> {
            Ok(None)
        }
    }

    from.deserialize_any(Count)
}
