//! What a model of the Hub is good for on this machine, before any of it is fetched.

#[cfg(feature = "gui")]
pub(crate) mod view;

use std::path::{Path, PathBuf};

use models::{
    arch::{
        chat_only::{self, ChatOnly, ChatOnlyConfig},
        network::NetworkConfig,
    },
    checkpoint::{
        adapter::ADAPTER_CONFIG,
        folder::{CONFIG, ModelFolder, read_json},
        load::chat_only_config,
    },
    data::encode::Learn,
    device::{
        Checked, Choice, DeviceRequest, choose,
        dtype::{DeviceClass, Role, choose_dtype},
    },
    tasks::language::{
        Language, LanguageFacts, LanguageRequest, footprint::inference_bytes, model::base_of,
        plan::DataFacts, request::Method,
    },
    train::{Facts, Kind, RunRequest, TrainRequest, resolve},
};
use serde::Serialize;

use super::Host;
use crate::{
    hub::repository::Repository,
    store::hub_cache::names::{RepositoryKind, shown},
    wire::error::Result,
};

/// Tokens of a chat that is long for a small model.
const TALK_TOKENS: usize = 4096;
/// Rows of a data set of a usual size, and tokens of each: what a model takes depends little on them.
const USUAL: (usize, usize) = (1000, 512);

/// What can be done with a model, and why no more.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Uses {
    /// `llama`, if its config says.
    pub(crate) architecture: Option<String>,
    /// The longest text it reads, in tokens.
    pub(crate) context: Option<usize>,
    pub(crate) can_train: bool,
    pub(crate) can_chat: bool,
    /// Whole sentences.
    pub(crate) notes: Vec<String>,
    pub(crate) fits: Vec<Fit>,
}

/// What some use of a model takes of this machine's memory.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Fit {
    pub(crate) name: &'static str,
    /// As estimated from shapes.
    pub(crate) bytes: u64,
    pub(crate) free_bytes: Option<u64>,
}

impl Host {
    /// Whether a name means a run, an adapter, or a model with its weights. Other programs leave only a config at times.
    pub(crate) fn is_whole_model(&self, name: &str) -> bool {
        self.model_folder(name).is_ok_and(|folder| {
            folder.join(ADAPTER_CONFIG).is_file() || ModelFolder::open(&folder).is_ok()
        })
    }

    /// What can be done here with a repository.
    pub(crate) fn uses(&self, repository: &Repository) -> Uses {
        let mut uses = Uses::default();
        if repository.left_out > 0 {
            let count = repository.left_out;
            uses.notes.push(format!(
                "{count} of its files can’t be kept here, because of their names, sizes or number."
            ));
        }
        if repository.kind == RepositoryKind::Data {
            return uses;
        }
        let paths = repository.files.iter().map(|file| file.path.as_str());
        let has = |ending: &str| paths.clone().any(|path| path.ends_with(ending));
        let has_file = |name: &str| paths.clone().any(|path| path == name);
        let mut needed = repository.needed().into_iter();
        let has_weights = needed.any(|file| file.path.ends_with(".safetensors"));
        let config = repository.config.as_ref();
        let read = config.map(|json| (json, NetworkConfig::from_json(json)));
        let architecture = read
            .as_ref()
            .and_then(|(json, _)| json.get("model_type")?.as_str());
        uses.architecture = architecture.map(shown);
        match read {
            _ if has_file(ADAPTER_CONFIG) => uses.notes.push(
                "It is an adapter, which changes another model. Anneal chats with adapters that lie beside their model.".to_owned(),
            ),
            None if repository.gate.is_some() => {}
            None => uses.notes.push("It has no config.json, which says what a model is.".to_owned()),
            Some((json, _)) if chat_only::family(json).is_some() => {
                match ChatOnlyConfig::from_json(json) {
                    Err(error) => uses.notes.push(format!("Anneal can’t compute it: {error}.")),
                    Ok(config) => {
                        uses.context = Some(config.context);
                        uses.can_chat = has_weights && has_file("tokenizer.json");
                        uses.notes.push(chat_only::note());
                    }
                }
            }
            Some((_, Err(error))) => uses.notes.push(format!("Anneal can’t compute it: {error}.")),
            Some((_, Ok(config))) => {
                uses.context = Some(config.context());
                uses.can_train = has_weights && has_file("tokenizer.json");
                uses.can_chat = uses.can_train;
                uses.fits = self.fits(&config);
            }
        }
        if !has_weights && repository.gate.is_none() {
            uses.notes.push(match () {
                () if has(".gguf") => "Its weights are GGUF, one file for each size. Fetch one by its name, and it stands among your models.",
                () if has(".bin") || has(".pt") || has(".pth") => "Its weights are pickles, which can do anything to a machine that opens them. Anneal opens safetensors only.",
                () => "It has no weights as safetensors.",
            }.to_owned());
        } else if has_weights && !has_file("tokenizer.json") {
            uses.notes
                .push("It has no tokenizer.json, so Anneal can’t read text for it.".to_owned());
        }
        if uses.can_chat && !repository.answers {
            uses.notes
                .push("It continues text: it was not taught to answer.".to_owned());
        }
        uses
    }

    /// What chat and training would take. A use that can't be planned for is left out.
    fn fits(&self, config: &NetworkConfig) -> Vec<Fit> {
        let request = DeviceRequest {
            device: self.settings().device,
            strict: false,
        };
        let Ok(choice) = choose(request, &self.devices.found()) else {
            return Vec::new();
        };
        let free_bytes = choice.device.free_bytes;
        let fit = |name, bytes: Result<u64>| {
            Some(Fit {
                name,
                bytes: bytes.ok()?,
                free_bytes,
            })
        };
        let train = |method| training_bytes(config, method, &choice);
        let fits = [
            fit("Chat", chat_bytes(config, &choice, 1)),
            fit("Train an adapter", train(Method::Lora)),
            fit("Train all weights", train(Method::Full)),
        ];
        fits.into_iter().flatten().collect()
    }
}

/// What so many long chats at once with the model in a folder take, if the folder says what it holds.
pub(super) fn chat_bytes_in(folder: &Path, choice: &Choice, chats: usize) -> Option<u64> {
    let base = match folder.join(ADAPTER_CONFIG).is_file() {
        true => PathBuf::from(base_of(folder).ok()?),
        false => folder.to_owned(),
    };
    let config = read_json(&base.join(CONFIG), "read the model’s config").ok()?;
    if chat_only::family(&config).is_some() {
        let folder = ModelFolder::open(&base).ok()?;
        let config = chat_only_config(&folder).ok()?;
        let numbers = folder.parameter_count().ok()?;
        let tokens = chats * TALK_TOKENS.min(config.context);
        let numbers = numbers + (config.cached_numbers * tokens) as u64;
        return Some(numbers * ChatOnly::DTYPE.size_in_bytes() as u64);
    }
    let config = NetworkConfig::from_json(&config).ok()?;
    chat_bytes(&config, choice, chats).ok()
}

fn chat_bytes(config: &NetworkConfig, choice: &Choice, chats: usize) -> Result<u64> {
    let class = DeviceClass::of(&choice.device, false);
    let storage = choose_dtype(class, Role::Storage, None, &[], false)?.dtype;
    let compute = choose_dtype(class, Role::Compute, None, &[], false)?.dtype;
    let tokens = chats * TALK_TOKENS.min(config.context());
    let device = choice.device.requested();
    Ok(inference_bytes(config, storage, compute, tokens, device))
}

/// What a run takes that is planned as if nothing were asked for.
fn training_bytes(config: &NetworkConfig, method: Method, choice: &Choice) -> Result<u64> {
    let (rows, length) = USUAL;
    let mut task = LanguageRequest {
        model: Some(PathBuf::from("model")),
        method: Some(method),
        ..LanguageRequest::default()
    };
    task.data.files = vec![PathBuf::from("data.jsonl")];
    task.data.learn = Some(Learn::default());
    let facts = LanguageFacts {
        model: Some(config.clone().into()),
        data: DataFacts {
            read_as: String::new(),
            chat: true,
            rows,
            held_out_rows: rows / 20,
            tokens: rows * length / 2,
            length_95: length,
            length_longest: length,
            longer: Vec::new(),
        },
        vocab_size: config.vocab_size(),
    };
    let facts = Facts {
        task: facts,
        device: choice.clone(),
        checked: Checked::default(),
    };
    let run = RunRequest::default();
    let plan = resolve::<Language>(&TrainRequest { run, task }, &facts)?.plan;
    Ok(Language::estimate(&plan, &config.clone().into()).bytes())
}
