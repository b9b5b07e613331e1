//! Talking to a model.

use models::{
    data::row::{Message, Role},
    generate::Ended,
};
use serde::{Deserialize, Serialize};
use specta::Type;
use specta_typescript::Number;

use crate::{
    store::conversations::ConversationFile,
    wire::{
        chat::{ChatSettings, Said},
        error::{AppError, Result},
    },
};

/// A model that is open to be talked to.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChatView {
    /// Whether it answers; otherwise it continues what is said.
    pub(crate) answers: bool,
    /// The longest conversation it can read, in tokens.
    pub(crate) context: u32,
    /// How answers are written.
    pub(crate) sampling: SamplingView,
    /// What a person should know about where it computes.
    pub(crate) warnings: Vec<String>,
    /// The folder of the model that an adapter was trained for: what to compare it with.
    pub(crate) base: Option<String>,
}

/// How answers are written. The names are those of `anneal chat --set`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SamplingView {
    /// Scores are divided by it: 0 always takes the likeliest token, 1 draws as the model says.
    #[specta(type = Number)]
    pub(crate) temperature: f64,
    /// Draw from so many of the likeliest tokens. 0 is all.
    pub(crate) top_k: u32,
    /// Draw from the likeliest tokens that together have this probability. 1 is all.
    #[specta(type = Number)]
    pub(crate) top_p: f64,
    /// Draw from tokens with at least this share of the likeliest one's probability. 0 is all.
    #[specta(type = Number)]
    pub(crate) min_p: f64,
    /// Scores of tokens already written are divided by it. 1 is off.
    #[specta(type = Number)]
    pub(crate) repetition_penalty: f64,
    /// Where the draw starts. The same seed and words give the same answers.
    pub(crate) seed: u32,
    /// The most tokens of an answer.
    pub(crate) max_tokens: u32,
}

/// One turn of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessageView {
    /// `system`, `user` or `assistant`.
    role: String,
    text: String,
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AnswerView {
    text: String,
    tokens: u32,
    #[specta(type = Number)]
    tokens_per_second: f64,
    /// Seconds until the first token.
    #[specta(type = Number)]
    first_seconds: f64,
    /// Tokens of the conversation with the answer: what it takes of the context.
    context_used: u32,
    /// How many of the oldest turns were left out, because the conversation is longer than the model can read.
    forgotten_turns: u32,
    /// Why it ended, where that is not the model's own end.
    cut: Option<String>,
}

/// A conversation in the list.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConversationView {
    id: String,
    title: String,
    model_title: String,
    turns: u32,
    /// When it was last saved, in UTC.
    changed: String,
}

impl From<&ChatSettings> for SamplingView {
    fn from(settings: &ChatSettings) -> Self {
        Self {
            temperature: settings.temperature,
            top_k: settings.top_k as u32,
            top_p: settings.top_p,
            min_p: settings.min_p,
            repetition_penalty: settings.repetition_penalty,
            seed: settings.seed as u32,
            max_tokens: settings.max_tokens as u32,
        }
    }
}

impl From<SamplingView> for ChatSettings {
    fn from(view: SamplingView) -> Self {
        Self {
            temperature: view.temperature,
            top_k: view.top_k as usize,
            top_p: view.top_p,
            min_p: view.min_p,
            repetition_penalty: view.repetition_penalty,
            seed: u64::from(view.seed),
            max_tokens: view.max_tokens as usize,
        }
    }
}

impl TryFrom<MessageView> for Message {
    type Error = AppError;

    fn try_from(view: MessageView) -> Result<Self> {
        let role = match view.role.as_str() {
            "system" => Role::System,
            "user" => Role::User,
            "assistant" => Role::Assistant,
            other => return Err(AppError::invalid(format!("nobody is called `{other}`"))),
        };
        Ok(Self::new(role, view.text))
    }
}

impl From<Said> for AnswerView {
    fn from(
        Said {
            answer,
            forgotten_turns,
        }: Said,
    ) -> Self {
        let read = answer.prompt_tokens + answer.cached_tokens;
        Self {
            tokens: answer.tokens.len() as u32,
            tokens_per_second: answer.tokens_per_second(),
            first_seconds: answer.prompt_seconds,
            context_used: (read + answer.tokens.len()) as u32,
            forgotten_turns: forgotten_turns as u32,
            cut: match answer.ended {
                Ended::MaxTokens => Some("cut at the most tokens of an answer".to_owned()),
                Ended::Context => Some("cut where the model's context is full".to_owned()),
                Ended::Asked => Some("stopped".to_owned()),
                Ended::StopToken | Ended::StopText => None,
            },
            text: answer.text,
        }
    }
}

impl From<ConversationFile> for ConversationView {
    fn from(file: ConversationFile) -> Self {
        Self {
            id: file.id,
            title: file.title,
            model_title: file.model_title,
            turns: file.turns.len() as u32,
            changed: file.changed,
        }
    }
}
