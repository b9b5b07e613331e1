//! A language model with all that belongs to it: network, adapter, tokenizer, chat template.

use std::path::{Path, PathBuf};

use candle_core::{DType, Device};
use serde_json::{Value as Json, json};

use crate::{
    Error, Result,
    arch::{lora::LoraConfig, network::Network},
    checkpoint::{
        adapter::{self, ADAPTER_CONFIG, ADAPTER_WEIGHTS},
        folder::{ModelFolder, WEIGHTS, read_json},
        load::{LoadDtypes, StoredWeights, load_network},
        model::save_network,
        quantize::Quantization,
        save::write_json,
    },
    data::{
        row::{Message, Role},
        template::ChatTemplate,
        tokenizer::Tokenizer,
    },
};

/// The file that says whether a model was trained to chat or to continue text, and what its frozen weights were put into.
const USE: &str = "anneal.json";
const QUANTIZE: &str = "quantize";

/// A language model, ready to learn or to write.
pub struct LanguageModel {
    /// The decoder or recursive model, with its weights and any adapter.
    pub network: Network,
    /// What of it is saved.
    pub saved_as: SavedAs,
    /// Text to tokens and back.
    pub tokenizer: Tokenizer,
    /// Conversations to text.
    pub template: ChatTemplate,
    /// Whether it answers turns; otherwise it continues text.
    pub chats: bool,
}

/// What of a model is saved.
#[derive(Debug, Clone, PartialEq)]
pub enum SavedAs {
    /// The adapter alone, in peft's files.
    Adapter {
        /// What it is.
        config: LoraConfig,
        /// The folder or name of the model it belongs to.
        base: String,
        /// What the frozen weights of that were put into when it learned.
        quantize: Option<Quantization>,
    },
    /// The whole model, in the layout of the Hub.
    Model {
        /// Its `config.json`.
        config: Json,
    },
}

impl LanguageModel {
    /// Opens a folder with a model, or with an adapter whose base model is where it was. Nothing of it is trainable.
    pub fn open(folder: &Path, dtypes: LoadDtypes, device: &Device) -> Result<Self> {
        let tokenizer = Tokenizer::load(folder)?;
        let template = ChatTemplate::of(&tokenizer)?;
        let (network, saved_as) = match folder.join(ADAPTER_CONFIG).exists() {
            true => {
                let base = base_of(folder)?;
                let model = ModelFolder::open(Path::new(&base))?;
                let quantize = quantize_of(folder)?;
                let dtypes = LoadDtypes { quantize, ..dtypes };
                let mut network = load_network(&model, dtypes, false, device)?;
                let config = adapter::load_adapter(network.decoder_mut()?, folder)?;
                let saved_as = SavedAs::Adapter {
                    config,
                    base,
                    quantize,
                };
                (network, saved_as)
            }
            false => {
                let model = ModelFolder::open(folder)?;
                let network = load_network(&model, dtypes, false, device)?;
                (
                    network,
                    SavedAs::Model {
                        config: model.config,
                    },
                )
            }
        };
        let chats = chats(folder, &template)?;
        Ok(Self {
            network,
            saved_as,
            tokenizer,
            template,
            chats,
        })
    }

    /// The tokens of what a user says: a turn of a conversation, or the beginning of a text.
    pub fn prompt(&self, text: &str) -> Result<Vec<u32>> {
        match self.chats {
            true => self.chat_prompt(&[Message::new(Role::User, text)]),
            false => self.tokenizer.encode(text, true),
        }
    }

    /// The tokens that ask for the assistant's next turn.
    pub fn chat_prompt(&self, messages: &[Message]) -> Result<Vec<u32>> {
        self.tokenizer
            .encode(&self.template.prompt(messages)?, false)
    }

    /// Writes what was trained, with tokenizer and template, into an existing folder.
    pub fn save(&self, folder: &Path) -> Result<()> {
        let mut used = json!({ "chats": self.chats });
        match &self.saved_as {
            SavedAs::Adapter {
                config,
                base,
                quantize,
            } => {
                if let Some(quantize) = quantize {
                    used[QUANTIZE] = json!(quantize);
                }
                let none = || Error::Data("there is no decoder that has an adapter".to_owned());
                let decoder = self.network.decoder().ok_or_else(none)?;
                adapter::save_adapter(decoder, config, base, folder)?
            }
            SavedAs::Model { config } => save_network(&self.network, config, folder)?,
        }
        let template = self.chats.then_some(self.template.source.as_str());
        self.tokenizer.save(folder, template)?;
        write_json(&folder.join(USE), &used)
    }

    /// Reads back the trainable weights that [`LanguageModel::save`] wrote.
    pub fn load_trained(&mut self, folder: &Path) -> Result<()> {
        let (file, prefix) = match self.saved_as {
            SavedAs::Adapter { .. } => (folder.join(ADAPTER_WEIGHTS), adapter::PREFIX),
            SavedAs::Model { .. } => (folder.join(WEIGHTS), ""),
        };
        let mut weights = StoredWeights::open(
            std::slice::from_ref(&file),
            file.clone(),
            DType::F32,
            self.network.device(),
        )?;
        let parameters = self.network.parameters();
        for parameter in parameters.trainable() {
            parameter.assign(&weights.raw(&format!("{prefix}{}", parameter.name()))?)?;
        }
        // What never learns is what the run began with.
        let is_frozen = |name: &str| parameters.get(name).is_some_and(|it| !it.trainable());
        weights.check_all_taken(is_frozen)
    }
}

/// The folder of the model that the adapter in `folder` belongs to.
pub fn base_of(folder: &Path) -> Result<String> {
    let path: PathBuf = folder.join(ADAPTER_CONFIG);
    let json = read_json(&path, "read the adapter’s config")?;
    let base = json.get("base_model_name_or_path").and_then(Json::as_str);
    base.map(str::to_owned)
        .ok_or_else(|| Error::format(&path, "does not name its base model"))
}

/// The folder of a whole model: this one, or the one that the adapter in it belongs to.
pub fn base_of_model(folder: &Path) -> Result<PathBuf> {
    match folder.join(ADAPTER_CONFIG).exists() {
        true => base_of(folder).map(PathBuf::from),
        false => Ok(folder.to_owned()),
    }
}

/// What the frozen weights beside the adapter in `folder` were put into when it learned.
pub(super) fn quantize_of(folder: &Path) -> Result<Option<Quantization>> {
    let path = folder.join(USE);
    if !path.exists() {
        return Ok(None);
    }
    let json = read_json(&path, "read how the model is used")?;
    let Some(name) = json.get(QUANTIZE).filter(|it| !it.is_null()) else {
        return Ok(None);
    };
    let quantize = name.as_str().and_then(Quantization::named);
    let wrong = || {
        Error::format(
            &path,
            format!("`{QUANTIZE}` is {name}, which is not known here"),
        )
    };
    quantize.map(Some).ok_or_else(wrong)
}

/// Whether the model answers turns: as it was trained here, or as its template says.
pub(super) fn chats(folder: &Path, template: &ChatTemplate) -> Result<bool> {
    let path = folder.join(USE);
    if !path.exists() {
        return Ok(template.origin != crate::data::template::TemplateOrigin::ChatMl);
    }
    let json = read_json(&path, "read how the model is used")?;
    Ok(json.get("chats").and_then(Json::as_bool).unwrap_or(true))
}
