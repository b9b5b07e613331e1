//! A conversation with a model that is open in an engine.

use std::path::PathBuf;

use models::device::{DeviceKind, RequestedDevice};

use crate::{
    jobs::{
        chat::{ChatSettings, Said},
        engine::Engine,
    },
    wire::{
        engine::{Ask, Reply},
        error::{AppError, Result},
    },
};

/// A model that is talked to. The engine remembers what was said.
pub(crate) struct Conversation {
    engine: Engine,
    answers: bool,
    settings: ChatSettings,
    warnings: Vec<String>,
}

impl Conversation {
    /// Opens the model in a folder.
    pub(crate) fn open(folder: PathBuf, device: RequestedDevice, kind: DeviceKind) -> Result<Self> {
        let mut engine = Engine::start(kind, None)?;
        let mut opened = None;
        let mut hear = |reply| {
            if let Reply::Opened {
                answers,
                settings,
                warnings,
            } = reply
            {
                opened = Some((answers, settings, warnings));
            }
        };
        engine.ask(&Ask::OpenChat { folder, device }, &mut hear, &|| false)?;
        let opened = opened.ok_or_else(|| AppError::failed("the engine opened nothing"));
        let (answers, settings, warnings) = opened?;
        Ok(Self {
            engine,
            answers,
            settings,
            warnings,
        })
    }

    /// What a person should know about where it computes.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Whether it answers. Otherwise it continues what is said.
    pub(crate) fn answers(&self) -> bool {
        self.answers
    }

    /// How answers are written.
    pub(crate) fn settings(&self) -> &ChatSettings {
        &self.settings
    }

    /// Changes how answers are written.
    pub(crate) fn set(&mut self, change: &str) -> Result<()> {
        let ask = Ask::Set {
            change: change.to_owned(),
        };
        let mut hear = |reply| {
            if let Reply::Changed { settings } = reply {
                self.settings = settings;
            }
        };
        self.engine.ask(&ask, &mut hear, &|| false)
    }

    /// Forgets what was said, and keeps the system's words.
    pub(crate) fn reset(&mut self) -> Result<()> {
        self.engine.ask(&Ask::Reset, &mut |_| {}, &|| false)
    }

    /// Sets the scene, or with no words removes it, and forgets what was said.
    pub(crate) fn set_system(&mut self, words: &str) -> Result<()> {
        let ask = Ask::SetSystem {
            words: words.to_owned(),
        };
        self.engine.ask(&ask, &mut |_| {}, &|| false)
    }

    /// Answers. `show` gets each piece as soon as it is certain; `stop` ends the answer where it is.
    pub(crate) fn say(
        &mut self,
        words: &str,
        show: &mut dyn FnMut(&str),
        stop: &dyn Fn() -> bool,
    ) -> Result<Said> {
        let ask = Ask::Say {
            words: words.to_owned(),
        };
        let mut answer = None;
        let mut hear = |reply| match reply {
            Reply::Wrote { piece } => show(&piece),
            Reply::Answered { said } => answer = Some(said),
            _ => {}
        };
        self.engine.ask(&ask, &mut hear, stop)?;
        answer.ok_or_else(|| AppError::failed("the engine ended its answer without a word"))
    }
}
