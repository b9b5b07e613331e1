//! What a person asks of a run that trains a language model, beside what every run is asked.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use crate::data::encode::Learn;
use crate::{
    checkpoint::quantize::Quantization,
    data::{self, TextRows, format::Format},
    train::tree::Part,
};

/// The part of a request that is about language.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LanguageRequest {
    /// `lora` trains a small adapter, `full` every weight of an existing model, `scratch` a new model from scratch.
    pub method: Option<Method>,
    /// The model to start from: a folder in the layout of the Hugging Face Hub.
    pub model: Option<PathBuf>,
    /// What the frozen weights are put into: `nf4`, `q4_0` or `q8_0`, or `none`.
    pub quantize: Option<Quantize>,
    /// The new model to make, instead of `model`.
    pub scratch: Option<ScratchRequest>,
    /// What to learn from.
    pub data: TextDataRequest,
    /// The adapter, when the method is `lora`.
    pub lora: LoraRequest,
    /// What the model is asked to write.
    pub sample: PromptRequest,
}

impl Part for LanguageRequest {}

/// A model made from scratch.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ScratchRequest {
    /// A size that works: `nano`, `micro` or `small`, or a recursive model: `trm_chat`, `trm_chat_fast` or `trm_chat_large`.
    pub preset: Option<Preset>,
    /// Fields of `config.json`. They replace those of the preset.
    pub config: Map<String, Value>,
    /// How many tokens the new tokenizer may have.
    pub vocab_size: Option<usize>,
    /// `trained` makes a tokenizer from the data; a path takes a `tokenizer.json` or the folder of a model.
    pub tokenizer: Option<TokenizerSource>,
}

/// What to learn from, and which part of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TextDataRequest {
    /// Files, and folders of files, read in this order.
    pub files: Vec<PathBuf>,
    /// The layout of a row: `messages`, `sharegpt`, `prompt_completion`, `alpaca` or `text`. Without it, it is found
    /// from the columns.
    pub format: Option<Format>,
    /// Which column plays which part, such as `prompt: question` and `completion: answer`.
    pub columns: BTreeMap<String, String>,
    /// How bytes become letters: `utf-8`, `latin-1`, or another name from the web's encoding list.
    pub encoding: Option<String>,
    /// What a row of plain text is: `whole` files in windows, `lines`, or `paragraphs`.
    pub rows: Option<TextRows>,
    /// The share of rows kept aside to measure with, from 0 to 0.5.
    pub held_out: Option<f64>,
    /// Learn from the `assistant`'s words only, or from `all` words.
    pub learn: Option<Learn>,
    /// Rows with more tokens are cut.
    pub max_length: Option<usize>,
    /// Put several short rows into one, so that no part of a batch is empty.
    pub packing: Option<bool>,
    /// Leave out rows that can't be read, instead of refusing the file.
    pub skip_bad_rows: Option<bool>,
}

impl TextDataRequest {
    /// What of it says how files are read.
    pub fn source(&self) -> data::DataRequest {
        data::DataRequest {
            paths: self.files.clone(),
            format: self.format,
            columns: self.columns.clone(),
            encoding: self.encoding.clone(),
            rows: self.rows,
            skip_bad_rows: self.skip_bad_rows.unwrap_or_default(),
        }
    }
}

/// A low-rank adapter: two small matrices beside each chosen weight (Hu et al., <https://arxiv.org/abs/2106.09685>).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoraRequest {
    /// The width of the two matrices. More can learn more.
    pub rank: Option<usize>,
    /// How strongly the adapter counts: its output is scaled by alpha / rank.
    pub alpha: Option<f64>,
    /// The share of the adapter's input dropped at random while it learns.
    pub dropout: Option<f64>,
    /// Which weights get one, by the last part of their names, such as `q_proj`.
    pub targets: Option<Vec<String>>,
    /// In which layers, counted from 0.
    pub layers: Option<Vec<usize>>,
    /// Scale by alpha / sqrt(rank) instead, which keeps large ranks stable (<https://arxiv.org/abs/2312.03732>).
    pub rslora: Option<bool>,
}

/// What the model writes while it learns.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PromptRequest {
    /// What it is to continue or answer. With none, the beginning of a held-out row.
    pub prompts: Option<Vec<String>>,
    /// How many tokens it may write.
    pub tokens: Option<usize>,
}

/// What is trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// A low-rank adapter beside frozen weights.
    Lora,
    /// Every weight of an existing model.
    Full,
    /// Every weight of a new model.
    Scratch,
}

/// What the frozen weights beside an adapter are put into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantize {
    /// They stay as they are.
    None,
    /// 4 bits, by the quantiles of a normal distribution.
    Nf4,
    /// 4 bits, in equal steps.
    Q4_0,
    /// 8 bits.
    Q8_0,
}

impl From<Quantize> for Option<Quantization> {
    fn from(quantize: Quantize) -> Self {
        Some(match quantize {
            Quantize::None => return None,
            Quantize::Nf4 => Quantization::Nf4,
            Quantize::Q4_0 => Quantization::Q4_0,
            Quantize::Q8_0 => Quantization::Q8_0,
        })
    }
}

/// A size of a new model that is known to work. [`super::preset`] has the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Preset {
    /// About a million parameters: learns small talk in minutes on any machine.
    Nano,
    /// About three million parameters: learns the style of a book in minutes on a few CPU cores.
    Micro,
    /// About 124 million parameters, the size of the smallest GPT-2: wants a GPU.
    Small,
    /// A recursive model of four blocks that are used twice for a token.
    TrmChat,
    /// A small recursive model of two blocks that are used six times.
    TrmChatFast,
    /// A wide recursive model of two blocks that are used fifteen times: wants a GPU.
    TrmChatLarge,
}

/// Where the tokenizer of a new model comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum TokenizerSource {
    /// A byte-level BPE, trained on the data of the run.
    Trained,
    /// A `tokenizer.json`, or the folder of a model that has one.
    File(PathBuf),
}

impl From<String> for TokenizerSource {
    fn from(words: String) -> Self {
        match words.as_str() {
            "trained" => Self::Trained,
            _ => Self::File(words.into()),
        }
    }
}

impl From<TokenizerSource> for String {
    fn from(source: TokenizerSource) -> Self {
        match source {
            TokenizerSource::Trained => "trained".to_owned(),
            TokenizerSource::File(path) => path.display().to_string(),
        }
    }
}

impl Method {
    /// The name, as in a run file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lora => "lora",
            Self::Full => "full",
            Self::Scratch => "scratch",
        }
    }
}
