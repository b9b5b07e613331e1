//! A long text to tokens in pieces: the tokens of the whole text, on all cores, in bounded memory.
//!
//! No place is known in advance at which a text can safely be cut: a tokenizer may merge across it, look ahead, or put a
//! space before each text. So neighbouring pieces overlap, and are joined where both give the same tokens over a long
//! stretch. The tokens at the very ends of a piece are dropped with the overlap.
//!
//! Of byte-pair encodings this is exact: whether two tokens stand beside each other in an encoding depends on these two
//! alone, so a row in which every pair comes from an encoding is one. How a text falls into words first is found from
//! left to right, and two readings that agree on a word agree on what follows. Other models weigh a word as a whole, so
//! theirs are joined between words only. Where no stretch is found, as in a hundred thousand digits that are taken in
//! threes, the overlap grows, and in the end the text is encoded whole.

use rayon::prelude::*;
use tokenizers::ModelWrapper;

use super::{Located, Tokenizer};
use crate::{Error, Result, limits};

/// Pieces have about this many bytes: the library keeps some 50 bytes per byte of a text while it works on it, and pieces
/// are what the processor's cores share.
pub(super) const PIECE_BYTES: usize = 1 << 16;

/// How far a piece reaches back into the one before it, at first.
const OVERLAP: usize = 1 << 12;

/// Pieces are joined where they agree on so many bytes, more than words have.
const AGREEMENT: usize = OVERLAP / 4;

/// So many pieces are encoded before their tokens are put together, and the places of these tokens dropped where nobody asks
/// for them.
const PIECES_PER_TURN: usize = 64;

/// The tokens of a long text, without any around it, and their places where they are asked for. Nothing where it is short
/// enough to be encoded whole, or has to be since two pieces can't be joined.
pub(super) fn encode(
    tokenizer: &Tokenizer,
    text: &str,
    with_spans: bool,
) -> Result<Option<Located>> {
    if text.len() <= 2 * PIECE_BYTES {
        return Ok(None);
    }
    let encoded = joined(tokenizer, text, with_spans)?;
    match limits::ENDLESS_WORD.exceeded(text.len() as u64) {
        Some(problem) if encoded.is_none() => Err(Error::Data(format!(
            "a text that its tokenizer can’t take in pieces, since it has stretches without a space, {problem}"
        ))),
        _ => Ok(encoded),
    }
}

fn joined(tokenizer: &Tokenizer, text: &str, with_spans: bool) -> Result<Option<Located>> {
    let ends: Vec<usize> = (1..=text.len().div_ceil(PIECE_BYTES))
        .map(|number| text.floor_char_boundary(number * PIECE_BYTES))
        .collect();
    let piece = |number: usize, overlap: usize| {
        let begin = match number.checked_sub(1) {
            Some(before) => text.floor_char_boundary(ends[before].saturating_sub(overlap)),
            None => 0,
        };
        located(tokenizer, text, begin, ends[number])
    };
    let is_byte_pair = matches!(tokenizer.library.get_model(), ModelWrapper::BPE(_));
    // A word begins with a space, or after one that is in no token. A line end can stand within a word.
    let is_seam = |after: usize, begin: usize| {
        let is_space = |at: usize| text.as_bytes().get(at) == Some(&b' ');
        is_byte_pair || is_space(begin) || (after < begin && is_space(begin - 1))
    };
    let mut made = Located::default();
    let mut left = Located::default();
    for turn in (0..ends.len()).step_by(PIECES_PER_TURN) {
        let numbers = turn..ends.len().min(turn + PIECES_PER_TURN);
        let pieces: Result<Vec<Located>> = numbers
            .clone()
            .into_par_iter()
            .map(|number| piece(number, OVERLAP))
            .collect();
        for (number, mut right) in numbers.zip(pieces?) {
            let mut overlap = OVERLAP;
            let seam = loop {
                match seam(&left, &right, is_seam) {
                    _ if number == 0 => break (0, 0),
                    Some(seam) => break seam,
                    None if overlap >= PIECE_BYTES => return Ok(None),
                    None => overlap *= 2,
                }
                right = piece(number, overlap)?;
            };
            made.tokens.extend(&left.tokens[..seam.0]);
            if with_spans {
                made.spans.extend(&left.spans[..seam.0]);
            }
            right.tokens.drain(..seam.1);
            right.spans.drain(..seam.1);
            left = right;
        }
    }
    made.tokens.extend(left.tokens);
    if with_spans {
        made.spans.extend(left.spans);
    }
    Ok(Some(made))
}

/// The tokens of a part of a text, with their places in the text.
fn located(tokenizer: &Tokenizer, text: &str, begin: usize, end: usize) -> Result<Located> {
    let mut located = tokenizer.encode_located_whole(&text[begin..end])?;
    for span in &mut located.spans {
        *span = (span.0 + begin, span.1 + begin);
    }
    Ok(located)
}

/// How many tokens of `left` stand before the first stretch on which both agree, and how many of `right`. Where the token
/// before it ends, and where it begins, is a seam.
fn seam(
    left: &Located,
    right: &Located,
    is_seam: impl Fn(usize, usize) -> bool,
) -> Option<(usize, usize)> {
    let first = right.spans.first()?.0;
    let mut at = left.spans.partition_point(|span| span.0 < first);
    while let Some(&(begin, _)) = left.spans.get(at) {
        // The bytes of one letter can be several tokens with the same place; both sides begin with the first of them.
        let is_within_letter = at > 0 && left.spans[at - 1].0 == begin;
        let other = right.spans.partition_point(|span| span.0 < begin);
        let pairs = left.tokens[at..].iter().zip(&left.spans[at..]);
        let others = right.tokens[other..].iter().zip(&right.spans[other..]);
        let agreed = pairs.zip(others).take_while(|(a, b)| a == b).count();
        let agreed_to = left.spans[at + agreed.saturating_sub(1)].1;
        let is_long = agreed > 0 && agreed_to.saturating_sub(begin) >= AGREEMENT;
        let after = at
            .checked_sub(1)
            .map_or(begin, |before| left.spans[before].1);
        match is_long {
            true if !is_within_letter && is_seam(after, begin) => return Some((at, other)),
            true => at += 1,
            false => at += agreed.max(1),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tokenizers::{
        AddedToken,
        models::{
            TrainerWrapper,
            bpe::{BPE, BpeTrainerBuilder},
        },
    };

    use super::*;
    use crate::random::Random;

    const GPT2: &str = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
    const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

    /// What texts are made of: words, numbers, blank lines, letters of several bytes, words without an end.
    fn text(random: &mut Random, bytes: usize) -> String {
        let parts = [
            "the", " café", " then", "'ll", "12", "3", " ", "  ", "\n", "\n\n", "\r\n", "\t",
            "漢字", "🙂", "<|end|>", ".", " {", "A", "e\u{301}", " \n ",
        ];
        let mut text = String::new();
        while text.len() < bytes {
            let part = *random.choose(&parts);
            // Now and then one part stands there many times: a line of dashes, a column of digits, an empty page.
            let times = match random.below(400) {
                0 => random.below(8000),
                1..20 => random.below(50),
                _ => 1,
            };
            text += &part.repeat(times);
        }
        text
    }

    /// A byte-pair encoding learned from `text`, with these parts in front of it.
    fn learned(text: &str, normalizer: Value, pre_tokenizer: Value) -> Tokenizer {
        let mut library = tokenizers::Tokenizer::new(BPE::default());
        let normalizer: Option<tokenizers::NormalizerWrapper> =
            serde_json::from_value(normalizer).unwrap();
        let pre_tokenizer: Option<tokenizers::PreTokenizerWrapper> =
            serde_json::from_value(pre_tokenizer).unwrap();
        library.with_normalizer(normalizer).unwrap();
        library.with_pre_tokenizer(pre_tokenizer);
        let mut trainer = TrainerWrapper::BpeTrainer(
            BpeTrainerBuilder::new()
                .vocab_size(400)
                .show_progress(false)
                .special_tokens(vec![AddedToken::from("<|end|>", true)])
                .build(),
        );
        let lines = text.split_inclusive('.');
        library.train(&mut trainer, lines).unwrap();
        Tokenizer::assemble(library, Default::default())
    }

    /// Kinds of tokenizers by name: a normalizer and a pre-tokenizer.
    fn kinds() -> Vec<(&'static str, Value, Value)> {
        let byte_level = json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true});
        let split = |pattern: &str| {
            json!({"type": "Sequence", "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false},
                {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]})
        };
        let words = |scheme: &str| json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": true});
        let sentence = json!({"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]});
        let spaces = json!({"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": false});
        let replaced = json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});
        let plain = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
        let digits = json!({"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": true}, plain]});
        vec![
            ("byte level with a space before", Value::Null, byte_level),
            ("byte level after digits", Value::Null, digits),
            ("GPT-2", Value::Null, split(GPT2)),
            ("Llama 3", json!({"type": "NFC"}), split(LLAMA3)),
            ("Metaspace before all", Value::Null, words("always")),
            ("Metaspace before the first", Value::Null, words("first")),
            ("Llama 2", sentence, Value::Null),
            ("Gemma", replaced, spaces),
        ]
    }

    #[test]
    fn pieces_have_the_tokens_of_the_whole_text_with_every_kind_of_tokenizer() {
        let mut random = Random::new(3);
        let sample = text(&mut random, 20_000);
        for (name, normalizer, pre_tokenizer) in kinds() {
            let tokenizer = learned(&sample, normalizer, pre_tokenizer);
            for _ in 0..2 {
                let text = text(&mut random, 3 * PIECE_BYTES);
                let whole = tokenizer.encode_whole(&text, true).unwrap();
                assert!(tokenizer.encode(&text, true).unwrap() == whole, "{name}");
                let whole = tokenizer.encode_located_whole(&text).unwrap();
                let located = tokenizer.encode_located(&text).unwrap();
                assert!(located == whole, "{name}");
            }
        }
    }

    #[test]
    fn every_thread_has_the_tokens_of_the_library_with_every_kind_of_tokenizer() {
        let mut random = Random::new(4);
        let sample = text(&mut random, 20_000);
        for (name, normalizer, pre_tokenizer) in kinds() {
            let tokenizer = learned(&sample, normalizer, pre_tokenizer);
            let texts: Vec<String> = (0..64).map(|_| text(&mut random, 2_000)).collect();
            texts.par_iter().for_each(|text| {
                let library: &tokenizers::Tokenizer = &tokenizer.library;
                let expected = library.encode(text.as_str(), true).unwrap();
                let found = tokenizer.library.encode(text, true).unwrap();
                assert!(found == expected, "{name}: {text}");
                let found = tokenizer.library.encode_fast(text, true).unwrap();
                assert!(found.get_ids() == expected.get_ids(), "{name}: {text}");
            });
        }
    }

    #[test]
    fn a_model_that_weighs_words_as_a_whole_is_joined_between_words() {
        let model = json!({"type": "Unigram", "unk_id": 0, "byte_fallback": false, "vocab": [
            ["<unk>", 0.0], ["=", -4.0], ["==", -4.0], ["===", -4.0], ["▁", -2.0], ["a", -3.0]]});
        let words = json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true});
        let text = json!({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
            "pre_tokenizer": words, "post_processor": null, "decoder": null, "model": model});
        let library = tokenizers::Tokenizer::from_bytes(text.to_string()).unwrap();
        let tokenizer = Tokenizer::assemble(library, Default::default());
        let mut random = Random::new(7);
        let mut line =
            || "=".repeat(random.below(7000)) + *random.choose(&["a", " ", "a a ", "\n"]);
        let text: String = (0..100).map(|_| line()).collect();
        let whole = tokenizer.encode_whole(&text, true).unwrap();
        assert!(tokenizer.encode(&text, true).unwrap() == whole);
        let endless = "=".repeat(limits::ENDLESS_WORD.most as usize + 1);
        let error = tokenizer.encode(&endless, true).map(|it| it.len());
        let error = error.unwrap_err().to_string();
        assert!(error.ends_with("bytes are the most"), "{error}");
    }

    #[test]
    fn a_text_whose_pieces_never_agree_is_encoded_whole() {
        let tokenizer = learned("123 456 12 3 the.", Value::Null, Value::Null);
        for text in [
            "12".repeat(2 * PIECE_BYTES),
            " ".repeat(3 * PIECE_BYTES),
            "thé\n".repeat(PIECE_BYTES),
        ] {
            let whole = tokenizer.encode_whole(&text, true).unwrap();
            assert!(tokenizer.encode(&text, true).unwrap() == whole);
        }
    }
}
