//! The first rows of files of which only a part is at hand.

use std::{
    collections::BTreeMap,
    fs, io,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use models::data::first_rows::{FirstRows, ReadAt, first_rows, first_rows_of_parquet};
use parquet::{
    basic::{Compression, ZstdLevel},
    data_type::{ByteArray, ByteArrayType},
    file::{properties::WriterProperties, writer::SerializedFileWriter},
    schema::parser::parse_message_type,
};
use serde::Deserialize;

use crate::parquet_files::made;

/// The beginning of a file, and what it shows: rows, or words of an error.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    file: String,
    beginning: String,
    #[serde(default)]
    whole: bool,
    #[serde(default)]
    columns: Vec<String>,
    #[serde(default)]
    rows: Vec<Vec<String>>,
    error: Option<String>,
}

/// Reads the beginnings in `first_rows.yaml` that have this name, and compares what they show.
#[track_caller]
fn check(name: &str) {
    let mut all: BTreeMap<String, Vec<Case>> =
        serde_saphyr::from_str(include_str!("first_rows.yaml")).unwrap();
    for case in all.remove(name).unwrap() {
        let beginning = case.beginning.as_bytes();
        if let Some(words) = &case.error {
            check_error(&case.file, beginning, case.whole, words);
            continue;
        }
        let found = first_rows(&case.file, beginning, case.whole, 3).unwrap();
        assert_eq!((found.columns, found.rows), (case.columns, case.rows));
    }
}

#[track_caller]
fn check_error(name: &str, beginning: &[u8], is_whole: bool, words: &str) {
    let error = first_rows(name, beginning, is_whole, 3).unwrap_err();
    assert!(error.to_string().contains(words), "{error}");
}

/// Bytes in memory that count how they are read.
#[derive(Clone)]
struct Counted {
    bytes: Arc<Vec<u8>>,
    requests: Arc<AtomicUsize>,
    bytes_read: Arc<AtomicU64>,
}

impl Counted {
    fn new(bytes: Vec<u8>) -> Self {
        Self {
            bytes: Arc::new(bytes),
            requests: Arc::default(),
            bytes_read: Arc::default(),
        }
    }
}

impl ReadAt for Counted {
    fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, start: u64, length: usize) -> io::Result<Vec<u8>> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.bytes_read.fetch_add(length as u64, Ordering::Relaxed);
        let start = start as usize;
        Ok(self.bytes[start..start + length].to_vec())
    }
}

/// A file that is not there any more.
struct Gone;

impl ReadAt for Gone {
    fn bytes(&self) -> u64 {
        1000
    }

    fn read_at(&self, _: u64, _: usize) -> io::Result<Vec<u8>> {
        Err(io::Error::other("the server does not answer"))
    }
}

#[test]
fn a_row_that_is_cut_is_left_out() {
    check("cut rows");
}

#[test]
fn a_row_that_ends_where_the_part_ends_is_not_cut() {
    check("rows that end");
}

#[test]
fn a_letter_that_is_cut_is_no_mistake_in_the_text() {
    let text = "one\ntwo 漢".as_bytes();
    let cut = &text[..text.len() - 1];
    assert_eq!(first_rows("a.txt", cut, false, 3).unwrap().rows, [["one"]]);
    check_error("a.txt", cut, true, "not UTF-8");
}

#[test]
fn rows_are_counted_where_the_file_is_whole() {
    let lines = "{\"text\": \"a\"}\n".repeat(5);
    let total = |is_whole| first_rows("a.jsonl", lines.as_bytes(), is_whole, 2).unwrap();
    assert_eq!((total(true).rows.len(), total(true).total), (2, Some(5)));
    assert_eq!((total(false).rows.len(), total(false).total), (2, None));
    check("whole files");
}

#[test]
fn cells_are_text_that_can_be_shown() {
    check("cells");
    let long = format!("{{\"text\": \"{}\"}}", "漢".repeat(2001));
    let found = first_rows("a.jsonl", long.as_bytes(), true, 1).unwrap();
    assert_eq!(found.rows[0][0], "漢".repeat(1999) + "…");
}

#[test]
fn a_part_without_a_row_says_so() {
    check("no rows");
    check_error("a.jsonl.gz", b"\x1f\x8b\x08", false, "compressed with gzip");
}

#[test]
fn a_row_that_can_not_be_read_does_not_hide_the_others() {
    check("a bad row");
}

#[test]
fn a_parquet_file_shows_its_first_rows() {
    let file = Counted::new(fs::read(made("chat.parquet")).unwrap());
    let found = first_rows_of_parquet(file.clone(), 4).unwrap();
    assert_eq!(
        (found.columns, found.total),
        (vec!["id".to_owned(), "messages".to_owned()], Some(8))
    );
    assert_eq!(found.rows.len(), 4);
    assert_eq!(found.rows[3][0], "row-3");
    assert!(
        found.rows[0][1]
            .starts_with(r#"[{"role":"system","content":"Answer briefly.","name":null},"#)
    );
    // A small file is one block.
    assert_eq!(file.requests.load(Ordering::Relaxed), 1);

    let kinds = Counted::new(fs::read(made("kinds.parquet")).unwrap());
    let found = first_rows_of_parquet(kinds, 10).unwrap();
    let cell = |row: usize, column: &str| {
        let at = found.columns.iter().position(|it| it == column).unwrap();
        found.rows[row][at].as_str()
    };
    assert_eq!((cell(0, "day"), cell(1, "day")), ("1815-12-10", ""));
    assert_eq!(cell(0, "picture"), "{\"path\":\"a.png\"}");
    assert!(!found.columns.contains(&"raw".to_owned()));
}

#[test]
fn of_a_large_parquet_file_only_the_first_pages_with_text_are_read() {
    let file = Counted::new(large_file());
    let found = first_rows_of_parquet(file.clone(), 20).unwrap();
    assert_eq!(found.columns, ["question", "answer"]);
    assert_eq!(
        (found.rows.len(), found.total),
        (20, Some(4 * ROWS_PER_GROUP as u64))
    );
    assert!(
        found.rows[19][1].starts_with("answer 19 "),
        "{}",
        found.rows[19][1]
    );

    let (bytes, read) = (file.bytes(), file.bytes_read.load(Ordering::Relaxed));
    assert!(bytes > 15_000_000, "{bytes}");
    assert!(read < bytes / 6, "{read} of {bytes}");
    let requests = file.requests.load(Ordering::Relaxed);
    assert!(requests <= 5, "{requests} requests");
}

#[test]
fn a_parquet_file_that_can_not_be_read_says_why() {
    let error = |found: models::Result<FirstRows>| found.unwrap_err().to_string();
    assert!(error(first_rows_of_parquet(Gone, 5)).contains("the server does not answer"));
    let whole = fs::read(made("chat.parquet")).unwrap();
    let cut = Counted::new(whole[..whole.len() / 2].to_vec());
    assert!(error(first_rows_of_parquet(cut, 5)).contains("cut off"));
    let nothing = Counted::new(Vec::new());
    assert!(error(first_rows_of_parquet(nothing, 5)).contains("cut off"));
}

const ROWS_PER_GROUP: usize = 1000;

/// Four row groups of questions, pictures and answers. Neither packs well, so pages stay large.
fn large_file() -> Vec<u8> {
    let schema = "message rows {
        required binary question (UTF8); required binary picture; required binary answer (UTF8);
    }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_dictionary_enabled(false)
        .build();
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties)).unwrap();
    let mut noise = 1u64;
    let mut letters = |count: usize| -> String {
        let letter = |_| {
            noise = noise
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            char::from(b' ' + ((noise >> 57) % 95) as u8)
        };
        (0..count).map(letter).collect()
    };
    for _ in 0..4 {
        let mut group = writer.next_row_group().unwrap();
        for (name, length) in [("question", 1000), ("picture", 3000), ("answer", 1000)] {
            let value = |row: usize| format!("{name} {row} {}", letters(length));
            let values: Vec<ByteArray> = (0..ROWS_PER_GROUP)
                .map(value)
                .map(|it| ByteArray::from(it.as_str()))
                .collect();
            let mut column = group.next_column().unwrap().unwrap();
            let typed = column.typed::<ByteArrayType>();
            typed.write_batch(&values, None, None).unwrap();
            column.close().unwrap();
        }
        group.close().unwrap();
    }
    writer.into_inner().unwrap()
}
