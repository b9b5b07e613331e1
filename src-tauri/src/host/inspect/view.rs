//! Data, and what is in it.

use std::{collections::BTreeMap, path::PathBuf};

use models::data::{
    DataRequest, TextRows,
    format::Format,
    row::{Example, Role},
    summary::{Bin, Segment},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use specta::Type;
use specta_typescript::Number;

use super::{Counted, Looked};
use crate::{
    store::data_sets::DataSet,
    wire::error::{AppError, Result},
};

/// Data that the user added.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DataSetView {
    id: String,
    name: String,
    /// Its file or folder.
    path: String,
    /// How it is read.
    request: DataRequestView,
    /// When it was added, in UTC.
    added: String,
    /// Whether its file is still there.
    exists: bool,
}

/// How data is read. What is empty is found from the data.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DataRequestView {
    /// `messages`, `sharegpt`, `prompt_completion`, `alpaca` or `text`.
    format: Option<String>,
    /// Which column plays which part, such as `prompt` from `question`.
    columns: BTreeMap<String, String>,
    /// `utf-8`, `latin-1`, or another name from the web's encoding list.
    encoding: Option<String>,
    /// What a row of plain text is: `whole`, `lines` or `paragraphs`.
    rows: Option<String>,
    /// Whether rows that can't be read are left out.
    skip_bad_rows: bool,
}

/// What is in data, before it is counted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InspectionView {
    files: Vec<DataFileView>,
    /// The columns of the first file, for a mapping. Plain text has none.
    columns: Vec<String>,
    /// How many rows can't be used.
    problem_count: usize,
    /// Why nothing can be used.
    problem: Option<AppError>,
    /// What the usable rows look like.
    content: Option<ContentView>,
}

/// A file and how it is read.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DataFileView {
    path: String,
    /// A sentence: what was found, and why it is read so.
    reason: String,
    rows: usize,
    problems: usize,
}

/// The usable rows.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ContentView {
    /// Whether the rows are one text, learned in windows.
    is_stream: bool,
    rows: usize,
    /// How the first row begins, and what of it is learned.
    example: Vec<Segment>,
}

/// How far a count is.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CountProgressView {
    /// How many rows are counted: none while the tokenizer is made.
    pub(crate) done: usize,
    pub(crate) rows: usize,
}

/// The usable rows in tokens, as a model sees them.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CountView {
    /// Which tokenizer counted, in words.
    tokenizer: String,
    /// Which chat template was used, in words. Absent when nobody speaks.
    template: Option<String>,
    rows: usize,
    tokens: usize,
    target_tokens: usize,
    shortest: usize,
    longest: usize,
    #[specta(type = Number)]
    mean: f64,
    /// So many percent of the rows have at most so many tokens.
    percentiles: Vec<(u32, usize)>,
    /// How many rows have which length.
    histogram: Vec<Bin>,
    /// How many rows turned out to have nothing to learn.
    problem_count: usize,
    /// The line the example begins at.
    example_line: u32,
    /// The first row, and what of it is learned.
    example: Vec<Segment>,
}

/// How many letters of the first row are shown before it is counted.
const EXAMPLE_LETTERS: usize = 2000;

impl DataRequestView {
    /// The same for these files.
    pub(crate) fn request(self, paths: Vec<PathBuf>) -> Result<DataRequest> {
        let filled = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
        Ok(DataRequest {
            paths,
            format: filled(self.format)
                .map(|word| read_word::<Format>("data.format", &word))
                .transpose()?,
            columns: self
                .columns
                .into_iter()
                .filter(|(_, column)| !column.is_empty())
                .collect(),
            encoding: filled(self.encoding),
            rows: filled(self.rows)
                .map(|word| read_word::<TextRows>("data.rows", &word))
                .transpose()?,
            skip_bad_rows: self.skip_bad_rows,
        })
    }
}

/// One of the words that a setting knows.
fn read_word<T: DeserializeOwned>(field: &str, word: &str) -> Result<T> {
    serde_json::from_value(word.into())
        .map_err(|error| AppError::invalid(format!("`{field}`: {error}")).with_field(field))
}

/// The word for a value that is written as one.
fn word_of(value: impl Serialize) -> Option<String> {
    let json = serde_json::to_value(value).ok()?;
    json.as_str().map(str::to_owned)
}

impl From<&DataRequest> for DataRequestView {
    fn from(request: &DataRequest) -> Self {
        Self {
            format: request.format.and_then(word_of),
            columns: request.columns.clone(),
            encoding: request.encoding.clone(),
            rows: request.rows.and_then(word_of),
            skip_bad_rows: request.skip_bad_rows,
        }
    }
}

impl From<DataSet> for DataSetView {
    fn from(set: DataSet) -> Self {
        let path = set.request.paths.first().cloned().unwrap_or_default();
        Self {
            request: DataRequestView::from(&set.request),
            exists: path.exists(),
            path: path.display().to_string(),
            id: set.id,
            name: set.name,
            added: set.added,
        }
    }
}

impl InspectionView {
    /// What was found.
    pub(crate) fn new(looked: &Looked, columns: Vec<String>) -> Self {
        let dataset = &looked.dataset;
        let files = dataset.files.iter().map(|file| DataFileView {
            path: file.path.display().to_string(),
            reason: file.reason.clone(),
            rows: file.rows,
            problems: file.problems,
        });
        let first = dataset.rows.first();
        Self {
            files: files.collect(),
            columns,
            problem_count: dataset.problems.len(),
            problem: None,
            content: first.map(|row| ContentView {
                is_stream: dataset.is_stream,
                rows: dataset.rows.len(),
                example: beginning(&row.example),
            }),
        }
    }

    /// Data that can't be read as asked.
    pub(crate) fn refused(error: AppError, columns: Vec<String>) -> Self {
        Self {
            columns,
            problem: Some(error),
            ..Self::default()
        }
    }
}

/// How a row begins, and what of it is learned.
fn beginning(example: &Example) -> Vec<Segment> {
    let segment = |text: String, learned| Segment { text, learned };
    let mut left = EXAMPLE_LETTERS;
    let mut begin = |text: &str| {
        let text: String = text.chars().take(left).collect();
        left -= text.chars().count();
        text
    };
    match example {
        Example::Text(text) => vec![segment(begin(text), true)],
        Example::Chat(turns) => {
            let mut shown = Vec::new();
            for turn in turns {
                let text = begin(&turn.content);
                if text.is_empty() {
                    continue;
                }
                let apart = if shown.is_empty() { "" } else { "\n\n" };
                let role = turn.role.name();
                shown.push(segment(format!("{apart}{role}: "), false));
                shown.push(segment(text, turn.role == Role::Assistant));
            }
            shown
        }
    }
}

impl From<&Counted> for CountView {
    fn from(counted: &Counted) -> Self {
        let content = counted.content.clone();
        let lengths = content.lengths;
        let percentiles = lengths.percentiles.iter();
        Self {
            tokenizer: content.tokenizer,
            template: content.template,
            rows: lengths.rows,
            tokens: lengths.tokens,
            target_tokens: lengths.target_tokens,
            shortest: lengths.shortest,
            longest: lengths.longest,
            mean: lengths.mean,
            percentiles: percentiles.map(|it| (it.percent, it.tokens)).collect(),
            histogram: lengths.histogram,
            problem_count: counted.problems.len(),
            example_line: content.example_line,
            example: content.example,
        }
    }
}
