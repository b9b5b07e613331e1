//! Exports, as the window shows them.

use models::tasks::language::export::Stage;
use serde::Serialize;
use serde_json::Value as Json;
use specta::Type;
use specta_typescript::Number;

use super::{Offered, Written};

/// One way to write something.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OfferView {
    /// The format, as it is asked for: `gguf-q8_0`.
    name: &'static str,
    title: &'static str,
    /// How the name of a file ends. Nothing where it is a folder.
    ending: Option<&'static str>,
    /// Its size, where that is known before it is written.
    #[specta(type = Option<Number>)]
    bytes: Option<u64>,
    /// The programs that it works in: `llama.cpp, Ollama`.
    readers: &'static str,
    /// What is lost, in sentences.
    losses: Vec<String>,
    /// Why it can't be written.
    refused: Option<String>,
    /// Why it can't be compared with what was trained now: too little memory is free.
    uncomparable: Option<String>,
    /// Whether LM Studio reads it and is on this machine.
    for_lm_studio: bool,
}

impl From<Offered> for OfferView {
    fn from(offered: Offered) -> Self {
        Self {
            for_lm_studio: offered.is_for_lm_studio(),
            name: offered.name,
            title: offered.title,
            ending: offered.ending,
            bytes: offered.bytes,
            readers: offered.readers,
            losses: offered.losses,
            refused: offered.refused,
            uncomparable: offered.uncomparable,
        }
    }
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExportView {
    /// The file or folder.
    path: String,
    bytes: u64,
    /// Whom it is for: `ONNX Runtime`.
    readers: &'static str,
    /// Whether it was compared with what was trained, and how, in a sentence.
    is_compared: bool,
    compared: String,
    /// What whoever uses it has to know, in sentences.
    notes: Vec<String>,
    /// How it was compared, figure by figure, where it is a language model.
    figures: Option<ComparedView>,
    /// Whether it can be added to Ollama, which is on this machine.
    for_ollama: bool,
}

/// How a language model was compared with what was trained.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ComparedView {
    /// What it was compared on: `held-out answers`.
    what: String,
    tokens: u32,
    /// How often the most likely next token is the same, as a share.
    #[specta(type = Number)]
    same_next_token: f64,
    /// Mean Kullback-Leibler divergence of the next token, in nats.
    #[specta(type = Number)]
    divergence: f64,
    #[specta(type = Number)]
    loss_before: f64,
    #[specta(type = Number)]
    loss_after: f64,
    /// How many texts became the same tokens: all of them. Nothing where no tokenizer was written.
    tokenized_alike: Option<u32>,
}

impl From<Written> for ExportView {
    fn from(written: Written) -> Self {
        Self {
            for_ollama: written.is_for_ollama(),
            path: written.path.display().to_string(),
            bytes: written.bytes,
            readers: written.readers,
            is_compared: !written.details["compared"].is_null(),
            compared: written.compared,
            notes: written.notes,
            figures: figures(&written.details["compared"]),
        }
    }
}

fn figures(compared: &Json) -> Option<ComparedView> {
    let number = |name: &str| compared[name].as_f64();
    let whole = |name: &str| u32::try_from(compared[name].as_u64()?).ok();
    Some(ComparedView {
        what: compared["what"].as_str()?.to_owned(),
        tokens: whole("tokens")?,
        same_next_token: number("same_next_token")?,
        divergence: number("divergence")?,
        loss_before: number("loss_before")?,
        loss_after: number("loss_after")?,
        tokenized_alike: whole("tokenized_alike"),
    })
}

/// How far an export is: a share of what is written, and nothing while it is compared.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExportStageView {
    written: Option<f64>,
}

impl From<Stage> for ExportStageView {
    fn from(stage: Stage) -> Self {
        Self {
            written: match stage {
                Stage::Writing { done, total } => Some(done as f64 / total.max(1) as f64),
                Stage::Comparing | Stage::Read => None,
            },
        }
    }
}
