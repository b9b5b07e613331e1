//! The bytes that a token stands for, which decoding alone does not tell: a token may be half a letter.

use std::{collections::HashMap, sync::LazyLock};

use serde_json::Value;

use super::Tokenizer;

/// The byte of each letter that byte-level tokenizers write it as: printable ones are themselves, the others follow from 256 on
/// in their order (Radford et al., 2019, "Language Models are Unsupervised Multitask Learners").
static BYTE_LETTERS: LazyLock<HashMap<char, u8>> = LazyLock::new(|| {
    let is_printable = |byte: &u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    let printable = (0..=255).filter(is_printable);
    let printable = printable.map(|byte| (char::from(byte), byte));
    let others = (0..=255u8).filter(|byte| !is_printable(byte));
    let others = ('\u{100}'..).zip(others);
    printable.chain(others).collect()
});

/// How a tokenizer writes bytes in its vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spelling {
    /// Each byte is a letter.
    ByteLevel,
    /// Text, with `▁` for a space and `<0x0A>` for a byte that is no text.
    Text,
}

impl Spelling {
    /// That of a decoder, as in `tokenizer.json`.
    pub(super) fn of(decoder: &Value) -> Self {
        let parts = decoder["decoders"].as_array();
        let mut parts = parts
            .map_or(std::slice::from_ref(decoder), Vec::as_slice)
            .iter();
        match parts.any(|part| part["type"] == "ByteLevel") {
            true => Self::ByteLevel,
            false => Self::Text,
        }
    }

    /// The bytes of a word of the vocabulary.
    pub(super) fn bytes(self, word: &str) -> Vec<u8> {
        if self == Self::ByteLevel {
            let bytes = word
                .chars()
                .map(|letter| BYTE_LETTERS.get(&letter).copied());
            // A word with other letters was added to the vocabulary as it is.
            return bytes.collect::<Option<_>>().unwrap_or_else(|| word.into());
        }
        let byte = word.strip_prefix("<0x").and_then(|it| it.strip_suffix('>'));
        match byte.and_then(|byte| u8::from_str_radix(byte, 16).ok()) {
            Some(byte) => vec![byte],
            None => word.replace('▁', " ").into_bytes(),
        }
    }
}

impl Tokenizer {
    /// The bytes that a token stands for. A special token has those of its name, and an unknown one none.
    pub fn token_bytes(&self, token: u32) -> Vec<u8> {
        let Some(word) = self.library.id_to_token(token) else {
            return Vec::new();
        };
        match self.added.binary_search(&token) {
            Ok(_) => word.into_bytes(),
            Err(_) => self.spelling.bytes(&word),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_token_has_the_bytes_that_it_adds_to_a_text() {
        let tokenizer = Tokenizer::train(["the the 🙂 the"].into_iter(), 300).unwrap();
        for text in ["the 🙂\n\u{0}", "ß"] {
            let tokens = tokenizer.encode(text, false).unwrap();
            let bytes: Vec<u8> = tokens
                .iter()
                .flat_map(|token| tokenizer.token_bytes(*token))
                .collect();
            assert_eq!(bytes, text.as_bytes());
        }
        let end = tokenizer.token_id("<|im_end|>").unwrap();
        assert_eq!(tokenizer.token_bytes(end), b"<|im_end|>");
        assert_eq!(tokenizer.token_bytes(9_999_999), b"");
    }

    #[test]
    fn words_of_text_have_spaces_and_bytes_by_their_number() {
        let decoder =
            json!({"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]});
        let spelling = Spelling::of(&decoder);
        for (word, bytes) in [
            ("▁Hi", &b" Hi"[..]),
            ("<0x0A>", b"\n"),
            ("<0xF0>", &[0xF0]),
            ("<0xZZ>", b"<0xZZ>"),
        ] {
            assert_eq!(spelling.bytes(word), bytes, "{word}");
        }
    }
}
