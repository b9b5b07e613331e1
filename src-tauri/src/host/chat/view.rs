//! A chat with a model.

use std::path::Path;

use models::{
    checkpoint::save::name_of,
    generate::Ended,
    tasks::probe::{
        folder::AboutProbes,
        live::{LiveProbe, ReadFrom},
        steer::{How, Steered},
    },
};
use serde::{Deserialize, Serialize};
use specta::Type;
use specta_typescript::Number;

use crate::{
    store::conversations::ConversationFile,
    wire::chat::{ChatSettings, Led, Said, SteerBy},
};

/// A model that is open for chat.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChatView {
    /// Whether it answers; otherwise it continues what is said.
    pub(crate) answers: bool,
    /// The longest conversation it can read, in tokens.
    pub(crate) context: usize,
    /// How answers are written.
    pub(crate) sampling: ChatSettings,
    /// What a person should know about where it computes.
    pub(crate) warnings: Vec<String>,
    /// The folder of the model that an adapter was trained for: what to compare it with.
    pub(crate) base: Option<String>,
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AnswerView {
    text: String,
    tokens: usize,
    #[specta(type = Number)]
    tokens_per_second: f64,
    /// Seconds until the first token.
    #[specta(type = Number)]
    first_seconds: f64,
    /// Tokens of the conversation with the answer: what it takes of the context.
    context_used: usize,
    /// How many of the oldest turns were left out, because the conversation is longer than the model can read.
    forgotten_turns: usize,
    /// Why it ended, where that is not the model's own end.
    cut: Option<String>,
}

/// Probes that can be asked of what a model writes.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProbesView {
    /// Their folder.
    folder: String,
    /// The run that they are of.
    name: String,
    /// What they look for.
    labels: Vec<String>,
}

/// The probes that are asked of each token from now on.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WatchView {
    /// In the order of their scores.
    pub(crate) probes: Vec<LiveProbeView>,
    /// What a person should know of them.
    pub(crate) warnings: Vec<String>,
}

/// A probe that is asked of each token.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LiveProbeView {
    /// Its folder.
    folder: String,
    /// What it looks for.
    label: String,
    /// Where it reads.
    site: String,
    /// Scores from here on are called active.
    #[specta(type = Number)]
    threshold: f64,
    /// What a score is multiplied by and what is added, to make a probability of it: where that was fitted.
    scale: Option<ScaleView>,
    /// Whether it reads what follows a text, which is then read after each token, and not the token itself.
    reads_suffix: bool,
}

/// Scores to probabilities: 1 / (1 + e^-(scale · score + shift)).
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ScaleView {
    #[specta(type = Number)]
    scale: f64,
    #[specta(type = Number)]
    shift: f64,
}

/// A probe along whose direction a model is to be led.
#[derive(Debug, Clone, PartialEq, Deserialize, Type)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SteerView {
    /// Its folder.
    folder: String,
    /// Its label.
    label: String,
    /// By how many times the usual length of states they are moved, below 0 away from the label. Without it, what they have along the
    /// direction is taken away.
    strength: Option<f64>,
}

/// How a model is led from now on.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LeadView {
    directions: Vec<DirectionView>,
    /// How well it predicts a text that has nothing to do with anything, as it is and while it is led, where it computes numbers then;
    /// nothing while it is not led.
    #[specta(type = Option<(Number, Option<Number>)>)]
    perplexity: Option<(f64, Option<f64>)>,
    /// What a person should know of the probes.
    warnings: Vec<String>,
}

/// A direction along which a model is led.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DirectionView {
    label: String,
    site: String,
    /// What it is, in words.
    made_of: String,
    /// How long states there usually are.
    #[specta(type = Number)]
    usual_length: f64,
}

/// A conversation in the list.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConversationView {
    id: String,
    title: String,
    model_title: String,
    turns: usize,
    /// When it was last saved, in UTC.
    changed: String,
}

impl ProbesView {
    /// Of a folder, and the run with this id if it is of one.
    pub(crate) fn new(folder: &Path, run: Option<&str>, about: &AboutProbes) -> Self {
        let chosen = about.probes.iter().filter(|it| it.is_chosen);
        Self {
            folder: folder.display().to_string(),
            name: run.map_or_else(|| name_of(folder), str::to_owned),
            labels: chosen.map(|it| it.label.clone()).collect(),
        }
    }
}

impl SteerView {
    /// What is asked of an engine.
    pub(crate) fn asked(self) -> SteerBy {
        SteerBy {
            probes: self.folder.into(),
            label: Some(self.label),
            how: self.strength.map_or(How::Remove, How::Add),
        }
    }
}

impl From<Led> for LeadView {
    fn from(led: Led) -> Self {
        let direction = |it: Steered| DirectionView {
            label: it.label,
            site: it.site.to_string(),
            made_of: it.made_of.words().to_owned(),
            usual_length: it.usual_length,
        };
        Self {
            directions: led.directions.into_iter().map(direction).collect(),
            perplexity: led.cost.map(|it| (it.plain, it.steered)),
            warnings: led.warnings,
        }
    }
}

impl LiveProbeView {
    /// Of one of these folders.
    pub(crate) fn new(probe: &LiveProbe, folders: &[String]) -> Self {
        Self {
            folder: folders.get(probe.folder).cloned().unwrap_or_default(),
            label: probe.label.clone(),
            site: probe.site.to_string(),
            threshold: f64::from(probe.threshold),
            scale: probe.scale.map(|it| ScaleView {
                scale: it.scale,
                shift: it.shift,
            }),
            reads_suffix: probe.way == ReadFrom::Suffix,
        }
    }
}

impl From<Said> for AnswerView {
    fn from(
        Said {
            answer,
            forgotten_turns,
        }: Said,
    ) -> Self {
        let read = answer.prompt_tokens + answer.cached_tokens;
        Self {
            tokens: answer.tokens.len(),
            tokens_per_second: answer.tokens_per_second(),
            first_seconds: answer.prompt_seconds,
            context_used: read + answer.tokens.len(),
            forgotten_turns,
            cut: match answer.ended {
                Ended::MaxTokens => Some("max tokens reached".to_owned()),
                Ended::Context => Some("context full".to_owned()),
                Ended::Asked => Some("stopped".to_owned()),
                Ended::StopToken | Ended::StopText => None,
            },
            text: answer.text,
        }
    }
}

impl From<ConversationFile> for ConversationView {
    fn from(file: ConversationFile) -> Self {
        Self {
            id: file.id,
            title: file.title,
            model_title: file.model_title,
            turns: file.turns.len(),
            changed: file.changed,
        }
    }
}
