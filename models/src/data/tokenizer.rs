//! Text to tokens and back: a checkpoint's `tokenizer.json`, or a byte-level BPE trained on the data.
//!
//! Everything about tokenization itself is the `tokenizers` library's. This module adds what stands around it in a
//! checkpoint folder (which tokens begin, end and pad), and encoding of texts of any size in bounded memory.
//!
//! Known limit, shared with transformers: text that spells a special token (`<|im_end|>`) becomes that token.

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::{Map, Value, json};
use tokenizers::{
    AddedToken,
    models::{
        TrainerWrapper,
        bpe::{BPE, BpeTrainerBuilder},
    },
    pre_tokenizers::{byte_level::ByteLevel, digits::Digits, sequence::Sequence},
};

use super::marks::Marks;
use crate::{Error, Result, gguf::Gguf, instead, limits};

mod bytes;
mod gguf;
mod library;
mod pieces;

pub use gguf::TEMPLATE_KEY;
use library::Library;
use pieces::PIECE_BYTES;

/// The token between documents, which also pads.
pub const END_OF_TEXT: &str = "<|endoftext|>";
/// ChatML's token at the start of a turn.
pub const TURN_START: &str = "<|im_start|>";
/// ChatML's token at the end of a turn.
pub const TURN_END: &str = "<|im_end|>";

/// The longest word that a new tokenizer learns from in one piece. Longer ones, as in DNA or base64, are no words.
const MAX_WORD_BYTES: usize = 1000;

/// What is tried with each of its files.
const READ: &str = "read the tokenizer";

/// The file of a tokenizer.
pub const TOKENIZER: &str = "tokenizer.json";
/// The files beside it that belong to it.
pub const COMPANIONS: [&str; 3] = [
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
];

/// The tokens that a checkpoint gives a name, as transformers calls them.
const NAMED_TOKENS: [&str; 7] = [
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
];

/// A tokenizer with its special tokens. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Tokenizer {
    library: Library,
    /// The tokens with a meaning of their own.
    pub special: SpecialTokens,
    /// The texts of the companion files, by name.
    companions: BTreeMap<String, String>,
    /// Sorted ids of every special token: those that a shown text leaves out.
    hidden: Vec<u32>,
    /// Sorted ids of all tokens that were added as they are.
    added: Vec<u32>,
    spelling: bytes::Spelling,
    vocabulary_size: usize,
}

/// The tokens with a meaning of their own, as far as a checkpoint names them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpecialTokens {
    /// Begins a text, for models that want it.
    pub begin: Option<u32>,
    /// Ends a text. Text rows get it at their end.
    pub end: Option<u32>,
    /// Fills up short rows. Never learned; `end` or 0 when the checkpoint names none.
    pub pad: u32,
    /// Every token after which a model has said all: `end`, and those of `generation_config.json` and `config.json`.
    pub stop: Vec<u32>,
}

/// Tokens of one text and the place of each in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Located {
    /// Ids in the vocabulary, in the order of the text.
    pub tokens: Vec<u32>,
    /// For each token, the bytes of the text it stands for: first, and one past the last.
    pub spans: Vec<(usize, usize)>,
}

impl Tokenizer {
    /// Reads the tokenizer of a checkpoint folder, or of a GGUF file.
    ///
    /// Truncation and padding set inside `tokenizer.json` are turned off: both are this crate's own work, and a file
    /// saved by a training script would otherwise cut texts without a word.
    pub fn load(folder: &Path) -> Result<Self> {
        if Gguf::is_one(folder) {
            return Self::of_gguf(&Gguf::open(folder)?);
        }
        let path = folder.join(TOKENIZER);
        let bytes = limits::TOKENIZER.read(&path, READ)?;
        if let Some(what) = instead::found(&bytes) {
            return Err(Error::format(&path, what));
        }
        let mut library = Library::read(bytes)
            .map_err(|error| Error::format(&path, format!("not a tokenizer: {error}")))?;
        library.with_padding(None);
        library
            .with_truncation(None)
            .map_err(|error| Error::format(&path, error.to_string()))?;

        let mut companions = BTreeMap::new();
        for name in COMPANIONS {
            let limit = match name {
                "chat_template.jinja" => limits::TEMPLATE,
                _ => limits::MODEL_JSON,
            };
            if let Some(text) = limit.read_text_if_there(&folder.join(name), READ)? {
                companions.insert(name.to_owned(), text);
            }
        }
        let mut tokenizer = Self::assemble(library, companions);
        tokenizer.special = tokenizer.find_special_tokens(folder)?;
        Ok(tokenizer)
    }

    /// The tokenizer in a GGUF file.
    pub fn of_gguf(file: &Gguf) -> Result<Self> {
        let found = gguf::read(file)?;
        let library = Library::read(found.tokenizer.to_string().into_bytes())
            .map_err(|error| Error::format(&file.path, format!("not a tokenizer: {error}")))?;
        let config = format!("{:#}\n", found.config);
        if let Some(problem) = limits::TEMPLATE.exceeded(config.len() as u64) {
            let problem = format!("its chat template with what stands beside it {problem}");
            return Err(Error::format(&file.path, problem));
        }
        let companions = BTreeMap::from([(COMPANIONS[0].to_owned(), config)]);
        let mut tokenizer = Self::assemble(library, companions);
        tokenizer.special = tokenizer.special_tokens(None, found.stop)?;
        Ok(tokenizer)
    }

    /// Trains a byte-level BPE on texts: any text can be encoded, digits stand alone, and ChatML's tokens are in it.
    ///
    /// The same texts and size give the same tokenizer, in any order of the texts. With little text the vocabulary
    /// can end up smaller than asked. `vocabulary_size` counts everything and is at least [`Marks::smallest_vocabulary`].
    pub fn train<'a>(texts: impl Iterator<Item = &'a str>, vocabulary_size: usize) -> Result<Self> {
        Self::train_with(texts, vocabulary_size, Marks::default())
    }

    /// The same with other tokens for the turns of a conversation.
    pub fn train_with<'a>(
        texts: impl Iterator<Item = &'a str>,
        vocabulary_size: usize,
        marks: Marks,
    ) -> Result<Self> {
        let smallest = marks.smallest_vocabulary();
        if vocabulary_size < smallest {
            return Err(Error::setting(
                "scratch.vocab_size",
                format!(
                    "is {vocabulary_size}, and {smallest} is the smallest: 256 bytes and {} special tokens",
                    marks.tokens().len()
                ),
            ));
        }
        if let Some(problem) = limits::NEW_VOCABULARY.exceeded(vocabulary_size as u64) {
            return Err(Error::setting("scratch.vocab_size", problem));
        }
        let failed =
            |error: tokenizers::Error| Error::Data(format!("could not train a tokenizer: {error}"));
        let mut library = tokenizers::Tokenizer::new(BPE::default());
        library.with_pre_tokenizer(Some(Sequence::new(vec![
            Digits::new(true).into(),
            byte_level().into(),
        ])));
        library.with_decoder(Some(byte_level()));
        library.with_post_processor(Some(byte_level()));
        let special = marks.tokens().iter();
        let special = special.map(|&token| AddedToken::from(token, true));
        let mut trainer = TrainerWrapper::BpeTrainer(
            BpeTrainerBuilder::new()
                .vocab_size(vocabulary_size)
                .min_frequency(2)
                .show_progress(false)
                .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
                .special_tokens(special.collect())
                .build(),
        );
        let pieces: Vec<&str> = texts.flat_map(lines_cut).flat_map(words_cut).collect();
        library
            .train(&mut trainer, pieces.into_iter())
            .map_err(failed)?;

        let config = json!({
            "tokenizer_class": "PreTrainedTokenizerFast",
            "clean_up_tokenization_spaces": false,
            "eos_token": END_OF_TEXT,
            "pad_token": marks.pad(),
        });
        let companions = BTreeMap::from([(COMPANIONS[0].to_owned(), format!("{config:#}\n"))]);
        let mut tokenizer = Self::assemble(library, companions);
        let end = tokenizer.token_id(END_OF_TEXT);
        tokenizer.special = SpecialTokens {
            begin: None,
            end,
            pad: tokenizer.token_id(marks.pad()).unwrap_or(0),
            stop: end
                .into_iter()
                .chain(tokenizer.token_id(marks.turn_end()))
                .collect(),
        };
        Ok(tokenizer)
    }

    /// Writes `tokenizer.json` and its companions into a folder, so that transformers loads it.
    ///
    /// `chat_template` is written into `tokenizer_config.json` when the tokenizer came without one, so that whoever
    /// uses the folder talks to the model in the words it was trained with.
    pub fn save(&self, folder: &Path, chat_template: Option<&str>) -> Result<()> {
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            fs::write(&path, text).map_err(Error::file("write the tokenizer", &path))
        };
        let path = folder.join(TOKENIZER);
        let text = self.library.to_string(true).map_err(|error| {
            Error::format(&path, format!("could not write the tokenizer: {error}"))
        })?;
        write(TOKENIZER, &text)?;

        let mut companions = self.companions.clone();
        let config = companions
            .entry(COMPANIONS[0].to_owned())
            .or_insert_with(|| "{}".to_owned());
        let mut value = self.config_value()?;
        let has_template = self.companions.contains_key("chat_template.jinja")
            || value.get("chat_template").is_some_and(|it| !it.is_null());
        if let (Some(template), false, Some(fields)) =
            (chat_template, has_template, value.as_object_mut())
        {
            fields.insert("chat_template".to_owned(), Value::from(template));
            *config = format!("{value:#}\n");
        }
        companions
            .iter()
            .try_for_each(|(name, text)| write(name, text))
    }

    /// The tokens of a text.
    ///
    /// With `add_special`, those the tokenizer puts around a text are there too, such as `<s>`; never use it on a
    /// rendered chat, whose template has them already. Long texts are encoded in pieces, on all cores, with the same
    /// result.
    pub fn encode(&self, text: &str, add_special: bool) -> Result<Vec<u32>> {
        let Some(encoded) = pieces::encode(self, text, false)? else {
            return self.encode_whole(text, add_special);
        };
        if !add_special {
            return Ok(encoded.tokens);
        }
        let (before, after) = self.frame()?;
        Ok([before, encoded.tokens, after].concat())
    }

    /// The tokens of a text with their places in it. Special tokens spelled in the text are parsed as such.
    pub fn encode_located(&self, text: &str) -> Result<Located> {
        match pieces::encode(self, text, true)? {
            Some(encoded) => Ok(encoded),
            None => self.encode_located_whole(text),
        }
    }

    fn encode_located_whole(&self, text: &str) -> Result<Located> {
        let encoding = self.library.encode(text, false).map_err(not_encoded)?;
        Ok(Located {
            tokens: encoding.get_ids().to_vec(),
            spans: encoding.get_offsets().to_vec(),
        })
    }

    /// The text of tokens, with or without the special ones among them.
    pub fn decode(&self, tokens: &[u32], show_special: bool) -> Result<String> {
        self.library.decode(tokens, !show_special).map_err(|error| {
            Error::Data(format!("could not decode {} tokens: {error}", tokens.len()))
        })
    }

    /// The id of a token, when the vocabulary has it.
    pub fn token_id(&self, token: &str) -> Option<u32> {
        self.library.token_to_id(token)
    }

    /// How many rows an embedding needs: one more than the largest id.
    pub fn vocabulary_size(&self) -> usize {
        self.vocabulary_size
    }

    /// Whether a token is a special one, which a shown text leaves out.
    pub fn is_special(&self, token: u32) -> bool {
        self.hidden.binary_search(&token).is_ok()
    }

    /// The tokens that the checkpoint names, such as `eos_token`, spelled out, as a chat template can write them.
    pub fn named_tokens(&self) -> Result<Map<String, Value>> {
        let config = self.config_value()?;
        let spelled = NAMED_TOKENS.into_iter().filter_map(|name| {
            let token = config.get(name)?;
            let text = token.as_str().or_else(|| token.get("content")?.as_str());
            Some((name.to_owned(), Value::from(text?)))
        });
        Ok(spelled.collect())
    }

    /// The chat templates of `tokenizer_config.json` by name. A single one has no name.
    pub fn templates(&self) -> Result<Vec<(String, String)>> {
        let config = self.config_value()?;
        let named = |it: &Value| {
            let text = |field: &str| it.get(field)?.as_str().map(str::to_owned);
            Some((text("name")?, text("template")?))
        };
        let found = match config.get("chat_template") {
            None | Some(Value::Null) => Some(Vec::new()),
            Some(Value::String(text)) => Some(vec![(String::new(), text.clone())]),
            Some(Value::Array(list)) => list.iter().map(named).collect(),
            Some(_) => None,
        };
        found.ok_or_else(|| {
            let problem =
                "`chat_template` is neither a text nor a list of templates with names".to_owned();
            Error::format(COMPANIONS[0], problem)
        })
    }

    /// The text of `chat_template.jinja`, when the checkpoint has one.
    pub fn template_file(&self) -> Option<&str> {
        self.companions
            .get("chat_template.jinja")
            .map(String::as_str)
    }

    fn assemble(library: tokenizers::Tokenizer, companions: BTreeMap<String, String>) -> Self {
        let mut hidden: Vec<u32> = library
            .get_added_tokens_decoder()
            .into_iter()
            .filter_map(|(id, token)| token.special.then_some(id))
            .collect();
        hidden.sort_unstable();
        let mut added: Vec<u32> = library.get_added_tokens_decoder().into_keys().collect();
        added.sort_unstable();
        let decoder = library.get_decoder().map(serde_json::to_value);
        let spelling = bytes::Spelling::of(&decoder.and_then(Result::ok).unwrap_or_default());
        let largest = library.get_vocab(true).into_values().max();
        Self {
            vocabulary_size: largest.map_or(0, |id| id as usize + 1),
            library: Library::new(library),
            special: SpecialTokens::default(),
            companions,
            hidden,
            added,
            spelling,
        }
    }

    /// `tokenizer_config.json`, with the tokens of `special_tokens_map.json` where it names none.
    fn config_value(&self) -> Result<Value> {
        let read = |name: &str| match self.companions.get(name) {
            Some(text) => serde_json::from_str::<Value>(text)
                .map_err(|error| Error::format(name, format!("not JSON: {error}"))),
            None => Ok(json!({})),
        };
        let (mut config, map) = (read(COMPANIONS[0])?, read(COMPANIONS[1])?);
        if let (Some(config), Value::Object(map)) = (config.as_object_mut(), map) {
            for (name, token) in map {
                let missing = config.get(&name).is_none_or(Value::is_null);
                if missing && name.ends_with("_token") {
                    config.insert(name, token);
                }
            }
        }
        Ok(config)
    }

    fn find_special_tokens(&self, folder: &Path) -> Result<SpecialTokens> {
        let ids_in = |name: &str, field: &str| -> Result<Vec<u32>> {
            let path = folder.join(name);
            let Some(text) = read_if_there(&path)? else {
                return Ok(Vec::new());
            };
            let value: Value = serde_json::from_str(&text)
                .map_err(|error| Error::format(&path, format!("not JSON: {error}")))?;
            Ok(match &value[field] {
                Value::Array(ids) => ids.iter().filter_map(as_id).collect(),
                one => as_id(one).into_iter().collect(),
            })
        };
        let mut ends = ids_in("generation_config.json", "eos_token_id")?;
        ends.extend(ids_in("config.json", "eos_token_id")?);
        self.special_tokens(ends.first().copied(), ends)
    }

    /// The tokens that have a name, `end` where none is named so, and all after which a model has said all: that one and `stops`.
    fn special_tokens(&self, end: Option<u32>, stops: Vec<u32>) -> Result<SpecialTokens> {
        let named = self.named_tokens()?;
        let id = |name: &str| self.token_id(named.get(name)?.as_str()?);
        let end = id("eos_token").or(end);
        let mut stop: Vec<u32> = Vec::new();
        for token in end.into_iter().chain(stops) {
            if !stop.contains(&token) {
                stop.push(token);
            }
        }
        Ok(SpecialTokens {
            begin: id("bos_token"),
            end,
            pad: id("pad_token").or(end).unwrap_or(0),
            stop,
        })
    }

    fn encode_whole(&self, text: &str, add_special: bool) -> Result<Vec<u32>> {
        let encoding = self
            .library
            .encode_fast(text, add_special)
            .map_err(not_encoded)?;
        Ok(encoding.get_ids().to_vec())
    }

    /// The tokens that the tokenizer puts before and after a text.
    pub fn frame(&self) -> Result<(Vec<u32>, Vec<u32>)> {
        let framed = self.library.encode("a", true).map_err(not_encoded)?;
        let is_added = |at: &usize| framed.get_special_tokens_mask()[*at] == 1;
        let count = framed.len();
        let before = (0..count).take_while(is_added).count();
        let after = (0..count)
            .rev()
            .take_while(is_added)
            .count()
            .min(count - before);
        let ids = framed.get_ids();
        Ok((ids[..before].to_vec(), ids[count - after..].to_vec()))
    }
}

/// Cuts a text that a tokenizer is trained on, after line ends, into pieces of about [`PIECE_BYTES`].
fn lines_cut(text: &str) -> impl Iterator<Item = &str> {
    cut(text, |rest| {
        let bytes = rest.as_bytes();
        (PIECE_BYTES..rest.len()).find(|&at| bytes[at - 1] == b'\n' && bytes[at].is_ascii_graphic())
    })
}

/// Cuts a text where a word grows beyond [`MAX_WORD_BYTES`]. Learning pairs takes time in the square of a word's length.
fn words_cut(text: &str) -> impl Iterator<Item = &str> {
    cut(text, |rest| {
        let mut word_start = 0;
        let is_too_long = |(at, letter): &(usize, char)| {
            if letter.is_whitespace() {
                word_start = at + letter.len_utf8();
            }
            !letter.is_whitespace() && at - word_start >= MAX_WORD_BYTES
        };
        rest.char_indices().find(is_too_long).map(|(at, _)| at)
    })
}

/// Cuts a text into pieces; each time, `end` says where in the rest the next one ends, if not with the rest.
fn cut(text: &str, end: impl Fn(&str) -> Option<usize>) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (piece, after) = rest.split_at(end(rest).unwrap_or(rest.len()));
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}

fn byte_level() -> ByteLevel {
    ByteLevel::new(false, false, true)
}

fn as_id(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|id| u32::try_from(id).ok())
}

fn not_encoded(error: tokenizers::Error) -> Error {
    Error::Data(format!("could not tokenize a text: {error}"))
}

fn read_if_there(path: &Path) -> Result<Option<String>> {
    limits::MODEL_JSON.read_text_if_there(path, READ)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every byte, and three special tokens.
    const SMALLEST: usize = 259;
    const TEXTS: [&str; 3] = [
        "Where is the café? The café is here.\n",
        "漢字と仮名。🙂🙃 and 1234 words\n",
        "the the the there then\n",
    ];

    fn trained(size: usize) -> Tokenizer {
        Tokenizer::train(TEXTS.into_iter(), size).unwrap()
    }

    #[test]
    fn every_text_comes_back_as_it_was() {
        for tokenizer in [trained(SMALLEST), trained(300)] {
            for text in TEXTS
                .into_iter()
                .chain(["", " ", "\u{0}\u{7f}\r\n", "ß 🏳️‍🌈 𝔘"])
            {
                let tokens = tokenizer.encode(text, true).unwrap();
                assert_eq!(tokenizer.decode(&tokens, true).unwrap(), text);
            }
        }
    }

    #[test]
    fn training_gives_the_size_asked_and_the_same_tokens_each_time() {
        let (once, again) = (trained(270), trained(270));
        assert_eq!(once.vocabulary_size(), 270);
        assert_eq!(
            once.library.to_string(false).unwrap(),
            again.library.to_string(false).unwrap()
        );
        assert_eq!(trained(SMALLEST).vocabulary_size(), SMALLEST);
        let error = Tokenizer::train(TEXTS.into_iter(), 100)
            .unwrap_err()
            .to_string();
        assert!(error.contains("259"), "{error}");
    }

    #[test]
    fn digits_stand_alone() {
        let tokenizer = Tokenizer::train(std::iter::repeat_n("1234 1234", 50), 400).unwrap();
        assert_eq!(tokenizer.encode("1234", false).unwrap().len(), 4);
    }

    #[test]
    fn a_saved_tokenizer_loads_with_its_special_tokens_and_template() {
        let folder = tempfile::tempdir().unwrap();
        let saved = trained(300);
        saved.save(folder.path(), Some("{{ messages }}")).unwrap();
        let loaded = Tokenizer::load(folder.path()).unwrap();
        assert_eq!(loaded.special.end, saved.special.end);
        assert_eq!(
            loaded.encode(TEXTS[1], true).unwrap(),
            saved.encode(TEXTS[1], true).unwrap()
        );
        assert_eq!(loaded.templates().unwrap()[0].1, "{{ messages }}");
    }

    #[test]
    fn stop_tokens_come_from_every_file_that_names_them() {
        let folder = tempfile::tempdir().unwrap();
        trained(300).save(folder.path(), None).unwrap();
        fs::write(
            folder.path().join("generation_config.json"),
            r#"{"eos_token_id": [2, 0]}"#,
        )
        .unwrap();
        fs::write(folder.path().join("config.json"), r#"{"eos_token_id": 7}"#).unwrap();
        let special = Tokenizer::load(folder.path()).unwrap().special;
        assert_eq!((special.end, special.stop), (Some(0), vec![0, 2, 7]));
    }

    #[test]
    fn special_tokens_are_parsed_and_not_shown() {
        let tokenizer = trained(300);
        let tokens = tokenizer.encode("<|im_start|>a<|im_end|>", false).unwrap();
        assert_eq!(tokens.len(), 3);
        assert_eq!(tokenizer.decode(&tokens, false).unwrap(), "a");
    }

    #[test]
    fn endless_words_are_cut_and_nothing_is_lost() {
        let text = format!("short {} {}", "é".repeat(700), "x".repeat(2500));
        let lengths: Vec<usize> = words_cut(&text).map(str::len).collect();
        assert_eq!(words_cut(&text).collect::<String>(), text);
        assert_eq!(lengths, [1006, 1401, 1000, 500]);
    }
}
