//! Models on this machine.

use serde::Serialize;
use specta::Type;
use specta_typescript::Number;

use super::{ModelInfo, ModelPlace};

/// A model.
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
    parameters: Option<f64>,
    /// What its folder holds.
    #[specta(type = Number)]
    bytes: f64,
    /// The longest text it reads, in tokens.
    context: Option<u32>,
    /// Whether it was taught to answer; otherwise it continues text.
    answers: bool,
    /// Why it can't be trained or talked to.
    problem: Option<String>,
}

impl From<ModelInfo> for ModelView {
    fn from(info: ModelInfo) -> Self {
        Self {
            name: info.model.name,
            path: info.model.path.display().to_string(),
            place: info.model.place,
            architecture: info.architecture,
            parameters: info.parameters.map(|count| count as f64),
            bytes: info.bytes as f64,
            context: info.context.map(|tokens| tokens as u32),
            answers: info.answers,
            problem: info.problem,
        }
    }
}
