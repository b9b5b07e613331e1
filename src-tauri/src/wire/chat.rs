//! What is asked of a model that is used for chat, and what it answers.

use std::path::PathBuf;

use models::{
    data::row::Message,
    generate::{Answer, sample::SamplingSettings},
    ops::kept::CacheType,
    tasks::probe::steer::{Cost, How, Steered},
};
use serde::{Deserialize, Serialize};

use super::error::{AppError, Result};

/// What is to be answered or continued.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Prompt {
    /// A conversation that ends with the user's words.
    Messages(Vec<Message>),
    /// A text to continue with.
    Text(String),
}

/// How answers are written. Each can be changed between two of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "gui", derive(specta::Type))]
#[serde(deny_unknown_fields)]
pub(crate) struct ChatSettings {
    /// Scores are divided by it: 0 always takes the likeliest token, 1 draws as the model says.
    pub(crate) temperature: f64,
    /// Draw from so many of the likeliest tokens. 0 is all.
    pub(crate) top_k: usize,
    /// Draw from the likeliest tokens that together have this probability. 1 is all.
    pub(crate) top_p: f64,
    /// Draw from tokens with at least this share of the likeliest one's probability. 0 is all.
    pub(crate) min_p: f64,
    /// Scores of tokens already written are divided by it. 1 is off.
    pub(crate) repetition_penalty: f64,
    /// Where the draw starts. The same seed and words give the same answers.
    pub(crate) seed: u64,
    /// The most tokens of an answer.
    pub(crate) max_tokens: usize,
    /// How keys and values of what was read are kept.
    pub(crate) cache: CacheType,
}

/// An answer, and what a person should know about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Said {
    /// What the model wrote, and what that took.
    #[serde(flatten)]
    pub(crate) answer: Answer,
    /// How many of the oldest turns were left out, because the conversation is longer than the model can read.
    pub(crate) forgotten_turns: usize,
}

/// A token with what probes say of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "gui", derive(specta::Type))]
#[serde(rename_all = "camelCase")]
pub(crate) struct ScoredToken {
    /// What it adds to the text: nothing while it is only a part of a letter.
    pub(crate) text: String,
    /// Whether the model wrote it.
    pub(crate) is_answer: bool,
    /// The scores in the order of the probes; none where one says nothing of it.
    pub(crate) scores: Vec<Option<f32>>,
}

/// A probe along whose direction a model is to be led.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SteerBy {
    /// Its folder.
    pub(crate) probes: PathBuf,
    /// Its label. Not needed where the folder has one only.
    pub(crate) label: Option<String>,
    /// What is done along the direction.
    pub(crate) how: How,
}

/// How a model is led from now on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Led {
    /// The directions, in their order.
    pub(crate) directions: Vec<Steered>,
    /// What it costs, unless there are none.
    pub(crate) cost: Option<Cost>,
    /// What a person should know of the probes.
    pub(crate) warnings: Vec<String>,
}

impl Default for ChatSettings {
    fn default() -> Self {
        let sampling = SamplingSettings::default();
        Self {
            temperature: sampling.temperature,
            top_k: sampling.top_k,
            top_p: sampling.top_p,
            min_p: sampling.min_p,
            repetition_penalty: sampling.repetition_penalty,
            seed: sampling.seed,
            max_tokens: 512,
            cache: CacheType::default(),
        }
    }
}

impl ChatSettings {
    /// Whether answers can be written so.
    pub(crate) fn check(&self) -> Result<()> {
        self.sampling(0).check()?;
        match self.max_tokens {
            0 => Err(AppError::invalid("an answer has at least 1 token").with_field("max_tokens")),
            _ => Ok(()),
        }
    }

    /// How the tokens of an answer are drawn. Each turn draws differently.
    pub(crate) fn sampling(&self, turn: usize) -> SamplingSettings {
        SamplingSettings {
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            seed: self.seed.wrapping_add(turn as u64),
        }
    }
}
