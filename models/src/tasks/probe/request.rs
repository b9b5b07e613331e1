//! What a person asks of a run that trains probes, and what is planned, beside what every run is asked and plans.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{
    capture::CaptureRequest, capture_prompt::PromptRequest, fitting::SolverName,
    labelled::LabelledRequest, states::Position, study::Settings,
};
use crate::{arch::sites::Site, train::tree::Part};

/// What a run of probes doesn't read: there are no steps that follow gradients.
const UNREAD: &[&str] = &[
    "epochs",
    "batch",
    "learning_rate",
    "schedule",
    "optimizer",
    "clip_norm",
    "ema",
    "gradient_checkpointing",
    "memory_fallback",
    "evaluate",
    "sample",
];

/// The part of a request that is about probes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProbeRequest {
    /// The model whose states are read: a folder, or the name of one.
    pub model: Option<PathBuf>,
    /// What to learn from.
    pub data: ProbeDataRequest,
    /// How texts are shown, which states are kept, and how weights are found.
    pub probe: SettingsRequest,
}

impl Part for ProbeRequest {}

/// What to learn from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProbeDataRequest {
    /// Labelled text; or one folder of states that were captured before.
    pub files: Vec<PathBuf>,
    /// The column with the text.
    pub text_column: Option<String>,
    /// The column with the label, or with a list of labels.
    pub label_column: Option<String>,
    /// The column with what belongs together.
    pub group_column: Option<String>,
    /// Whether rows that can't be used are left out. Without it, one such row is an error.
    pub skip_bad_rows: Option<bool>,
}

/// How texts are shown, which states are kept, and how weights are found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "they are those of `SettingsPlan`")]
pub struct SettingsRequest {
    pub suffix: Option<String>,
    pub chat: Option<bool>,
    pub position: Option<Position>,
    pub sites: Option<Vec<Site>>,
    pub labels: Option<Vec<String>>,
    pub solver: Option<SolverName>,
    pub penalties: Option<Vec<f64>>,
    pub balanced: Option<bool>,
    pub folds: Option<usize>,
}

/// The part of a plan that is about probes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProbePlan {
    /// The model whose states are read; nothing where the states are there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<PathBuf>,
    /// What to learn from.
    pub data: ProbeDataPlan,
    /// How texts are shown, which states are kept, and how weights are found.
    pub probe: SettingsPlan,
}

impl Part for ProbePlan {
    fn unread(&self) -> &'static [&'static str] {
        UNREAD
    }
}

/// What to learn from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProbeDataPlan {
    /// Labelled text; or one folder of states that were captured before.
    pub files: Vec<PathBuf>,
    /// The column with the text. Without it, it is found by its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_column: Option<String>,
    /// The column with the label. Without it, it is found by its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_column: Option<String>,
    /// The column with what belongs together. Without it, it is found by its name, and there may be none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_column: Option<String>,
    /// Whether rows that can't be used are left out.
    pub skip_bad_rows: bool,
}

/// How texts are shown, which states are kept, and how weights are found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SettingsPlan {
    /// What follows the text, or words with `{text}` in them. Empty is the text alone.
    pub suffix: String,
    /// Whether the text is shown as a user's turn of a chat.
    pub chat: bool,
    /// Which states are kept of a text.
    pub position: Position,
    /// The sites that are learned, in the order in which a pass reaches them.
    pub sites: Vec<Site>,
    /// The labels to learn. None are all.
    pub labels: Vec<String>,
    /// How weights are found.
    pub solver: SolverName,
    /// The values of C to choose from on validation rows, in rising order.
    pub penalties: Vec<f64>,
    /// Whether rows with a label count as much in all as rows without it.
    pub balanced: bool,
    /// Folds in which all rows are cross-validated, beside the three parts; 0 is none. Plans of earlier versions have none.
    #[serde(default)]
    pub folds: usize,
    /// Texts that are read in a step.
    pub texts_per_step: usize,
}

impl ProbePlan {
    /// What to capture.
    pub fn capture(&self) -> CaptureRequest {
        let settings = &self.probe;
        CaptureRequest {
            data: self.data.labelled(),
            prompt: PromptRequest {
                suffix: Some(settings.suffix.clone()).filter(|it| !it.is_empty()),
                chat: settings.chat,
            },
            position: settings.position,
            sites: settings.sites.clone(),
            skip_bad_rows: self.data.skip_bad_rows,
            tokens_at_once: None,
        }
    }

    /// How the study is done.
    pub fn settings(&self, seed: u64) -> Settings {
        Settings {
            solver: self.probe.solver.solver(),
            penalties: self.probe.penalties.clone(),
            balanced: self.probe.balanced,
            folds: self.probe.folds,
            seed,
            ..Settings::default()
        }
    }
}

impl ProbeDataPlan {
    /// What is read of it.
    pub(super) fn labelled(&self) -> LabelledRequest {
        LabelledRequest {
            paths: self.files.clone(),
            text_column: self.text_column.clone(),
            label_column: self.label_column.clone(),
            group_column: self.group_column.clone(),
            encoding: None,
        }
    }
}

impl ProbeDataRequest {
    /// The same with all that was not asked.
    pub(super) fn planned(&self) -> ProbeDataPlan {
        ProbeDataPlan {
            files: self.files.clone(),
            text_column: self.text_column.clone(),
            label_column: self.label_column.clone(),
            group_column: self.group_column.clone(),
            skip_bad_rows: self.skip_bad_rows.unwrap_or_default(),
        }
    }
}
