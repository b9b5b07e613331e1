//! The library's tokenizer, with its panics as errors: parts of it trust the file that they were made from.

use std::{ops::Deref, sync::Arc};

use serde_json::Value;
use tokenizers::{EncodeInput, Encoding, Result};

use crate::{caught, limits};

/// A tokenizer of the library. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Library(Arc<tokenizers::Tokenizer>);

impl Library {
    pub(super) fn new(library: tokenizers::Tokenizer) -> Self {
        Self(Arc::new(library))
    }

    /// Reads a tokenizer from the bytes of `tokenizer.json`.
    pub(super) fn read(bytes: Vec<u8>) -> Result<tokenizers::Tokenizer> {
        // Said here in one sentence, where the library tries one kind of each part after another.
        let parts: Value = serde_json::from_slice(&bytes)?;
        for part in ["normalizer", "pre_tokenizer", "decoder"] {
            let growth = growth(&parts[part]);
            if let Some(problem) = limits::GROWTH.exceeded(growth as u64) {
                let problem = format!("how much longer its `{part}` can make a text {problem}");
                return Err(problem.into());
            }
        }
        if let Some(problem) = limits::TOKEN.exceeded(longest(&parts["model"]["vocab"]) as u64) {
            return Err(format!("one of its tokens {problem}").into());
        }
        caught(|| tokenizers::Tokenizer::from_bytes(bytes))?
    }

    pub(super) fn encode<'s>(
        &self,
        text: impl Into<EncodeInput<'s>> + Send,
        add_special: bool,
    ) -> Result<Encoding> {
        caught(|| self.0.encode(text, add_special))?
    }

    pub(super) fn encode_fast<'s>(
        &self,
        text: impl Into<EncodeInput<'s>> + Send,
        add_special: bool,
    ) -> Result<Encoding> {
        caught(|| self.0.encode_fast(text, add_special))?
    }

    pub(super) fn decode(&self, tokens: &[u32], skip_special: bool) -> Result<String> {
        caught(|| self.0.decode(tokens, skip_special))?
    }
}

/// By how much the steps of a part can make a text longer. Each works on what the one before it left, so they multiply.
fn growth(step: &Value) -> f64 {
    let bytes = |value: &Value| value.as_str().map_or(1.0, |text| text.len().max(1) as f64);
    let own = match step["type"].as_str() {
        // A byte becomes a letter, of one byte or two.
        Some("ByteLevel" | "Prepend") => 2.0,
        // As long as letters of Unicode become where their parts stand alone, in most texts.
        Some("NFD" | "NFKD" | "NFKC" | "Precompiled") => 3.0,
        Some("Replace") => (bytes(&step["content"]) / bytes(&step["pattern"]["String"])).max(1.0),
        _ => 1.0,
    };
    let lists = ["normalizers", "pretokenizers", "decoders"];
    let inner = lists.iter().filter_map(|list| step[*list].as_array());
    inner.flatten().map(growth).product::<f64>() * own
}

/// The bytes of the longest token of a vocabulary: keys with numbers, or pairs of a text and a number.
fn longest(vocabulary: &Value) -> usize {
    let length = |text: &str| text.len();
    let keys = vocabulary.as_object().into_iter().flat_map(|it| it.keys());
    let pairs = vocabulary.as_array().into_iter().flatten();
    let texts = pairs.filter_map(|pair| pair[0].as_str());
    keys.map(|key| length(key))
        .chain(texts.map(length))
        .max()
        .unwrap_or(0)
}

/// What only looks things up is the library's own.
impl Deref for Library {
    type Target = tokenizers::Tokenizer;

    fn deref(&self) -> &tokenizers::Tokenizer {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn steps_that_make_a_text_longer_multiply() {
        let byte_level = json!({"type": "ByteLevel"});
        let replace = json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});
        let sequence = |steps: &[&Value]| json!({"type": "Sequence", "normalizers": steps});
        for (part, expected) in [
            (json!(null), 1.0),
            (json!({"type": "Whitespace"}), 1.0),
            (byte_level.clone(), 2.0),
            (sequence(&[&byte_level, &replace]), 6.0),
            (sequence(&[&sequence(&[&byte_level; 3]), &byte_level]), 16.0),
        ] {
            assert_eq!(growth(&part), expected, "{part}");
        }
        let long =
            json!({"pre_tokenizer": {"type": "Sequence", "pretokenizers": vec![byte_level; 100]}});
        let error = Library::read(long.to_string().into_bytes()).unwrap_err();
        let words = "how much longer its `pre_tokenizer` can make a text is";
        assert!(error.to_string().starts_with(words), "{error}");
    }

    #[test]
    fn a_token_of_thousands_of_bytes_is_refused() {
        let long = "a".repeat(5000);
        for vocabulary in [
            json!([["b", 0.0], [long, -1.0]]),
            json!({"b": 0, long.clone(): 1}),
        ] {
            let file = json!({"model": {"type": "Unigram", "vocab": vocabulary}});
            let error = Library::read(file.to_string().into_bytes()).unwrap_err();
            let words = "one of its tokens is 5,000, and 4,096 bytes are the most";
            assert_eq!(error.to_string(), words);
        }
    }
}
