//! Parquet files: what they hold, and what becomes of damaged ones. The files are made by `tests/parquet/make_parquet.py`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use models::{
    Error,
    data::{
        DataRequest, Dataset, columns,
        format::Format,
        open,
        row::Example,
        source::{Container, Source},
    },
};
use serde_json::Value;

use crate::data::opened;

/// A file of `tests/parquet`.
pub(crate) fn made(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../tests/parquet")
        .join(name)
}

/// The rows of a file, as JSON.
fn rows(path: &Path) -> models::Result<Vec<Value>> {
    let source = Source::read(path, None)?;
    assert_eq!(source.container, Container::Parquet);
    let mut rows = Vec::new();
    for (number, record) in (1..).zip(source.records()) {
        let record = record?.unwrap();
        assert_eq!(record.line, number);
        rows.push(Value::Object(record.values));
    }
    Ok(rows)
}

/// Expects a file to hold the rows of the JSON beside it.
#[track_caller]
fn check(name: &str) {
    let twin = fs::read(made(&format!("{name}.json"))).unwrap();
    let expected: Vec<Value> = serde_json::from_slice(&twin).unwrap();
    let found = rows(&made(&format!("{name}.parquet"))).unwrap();
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.len(), expected.len());
}

/// Expects a file to be refused, with all of these words.
#[track_caller]
fn check_refused(file: models::Result<Dataset>, words: &[&str]) {
    let error = file.unwrap_err().to_string();
    for word in words {
        assert!(error.contains(word), "`{word}` is not in: {error}");
    }
}

fn request(name: &str) -> DataRequest {
    DataRequest {
        paths: vec![made(name)],
        ..DataRequest::default()
    }
}

/// Reads all rows of a file that holds these bytes. However it ends, it has to end.
fn read_to_the_end(bytes: &[u8]) -> models::Result<usize> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    fs::write(&path, bytes).unwrap();
    let source = Source::read(&path, None)?;
    source
        .records()
        .try_fold(0, |count, row| row.map(|_| count + 1))
}

#[test]
fn a_file_of_conversations_in_several_row_groups_is_read() {
    check("chat");
    let dataset = open(&request("chat.parquet")).unwrap();
    assert_eq!((dataset.rows.len(), dataset.problems.len()), (8, 0));
    let layout = dataset.files[0].layout.as_ref().unwrap();
    assert_eq!(
        (layout.format, layout.unused.as_slice()),
        (Format::Messages, ["id".to_owned()].as_slice())
    );
    let Example::Chat(messages) = &dataset.rows[7].example else {
        panic!("not a conversation");
    };
    assert_eq!(dataset.rows[7].line, 8);
    assert_eq!(messages[0].content, "Question 7.0: wie heißt 漢字? 🙂");
    assert_eq!(messages[2].extra["name"], "mira");
}

#[test]
fn pages_are_unpacked_whatever_they_are_packed_with() {
    check("pairs");
    check("text");
    check("encodings");
}

#[test]
fn every_kind_of_value_becomes_what_json_has_for_it_and_bytes_are_left_out() {
    check("kinds");
}

#[test]
fn a_row_that_lacks_a_value_is_reported_by_its_number() {
    let columns = [("prompt", "question"), ("completion", "answer")];
    let dataset = open(&DataRequest {
        columns: columns
            .map(|(part, column)| (part.to_owned(), column.to_owned()))
            .into(),
        ..request("pairs.parquet")
    })
    .unwrap();
    let problems: Vec<String> = dataset.problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        problems,
        [
            "line 6: `question` is missing",
            "line 8: `answer` is missing"
        ]
    );
    assert_eq!(dataset.rows.len(), 58);
}

#[test]
fn columns_of_questions_and_answers_are_found_and_others_can_be_asked_for() {
    let found = columns(&request("pairs.parquet")).unwrap();
    assert_eq!(found, ["question", "answer", "score", "number", "good"]);
    let reason = &open(&request("pairs.parquet")).unwrap().files[0].reason;
    let read = "read with `question` as the prompt and `answer` as the completion";
    assert!(reason.contains(read), "{reason}");
}

#[test]
fn a_folder_may_hold_parquet_files_beside_others() {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(made("text.parquet"), folder.path().join("b.parquet")).unwrap();
    fs::write(folder.path().join("a.jsonl"), "{\"text\": \"first\"}\n").unwrap();
    let dataset = open(&DataRequest {
        paths: vec![folder.path().to_owned()],
        ..DataRequest::default()
    })
    .unwrap();
    let counts: Vec<usize> = dataset.files.iter().map(|it| it.rows).collect();
    assert_eq!(counts, [1, 150]);
    assert_eq!(dataset.files[1].container, Container::Parquet);
}

#[test]
fn a_file_that_can_not_be_read_says_why() {
    let refused = |name: &str| open(&request(name));
    check_refused(
        refused("lz4.parquet"),
        &["`text`", "LZ4", "snappy, gzip or zstd"],
    );
    check_refused(
        refused("bytes-only.parquet"),
        &["no column", "`picture`", "bytes"],
    );
    check_refused(refused("no-rows.parquet"), &["no rows"]);
    check_refused(refused("encrypted.parquet"), &["encrypted"]);
    check_refused(refused("encrypted-column.parquet"), &["encrypted"]);
    let pointer = b"version https://git-lfs.github.com/spec/v1\n";
    let named = opened("a.parquet", pointer, DataRequest::default());
    check_refused(named, &["a pointer of Git LFS", "download"]);
    let named = opened("a.parquet", b"Some words.\n", DataRequest::default());
    check_refused(named, &["the name says Parquet", "download"]);
}

#[test]
fn a_file_that_is_cut_off_anywhere_is_refused() {
    let whole = fs::read(made("chat.parquet")).unwrap();
    for length in (4..whole.len()).step_by(7) {
        let error = read_to_the_end(&whole[..length]).unwrap_err().to_string();
        assert!(error.contains("cut off"), "{length} bytes: {error}");
    }
}

/// A wrong byte in a text is still a text. Any other has to be an error, and never ends the program.
#[test]
fn a_file_with_a_wrong_byte_is_read_or_refused() {
    for name in ["chat.parquet", "pairs.parquet", "encodings.parquet"] {
        let mut bytes = fs::read(made(name)).unwrap();
        let mut refused = 0;
        for at in 4..bytes.len() - 4 {
            bytes[at] ^= 0xff;
            match read_to_the_end(&bytes) {
                Ok(_) => {}
                Err(Error::Format { .. }) => refused += 1,
                Err(other) => panic!("byte {at} of {name}: {other}"),
            }
            bytes[at] ^= 0xff;
        }
        assert!(refused > bytes.len() / 10, "{refused} of {}", bytes.len());
    }
}

/// A file that is only a footer: a list of columns, each with a number of columns inside.
fn footer_of(children: &[u32]) -> Vec<u8> {
    let number = |mut number: u64| {
        let mut bytes = Vec::new();
        while number > 0x7f {
            bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        bytes.push(number as u8);
        bytes
    };
    // The format's version, then a list of structs. A struct has a repetition, a name, and how many are inside.
    let mut footer = vec![0x15, 2, 0x19, 0xfc];
    footer.extend(number(children.len() as u64));
    for &count in children {
        footer.extend([0x35, 0, 0x18, 1, b'a', 0x15]);
        footer.extend(number(u64::from(count) * 2));
        footer.push(0);
    }
    // No rows, no row groups.
    footer.extend([0x16, 0, 0x19, 0x0c, 0]);
    let length = (footer.len() as u32).to_le_bytes();
    [b"PAR1", footer.as_slice(), &length, b"PAR1"].concat()
}

#[test]
fn a_footer_that_asks_for_more_than_there_is_is_refused() {
    let deep: Vec<u32> = (0..200_000).map(|at| u32::from(at < 199_999)).collect();
    for children in [&[u32::MAX / 4][..], &[1, 2], &deep] {
        let error = read_to_the_end(&footer_of(children)).unwrap_err();
        assert!(
            error.to_string().contains("footer makes no sense"),
            "{error}"
        );
    }
    let mut long = fs::read(made("chat.parquet")).unwrap();
    let length = long.len() - 8;
    long[length..length + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    let error = read_to_the_end(&long).unwrap_err().to_string();
    assert!(error.contains("4,294,967,295"), "{error}");
}
