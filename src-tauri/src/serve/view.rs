//! The server as the window shows it.

use serde::Serialize;
use specta::Type;
use specta_typescript::Number;

use super::{Server, Standing, journal::RequestEntry};

/// A server that is running, and what it did since it was last looked at.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServerView {
    /// What clients are given: `http://127.0.0.1:1414/v1`.
    address: String,
    /// What clients call the model.
    model: String,
    /// The run or folder that was asked for.
    name: String,
    /// Whether it answers turns; otherwise it continues text.
    answers: bool,
    /// The longest text it reads, in tokens.
    context: usize,
    /// Whether clients have to show a key.
    has_key: bool,
    /// How many requests it answers at once.
    slots: usize,
    /// Since when it is running, in UTC.
    since: String,
    /// Requests that were answered with text.
    answered: u32,
    /// Requests that are being answered.
    answering: usize,
    /// Requests that wait.
    waiting: usize,
    /// Of the last answer.
    #[specta(type = Option<Number>)]
    tokens_per_second: Option<f64>,
    /// Seconds until its first token.
    #[specta(type = Option<Number>)]
    first_seconds: Option<f64>,
    /// The requests that are new, the oldest first.
    entries: Vec<RequestEntry>,
    /// What a person should know about where it computes.
    warnings: Vec<String>,
}

impl ServerView {
    /// What there is after the request with this number.
    pub(crate) fn new(server: &Server, after: u32) -> Self {
        let Standing {
            answered,
            answering,
            waiting,
            last,
        } = server.standing();
        // The first token is paid for by the prompt.
        let rate = last.filter(|it| it.completion_tokens > 1);
        Self {
            address: server.address(),
            model: server.shared.model.clone(),
            name: server.about.name.clone(),
            answers: server.about.answers,
            context: server.about.context,
            has_key: server.shared.door.has_key(),
            slots: server.about.slots,
            since: server.about.since.to_string(),
            answered,
            answering,
            waiting,
            tokens_per_second: rate
                .map(|it| (it.completion_tokens - 1) as f64 / it.seconds.max(1e-9)),
            first_seconds: last.map(|it| it.prompt_seconds),
            entries: server.entries(after),
            warnings: server.about.warnings.clone(),
        }
    }
}
