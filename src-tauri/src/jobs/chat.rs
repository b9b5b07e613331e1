//! A conversation with a model, inside an engine.

use std::{ops::ControlFlow, path::Path};

use models::{
    checkpoint::load::LoadDtypes,
    data::row::{Message, Role},
    device::{
        self, Checked, Choice,
        dtype::{self, DeviceClass, choose_dtype},
    },
    generate::{Answer, Writer, sample::SamplingSettings},
    tasks::language::model::LanguageModel,
};
use serde::{Deserialize, Serialize};

use crate::{
    store::yaml::{expected_in_words, parse_scalar},
    wire::error::{AppError, Result},
};

/// A model that is talked to. It remembers no conversation, only what it has read of the last one.
pub(crate) struct Chat {
    model: LanguageModel,
    writer: Writer,
    /// What a person should know about where it computes.
    warnings: Vec<String>,
}

/// What is to be answered or continued.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Prompt {
    /// A conversation that ends with the user's words.
    Messages(Vec<Message>),
    /// A text to go on with.
    Text(String),
}

/// How answers are written. Each can be changed between two of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChatSettings {
    /// Scores are divided by it: 0 always takes the likeliest token, 1 draws as the model says.
    pub(crate) temperature: f64,
    /// Draw from so many of the likeliest tokens. 0 is all.
    pub(crate) top_k: usize,
    /// Draw from the likeliest tokens that together have this probability. 1 is all.
    pub(crate) top_p: f64,
    /// Draw from tokens with at least this share of the likeliest one's probability. 0 is all.
    pub(crate) min_p: f64,
    /// Scores of tokens already written are divided by it. 1 is off.
    pub(crate) repetition_penalty: f64,
    /// Where the draw starts. The same seed and words give the same answers.
    pub(crate) seed: u64,
    /// The most tokens of an answer.
    pub(crate) max_tokens: usize,
}

/// An answer, and what a person should know about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Said {
    /// The answer.
    #[serde(flatten)]
    pub(crate) answer: Answer,
    /// How many of the oldest turns were left out, because the conversation is longer than the model can read.
    pub(crate) forgotten_turns: usize,
}

impl Default for ChatSettings {
    fn default() -> Self {
        let sampling = SamplingSettings::default();
        Self {
            temperature: sampling.temperature,
            top_k: sampling.top_k,
            top_p: sampling.top_p,
            min_p: sampling.min_p,
            repetition_penalty: sampling.repetition_penalty,
            seed: sampling.seed,
            max_tokens: 512,
        }
    }
}

impl ChatSettings {
    /// The settings with one of them changed, given as `temperature=0.2`.
    pub(crate) fn with(&self, change: &str) -> Result<Self> {
        let wrong = |words: String| AppError::invalid(format!("`{change}`: {words}"));
        let (name, words) = change
            .split_once('=')
            .ok_or_else(|| wrong("write it like `temperature=0.2`".to_owned()))?;
        let value = parse_scalar(words).map_err(wrong)?;
        let mut tree = serde_json::to_value(self).map_err(|error| wrong(error.to_string()))?;
        if let Some(fields) = tree.as_object_mut() {
            fields.insert(name.trim().to_owned(), value);
        }
        let settings: Self = serde_json::from_value(tree)
            .map_err(|error| wrong(expected_in_words(&error.to_string())))?;
        settings
            .check()
            .map_err(|error| match error.field.as_deref() {
                Some("max_tokens") => wrong(error.message),
                _ => error,
            })?;
        Ok(settings)
    }

    /// Whether answers can be written so.
    pub(crate) fn check(&self) -> Result<()> {
        self.sampling(0).check()?;
        match self.max_tokens {
            0 => Err(AppError::invalid("an answer has at least 1 token").with_field("max_tokens")),
            _ => Ok(()),
        }
    }

    /// How the tokens of an answer are drawn. Each turn draws differently.
    fn sampling(&self, turn: usize) -> SamplingSettings {
        SamplingSettings {
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            seed: self.seed.wrapping_add(turn as u64),
        }
    }
}

impl Chat {
    /// Opens the model in a folder, to write on a device, without what its check found wrong.
    pub(crate) fn open(folder: &Path, device: &Choice, checked: &Checked) -> Result<Self> {
        let model = open_model(folder, device, checked)?;
        Ok(Self {
            writer: Writer::new(model.decoder.clone()).avoiding(checked.composed.clone()),
            model,
            warnings: device.warnings.clone(),
        })
    }

    /// What a person should know about where it computes.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Whether it answers. Otherwise it continues text.
    pub(crate) fn answers(&self) -> bool {
        self.model.chats
    }

    /// The longest text it reads, in tokens.
    pub(crate) fn context(&self) -> usize {
        self.model.decoder.config().max_position_embeddings
    }

    /// Answers or continues. `show` gets each piece as soon as it is certain, and can break to stop at once.
    pub(crate) fn answer(
        &mut self,
        prompt: Prompt,
        settings: &ChatSettings,
        show: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Said> {
        settings.check()?;
        let (tokens, turn, forgotten_turns) = match prompt {
            Prompt::Messages(messages) => {
                let turn = messages.len();
                let (tokens, forgotten) = self.chat_prompt(messages, settings.max_tokens)?;
                (tokens, turn, forgotten)
            }
            Prompt::Text(text) => (self.text_prompt(&text, settings.max_tokens)?, 0, 0),
        };
        let limits = self.model.limits(settings.max_tokens);
        let sampling = settings.sampling(turn);
        let tokenizer = &self.model.tokenizer;
        let answer = self
            .writer
            .write(tokenizer, &tokens, &sampling, &limits, show)?;
        Ok(Said {
            answer,
            forgotten_turns,
        })
    }

    /// The tokens of the conversation, and how many of its oldest turns were left out to leave room for an answer.
    fn chat_prompt(
        &self,
        mut messages: Vec<Message>,
        max_tokens: usize,
    ) -> Result<(Vec<u32>, usize)> {
        let room = max_tokens.min(self.context() / 4);
        let is_first = |message: &Message| message.role != Role::System;
        let first = messages.iter().position(is_first).unwrap_or_default();
        let mut forgotten = 0;
        loop {
            let prompt = self.model.chat_prompt(&messages)?;
            if prompt.len() + room < self.context() || messages.len() - first < 3 {
                return Ok((prompt, forgotten));
            }
            messages.drain(first..first + 2);
            forgotten += 1;
        }
    }

    /// The tokens of a text, without its beginning when it leaves no room to go on.
    fn text_prompt(&self, text: &str, max_tokens: usize) -> Result<Vec<u32>> {
        if text.is_empty() {
            return Err(AppError::invalid(
                "there is nothing to continue yet; give it a beginning",
            ));
        }
        let room = max_tokens.min(self.context() / 2);
        let tokens = self.model.tokenizer.encode(text, true)?;
        let most = self.context().saturating_sub(room).max(1);
        Ok(tokens[tokens.len().saturating_sub(most)..].to_vec())
    }
}

/// Opens the model in a folder in the formats that are safest on a device.
pub(crate) fn open_model(
    folder: &Path,
    device: &Choice,
    checked: &Checked,
) -> Result<LanguageModel> {
    let class = DeviceClass::of(&device.device, checked.bf16);
    let wrong = &checked.refused_dtypes;
    let dtype =
        |role| choose_dtype(class, role, None, wrong, false).map(|chosen| chosen.dtype.into());
    let dtypes = LoadDtypes {
        storage: dtype(dtype::Role::Storage)?,
        compute: dtype(dtype::Role::Compute)?,
    };
    Ok(LanguageModel::open(folder, dtypes, &device::open(device)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_changed_by_its_name() {
        let settings = ChatSettings::default().with("temperature=0.2").unwrap();
        assert_eq!(settings.temperature, 0.2);
        assert_eq!(settings.top_p, ChatSettings::default().top_p);
    }

    #[test]
    fn a_wrong_setting_is_named() {
        for (change, expected) in [
            ("warm", "`warm`: write it like `temperature=0.2`"),
            (
                "max_tokens=0",
                "`max_tokens=0`: an answer has at least 1 token",
            ),
            (
                "temperature=-1",
                "`temperature` is -1; it must be 0 or more",
            ),
            (
                "heat=1",
                "`heat=1`: unknown field `heat`, expected one of `temperature`, `top_k`, `top_p`, `min_p`, \
                 `repetition_penalty`, `seed`, `max_tokens`",
            ),
        ] {
            let error = ChatSettings::default().with(change).unwrap_err();
            assert_eq!(error.message, expected);
        }
    }
}
