//! What the conversations are made of: `tables.json`, which is part of the program.
//!
//! A fact has one answer that is not in dispute, and is not likely to change.

use std::sync::LazyLock;

use serde::Deserialize;

use super::Category;
use crate::embedded::table;

/// Everything that is said, and in how many ways.
#[derive(Deserialize)]
pub(super) struct Tables {
    /// What may stand around a saying. `{}` is the saying without its mark; the mark follows at the end.
    pub(super) surroundings: Vec<String>,
    /// What people say to a chat program before they ask it something.
    pub(super) intents: Vec<Intent>,
    pub(super) days: Vec<String>,
    /// The months, and how many days each has.
    pub(super) months: Vec<(String, String)>,
    /// Ways to ask for what comes next. `[]` is `day`, `month` or `number`.
    pub(super) after: Vec<String>,
    /// Ways to ask for what came last.
    pub(super) before: Vec<String>,
    pub(super) tomorrow: Vec<String>,
    pub(super) yesterday: Vec<String>,
    /// Ways to ask how many days a month has.
    pub(super) lengths: Vec<String>,
    /// Ways to ask about two numbers. `{}` is the first number and `[]` the second.
    pub(super) plus: Vec<String>,
    pub(super) minus: Vec<String>,
    pub(super) count: Vec<String>,
    pub(super) relations: Vec<Relation>,
}

/// What people mean, and what the model says to it.
#[derive(Deserialize)]
pub(super) struct Intent {
    pub(super) answer: String,
    /// Ways to say it, each with its mark at the end.
    pub(super) sayings: Vec<String>,
}

/// A kind of fact: every phrasing is asked about every subject.
///
/// `{}` in a phrasing is the subject. A phrasing that starts with a small letter is typed in a hurry: its subject is
/// in small letters too.
#[derive(Deserialize)]
pub(super) struct Relation {
    pub(super) category: Category,
    pub(super) phrasings: Vec<String>,
    /// Subject and answer.
    pub(super) facts: Vec<(String, String)>,
}

/// The tables, read once.
pub(super) static TABLES: LazyLock<Tables> =
    LazyLock::new(|| table("tables.json", include_str!("tables.json")));
