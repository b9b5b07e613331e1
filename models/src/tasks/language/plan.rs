//! What a run that trains a language model is going to do, beside what every run does, and what it is planned from.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::request::{Learn, Method, TokenizerSource};
use crate::{
    Result,
    arch::{
        config::DecoderConfig,
        lora::{LoraConfig, Targets},
        network::{NetworkConfig, is_recursive},
    },
    checkpoint::{
        folder::ModelFolder, gguf::layers_in_blocks, load::network_config, packed::Packing,
        quantize::Quantization,
    },
    data::{DataRequest, TextRows, format::Format, marks::Marks},
    train::tree::Part,
};

/// The part of a plan that is about language. Sections that only one method has are absent for the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LanguagePlan {
    /// What is trained.
    pub method: Method,
    /// The folder of the model to start from. Absent from scratch.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub model: Option<PathBuf>,
    /// What the frozen weights are put into, if not left as they are. For LoRA only.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub quantize: Option<Quantization>,
    /// The new model. Present from scratch only.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub scratch: Option<ScratchPlan>,
    /// What to learn from.
    pub data: TextDataPlan,
    /// The adapter. Present for LoRA only.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lora: Option<LoraPlan>,
    /// What the model writes while it learns.
    pub sample: PromptPlan,
}

impl Part for LanguagePlan {}

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

impl ScratchPlan {
    /// What its config means.
    pub fn shape(&self) -> Result<NetworkConfig> {
        NetworkConfig::from_json(&Value::Object(self.config.clone()))
    }

    /// How turns are marked in its own tokenizer.
    pub fn marks(&self) -> Marks {
        marks_of(&self.config)
    }
}

/// How turns are marked in the own tokenizer of a new model with this `config.json`: a recursive one writes them as the program
/// that such models come from.
pub(super) fn marks_of(config: &Map<String, Value>) -> Marks {
    match is_recursive(config) {
        true => Marks::Pairs,
        false => Marks::ChatMl,
    }
}

/// What to learn from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TextDataPlan {
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

impl TextDataPlan {
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
            targets: Targets::Named(self.targets.clone()),
            layers: Some(self.layers.clone()),
        }
    }

    /// What the adapter's output is multiplied with.
    pub fn scale(&self) -> f64 {
        self.config().scale()
    }
}

/// What the model writes while it learns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PromptPlan {
    /// What to continue or answer. With none, the beginning of a held-out row.
    pub prompts: Vec<String>,
    /// How many tokens.
    pub tokens: usize,
}

/// The shape of a model, and how its weights lie on disk.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelShape {
    /// Its sizes.
    pub network: NetworkConfig,
    /// Those of its weights that are in few bits on disk.
    pub stored: Stored,
}

/// Weights of layers that are in few bits on disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Stored {
    /// None are, or they are widened as they are read.
    #[default]
    Wide,
    /// NF4, which a run can take as it is.
    Nf4,
    /// The blocks of a file, in which they stay beside an adapter: numbers, and bytes.
    Blocks {
        /// How many numbers are in blocks.
        count: u64,
        /// The bytes of those.
        bytes: u64,
    },
}

impl ModelShape {
    /// What the model in `folder` is, by its configuration and the headers of its files.
    pub fn of(folder: &ModelFolder) -> Result<Self> {
        let stored = match (&folder.gguf, folder.packing) {
            (Some(file), _) => {
                let (count, bytes) = layers_in_blocks(file);
                Stored::Blocks { count, bytes }
            }
            (None, Some(Packing::Nf4)) => Stored::Nf4,
            (None, _) => Stored::Wide,
        };
        Ok(Self {
            network: network_config(folder)?,
            stored,
        })
    }
}

impl From<NetworkConfig> for ModelShape {
    fn from(network: NetworkConfig) -> Self {
        let stored = Stored::Wide;
        Self { network, stored }
    }
}

impl From<DecoderConfig> for ModelShape {
    fn from(config: DecoderConfig) -> Self {
        NetworkConfig::from(config).into()
    }
}

/// What was looked up before a language run can be planned.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LanguageFacts {
    /// The model the request names. `None` from scratch.
    pub model: Option<ModelShape>,
    /// The data the request names.
    pub data: DataFacts,
    /// How many tokens the tokenizer really has: one trained on little text may have fewer than asked.
    pub vocab_size: usize,
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

impl DataFacts {
    /// How many rows have more tokens than so many, a power of two. Nothing for text that has no rows.
    pub fn longer_than(&self, length: usize) -> Option<usize> {
        let first = self.longer.iter().find(|(from, _)| *from >= length);
        match self.longer.is_empty() {
            true => None,
            false => Some(first.map_or(0, |&(_, rows)| rows)),
        }
    }
}

impl LanguageFacts {
    /// The shape of the model that a plan trains, if it can be read.
    pub fn shape(&self, plan: &LanguagePlan) -> Option<ModelShape> {
        match &plan.scratch {
            Some(scratch) => scratch.shape().ok().map(ModelShape::from),
            None => self.model.clone(),
        }
    }
}
