//! What the conversations are made of: `tables.json`, which is part of the program.
//!
//! A fact has one answer that is not in dispute, and is not likely to change.

use std::sync::LazyLock;

use serde::Deserialize;

use super::Category;

type Words = Vec<&'static str>;

/// Everything that is said, and in how many ways.
#[derive(Deserialize)]
pub(super) struct Tables {
    /// What may stand around a saying. `{}` is the saying without its mark; the mark follows at the end.
    pub(super) surroundings: Words,
    /// What people say to a chat program before they ask it something.
    pub(super) intents: Vec<Intent>,
    pub(super) days: Words,
    /// The months, and how many days each has.
    pub(super) months: Vec<(&'static str, &'static str)>,
    /// Ways to ask for what comes next. `[]` is `day`, `month` or `number`.
    pub(super) after: Words,
    /// Ways to ask for what came last.
    pub(super) before: Words,
    pub(super) tomorrow: Words,
    pub(super) yesterday: Words,
    /// Ways to ask how many days a month has.
    pub(super) lengths: Words,
    /// Ways to ask about two numbers. `{}` is the first number and `[]` the second.
    pub(super) plus: Words,
    pub(super) minus: Words,
    pub(super) count: Words,
    pub(super) relations: Vec<Relation>,
}

/// What people mean, and what the model says to it.
#[derive(Deserialize)]
pub(super) struct Intent {
    pub(super) answer: &'static str,
    /// Ways to say it, each with its mark at the end.
    pub(super) sayings: Words,
}

/// A kind of fact: every phrasing is asked about every subject.
///
/// `{}` in a phrasing is the subject. A phrasing that starts with a small letter is typed in a hurry: its subject is
/// in small letters too.
#[derive(Deserialize)]
pub(super) struct Relation {
    pub(super) category: Category,
    pub(super) phrasings: Words,
    /// Subject and answer.
    pub(super) facts: Vec<(&'static str, &'static str)>,
}

/// The tables, read once.
#[expect(
    clippy::expect_used,
    reason = "the file is part of the program, and every test of the starter reads it"
)]
pub(super) static TABLES: LazyLock<Tables> = LazyLock::new(|| {
    serde_json::from_str(include_str!("tables.json")).expect("tables.json has all tables")
});
