//! What a person asks of a run that learns puzzles, and what is planned, beside what every run is asked and plans.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::halting::HALTING;
use crate::{
    arch::trm::{Positions, Squash, TrmConfig},
    train::tree::Part,
};

/// The part of a request that is about puzzles.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PuzzleRequest {
    /// The settings to begin with, by name.
    pub recipe: Option<String>,
    /// Weights to start from: a file of the reference, `step_N`.
    pub start_from: Option<PathBuf>,
    /// What to learn from.
    pub data: PuzzleDataRequest,
    /// The model: what is set replaces what the recipe has.
    pub trm: ModelRequest,
    /// How much halting counts in the loss, beside the cells.
    pub halting_weight: Option<f64>,
    /// Fewer cycles in the first parts of the run: see [`curriculum`](super::curriculum).
    pub curriculum: Option<String>,
    /// The table with a vector for each puzzle.
    pub table: TableRequest,
}

impl Part for PuzzleRequest {}

/// What to learn from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PuzzleDataRequest {
    /// Tables of puzzles, and folders with `train.csv` and `test.csv`.
    pub files: Vec<PathBuf>,
    /// The share kept aside to measure with, where no folder has a `test.csv`.
    pub held_out: Option<f64>,
    /// Whether each puzzle is seen in another look each time.
    pub augment: Option<bool>,
    /// So many random rows of each table to learn from. 0 is all.
    pub subsample_size: Option<usize>,
    /// Only rows of tables that are rated so or higher.
    pub min_difficulty: Option<usize>,
    /// So many other looks of each task of ARC, each with a vector of its own.
    pub augmentations: Option<usize>,
    /// How many held-out puzzles are measured with during the run, always the same. 0 is all.
    pub evaluate_puzzles: Option<usize>,
    /// How many of them are measured when all steps are done. 0 is all.
    pub evaluate_at_end: Option<usize>,
    /// How much of each label is shared among all symbols.
    pub label_smoothing: Option<f64>,
}

/// The shape of a model. The names are those of the reference.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "they are those of `TrmConfig`")]
pub struct ModelRequest {
    pub hidden_size: Option<usize>,
    pub num_heads: Option<usize>,
    pub expansion: Option<f64>,
    #[serde(rename = "L_layers")]
    pub l_layers: Option<usize>,
    #[serde(rename = "H_cycles")]
    pub h_cycles: Option<usize>,
    #[serde(rename = "L_cycles")]
    pub l_cycles: Option<usize>,
    pub mlp_t: Option<bool>,
    pub pos_encodings: Option<Positions>,
    pub puzzle_emb_ndim: Option<usize>,
    pub puzzle_emb_len: Option<usize>,
    pub halt_max_steps: Option<usize>,
    pub halt_exploration_prob: Option<f64>,
    pub rms_norm_eps: Option<f64>,
    pub rope_theta: Option<f64>,
    pub loss: Option<Squash>,
}

/// The table with a vector for each puzzle.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TableRequest {
    /// Its learning rate.
    pub learning_rate: Option<f64>,
    /// How much a row shrinks when it is in a batch.
    pub weight_decay: Option<f64>,
}

/// The part of a plan that is about puzzles.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PuzzlePlan {
    /// The settings that were begun with.
    pub recipe: String,
    /// Weights to start from: a file of the reference, `step_N`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_from: Option<PathBuf>,
    /// What to learn from.
    pub data: PuzzleDataPlan,
    /// What the model is built from: its widths, blocks and cycles.
    pub trm: TrmConfig,
    /// How much halting counts in the loss, beside the cells.
    #[serde(default = "halting")]
    pub halting_weight: f64,
    /// Fewer cycles in the first parts of the run: see [`curriculum`](super::curriculum). Empty is none.
    #[serde(default)]
    pub curriculum: String,
    /// The table with a vector for each puzzle.
    pub table: TablePlan,
}

impl Part for PuzzlePlan {}

impl PuzzlePlan {
    /// The folder of the data, where there is one alone.
    pub fn folder(&self) -> Option<&Path> {
        match self.data.files.as_slice() {
            [folder] if folder.is_dir() => Some(folder),
            _ => None,
        }
    }
}

fn halting() -> f64 {
    HALTING
}

/// What to learn from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PuzzleDataPlan {
    /// Tables of puzzles, and folders with `train.csv` and `test.csv`.
    pub files: Vec<PathBuf>,
    /// The share kept aside to measure with, where no folder has a `test.csv`.
    pub held_out: f64,
    /// Whether each puzzle is seen in another look each time.
    pub augment: bool,
    /// So many random rows of each table to learn from. 0 is all.
    pub subsample_size: usize,
    /// Only rows of tables that are rated so or higher.
    pub min_difficulty: usize,
    /// So many other looks of each task of ARC, each with a vector of its own.
    pub augmentations: usize,
    /// How many held-out puzzles are measured with during the run, always the same. 0 is all.
    pub evaluate_puzzles: usize,
    /// How many of them are measured when all steps are done. 0 is all.
    pub evaluate_at_end: usize,
    /// How much of each label is shared among all symbols.
    pub label_smoothing: f64,
}

/// The table with a vector for each puzzle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TablePlan {
    /// Its learning rate.
    pub learning_rate: f64,
    /// How much a row shrinks when it is in a batch.
    pub weight_decay: f64,
}
