//! The tokenizer in a GGUF file, as the `tokenizer.json` that it stands for, and the other way.
//!
//! There are two kinds: byte-level BPE by its merges, where `tokenizer.ggml.pre` names how text is cut before, and SentencePiece BPE
//! by its scores, for which merges are made in the order in which pieces with higher scores come first.

mod write;

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value as Json, json};

use crate::{
    Error, Result,
    gguf::{Gguf, Value},
};

/// The key of a file with the chat template.
pub const TEMPLATE_KEY: &str = "tokenizer.chat_template";

/// Kinds of tokens, as `tokenizer.ggml.token_type` numbers them.
const NORMAL: i64 = 1;
const UNKNOWN: i64 = 2;
const CONTROL: i64 = 3;
const USER_DEFINED: i64 = 4;
const UNUSED: i64 = 5;
const BYTE: i64 = 6;

/// How text is cut before merges, by what a file calls it: the pattern, whether letters are composed before, whether a word that is a
/// token is taken whole, and whether a text gets its first token where the file doesn't say so.
const CUTS: [(&str, Cut); 8] = [
    (
        "gpt-2",
        Cut::Usual {
            digits_alone: false,
        },
    ),
    (
        "phi-2",
        Cut::Usual {
            digits_alone: false,
        },
    ),
    (
        "glm4",
        Cut::By {
            pattern: UP_TO_THREE_DIGITS,
            composes: false,
            takes_words: true,
            begins: false,
        },
    ),
    (
        "chatglm-bpe",
        Cut::By {
            pattern: UP_TO_THREE_DIGITS,
            composes: false,
            takes_words: false,
            begins: false,
        },
    ),
    ("smollm", Cut::Usual { digits_alone: true }),
    (
        "llama-bpe",
        Cut::By {
            pattern: UP_TO_THREE_DIGITS,
            composes: false,
            takes_words: true,
            begins: true,
        },
    ),
    (
        "smaug-bpe",
        Cut::By {
            pattern: UP_TO_THREE_DIGITS,
            composes: false,
            takes_words: false,
            begins: false,
        },
    ),
    (
        "qwen2",
        Cut::By {
            pattern: SINGLE_DIGITS,
            composes: true,
            takes_words: false,
            begins: false,
        },
    ),
];

/// Words with what stands before them, digits by threes, signs, blanks: the pattern of Llama 3 and its relatives.
const UP_TO_THREE_DIGITS: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// The same with digits one by one: that of Qwen 2.
const SINGLE_DIGITS: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

#[derive(Clone, Copy)]
enum Cut {
    /// By the pattern that the byte level has of its own.
    Usual { digits_alone: bool },
    /// By another.
    By {
        pattern: &'static str,
        composes: bool,
        takes_words: bool,
        begins: bool,
    },
}

impl Cut {
    /// The `normalizer` of `tokenizer.json`.
    fn normalizer(self) -> Json {
        match self {
            Self::By { composes: true, .. } => json!({"type": "NFC"}),
            _ => Json::Null,
        }
    }

    /// The steps of its `pre_tokenizer`.
    fn steps(self) -> Vec<Json> {
        match self {
            Self::Usual { digits_alone } => {
                let digits = json!({"type": "Digits", "individual_digits": true});
                let digits = Some(digits).filter(|_| digits_alone);
                digits.into_iter().chain([byte_level(true)]).collect()
            }
            Self::By { pattern, .. } => {
                let split = json!({
                    "type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false,
                });
                vec![split, byte_level(false)]
            }
        }
    }

    /// Whether a word that is a token is taken whole.
    fn takes_words(self) -> bool {
        matches!(
            self,
            Self::By {
                takes_words: true,
                ..
            }
        )
    }

    /// Whether a text gets its first token where a file doesn’t say so.
    fn begins(self) -> bool {
        matches!(self, Self::By { begins: true, .. })
    }
}

/// Text as letters that stand for bytes.
fn byte_level(cuts: bool) -> Json {
    json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": cuts})
}

/// The texts of `tokenizer.json` and of `tokenizer_config.json`, and the tokens after which a model has said all.
pub(super) struct Found {
    pub(super) tokenizer: Json,
    pub(super) config: Json,
    pub(super) stop: Vec<u32>,
}

/// The tokenizer in a file.
///
/// Errors: [`Error::Format`] when there is none, or one that is not known.
pub(super) fn read(file: &Gguf) -> Result<Found> {
    let vocabulary = Vocabulary::of(file)?;
    let kind = file.text("tokenizer.ggml.model")?;
    let tokenizer = match kind {
        "gpt2" => vocabulary.by_merges()?,
        "llama" => vocabulary.by_scores()?,
        kind => {
            let problem = format!(
                "its tokenizer is of the kind `{kind}`, and `gpt2` and `llama` are known here"
            );
            return Err(Error::format(&file.path, problem));
        }
    };
    Ok(Found {
        tokenizer,
        config: vocabulary.config(),
        stop: ["eos", "eot", "eom"]
            .into_iter()
            .filter_map(|name| vocabulary.named(name))
            .collect(),
    })
}

/// The tokens of a file with what is said of them.
struct Vocabulary<'a> {
    file: &'a Gguf,
    tokens: &'a [String],
    kinds: Vec<i64>,
}

impl<'a> Vocabulary<'a> {
    fn of(file: &'a Gguf) -> Result<Self> {
        let tokens = file.get("tokenizer.ggml.tokens").and_then(Value::as_texts);
        let tokens = tokens.ok_or_else(|| {
            Error::format(
                &file.path,
                "the file has no list of tokens, so nothing can be written with it",
            )
        })?;
        let kinds = file.get("tokenizer.ggml.token_type");
        let kinds = kinds.and_then(Value::to_integers);
        let kinds = kinds.unwrap_or_else(|| vec![NORMAL; tokens.len()]);
        let vocabulary = Self {
            file,
            tokens,
            kinds,
        };
        vocabulary.check_length("token_type", vocabulary.kinds.len())?;
        Ok(vocabulary)
    }

    fn check_length(&self, list: &str, length: usize) -> Result<()> {
        let tokens = self.tokens.len();
        match length == tokens {
            true => Ok(()),
            false => Err(Error::format(
                &self.file.path,
                format!("`tokenizer.ggml.{list}` has {length} values for {tokens} tokens"),
            )),
        }
    }

    /// A token that a key names, if it is one.
    fn named(&self, name: &str) -> Option<u32> {
        let id = self.file.get(&format!("tokenizer.ggml.{name}_token_id"))?;
        let id = id.as_u64().filter(|id| *id < self.tokens.len() as u64)?;
        u32::try_from(id).ok()
    }

    fn spelled(&self, name: &str) -> Option<&'a str> {
        self.tokens
            .get(self.named(name)? as usize)
            .map(String::as_str)
    }

    fn flag(&self, name: &str) -> Option<bool> {
        self.file.get(&format!("tokenizer.ggml.{name}"))?.as_bool()
    }

    /// Every token with its number. Of two that are spelled alike, the first.
    fn numbers(&self) -> HashMap<&'a str, usize> {
        let all = self.tokens.iter().enumerate().rev();
        all.map(|(id, token)| (token.as_str(), id)).collect()
    }

    /// The tokens that are found in a text before anything else is done with it.
    fn added(&self) -> Vec<Json> {
        let all = self.tokens.iter().zip(&self.kinds).enumerate();
        all.filter(|(_, (_, kind))| matches!(**kind, CONTROL | USER_DEFINED | UNKNOWN))
            .map(|(id, (token, kind))| {
                json!({
                    "id": id, "content": token, "special": *kind != USER_DEFINED,
                    "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
                })
            })
            .collect()
    }

    /// What puts the first and last token around a text.
    fn frame(&self, begins: bool) -> Json {
        let first = self.spelled("bos").zip(self.named("bos"));
        let first = first.filter(|_| self.flag("add_bos_token").unwrap_or(begins));
        let last = self.spelled("eos").zip(self.named("eos"));
        let last = last.filter(|_| self.flag("add_eos_token").unwrap_or(false));
        if first.is_none() && last.is_none() {
            return Json::Null;
        }
        let special = |token: &str, row: u8| json!({"SpecialToken": {"id": token, "type_id": row}});
        let text = |name: &str, row: u8| {
            let before = first.map(|(token, _)| special(token, row));
            let after = last.map(|(token, _)| special(token, row));
            let text = json!({"Sequence": {"id": name, "type_id": row}});
            let all = before.into_iter().chain([text]).chain(after);
            all.collect::<Vec<Json>>()
        };
        let pair = [text("A", 0), text("B", 1)].concat();
        let known: BTreeMap<&str, Json> = first
            .into_iter()
            .chain(last)
            .map(|(token, id)| (token, json!({"id": token, "ids": [id], "tokens": [token]})))
            .collect();
        json!({
            "type": "TemplateProcessing", "single": text("A", 0),
            "pair": pair, "special_tokens": known,
        })
    }

    /// Byte-level BPE.
    fn by_merges(&self) -> Result<Json> {
        // Files of Phi 2 are older than the key.
        let older = self.file.text("general.architecture").ok() == Some("phi2");
        let name = match self.file.get("tokenizer.ggml.pre") {
            None if older => "phi-2",
            _ => self.file.text("tokenizer.ggml.pre")?,
        };
        let cut = CUTS.iter().find(|(known, _)| *known == name);
        let &(_, cut) = cut.ok_or_else(|| {
            let known: Vec<&str> = CUTS.iter().map(|it| it.0).collect();
            let problem = format!(
                "its tokenizer cuts text as `{name}` does, and those that are known are {}",
                known.join(", ")
            );
            Error::format(&self.file.path, problem)
        })?;
        let merges = self.file.get("tokenizer.ggml.merges");
        let merges = merges.and_then(Value::as_texts).unwrap_or_default();
        let merges: Option<Vec<(&str, &str)>> =
            merges.iter().map(|it| it.split_once(' ')).collect();
        let merges = merges.ok_or_else(|| {
            Error::format(
                &self.file.path,
                "a merge of its tokenizer is not two tokens",
            )
        })?;
        Ok(json!({
            "version": "1.0", "truncation": null, "padding": null,
            "added_tokens": self.added(), "normalizer": cut.normalizer(),
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": cut.steps()},
            "post_processor": self.frame(cut.begins()), "decoder": byte_level(true),
            "model": {
                "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": cut.takes_words(),
                "vocab": self.numbers(), "merges": merges,
            },
        }))
    }

    /// SentencePiece BPE.
    fn by_scores(&self) -> Result<Json> {
        let scores = self.file.get("tokenizer.ggml.scores");
        let scores = scores.and_then(Value::as_f32s).unwrap_or_default();
        self.check_length("scores", scores.len())?;
        let blanks = json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});
        let has_prefix = self.flag("add_space_prefix").unwrap_or(true);
        let (normalizer, strip) = match has_prefix {
            true => (
                json!({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, blanks]}),
                Some(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0})),
            ),
            false => (blanks, None),
        };
        let back = json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "});
        let decoders = [
            back,
            json!({"type": "ByteFallback"}),
            json!({"type": "Fuse"}),
        ];
        let decoders: Vec<Json> = decoders.into_iter().chain(strip).collect();
        Ok(json!({
            "version": "1.0", "truncation": null, "padding": null,
            "added_tokens": self.added(), "normalizer": normalizer, "pre_tokenizer": null,
            "post_processor": self.frame(true), "decoder": {"type": "Sequence", "decoders": decoders},
            "model": {
                "type": "BPE", "dropout": null, "unk_token": self.spelled("unknown"), "continuing_subword_prefix": null,
                "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": true, "ignore_merges": false,
                "vocab": self.numbers(), "merges": self.merges(scores),
            },
        }))
    }

    /// Every two pieces that make a third, those with the highest score of the third first.
    fn merges(&self, scores: &[f32]) -> Vec<(&'a str, &'a str)> {
        let numbers = self.numbers();
        let is_piece = |id: usize| matches!(self.kinds.get(id), Some(&(NORMAL | USER_DEFINED)));
        let number = |piece: &str| numbers.get(piece).copied().filter(|id| is_piece(*id));
        let mut merges = Vec::new();
        for (id, token) in self
            .tokens
            .iter()
            .enumerate()
            .filter(|(id, _)| is_piece(*id))
        {
            let places = token.char_indices().skip(1).map(|(at, _)| at);
            for at in places {
                let (left, right) = token.split_at(at);
                if let (Some(first), Some(second)) = (number(left), number(right)) {
                    let score = scores.get(id).copied().unwrap_or_default();
                    merges.push((score, (first, second), (left, right)));
                }
            }
        }
        merges.sort_by(|a, b| {
            let lengths = |it: (&str, &str)| (it.0.chars().count(), it.1.chars().count());
            let by_score = b.0.total_cmp(&a.0);
            by_score.then_with(|| lengths(b.2).cmp(&lengths(a.2)).then(a.1.cmp(&b.1)))
        });
        merges.into_iter().map(|it| it.2).collect()
    }

    /// `tokenizer_config.json`: the tokens that have a name, and the template.
    fn config(&self) -> Json {
        let mut config = json!({
            "tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": false,
        });
        for (name, key) in [
            ("bos_token", "bos"),
            ("eos_token", "eos"),
            ("unk_token", "unknown"),
            ("pad_token", "padding"),
            ("mask_token", "mask"),
        ] {
            if let Some(token) = self.spelled(key) {
                config[name] = json!(token);
            }
        }
        if let Some(template) = self.file.get(TEMPLATE_KEY).and_then(Value::as_str) {
            config["chat_template"] = json!(template);
        }
        config
    }
}
