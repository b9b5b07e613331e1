//! What learns, and from what: the recipe, the model, the data.

use serde_json::json;

use super::{
    Puzzle, PuzzleFacts,
    curriculum::Curriculum,
    recipe::{Recipe, recipes},
    request::*,
};
use crate::{
    Error,
    arch::trm::{Positions, Squash, TrmConfig},
    train::{kind::Basis, plan::Chosen, request::RunRequest, resolve::Resolver as AnyResolver},
};

/// Why a model has a shape that no person chose.
const IN_THE_FILE: &str = "so it is in the file that the run starts from";

type Resolver<'a> = AnyResolver<'a, Puzzle>;

/// The share of puzzles that is kept aside to measure with.
pub(super) const HELD_OUT: f64 = 0.1;
/// Other looks of each task of ARC.
pub(super) const AUGMENTATIONS: usize = 1000;
/// Held-out puzzles that are measured with during a run.
const EVALUATED: usize = 2000;

/// The part of a plan that is about puzzles, and what the rest is chosen by.
pub(super) fn resolve(resolver: &mut Resolver) -> (PuzzlePlan, Basis) {
    let request = &resolver.request.task;
    let facts = resolver.facts.task.clone();
    if request.data.files.is_empty() {
        resolver.problem(
            "data.files",
            "is missing: name a table of puzzles, or a folder with a train.csv",
        );
    }
    let recipe = resolver.recipe(&facts);
    let trm = resolver.trm(recipe, &facts);
    let data = resolver.puzzle_data(recipe);
    let (halting_weight, curriculum) = resolver.thinking(recipe, &trm);
    let table = resolver.table(recipe);
    let why = || of_recipe(recipe, ()).why;
    let basis = Basis {
        length: 1,
        rows: facts.rows,
        held_out_rows: facts.held_out_rows,
        units_per_step: recipe.rows,
        batch_rows: Some(of_recipe(recipe, recipe.rows)),
        is_normalized: false,
        why_one_device: None,
        epochs: Chosen::new(
            recipe.steps as f64 * recipe.rows as f64 / facts.rows.max(1) as f64,
            why(),
        ),
        learning_rate: of_recipe(recipe, recipe.learning_rate),
        weight_decay: of_recipe(recipe, recipe.weight_decay),
        beta2: of_recipe(recipe, 0.95),
        usual: usual(recipe, &resolver.request.run),
    };
    let plan = PuzzlePlan {
        recipe: recipe.name.clone(),
        start_from: request.start_from.clone(),
        data,
        trm,
        halting_weight,
        curriculum,
        table,
    };
    (plan, basis)
}

/// What a recipe says of every run. Of another optimizer than its own it knows no settings, and no warm-up is longer than half of
/// the steps that were asked for.
fn usual(
    recipe: &'static Recipe,
    request: &RunRequest,
) -> Vec<(&'static str, Chosen<serde_json::Value>)> {
    let asked = request.optimizer.kind.map(|kind| json!(kind));
    let is_another = asked.is_some_and(|kind| Some(&kind) != recipe.run.get("optimizer.kind"));
    let is_of_optimizer = |name: &str| name == "learning_rate" || name.starts_with("optimizer.");
    let all = recipe
        .run
        .iter()
        .map(|(name, value)| (name.as_str(), value));
    let measured = Chosen::new(json!(0), "data.evaluate_puzzles says how many");
    all.filter(|(name, _)| !(is_another && is_of_optimizer(name)))
        .map(|(name, value)| (name, of_recipe(recipe, value.clone())))
        .chain([("evaluate.batches", measured)])
        .collect()
}

fn of_recipe<T>(recipe: &Recipe, value: T) -> Chosen<T> {
    Chosen::new(value, format!("the recipe “{}”", recipe.name))
}

impl Resolver<'_> {
    fn recipe(&mut self, facts: &PuzzleFacts) -> &'static Recipe {
        let all = recipes();
        let suits = |it: &&Recipe| {
            it.suits
                .is_some_and(|it| it.has(facts.cells, facts.symbols))
        };
        let suited = all.iter().find(suits).unwrap_or(&all[0]);
        let asked = &self.request.task.recipe;
        let name = self.take("recipe", asked, || {
            Chosen::new(
                suited.name.clone(),
                format!("for puzzles of this shape; {}", suited.source),
            )
        });
        if let Some(found) = all.iter().find(|it| it.name == name) {
            return found;
        }
        let names: Vec<&str> = all.iter().map(|it| it.name.as_str()).collect();
        self.problem(
            "recipe",
            format!("is {name}, and has to be one of {}", names.join(", ")),
        );
        &all[0]
    }

    fn trm(&mut self, recipe: &'static Recipe, facts: &PuzzleFacts) -> TrmConfig {
        let request = &self.request.task.trm;
        let usual = &recipe.model;
        let started = &facts.started;
        macro_rules! take {
            ($name:literal, $field:ident, $otherwise:expr) => {
                self.take(concat!("trm.", $name), &request.$field, || {
                    match started.as_ref().and_then(|it| it.$field) {
                        Some(value) => Chosen::new(value, IN_THE_FILE),
                        None => of_recipe(recipe, usual.$field.unwrap_or($otherwise)),
                    }
                })
            };
        }
        let hidden_size = take!("hidden_size", hidden_size, 128);
        let config = TrmConfig {
            vocab_size: facts.symbols,
            seq_len: facts.cells,
            num_puzzle_identifiers: facts.ids.max(1),
            hidden_size,
            num_heads: take!("num_heads", num_heads, 4),
            expansion: take!("expansion", expansion, 4.0),
            l_layers: take!("L_layers", l_layers, 2),
            h_cycles: take!("H_cycles", h_cycles, 3),
            l_cycles: take!("L_cycles", l_cycles, 6),
            mlp_t: take!("mlp_t", mlp_t, true),
            pos_encodings: take!("pos_encodings", pos_encodings, Positions::None),
            puzzle_emb_ndim: self.take("trm.puzzle_emb_ndim", &request.puzzle_emb_ndim, || {
                match started.as_ref().and_then(|it| it.puzzle_emb_ndim) {
                    Some(value) => Chosen::new(value, IN_THE_FILE),
                    None => Chosen::new(hidden_size, "as wide as the model"),
                }
            }),
            puzzle_emb_len: take!("puzzle_emb_len", puzzle_emb_len, 1),
            halt_max_steps: take!("halt_max_steps", halt_max_steps, 16),
            halt_exploration_prob: take!("halt_exploration_prob", halt_exploration_prob, 0.1),
            rms_norm_eps: take!("rms_norm_eps", rms_norm_eps, 1e-5),
            rope_theta: take!("rope_theta", rope_theta, 1e4),
            loss: take!("loss", loss, Squash::Stablemax),
        };
        // Without data there is no shape, which is said of the data.
        if facts.cells > 0
            && let Err(Error::Setting { field, problem }) = config.check()
        {
            self.problem(&format!("trm.{field}"), problem);
        }
        config
    }

    fn puzzle_data(&mut self, recipe: &'static Recipe) -> PuzzleDataPlan {
        let request = &self.request.task.data;
        let held_out = self.take("data.held_out", &request.held_out, || {
            Chosen::new(HELD_OUT, "enough to measure with; a folder with a test.csv keeps none of its train.csv aside")
        });
        self.within("data.held_out", held_out, 0.0, 0.5);
        let augment = self.take("data.augment", &request.augment, || {
            Chosen::new(
                true,
                "other digits and other orders of rows and columns make new puzzles of each",
            )
        });
        let label_smoothing = self.take("data.label_smoothing", &request.label_smoothing, || {
            of_recipe(recipe, recipe.label_smoothing)
        });
        self.within("data.label_smoothing", label_smoothing, 0.0, 0.9);
        let all = |why: &'static str| move || Chosen::new(0, why);
        PuzzleDataPlan {
            files: request.files.clone(),
            held_out,
            augment,
            subsample_size: self.take(
                "data.subsample_size",
                &request.subsample_size,
                all("every row"),
            ),
            min_difficulty: self.take(
                "data.min_difficulty",
                &request.min_difficulty,
                all("the easy ones too"),
            ),
            augmentations: self.take("data.augmentations", &request.augmentations, || {
                Chosen::new(AUGMENTATIONS, "as the paper has for each task of ARC")
            }),
            evaluate_puzzles: self.take("data.evaluate_puzzles", &request.evaluate_puzzles, || {
                Chosen::new(
                    EVALUATED,
                    "enough to see the trend; all of them are measured at the end",
                )
            }),
            evaluate_at_end: self.take("data.evaluate_at_end", &request.evaluate_at_end, || {
                Chosen::new(0, "a result is that of all held-out puzzles")
            }),
            label_smoothing,
        }
    }

    /// How much halting counts, and the curriculum.
    fn thinking(&mut self, recipe: &'static Recipe, config: &TrmConfig) -> (f64, String) {
        let request = &self.request.task;
        let weight = self.take("halting_weight", &request.halting_weight, || {
            of_recipe(recipe, recipe.halting_weight)
        });
        self.within("halting_weight", weight, 0.0, 10.0);
        let curriculum = self.take("curriculum", &request.curriculum, || {
            // Its parts are of cycles that a smaller model may not have.
            match Curriculum::read(&recipe.curriculum, config) {
                Ok(_) => of_recipe(recipe, recipe.curriculum.clone()),
                Err(_) => Chosen::new(
                    String::new(),
                    "the model has fewer cycles than the recipe’s",
                ),
            }
        });
        if let Err(Error::Setting { field, problem }) = Curriculum::read(&curriculum, config) {
            self.problem(&field, problem);
        }
        (weight, curriculum)
    }

    fn table(&mut self, recipe: &'static Recipe) -> TablePlan {
        let request = &self.request.task.table;
        let learning_rate = self.take("table.learning_rate", &request.learning_rate, || {
            of_recipe(recipe, recipe.table.learning_rate)
        });
        self.within("table.learning_rate", learning_rate, 0.0, 10.0);
        let weight_decay = self.take("table.weight_decay", &request.weight_decay, || {
            of_recipe(recipe, recipe.table.weight_decay)
        });
        self.within("table.weight_decay", weight_decay, 0.0, 10.0);
        TablePlan {
            learning_rate,
            weight_decay,
        }
    }
}
