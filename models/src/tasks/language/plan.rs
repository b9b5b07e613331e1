//! What a run that trains a language model is going to do, beside what every run does, and what it is planned from.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::request::{Learn, Method, TokenizerSource};
use crate::{
    arch::{config::DecoderConfig, lora::LoraConfig},
    data::{DataRequest, TextRows, format::Format},
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

/// What the model writes while it learns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PromptPlan {
    /// What to continue or answer. With none, the beginning of a held-out row.
    pub prompts: Vec<String>,
    /// How many tokens.
    pub tokens: usize,
}

/// What was looked up before a language run can be planned.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LanguageFacts {
    /// The model the request names. `None` from scratch.
    pub model: Option<ModelFacts>,
    /// The data the request names.
    pub data: DataFacts,
    /// How many tokens the tokenizer really has: one trained on little text may have fewer than asked.
    pub vocab_size: usize,
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
    pub fn shape(&self, plan: &LanguagePlan) -> Option<DecoderConfig> {
        match (&plan.scratch, &self.model) {
            (Some(scratch), _) => {
                DecoderConfig::from_json(&Value::Object(scratch.config.clone())).ok()
            }
            (None, model) => model.as_ref()?.config.clone(),
        }
    }
}
