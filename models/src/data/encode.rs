//! Examples to token rows: the tokens of each row, and which of them are learned.
//!
//! A conversation is rendered with the chat template and encoded without further special tokens, as transformers
//! does. A text gets what the tokenizer puts around a text, and the token that ends it.
//!
//! Rows longer than the model's length are cut at their end, counted, and a row that loses all it had to teach is
//! reported like any other bad row.

use std::ops::Range;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::{
    Dataset,
    loader::TokenStream,
    row::{Example, Message, Problem, Row},
    template::{ChatTemplate, Rendered},
    tokenizer::{Located, Tokenizer},
};
use crate::{Error, Result};

/// What is learned of a conversation. Of a text, everything is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Learn {
    /// The assistant's words and the end of each of its turns.
    #[default]
    Assistant,
    /// Every token.
    All,
}

/// The tokens of one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRow {
    /// The tokens, at most as many as the model's length.
    pub tokens: Vec<u32>,
    /// For each token, whether the model is taught to say it.
    pub learned: Vec<bool>,
    /// How many tokens the row had before it was cut.
    pub full_length: usize,
}

/// All rows of a data set as tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Encoded {
    /// The rows, in the order of the data set's rows.
    pub rows: Vec<TokenRow>,
    /// Rows that the template refuses, or in which there is nothing to learn.
    pub problems: Vec<Problem>,
    /// Rows left out because they are cut before anything is learned.
    pub cut_away: Vec<Problem>,
    /// How many rows were cut.
    pub truncated: usize,
    /// How many conversations gave one row for each of the assistant's turns, because the template rewrites the past.
    pub split_by_turn: usize,
}

/// Turns rows into tokens, on all cores, in order.
///
/// `max_length` is in tokens. `rows` are of `dataset`, which knows their files.
pub fn encode(
    dataset: &Dataset,
    rows: &[Row],
    tokenizer: &Tokenizer,
    template: &ChatTemplate,
    learn: Learn,
    max_length: usize,
) -> Encoded {
    let mut encoded = Encoded::default();
    for row in encode_each(dataset, rows, tokenizer, template, learn, max_length) {
        encoded.add(row);
    }
    encoded
}

/// The same for each row by itself.
pub fn encode_each(
    dataset: &Dataset,
    rows: &[Row],
    tokenizer: &Tokenizer,
    template: &ChatTemplate,
    learn: Learn,
    max_length: usize,
) -> Vec<Encoded> {
    let each = rows.par_iter().map(|row| {
        let problem = |reason| problem(dataset, row, reason);
        match token_rows(row, tokenizer, template, learn, max_length) {
            Err(reason) => Encoded {
                problems: vec![problem(reason)],
                ..Encoded::default()
            },
            Ok(token_rows) => Encoded::of_row(token_rows, problem),
        }
    });
    each.collect()
}

impl Encoded {
    fn of_row(token_rows: Vec<TokenRow>, problem: impl Fn(String) -> Problem) -> Self {
        let mut encoded = Self {
            split_by_turn: usize::from(token_rows.len() > 1),
            ..Self::default()
        };
        for token_row in token_rows {
            encoded.truncated += usize::from(token_row.is_truncated());
            if token_row.target_tokens() > 0 {
                encoded.rows.push(token_row);
                continue;
            }
            let reason = nothing_learned(token_row.full_length, token_row.tokens.len());
            match token_row.is_truncated() {
                true => encoded.cut_away.push(problem(reason)),
                false => encoded.problems.push(problem(reason)),
            }
        }
        encoded
    }

    /// Adds rows that come after these.
    pub fn add(&mut self, more: Self) {
        self.rows.extend(more.rows);
        self.problems.extend(more.problems);
        self.cut_away.extend(more.cut_away);
        self.truncated += more.truncated;
        self.split_by_turn += more.split_by_turn;
    }
}

/// A row as tokens, or why it can't be.
pub(super) fn token_rows(
    row: &Row,
    tokenizer: &Tokenizer,
    template: &ChatTemplate,
    learn: Learn,
    max_length: usize,
) -> Result<Vec<TokenRow>, String> {
    let encoded = match &row.example {
        Example::Text(text) => encode_text(text, tokenizer, max_length).map(|row| vec![row]),
        Example::Chat(messages) => encode_chat(messages, tokenizer, template, learn, max_length),
    };
    encoded.map_err(|error| error.to_string())
}

/// A row that nothing can be learned from.
pub(super) fn problem(dataset: &Dataset, row: &Row, reason: String) -> Problem {
    let file = dataset.files.get(row.file as usize);
    Problem {
        path: file.map(|it| it.path.clone()).unwrap_or_default(),
        line: row.line,
        field: None,
        reason,
        details: None,
    }
}

/// Why nothing is learned of a row of which so many tokens are kept.
pub(super) fn nothing_learned(length: usize, kept: usize) -> String {
    match kept < length {
        true => format!("has {length} tokens, and none of the first {kept} is to be learned"),
        false => format!("has {length} tokens, and none of them is to be learned"),
    }
}

/// The texts of rows as one stream, with the token that ends a text between them.
///
/// Nothing stands after the last one: where a stream ends is where someone cut it, and says nothing about texts.
pub fn encode_stream(rows: &[Row], tokenizer: &Tokenizer) -> Result<TokenStream> {
    let mut stream = TokenStream::default();
    for (at, row) in rows.iter().enumerate() {
        let Example::Text(text) = &row.example else {
            return Err(Error::Data(
                "a conversation can’t be part of a stream of text".to_owned(),
            ));
        };
        let mut tokens = tokenizer.encode(text, true)?;
        if at + 1 < rows.len() {
            tokens.extend(tokenizer.special.end);
        }
        stream.add(tokens, text.chars().count());
    }
    Ok(stream)
}

/// A text and the token that ends it, all of it learned.
pub fn encode_text(text: &str, tokenizer: &Tokenizer, max_length: usize) -> Result<TokenRow> {
    let mut tokens = tokenizer.encode(text, true)?;
    if let Some(end) = tokenizer
        .special
        .end
        .filter(|end| tokens.last() != Some(end))
    {
        tokens.push(end);
    }
    let learned = vec![true; tokens.len()];
    Ok(TokenRow::cut(tokens, learned, max_length))
}

/// A conversation: one row, or one for each of the assistant's turns when the template rewrites the past.
pub fn encode_chat(
    messages: &[Message],
    tokenizer: &Tokenizer,
    template: &ChatTemplate,
    learn: Learn,
    max_length: usize,
) -> Result<Vec<TokenRow>> {
    template
        .render(messages)?
        .iter()
        .map(|rendered| {
            let located = tokenizer.encode_located(&rendered.text)?;
            let learned = match learn {
                Learn::All => vec![true; located.tokens.len()],
                Learn::Assistant => target_tokens(rendered, &located, tokenizer, template),
            };
            Ok(TokenRow::cut(located.tokens, learned, max_length))
        })
        .collect()
}

impl TokenRow {
    /// Whether the row lost its end.
    pub fn is_truncated(&self) -> bool {
        self.full_length > self.tokens.len()
    }

    /// How many tokens the model is taught to say. The first token of a row is never one: nothing comes before it.
    pub fn target_tokens(&self) -> usize {
        self.learned.iter().skip(1).filter(|&&it| it).count()
    }

    fn cut(mut tokens: Vec<u32>, mut learned: Vec<bool>, max_length: usize) -> Self {
        let full_length = tokens.len();
        tokens.truncate(max_length);
        learned.truncate(max_length);
        Self {
            tokens,
            learned,
            full_length,
        }
    }
}

/// Which tokens are the assistant's.
///
/// A token that is only partly the assistant's counts as its. A turn reaches to the special token that ends it: a stop
/// token that directly follows belongs to it, and white space after the last special one inside does not.
fn target_tokens(
    rendered: &Rendered,
    located: &Located,
    tokenizer: &Tokenizer,
    template: &ChatTemplate,
) -> Vec<bool> {
    let stop = template.stop_tokens(tokenizer);
    let mut learned = vec![false; located.tokens.len()];
    for part in &rendered.learned {
        let inside: Vec<usize> = (0..learned.len())
            .filter(|&at| overlap(&located.spans[at], part))
            .collect();
        let (Some(&first), Some(&last)) = (inside.first(), inside.last()) else {
            continue;
        };
        let is_special = |at: &usize| tokenizer.is_special(located.tokens[*at]);
        // The end token can reach past the part: some swallow the line end after them.
        let is_blank_after = |at: usize| {
            let rest = rendered.text.get(located.spans[at].1..part.end);
            rest.is_none_or(|rest| rest.trim().is_empty())
        };
        let past = match (first..=last).rev().find(is_special) {
            Some(end) if is_blank_after(end) => end + 1,
            _ if located
                .tokens
                .get(last + 1)
                .is_some_and(|next| stop.contains(next)) =>
            {
                last + 2
            }
            _ => last + 1,
        };
        learned[first..past].fill(true);
    }
    learned
}

fn overlap(span: &(usize, usize), part: &Range<usize>) -> bool {
    // A token can stand for no bytes at all; it belongs where it stands.
    span.0 < part.end && (span.1 > part.start || (span.0 == span.1 && span.0 >= part.start))
}
