//! Columns that are found without being named.

use models::data::{DataRequest, format::Format, row::Example};
use serde_json::{Value, json};

use crate::data::opened;

/// Opens one row and expects the turns it is read as, and how that is said.
#[track_caller]
fn check(row: Value, turns: &[&str], said: &str) {
    let text = row.to_string();
    let dataset = opened("a.jsonl", text.as_bytes(), DataRequest::default()).unwrap();
    assert_eq!(dataset.problems, []);
    let Example::Chat(messages) = &dataset.rows[0].example else {
        panic!("not a conversation: {text}");
    };
    let found: Vec<String> = messages
        .iter()
        .map(|it| format!("{}: {}", it.role.name(), it.content))
        .collect();
    assert_eq!(found, turns, "{text}");
    let layout = dataset.files[0].layout.as_ref().unwrap();
    assert_eq!(layout.reason, said);
}

#[test]
fn names_that_say_what_they_are_need_no_mapping() {
    let turns = ["user: Q", "assistant: A"];
    for (prompt, completion) in [
        ("question", "answer"),
        ("query", "response"),
        ("instruction", "response"),
        ("input", "output"),
        ("Question", "Answer"),
    ] {
        check(
            json!({"id": 7, prompt: "Q", completion: "A"}),
            &turns,
            &format!(
                "conversations in the layout `prompt_completion`, read with `{prompt}` as the prompt and \
                 `{completion}` as the completion; not used: `id`"
            ),
        );
    }
}

#[test]
fn a_context_stands_before_the_question() {
    check(
        json!({"question": "Q", "context": "C", "answer": "A"}),
        &["user: C\n\nQ", "assistant: A"],
        "conversations in the layout `prompt_completion`, read with `context` as the context before the prompt, \
         `question` as the prompt and `answer` as the completion",
    );
    // Empty in many rows of such data.
    check(
        json!({"system": "S", "instruction": "Q", "context": "", "response": "A", "category": "x"}),
        &["system: S", "user: Q", "assistant: A"],
        "conversations in the layout `prompt_completion`, read with `system` as the system prompt, `context` as the \
         context before the prompt, `instruction` as the prompt and `response` as the completion; not used: `category`",
    );
    check(
        json!({"instruction": "Q", "input": "I", "response": "A"}),
        &["user: Q\n\nI", "assistant: A"],
        "conversations in the layout `alpaca`, read with `instruction` as the prompt, `input` as the text below the \
         prompt and `response` as the completion",
    );
}

#[test]
fn a_context_beside_prompt_and_completion_is_used_when_it_is_asked_for() {
    let row = json!({"prompt": "Q", "completion": "A", "context": "C"});
    check(
        row.clone(),
        &["user: Q", "assistant: A"],
        "conversations in the layout `prompt_completion`, because there are columns `completion` and `prompt`; not \
         used: `context`",
    );
    let request = DataRequest {
        columns: [("context".to_owned(), "context".to_owned())].into(),
        ..DataRequest::default()
    };
    let dataset = opened("a.jsonl", row.to_string().as_bytes(), request).unwrap();
    let Example::Chat(messages) = &dataset.rows[0].example else {
        panic!("not a conversation");
    };
    assert_eq!(messages[0].content, "C\n\nQ");
}

#[test]
fn columns_that_could_be_two_pairs_are_not_guessed() {
    for row in [
        json!({"question": "Q", "answer": "A", "input": "I", "output": "O"}),
        json!({"question": "Q", "answer": "A", "query": "Q", "response": "O"}),
        json!({"question": "Q", "response": "A"}),
    ] {
        let text = row.to_string();
        let error = opened("a.jsonl", text.as_bytes(), DataRequest::default()).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("none of the layouts known"), "{error}");
    }
}

#[test]
fn a_layout_of_its_own_names_comes_before_a_pair() {
    let row = json!({"text": "T", "question": "Q", "answer": "A"}).to_string();
    let dataset = opened("a.jsonl", row.as_bytes(), DataRequest::default()).unwrap();
    assert_eq!(
        dataset.files[0].layout.as_ref().unwrap().format,
        Format::Text
    );
}
