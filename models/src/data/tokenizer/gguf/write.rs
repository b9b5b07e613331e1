//! What a GGUF file says of a tokenizer.
//!
//! How text is cut is found from the steps of `tokenizer.json`. A tokenizer that llama.cpp would apply otherwise is refused.

use std::collections::HashMap;

use serde_json::{Value as Json, json};

use super::{BYTE, CONTROL, CUTS, Cut, NORMAL, TEMPLATE_KEY, UNKNOWN, UNUSED, USER_DEFINED};
use crate::{
    Error, Result,
    data::tokenizer::Tokenizer,
    figures::counted,
    gguf::{Key, Value},
};

impl Tokenizer {
    /// The keys of a GGUF file that say what this tokenizer is, for a table of `rows` tokens, with the tokens that end an answer, and a
    /// chat template if there is one.
    ///
    /// Errors: [`Error::Data`] with what llama.cpp can’t be told of it.
    pub fn gguf_keys(&self, rows: usize, stop: &[u32], template: Option<&str>) -> Result<Vec<Key>> {
        keys(self, rows, stop, template)
    }
}

fn keys(
    tokenizer: &Tokenizer,
    rows: usize,
    stop: &[u32],
    template: Option<&str>,
) -> Result<Vec<Key>> {
    let text = tokenizer.library.to_string(false);
    let text = text.map_err(|error| cant(&format!("what it is: {error}")))?;
    let json: Json = serde_json::from_str(&text).map_err(|error| cant(&error.to_string()))?;
    let model = &json["model"];
    if model["type"] != "BPE" {
        return Err(cant(&format!("that it is of the kind {}", model["type"])));
    }
    let merges = merges(model)?;
    let tokens = Tokens::of(&json, rows)?;
    let mut keys: Vec<Key> = Vec::new();
    let mut put = |name: &str, value| keys.push((format!("tokenizer.ggml.{name}"), value));
    if model["byte_fallback"] == true {
        put("model", Value::from("llama"));
        put("pre", Value::from("default"));
        put("add_space_prefix", Value::Bool(adds_blank(&json)?));
        put("scores", Value::F32s(scores(&tokens.texts, &merges)));
    } else {
        put("model", Value::from("gpt2"));
        put("pre", Value::from(cut_of(&json)?));
        let merges = merges.iter().map(|(left, right)| format!("{left} {right}"));
        put("merges", Value::Texts(merges.collect()));
    }
    put("tokens", Value::Texts(tokens.texts));
    put("token_type", Value::I32s(tokens.kinds));
    named(tokenizer, &json, stop, put)?;
    if let Some(template) = template {
        keys.push((TEMPLATE_KEY.to_owned(), Value::from(template)));
    }
    Ok(keys)
}

fn cant(what: &str) -> Error {
    Error::Data(format!(
        "llama.cpp can’t use this tokenizer: it has no way to say {what}; export the merged model for Transformers"
    ))
}

/// The tokens with a meaning of their own, and those around a text.
fn named(
    tokenizer: &Tokenizer,
    json: &Json,
    stop: &[u32],
    mut put: impl FnMut(&str, Value),
) -> Result<()> {
    let special = &tokenizer.special;
    let (before, after) = tokenizer.frame()?;
    if before.len() > 1 || after.len() > 1 {
        let around = before.len() + after.len();
        let around = counted(around as u64, "token");
        return Err(cant(&format!("that {around} stand around a text")));
    }
    let begin = before.first().copied().or(special.begin);
    let end = after.first().copied().or(special.end);
    let mut others = stop.iter().copied().filter(|it| Some(*it) != end);
    let unknown = json["model"]["unk_token"].as_str();
    let unknown = unknown.and_then(|it| tokenizer.token_id(it));
    for (name, token) in [
        ("bos", begin),
        ("eos", end),
        ("eot", others.next()),
        ("eom", others.next()),
        ("unknown", unknown),
        ("padding", Some(special.pad)),
    ] {
        if let Some(token) = token {
            put(&format!("{name}_token_id"), Value::U32(token));
        }
    }
    put("add_bos_token", Value::Bool(!before.is_empty()));
    put("add_eos_token", Value::Bool(!after.is_empty()));
    Ok(())
}

/// Every token by its number, with its kind.
struct Tokens {
    texts: Vec<String>,
    kinds: Vec<i32>,
}

impl Tokens {
    fn of(json: &Json, rows: usize) -> Result<Self> {
        let mut all: Vec<Option<(&str, i64)>> = vec![None; rows];
        let mut put = |id: &Json, text, kind| {
            let id = id.as_u64().and_then(|id| usize::try_from(id).ok());
            let place = id.and_then(|id| all.get_mut(id)).ok_or_else(|| {
                let rows = counted(rows as u64, "row");
                let problem = format!("the tokenizer has tokens beyond the table of {rows}");
                Error::Data(problem)
            })?;
            *place = Some((text, kind));
            Ok::<_, Error>(())
        };
        let model = &json["model"];
        let is_sentence_piece = model["byte_fallback"] == true;
        for (text, id) in model["vocab"].as_object().into_iter().flatten() {
            let kind = match model["unk_token"] == **text {
                true => UNKNOWN,
                false if is_sentence_piece && is_byte(text) => BYTE,
                false => NORMAL,
            };
            put(id, text, kind)?;
        }
        for added in json["added_tokens"].as_array().into_iter().flatten() {
            let text = added["content"].as_str().unwrap_or_default();
            if ["lstrip", "rstrip", "single_word"]
                .iter()
                .any(|it| added[*it] == true)
            {
                return Err(cant(&format!(
                    "that the token `{text}` takes blanks beside it"
                )));
            }
            let kind = match added["special"] == true || looks_special(text) {
                _ if model["unk_token"] == text => UNKNOWN,
                true => CONTROL,
                false => USER_DEFINED,
            };
            put(&added["id"], text, kind)?;
        }
        let padded = all.into_iter().enumerate().map(|(id, token)| match token {
            Some((text, kind)) => (text.to_owned(), kind as i32),
            None => (format!("[PAD{id}]"), UNUSED as i32),
        });
        let (texts, kinds): (Vec<String>, Vec<i32>) = padded.unzip();
        let mut sorted: Vec<&String> = texts.iter().collect();
        sorted.sort_unstable();
        match sorted.windows(2).find(|two| two[0] == two[1]) {
            Some(two) => Err(cant(&format!("that two tokens are spelled `{}`", two[0]))),
            None => Ok(Self { texts, kinds }),
        }
    }
}

/// Whether a token stands for one byte: `<0x0A>`.
fn is_byte(text: &str) -> bool {
    let digits = text.strip_prefix("<0x").and_then(|it| it.strip_suffix('>'));
    digits.is_some_and(|it| it.len() == 2 && u8::from_str_radix(it, 16).is_ok())
}

/// Whether a token has the form of those that programs write, although it is not marked as one.
fn looks_special(text: &str) -> bool {
    let is_between = |start: &str, end: &str| text.starts_with(start) && text.ends_with(end);
    is_between("<|", "|>") || is_between("<unused", ">") || matches!(text, "<pad>" | "<mask>")
}

/// The merges, which are texts or pairs.
fn merges(model: &Json) -> Result<Vec<(&str, &str)>> {
    let two = |merge| two_of(merge).ok_or_else(|| cant("one of its merges"));
    let merges = model["merges"].as_array().into_iter().flatten();
    merges.map(two).collect()
}

fn two_of(merge: &Json) -> Option<(&str, &str)> {
    match merge {
        Json::String(text) => text.split_once(' '),
        _ => Some((merge[0].as_str()?, merge[1].as_str()?)),
    }
}

/// What the way text is cut is called.
fn cut_of(json: &Json) -> Result<&'static str> {
    let found = steps(&json["pre_tokenizer"], "pretokenizers");
    let normalizers = steps(&json["normalizer"], "normalizers");
    let takes_words = json["model"]["ignore_merges"] == true;
    let is_it = |cut: Cut| {
        let is_cut = cut
            .steps()
            .iter()
            .map(meaning)
            .eq(found.iter().map(|it| meaning(it)));
        let is_normalized = steps(&cut.normalizer(), "normalizers") == normalizers;
        is_cut && is_normalized && cut.takes_words() == takes_words
    };
    let known = CUTS.iter().find(|(_, cut)| is_it(*cut));
    known.map(|it| it.0).ok_or_else(|| {
        let steps = json!([normalizers, found]);
        cant(&format!("how it cuts text, which is by {steps}"))
    })
}

/// The steps of a part of `tokenizer.json`, which may be one, or a list of them.
fn steps<'a>(part: &'a Json, list: &str) -> Vec<&'a Json> {
    match part[list].as_array() {
        Some(inner) => inner.iter().flat_map(|it| steps(it, list)).collect(),
        None if part.is_null() => Vec::new(),
        None => vec![part],
    }
}

/// What of a step changes tokens.
fn meaning(step: &Json) -> Json {
    let flag = |name: &str, otherwise: bool| step[name].as_bool().unwrap_or(otherwise);
    match step["type"].as_str() {
        Some("ByteLevel") => {
            json!([
                "bytes",
                flag("use_regex", true),
                flag("add_prefix_space", true)
            ])
        }
        Some("Digits") => json!(["digits", flag("individual_digits", false)]),
        _ => step.clone(),
    }
}

/// Whether a blank is put before a text whose blanks are written as ▁.
fn adds_blank(json: &Json) -> Result<bool> {
    let (mut adds, mut replaces) = (false, false);
    for step in steps(&json["normalizer"], "normalizers") {
        match step["type"].as_str() {
            Some("Prepend") if step["prepend"] == "▁" => adds = true,
            Some("Replace") if step["pattern"]["String"] == " " && step["content"] == "▁" => {
                replaces = true;
            }
            _ => return Err(cant(&format!("that it changes text by {step}"))),
        }
    }
    for step in steps(&json["pre_tokenizer"], "pretokenizers") {
        match step["type"].as_str() {
            Some("Metaspace") if step["split"] == false && step["prepend_scheme"] != "first" => {
                replaces = true;
                adds |= step["prepend_scheme"] != "never";
            }
            // There is no blank left to cut at.
            Some("Split") if replaces && step["pattern"]["String"] == " " => {}
            _ => return Err(cant(&format!("that it cuts text by {step}"))),
        }
    }
    match replaces {
        true => Ok(adds),
        false => Err(cant("that blanks stay blanks")),
    }
}

/// A number for each token: the sooner a merge makes it, the higher.
fn scores(tokens: &[String], merges: &[(&str, &str)]) -> Vec<f32> {
    let mut ranks = HashMap::new();
    for (rank, (left, right)) in merges.iter().enumerate() {
        ranks.entry(format!("{left}{right}")).or_insert(rank);
    }
    let score = |token: &String| ranks.get(token).map_or(NEVER_MADE, |rank| -(*rank as f32));
    tokens.iter().map(score).collect()
}

/// The score of a token that no merge makes.
const NEVER_MADE: f32 = -1e9;
