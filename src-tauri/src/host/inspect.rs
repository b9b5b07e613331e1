//! Looking at data before anything is learned from it.

#[cfg(feature = "gui")]
pub(crate) mod view;

use std::path::Path;

use models::{
    data::{
        self, DataRequest, Dataset, FileFound,
        encode::Learn,
        row::{Example, Problem, Row},
        summary::{LengthSummary, Segment, preview},
    },
    tasks::language::LanguageRequest,
    tasks::language::text::{Text, TokenizerFrom},
    train::defaults,
};
use serde::Serialize;

use super::Host;
use crate::{
    store,
    wire::error::{AppError, Result},
};

/// How many letters of a text without rows are shown.
const STREAM_SHOWN: usize = 600;

/// What is in data, and how it would be learned.
#[derive(Debug, Serialize)]
pub(crate) struct Inspection {
    /// The files and how each is read.
    pub(crate) files: Vec<FileFound>,
    /// The rows that can't be used, or of which the length leaves nothing to learn.
    pub(crate) problems: Vec<Problem>,
    /// What the rest looks like. Absent when no row can be used.
    pub(crate) content: Option<Content>,
}

/// The usable rows, as a model sees them.
#[derive(Debug, Serialize)]
pub(crate) struct Content {
    /// Whether the rows are one text, learned in windows.
    pub(crate) is_stream: bool,
    /// Which tokenizer counted, in words.
    pub(crate) tokenizer: String,
    /// Which chat template was used, in words. Absent when nobody speaks.
    pub(crate) template: Option<String>,
    /// How long the rows are.
    pub(crate) lengths: LengthSummary,
    /// The line the example begins at.
    pub(crate) example_line: u32,
    /// The first row, and what of it is learned.
    pub(crate) example: Vec<Segment>,
}

impl Host {
    /// What is in data, counted as a model would, or as a new model trained on it.
    pub(crate) fn inspect_data(
        &self,
        request: &DataRequest,
        model: Option<&Path>,
        learn: Learn,
        max_length: usize,
    ) -> Result<Inspection> {
        let find = |model| store::models::find(&self.paths, &self.settings(), model);
        let folder = model.map(find).transpose()?;
        let tokenizer = folder.as_deref().map(TokenizerFrom::Folder);
        inspect(request, tokenizer, learn, max_length)
    }
}

/// Reads data as a model would. Without a tokenizer, one is trained on the data, as for a new model.
///
/// Rows are cut to `max_length` tokens; 0 cuts none.
fn inspect(
    request: &DataRequest,
    tokenizer: Option<TokenizerFrom>,
    learn: Learn,
    max_length: usize,
) -> Result<Inspection> {
    let mut dataset = data::open(request)?;
    let mut files = dataset.files.clone();
    let mut problems = std::mem::take(&mut dataset.problems);
    let content = match dataset.rows.is_empty() {
        true => None,
        false => {
            let (content, more) = content(dataset, tokenizer, learn, max_length)?;
            for problem in &more {
                if let Some(file) = files.iter_mut().find(|file| file.path == problem.path) {
                    file.rows -= 1;
                    file.problems += 1;
                }
            }
            problems.extend(more);
            Some(content)
        }
    };
    Ok(Inspection {
        files,
        problems,
        content,
    })
}

fn content(
    dataset: Dataset,
    tokenizer: Option<TokenizerFrom>,
    learn: Learn,
    max_length: usize,
) -> Result<(Content, Vec<Problem>)> {
    let (is_stream, trained) = (dataset.is_stream, tokenizer.is_none());
    let (_, vocab_size) = LanguageRequest::default().tokenizer_or_default();
    let tokenizer = tokenizer.unwrap_or(TokenizerFrom::Data { vocab_size });
    let text = Text::of(dataset, 0.0, tokenizer, defaults::SEED)?;
    let max_length = if max_length == 0 {
        usize::MAX
    } else {
        max_length
    };
    let mut first = text
        .train
        .first()
        .cloned()
        .ok_or_else(|| AppError::failed("there is no row"))?;
    let example_line = first.line;
    if is_stream {
        shorten(&mut first);
    }
    let shown = text.encode(std::slice::from_ref(&first), learn, max_length);
    let example = shown
        .rows
        .first()
        .map(|row| preview(row, &text.tokenizer))
        .transpose()?;
    let size = text.tokenizer.vocabulary_size();
    // What a template refuses, and what is cut before anything is learned, is no row of the lengths.
    let mut problems = Vec::new();
    let lengths = match is_stream {
        true => text.summary(learn, max_length)?,
        false => {
            let encoded = text.encode(&text.train, learn, max_length);
            problems.extend(encoded.problems);
            problems.extend(encoded.cut_away);
            LengthSummary::new(&encoded.rows)
        }
    };
    let content = Content {
        is_stream,
        tokenizer: match trained {
            true => format!("a new tokenizer of {size} tokens, trained on this data"),
            false => format!("the model's tokenizer of {size} tokens"),
        },
        template: text.chats.then(|| text.template.reason.clone()),
        lengths,
        example_line,
        example: example.unwrap_or_default(),
    };
    Ok((content, problems))
}

/// Leaves only the beginning of a long text.
fn shorten(row: &mut Row) {
    if let Example::Text(text) = &mut row.example
        && let Some((end, _)) = text.char_indices().nth(STREAM_SHOWN)
    {
        text.truncate(end);
    }
}
