//! Talking to a model.

use models::generate::Ended;
use serde::Serialize;
use specta::Type;
use specta_typescript::Number;

use crate::{
    store::conversations::ConversationFile,
    wire::chat::{ChatSettings, Said},
};

/// A model that is open to be talked to.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChatView {
    /// Whether it answers; otherwise it continues what is said.
    pub(crate) answers: bool,
    /// The longest conversation it can read, in tokens.
    pub(crate) context: usize,
    /// How answers are written.
    pub(crate) sampling: ChatSettings,
    /// What a person should know about where it computes.
    pub(crate) warnings: Vec<String>,
    /// The folder of the model that an adapter was trained for: what to compare it with.
    pub(crate) base: Option<String>,
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AnswerView {
    text: String,
    tokens: usize,
    #[specta(type = Number)]
    tokens_per_second: f64,
    /// Seconds until the first token.
    #[specta(type = Number)]
    first_seconds: f64,
    /// Tokens of the conversation with the answer: what it takes of the context.
    context_used: usize,
    /// How many of the oldest turns were left out, because the conversation is longer than the model can read.
    forgotten_turns: usize,
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
    turns: usize,
    /// When it was last saved, in UTC.
    changed: String,
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
            tokens: answer.tokens.len(),
            tokens_per_second: answer.tokens_per_second(),
            first_seconds: answer.prompt_seconds,
            context_used: read + answer.tokens.len(),
            forgotten_turns,
            cut: match answer.ended {
                Ended::MaxTokens => Some("max tokens reached".to_owned()),
                Ended::Context => Some("context full".to_owned()),
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
            turns: file.turns.len(),
            changed: file.changed,
        }
    }
}
