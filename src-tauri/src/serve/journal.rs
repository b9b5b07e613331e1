//! What the server did, to be looked at: times and sizes only. No message, no answer and no key is ever in it.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Instant,
};

use axum::http::{HeaderMap, header};
use jiff::Timestamp;
use serde::Serialize;

use super::limits;
use crate::{lock::locked, wire::completion::Usage};

/// How many of the newest requests are kept.
const KEPT: usize = 200;

/// A request that was answered or refused.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "gui", derive(specta::Type))]
#[serde(rename_all = "camelCase")]
pub(crate) struct RequestEntry {
    /// Counts from 1 since the server was started.
    pub(crate) number: u32,
    /// When it came, in UTC.
    pub(crate) time: String,
    /// What the client calls itself, if it does.
    pub(crate) client: Option<String>,
    /// Method and path: `POST /v1/chat/completions`.
    pub(crate) request: String,
    /// The status of the answer.
    pub(crate) status: u16,
    /// Tokens that were read, of an answer.
    pub(crate) prompt_tokens: Option<u32>,
    /// Tokens that were written.
    pub(crate) completion_tokens: Option<u32>,
    /// Why it was refused, or that the client left.
    pub(crate) note: Option<String>,
    /// How long it took, in milliseconds.
    #[cfg_attr(feature = "gui", specta(type = specta_typescript::Number))]
    pub(crate) millis: f64,
}

/// The newest requests, and what the last answer took.
#[derive(Debug, Default)]
pub(super) struct Journal {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    entries: VecDeque<RequestEntry>,
    count: u32,
    answered: u32,
    last: Option<Usage>,
}

/// A request that is being answered. It is written down when the last part of its answer is gone.
#[derive(Debug)]
pub(super) struct Visit {
    journal: Arc<Journal>,
    began: Instant,
    entry: Mutex<RequestEntry>,
}

impl Journal {
    /// The requests after one with this number, the oldest first, as far as they are kept.
    pub(super) fn after(&self, number: u32) -> Vec<RequestEntry> {
        let kept = locked(&self.kept);
        let new = kept.entries.iter().filter(|it| it.number > number);
        new.cloned().collect()
    }

    /// How many were answered, and what the last answer took.
    pub(super) fn answered(&self) -> (u32, Option<Usage>) {
        let kept = locked(&self.kept);
        (kept.answered, kept.last)
    }
}

impl Visit {
    pub(super) fn new(journal: Arc<Journal>, request: String, headers: &HeaderMap) -> Self {
        Self {
            journal,
            began: Instant::now(),
            entry: Mutex::new(RequestEntry {
                number: 0,
                time: Timestamp::now().to_string(),
                client: client(headers),
                request,
                status: 0,
                prompt_tokens: None,
                completion_tokens: None,
                note: None,
                millis: 0.0,
            }),
        }
    }

    /// What it was answered with.
    pub(super) fn status(&self, status: u16, note: Option<String>) {
        let mut entry = locked(&self.entry);
        entry.status = status;
        entry.note = note;
    }

    /// What went wrong after its answer had begun.
    pub(super) fn note(&self, note: &str) {
        locked(&self.entry).note = Some(note.to_owned());
    }

    /// What an answer took. Several of one request add up.
    pub(super) fn took(&self, usage: Usage) {
        let mut entry = locked(&self.entry);
        let add = |all: &mut Option<u32>, more: usize| {
            let more = u32::try_from(more).unwrap_or(u32::MAX);
            *all = Some(all.unwrap_or(0).saturating_add(more));
        };
        add(&mut entry.prompt_tokens, usage.prompt_tokens);
        add(&mut entry.completion_tokens, usage.completion_tokens);
        locked(&self.journal.kept).last = Some(usage);
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        let mut entry = locked(&self.entry).clone();
        if entry.status == 0 {
            entry.note = Some("the client left before the answer".to_owned());
        }
        entry.millis = self.began.elapsed().as_secs_f64() * 1e3;
        let mut kept = locked(&self.journal.kept);
        kept.count = kept.count.saturating_add(1);
        kept.answered += u32::from(entry.completion_tokens.is_some());
        entry.number = kept.count;
        kept.entries.push_back(entry);
        if kept.entries.len() > KEPT {
            kept.entries.pop_front();
        }
    }
}

/// The first word that a client says of itself: `curl` of `curl/8.5.0`. It is text of a stranger, so little of it is kept.
fn client(headers: &HeaderMap) -> Option<String> {
    let agent = headers.get(header::USER_AGENT)?.to_str().ok()?;
    let name = agent.split(['/', ' ']).next()?;
    let name = name.chars().take(limits::CLIENT.most as usize);
    let name: String = name.filter(|it| !it.is_control()).collect();
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_called_by_its_first_word_and_no_more_is_kept() {
        let called = |agent: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::USER_AGENT, agent.parse().unwrap());
            client(&headers)
        };
        assert_eq!(called("curl/8.5.0").unwrap(), "curl");
        assert_eq!(called("OpenAI/JS 6.0").unwrap(), "OpenAI");
        assert_eq!(called("/1"), None);
        assert_eq!(called(&"a".repeat(9_000)).unwrap().len(), 40);
        assert_eq!(client(&HeaderMap::new()), None);
    }

    #[test]
    fn only_the_newest_requests_are_kept_and_all_are_counted() {
        let journal = Arc::new(Journal::default());
        for _ in 0..KEPT + 5 {
            let visit = Visit::new(journal.clone(), "GET /health".to_owned(), &HeaderMap::new());
            visit.status(200, None);
        }
        let entries = journal.after(0);
        assert_eq!(entries.len(), KEPT);
        assert_eq!(entries.last().unwrap().number as usize, KEPT + 5);
        assert_eq!(journal.after(KEPT as u32 + 3).len(), 2);
        assert_eq!(journal.answered(), (0, None));
    }
}
