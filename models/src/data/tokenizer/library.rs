//! The library's tokenizer, with its panics as errors: parts of it trust the file that they were made from. Each thread has
//! its regular expressions to itself.

use std::{ops::Deref, sync::Arc};

use serde_json::Value;
use thread_local::ThreadLocal;
use tokenizers::{
    Encoding, Model, NormalizerWrapper, OffsetType, PreTokenizer, PreTokenizerWrapper, Result,
    SplitDelimiterBehavior,
    pre_tokenizers::{
        sequence::Sequence,
        split::{Split, SplitPattern},
    },
};

use crate::{caught, limits};

/// How GPT-2 splits a text into words.
const GPT2_WORDS: &str =
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// A tokenizer of the library. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Library(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    whole: tokenizers::Tokenizer,
    steps: ThreadLocal<Steps>,
}

/// The steps before the vocabulary, of one thread. They search with regular expressions, and each search of one that several
/// threads share waits for the others: sixteen threads are slower than one then.
#[derive(Debug)]
struct Steps {
    normalizer: Option<NormalizerWrapper>,
    pre_tokenizer: Option<PreTokenizerWrapper>,
}

impl Library {
    pub(super) fn new(whole: tokenizers::Tokenizer) -> Self {
        Self(Arc::new(Shared {
            whole,
            steps: ThreadLocal::new(),
        }))
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

    /// The tokens of a text, with their bytes in it.
    pub(super) fn encode(&self, text: &str, add_special: bool) -> Result<Encoding> {
        caught(|| self.0.encode(text, add_special, OffsetType::Byte))?
    }

    /// The same without the bytes, which takes less time.
    pub(super) fn encode_fast(&self, text: &str, add_special: bool) -> Result<Encoding> {
        caught(|| self.0.encode(text, add_special, OffsetType::None))?
    }

    pub(super) fn decode(&self, tokens: &[u32], skip_special: bool) -> Result<String> {
        caught(|| self.0.whole.decode(tokens, skip_special))?
    }
}

impl Shared {
    /// What the library's own function of this name does, with the steps of this thread.
    fn encode(&self, text: &str, add_special: bool, offsets: OffsetType) -> Result<Encoding> {
        let Self { whole, steps } = self;
        let steps = steps.get_or(|| Steps::of(whole));
        let added = whole.get_added_vocabulary();
        let mut words = added.extract_and_normalize(steps.normalizer.as_ref(), text);
        if let Some(pre_tokenizer) = &steps.pre_tokenizer {
            pre_tokenizer.pre_tokenize(&mut words)?;
        }
        whole
            .get_model()
            .tokenize_in_pretokenized(&mut words, None)?;
        let encoding = words.into_encoding(None, 0, offsets)?;
        whole.post_process(encoding, None, add_special)
    }
}

impl Steps {
    fn of(library: &tokenizers::Tokenizer) -> Self {
        Self {
            normalizer: library.get_normalizer().cloned(),
            pre_tokenizer: library.get_pre_tokenizer().cloned().map(own_expressions),
        }
    }
}

/// The same step with an expression of its own, where the library has one for the whole program.
fn own_expressions(step: PreTokenizerWrapper) -> PreTokenizerWrapper {
    match step {
        PreTokenizerWrapper::Sequence(steps) => {
            let own = steps.into_iter().map(own_expressions).collect();
            PreTokenizerWrapper::Sequence(Sequence::new(own))
        }
        PreTokenizerWrapper::ByteLevel(bytes) if bytes.use_regex && !bytes.add_prefix_space => {
            let words = SplitPattern::Regex(GPT2_WORDS.to_owned());
            match Split::new(words, SplitDelimiterBehavior::Isolated, false) {
                Ok(split) => PreTokenizerWrapper::Sequence(Sequence::new(vec![
                    split.into(),
                    bytes.use_regex(false).into(),
                ])),
                Err(_) => bytes.into(),
            }
        }
        step => step,
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
        &self.0.whole
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
