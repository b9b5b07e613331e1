//! Settings that are known to learn, as data: `recipes.json`, each with where it comes from.

use std::{collections::BTreeMap, sync::LazyLock};

use serde::Deserialize;
use serde_json::Value as Json;

use super::{halting::HALTING, request::ModelRequest};
use crate::embedded::table;

/// A model and the settings it is trained with, as `recipes.json` has them.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Its name in a run file.
    pub name: String,
    /// What a person reads.
    pub title: String,
    /// Where it comes from, and what it reached there.
    pub source: String,
    /// The puzzles that it is taken for when nobody names a recipe.
    #[serde(default)]
    pub suits: Option<Suits>,
    /// Its settings, in the form in which a run file gives them.
    pub model: ModelRequest,
    /// Puzzles in a batch.
    pub rows: usize,
    /// Updates in the whole run.
    pub steps: usize,
    /// The highest learning rate of a rule that divides by the size of gradients.
    pub learning_rate: f64,
    /// How much each weight shrinks by such a rule.
    pub weight_decay: f64,
    /// The table with a vector for each puzzle.
    pub table: TableRecipe,
    /// What else every run has, by the names of the fields.
    pub run: BTreeMap<String, Json>,
    /// How much of each label is shared among all symbols.
    #[serde(default)]
    pub label_smoothing: f64,
    /// How much halting counts beside the cells.
    #[serde(default = "halting")]
    pub halting_weight: f64,
    /// Fewer cycles in the first parts of the run, as in a run file.
    #[serde(default)]
    pub curriculum: String,
    /// How it learned elsewhere, where that is known.
    #[serde(default)]
    pub expected: Option<Expected>,
}

fn halting() -> f64 {
    HALTING
}

/// Puzzles of a shape. What is not said is any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suits {
    /// Cells, at most.
    #[serde(default)]
    pub cells: Option<usize>,
    /// Symbols, with the empty one and that of no cell.
    #[serde(default)]
    pub symbols: Option<usize>,
}

/// How the table learns.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableRecipe {
    /// Its learning rate.
    pub learning_rate: f64,
    /// How much a row shrinks when it is in a batch.
    pub weight_decay: f64,
}

/// How a recipe learned elsewhere: a guide beside the curve of a run.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// The metric that it is a share of: `solved`.
    pub metric: String,
    /// What was measured.
    pub of: String,
    /// After so many steps.
    pub steps: Vec<usize>,
    /// Runs with one seed each.
    pub curves: Vec<Curve>,
}

/// One run of those that were measured.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curve {
    /// What it is called.
    pub name: String,
    /// The shares at the steps.
    pub shares: Vec<f64>,
}

impl Suits {
    /// Whether puzzles are of this shape.
    pub fn has(self, cells: usize, symbols: usize) -> bool {
        self.cells.is_none_or(|most| cells <= most) && self.symbols.is_none_or(|it| symbols == it)
    }
}

static RECIPES: LazyLock<Vec<Recipe>> =
    LazyLock::new(|| table("recipes.json", include_str!("recipes.json")));

/// All recipes; the first is for beginners.
pub fn recipes() -> &'static [Recipe] {
    &RECIPES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{tasks::puzzle::fields::FIELDS, train::fields::FIELDS as OF_ALL};

    #[test]
    fn every_recipe_is_named_where_a_person_chooses_one() {
        let field = FIELDS.iter().find(|it| it.name == "recipe").unwrap();
        for recipe in recipes() {
            assert!(field.help.contains(&recipe.name), "{}", recipe.name);
        }
    }

    #[test]
    fn what_a_recipe_says_of_a_run_are_fields_of_every_run() {
        for recipe in recipes() {
            for name in recipe.run.keys() {
                let is_known = OF_ALL.iter().any(|it| it.name == name);
                assert!(is_known, "{}: {name}", recipe.name);
            }
        }
    }

    #[test]
    fn expected_curves_have_a_share_for_each_step() {
        let all = recipes().iter().filter_map(|it| it.expected.as_ref());
        for (expected, curve) in all.flat_map(|it| it.curves.iter().map(move |curve| (it, curve))) {
            assert_eq!(curve.shares.len(), expected.steps.len(), "{}", curve.name);
            assert!(curve.shares.iter().all(|it| (0.0..=1.0).contains(it)));
        }
    }

    #[test]
    fn puzzles_of_each_shape_have_a_recipe() {
        let suits = |cells, symbols| {
            let mut all = recipes().iter();
            let found = all.find(|it| it.suits.is_some_and(|it| it.has(cells, symbols)));
            found.map(|it| it.name.as_str())
        };
        let found =
            [(16, 6), (36, 8), (81, 11), (900, 6), (900, 12), (49, 9)].map(|it| suits(it.0, it.1));
        let expected = ["lesson", "lesson-6", "sudoku-mlp", "maze", "arc-1"].map(Some);
        assert_eq!(found[..5], expected);
        assert_eq!(found[5], None);
    }
}
