//! Labelled text: rows of a file with a text, its labels and its group.
//!
//! Columns are found by the names that data sets commonly have, and said; a plain text file has a label before the first space of
//! each line, as the questions of TREC have. Labels keep their names: `"0"` is a name. A row that can't be used is a problem with
//! its line, and never an empty text. Deliberately absent: parts of the data to learn from and to test with, beyond what the file
//! itself says.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    Error, Result,
    data::{
        row::Problem,
        source::{Broken, Container, Record, Source, files, kind},
    },
    limits,
};

/// Names of the column with the text, those that say most first.
pub const TEXTS: [&str; 6] = ["text", "sentence", "question", "content", "prompt", "input"];
/// Names of the column with the label, or with a list of labels.
pub const LABELS: [&str; 10] = [
    "label",
    "labels",
    "cognitive_action",
    "coarse_label",
    "label_text",
    "class",
    "category",
    "sentiment",
    "intent",
    "target",
];
/// Names of the column with what belongs together.
pub const GROUPS: [&str; 6] = [
    "group",
    "group_id",
    "conversation_id",
    "conv",
    "document_id",
    "template_id",
];
/// Names of the column with what was answered to the text.
const ANSWERS: [&str; 4] = ["answer", "response", "completion", "output"];
/// Names of the column that tells rows apart.
const IDS: [&str; 3] = ["id", "row_id", "uid"];
/// Names of the column with the part of the data.
const PARTS: [&str; 2] = ["part", "split"];
/// How many records are looked at for the names of columns.
const RECORDS_LOOKED_AT: usize = 100;
/// What is tried when nobody names an encoding and a text is not UTF-8. All bytes are letters in it.
const OTHER_ENCODING: &str = "latin-1";

/// What labelled data to read, and how. Only `paths` is needed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LabelledRequest {
    /// Files, and folders of files: JSON lines, JSON, CSV, TSV, Parquet, or lines of `LABEL text`.
    pub paths: Vec<PathBuf>,
    /// The column with the text. Without it, it is found by its name.
    pub text_column: Option<String>,
    /// The column with the label or the list of labels. Without it, it is found by its name.
    pub label_column: Option<String>,
    /// The column with what belongs together. Without it, it is found by its name, and there may be none.
    pub group_column: Option<String>,
    /// The encoding of the text. Without it, UTF-8.
    pub encoding: Option<String>,
}

/// A text with its labels, as the data has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelledText {
    /// What the data calls it, or `FILE:LINE`.
    pub id: String,
    /// What the model reads, in full.
    pub text: String,
    /// Its labels, in the order of the data, each once.
    pub labels: Vec<String>,
    /// What was answered to it.
    pub answer: Option<String>,
    /// What it belongs to.
    pub group: Option<String>,
    /// The part of the data that it is in.
    pub part: Option<String>,
    /// Bytes of the text that are marked: the first, and one past the last.
    pub marked: Vec<(usize, usize)>,
    /// The file, as an index of [`Labelled::files`].
    pub file: usize,
    /// The line, from 1.
    pub line: u32,
}

/// What was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labelled {
    /// The files, in order.
    pub files: Vec<PathBuf>,
    /// For each file, a sentence: which columns were taken.
    pub read_as: Vec<String>,
    /// The rows that can be used, in order.
    pub rows: Vec<LabelledText>,
    /// The rows that can't.
    pub problems: Vec<Problem>,
    /// The names of all labels, sorted.
    pub labels: Vec<String>,
}

/// The columns of a file.
#[derive(Debug, Default)]
struct Columns {
    text: String,
    label: Option<String>,
    group: Option<String>,
    id: Option<String>,
    part: Option<String>,
    answer: Option<String>,
}

/// A column at fault, and what is wrong with it.
type Fault = (String, String);

/// Reads labelled data. Whether problems of single rows are an error is the caller's choice.
///
/// Errors: [`Error::Format`] when a file can't be read as asked, or no column can be the text; [`Error::Setting`] when a column
/// that was named is not there.
pub fn read(request: &LabelledRequest) -> Result<Labelled> {
    let mut labelled = Labelled {
        files: files(&request.paths)?,
        ..Labelled::default()
    };
    for (file, path) in labelled.files.clone().iter().enumerate() {
        let before = labelled.rows.len() + labelled.problems.len();
        let (source, encoding) = open(path, request)?;
        let mut said = match source.container {
            Container::Text => {
                read_lines(source, file, request, &mut labelled)?;
                "each line is a label, a space and a text".to_owned()
            }
            _ => read_records(&source, file, request, &mut labelled)?,
        };
        if let Some(encoding) = encoding {
            said += &format!("; it is not UTF-8 and was read as {encoding}");
        }
        labelled.read_as.push(said);
        let found = labelled.rows.len() + labelled.problems.len();
        if found == before {
            return Err(Error::format(path, "the file has no rows"));
        }
        if let Some(problem) = limits::STATES_ROWS.exceeded(found as u64) {
            return Err(Error::format(
                path,
                format!("the number of texts {problem}"),
            ));
        }
    }
    let names = labelled.rows.iter().flat_map(|row| &row.labels);
    labelled.labels = names.cloned().collect();
    labelled.labels.sort_unstable();
    labelled.labels.dedup();
    Ok(labelled)
}

/// Opens a file, as UTF-8 unless an encoding is named. Plain text with other bytes is Latin-1, which is said.
fn open(path: &Path, request: &LabelledRequest) -> Result<(Source, Option<&'static str>)> {
    match Source::read(path, request.encoding.as_deref()) {
        Err(error) if request.encoding.is_none() && error.to_string().contains("not UTF-8") => {
            let source = Source::read(path, Some(OTHER_ENCODING))?;
            match source.container {
                Container::Text => Ok((source, Some(OTHER_ENCODING))),
                _ => Err(error),
            }
        }
        opened => Ok((opened?, None)),
    }
}

/// Lines of `LABEL text`. A label that has a colon names a class and a subclass; the class is the label.
fn read_lines(
    source: Source,
    file: usize,
    request: &LabelledRequest,
    labelled: &mut Labelled,
) -> Result<()> {
    if request.text_column.is_some() || request.label_column.is_some() {
        let problem = "columns were named, and the file is plain text, which has none";
        return Err(Error::format(&source.path, problem));
    }
    let path = source.path.clone();
    for (line, number) in source.into_text().lines().zip(1..) {
        if line.trim().is_empty() {
            continue;
        }
        let (label, text) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        let class = label.split(':').next().unwrap_or(label);
        let fault = match (class.is_empty(), text.trim().is_empty()) {
            (true, _) => Some(("label", "is empty")),
            (_, true) => Some(("text", "is empty: the line has one word")),
            _ => None,
        };
        match fault {
            Some((field, reason)) => {
                let fault = (field.to_owned(), reason.to_owned());
                labelled.problems.push(problem(&path, number, Some(fault)));
            }
            None => labelled.rows.push(LabelledText {
                id: id_of(&path, number),
                text: text.trim().to_owned(),
                labels: vec![class.to_owned()],
                file,
                line: number,
                ..LabelledText::default()
            }),
        }
    }
    Ok(())
}

/// Rows with named values. Returns a sentence about which columns were taken.
fn read_records(
    source: &Source,
    file: usize,
    request: &LabelledRequest,
    labelled: &mut Labelled,
) -> Result<String> {
    let columns = Columns::find(source, request)?;
    for record in source.records() {
        match record? {
            Err(Broken {
                line,
                reason,
                details,
            }) => labelled.problems.push(Problem {
                details,
                reason,
                ..problem(&source.path, line, None)
            }),
            Ok(record) => match columns.row(&record, &source.path, file) {
                Ok(row) => labelled.rows.push(row),
                Err(fault) => {
                    let problem = problem(&source.path, record.line, Some(fault));
                    labelled.problems.push(problem);
                }
            },
        }
    }
    Ok(columns.sentence())
}

impl Columns {
    fn find(source: &Source, request: &LabelledRequest) -> Result<Self> {
        let mut found: Vec<String> = Vec::new();
        for record in source.records().take(RECORDS_LOOKED_AT) {
            let Ok(record) = record? else { continue };
            for (name, _) in record.values {
                if !found.contains(&name) {
                    found.push(name);
                }
            }
        }
        let listed = found.join("`, `");
        let named = |asked: &Option<String>, field: &str, names: &[&str]| match asked {
            Some(name) if found.contains(name) => Ok(Some(name.clone())),
            Some(name) => Err(Error::setting(
                field,
                format!("is `{name}`, and the columns of the file are `{listed}`"),
            )),
            None => Ok(column(&found, names)),
        };
        let text = named(&request.text_column, "text_column", &TEXTS)?;
        let text = text.ok_or_else(|| {
            let problem = format!(
                "no column has a name that says it is the text ({}); name it with `--text-column`. The columns are `{listed}`",
                TEXTS.join(", ")
            );
            Error::format(&source.path, problem)
        })?;
        Ok(Self {
            label: named(&request.label_column, "label_column", &LABELS)?
                .filter(|label| *label != text),
            group: named(&request.group_column, "group_column", &GROUPS)?,
            id: column(&found, &IDS),
            part: column(&found, &PARTS),
            answer: column(&found, &ANSWERS),
            text,
        })
    }

    fn row(&self, record: &Record, path: &Path, file: usize) -> Result<LabelledText, Fault> {
        let values = &record.values;
        let text = match values.get(&self.text) {
            Some(Value::String(text)) if text.trim().is_empty() => Err("is empty".to_owned()),
            Some(Value::String(text)) => Ok(text.clone()),
            None | Some(Value::Null) => Err("is missing".to_owned()),
            Some(other) => Err(format!("is {}, and has to be text", kind(other))),
        };
        let text = text.map_err(|reason| (self.text.clone(), reason))?;
        let labels = match &self.label {
            None => Vec::new(),
            Some(column) => {
                labels(values.get(column)).map_err(|reason| (column.clone(), reason))?
            }
        };
        let plain = |column: &Option<String>| name(values.get(column.as_ref()?)?);
        Ok(LabelledText {
            id: plain(&self.id).unwrap_or_else(|| id_of(path, record.line)),
            labels,
            answer: plain(&self.answer),
            group: plain(&self.group),
            part: plain(&self.part),
            marked: marked(values, &text).map_err(|reason| (MARKED.to_owned(), reason))?,
            file,
            line: record.line,
            text,
        })
    }

    fn sentence(&self) -> String {
        let label = match &self.label {
            Some(column) => format!("the label is `{column}`"),
            None => "no column is a label".to_owned(),
        };
        let group = match &self.group {
            Some(column) => format!("what belongs together is in `{column}`"),
            None => "no column says what belongs together".to_owned(),
        };
        format!("the text is `{}`, {label}, {group}", self.text)
    }
}

/// The column with the marked parts of a text: a list of pairs of characters, the first and one past the last.
const MARKED: &str = "spans";

/// The marked parts in bytes of the text.
fn marked(values: &Map<String, Value>, text: &str) -> Result<Vec<(usize, usize)>, String> {
    let Some(Value::Array(pairs)) = values.get(MARKED) else {
        return Ok(Vec::new());
    };
    let bytes: Vec<usize> = text
        .char_indices()
        .map(|(at, _)| at)
        .chain([text.len()])
        .collect();
    let pair = |pair: &Value| {
        let number = |at: usize| usize::try_from(pair.get(at)?.as_u64()?).ok();
        let (start, end) = (number(0)?, number(1)?);
        (start < end).then_some((*bytes.get(start)?, *bytes.get(end)?))
    };
    let wrong = || {
        let most = bytes.len() - 1;
        format!("holds a pair that is no part of the text, whose characters are 0 to {most}")
    };
    pairs.iter().map(|it| pair(it).ok_or_else(wrong)).collect()
}

/// The labels of a value: a name, a list of names, which may be empty, or nothing.
fn labels(value: Option<&Value>) -> Result<Vec<String>, String> {
    let mut labels: Vec<String> = match value {
        None | Some(Value::Null) => return Err("is missing".to_owned()),
        Some(Value::Array(list)) => {
            let names = list.iter().map(|it| {
                name(it).ok_or_else(|| format!("holds {}, which is no name of a label", kind(it)))
            });
            names.collect::<Result<_, _>>()?
        }
        Some(value) => match name(value) {
            Some(name) => vec![name],
            None if value.is_string() => return Err("is empty".to_owned()),
            None => return Err(format!("is {}, which is no name of a label", kind(value))),
        },
    };
    let mut seen = Vec::new();
    labels.retain(|label| {
        let is_new = !seen.contains(label);
        seen.push(label.clone());
        is_new
    });
    Ok(labels)
}

/// A value as a name: numbers as they are written.
fn name(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.trim().to_owned()).filter(|it| !it.is_empty()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(it) => Some(it.to_string()),
        _ => None,
    }
}

/// The first of these names that a file has, in letters of any case.
fn column(found: &[String], names: &[&str]) -> Option<String> {
    let find = |name: &&str| found.iter().find(|it| it.eq_ignore_ascii_case(name));
    names.iter().find_map(find).cloned()
}

fn id_of(path: &Path, line: u32) -> String {
    format!("{}:{line}", crate::checkpoint::save::name_of(path))
}

fn problem(path: &Path, line: u32, fault: Option<Fault>) -> Problem {
    let (field, reason) = match fault {
        Some((field, reason)) => (Some(field), reason),
        None => (None, String::new()),
    };
    Problem {
        path: path.to_owned(),
        line,
        field,
        reason,
        details: None,
    }
}
