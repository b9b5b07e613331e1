//! Parquet files to records: the columns stay on disk, and a row becomes what a line of JSON would have said.
//!
//! The library's records are used, so nothing of Arrow is needed. A row group is decoded some rows at a time, and
//! never held as a whole. Bytes that are no text are left out (`schema.rs`).
//!
//! A file may be damaged or malicious. The library allocates whatever the counts in the footer and the pages ask for, so those
//! are checked first (`footer.rs`, `headers.rs`, `pages.rs`). It also panics when a page breaks the rules of the format, and one
//! wrong byte is enough for that. The panic is caught here and becomes an error like any other. What one page unpacks to has a
//! limit, but all pages together have none: a small file can hold a large text many times.

use std::panic::{self, AssertUnwindSafe};

use parquet::{
    basic::Compression,
    errors::ParquetError,
    file::{
        metadata::ColumnChunkMetaData,
        reader::{ChunkReader, FileReader, SerializedFileReader},
    },
    record::{
        Row,
        reader::{ReaderIter, TreeBuilder},
    },
    schema::types::SchemaDescPtr,
};
use serde_json::{Map, Value};

use super::source::Record;

mod cursor;
pub(super) mod file_column;
mod footer;
mod headers;
mod pages;
mod schema;
mod value;

/// How a Parquet file begins, and ends.
pub(super) const MARK: &[u8] = b"PAR1";

/// How many rows are decoded at once where all are read.
pub(super) const ROWS_AT_ONCE: usize = 1024;
/// The library can quote a whole value in an error. So many letters of its words are shown.
const WORDS_SHOWN: usize = 200;

/// A Parquet file, of which only the footer has been read.
pub(super) struct ParquetFile {
    reader: Box<dyn FileReader>,
    /// The columns that are read: those that hold text or numbers.
    kept: SchemaDescPtr,
}

/// The rows of a file, one after another. The first error ends them.
pub(super) struct Rows<'a> {
    file: &'a ParquetFile,
    rows_at_once: usize,
    /// The row group that comes next.
    group: usize,
    decoded: Option<ReaderIter>,
    /// How many rows were given.
    given: u32,
    is_over: bool,
}

impl ParquetFile {
    /// Reads the footer. The error is a sentence without the file's name.
    pub(super) fn open(file: impl ChunkReader + 'static) -> Result<Self, String> {
        Self::open_columns(file, schema::with_text)
    }

    /// The same, with other columns than those that hold text or numbers.
    fn open_columns(
        file: impl ChunkReader + 'static,
        keep: impl FnOnce(&SchemaDescPtr) -> Result<SchemaDescPtr, String>,
    ) -> Result<Self, String> {
        footer::check(&file)?;
        let bytes = file.len();
        let reader = caught(|| SerializedFileReader::new(headers::CheckedFile(file)))?;
        let schema = reader.metadata().file_metadata().schema_descr_ptr();
        let kept = keep(&schema)?;
        for group in reader.metadata().row_groups() {
            if group.num_rows() < 0 {
                return Err(damaged("a row group has less than no rows"));
            }
            group
                .columns()
                .iter()
                .try_for_each(|it| check_column(it, bytes))?;
        }
        Ok(Self {
            reader: Box::new(reader),
            kept,
        })
    }

    /// The names of the columns that hold text or numbers.
    pub(super) fn columns(&self) -> Vec<String> {
        let fields = self.kept.root_schema().get_fields().iter();
        fields.map(|it| it.name().to_owned()).collect()
    }

    /// How many rows there are, by the footer.
    pub(super) fn num_rows(&self) -> u64 {
        let groups = self.reader.metadata().row_groups().iter();
        groups.fold(0, |sum, it| {
            sum.saturating_add(it.num_rows().unsigned_abs())
        })
    }

    /// The rows. Each column decodes so many of them at once, and reads only the pages these are on.
    pub(super) fn rows(&self, rows_at_once: usize) -> Rows<'_> {
        Rows {
            file: self,
            rows_at_once,
            group: 0,
            decoded: None,
            given: 0,
            is_over: false,
        }
    }
}

impl Rows<'_> {
    fn next_values(&mut self) -> Result<Option<Map<String, Value>>, ParquetError> {
        let row = self.next_row()?;
        Ok(row.map(|row| value::values(row, self.file.kept.root_schema())))
    }

    fn next_row(&mut self) -> Result<Option<Row>, ParquetError> {
        loop {
            if let Some(row) = self.decoded.as_mut().and_then(Iterator::next) {
                return row.map(Some);
            }
            if self.group == self.file.reader.num_row_groups() {
                return Ok(None);
            }
            let group = pages::CheckedGroup(self.file.reader.get_row_group(self.group)?);
            let builder = TreeBuilder::new().with_batch_size(self.rows_at_once);
            self.decoded = Some(builder.as_iter(self.file.kept.clone(), &group)?);
            self.group += 1;
        }
    }
}

impl Iterator for Rows<'_> {
    type Item = Result<Record, String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let row = caught(|| self.next_values());
        // What a panic left behind is not used again.
        self.is_over = !matches!(row, Ok(Some(_)));
        self.given = self.given.saturating_add(1);
        let line = self.given;
        row.map(|row| row.map(|values| Record { line, values }))
            .transpose()
    }
}

/// Whether a column's pages can be unpacked, and are where a file of so many bytes can have them.
fn check_column(column: &ColumnChunkMetaData, file_bytes: u64) -> Result<(), String> {
    let name = column.column_path().string();
    let codec = column.compression();
    if !matches!(
        codec,
        Compression::UNCOMPRESSED
            | Compression::SNAPPY
            | Compression::GZIP(_)
            | Compression::ZSTD(_)
    ) {
        return Err(format!(
            "the column `{name}` of this Parquet file is compressed with {codec}; write the file again with snappy, \
             gzip or zstd"
        ));
    }
    let start = column
        .dictionary_page_offset()
        .unwrap_or(column.data_page_offset());
    let place = u64::try_from(start)
        .ok()
        .zip(u64::try_from(column.compressed_size()).ok());
    match place.and_then(|(start, bytes)| start.checked_add(bytes)) {
        Some(end) if end <= file_bytes => Ok(()),
        _ => Err(damaged(&format!(
            "the column `{name}` reaches past its end"
        ))),
    }
}

/// Calls the library. Its panics and errors become a sentence.
fn caught<T>(call: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, String> {
    match panic::catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(ParquetError::General(words) | ParquetError::EOF(words))) => Err(damaged(&words)),
        // What reading the file itself said, be it from a disk or from a network.
        Ok(Err(ParquetError::External(error))) if error.is::<std::io::Error>() => {
            Err(format!("the Parquet file could not be read: {error}"))
        }
        Ok(Err(error)) => Err(damaged(&error.to_string())),
        Err(_) => Err(damaged("its pages break the rules of the format")),
    }
}

fn damaged(what: &str) -> String {
    let what: String = what.chars().take(WORDS_SHOWN).collect();
    format!("the Parquet file is damaged: {what}")
}
