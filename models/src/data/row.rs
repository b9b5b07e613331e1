//! One row of data, whatever file and layout it came from: a conversation or a text.

use std::{fmt, path::PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::source::with_details;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "specta", derive(specta::Type))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Sets the scene.
    System,
    /// Asks.
    User,
    /// Answers: the words that are learned.
    Assistant,
    /// Gives the result of a tool the assistant called.
    Tool,
}

/// One turn of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "specta", derive(specta::Type))]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: String,
    /// Everything else the row says about the turn, such as `tool_calls`, for templates that read it.
    #[serde(default, flatten, skip_serializing_if = "Map::is_empty")]
    #[cfg_attr(feature = "specta", specta(skip))]
    pub extra: Map<String, Value>,
}

/// What a row says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Example {
    /// A conversation, in order.
    Chat(Vec<Message>),
    /// Text that a model learns to continue, without turns.
    Text(String),
}

/// A row and where it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Which of the data set's files, from 0.
    pub file: u32,
    /// The line of the file at which the row begins, from 1.
    pub line: u32,
    /// What it says.
    pub example: Example,
}

/// A row that can't be used, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// The data file that the row is in.
    pub path: PathBuf,
    /// The line at which the row begins, from 1.
    pub line: u32,
    /// The column at fault, if one is.
    pub field: Option<String>,
    /// What is wrong with it.
    pub reason: String,
    /// What a library said, where the reason is in our words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<String>,
}

impl Problem {
    /// What is wrong, with the column: `answer is empty`.
    pub fn what(&self) -> String {
        match &self.field {
            Some(field) => format!("`{field}` {}", self.reason),
            None => self.reason.clone(),
        }
    }
}

impl Role {
    /// The role a data set's word means: its own names, ShareGPT's, and those of the large services.
    pub fn from_word(word: &str) -> Option<Self> {
        Some(match word.trim().to_ascii_lowercase().as_str() {
            "system" | "developer" => Self::System,
            "user" | "human" | "prompter" => Self::User,
            "assistant" | "gpt" | "chatgpt" | "model" | "bot" => Self::Assistant,
            "tool" | "function" | "observation" | "function_response" => Self::Tool,
            _ => return None,
        })
    }

    /// The name chat templates know it by.
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

impl Message {
    /// A turn with nothing but words.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self {
            role,
            content: content.into(),
            extra: Map::new(),
        }
    }

    /// Whether it says anything: words, or the call of a tool.
    pub fn is_empty(&self) -> bool {
        self.content.trim().is_empty() && !self.extra.contains_key("tool_calls")
    }
}

impl Example {
    /// A question and its answer.
    pub fn exchange(question: impl Into<String>, answer: impl Into<String>) -> Self {
        Self::Chat(vec![
            Message::new(Role::User, question),
            Message::new(Role::Assistant, answer),
        ])
    }

    /// Bytes that are the same exactly for rows that say the same, to hash and to compare.
    pub fn identity(&self) -> Vec<u8> {
        match self {
            Self::Text(text) => [b"text\0", text.as_bytes()].concat(),
            Self::Chat(messages) => {
                let mut bytes = b"chat\0".to_vec();
                for message in messages {
                    // Lengths keep apart what a separator inside the words could join.
                    bytes.extend(message.role.name().as_bytes());
                    bytes.extend((message.content.len() as u64).to_le_bytes());
                    bytes.extend(message.content.as_bytes());
                    if !message.extra.is_empty() {
                        bytes.extend(Value::from(message.extra.clone()).to_string().as_bytes());
                    }
                }
                bytes
            }
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "line {}: ", self.line)?;
        if let Some(field) = &self.field {
            write!(out, "`{field}` ")?;
        }
        let reason = with_details(&self.reason, self.details.as_deref());
        write!(out, "{reason}")
    }
}
