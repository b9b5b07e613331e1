//! Models on this machine, with what is known of them without reading their weights.

use models::{
    arch::{chat_only, network::NetworkConfig},
    checkpoint::{folder::ModelFolder, load::chat_only_config},
    data::tokenizer::TEMPLATE_KEY,
    limits::MODEL_JSON,
};
use serde::Serialize;
use specta::Type;

use super::{ModelPlace, StoredModel, model_bytes};
use crate::{store::limits::read_text, wire::error::AppError};

/// A model on this machine, as the Models page lists it.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ModelView {
    /// How it is called here.
    name: String,
    /// Its folder.
    path: String,
    /// Where it comes from, which says what may be done with its files.
    place: ModelPlace,
    /// `llama`, if its config says.
    architecture: Option<String>,
    /// How many numbers it has.
    parameters: Option<u64>,
    /// What its folder holds.
    bytes: u64,
    /// The longest text it reads, in tokens.
    context: Option<usize>,
    /// Whether it was taught to answer; otherwise it continues text.
    answers: bool,
    /// That it can be used for chat alone, and which models can be trained. Nothing where it can be trained.
    chat_only: Option<String>,
    /// Why it can't be trained or used for chat.
    problem: Option<AppError>,
}

impl From<StoredModel> for ModelView {
    fn from(StoredModel { name, path, place }: StoredModel) -> Self {
        let tokenizer = path.join("tokenizer_config.json");
        let tokenizer = read_text(MODEL_JSON, &tokenizer, "read the tokenizer’s settings");
        let mut view = Self {
            name,
            place,
            architecture: None,
            parameters: None,
            bytes: model_bytes(&path),
            context: None,
            chat_only: None,
            answers: path.join("chat_template.jinja").is_file()
                || tokenizer.is_ok_and(|text| text.contains("\"chat_template\"")),
            problem: None,
            path: path.display().to_string(),
        };
        match ModelFolder::open(&path) {
            Err(error) => view.problem = Some(error.into()),
            Ok(folder) => {
                view.answers |= folder
                    .gguf
                    .as_ref()
                    .is_some_and(|it| it.get(TEMPLATE_KEY).is_some());
                let architecture = folder.config.get("model_type");
                view.architecture = architecture.and_then(|it| it.as_str()).map(str::to_owned);
                let context = match chat_only::family(&folder.config) {
                    Some(_) => {
                        view.chat_only = Some(chat_only::note());
                        chat_only_config(&folder).map(|it| it.context)
                    }
                    None => NetworkConfig::from_json(&folder.config).map(|it| it.context()),
                };
                match context {
                    Ok(context) => view.context = Some(context),
                    Err(error) => view.problem = Some(error.into()),
                }
                match folder.parameter_count() {
                    Ok(count) => view.parameters = Some(count),
                    Err(error) if view.problem.is_none() => view.problem = Some(error.into()),
                    Err(_) => {}
                }
            }
        }
        view
    }
}
