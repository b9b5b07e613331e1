//! What the server asks of a model that is open, and what it hears.

use models::{
    data::row::Message,
    generate::{
        Ended,
        chances::Chances,
        sample::{Biases, SamplingSettings},
    },
};
use serde::{Deserialize, Serialize};

use super::error::AppError;

/// What is to be completed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Beginning {
    /// A conversation, to be answered.
    Messages(Vec<Message>),
    /// A text, to be continued.
    Text(String),
    /// The tokens of one.
    Tokens(Vec<u32>),
}

/// What is to be completed, and how. Nothing of a beginning that is too long is left out: it is refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Completion {
    /// What is to be completed.
    pub(crate) beginning: Beginning,
    /// How tokens are drawn.
    pub(crate) sampling: SamplingSettings,
    /// What is added to scores before.
    pub(crate) biases: Biases,
    /// The most tokens. Without it, as many as the model’s context has room for.
    pub(crate) max_tokens: Option<usize>,
    /// Texts that end it.
    pub(crate) stop: Vec<String>,
    /// Whether it has to be one object of JSON.
    pub(crate) is_json: bool,
    /// How many of the most probable tokens are told with each one. Without it, no probabilities are.
    pub(crate) likeliest: Option<usize>,
    /// Reads everything, also what was read before, so that the same request has the same answer to the last bit.
    pub(crate) anew: bool,
    /// Gives the beginning out again, as its tokens read.
    pub(crate) echo: bool,
}

/// What the server asks of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Requested {
    /// Completing something.
    Complete(Box<Completion>),
    /// Making a vector of a text.
    Embed(Beginning),
}

/// What is heard of a request. Nothing comes after any but the first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RequestEvent {
    /// A token was written, or text became certain.
    Drafted(Drafted),
    /// It is over.
    Completed(Completed),
    /// A vector was made, which is all of it.
    Embedded(Embedded),
    /// It can’t be done.
    Failed(AppError),
    /// It was ended, as was asked.
    Left,
}

/// A token was written, or text became certain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Drafted {
    /// Text that is certain now. It may be empty.
    pub(crate) piece: String,
    /// Whether a token was written.
    pub(crate) is_token: bool,
    /// How probable it was, if that was wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) chances: Option<Chances>,
}

/// What became of a completion.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Completed {
    /// It is written.
    Written(Usage),
    /// Its beginning leaves no room in the model’s context.
    TooLong {
        /// Tokens of the beginning.
        tokens: usize,
        /// Tokens of the context.
        context: usize,
    },
    /// Why it can’t be asked of this model: a sentence.
    Unfit(String),
}

/// What became of a text that is to become a vector.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Embedded {
    /// The mean of its hidden states [d], of length 1.
    Vector {
        numbers: Vec<f32>,
        /// Tokens that were read.
        tokens: usize,
        /// How long that took.
        seconds: f64,
    },
    /// It is longer than the model’s context.
    TooLong {
        /// Tokens of the text.
        tokens: usize,
        /// Tokens of the context.
        context: usize,
    },
    /// Why it can’t be asked of this model: a sentence.
    Unfit(String),
}

/// What a completion took, and why it ended.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Usage {
    /// Tokens of the beginning.
    pub(crate) prompt_tokens: usize,
    /// Of them, those that had been read before.
    pub(crate) cached_tokens: usize,
    /// Tokens that were written.
    pub(crate) completion_tokens: usize,
    /// Seconds until the first one.
    pub(crate) prompt_seconds: f64,
    /// Seconds for the others.
    pub(crate) seconds: f64,
    /// Why it ended.
    pub(crate) ended: Ended,
}

impl Usage {
    /// What it took to read something, where nothing was written.
    pub(crate) fn of_reading(prompt_tokens: usize, prompt_seconds: f64) -> Self {
        Self {
            prompt_tokens,
            cached_tokens: 0,
            completion_tokens: 0,
            prompt_seconds,
            seconds: 0.0,
            ended: Ended::StopToken,
        }
    }
}
