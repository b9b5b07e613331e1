//! A conversation with a model that is open in an engine.

#[cfg(feature = "gui")]
pub(crate) mod view;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

#[cfg(feature = "gui")]
use models::tasks::language::model::base_of;
use models::{
    checkpoint::{adapter::ADAPTER_CONFIG, save::name_of},
    data::row::{Message, Role},
    device::{Checked, Choice, DeviceKind, FoundDevice, RequestedDevice},
    figures,
    ops::kept::CacheType,
    profile::Ceilings,
    tasks::{language::profile::AnswerProfile, probe::live::LiveProbe},
};

use super::{Host, hub, probe::absolute};
use crate::{
    jobs::engine::{Control, Engine},
    store::{
        self,
        in_use::{self, InUse, Work},
        runs,
        yaml::{expected_in_words, parse_scalar},
    },
    wire::{
        chat::{ChatSettings, Led, Prompt, Said, ScoredToken, SteerBy},
        completion::{RequestEvent, Requested},
        engine::{Ask, Reply},
        error::{AppError, Code, Result},
    },
};

/// A model that is open for chat. It is given the whole conversation each time, and reads what is new of it.
pub(crate) struct OpenModel {
    engine: Engine,
    answers: bool,
    context: usize,
    warnings: Vec<String>,
    /// Where it stands who computes on its device.
    in_use: PathBuf,
}

/// What is heard while an answer is written.
pub(crate) enum Heard<'a> {
    /// A piece of it, as soon as it is certain.
    Piece(&'a str),
    /// Tokens that were read, those of the answer with their text, as probes score them. The last tokens may not come: nobody reads
    /// what ends an answer.
    Scored(Vec<ScoredToken>),
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

/// A model that is used for chat, with what was said so far.
pub(crate) struct Conversation {
    model: OpenModel,
    settings: ChatSettings,
    messages: Vec<Message>,
    /// What a model that continues text has read and written so far.
    text: String,
    /// The probes that score each token.
    probes: Vec<LiveProbe>,
    /// What their folders are called.
    probe_folders: Vec<String>,
    /// How the model is led.
    led: Led,
    /// What was answered last.
    last: Option<Prompt>,
}

impl Host {
    /// Opens what a name means to chat with: the folder of a model, a run, or a model in the folder of models. One that does
    /// not fit into memory is opened only with `force`.
    pub(crate) fn open_chat(
        &self,
        name: &str,
        device: Option<RequestedDevice>,
        force: bool,
    ) -> Result<Conversation> {
        Ok(Conversation::new(self.open_model(name, device, force)?))
    }

    /// Opens what a name means to be asked.
    pub(crate) fn open_model(
        &self,
        name: &str,
        device: Option<RequestedDevice>,
        force: bool,
    ) -> Result<OpenModel> {
        self.open_model_for(1, name, device, force)
    }

    /// The same for the server, to complete so many texts at once.
    pub(crate) fn open_to_serve(
        &self,
        slots: usize,
        cache: CacheType,
        name: &str,
        device: Option<RequestedDevice>,
        force: bool,
    ) -> Result<OpenModel> {
        let model = self.open_model_for(slots, name, device, force)?;
        model.serving(slots, cache)
    }

    fn open_model_for(
        &self,
        texts: usize,
        name: &str,
        device: Option<RequestedDevice>,
        force: bool,
    ) -> Result<OpenModel> {
        let folder = self.model_folder(name)?;
        let (place, choice, checked) = self.place_to_open(device)?;
        let needed = hub::chat_bytes_in(&folder, &choice, texts).filter(|_| !force);
        OpenModel::open(folder, place, checked, needed)
    }

    /// Where a model is opened for a device that was asked for, and what is known of the device.
    pub(super) fn place_to_open(
        &self,
        device: Option<RequestedDevice>,
    ) -> Result<(Place, Choice, Checked)> {
        let mut device = device.unwrap_or_else(|| self.settings().device);
        let mut choice = self.choose_device(Some(device), false, &self.devices.found())?;
        let checked = self.checked(&choice.device);
        // A device that can't train gives no right answers either.
        if checked.training_failed.is_some() {
            device = RequestedDevice::Cpu;
            choice = self.choose_device(Some(device), false, &self.devices.found())?;
        }
        let used = choice.device.requested();
        let place = Place {
            device,
            kind: self.kind_of(device),
            used,
            in_use: in_use::folder(&self.paths, used),
        };
        Ok((place, choice, checked))
    }

    /// The folder with the weights that a name means.
    pub(crate) fn model_folder(&self, name: &str) -> Result<PathBuf> {
        let path = Path::new(name);
        if store::models::is_model(path) || path.join(ADAPTER_CONFIG).is_file() {
            return Ok(path.to_owned());
        }
        // A word can be part of a run's id and the name of a model; the whole name of a model comes first.
        let model = store::models::find(&self.paths, &self.settings(), path);
        match (model, runs::find(&self.paths, name)) {
            (Ok(folder), _) => Ok(folder),
            (_, Ok(run)) => run.best_checkpoint(),
            (Err(error), Err(_)) if path.is_dir() => Err(error),
            (Err(_), Err(error)) => Err(AppError::invalid(format!("{error}, and no model either"))
                .with_hint("`anneal runs` lists runs; a model is named by its folder")),
        }
    }

    /// What a model is called by who is served: the run, or the folder.
    pub(crate) fn served_name(&self, name: &str) -> String {
        let run = runs::find(&self.paths, name).ok();
        run.map_or_else(|| name_of(Path::new(name)), |run| run.id)
    }

    /// The model that an adapter was trained for: what a run or a folder can be compared with.
    #[cfg(feature = "gui")]
    pub(crate) fn base_of(&self, name: &str) -> Option<String> {
        let run = runs::find(&self.paths, name).ok();
        let planned = run.and_then(|run| run.plan().ok()?.task.subject().base);
        let base = planned.or_else(|| {
            let folder = self.model_folder(name).ok()?;
            Some(base_of(&folder).ok()?.into())
        });
        let base = base.filter(|path| path.exists());
        base.map(|path| path.display().to_string())
    }
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
        let mut hear = |reply| match reply {
            Reply::Opened {
                answers,
                context,
                warnings,
            } => Some((answers, context, warnings)),
            _ => None,
        };
        let ask = Ask::OpenChat {
            folder,
            device: place.device,
            checked,
        };
        let opened = engine.ask_for(&ask, &mut hear, &|| false)?;
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
    pub(crate) fn context(&self) -> usize {
        self.context
    }

    /// Has probes of these folders score each token from now on, or without folders nobody. Those of another model only with `force`.
    /// Returns them in the order of their scores, and what a person should know of them.
    pub(crate) fn watch(
        &mut self,
        folders: Vec<PathBuf>,
        force: bool,
    ) -> Result<(Vec<LiveProbe>, Vec<String>)> {
        let probes = folders.into_iter().map(absolute).collect::<Result<_>>()?;
        let mut hear = |reply| match reply {
            Reply::Watching { probes, warnings } => Some((probes, warnings)),
            _ => None,
        };
        let ask = Ask::Watch { probes, force };
        let watching = self.engine.ask_for(&ask, &mut hear, &|| false)?;
        watching.ok_or_else(|| AppError::failed("the engine said nothing of the probes"))
    }

    /// Leads it along directions of probes from now on, or without any not any more. Those of another model only with `force`.
    pub(crate) fn steer(&mut self, by: Vec<SteerBy>, force: bool) -> Result<Led> {
        let by = by.into_iter().map(|it| {
            let probes = absolute(it.probes)?;
            Ok(SteerBy { probes, ..it })
        });
        let ask = Ask::Steer {
            by: by.collect::<Result<_>>()?,
            force,
        };
        let mut hear = |reply| match reply {
            Reply::Leading { led } => Some(led),
            _ => None,
        };
        let led = self.engine.ask_for(&ask, &mut hear, &|| false)?;
        led.ok_or_else(|| AppError::failed("the engine said nothing of the directions"))
    }

    /// Answers or continues, with `plain` as the model is also while it is led. `show` hears what is written; `stop` ends the answer
    /// where it is.
    pub(crate) fn answer(
        &mut self,
        prompt: Prompt,
        settings: &ChatSettings,
        plain: bool,
        show: &mut dyn FnMut(Heard),
        stop: &dyn Fn() -> bool,
    ) -> Result<Said> {
        let ask = Ask::Answer {
            prompt,
            settings: settings.clone(),
            plain,
        };
        let _in_use = InUse::begin(&self.in_use, Work::Answer);
        // What was written since the last token that was scored: the text of the next one.
        let mut written = String::new();
        let mut hear = |reply| match reply {
            Reply::Wrote { piece } => {
                show(Heard::Piece(&piece));
                written += &piece;
                None
            }
            Reply::Scored { mut scored } => {
                for token in scored.iter_mut().filter(|it| it.is_answer) {
                    token.text = std::mem::take(&mut written);
                }
                show(Heard::Scored(scored));
                None
            }
            Reply::Answered { said } => Some(said),
            _ => None,
        };
        let answer = self.engine.ask_for(&ask, &mut hear, stop)?;
        answer.ok_or_else(|| AppError::failed("the engine ended its answer without a word"))
    }
}

impl OpenModel {
    /// The same model for the server, which completes so many texts at once and keeps keys and values so.
    fn serving(mut self, slots: usize, cache: CacheType) -> Result<Self> {
        let ask = Ask::Serve { slots, cache };
        self.engine.ask(&ask, &mut |_| (), &|| Control::Continue)?;
        Ok(self)
    }

    /// Says that it computes, until the guard is dropped.
    pub(crate) fn computes(&self) -> Result<InUse> {
        InUse::begin(&self.in_use, Work::Answer)
    }

    /// Begins what the server was asked. What comes of it is told by [`Self::hear`].
    pub(crate) fn begin(&mut self, request: u64, wanted: Requested) -> Result<()> {
        self.engine.send(&Ask::Begin { request, wanted })
    }

    /// Ends a request, if it is not over.
    pub(crate) fn leave(&mut self, request: u64) -> Result<()> {
        self.engine.send(&Ask::Leave { request })
    }

    /// The next that is heard of a request, if something is within this time.
    pub(crate) fn hear(&mut self, wait: Duration) -> Result<Option<(u64, RequestEvent)>> {
        match self.engine.hear(wait)? {
            Some(Reply::OfRequest { request, event }) => Ok(Some((request, event))),
            Some(Reply::Refused { error }) => Err(error),
            _ => Ok(None),
        }
    }

    /// Says where an answer spends its time and memory, and what the device could do at best. Nothing when it was stopped.
    pub(crate) fn profile(
        &mut self,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<(AnswerProfile, Option<Ceilings>)>> {
        let _in_use = InUse::begin(&self.in_use, Work::Trial);
        let mut hear = |reply| match reply {
            Reply::ProfiledAnswer { profile, ceilings } => Some((*profile, ceilings)),
            _ => None,
        };
        self.engine.ask_for(&Ask::ProfileAnswer, &mut hear, stop)
    }
}

pub(super) fn refuse_what_does_not_fit(
    needed: u64,
    devices: &[FoundDevice],
    used: RequestedDevice,
) -> Result<()> {
    let device = devices.iter().find(|device| device.requested() == used);
    let free = device.and_then(|device| Some((device, device.free_bytes?)));
    let Some((device, free)) = free.filter(|(_, free)| needed > *free) else {
        return Ok(());
    };
    let (needed, free) = (figures::bytes(needed), figures::bytes(free));
    let message = format!(
        "chatting needs about {needed}, and {free} are free on {}",
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
    /// Begins a chat with a model.
    pub(crate) fn new(model: OpenModel) -> Self {
        Self {
            model,
            settings: ChatSettings::default(),
            messages: Vec::new(),
            text: String::new(),
            probes: Vec::new(),
            probe_folders: Vec::new(),
            led: Led::default(),
            last: None,
        }
    }

    /// The open model that answers.
    pub(crate) fn model(&self) -> &OpenModel {
        &self.model
    }

    /// Has probes of these folders score each token from now on. Returns what a person should know of them.
    pub(crate) fn watch(&mut self, folders: Vec<PathBuf>, force: bool) -> Result<Vec<String>> {
        self.probe_folders = folders.iter().map(|it| name_of(it)).collect();
        let (probes, warnings) = self.model.watch(folders, force)?;
        self.probes = probes;
        Ok(warnings)
    }

    /// What the folders of these probes are called, in their order.
    pub(crate) fn probe_folders(&self) -> &[String] {
        &self.probe_folders
    }

    /// The probes that score each token, in the order of their scores.
    pub(crate) fn probes(&self) -> &[LiveProbe] {
        &self.probes
    }

    /// Leads the model along directions of probes from now on.
    pub(crate) fn steer(&mut self, by: Vec<SteerBy>, force: bool) -> Result<()> {
        self.led = self.model.steer(by, force)?;
        Ok(())
    }

    /// How the model is led.
    pub(crate) fn led(&self) -> &Led {
        &self.led
    }

    /// What the model would have answered last if it were not led. It is no part of the conversation.
    pub(crate) fn unled(
        &mut self,
        show: &mut dyn FnMut(Heard),
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<Said>> {
        let Some(prompt) = self
            .last
            .clone()
            .filter(|_| !self.led.directions.is_empty())
        else {
            return Ok(None);
        };
        let said = self
            .model
            .answer(prompt, &self.settings, true, show, stop)?;
        Ok(Some(said))
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
    pub(crate) fn set_system(&mut self, text: &str) {
        self.messages.clear();
        self.text.clear();
        if !text.is_empty() {
            self.messages.push(Message::new(Role::System, text));
        }
    }

    /// Answers. A model that continues text does so from `text`, or with no words from where it stopped.
    ///
    /// What got no answer was not said, so that the next attempt starts where this one did.
    pub(crate) fn say(
        &mut self,
        text: &str,
        show: &mut dyn FnMut(Heard),
        stop: &dyn Fn() -> bool,
    ) -> Result<Said> {
        if !self.model.answers {
            if !text.is_empty() {
                self.text = text.to_owned();
            }
            let prompt = Prompt::Text(self.text.clone());
            self.last = Some(prompt.clone());
            let said = self
                .model
                .answer(prompt, &self.settings, false, show, stop)?;
            self.text.push_str(&said.answer.text);
            return Ok(said);
        }
        let mut messages = self.messages.clone();
        messages.push(Message::new(Role::User, text));
        let prompt = Prompt::Messages(messages.clone());
        self.last = Some(prompt.clone());
        let said = self
            .model
            .answer(prompt, &self.settings, false, show, stop)?;
        messages.push(Message::new(Role::Assistant, &said.answer.text));
        // What did not fit will not fit later either.
        let first = messages.iter().position(|it| it.role != Role::System);
        let first = first.unwrap_or_default();
        messages.drain(first..first + 2 * said.forgotten_turns);
        self.messages = messages;
        Ok(said)
    }
}

impl ChatSettings {
    /// The settings with one of them changed, given as `temperature=0.2`.
    pub(crate) fn with(&self, change: &str) -> Result<Self> {
        let wrong = |message: String| AppError::invalid(format!("`{change}`: {message}"));
        let (name, text) = change
            .split_once('=')
            .ok_or_else(|| wrong("write it like `temperature=0.2`".to_owned()))?;
        let value = parse_scalar(text).map_err(wrong)?;
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
                 `repetition_penalty`, `seed`, `max_tokens`, `cache`",
            ),
            (
                "cache=q4",
                "`cache=q4`: unknown variant `q4`, expected one of `auto`, `full`, `f16`, `q8`",
            ),
        ] {
            let error = ChatSettings::default().with(change).unwrap_err();
            assert_eq!(error.message, expected);
        }
    }
}
