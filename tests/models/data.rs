//! Data: from files to rows.

use std::{collections::BTreeMap, fs, path::PathBuf};

use models::data::{
    DataRequest, Dataset, TextRows,
    encode::{Learn, encode, encode_stream},
    format::Format,
    open,
    row::Example,
    split::split,
    template::ChatTemplate,
    tokenizer::Tokenizer,
};
use serde::Deserialize;
use serde_json::json;

/// Writes a file and opens it.
pub(crate) fn opened(name: &str, bytes: &[u8], request: DataRequest) -> models::Result<Dataset> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, bytes).unwrap();
    open(&DataRequest {
        paths: vec![path],
        ..request
    })
}

/// A file, and what becomes of it: rows that say these things, problems in some of its rows, or an error.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    file: String,
    text: String,
    #[serde(default)]
    request: DataRequest,
    format: Option<Format>,
    said: Option<Vec<Vec<String>>>,
    /// How many rows can be used beside those with problems.
    #[serde(default)]
    good: usize,
    /// How each problem begins.
    problems: Option<Vec<String>>,
    /// Words of the error.
    error: Option<Vec<String>>,
}

/// Opens the files of `data.yaml` that have this name, and compares what becomes of them.
#[track_caller]
fn check(name: &str) {
    let mut all: BTreeMap<String, Vec<Case>> =
        serde_saphyr::from_str(include_str!("data.yaml")).unwrap();
    for case in all.remove(name).unwrap() {
        let dataset = opened(&case.file, case.text.as_bytes(), case.request);
        if let Some(words) = &case.error {
            check_words(&told(&dataset.unwrap_err()), words);
            continue;
        }
        let dataset = dataset.unwrap();
        let problems: Vec<String> = dataset.problems.iter().map(ToString::to_string).collect();
        let expected = case.problems.unwrap_or_default();
        assert_eq!(problems.len(), expected.len(), "{problems:?}");
        for (found, expected) in problems.iter().zip(&expected) {
            assert!(found.starts_with(expected), "{found}: {expected}");
        }
        if let Some(rows) = case.said {
            let layout = dataset.files[0].layout.as_ref();
            assert_eq!(layout.map(|it| it.format), case.format);
            let said: Vec<Vec<String>> =
                dataset.rows.iter().map(|row| said(&row.example)).collect();
            assert_eq!(said, rows);
            continue;
        }
        assert_eq!(dataset.rows.len(), case.good);
        assert_eq!(dataset.check_problems(true).is_ok(), case.good > 0);
        assert!(dataset.check_problems(false).is_err());
    }
}

/// What went wrong, and what to try.
fn told(error: &models::Error) -> String {
    format!("{error}; {}", error.hint().unwrap_or_default())
}

#[track_caller]
fn check_words(error: &str, words: &[impl AsRef<str>]) {
    for word in words.iter().map(AsRef::as_ref) {
        assert!(error.contains(word), "`{word}` is not in: {error}");
    }
}

fn said(example: &Example) -> Vec<String> {
    match example {
        Example::Text(text) => vec![text.clone()],
        Example::Chat(messages) => messages
            .iter()
            .map(|message| format!("{}: {}", message.role.name(), message.content))
            .collect(),
    }
}

fn plain() -> DataRequest {
    DataRequest::default()
}

#[test]
fn every_layout_is_found_by_its_columns() {
    check("layouts");
}

#[test]
fn tables_have_their_separator_and_quotes_understood() {
    check("tables");
}

#[test]
fn a_mapping_says_which_column_is_what() {
    check("mappings");
}

#[test]
fn unknown_columns_are_listed_with_a_mapping_to_try() {
    check("unknown columns");
}

#[test]
fn a_bad_row_is_reported_with_its_line_field_and_reason() {
    check("bad rows");
}

#[test]
fn a_bad_turn_is_reported_with_its_number() {
    check("bad turns");
}

#[test]
fn a_file_that_breaks_off_or_is_empty_is_an_error() {
    check("broken files");
}

#[test]
fn blank_lines_are_no_rows_where_bad_ones_are_counted() {
    let rows = b"{\"prompt\": \"Q\", \"completion\": \"A\"}\n\n{\"prompt\": 7}\n   \n\n{\"prompt\": 8}\n\n";
    let dataset = opened("a.jsonl", rows, plain()).unwrap();
    let refused = dataset.check_problems(false).unwrap_err().to_string();
    assert!(refused.contains("2 of 3 rows can’t be used"), "{refused}");
    // Lines are told as an editor counts them.
    assert!(
        refused.contains("line 3") && refused.contains("line 6"),
        "{refused}"
    );
}

#[test]
fn what_was_found_is_said_with_what_is_not_used() {
    let row = br#"{"prompt": "Q", "completion": "A", "id": 7}"#;
    let dataset = opened("a.jsonl", row, plain()).unwrap();
    let words = [
        "`prompt_completion`",
        "`completion` and `prompt`",
        "not used: `id`",
    ];
    check_words(&dataset.files[0].reason, &words);
}

#[test]
fn text_that_is_not_utf_8_is_an_error_with_its_byte_until_the_encoding_is_named() {
    let latin = b"plain\ncaf\xe9\n";
    let named = |label: &str| DataRequest {
        encoding: Some(label.to_owned()),
        ..plain()
    };
    let refused: [(&[u8], DataRequest, &[&str]); 4] = [
        (
            latin,
            plain(),
            &["byte 9", "0xE9", "line 2", "encoding: latin-1"],
        ),
        (latin, named("klingon"), &["data.encoding", "klingon"]),
        (latin, named("utf-8"), &["byte 9"]),
        (b"\xff\xfea\0", plain(), &["utf-16le"]),
    ];
    for (bytes, request, words) in refused {
        let error = opened("a.txt", bytes, request).unwrap_err();
        check_words(&told(&error), words);
    }
    for label in ["latin-1", "latin1", "ISO-8859-1", "windows-1252"] {
        let dataset = opened("a.txt", latin, named(label)).unwrap();
        assert_eq!(said(&dataset.rows[0].example), ["plain\ncafé\n"]);
    }
    let wide = opened("a.txt", b"\xff\xfea\0\r\0\n\0", named("utf-16le")).unwrap();
    assert_eq!(said(&wide.rows[0].example), ["a\n"]);
}

#[test]
fn plain_text_is_a_stream_unless_rows_are_asked_for() {
    check("plain text");
    let text = b"one\ntwo\n\n\nthree\n";
    let paragraphs = DataRequest {
        rows: Some(TextRows::Paragraphs),
        ..plain()
    };
    let dataset = opened("a.txt", text, paragraphs).unwrap();
    let lines: Vec<u32> = dataset.rows.iter().map(|row| row.line).collect();
    assert_eq!(lines, [1, 5]);
    assert!(opened("a.txt", text, plain()).unwrap().is_stream);
}

#[test]
fn a_folder_is_read_file_by_file_in_order_of_name() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("more")).unwrap();
    for (name, text) in [
        ("b.jsonl", "{\"text\": \"2\"}"),
        ("a.csv", "text\n1\n"),
        ("more/c.json", "[{\"text\": \"3\"}]"),
        ("picture.png", "no text"),
        (".hidden.txt", "hidden"),
    ] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let request = DataRequest {
        paths: vec![folder.path().to_owned()],
        ..plain()
    };
    let dataset = open(&request).unwrap();
    let said: Vec<String> = dataset
        .rows
        .iter()
        .flat_map(|row| said(&row.example))
        .collect();
    assert_eq!(
        (said, dataset.files.len()),
        (vec!["1".into(), "2".into(), "3".into()], 3)
    );
    fs::write(folder.path().join("z.txt"), "text").unwrap();
    assert!(
        open(&request)
            .unwrap_err()
            .to_string()
            .contains("data.rows")
    );
}

#[test]
fn a_request_is_read_from_a_run_file_and_unknown_settings_are_refused() {
    let request: DataRequest = serde_json::from_value(json!({
        "paths": ["a.jsonl"], "format": "sharegpt", "columns": {"prompt": "question"}, "rows": "lines"
    }))
    .unwrap();
    assert_eq!(
        (request.format, request.rows),
        (Some(Format::ShareGpt), Some(TextRows::Lines))
    );
    assert!(serde_json::from_value::<DataRequest>(json!({"path": "a"})).is_err());
}

/// A file of the shared real data, or a note that the test is skipped.
fn real(name: &str) -> Option<PathBuf> {
    let folder = match std::env::var_os("ANNEAL_SHARED_DATA") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/data"),
    };
    let path = folder.join(name);
    if !path.exists() {
        println!("skipped: no {}", path.display());
        return None;
    }
    Some(path)
}

#[test]
fn gsm8k_is_read_as_it_is() {
    let Some(path) = real("gsm8k/train.jsonl") else {
        return;
    };
    let request = DataRequest {
        paths: vec![path],
        ..plain()
    };
    let mut dataset = open(&request).unwrap();
    assert_eq!((dataset.rows.len(), dataset.problems.len()), (7473, 0));
    let tokenizer = Tokenizer::train(dataset.texts(), 2000).unwrap();
    let template = ChatTemplate::of(&tokenizer).unwrap();
    let encoded = encode(
        &dataset,
        &dataset.rows,
        &tokenizer,
        &template,
        Learn::Assistant,
        512,
    );
    assert_eq!(encoded.rows.len(), 7473);
    // The worked answers end in `#### number`; all of that and the end of the turn is learned.
    let row = &encoded.rows[0];
    let learned: Vec<u32> = (0..row.tokens.len())
        .filter(|&at| row.learned[at])
        .map(|at| row.tokens[at])
        .collect();
    let Example::Chat(messages) = &dataset.rows[0].example else {
        panic!("not a conversation");
    };
    assert_eq!(
        tokenizer.decode(&learned, true).unwrap(),
        format!("{}<|im_end|>", messages[1].content)
    );
    let parts = split(&mut dataset, 0.05, 1).unwrap();
    assert!(
        (300..450).contains(&parts.held_out.len()),
        "{}",
        parts.held_out.len()
    );
}

#[test]
fn trec_needs_its_encoding_named() {
    let Some(path) = real("trec/train.txt") else {
        return;
    };
    let request = |encoding: Option<&str>| DataRequest {
        paths: vec![path.clone()],
        encoding: encoding.map(str::to_owned),
        rows: Some(TextRows::Lines),
        ..plain()
    };
    let bytes = fs::read(&path).unwrap();
    let at = std::str::from_utf8(&bytes).unwrap_err().valid_up_to();
    let error = told(&open(&request(None)).unwrap_err());
    assert!(
        error.contains(&format!("not UTF-8 at byte {at}")) && error.contains("latin-1"),
        "{error}"
    );
    assert_eq!(open(&request(Some("latin-1"))).unwrap().rows.len(), 5452);
}

#[test]
fn shakespeare_is_a_stream_and_comes_back_from_its_tokens() {
    let Some(path) = real("shakespeare/input.txt") else {
        return;
    };
    let mut dataset = open(&DataRequest {
        paths: vec![path.clone()],
        ..plain()
    })
    .unwrap();
    assert!(dataset.is_stream);
    let tokenizer = Tokenizer::train(dataset.texts(), 1024).unwrap();
    let parts = split(&mut dataset, 0.1, 1).unwrap();
    let streams =
        [&parts.train, &parts.held_out].map(|rows| encode_stream(rows, &tokenizer).unwrap());
    let text: String = streams
        .iter()
        .map(|it| tokenizer.decode(&it.tokens, true).unwrap())
        .collect();
    assert!(text == fs::read_to_string(&path).unwrap());
    assert_eq!(
        streams.iter().map(|it| it.characters).sum::<usize>(),
        text.chars().count()
    );
}
