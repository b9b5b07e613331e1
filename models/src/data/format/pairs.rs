//! Columns whose names say which is the question and which the answer, without being those of a layout.

use std::collections::BTreeMap;

use super::{Format, joined};

/// Columns under other names that can only mean one thing.
struct Pair {
    format: Format,
    /// Each part with its column, by which the pair is known.
    columns: &'static [(&'static str, &'static str)],
    /// Parts that are read where their columns are there.
    beside: &'static [(&'static str, &'static str)],
}

const BESIDE: &[(&str, &str)] = &[("context", "context"), ("system", "system")];

/// The pairs that are found without being named. One that has all columns of another stands before it.
const PAIRS: [Pair; 5] = [
    Pair {
        format: Format::PromptCompletion,
        columns: &[("prompt", "question"), ("completion", "answer")],
        beside: BESIDE,
    },
    Pair {
        format: Format::PromptCompletion,
        columns: &[("prompt", "query"), ("completion", "response")],
        beside: BESIDE,
    },
    Pair {
        format: Format::Alpaca,
        columns: &[
            ("instruction", "instruction"),
            ("input", "input"),
            ("output", "response"),
        ],
        beside: &[("system", "system")],
    },
    Pair {
        format: Format::PromptCompletion,
        columns: &[("prompt", "instruction"), ("completion", "response")],
        beside: BESIDE,
    },
    Pair {
        format: Format::PromptCompletion,
        columns: &[("prompt", "input"), ("completion", "output")],
        beside: BESIDE,
    },
];

/// The pair that these columns are. Nothing where they could be two.
pub(super) fn among(
    found: &[String],
    format: Option<Format>,
) -> Option<(Format, BTreeMap<String, String>)> {
    let real = |&(part, name): &(&str, &str)| {
        let column = found.iter().find(|it| it.eq_ignore_ascii_case(name))?;
        Some((part.to_owned(), column.clone()))
    };
    let columns_of = |pair: &Pair| -> Option<BTreeMap<String, String>> {
        let mut columns: BTreeMap<_, _> = pair.columns.iter().map(real).collect::<Option<_>>()?;
        columns.extend(pair.beside.iter().filter_map(real));
        Some(columns)
    };
    let fitting = PAIRS.iter().filter(|pair| {
        format.is_none_or(|format| format == pair.format) && columns_of(pair).is_some()
    });
    let fitting: Vec<&Pair> = fitting.collect();
    let (first, others) = fitting.split_first()?;
    let is_part_of_first =
        |(_, name): &(&str, &str)| first.columns.iter().any(|(_, mine)| mine == name);
    let is_first = |pair: &&Pair| pair.columns.iter().all(is_part_of_first);
    if !others.iter().all(is_first) {
        return None;
    }
    Some((first.format, columns_of(first)?))
}

/// What columns of other names than the parts are taken for, in the order of a conversation.
pub(super) fn read_as(columns: &BTreeMap<String, String>) -> String {
    const ORDER: [(&str, &str); 7] = [
        ("system", "the system prompt"),
        ("context", "the context before the prompt"),
        ("prompt", "the prompt"),
        ("instruction", "the prompt"),
        ("input", "the text below the prompt"),
        ("completion", "the completion"),
        ("output", "the completion"),
    ];
    let said = ORDER.iter().filter_map(|(part, what)| {
        let column = columns.get(*part)?;
        Some(format!("`{column}` as {what}"))
    });
    format!("read with {}", joined(&said.collect::<Vec<_>>()))
}
