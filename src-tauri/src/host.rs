//! What the window and the terminal share: everything the app can do, without saying how it is shown.

pub(crate) mod chat;
pub(crate) mod inspect;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use models::{
    arch::config::DecoderConfig,
    checkpoint::{
        adapter::ADAPTER_CONFIG,
        folder::{CONFIG, ModelFolder},
    },
    data::{
        DataRequest,
        encode::Learn,
        starter::{StarterData, starter_data},
    },
    device::{self, Choice, DeviceKind, DeviceRequest, FoundDevice, RequestedDevice},
    tasks::{
        language::text::{Text, TokenizerFrom},
        starter::{self, Examination},
    },
    train::{
        Facts, Resolved, TrainRequest,
        plan::{DataFacts, ModelFacts},
        preset,
        request::{Method, TokenizerSource},
        resolve,
    },
};

use crate::{
    host::{chat::Conversation, inspect::Inspection},
    jobs::engine::{self, Engine},
    store::{
        self,
        paths::Paths,
        record::RecordedEvent,
        runs::{self, Run},
        settings::Settings,
    },
    wire::{
        engine::{Ask, Reply},
        error::{AppError, Result},
    },
};

/// The linear weights of a layer in most checkpoints, and in those that fuse some.
const LINEARS: [&str; 7] = [
    "q_proj",
    "k_proj",
    "v_proj",
    "o_proj",
    "gate_proj",
    "up_proj",
    "down_proj",
];
const FUSED_LINEARS: [&str; 4] = ["qkv_proj", "o_proj", "gate_up_proj", "down_proj"];

/// The file of a tokenizer.
const TOKENIZER: &str = "tokenizer.json";

/// The app, opened on its folders.
#[derive(Debug)]
pub(crate) struct Host {
    /// Where everything is kept.
    pub(crate) paths: Paths,
    /// What the user prefers.
    pub(crate) settings: Settings,
    /// What the engines saw when they were first asked, and why one could not be.
    devices: OnceLock<(Vec<FoundDevice>, Vec<String>)>,
}

impl Host {
    /// Opens the app in `home`, or in the system's folders. Also returns what is odd about the settings.
    pub(crate) fn open(home: Option<&Path>) -> Result<(Self, Vec<String>)> {
        let paths = Paths::new(home)?;
        let (settings, warnings) = Settings::read(&paths.settings)?;
        let host = Self {
            paths,
            settings,
            devices: OnceLock::new(),
        };
        Ok((host, warnings))
    }

    /// The devices of this machine, the usable and the others.
    pub(crate) fn devices(&self) -> Vec<FoundDevice> {
        self.devices.get_or_init(engine::devices).0.clone()
    }

    /// What is wrong with engines that could not be asked for their devices.
    pub(crate) fn engine_problems(&self) -> &[String] {
        &self.devices.get_or_init(engine::devices).1
    }

    /// The device for a request; one that names none gets what the user prefers.
    pub(crate) fn choose_device(
        &self,
        asked: Option<RequestedDevice>,
        strict: bool,
        found: &[FoundDevice],
    ) -> Result<Choice> {
        let device = asked.unwrap_or(self.settings.device);
        Ok(device::choose(DeviceRequest { device, strict }, found)?)
    }

    /// Uses a device from now on, unless a run says otherwise.
    pub(crate) fn prefer_device(&self, device: RequestedDevice) -> Result<()> {
        Settings::set(&self.paths.settings, "device", &device.to_string())
    }

    /// What a request would mean, without starting it: reads all it names, and decides the rest.
    pub(crate) fn plan(&self, mut request: TrainRequest) -> Result<Resolved> {
        let scratch = request.method_or_default().value == Method::Scratch;
        if let Some(model) = request.model.as_mut().filter(|_| !scratch) {
            *model = store::models::find(&self.paths, &self.settings, model)?;
        }
        for file in &mut request.data.files {
            *file = std::path::absolute(&file).map_err(AppError::file("find the data", &file))?;
        }
        if let Some(scratch) = &mut request.scratch
            && let Some(TokenizerSource::File(path)) = &mut scratch.tokenizer
        {
            *path = tokenizer_folder(path)?;
        }
        let strict = request.strict.unwrap_or_default();
        let device = self.choose_device(request.device, strict, &self.devices())?;
        let model = request.model.as_deref().filter(|_| !scratch);
        let mut facts = Facts {
            model: model.map(model_facts).transpose()?,
            data: DataFacts::default(),
            vocab_size: 0,
            device,
            bf16_checked: false,
        };
        // Without data or model there is nothing to read; resolving says so, with all else that is wrong.
        let mut text = None;
        if !request.data.files.is_empty() && (scratch || request.model.is_some()) {
            let (source, vocab_size) = request.tokenizer_or_default();
            let tokenizer = match &request.model {
                Some(model) => TokenizerFrom::Folder(model),
                None => TokenizerFrom::of(&source, vocab_size),
            };
            let held_out = request.data.held_out.unwrap_or(preset::HELD_OUT);
            let seed = request.seed.unwrap_or(preset::SEED);
            let opened = Text::open(
                &request.data.source(),
                held_out.clamp(0.0, 0.5),
                tokenizer,
                seed,
            )?;
            facts.data = opened.facts()?;
            facts.vocab_size = opened.tokenizer.vocabulary_size();
            text = Some(opened);
        }
        let mut resolved = resolve(&request, &facts)?;
        if let Some(scratch) = &resolved.plan.scratch {
            check_config(&scratch.config)?;
        }
        if let Some(text) = text {
            resolved.warnings.extend(text.warnings(&resolved.plan)?);
        }
        Ok(resolved)
    }

    /// What is in data, counted as a model would, or as a new model trained on it.
    pub(crate) fn inspect_data(
        &self,
        request: &DataRequest,
        model: Option<&Path>,
        learn: Learn,
        max_length: usize,
    ) -> Result<Inspection> {
        let find = |model| store::models::find(&self.paths, &self.settings, model);
        let folder = model.map(find).transpose()?;
        let tokenizer = folder.as_deref().map(TokenizerFrom::Folder);
        inspect::inspect(request, tokenizer, learn, max_length)
    }

    /// Makes the folder of a new run.
    pub(crate) fn create_run(&self, resolved: &Resolved) -> Result<Run> {
        runs::create(&self.paths, resolved)
    }

    /// Trains a run in an engine, from its newest checkpoint if it has one, until it is done or asked to stop.
    ///
    /// Every event is on disk before it is shown. `started` is told the engine's number among the system's processes.
    pub(crate) fn train(
        &self,
        run: &Run,
        started: &mut dyn FnMut(u32),
        show: &mut dyn FnMut(&RecordedEvent),
        stop: &dyn Fn() -> bool,
    ) -> Result<()> {
        let kind = self.kind_of(run.plan()?.device);
        let mut engine = Engine::start(kind, Some(&run.log_file()))?;
        started(engine.id());
        let ask = Ask::Train {
            folder: run.folder.clone(),
        };
        let mut hear = |reply| {
            if let Reply::Happened { event } = reply {
                show(&event);
            }
        };
        engine.ask(&ask, &mut hear, stop)
    }

    /// Opens what a name means to be talked to: the folder of a model, a run, or a model in the folder of models.
    pub(crate) fn open_chat(
        &self,
        name: &str,
        device: Option<RequestedDevice>,
    ) -> Result<Conversation> {
        let device = device.unwrap_or(self.settings.device);
        Conversation::open(self.model_folder(name)?, device, self.kind_of(device))
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

    fn model_folder(&self, name: &str) -> Result<PathBuf> {
        let path = Path::new(name);
        if path.join(CONFIG).is_file() || path.join(ADAPTER_CONFIG).is_file() {
            return Ok(path.to_owned());
        }
        // A word can be part of a run's id and the name of a model; the whole name of a model comes first.
        let model = store::models::find(&self.paths, &self.settings, path);
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
    ) -> Result<(StarterData, TrainRequest)> {
        let data = starter_data(seed);
        let folder = self.paths.data.join(format!("starter-{seed}"));
        fs::create_dir_all(&folder).map_err(AppError::file("make the folder", &folder))?;
        let request = starter::request(starter::write_data(&data, &folder)?);
        Ok((
            data,
            TrainRequest {
                seed: Some(seed),
                device,
                ..request
            },
        ))
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
        let device = device.unwrap_or(self.settings.device);
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
        Engine::start(self.kind_of(device), None)?.ask(&ask, &mut hear, stop)?;
        examination
            .ok_or_else(|| AppError::failed("the engine ended the examination without a word"))
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

/// What a plan depends on in a model.
fn model_facts(folder: &Path) -> Result<ModelFacts> {
    let config = DecoderConfig::from_json(&ModelFolder::open(folder)?.config)?;
    let linears = match config.fused_projections {
        true => FUSED_LINEARS.iter(),
        false => LINEARS.iter(),
    };
    Ok(ModelFacts {
        context: config.max_position_embeddings,
        layers: config.layers.len(),
        linears: linears.map(|&name| name.to_owned()).collect(),
    })
}

/// The folder of a tokenizer that is named by its folder, or by its file `tokenizer.json`.
fn tokenizer_folder(path: &Path) -> Result<PathBuf> {
    let wrong = |problem: &str| {
        let path = path.display();
        AppError::invalid(format!("`scratch.tokenizer` {problem}: `{path}`"))
            .with_field("scratch.tokenizer")
    };
    let absolute = std::path::absolute(path).map_err(AppError::file("find the tokenizer", path))?;
    match absolute.is_file() {
        false if absolute.join(TOKENIZER).is_file() => Ok(absolute),
        false => Err(wrong(
            "is neither `trained` nor a folder with a `tokenizer.json`",
        )),
        true if absolute.ends_with(TOKENIZER) => {
            Ok(absolute.parent().map(Path::to_owned).unwrap_or_default())
        }
        true => Err(wrong("is a file with another name than `tokenizer.json`")),
    }
}

/// Whether a new model can be made from a plan's config.
fn check_config(config: &serde_json::Map<String, serde_json::Value>) -> Result<()> {
    let described = DecoderConfig::from_json(&serde_json::Value::Object(config.clone()));
    match described {
        Ok(_) => Ok(()),
        Err(models::Error::Setting { field, problem }) => {
            Err(models::Error::setting(format!("scratch.config.{field}"), problem).into())
        }
        Err(error) => Err(error.into()),
    }
}
