//! Settings that are known to learn, as data: `recipes.json`, each with where it comes from.

use std::sync::LazyLock;

use serde::Deserialize;

use super::request::ModelRequest;
use crate::embedded::table;

/// A recipe.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Its name in a run file.
    pub name: String,
    /// What a person reads.
    pub title: String,
    /// Where it comes from, and what it reached there.
    pub source: String,
    /// The model.
    pub model: ModelRequest,
    /// Puzzles in a batch.
    pub rows: usize,
    /// Updates in the whole run.
    pub steps: usize,
    /// The highest learning rate, for the table too.
    pub learning_rate: f64,
    /// How much each weight shrinks.
    pub weight_decay: f64,
    /// How much the rows of the table shrink.
    pub table_weight_decay: f64,
    /// Steps in which the rate rises. After them it stays.
    pub warmup_steps: usize,
    /// The share of the previous average of the weights that is kept.
    pub ema: f64,
    /// How much of each label is shared among all symbols.
    pub label_smoothing: f64,
}

static RECIPES: LazyLock<Vec<Recipe>> =
    LazyLock::new(|| table("recipes.json", include_str!("recipes.json")));

/// All recipes; the first is for beginners.
pub fn recipes() -> &'static [Recipe] {
    &RECIPES
}
