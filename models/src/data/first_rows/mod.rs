//! The first rows of a file of which only a part is at hand, to look at data before it is downloaded.
//!
//! Text is read from its beginning. Of a Parquet file, parts are asked for as they are needed: its end, and the first
//! pages of each column (`blocks.rs`). Rows that can't be read are passed over here; reading the data reports them.
//!
//! Deliberately absent: the network. Whoever has the parts gives them.

use std::{borrow::Cow, io, path::Path};

use serde_json::{Map, Value};

use super::{
    parquet::{self, ParquetFile},
    source::{Container, Source},
};
use crate::{Error, Result};

mod blocks;

use blocks::Blocks;

/// The first rows of a file, as text to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirstRows {
    /// The names of the columns. Plain text has one, `text`.
    pub columns: Vec<String>,
    /// The cells of each row, one for each column. What a row lacks is empty, and what is nested is JSON.
    pub rows: Vec<Vec<String>>,
    /// How many rows there are in all, where that is known.
    pub total: Option<u64>,
}

/// A file that can be read in parts, such as one behind a network.
pub trait ReadAt: Send + Sync {
    /// How long it is.
    fn bytes(&self) -> u64;

    /// So many bytes from this place on. Never asked for more than there are.
    fn read_at(&self, start: u64, length: usize) -> io::Result<Vec<u8>>;
}

/// A cell shows so many letters at most.
const LETTERS_SHOWN: usize = 2000;

type Values = Map<String, Value>;

/// The first rows of a file of text: JSON lines, a JSON list, a table, or plain text, of which each line is a row.
///
/// `name` says what kind of file it is, as for a file that is read whole. `beginning` is its beginning, and may end
/// anywhere: the row in which it ends is left out, unless the beginning `is_whole`. At most `most` rows are given.
pub fn first_rows(name: &str, beginning: &[u8], is_whole: bool, most: usize) -> Result<FirstRows> {
    let path = Path::new(name);
    if beginning.starts_with(parquet::MARK) {
        let problem =
            "a Parquet file says at its end what it holds, and only its beginning is at hand";
        return Err(Error::format(path, problem));
    }
    let letters = match is_whole {
        true => beginning,
        false => without_cut_letter(beginning),
    };
    let source = Source::from_bytes(path, letters.to_vec(), None)?;
    let ends_with_row = match source.container {
        Container::JsonLines | Container::Text => is_whole || beginning.ends_with(b"\n"),
        _ => is_whole,
    };
    let mut found = match source.container {
        Container::Text => lines(&source.into_text()),
        _ => records(&source, is_whole)?,
    };
    if !ends_with_row {
        found.pop();
    }
    let first_problem = found.iter().find_map(|it| it.as_ref().err().cloned());
    let mut rows: Vec<Values> = found.into_iter().flatten().collect();
    if rows.is_empty() {
        let problem = match (first_problem, is_whole) {
            (Some(problem), _) => format!("no row can be read; {problem}"),
            (None, true) => "the file has no rows".to_owned(),
            (None, false) => format!("no row ends in its first {} bytes", beginning.len()),
        };
        return Err(Error::format(path, problem));
    }
    let total = is_whole.then_some(rows.len() as u64);
    rows.truncate(most);
    let mut columns: Vec<String> = Vec::new();
    for column in rows.iter().flat_map(Map::keys) {
        if !columns.contains(column) {
            columns.push(column.clone());
        }
    }
    Ok(FirstRows::new(columns, &rows, total))
}

/// The first rows of a Parquet file, read from its end and from the pages that hold them. At most `most` are given.
pub fn first_rows_of_parquet(file: impl ReadAt + 'static, most: usize) -> Result<FirstRows> {
    let file = ParquetFile::open(Blocks::new(file)).map_err(Error::Data)?;
    // The library decodes the next row before it gives one. Decoded with the others, it costs no page.
    let rows_at_once = most.saturating_add(1).min(parquet::ROWS_AT_ONCE);
    let rows = file.rows(rows_at_once).take(most);
    let rows: Result<Vec<Values>, String> = rows.map(|row| row.map(|it| it.values)).collect();
    let rows = rows.map_err(Error::Data)?;
    Ok(FirstRows::new(file.columns(), &rows, Some(file.num_rows())))
}

impl FirstRows {
    fn new(columns: Vec<String>, rows: &[Values], total: Option<u64>) -> Self {
        let cells = |row: &Values| columns.iter().map(|it| cell(row.get(it))).collect();
        Self {
            rows: rows.iter().map(cells).collect(),
            columns,
            total,
        }
    }
}

/// Each row that is a record, or what is wrong with it. An error means that a file that is whole breaks off.
fn records(source: &Source, is_whole: bool) -> Result<Vec<Result<Values, String>>> {
    let mut found = Vec::new();
    for record in source.records() {
        found.push(match record {
            Ok(Ok(record)) => Ok(record.values),
            Ok(Err(broken)) => Err(format!("line {} {}", broken.line, broken.full_reason())),
            Err(error) if is_whole => return Err(error),
            Err(error) => Err(error.to_string()),
        });
    }
    Ok(found)
}

fn lines(text: &str) -> Vec<Result<Values, String>> {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines
        .map(|line| Ok(Map::from_iter([("text".to_owned(), Value::from(line))])))
        .collect()
}

/// The bytes without those of a letter that is not all there.
fn without_cut_letter(bytes: &[u8]) -> &[u8] {
    match str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
        _ => bytes,
    }
}

/// A value as text to show, without what could upset a screen.
fn cell(value: Option<&Value>) -> String {
    let text = match value {
        None | Some(Value::Null) => return String::new(),
        Some(Value::String(text)) => Cow::from(text),
        Some(nested) => Cow::from(nested.to_string()),
    };
    let shown = |letter: char| match letter {
        '\n' | '\t' => letter,
        letter if letter.is_control() => '\u{FFFD}',
        letter => letter,
    };
    // Lines of some systems end with `\r\n`.
    let mut letters = text.chars().filter(|&it| it != '\r').map(shown);
    let mut cell: String = letters.by_ref().take(LETTERS_SHOWN).collect();
    if letters.next().is_some() {
        cell.pop();
        cell.push('…');
    }
    cell
}
