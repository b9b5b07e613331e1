//! Files in a column of Parquet: pictures and sounds, as data sets of the Hub hold them, in a struct of `bytes` and `path` or as bytes
//! alone. What else a row says in numbers and texts stands beside.
//!
//! Deliberately absent: what the bytes are.

use std::{fs::File, path::Path};

use parquet::{
    basic::{Repetition, Type as PhysicalType},
    record::Field,
    schema::types::{SchemaDescPtr, Type},
};
use serde_json::{Map, Value};

use super::{
    ParquetFile, Rows, caught,
    schema::{columns, is_text_or_number},
    value,
};
use crate::{Error, Result, limits};

/// Rows whose files are decoded at once: a file can have some megabytes.
const ROWS_AT_ONCE: usize = 16;
/// Where the Hub's library says what the columns mean.
const FEATURES: &str = "huggingface";
/// The most letters of that.
const MAX_FEATURES: usize = limits::PARQUET_FEATURES.most as usize;

/// A row of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct FileRow {
    /// The bytes of its file. None where the row has none.
    pub bytes: Option<Vec<u8>>,
    /// What its file was called.
    pub path: Option<String>,
    /// The numbers and texts of the other columns.
    pub values: Map<String, Value>,
}

/// A Parquet file with a column of files, of which only the footer has been read.
pub struct FileTable {
    file: ParquetFile,
    column: String,
}

impl FileTable {
    /// Reads the footer. Without `with_files`, rows have no bytes, and no page with some is read.
    ///
    /// Errors: [`Error::File`] where it can't be opened, [`Error::Format`] where it is no Parquet file with a column of files.
    pub fn open(path: &Path, with_files: bool) -> Result<Self> {
        let file = File::open(path).map_err(Error::file("read the Parquet file", path))?;
        let mut column = String::new();
        let keep = |schema: &SchemaDescPtr| {
            let fields = schema.root_schema().get_fields();
            let found = fields.iter().find(|it| is_of_files(it)).ok_or_else(|| {
                let names: Vec<&str> = fields.iter().take(20).map(|it| it.name()).collect();
                format!(
                    "this Parquet file has no column of files; its columns are: {}",
                    names.join(", ")
                )
            })?;
            column = found.name().to_owned();
            columns(schema, |it| match it.name() == found.name() {
                true => with_files,
                false => it.is_primitive() && is_text_or_number(it) && !is_repeated(it),
            })
        };
        let file = ParquetFile::open_columns(file, keep)
            .map_err(|problem| Error::format(path, problem))?;
        Ok(Self { file, column })
    }

    /// The names of the columns beside that of the files.
    pub fn columns(&self) -> Vec<String> {
        let mut columns = self.file.columns();
        columns.retain(|it| *it != self.column);
        columns
    }

    /// What the Hub's library says of the columns, by their names: of `label` that its names are `cat` and `dog`.
    pub fn features(&self) -> Option<Value> {
        let about = self.file.reader.metadata().file_metadata();
        let entries = about.key_value_metadata()?;
        let text = entries
            .iter()
            .find(|it| it.key == FEATURES)?
            .value
            .as_ref()?;
        if text.len() > MAX_FEATURES {
            return None;
        }
        let mut all: Value = serde_json::from_str(text).ok()?;
        all.pointer_mut("/info/features").map(Value::take)
    }

    /// How many rows there are, by the footer.
    pub fn num_rows(&self) -> u64 {
        self.file.num_rows()
    }

    /// The rows, one after another. The first error ends them; it is a sentence without the name of the file.
    pub fn rows(&self) -> FileRows<'_> {
        FileRows {
            rows: self.file.rows(ROWS_AT_ONCE),
            column: &self.column,
        }
    }
}

/// The rows of a table.
pub struct FileRows<'a> {
    rows: Rows<'a>,
    column: &'a str,
}

impl Iterator for FileRows<'_> {
    type Item = Result<FileRow, String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rows.is_over {
            return None;
        }
        let row = caught(|| self.next_row());
        // What a panic left behind is not used again.
        self.rows.is_over = !matches!(row, Ok(Some(_)));
        row.transpose()
    }
}

impl FileRows<'_> {
    fn next_row(&mut self) -> std::result::Result<Option<FileRow>, parquet::errors::ParquetError> {
        let Some(row) = self.rows.next_row()? else {
            return Ok(None);
        };
        let mut found = FileRow {
            bytes: None,
            path: None,
            values: Map::new(),
        };
        let kinds = self.rows.file.kept.root_schema().get_fields();
        for ((name, field), kind) in row.into_columns().into_iter().zip(kinds) {
            match field {
                Field::Group(parts) if name == self.column => {
                    for (part, field) in parts.into_columns() {
                        match (part.as_str(), field) {
                            ("bytes", Field::Bytes(bytes)) => {
                                found.bytes = Some(bytes.data().to_vec())
                            }
                            ("path", Field::Str(path)) => found.path = Some(path),
                            _ => {}
                        }
                    }
                }
                Field::Bytes(bytes) if name == self.column => {
                    found.bytes = Some(bytes.data().to_vec())
                }
                field => drop(found.values.insert(name, value::value(field, kind))),
            }
        }
        Ok(Some(found))
    }
}

/// Whether a column holds files.
fn is_of_files(field: &Type) -> bool {
    let is_bytes = |field: &Type| {
        field.is_primitive()
            && field.get_physical_type() == PhysicalType::BYTE_ARRAY
            && !is_text_or_number(field)
            && !is_repeated(field)
    };
    if field.is_primitive() {
        return is_bytes(field);
    }
    let parts = field.get_fields();
    let is_part =
        |it: &Type| is_bytes(it) || (it.name() == "path" && it.is_primitive() && !is_repeated(it));
    !is_repeated(field)
        && parts.iter().all(|it| is_part(it))
        && parts.iter().any(|it| it.name() == "bytes" && is_bytes(it))
}

fn is_repeated(field: &Type) -> bool {
    field.get_basic_info().has_repetition()
        && field.get_basic_info().repetition() == Repetition::REPEATED
}
