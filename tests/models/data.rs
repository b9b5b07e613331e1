//! Data: from files to rows.

use std::{fs, path::PathBuf};

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

/// Opens a file and expects its rows to say these things: turns as `role: words`, texts as they are.
#[track_caller]
fn check(name: &str, text: &str, request: DataRequest, format: Option<Format>, rows: &[&[&str]]) {
    let dataset = opened(name, text.as_bytes(), request).unwrap();
    assert_eq!(dataset.problems, []);
    assert_eq!(dataset.files[0].layout.as_ref().map(|it| it.format), format);
    let said: Vec<Vec<String>> = dataset.rows.iter().map(|row| said(&row.example)).collect();
    assert_eq!(said, rows);
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

/// Opens a file and expects problems, as `line: words`; the words need only begin so.
#[track_caller]
fn check_problems(name: &str, text: &str, good: usize, problems: &[&str]) {
    let dataset = opened(name, text.as_bytes(), DataRequest::default()).unwrap();
    let found: Vec<String> = dataset.problems.iter().map(ToString::to_string).collect();
    assert_eq!(found.len(), problems.len(), "{found:?}");
    for (found, expected) in found.iter().zip(problems) {
        assert!(
            found.starts_with(expected),
            "{found} does not begin with {expected}"
        );
    }
    assert_eq!(dataset.rows.len(), good);
    assert_eq!(dataset.check_problems(true).is_ok(), good > 0);
    assert!(dataset.check_problems(false).is_err());
}

/// Opens a file and expects an error that says all of this.
#[track_caller]
fn check_error(name: &str, bytes: &[u8], request: DataRequest, words: &[&str]) {
    let error = opened(name, bytes, request).unwrap_err().to_string();
    for word in words {
        assert!(error.contains(word), "`{word}` is not in: {error}");
    }
}

fn plain() -> DataRequest {
    DataRequest::default()
}

fn mapped(pairs: &[(&str, &str)]) -> DataRequest {
    DataRequest {
        columns: pairs
            .iter()
            .map(|(part, column)| (part.to_string(), column.to_string()))
            .collect(),
        ..plain()
    }
}

#[test]
fn every_layout_is_found_by_its_columns() {
    let messages = r#"{"id": 1, "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "Q"},
        {"role": "assistant", "content": [{"type": "text", "text": "A"}]}]}"#
        .replace('\n', "");
    check(
        "a.jsonl",
        &messages,
        plain(),
        Some(Format::Messages),
        &[&["system: S", "user: Q", "assistant: A"]],
    );
    let sharegpt = r#"{"system": "S", "conversations": [{"from": "human", "value": "Q"}, {"from": "gpt", "value": "A"}]}"#;
    check(
        "a.jsonl",
        sharegpt,
        plain(),
        Some(Format::ShareGpt),
        &[&["system: S", "user: Q", "assistant: A"]],
    );
    let pairs =
        "{\"prompt\": \"Q\", \"completion\": 42}\n\n{\"prompt\": \"R\", \"completion\": \"B\"}\n";
    check(
        "a.jsonl",
        pairs,
        plain(),
        Some(Format::PromptCompletion),
        &[&["user: Q", "assistant: 42"], &["user: R", "assistant: B"]],
    );
    let alpaca = r#"[{"instruction": "Q", "input": "", "output": "A"},
                     {"instruction": "Q", "input": "I", "output": "A"}]"#;
    check(
        "a.json",
        alpaca,
        plain(),
        Some(Format::Alpaca),
        &[
            &["user: Q", "assistant: A"],
            &["user: Q\n\nI", "assistant: A"],
        ],
    );
    check(
        "a.jsonl",
        r#"{"text": "T", "meta": {}}"#,
        plain(),
        Some(Format::Text),
        &[&["T"]],
    );
}

#[test]
fn tables_have_their_separator_and_quotes_understood() {
    let rows: &[&[&str]] = &[
        &["user: a, \"b\"\nc", "assistant: d"],
        &["user: e", "assistant: é"],
    ];
    let format = Some(Format::PromptCompletion);
    check(
        "a.csv",
        "prompt,completion\r\n\"a, \"\"b\"\"\r\nc\",d\r\ne,é\r\n",
        plain(),
        format,
        rows,
    );
    check(
        "a.csv",
        "\u{FEFF}prompt;completion\n\"a, \"\"b\"\"\nc\";d\ne;é",
        plain(),
        format,
        rows,
    );
    check(
        "a.tsv",
        "prompt\tcompletion\n\"a, \"\"b\"\"\nc\"\td\ne\té\n",
        plain(),
        format,
        rows,
    );
    let conversation = "messages\n\"[{\"\"role\"\": \"\"user\"\", \"\"content\"\": \"\"Q\"\"}, \
                        {\"\"role\"\": \"\"assistant\"\", \"\"content\"\": \"\"A\"\"}]\"\n";
    check(
        "a.csv",
        conversation,
        plain(),
        Some(Format::Messages),
        &[&["user: Q", "assistant: A"]],
    );
}

#[test]
fn a_mapping_says_which_column_is_what() {
    let row = r#"{"question": "Q", "answer": "A", "body": "T"}"#;
    let pair = mapped(&[("prompt", "question"), ("completion", "answer")]);
    check(
        "a.jsonl",
        row,
        pair,
        Some(Format::PromptCompletion),
        &[&["user: Q", "assistant: A"]],
    );
    check(
        "a.jsonl",
        row,
        mapped(&[("text", "body")]),
        Some(Format::Text),
        &[&["T"]],
    );
    let half = r#"{"question": "Q", "completion": "A"}"#;
    let prompt = mapped(&[("prompt", "question")]);
    check(
        "a.jsonl",
        half,
        prompt,
        Some(Format::PromptCompletion),
        &[&["user: Q", "assistant: A"]],
    );
    check_error(
        "a.jsonl",
        row.as_bytes(),
        mapped(&[("prompt", "missing")]),
        &["`missing`", "`question`, `answer`"],
    );
    check_error(
        "a.jsonl",
        row.as_bytes(),
        mapped(&[("anwser", "answer")]),
        &["data.columns.anwser", "completion"],
    );
}

#[test]
fn unknown_columns_are_listed_with_a_mapping_to_try() {
    let row = br#"{"problem": "Q", "solution": "A"}"#;
    check_error(
        "a.jsonl",
        row,
        plain(),
        &[
            "`problem` and `solution`",
            "columns: {prompt: problem, completion: solution}",
            "a.jsonl",
        ],
    );
    check_error(
        "a.csv",
        b"body,date\nx,y\n",
        plain(),
        &["columns: {text: body}"],
    );
    let asked = DataRequest {
        format: Some(Format::Alpaca),
        ..plain()
    };
    check_error(
        "a.jsonl",
        br#"{"text": "T"}"#,
        asked,
        &["`alpaca`", "`instruction` and `output`"],
    );
}

#[test]
fn what_was_found_is_said_with_what_is_not_used() {
    let dataset = opened(
        "a.jsonl",
        br#"{"prompt": "Q", "completion": "A", "id": 7}"#,
        plain(),
    )
    .unwrap();
    let reason = &dataset.files[0].reason;
    for word in [
        "`prompt_completion`",
        "`completion` and `prompt`",
        "not used: `id`",
    ] {
        assert!(reason.contains(word), "{reason}");
    }
}

#[test]
fn a_bad_row_is_reported_with_its_line_field_and_reason() {
    check_problems(
        "a.jsonl",
        "{\"prompt\": \"Q\", \"completion\": \"A\"}\n\
         {\"prompt\": \"Q\"\n\
         {\"prompt\": \"Q\"}\n\
         \n\
         {\"prompt\": \" \", \"completion\": \"A\"}\n\
         {\"prompt\": \"Q\", \"completion\": {}}\n\
         [1]\n",
        1,
        &[
            "line 2: is not JSON: EOF",
            "line 3: `completion` is missing",
            "line 5: `prompt` is empty",
            "line 6: `completion` is an object, not text",
            "line 7: is a list, not an object",
        ],
    );
    check_problems(
        "a.json",
        "[\n{\"text\": \"\"},\n\n{\"text\":\n\"T\"}, {\"text\": null},\n7]",
        1,
        &[
            "line 2: `text` is empty",
            "line 5: `text` is missing",
            "line 6: is a number",
        ],
    );
    check_problems(
        "a.csv",
        "text,id\n\"a\nb\",1\nc\n,2\n",
        1,
        &["line 4: has 1 values", "line 5: `text` is empty"],
    );
}

#[test]
fn a_bad_turn_is_reported_with_its_number() {
    let row = |turns: &str| format!("{{\"messages\": {turns}}}\n");
    let text = [
        row(r#"[{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A", "tool_calls": null}]"#),
        row(r#"[{"role": "user", "content": "Q"}, {"role": "narrator", "content": "A"}]"#),
        row(r#"[{"role": "user", "content": "Q"}, {"role": "assistant", "content": ""}]"#),
        row(r#"[{"role": "user", "content": "Q"}]"#),
        row(r#"[{"role": "user", "content": [{"type": "image"}]}, {"role": "assistant", "content": "A"}]"#),
        row("[]"),
    ]
    .concat();
    check_problems(
        "a.jsonl",
        &text,
        1,
        &[
            "line 2: `messages` turn 2 has the unknown role `narrator`",
            "line 3: `messages` turn 2 of the assistant is empty",
            "line 4: `messages` has no turn of the assistant",
            "line 5: `messages` turn 1 has a part of type `image`",
            "line 6: `messages` is empty",
        ],
    );
}

#[test]
fn a_file_that_breaks_off_or_is_empty_is_an_error() {
    check_error(
        "a.json",
        b"[{\"text\": \"T\"},\n{\"text\": ",
        plain(),
        &["breaks off at line 2"],
    );
    check_error(
        "a.json",
        b"[{\"text\": \"T\"}] {}",
        plain(),
        &["something follows"],
    );
    check_error("a.jsonl", b"", plain(), &["empty"]);
    check_error("a.txt", b" \r\n", plain(), &["empty"]);
    check_error(
        "a.jsonl",
        b"one\ntwo\n",
        plain(),
        &["no row can be read", "line 1"],
    );
    check_error("a.csv", b"prompt,completion\n", plain(), &["no rows"]);
    check_error("a.parquet", b"PAR1....", plain(), &["Parquet"]);
}

#[test]
fn text_that_is_not_utf_8_is_an_error_with_its_byte_until_the_encoding_is_named() {
    let latin = b"plain\ncaf\xe9\n";
    check_error(
        "a.txt",
        latin,
        plain(),
        &["byte 9", "0xE9", "line 2", "encoding: latin-1"],
    );
    let named = |label: &str| DataRequest {
        encoding: Some(label.to_owned()),
        ..plain()
    };
    for label in ["latin-1", "latin1", "ISO-8859-1", "windows-1252"] {
        let dataset = opened("a.txt", latin, named(label)).unwrap();
        assert_eq!(said(&dataset.rows[0].example), ["plain\ncafé\n"]);
    }
    check_error(
        "a.txt",
        latin,
        named("klingon"),
        &["data.encoding", "klingon"],
    );
    check_error("a.txt", latin, named("utf-8"), &["byte 9"]);
    check_error("a.txt", b"\xff\xfea\0", plain(), &["utf-16le"]);
    let wide = opened("a.txt", b"\xff\xfea\0\r\0\n\0", named("utf-16le")).unwrap();
    assert_eq!(said(&wide.rows[0].example), ["a\n"]);
}

#[test]
fn plain_text_is_a_stream_unless_rows_are_asked_for() {
    let text = "one\ntwo\n\n\nthree\n";
    let asked = |rows| DataRequest {
        rows: Some(rows),
        ..plain()
    };
    check("a.txt", text, plain(), None, &[&[text]]);
    check(
        "a.txt",
        text,
        asked(TextRows::Lines),
        None,
        &[&["one"], &["two"], &["three"]],
    );
    check(
        "a.txt",
        text,
        asked(TextRows::Paragraphs),
        None,
        &[&["one\ntwo"], &["three"]],
    );
    let lines: Vec<u32> = opened("a.txt", text.as_bytes(), asked(TextRows::Paragraphs))
        .unwrap()
        .rows
        .iter()
        .map(|row| row.line)
        .collect();
    assert_eq!(lines, [1, 5]);
    assert!(opened("a.txt", text.as_bytes(), plain()).unwrap().is_stream);
    check_error(
        "a.txt",
        text.as_bytes(),
        mapped(&[("text", "body")]),
        &["plain text", "no columns"],
    );
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
    let error = open(&request(None)).unwrap_err().to_string();
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
