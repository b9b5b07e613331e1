//! Rows to tokens: chat templates, which tokens are learned, and what is cut.

use std::{collections::BTreeMap, fs, path::Path};

use models::data::{
    DataRequest,
    encode::{Encoded, Learn, TokenRow, encode, encode_chat},
    marks::Marks,
    outline::Outline,
    row::{Message, Role},
    summary::{LengthSummary, preview},
    template::{CHAT_ML, ChatTemplate, TemplateOrigin},
    tokenizer::Tokenizer,
};
use serde::Deserialize;
use serde_json::json;

use crate::data::opened;

pub(crate) fn tokenizer() -> Tokenizer {
    let texts =
        ["What is 2 and 2? It is 4. The answer of the assistant, the words of the user."; 3];
    Tokenizer::train(texts.into_iter(), 330).unwrap()
}

/// Rows of JSON, and what they are as tokens.
fn encoded(text: &str, template: &ChatTemplate, learn: Learn, length: usize) -> Encoded {
    let dataset = opened("a.jsonl", text.as_bytes(), DataRequest::default()).unwrap();
    encode(
        &dataset,
        &dataset.rows,
        &tokenizer(),
        template,
        learn,
        length,
    )
}

/// Lines of JSON: questions and answers.
fn talks(talks: &[(&str, &str)]) -> String {
    let rows = talks.iter().map(|(prompt, completion)| {
        json!({"prompt": prompt, "completion": completion}).to_string()
    });
    rows.collect::<Vec<_>>().join("\n")
}

/// The text of a conversation with the learned part in ⟦brackets⟧, one for each row it gives.
pub(crate) fn marked(template: &str, messages: &[(Role, &str)]) -> Vec<String> {
    marked_by(&tokenizer(), template, messages)
}

/// The same with another tokenizer.
fn marked_by(tokenizer: &Tokenizer, template: &str, messages: &[(Role, &str)]) -> Vec<String> {
    let template = ChatTemplate::from_source(template, tokenizer).unwrap();
    let messages: Vec<Message> = messages
        .iter()
        .map(|(role, words)| Message::new(*role, *words))
        .collect();
    let rows = encode_chat(&messages, tokenizer, &template, Learn::Assistant, 1000).unwrap();
    let show = |row: &TokenRow| {
        let segments = preview(row, tokenizer).unwrap();
        segments
            .into_iter()
            .map(|it| {
                if it.learned {
                    format!("⟦{}⟧", it.text)
                } else {
                    it.text
                }
            })
            .collect()
    };
    rows.iter().map(show).collect()
}

const TALK: [(Role, &str); 5] = [
    (Role::System, "S"),
    (Role::User, "Hi."),
    (Role::Assistant, " Hello?\n"),
    (Role::User, "Hi."),
    (Role::Assistant, "Hi."),
];

#[test]
fn every_turn_of_the_assistant_is_learned_to_its_end_token() {
    let expected = "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nHi.<|im_end|>\n\
                    <|im_start|>assistant\n⟦ Hello?\n<|im_end|>⟧\n<|im_start|>user\nHi.<|im_end|>\n\
                    <|im_start|>assistant\n⟦Hi.<|im_end|>⟧\n";
    assert_eq!(marked(CHAT_ML, &TALK), [expected]);
    // The same without generation blocks is found from prefixes.
    let without = CHAT_ML
        .replace("{% generation %}", "")
        .replace("{% endgeneration %}", "");
    assert_eq!(marked(&without, &TALK), [expected]);
    // A block that leaves the end token out gets it, and white space around blocks is trimmed as without marks.
    let short = "{% for m in messages %}<|im_start|>{{ m.role }}\n\
                 {% if m.role == 'assistant' %}\n  {%- generation -%}\n  {{ m.content }}\n  {% endgeneration %}\n\
                 {% else %}{{ m.content }}{% endif %}<|im_end|>\n{% endfor %}";
    assert_eq!(
        marked(short, &TALK[3..]),
        ["<|im_start|>user\nHi.<|im_end|>\n<|im_start|>assistant\n⟦Hi.\n<|im_end|>⟧\n"]
    );
}

#[test]
fn templates_without_end_tokens_and_with_trimmed_words_are_understood() {
    let words = "{% for m in messages %}{{ m.role }}: {{ m.content.strip() }}\n\n{% endfor %}\
                 {% if add_generation_prompt %}assistant:{% endif %}";
    assert_eq!(
        marked(words, &TALK[1..]),
        ["user: Hi.\n\nassistant:⟦ Hello?\n\n⟧user: Hi.\n\nassistant:⟦ Hi.\n\n⟧"]
    );
    let template = ChatTemplate::from_source(words, &tokenizer()).unwrap();
    assert_eq!(
        (template.turn_end.token, template.turn_end.text),
        (None, None)
    );
}

#[test]
fn a_template_that_rewrites_the_past_gives_a_row_for_each_turn() {
    let forgets = "{% for m in messages %}<|im_start|>{{ m.role }}\n\
                   {% if m.role == 'assistant' and loop.last %}<think></think>{% endif %}\
                   {{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
    assert_eq!(
        marked(forgets, &TALK[1..]),
        [
            "<|im_start|>user\nHi.<|im_end|>\n<|im_start|>assistant\n⟦<think></think> Hello?\n<|im_end|>⟧\n",
            "<|im_start|>user\nHi.<|im_end|>\n<|im_start|>assistant\n Hello?\n<|im_end|>\n\
             <|im_start|>user\nHi.<|im_end|>\n<|im_start|>assistant\n⟦<think></think>Hi.<|im_end|>⟧\n"
        ]
    );
    // A prompt that begins the turn with words a finished turn does not have.
    let thinks = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}\
                  {% if add_generation_prompt %}<|im_start|>assistant\n<think>{% endif %}";
    assert_eq!(
        marked(thinks, &[(Role::User, "Hi."), (Role::Assistant, "<b>")]),
        ["<|im_start|>user\nHi.<|im_end|>\n<|im_start|>assistant\n⟦<b><|im_end|>⟧\n"]
    );
}

#[test]
fn a_conversation_the_template_refuses_is_a_problem_with_its_line() {
    let refuses = "{% if messages[0].role == 'system' %}{{ raise_exception('no system here') }}{% endif %}{{ messages }}";
    let template = ChatTemplate::from_source(refuses, &tokenizer()).unwrap();
    let row = r#"{"system": "S", "prompt": "Q", "completion": "A"}"#;
    let encoded = encoded(row, &template, Learn::Assistant, 100);
    assert_eq!(encoded.rows.len(), 0);
    let problem = encoded.problems[0].to_string();
    assert!(
        problem.starts_with("line 1:") && problem.contains("no system here"),
        "{problem}"
    );
}

#[test]
fn pairs_of_marks_stand_around_turns_and_are_found_in_a_vocabulary() {
    let expected = "<|system|>S<|endsystem|><|sep|><|user|>Hi.<|enduser|><|sep|><|assistant|>⟦ Hello?\n<|endassistant|>⟧<|sep|>\
                    <|user|>Hi.<|enduser|><|sep|><|assistant|>⟦Hi.<|endassistant|>⟧<|endoftext|>";
    let texts = ["What is 2 and 2? It is 4."; 3].into_iter();
    let tokenizer = Tokenizer::train_with(texts, 280, Marks::Pairs).unwrap();
    let folder = tempfile::tempdir().unwrap();
    tokenizer.save(folder.path(), None).unwrap();
    let loaded = Tokenizer::load(folder.path()).unwrap();
    let shown = marked_by(&loaded, Marks::Pairs.template(), &TALK);
    assert_eq!(shown, [expected]);
    assert_eq!(loaded.special.pad, loaded.token_id("<|pad|>").unwrap());
    let template = ChatTemplate::of(&loaded).unwrap();
    assert_eq!(template.origin, TemplateOrigin::Marks);
    assert_eq!(template.turn_end.token, loaded.token_id("<|endassistant|>"));
    let asked = template.prompt(&[Message::new(Role::User, "Hi.")]).unwrap();
    assert_eq!(asked, "<|user|>Hi.<|enduser|><|sep|><|assistant|>");
    // One token for each mark, and none of them in what a person reads.
    let tokens = loaded.encode(&asked, false).unwrap();
    assert_eq!(loaded.decode(&tokens, false).unwrap(), "Hi.");
}

#[test]
fn a_checkpoint_without_a_template_gets_chat_ml_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    tokenizer().save(folder.path(), None).unwrap();
    let template = || ChatTemplate::of(&Tokenizer::load(folder.path()).unwrap()).unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    assert_eq!(template().origin, TemplateOrigin::ChatMl);
    let reason = template().reason;
    assert!(reason.starts_with("ChatML (default)"), "{reason}");

    let named = json!({"chat_template": [{"name": "tools", "template": "T"}, {"name": "default", "template": "D"}]});
    write("tokenizer_config.json", &named.to_string());
    assert_eq!(template().origin, TemplateOrigin::TokenizerConfig);
    assert_eq!(template().source, "D");

    write("chat_template.jinja", "{{ 'F' }}");
    assert_eq!(template().origin, TemplateOrigin::File);
    assert_eq!(template().prompt(&[]).unwrap(), "F");
}

#[test]
fn long_rows_are_cut_and_counted_and_a_row_that_loses_everything_is_reported() {
    let template = ChatTemplate::of(&tokenizer()).unwrap();
    let long = "ab".repeat(100);
    let text = talks(&[("Q", "A"), ("Q", &long), (&long, "A")]);
    let some = encoded(&text, &template, Learn::Assistant, 60);
    assert_eq!((some.rows.len(), some.truncated), (2, 2));
    let cut_away = some.cut_away[0].to_string();
    assert!(cut_away.starts_with("line 3: has "), "{cut_away}");
    assert_eq!(some.rows[1].tokens.len(), 60);
    assert_eq!(LengthSummary::new(&some.rows).truncated, 1);
    let all = encoded(&text, &template, Learn::All, 60);
    assert!(all.problems.is_empty() && all.rows.iter().all(|row| row.learned.iter().all(|&it| it)));
}

#[test]
fn an_outline_says_of_every_length_what_making_tokens_for_it_says() {
    let tokenizer = tokenizer();
    let template = ChatTemplate::of(&tokenizer).unwrap();
    let long = "ab".repeat(20);
    let text = talks(&[("Q", "A"), ("Q", &long), (&long, "A")]);
    let dataset = opened("a.jsonl", text.as_bytes(), DataRequest::default()).unwrap();
    let rows = &dataset.rows;
    let mut cut_away = 0;
    for learn in [Learn::Assistant, Learn::All] {
        let outline = Outline::new(rows, &tokenizer, &template, learn);
        for length in (0..100).chain([usize::MAX]) {
            let encoded = encode(&dataset, rows, &tokenizer, &template, learn, length);
            let found = outline.left_out(&dataset, rows, length);
            cut_away += found.cut_away.len();
            assert_eq!(
                (found.problems, found.cut_away),
                (encoded.problems, encoded.cut_away),
                "{learn:?}, cut at {length}"
            );
        }
    }
    assert!(cut_away > 50, "{cut_away}");
}

#[test]
fn a_text_row_ends_with_the_end_token() {
    let tokenizer = tokenizer();
    let template = ChatTemplate::of(&tokenizer).unwrap();
    let row = &encoded(r#"{"text": "words"}"#, &template, Learn::Assistant, 60).rows[0];
    assert_eq!(row.tokens.last().copied(), tokenizer.special.end);
    assert!(row.learned.iter().all(|&it| it));
}

/// Templates, and what transformers made of them.
#[derive(Deserialize)]
struct Golden {
    conversations: BTreeMap<String, Vec<Message>>,
    templates: Vec<GoldenTemplate>,
}

#[derive(Deserialize)]
struct GoldenTemplate {
    name: String,
    template: String,
    bos_token: Option<String>,
    eos_token: Option<String>,
    rendered: Vec<GoldenText>,
}

#[derive(Deserialize)]
struct GoldenText {
    conversation: String,
    add_generation_prompt: bool,
    text: Option<String>,
    /// Where the template's own blocks mark the assistant's words, in characters.
    assistant_character_spans: Option<Vec<(usize, usize)>>,
}

#[test]
fn templates_render_what_transformers_renders_with_the_same_parts_learned() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/goldens/chat_templates/golden.json");
    let golden: Golden = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let mut blocks = 0;
    for template in &golden.templates {
        let folder = tempfile::tempdir().unwrap();
        tokenizer().save(folder.path(), None).unwrap();
        let config = json!({
            "chat_template": template.template, "bos_token": template.bos_token, "eos_token": template.eos_token
        });
        fs::write(
            folder.path().join("tokenizer_config.json"),
            config.to_string(),
        )
        .unwrap();
        let compiled = ChatTemplate::of(&Tokenizer::load(folder.path()).unwrap()).unwrap();
        for expected in &template.rendered {
            let case = format!("{}, {}", template.name, expected.conversation);
            let messages = &golden.conversations[&expected.conversation];
            let text = match expected.add_generation_prompt {
                true => compiled.prompt(messages),
                false => compiled.text(messages),
            };
            assert_eq!(text.as_ref().ok(), expected.text.as_ref(), "{case}");
            let Some(text) = text.ok().filter(|_| !expected.add_generation_prompt) else {
                continue;
            };
            let rows = compiled
                .render(messages)
                .unwrap_or_else(|error| panic!("{case}: {error}"));
            let turns: Vec<&Message> = messages
                .iter()
                .filter(|it| it.role == Role::Assistant)
                .collect();
            let parts: Vec<&str> = rows
                .iter()
                .flat_map(|row| row.learned.iter().map(|part| &row.text[part.clone()]))
                .collect();
            assert_eq!(parts.len(), turns.len(), "{case}");
            if let Some(spans) = &expected.assistant_character_spans {
                let letters: Vec<char> = text.chars().collect();
                let marked: Vec<String> = spans
                    .iter()
                    .map(|&(from, to)| letters[from..to].iter().collect())
                    .collect();
                assert_eq!(parts, marked, "{case}");
                blocks += 1;
                continue;
            }
            for (part, turn) in parts.iter().zip(turns) {
                let words = turn.content.trim();
                assert!(
                    part.trim_start().starts_with(words),
                    "{case}: {part:?} does not begin with {words:?}"
                );
                assert!(
                    part.len() < words.len() + 30,
                    "{case}: {part:?} has more than {words:?}"
                );
            }
        }
    }
    assert!(blocks > 0 && golden.templates.len() > 4);
}

#[test]
fn a_pointer_where_a_tokenizer_was_wanted_is_called_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 9085657\n";
    fs::write(folder.path().join("tokenizer.json"), pointer).unwrap();
    let error = Tokenizer::load(folder.path()).unwrap_err().to_string();
    assert!(error.contains("is a pointer of Git LFS"), "{error}");
}
