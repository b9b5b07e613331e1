//! Settings that are known to learn, as data: `recipes.json`, each with where it comes from.
//!
//! A learning rate is that of the recipe's own batch; of fewer pictures at once it is as much less.

use std::{collections::BTreeMap, sync::LazyLock};

use serde::Deserialize;
use serde_json::Value as Json;

use super::{
    augment::{Augmentation, Flip},
    classifier::Looks,
};
use crate::{arch::picture::Architecture, embedded::table, optim::lookahead::Lookahead};

/// A network and the settings it is trained with, as `recipes.json` has them.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Its name in a run file.
    pub name: String,
    /// What a person reads.
    pub title: String,
    /// Where it comes from, and what it reached there.
    pub source: String,
    /// Which network is built, its size included.
    pub architecture: Architecture,
    /// Pictures in a batch.
    pub rows: usize,
    /// Passes over the data.
    pub epochs: f64,
    /// The highest learning rate, with that many pictures in a batch.
    pub learning_rate: f64,
    /// How much each weight shrinks.
    pub weight_decay: f64,
    /// How much faster the biases of norms learn.
    #[serde(default = "one")]
    pub bias_rate_ratio: f64,
    /// How much faster, or slower, than the head all other weights learn.
    #[serde(default = "one")]
    pub body_rate_ratio: f64,
    /// How much of each label is shared among all classes.
    pub label_smoothing: f64,
    /// The passes in which the bias of a first layer learns whose weights follow from the pictures.
    #[serde(default)]
    pub whitening_epochs: f64,
    /// A slower copy of all weights and running numbers, which follows them, and which they go back to.
    #[serde(default)]
    pub lookahead: Lookahead,
    /// How pictures are changed, but for mirroring.
    pub augmentation: Augmentation,
    /// Whether they are mirrored, where a mirrored picture means the same.
    pub flip: Flip,
    /// The share of a batch in the running means of norms.
    pub norm_momentum: f64,
    /// How often a picture is looked at to measure.
    pub looks: Looks,
    /// The share of the steps in which the learning rate rises.
    pub warmup: f64,
    /// What else every run has, by the names of the fields.
    pub run: BTreeMap<String, Json>,
}

fn one() -> f64 {
    1.0
}

static RECIPES: LazyLock<Vec<Recipe>> =
    LazyLock::new(|| table("recipes.json", include_str!("recipes.json")));

/// All recipes; the first is what a network from scratch learns by.
pub fn recipes() -> &'static [Recipe] {
    &RECIPES
}

/// The recipe of a name.
pub fn recipe(name: &str) -> Option<&'static Recipe> {
    recipes().iter().find(|it| it.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{tasks::picture::fields::FIELDS, train::fields::FIELDS as OF_ALL};

    #[test]
    fn every_recipe_is_named_where_a_person_chooses_one() {
        let field = FIELDS
            .iter()
            .find(|it| it.name == "picture.recipe")
            .unwrap();
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
}
