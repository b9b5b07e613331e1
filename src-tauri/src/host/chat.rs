//! A conversation with a model that is open in an engine.

use std::path::PathBuf;

use models::{
    data::row::{Message, Role},
    device::{DeviceKind, FoundDevice, RequestedDevice, check::Checked},
    train::fit::amount,
};

use crate::{
    jobs::{
        chat::{ChatSettings, Prompt, Said},
        engine::{Engine, Wish},
    },
    store::in_use::{InUse, Work},
    wire::{
        engine::{Ask, Reply},
        error::{AppError, Code, Result},
    },
};

/// A model that is open to be talked to. It is given the whole conversation each time, and reads what is new of it.
pub(crate) struct OpenModel {
    engine: Engine,
    answers: bool,
    context: usize,
    warnings: Vec<String>,
    /// Where it stands who computes on its device.
    in_use: PathBuf,
}

/// Where a model is opened.
pub(crate) struct Place {
    /// The device, as it was asked for.
    pub(crate) device: RequestedDevice,
    /// Which engine is started for it.
    pub(crate) kind: DeviceKind,
    /// The device that this most likely means.
    pub(crate) used: RequestedDevice,
    /// Where it stands who computes there.
    pub(crate) in_use: PathBuf,
}

/// A model that is talked to, with what was said so far.
pub(crate) struct Conversation {
    model: OpenModel,
    settings: ChatSettings,
    messages: Vec<Message>,
    /// What a model that continues text has read and written so far.
    text: String,
}

impl OpenModel {
    /// Opens the model in a folder, at a place of which something may be known. With `needed_bytes` it is refused where less than
    /// that is free: a system ends what takes more, and not always that.
    pub(crate) fn open(
        folder: PathBuf,
        place: Place,
        checked: Checked,
        needed_bytes: Option<u64>,
    ) -> Result<Self> {
        let mut engine = Engine::start(place.kind, None)?;
        if let Some(needed) = needed_bytes {
            refuse_what_does_not_fit(needed, engine.devices(), place.used)?;
        }
        let mut opened = None;
        let mut hear = |reply| {
            if let Reply::Opened {
                answers,
                context,
                warnings,
            } = reply
            {
                opened = Some((answers, context, warnings));
            }
        };
        let ask = Ask::OpenChat {
            folder,
            device: place.device,
            checked,
        };
        engine.ask(&ask, &mut hear, &|| Wish::GoOn)?;
        let opened = opened.ok_or_else(|| AppError::failed("the engine opened nothing"));
        let (answers, context, warnings) = opened?;
        Ok(Self {
            engine,
            answers,
            context,
            warnings,
            in_use: place.in_use,
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

    /// The longest text it reads, in tokens.
    #[cfg(feature = "gui")]
    pub(crate) fn context(&self) -> usize {
        self.context
    }

    /// Answers or continues. `show` gets each piece as soon as it is certain; `stop` ends the answer where it is.
    pub(crate) fn answer(
        &mut self,
        prompt: Prompt,
        settings: &ChatSettings,
        show: &mut dyn FnMut(&str),
        stop: &dyn Fn() -> bool,
    ) -> Result<Said> {
        let ask = Ask::Answer {
            prompt,
            settings: settings.clone(),
        };
        let _in_use = InUse::begin(&self.in_use, Work::Answer);
        let mut answer = None;
        let mut hear = |reply| match reply {
            Reply::Wrote { piece } => show(&piece),
            Reply::Answered { said } => answer = Some(said),
            _ => {}
        };
        self.engine
            .ask(&ask, &mut hear, &|| Wish::stop_if(stop()))?;
        answer.ok_or_else(|| AppError::failed("the engine ended its answer without a word"))
    }
}

fn refuse_what_does_not_fit(
    needed: u64,
    devices: &[FoundDevice],
    used: RequestedDevice,
) -> Result<()> {
    let device = devices.iter().find(|device| device.requested() == used);
    let free = device.and_then(|device| Some((device, device.free_bytes?)));
    let Some((device, free)) = free.filter(|(_, free)| needed > *free) else {
        return Ok(());
    };
    let (needed, free) = (amount(needed), amount(free));
    let message = format!(
        "talking to the model needs about {needed}, and {free} are free on {}",
        device.name
    );
    let hint = "close other programs, or what else is open here, or choose a smaller model";
    Err(AppError {
        code: Code::NeedsForce,
        ..AppError::failed(message)
    }
    .with_hint(hint)
    .unless_forced())
}

impl Conversation {
    /// Begins to talk to a model.
    pub(crate) fn new(model: OpenModel) -> Self {
        Self {
            model,
            settings: ChatSettings::default(),
            messages: Vec::new(),
            text: String::new(),
        }
    }

    /// The model.
    pub(crate) fn model(&self) -> &OpenModel {
        &self.model
    }

    /// How answers are written.
    pub(crate) fn settings(&self) -> &ChatSettings {
        &self.settings
    }

    /// Changes how answers are written, given as `temperature=0.2`.
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

    /// Answers. A model that continues text does so from `words`, or with no words from where it stopped.
    ///
    /// What got no answer was not said, so that the next attempt starts where this one did.
    pub(crate) fn say(
        &mut self,
        words: &str,
        show: &mut dyn FnMut(&str),
        stop: &dyn Fn() -> bool,
    ) -> Result<Said> {
        if !self.model.answers {
            if !words.is_empty() {
                self.text = words.to_owned();
            }
            let prompt = Prompt::Text(self.text.clone());
            let said = self.model.answer(prompt, &self.settings, show, stop)?;
            self.text.push_str(&said.answer.text);
            return Ok(said);
        }
        let mut messages = self.messages.clone();
        messages.push(Message::new(Role::User, words));
        let prompt = Prompt::Messages(messages.clone());
        let said = self.model.answer(prompt, &self.settings, show, stop)?;
        messages.push(Message::new(Role::Assistant, &said.answer.text));
        // What did not fit will not fit later either.
        let first = messages.iter().position(|it| it.role != Role::System);
        let first = first.unwrap_or_default();
        messages.drain(first..first + 2 * said.forgotten_turns);
        self.messages = messages;
        Ok(said)
    }
}
