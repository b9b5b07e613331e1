//! A conversation with a model, inside an engine.

mod complete;

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    rc::Rc,
};

use super::{chosen_dtype, probe};
use crate::wire::{
    chat::{ChatSettings, Led, Prompt, Said, ScoredToken, SteerBy},
    error::{AppError, Result},
};
use models::{
    bench::{self, BenchDevice},
    checkpoint::load::LoadDtypes,
    data::row::{Message, Role},
    device::{self, Checked, Choice, dtype, memory::memory},
    generate::{Generator, slots::Slots},
    ops::kernels,
    profile::Ceilings,
    tasks::{
        language::{
            model::LanguageModel,
            profile::{AnswerProfile, profile_answer},
        },
        probe::{
            folder::Probes,
            live::{Live, LiveProbe, TokenScores},
            states_identity::identities,
            steer::{self, Measured},
        },
    },
};

/// A model that is used for chat. It remembers no conversation, only what it has read of the last one.
pub(crate) struct Chat {
    model: LanguageModel,
    generator: Generator,
    /// Who writes as the model is, while the other one is led.
    plain: Option<Generator>,
    /// What the server has it write, once there is one.
    slots: Option<Slots>,
    /// What was measured of the model as it is, to say what leading it costs.
    measured: Measured,
    /// Where it computes.
    choice: Choice,
    /// What is known of that device.
    checked: Checked,
    folder: PathBuf,
    dtypes: LoadDtypes,
    /// Which model it is, once that was asked: all weights are read for it.
    identity: Option<probe::Identity>,
}

impl Chat {
    /// Opens the model in a folder, to write on a device, without what its check found wrong.
    pub(crate) fn open(folder: &Path, device: &Choice, checked: &Checked) -> Result<Self> {
        let model = open_model(folder, device, checked)?;
        Ok(Self {
            generator: Generator::new(model.network.clone()).avoiding(checked.composed.clone()),
            plain: None,
            slots: None,
            measured: Measured::default(),
            model,
            choice: device.clone(),
            checked: checked.clone(),
            folder: folder.to_owned(),
            dtypes: load_dtypes(device, checked)?,
            identity: None,
        })
    }

    /// What a person should know about where it computes.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.choice.warnings
    }

    /// Whether it answers. Otherwise it continues text.
    pub(crate) fn answers(&self) -> bool {
        self.model.chats
    }

    /// The longest text it reads, in tokens.
    pub(crate) fn context(&self) -> usize {
        self.model.network.context()
    }

    /// Has probes score each token from now on, or without folders nobody. `tell` gets the tokens with their scores; the text of those
    /// of an answer is left out, since `show` has had it. Returns the probes and what a person should know of them.
    pub(crate) fn watch(
        &mut self,
        folders: &[PathBuf],
        force: bool,
        mut tell: impl FnMut(Vec<ScoredToken>) + 'static,
    ) -> Result<(Vec<LiveProbe>, Vec<String>)> {
        self.generator.watch(None);
        if folders.is_empty() {
            return Ok(Default::default());
        }
        let (probes, warnings) = self.open_probes(folders, force)?;
        let tokenizer = self.model.tokenizer.clone();
        let scored = move |it: TokenScores| {
            let text = match it.is_answer {
                true => String::new(),
                false => tokenizer.decode(&[it.token], true).unwrap_or_default(),
            };
            ScoredToken {
                text,
                is_answer: it.is_answer,
                scores: it.scores,
            }
        };
        let tell = move |tokens: Vec<TokenScores>| tell(tokens.into_iter().map(&scored).collect());
        let live = Live::new(&self.model, &probes, Box::new(tell))?;
        let watched = live.probes().to_vec();
        self.generator.watch(Some(Box::new(live)));
        Ok((watched, warnings))
    }

    /// Opens folders of probes of this model; those of another one only with `force`.
    fn open_probes(
        &mut self,
        folders: &[PathBuf],
        force: bool,
    ) -> Result<(Vec<Probes>, Vec<String>)> {
        let identity = match self.identity.take() {
            Some(known) => known,
            None => identities(&self.folder)?,
        };
        let identity = self.identity.insert(identity);
        probe::open(folders, identity, self.dtypes, force)
    }

    /// Leads the model along directions of probes from now on, or without any not any more.
    pub(crate) fn steer(&mut self, by: &[SteerBy], force: bool) -> Result<Led> {
        self.generator.steer(Rc::default());
        self.plain = None;
        if by.is_empty() {
            return Ok(Led::default());
        }
        let folders: Vec<PathBuf> = by.iter().map(|it| it.probes.clone()).collect();
        let (probes, warnings) = self.open_probes(&folders, force)?;
        let directions = by.iter().zip(&probes).map(|(by, probes)| {
            let place = probes.place_of(by.label.as_deref())?;
            Ok((probes.direction(place)?, by.how))
        });
        let directions = directions.collect::<Result<Vec<_>>>()?;
        let _avoided = kernels::avoid(&self.checked.composed)?;
        let measured = &mut self.measured;
        let (changes, directions) = steer::steering(&self.model, &directions, measured)?;
        let cost = steer::cost(&self.model, &changes, measured)?;
        self.generator.steer(changes.into());
        let plain = Generator::new(self.model.network.clone());
        self.plain = Some(plain.avoiding(self.checked.composed.clone()));
        Ok(Led {
            directions,
            cost: Some(cost),
            warnings,
        })
    }

    /// Answers or continues, with `plain` as the model is also while it is led. `show` gets each piece as soon as it is certain, and can break to stop at once.
    pub(crate) fn answer(
        &mut self,
        prompt: Prompt,
        settings: &ChatSettings,
        plain: bool,
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
        let generator = match &mut self.plain {
            Some(alone) if plain => alone,
            _ => &mut self.generator,
        };
        generator.keep(settings.cache);
        let answer = generator.write(tokenizer, &tokens, &sampling, &limits, show)?;
        Ok(Said {
            answer,
            forgotten_turns,
        })
    }

    /// Says where reading a prompt and writing a token spend their time and memory, and what the device could do at best. Nothing
    /// when it was stopped.
    pub(crate) fn profile(
        &mut self,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<(AnswerProfile, Option<Ceilings>)>> {
        let profile = profile_answer(&self.model, &mut self.generator, stop)?;
        let place = BenchDevice {
            device: self.model.network.device().clone(),
            choice: self.choice.clone(),
            avoid_kernels: self.checked.composed.clone(),
        };
        let computes_in = chosen_dtype(&self.choice, &self.checked, dtype::Role::Compute)?;
        Ok(profile.map(|profile| (profile, bench::ceilings(&place, computes_in, stop))))
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

    /// The tokens of a text, without its beginning when it leaves no room to continue.
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

/// The share of a GPU’s free memory that weights may take so that they need not be unpacked for every product.
const UNPACKED_SHARE: u64 = 4;

/// Opens the model in a folder in the formats that are safest on a device.
pub(crate) fn open_model(
    folder: &Path,
    device: &Choice,
    checked: &Checked,
) -> Result<LanguageModel> {
    let place = device::open(device)?;
    let most_bytes_unpacked = match place.is_cpu() {
        true => 0,
        false => memory(&place)?.available_bytes / UNPACKED_SHARE,
    };
    let dtypes = LoadDtypes {
        most_bytes_unpacked,
        ..load_dtypes(device, checked)?
    };
    Ok(LanguageModel::open(folder, dtypes, &place)?)
}

/// The formats that are safest on a device, without what its check found wrong.
pub(crate) fn load_dtypes(device: &Choice, checked: &Checked) -> Result<LoadDtypes> {
    let dtype = |role| chosen_dtype(device, checked, role).map(Into::into);
    Ok(LoadDtypes {
        storage: dtype(dtype::Role::Storage)?,
        compute: dtype(dtype::Role::Compute)?,
        quantize: None,
        most_bytes_unpacked: 0,
    })
}
