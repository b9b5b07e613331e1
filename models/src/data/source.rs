//! Files to records: what kind of file it is, what it holds, and the named values of each of its rows.
//!
//! Known kinds: JSON lines, a JSON list, CSV and TSV with a header, Parquet, and plain text. Text is UTF-8 unless an
//! encoding is named; Parquet says itself what its bytes are. What the columns mean is not decided here but in
//! `format.rs`.
//!
//! Deliberately absent: compressed files and Arrow. They are recognized, and refused with a sentence.

use std::{
    collections::{BTreeMap, HashSet},
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
    time::SystemTime,
};

use encoding_rs::{Encoding, UTF_8};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    not_text,
    parquet::{self, ParquetFile},
};
use crate::{Error, ReadAs, Result, instead, limits};

/// What kind of file holds the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Container {
    /// One JSON object on each line.
    JsonLines,
    /// One JSON list of objects.
    JsonList,
    /// A header and rows, values apart by this byte.
    Table {
        /// `,` `;` or a tab.
        separator: u8,
    },
    /// Columns with types, in groups of rows.
    Parquet,
    /// Plain text.
    Text,
}

/// A file that was opened.
pub struct Source {
    /// Where it stands.
    pub path: PathBuf,
    /// What kind of file it is.
    pub container: Container,
    content: Content,
}

/// What a file holds.
enum Content {
    /// Its whole text, without a byte order mark and with `\n` at the end of lines.
    Text(String),
    /// The columns of a Parquet file, which stay on disk.
    Columns(ParquetFile),
}

/// One row as the file has it: values by column name.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The line at which it begins, from 1. A Parquet file has no lines: there, it is the number of the row.
    pub line: u32,
    /// Its values, in the file's order.
    pub values: Map<String, Value>,
}

/// A row that is not even a record: the line at which it begins, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The line, from 1.
    pub line: u32,
    /// What is wrong.
    pub reason: String,
    /// What the library said, where the reason is in our words.
    pub details: Option<String>,
}

impl Broken {
    fn new(line: u32, reason: String) -> Self {
        Self {
            line,
            reason,
            details: None,
        }
    }

    /// What is wrong, with what the library said.
    pub fn full_reason(&self) -> String {
        with_details(&self.reason, self.details.as_deref())
    }
}

/// A sentence, and what a library said in brackets.
pub(super) fn with_details(reason: &str, details: Option<&str>) -> String {
    match details {
        Some(details) => format!("{reason} ({details})"),
        None => reason.to_owned(),
    }
}

/// File name endings that a folder is searched for.
const ENDINGS: [&str; 10] = [
    "jsonl", "ndjson", "json", "csv", "tsv", "tab", "parquet", "txt", "text", "md",
];

/// The files meant by paths: a file is itself, a folder is every data file in it and below, in order of name.
pub fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    if paths.is_empty() {
        return Err(Error::setting("data.paths", "names no file"));
    }
    let mut found = Vec::new();
    for path in paths {
        let about = fs::metadata(path).map_err(Error::file("read the data", path))?;
        if !about.is_dir() {
            found.push(path.clone());
            continue;
        }
        let before = found.len();
        collect_files(path, &mut HashSet::new(), &mut found)?;
        if found.len() == before {
            let endings = ENDINGS.map(|ending| format!(".{ending}")).join(" ");
            return Err(Error::format(
                path,
                format!("the folder has no file that ends in {endings}"),
            ));
        }
    }
    Ok(found)
}

impl Source {
    /// Reads a file. `encoding` is a label of the WHATWG standard; without one the text must be UTF-8.
    ///
    /// The standard takes `latin-1` for windows-1252, which differs only where Latin-1 has control characters.
    pub fn read(path: &Path, encoding: Option<&str>) -> Result<Self> {
        not_text::check_name(path)?;
        let failed = || Error::file("read the data", path);
        let mut file = File::open(path).map_err(failed())?;
        let mut bytes = Vec::new();
        let mark = parquet::MARK;
        let mut start = file.by_ref().take(mark.len() as u64);
        start.read_to_end(&mut bytes).map_err(failed())?;
        if bytes == mark {
            let columns = ParquetFile::open(file);
            return Ok(Self {
                path: path.to_owned(),
                container: Container::Parquet,
                content: Content::Columns(columns.map_err(|it| Error::format(path, it))?),
            });
        }
        let bytes = limits::TEXT_FILE.read_rest(bytes, file, path, "read the data")?;
        Self::from_bytes(path, bytes, encoding)
    }

    /// A file that was read, or the beginning of one. It is text.
    pub(super) fn from_bytes(path: &Path, bytes: Vec<u8>, encoding: Option<&str>) -> Result<Self> {
        not_text::check_bytes(path, &bytes, encoding)?;
        // A page of the web can be text to learn from, but not where the name promises rows.
        let ending = ending_of(path);
        let what = match ending.as_str() {
            "json" | "jsonl" | "ndjson" | "csv" | "tsv" | "tab" | "parquet" => {
                instead::found(&bytes)
            }
            _ => instead::pointer(&bytes),
        };
        if let Some(what) = what {
            return Err(Error::format(path, what));
        }
        if ending == "parquet" {
            let problem =
                "the name says Parquet, and the file is not one; download or copy it again";
            return Err(Error::format(path, problem));
        }
        let mut text = match encoding {
            None => utf8(bytes, path)?,
            Some(label) => decoded(bytes, label, path)?,
        };
        if text.starts_with('\u{FEFF}') {
            text.drain(..'\u{FEFF}'.len_utf8());
        }
        if text.contains("\r\n") {
            text = text.replace("\r\n", "\n");
        }
        if text.trim().is_empty() {
            return Err(Error::format(path, "the file is empty"));
        }
        Ok(Self {
            container: container_of(path, &text),
            path: path.to_owned(),
            content: Content::Text(text),
        })
    }

    /// The text. A Parquet file has none.
    pub fn into_text(self) -> String {
        match self.content {
            Content::Text(text) => text,
            Content::Columns(_) => String::new(),
        }
    }

    /// The rows, one at a time. A row that can't be read is given as [`Broken`], and the next one follows.
    ///
    /// Plain text has no records: nothing is given. An error means that what follows in the file is lost.
    pub fn records(&self) -> Box<dyn Iterator<Item = Result<Result<Record, Broken>>> + '_> {
        let text = match &self.content {
            Content::Text(text) => text,
            Content::Columns(columns) => {
                let rows = columns.rows(parquet::ROWS_AT_ONCE);
                let failed = |problem| Error::format(&self.path, problem);
                return Box::new(rows.map(move |row| row.map(Ok).map_err(failed)));
            }
        };
        match self.container {
            Container::JsonLines => Box::new(json_lines(text).map(Ok)),
            Container::JsonList => Box::new(JsonList::new(&self.path, text)),
            Container::Table { separator } => self.table(text, separator),
            Container::Parquet | Container::Text => Box::new(std::iter::empty()),
        }
    }

    fn table<'a>(
        &'a self,
        text: &'a str,
        separator: u8,
    ) -> Box<dyn Iterator<Item = Result<Result<Record, Broken>>> + 'a> {
        let mut reader = csv::ReaderBuilder::new()
            .delimiter(separator)
            .flexible(true)
            .from_reader(text.as_bytes());
        let header = match reader.headers() {
            Ok(header) => header.clone(),
            Err(error) => {
                let error = Error::format(&self.path, format!("the header can’t be read: {error}"));
                return Box::new(std::iter::once(Err(error)));
            }
        };
        let rows = reader.into_records().map(move |record| match record {
            Ok(record) => Ok(table_row(&header, &record)),
            Err(error) => Err(Error::format(&self.path, error.to_string())),
        });
        Box::new(rows)
    }
}

fn table_row(header: &csv::StringRecord, row: &csv::StringRecord) -> Result<Record, Broken> {
    let line = row
        .position()
        .map_or(0, |it| u32::try_from(it.line()).unwrap_or(u32::MAX));
    if row.len() != header.len() {
        let reason = format!(
            "has {} values, and the header names {}",
            row.len(),
            header.len()
        );
        return Err(Broken::new(line, reason));
    }
    let values = header
        .iter()
        .zip(row)
        .map(|(name, value)| (name.trim().to_owned(), Value::from(value)))
        .collect();
    Ok(Record { line, values })
}

fn json_lines(text: &str) -> impl Iterator<Item = Result<Record, Broken>> {
    let numbered = text
        .lines()
        .zip(1..)
        .filter(|(line, _)| !line.trim().is_empty());
    numbered.map(|(row, line)| match serde_json::from_str(row) {
        Ok(value) => record(value, line),
        Err(error) => Err(Broken {
            reason: match error.is_eof() {
                true => "is not complete JSON".to_owned(),
                false => "is not JSON".to_owned(),
            },
            details: Some(format!("{}, at column {}", plain(&error), error.column())),
            line,
        }),
    })
}

/// The objects of a JSON list, read one after another so that the list is never in memory as a whole.
struct JsonList<'a> {
    path: &'a Path,
    text: &'a str,
    /// How many bytes are done.
    at: usize,
    line: u32,
    /// How many objects were begun: a list can stand on one line.
    items: usize,
    done: bool,
}

impl<'a> JsonList<'a> {
    fn new(path: &'a Path, text: &'a str) -> Self {
        let mut list = Self {
            path,
            text,
            at: 0,
            line: 1,
            items: 0,
            done: false,
        };
        list.skip_space();
        list.advance(1); // The bracket that made it a list.
        list
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn advance(&mut self, bytes: usize) {
        let passed = &self.text.as_bytes()[self.at..self.at + bytes];
        self.line += passed.iter().filter(|&&byte| byte == b'\n').count() as u32;
        self.at += bytes;
    }

    fn skip_space(&mut self) {
        self.advance(self.rest().len() - self.rest().trim_start().len());
    }

    fn breaks_off(&mut self, what: &str) -> Error {
        self.done = true;
        Error::format(
            self.path,
            format!(
                "the JSON list breaks off at line {}, item {}: {what}",
                self.line, self.items
            ),
        )
    }
}

impl Iterator for JsonList<'_> {
    type Item = Result<Result<Record, Broken>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.skip_space();
        if self.done {
            return None;
        }
        if self.rest().starts_with(']') {
            self.advance(1);
            self.skip_space();
            self.done = true;
            let more = !self.rest().is_empty();
            return more.then(|| Err(self.breaks_off("something follows its closing bracket")));
        }
        let line = self.line;
        self.items += 1;
        let mut values = serde_json::Deserializer::from_str(self.rest()).into_iter::<Value>();
        let value = match values.next() {
            Some(Ok(value)) => value,
            Some(Err(error)) => {
                self.line += error.line() as u32 - 1;
                let what = plain(&error);
                return Some(Err(self.breaks_off(&what)));
            }
            None => return Some(Err(self.breaks_off("the closing bracket is missing"))),
        };
        self.advance(values.byte_offset());
        self.skip_space();
        match self.rest().chars().next() {
            Some(',') => self.advance(1),
            // Where nothing follows, this object is whole and the next call says that the list is not.
            Some(']') | None => {}
            Some(_) => return Some(Err(self.breaks_off("expected `,` or `]`"))),
        }
        Some(Ok(record(value, line)))
    }
}

fn record(value: Value, line: u32) -> Result<Record, Broken> {
    match value {
        Value::Object(values) => Ok(Record { line, values }),
        other => {
            let reason = format!("is {}, not an object with named values", kind(&other));
            Err(Broken::new(line, reason))
        }
    }
}

/// What a JSON value is, for a sentence.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The library's words without its place: it counts lines from where the value began.
fn plain(error: &serde_json::Error) -> String {
    let words = error.to_string();
    match words.rfind(" at line ") {
        Some(end) => words[..end].to_owned(),
        None => words,
    }
}

/// The letters after the last dot of the name, in lower case.
fn ending_of(path: &Path) -> String {
    let ending = path.extension().unwrap_or_default();
    ending.to_string_lossy().to_ascii_lowercase()
}

fn container_of(path: &Path, text: &str) -> Container {
    let start = text.trim_start();
    let first_line = start.lines().next().unwrap_or_default();
    match ending_of(path).as_str() {
        "csv" => Container::Table {
            separator: separator_of(first_line),
        },
        "tsv" | "tab" => Container::Table { separator: b'\t' },
        "txt" | "text" | "md" => Container::Text,
        // Many data sets have JSON lines in files that end in `.json`, and some a list in `.jsonl`.
        "json" | "jsonl" | "ndjson" if start.starts_with('[') => Container::JsonList,
        "json" | "jsonl" | "ndjson" => Container::JsonLines,
        _ if serde_json::from_str::<Map<String, Value>>(first_line).is_ok() => Container::JsonLines,
        _ if start.starts_with("[{") || start.starts_with("[\n") => Container::JsonList,
        _ => Container::Text,
    }
}

fn separator_of(header: &str) -> u8 {
    let count = |separator: u8| header.bytes().filter(|&byte| byte == separator).count();
    [b'\t', b';', b',']
        .into_iter()
        .max_by_key(|&it| count(it))
        .unwrap_or(b',')
}

fn utf8(bytes: Vec<u8>, path: &Path) -> Result<String> {
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let bytes = error.as_bytes();
        let line = 1 + bytes[..at].iter().filter(|&&byte| byte == b'\n').count();
        let problem = format!("not UTF-8 at byte {at} (0x{:02X}, line {line})", bytes[at]);
        Error::reading(path, problem, ReadAs::Encoding("latin-1".to_owned()))
    })
}

fn decoded(bytes: Vec<u8>, label: &str, path: &Path) -> Result<String> {
    // People write `latin-1`; the standard's label has no hyphen.
    let spelled = label.to_ascii_lowercase().replace("latin-", "latin");
    let encoding = Encoding::for_label(spelled.as_bytes()).ok_or_else(|| {
        Error::setting(
            "data.encoding",
            format!("is `{label}`, which is no known encoding; known are utf-8, latin-1, windows-1252, utf-16le, \
                     shift_jis, gb18030 and the other labels of the WHATWG encoding standard"),
        )
    })?;
    if encoding == UTF_8 {
        return utf8(bytes, path);
    }
    let (text, broken) = encoding.decode_without_bom_handling(&bytes);
    if broken {
        return Err(Error::format(
            path,
            format!("the text is not {}", encoding.name()),
        ));
    }
    Ok(text.into_owned())
}

/// Adds the data files of a folder and of those below it. A link may lead to a folder above it, so each is entered once.
fn collect_files(
    folder: &Path,
    entered: &mut HashSet<PathBuf>,
    found: &mut Vec<PathBuf>,
) -> Result<()> {
    let failed = |error| Error::file("read the data folder", folder)(error);
    if !entered.insert(fs::canonicalize(folder).map_err(failed)?) {
        return Ok(());
    }
    let mut entries: Vec<PathBuf> = fs::read_dir(folder)
        .map_err(failed)?
        .map(|entry| entry.map(|it| it.path()))
        .collect::<std::io::Result<_>>()
        .map_err(failed)?;
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with('.') {
            continue;
        }
        if path.is_dir() {
            collect_files(&path, entered, found)?;
        } else if ENDINGS.contains(&ending_of(&path).as_str()) {
            found.push(path);
        }
    }
    Ok(())
}

/// When a file was changed, and how large it is. Of one that can't be asked, nothing.
pub type Changed = Option<(SystemTime, u64)>;

/// When each file was changed: the same answer means the same content, as far as that can be said without reading it.
pub fn changed<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Vec<Changed> {
    let changed = |path: &PathBuf| {
        let file = fs::metadata(path).ok()?;
        Some((file.modified().ok()?, file.len()))
    };
    paths.into_iter().map(changed).collect()
}

/// The files of data by what they are for a run: `data/1`, or `data/1/rows.jsonl` in a folder.
pub fn places(paths: &[PathBuf]) -> BTreeMap<String, PathBuf> {
    let mut sources = BTreeMap::new();
    for (index, path) in paths.iter().enumerate() {
        let place = format!("data/{}", index + 1);
        if !path.is_dir() {
            sources.insert(place, path.clone());
            continue;
        }
        // A folder without data is an error of the data, which is said when it is read.
        for file in files(std::slice::from_ref(path)).unwrap_or_default() {
            let inner = file.strip_prefix(path).unwrap_or(&file).to_string_lossy();
            sources.insert(format!("{place}/{inner}"), file);
        }
    }
    sources
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn links_among_folders_lead_nowhere_twice() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        fs::create_dir(&inner).unwrap();
        fs::write(inner.join("a.jsonl"), "{}").unwrap();
        // Two links up make 2^40 paths, which no time is enough for.
        for name in ["one", "two"] {
            std::os::unix::fs::symlink("..", inner.join(name)).unwrap();
        }
        let found = files(&[folder.path().to_owned()]).unwrap();
        assert_eq!(found, [inner.join("a.jsonl")]);
    }
}
