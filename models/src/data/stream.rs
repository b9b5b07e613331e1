//! Tokens to text while they come, one at a time.

use super::tokenizer::Tokenizer;
use crate::Result;

/// After so many tokens without a whole character, a stream gives out what it has. No character is longer than four
/// bytes, so a valid text never waits that long.
const TIMEOUT: usize = 8;

/// Decodes tokens as they come, without broken characters and with the right spaces.
///
/// It decodes a window of the newest tokens only, never all again, so a token costs the same at any length. The
/// window keeps the tokens of the last piece given out, because how a token is spelled can depend on the one before.
#[derive(Debug, Clone)]
pub struct StreamDecoder {
    tokenizer: Tokenizer,
    window: Vec<u32>,
    /// How many tokens at the start of the window have been given out.
    shown: usize,
    /// Their text.
    shown_text: String,
}

impl Tokenizer {
    /// A decoder that takes tokens one at a time.
    pub fn stream_decoder(&self) -> StreamDecoder {
        StreamDecoder {
            tokenizer: self.clone(),
            window: Vec::new(),
            shown: 0,
            shown_text: String::new(),
        }
    }
}

impl StreamDecoder {
    /// Takes a token and returns the text that is now certain: often one word, nothing in the middle of a character.
    ///
    /// Special tokens have no text. Bytes that are no text come out as `\u{FFFD}` after a few tokens.
    pub fn push(&mut self, token: u32) -> Result<String> {
        if self.tokenizer.is_special(token) {
            return Ok(String::new());
        }
        self.window.push(token);
        let text = self.tokenizer.decode(&self.window, false)?;
        let waiting = self.window.len() - self.shown;
        if text == self.shown_text {
            // A token without text can still be why the next one begins with a space. A stream of them would grow the window.
            if waiting > TIMEOUT {
                self.window.pop();
            }
            return Ok(String::new());
        }
        if waiting < TIMEOUT && (text.ends_with('\u{FFFD}') || !text.starts_with(&self.shown_text))
        {
            return Ok(String::new());
        }
        self.give_out(&text)
    }

    /// What is left when no more tokens come: half a character, shown as `\u{FFFD}`, or nothing.
    pub fn finish(&mut self) -> Result<String> {
        if self.window.len() == self.shown {
            return Ok(String::new());
        }
        let text = self.tokenizer.decode(&self.window, false)?;
        self.give_out(&text)
    }

    fn give_out(&mut self, text: &str) -> Result<String> {
        let fresh = match text.strip_prefix(&self.shown_text) {
            Some(fresh) => fresh.to_owned(),
            // Bytes that made no character changed how those before them read; those are out already.
            None => self.tokenizer.decode(&self.window[self.shown..], false)?,
        };
        self.window.drain(..self.shown);
        self.shown = self.window.len();
        self.shown_text = self.tokenizer.decode(&self.window, false)?;
        Ok(fresh)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::random::Random;

    fn trained() -> Tokenizer {
        let texts = [
            "Where is the café? The café is here.\n",
            "漢字と仮名。🙂🙃 and 1234 words\n",
        ];
        Tokenizer::train(texts.into_iter(), 300).unwrap()
    }

    /// A SentencePiece-like tokenizer: spaces are `▁`, the first one is dropped, unknown characters are bytes.
    fn with_byte_fallback() -> Tokenizer {
        let mut vocabulary = serde_json::Map::new();
        let mut add = |token: String| {
            let id = vocabulary.len();
            vocabulary.insert(token, json!(id));
        };
        add("<s>".to_owned());
        (0..256).for_each(|byte| add(format!("<0x{byte:02X}>")));
        ["▁", "H", "i", "▁H", "▁Hi"]
            .into_iter()
            .for_each(|token| add(token.to_owned()));
        let text = json!({
            "version": "1.0", "truncation": null, "padding": null,
            "added_tokens": [{"id": 0, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": true}],
            "normalizer": {"type": "Sequence", "normalizers": [
                {"type": "Prepend", "prepend": "▁"},
                {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
            "pre_tokenizer": null, "post_processor": null,
            "decoder": {"type": "Sequence", "decoders": [
                {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                {"type": "ByteFallback"}, {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
            "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": true,
                "vocab": vocabulary, "merges": [["▁", "H"], ["▁H", "i"]]}
        });
        let library = tokenizers::Tokenizer::from_bytes(text.to_string()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        library
            .save(folder.path().join("tokenizer.json"), false)
            .unwrap();
        Tokenizer::load(folder.path()).unwrap()
    }

    /// Streams tokens and expects what decoding them all at once gives.
    #[track_caller]
    fn check_stream(tokenizer: &Tokenizer, tokens: &[u32]) {
        let mut stream = tokenizer.stream_decoder();
        let mut text = String::new();
        let mut widest = 0;
        for &token in tokens {
            text += &stream.push(token).unwrap();
            widest = widest.max(stream.window.len());
        }
        text += &stream.finish().unwrap();
        assert_eq!(text, tokenizer.decode(tokens, false).unwrap());
        assert!(widest <= 2 * TIMEOUT, "the window grew to {widest} tokens");
    }

    #[test]
    fn a_stream_shows_what_decoding_at_once_shows() {
        let text = "Hi Hi  hi 漢字 🙂🙃 café Hi";
        for tokenizer in [trained(), with_byte_fallback()] {
            check_stream(&tokenizer, &tokenizer.encode(text, false).unwrap());
        }
    }

    #[test]
    fn spaces_that_a_text_begins_with_are_shown() {
        let tokenizer = with_byte_fallback();
        for text in ["  Hi", "   ", " Hi", "", "                  Hi"] {
            check_stream(&tokenizer, &tokenizer.encode(text, false).unwrap());
        }
        let space = tokenizer.token_id("▁").unwrap();
        check_stream(&tokenizer, &[space, tokenizer.token_id("▁H").unwrap()]);
    }

    #[test]
    fn a_stream_of_any_tokens_ends_and_stays_small() {
        let tokenizer = trained();
        let mut random = Random::new(5);
        for _ in 0..50 {
            let tokens: Vec<u32> = (0..60).map(|_| random.below(300) as u32).collect();
            let mut stream = tokenizer.stream_decoder();
            for &token in &tokens {
                stream.push(token).unwrap();
                assert!(stream.window.len() <= 2 * TIMEOUT);
            }
            stream.finish().unwrap();
        }
    }

    #[test]
    fn special_tokens_are_not_shown() {
        let tokenizer = trained();
        check_stream(
            &tokenizer,
            &tokenizer
                .encode("<|im_start|>a<|im_end|> b", false)
                .unwrap(),
        );
    }
}
