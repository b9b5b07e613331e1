//! What the window and the terminal share: everything the app can do, without saying how it is shown.

pub(crate) mod bench;
pub(crate) mod chat;
pub(crate) mod check;
mod device_use;
#[cfg(feature = "gui")]
pub(crate) mod form;
pub(crate) mod hub;
pub(crate) mod inspect;
mod plan;
mod train;
mod trial;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use models::{
    checkpoint::{adapter::ADAPTER_CONFIG, folder::CONFIG},
    data::{
        DataRequest,
        encode::Learn,
        starter::{StarterData, starter_data},
    },
    device::{self, Choice, DeviceKind, DeviceRequest, FoundDevice, RequestedDevice},
    tasks::{AnyRequest, AnyResolved, TaskRequest},
    tasks::{
        language::text::TokenizerFrom,
        starter::{self, Examination},
    },
};

use crate::{
    host::{
        chat::{Conversation, OpenModel, Place},
        inspect::Inspection,
    },
    hub::Hub,
    jobs::engine::{self, Engine, Wish},
    store::{
        self,
        in_use::{self, Work},
        paths::Paths,
        runs::{self, Run},
        settings::Settings,
    },
    wire::{
        engine::{Ask, Reply},
        error::{AppError, Result},
    },
};

/// The app, opened on its folders.
pub(crate) struct Host {
    /// Where everything is kept.
    pub(crate) paths: Paths,
    /// What the user prefers.
    settings: Mutex<Settings>,
    /// What the engines saw when they were last asked, and why one could not be.
    devices: Mutex<Option<Seen>>,
    /// The Hugging Face Hub.
    pub(crate) hub: Hub,
    /// The data that was last planned with.
    read_data: Mutex<Option<plan::ReadData>>,
}

/// What the engines saw, and when.
#[derive(Debug, Clone)]
struct Seen {
    devices: Vec<FoundDevice>,
    problems: Vec<String>,
    at: Instant,
}

/// The field of the settings that names the device of a run that does not.
const DEVICE: &str = "device";
/// How old the answer of the engines may be for who wants to know what is free.
#[cfg(feature = "gui")]
const SEEN_FOR: std::time::Duration = std::time::Duration::from_secs(30);

/// The value behind a lock, also after a thread panicked while it held it: each is whole at any time.
pub(crate) fn locked<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Host {
    /// Opens the app in `home`, or in the system's folders. Also returns what is odd about the settings.
    pub(crate) fn open(home: Option<&Path>) -> Result<(Self, Vec<String>)> {
        let paths = Paths::new(home)?;
        let (settings, warnings) = Settings::read(&paths.settings)?;
        let host = Self {
            hub: Hub::new(&paths),
            settings: Mutex::new(settings),
            devices: Mutex::default(),
            read_data: Mutex::default(),
            paths,
        };
        Ok((host, warnings))
    }

    /// Opens the app to use a device from now on, also where the settings can't be read.
    pub(crate) fn open_with_device(
        home: Option<&Path>,
        device: RequestedDevice,
    ) -> Result<(Self, Vec<String>)> {
        let path = Paths::new(home)?.settings;
        let aside = Settings::repair(&path, DEVICE, &device.to_string())?;
        let (host, mut warnings) = Self::open(home)?;
        warnings.extend(aside.map(|aside| {
            let aside = aside.display();
            format!("the settings could not be read, and are begun anew; the old ones are kept: `{aside}`")
        }));
        Ok((host, warnings))
    }

    /// What the user prefers.
    pub(crate) fn settings(&self) -> Settings {
        locked(&self.settings).clone()
    }

    /// Changes what the user prefers; the value is written as in the file.
    pub(crate) fn set(&self, field: &str, value: &str) -> Result<()> {
        let mut settings = locked(&self.settings);
        Settings::set(&self.paths.settings, field, value)?;
        *settings = Settings::read(&self.paths.settings)?.0;
        Ok(())
    }

    /// The devices of this machine, the usable and the others.
    pub(crate) fn devices(&self) -> Vec<FoundDevice> {
        self.seen().devices
    }

    /// What is wrong with engines that could not be asked for their devices.
    pub(crate) fn engine_problems(&self) -> Vec<String> {
        self.seen().problems
    }

    /// The engine programs there are, in words.
    #[cfg(feature = "gui")]
    pub(crate) fn engines(&self) -> Vec<String> {
        engine::programs()
    }

    /// The model that an adapter was trained for: what a run or a folder can be compared with.
    #[cfg(feature = "gui")]
    pub(crate) fn base_of(&self, name: &str) -> Option<String> {
        let run = self.find_run(name).ok();
        let planned = run.and_then(|run| run.plan().ok()?.task.subject().base);
        let base = planned.or_else(|| {
            let folder = self.model_folder(name).ok()?;
            Some(
                models::tasks::language::model::base_of(&folder)
                    .ok()?
                    .into(),
            )
        });
        let base = base.filter(|path| path.is_dir());
        base.map(|path| path.display().to_string())
    }

    /// Has the engines asked again, if that was a while ago. Not while a run goes on: asking a card takes memory of it.
    #[cfg(feature = "gui")]
    pub(crate) fn look_again(&self) {
        let mut seen = locked(&self.devices);
        if seen
            .as_ref()
            .is_some_and(|seen| seen.at.elapsed() > SEEN_FOR)
        {
            *seen = None;
        }
    }

    fn seen(&self) -> Seen {
        let mut seen = locked(&self.devices);
        if let Some(seen) = seen.as_ref() {
            return seen.clone();
        }
        let (devices, problems) = engine::devices();
        let at = Instant::now();
        seen.insert(Seen {
            devices,
            problems,
            at,
        })
        .clone()
    }

    /// The device for a request; one that names none gets what the user prefers.
    pub(crate) fn choose_device(
        &self,
        asked: Option<RequestedDevice>,
        strict: bool,
        found: &[FoundDevice],
    ) -> Result<Choice> {
        let device = asked.unwrap_or_else(|| self.settings().device);
        Ok(device::choose(DeviceRequest { device, strict }, found)?)
    }

    /// Uses a device from now on, unless a run says otherwise.
    pub(crate) fn prefer_device(&self, device: RequestedDevice) -> Result<()> {
        self.set(DEVICE, &device.to_string())
    }

    /// What is in data, counted as a model would, or as a new model trained on it.
    pub(crate) fn inspect_data(
        &self,
        request: &DataRequest,
        model: Option<&Path>,
        learn: Learn,
        max_length: usize,
    ) -> Result<Inspection> {
        let find = |model| store::models::find(&self.paths, &self.settings(), model);
        let folder = model.map(find).transpose()?;
        let tokenizer = folder.as_deref().map(TokenizerFrom::Folder);
        inspect::inspect(request, tokenizer, learn, max_length)
    }

    /// Makes the folder of a new run.
    pub(crate) fn create_run(&self, resolved: &AnyResolved) -> Result<Run> {
        runs::create(&self.paths, resolved)
    }

    /// Opens what a name means to be talked to: the folder of a model, a run, or a model in the folder of models. One that does
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
        let folder = self.model_folder(name)?;
        let mut device = device.unwrap_or_else(|| self.settings().device);
        let mut choice = self.choose_device(Some(device), false, &self.devices())?;
        let checked = self.checked(&choice.device);
        // A device that can't train gives no right answers either.
        if checked.training_failed.is_some() {
            device = RequestedDevice::Cpu;
            choice = self.choose_device(Some(device), false, &self.devices())?;
        }
        let used = choice.device.requested();
        let place = Place {
            device,
            kind: self.kind_of(device),
            used,
            in_use: in_use::folder(&self.paths, used),
        };
        let needed = hub::talk_bytes_in(&folder, &choice).filter(|_| !force);
        OpenModel::open(folder, place, checked, needed)
    }

    /// The kind of device that a request will most likely mean: it decides which engine is started.
    fn kind_of(&self, device: RequestedDevice) -> DeviceKind {
        match device {
            RequestedDevice::Cuda(_) => DeviceKind::Cuda,
            RequestedDevice::Auto => self
                .choose_device(Some(device), false, &self.devices())
                .map_or(DeviceKind::Cpu, |choice| choice.device.kind),
            _ => DeviceKind::Cpu,
        }
    }

    /// The folder with the weights that a name means.
    pub(crate) fn model_folder(&self, name: &str) -> Result<PathBuf> {
        let path = Path::new(name);
        if path.join(CONFIG).is_file() || path.join(ADAPTER_CONFIG).is_file() {
            return Ok(path.to_owned());
        }
        // A word can be part of a run's id and the name of a model; the whole name of a model comes first.
        let model = store::models::find(&self.paths, &self.settings(), path);
        match (model, self.find_run(name)) {
            (Ok(folder), _) => Ok(folder),
            (_, Ok(run)) => run.best_checkpoint(),
            (Err(error), Err(_)) if path.is_dir() => Err(error),
            (Err(_), Err(error)) => Err(AppError::invalid(format!("{error}, and no model either"))
                .with_hint("`anneal runs` lists runs; a model is named by its folder")),
        }
    }

    /// Writes the starter's data, and asks for the model that learns from it.
    pub(crate) fn write_starter(
        &self,
        seed: u64,
        device: Option<RequestedDevice>,
    ) -> Result<(StarterData, AnyRequest)> {
        let data = starter_data(seed);
        let folder = self.paths.data.join(format!("starter-{seed}"));
        fs::create_dir_all(&folder).map_err(AppError::file("make the folder", &folder))?;
        let mut request = starter::request(starter::write_data(&data, &folder)?);
        (request.run.seed, request.run.device) = (Some(seed), device);
        Ok((data, request.map(TaskRequest::from)))
    }

    /// Asks what a starter run has learned every question that was kept aside.
    pub(crate) fn examine_starter(
        &self,
        run: &Run,
        data: &StarterData,
        device: Option<RequestedDevice>,
        progress: &mut dyn FnMut(usize),
        stop: &dyn Fn() -> bool,
    ) -> Result<Examination> {
        let device = device.unwrap_or_else(|| self.settings().device);
        let ask = Ask::Examine {
            folder: run.best_checkpoint()?,
            device,
            questions: data.held_out.clone(),
        };
        let mut examination = None;
        let mut hear = |reply| match reply {
            Reply::Examined { count } => progress(count),
            Reply::Passed {
                examination: passed,
            } => examination = Some(passed),
            _ => {}
        };
        let mut engine = Engine::start(self.kind_of(device), None)?;
        let _in_use = self.use_device(device, Work::Examination);
        engine.ask(&ask, &mut hear, &|| Wish::stop_if(stop()))?;
        examination
            .ok_or_else(|| AppError::failed("the engine ended the examination without a word"))
    }

    /// The run with exactly this id, if the app keeps it.
    #[cfg(feature = "gui")]
    pub(crate) fn run(&self, id: &str) -> Result<Run> {
        let found = self.runs().into_iter().find(|run| run.id == id);
        found.ok_or_else(|| AppError::invalid(format!("there is no run `{id}`")))
    }

    /// The run with this id, or the only one whose id has these words in it, if the app keeps it.
    pub(crate) fn find_stored_run(&self, words: &str) -> Result<Run> {
        runs::find_stored(&self.paths, words)
    }

    /// All runs, the newest last.
    pub(crate) fn runs(&self) -> Vec<Run> {
        runs::list(&self.paths)
    }

    /// The run with this id, or the only one whose id has these words in it.
    pub(crate) fn find_run(&self, words: &str) -> Result<Run> {
        runs::find(&self.paths, words)
    }
}
