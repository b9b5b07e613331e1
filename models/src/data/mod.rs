//! Everything between a file on disk and a batch of token rows.
//!
//! The flow, one file per step:
//!
//! ```text
//! file ─ source ─► records ─ format ─► examples ─ split ─► train | held out
//!      ─ template + tokenizer + encode ─► token rows ─ pack ─► packed rows ─ loader ─► batches
//! ```
//!
//! Nothing is dropped in silence: a row that can't be used is a [`Problem`] with its line, field and reason, and the
//! caller decides whether to continue without it. Everything is a function of the files, the settings and a seed.
//!
//! Deliberately absent: tensors (a batch is plain numbers, which the task uploads), and worker threads for loading
//! (see `loader.rs`).

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

pub mod encode;
pub mod first_rows;
pub mod format;
mod jinja;
pub mod loader;
pub mod marks;
pub mod not_text;
pub mod outline;
pub mod pack;
mod parquet;
pub mod row;
pub mod source;
pub mod split;
pub mod starter;
pub mod stream;
pub mod summary;
pub mod template;
pub mod tokenizer;

pub use parquet::file_column::{FileRow, FileRows, FileTable};

use format::{Format, Layout};
use row::{Example, Problem, Row};
use source::{Container, Source};

/// What data to read and how. Only `paths` is needed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataRequest {
    /// Files, and folders of files: JSON lines, JSON, CSV, TSV, Parquet, or plain text.
    pub paths: Vec<PathBuf>,
    /// The layout of the rows. Without it, it is found from the columns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<Format>,
    /// Which column is what: `prompt: question`, `completion: answer`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub columns: BTreeMap<String, String>,
    /// The encoding of the text, such as `latin-1`. Without it, the text must be UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
    /// What a row of a plain text file is. Without it, the files are one stream of text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<TextRows>,
    /// Continue without the rows that can't be used. Without it, one such row is an error.
    pub skip_bad_rows: bool,
}

/// What a row of a plain text file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TextRows {
    /// No rows: the file is one stream, learned in windows.
    Whole,
    /// Each line that is not empty.
    Lines,
    /// Each block of lines between empty lines.
    Paragraphs,
}

/// What was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dataset {
    /// The files, in order.
    pub files: Vec<FileFound>,
    /// The rows that can be used, in order. Of a stream, one for each file.
    pub rows: Vec<Row>,
    /// The rows that can't.
    pub problems: Vec<Problem>,
    /// Whether the rows are one stream of text, to be learned in windows, rather than rows of their own.
    pub is_stream: bool,
}

/// One file of a data set: what it is and how it was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileFound {
    /// Where it is.
    pub path: PathBuf,
    /// What kind of file it is.
    pub container: Container,
    /// How its columns were read. Plain text has none.
    pub layout: Option<Layout>,
    /// A sentence for the user: what was found, and why it is read so.
    pub reason: String,
    /// How many rows can be used.
    pub rows: usize,
    /// How many can't.
    pub problems: usize,
}

/// How many of the first records are looked at to learn which columns there are.
const RECORDS_LOOKED_AT: usize = 100;

/// The columns of the first file, for a person who has to say what they mean. Plain text has none.
pub fn columns(request: &DataRequest) -> Result<Vec<String>> {
    let Some(path) = source::files(&request.paths)?.into_iter().next() else {
        return Ok(Vec::new());
    };
    let source = Source::read(&path, request.encoding.as_deref())?;
    match source.container {
        Container::Text => Ok(Vec::new()),
        _ => columns_of(&source),
    }
}

/// Reads data: every file, its layout, its rows and its problems.
///
/// An error means that a file can't be read as asked at all. Whether problems in single rows are one is the caller's
/// choice: [`Dataset::check_problems`].
pub fn open(request: &DataRequest) -> Result<Dataset> {
    let mut dataset = Dataset {
        files: Vec::new(),
        rows: Vec::new(),
        problems: Vec::new(),
        is_stream: false,
    };
    let mut streams = 0;
    for (number, path) in (0..).zip(source::files(&request.paths)?) {
        let source = Source::read(&path, request.encoding.as_deref())?;
        let before = (dataset.rows.len(), dataset.problems.len());
        let (container, path) = (source.container, source.path.clone());
        let (layout, reason) = if container == Container::Text {
            let asked = request.rows.is_some();
            let rows = request.rows.unwrap_or(TextRows::Whole);
            streams += usize::from(rows == TextRows::Whole);
            refuse_layout(request, &source)?;
            dataset
                .rows
                .extend(text_rows(source.into_text(), number, rows));
            (None, text_reason(rows, asked))
        } else {
            let layout = read_records(&source, number, request, &mut dataset)?;
            let reason = layout.reason.clone();
            (Some(layout), reason)
        };
        let found = FileFound {
            container,
            layout,
            reason,
            rows: dataset.rows.len() - before.0,
            problems: dataset.problems.len() - before.1,
            path,
        };
        if found.rows == 0 && found.problems == 0 {
            return Err(Error::format(found.path, "the file has no rows"));
        }
        dataset.files.push(found);
    }
    dataset.is_stream = streams > 0;
    if streams > 0 && streams < dataset.files.len() {
        return Err(Error::setting(
            "data.rows",
            "is needed when plain text stands beside files of rows: set it to `lines` or `paragraphs`",
        ));
    }
    Ok(dataset)
}

impl Dataset {
    /// An error that lists the first problems, unless there are none or they may be skipped.
    ///
    /// Also an error: no row that can be used.
    pub fn check_problems(&self, skip_bad_rows: bool) -> Result<()> {
        let all = self.rows.len() + self.problems.len();
        check_problems(all, &self.problems, skip_bad_rows)
    }

    /// Every text in it, to train a tokenizer on. A conversation gives the words of each turn, and who speaks: most
    /// chat templates spell that out, and it would take many tokens otherwise.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().flat_map(|row| match &row.example {
            Example::Text(text) => vec![text.as_str()],
            Example::Chat(messages) => messages
                .iter()
                .flat_map(|it| [it.role.name(), it.content.as_str()])
                .collect(),
        })
    }
}

/// The same for some of so many rows: an error that lists the first, unless they may be skipped and some rows are left.
pub(crate) fn check_problems(all: usize, problems: &[Problem], skip_bad_rows: bool) -> Result<()> {
    let first: Vec<String> = problems.iter().take(5).map(Problem::to_string).collect();
    let more = match problems.len().saturating_sub(first.len()) {
        0 => String::new(),
        count => format!("; and {count} more"),
    };
    let listed = format!("{}{more}", first.join("; "));
    if problems.len() >= all {
        return Err(Error::Data(format!(
            "none of the {all} rows can be used: {listed}"
        )));
    }
    if problems.is_empty() || skip_bad_rows {
        return Ok(());
    }
    Err(Error::Data(format!(
        "{} of {all} rows can’t be used: {listed}. Correct them, or set `skip_bad_rows: true` to continue without",
        problems.len()
    )))
}

/// The columns that the first records have. Plain text has none.
fn columns_of(source: &Source) -> Result<Vec<String>> {
    let mut columns: Vec<String> = Vec::new();
    for record in source.records().take(RECORDS_LOOKED_AT) {
        for column in record?
            .into_iter()
            .flat_map(|it| it.values.into_iter().map(|(name, _)| name))
        {
            if !columns.contains(&column) {
                columns.push(column);
            }
        }
    }
    Ok(columns)
}

fn read_records(
    source: &Source,
    file: u32,
    request: &DataRequest,
    dataset: &mut Dataset,
) -> Result<Layout> {
    let columns = columns_of(source)?;
    if columns.is_empty() {
        return Err(no_records(source));
    }
    let layout = Layout::choose(&source.path, &columns, request.format, &request.columns)?;
    for record in source.records() {
        let problem = |line, field, reason| Problem {
            path: source.path.clone(),
            line,
            field,
            reason,
            details: None,
        };
        match record? {
            Err(broken) => dataset.problems.push(Problem {
                details: broken.details,
                ..problem(broken.line, None, broken.reason)
            }),
            Ok(record) => match layout.example(record.values) {
                Ok(example) => dataset.rows.push(Row {
                    file,
                    line: record.line,
                    example,
                }),
                Err((field, reason)) => {
                    dataset
                        .problems
                        .push(problem(record.line, Some(field), reason))
                }
            },
        }
    }
    Ok(layout)
}

/// The error for a file of which no row can be read: the first thing that is wrong with it.
fn no_records(source: &Source) -> Error {
    let first = source.records().find_map(|record| record.ok()?.err());
    let problem = match first {
        Some(broken) => format!(
            "no row can be read; line {} {}",
            broken.line,
            broken.full_reason()
        ),
        None => "the file has no rows".to_owned(),
    };
    Error::format(&source.path, problem)
}

fn refuse_layout(request: &DataRequest, source: &Source) -> Result<()> {
    if request.format.is_some_and(|format| format != Format::Text) || !request.columns.is_empty() {
        let problem =
            "a layout or columns were asked for, and the file is plain text, which has no columns";
        return Err(Error::format(&source.path, problem));
    }
    Ok(())
}

fn text_rows(text: String, file: u32, rows: TextRows) -> Vec<Row> {
    let row = |line, text: String| Row {
        file,
        line,
        example: Example::Text(text),
    };
    match rows {
        TextRows::Whole => vec![row(1, text)],
        TextRows::Lines => (1..)
            .zip(text.lines())
            .filter(|(_, text)| !text.trim().is_empty())
            .map(|(line, text)| row(line, text.to_owned()))
            .collect(),
        TextRows::Paragraphs => {
            let mut rows: Vec<Row> = Vec::new();
            let mut block: Vec<&str> = Vec::new();
            for (line, text) in (1..).zip(text.lines().chain([""])) {
                if !text.trim().is_empty() {
                    block.push(text);
                } else if !block.is_empty() {
                    rows.push(row(line - block.len() as u32, block.join("\n")));
                    block.clear();
                }
            }
            rows
        }
    }
}

fn text_reason(rows: TextRows, asked: bool) -> String {
    let what = match rows {
        TextRows::Whole => "plain text, one stream learned in windows",
        TextRows::Lines => "plain text, one row for each line",
        TextRows::Paragraphs => "plain text, one row for each paragraph",
    };
    let why = match asked {
        true => "as asked",
        false => "because nothing marks its rows",
    };
    format!("{what}, {why}")
}
