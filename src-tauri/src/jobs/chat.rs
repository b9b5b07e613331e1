//! A conversation with a model, inside an engine.

use std::{ops::ControlFlow, path::Path};

use models::{
    checkpoint::load::LoadDtypes,
    data::row::{Message, Role},
    device::{
        self, Choice,
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

/// A model that is talked to, with what was said so far.
pub(crate) struct Chat {
    model: LanguageModel,
    writer: Writer,
    settings: ChatSettings,
    messages: Vec<Message>,
    /// What a model that continues text has read and written so far.
    text: String,
    /// What a person should know about where it computes.
    warnings: Vec<String>,
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
        settings.sampling(0).check()?;
        if settings.max_tokens == 0 {
            return Err(wrong("an answer has at least 1 token".to_owned()));
        }
        Ok(settings)
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
    /// Opens the model in a folder, to write on a device.
    pub(crate) fn open(folder: &Path, device: &Choice) -> Result<Self> {
        let model = open_model(folder, device)?;
        Ok(Self {
            writer: Writer::new(model.decoder.clone()),
            model,
            settings: ChatSettings::default(),
            messages: Vec::new(),
            text: String::new(),
            warnings: device.warnings.clone(),
        })
    }

    /// What a person should know about where it computes.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Whether it answers. Otherwise it continues what is said.
    pub(crate) fn answers(&self) -> bool {
        self.model.chats
    }

    /// How answers are written.
    pub(crate) fn settings(&self) -> &ChatSettings {
        &self.settings
    }

    /// Changes how answers are written.
    pub(crate) fn set(&mut self, change: &str) -> Result<()> {
        self.settings = self.settings.with(change)?;
        Ok(())
    }

    /// Forgets what was said, and keeps the system's words.
    pub(crate) fn reset(&mut self) {
        self.messages.retain(|message| message.role == Role::System);
        self.text.clear();
    }

    /// Sets the scene, or with no words removes it, and forgets what was said.
    pub(crate) fn set_system(&mut self, words: &str) {
        self.messages.clear();
        self.text.clear();
        if !words.is_empty() {
            self.messages.push(Message::new(Role::System, words));
        }
    }

    /// Answers. `show` gets each piece as soon as it is certain, and can break to stop at once.
    ///
    /// A model that continues text does so from `words`, or with no words from where it stopped.
    pub(crate) fn say(
        &mut self,
        words: &str,
        show: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Said> {
        let turn = self.messages.len();
        let mut forgotten_turns = 0;
        let prompt = if self.model.chats {
            self.messages.push(Message::new(Role::User, words));
            self.chat_prompt(&mut forgotten_turns)
        } else {
            if !words.is_empty() {
                self.text = words.to_owned();
            }
            self.text_prompt()
        };
        let limits = self.model.limits(self.settings.max_tokens);
        let sampling = self.settings.sampling(turn);
        let tokenizer = &self.model.tokenizer;
        let answer = prompt.and_then(|prompt| {
            Ok(self
                .writer
                .write(tokenizer, &prompt, &sampling, &limits, show)?)
        });
        match answer {
            Ok(answer) if self.model.chats => {
                self.messages
                    .push(Message::new(Role::Assistant, &answer.text));
                Ok(Said {
                    answer,
                    forgotten_turns,
                })
            }
            Ok(answer) => {
                self.text.push_str(&answer.text);
                Ok(Said {
                    answer,
                    forgotten_turns,
                })
            }
            Err(error) => {
                // What got no answer was not said, so that the next attempt starts where this one did.
                self.messages.truncate(turn);
                Err(error)
            }
        }
    }

    /// The tokens of the conversation, without its oldest turns when it leaves no room for an answer.
    fn chat_prompt(&mut self, forgotten_turns: &mut usize) -> Result<Vec<u32>> {
        let context = self.model.decoder.config().max_position_embeddings;
        let room = self.settings.max_tokens.min(context / 4);
        loop {
            let prompt = self.model.chat_prompt(&self.messages)?;
            let is_first = |message: &Message| message.role != Role::System;
            let first = self.messages.iter().position(is_first).unwrap_or_default();
            if prompt.len() + room < context || self.messages.len() - first < 3 {
                return Ok(prompt);
            }
            self.messages.drain(first..first + 2);
            *forgotten_turns += 1;
        }
    }

    /// The tokens of a text, without its beginning when it leaves no room to go on.
    fn text_prompt(&self) -> Result<Vec<u32>> {
        if self.text.is_empty() {
            return Err(AppError::invalid(
                "there is nothing to continue yet; give it a beginning",
            ));
        }
        let context = self.model.decoder.config().max_position_embeddings;
        let room = self.settings.max_tokens.min(context / 2);
        let tokens = self.model.tokenizer.encode(&self.text, true)?;
        let most = context.saturating_sub(room).max(1);
        Ok(tokens[tokens.len().saturating_sub(most)..].to_vec())
    }
}

/// Opens the model in a folder in the formats that are safest on a device.
pub(crate) fn open_model(folder: &Path, device: &Choice) -> Result<LanguageModel> {
    let class = DeviceClass::of(&device.device, false);
    let dtype = |role| choose_dtype(class, role, None, false).map(|chosen| chosen.dtype.into());
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
