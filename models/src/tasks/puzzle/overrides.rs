//! What the keys of the reference's command line mean for a run of puzzles, over its own defaults (`overrides/defaults.json`). What a
//! key changes here, what it does not, and why, is said by its name.

use std::{path::Path, sync::LazyLock};

use serde_json::{Value as Json, json};

use super::Puzzle;
use crate::{
    Error, Result, embedded, limits,
    tasks::overrides::{Config, Overridden, tree},
    train::Kind,
};

/// The name of its configuration.
pub const CONFIG: &str = "cfg_pretrain";

/// What the reference has when nothing is said.
static DEFAULTS: LazyLock<Json> =
    LazyLock::new(|| embedded::table("defaults.json", include_str!("overrides/defaults.json")));

/// Keys that are not among the defaults, and that it knows all the same: it asks for a `+` before them, which may be left out here.
const MORE: [&str; 12] = [
    "run_name",
    "project_name",
    "load_checkpoint",
    "checkpoint_path",
    "eval_save_outputs",
    "gradient_accumulation_steps",
    "grad_clip_norm",
    "dataset_type",
    "arch.rms_norm_eps",
    "arch.rope_theta",
    "arch.causal",
    "arch.seq_len",
];

/// Keys that name something of the reference's own programs, with why they change nothing.
const IGNORED: [(&str, &str); 8] = [
    (
        "arch.seq_len",
        "the cells of a puzzle are those of the data",
    ),
    ("arch.H_layers", "the reference ignores it too"),
    ("project_name", "nothing is sent to a tracker"),
    (
        "checkpoint_path",
        "checkpoints are in the folder of the run",
    ),
    ("eval_save_outputs", "held-out puzzles are shown instead"),
    ("evaluators", "what suits the data is measured"),
    (
        "data_paths_test",
        "held-out puzzles are those of the data’s own test part",
    ),
    (
        "min_eval_interval",
        "held-out puzzles are looked at from the beginning",
    ),
];

/// Reads the words. Paths of data are read for how much there is of it, from the folder that the program was started in.
pub fn read(words: &[String]) -> Result<Overridden> {
    let mut config = Config::new(CONFIG, DEFAULTS.clone(), &MORE);
    for word in words {
        config.apply(word, architecture)?;
    }
    refuse(&config)?;
    overridden(&config)
}

fn architecture(name: &Json) -> Result<()> {
    let problem = match name.as_str() {
        Some("trm") => return Ok(()),
        Some(name @ ("trm_singlez" | "trm_hier6" | "hrm" | "transformers_baseline")) => format!(
            "is {name}, another architecture than Tiny Recursive Models of two states; trm is known here"
        ),
        Some(name @ ("trm_chat" | "trm_small" | "trm_small_fp32")) => {
            format!("is {name}, which is for chats; begin with --config-name cfg_chat")
        }
        _ => format!("is {name}; trm is known here"),
    };
    Err(Error::setting("arch", problem))
}

/// Refuses what would be another training than the one that was asked for.
fn refuse(config: &Config) -> Result<()> {
    config.refuse_what_nobody_can()?;
    let of_chats = "chats begin with --config-name cfg_chat";
    if config.get("arch.causal") == &json!(true) {
        return Err(config.refused("arch.causal", of_chats));
    }
    let kind = config.get("dataset_type").as_str().unwrap_or("null");
    match kind {
        "puzzle" | "null" => Ok(()),
        _ => Err(config.refused("dataset_type", of_chats)),
    }
}

fn overridden(config: &Config) -> Result<Overridden> {
    let mut notes = config.ignored(&IGNORED);
    let mut fields = model(config, &mut notes)?;
    let named = |(field, value): (&str, Json)| (field.to_owned(), value);
    fields.extend(learning(config)?.into_iter().map(named));
    fields.extend(length(config, &mut notes)?.into_iter().map(named));
    Ok(Overridden {
        fields: tree(Puzzle::NAME, fields),
        notes,
    })
}

fn model(config: &Config, notes: &mut Vec<String>) -> Result<Vec<(String, Json)>> {
    let names = [
        "hidden_size",
        "num_heads",
        "expansion",
        "L_layers",
        "H_cycles",
        "L_cycles",
        "mlp_t",
        "puzzle_emb_len",
        "halt_max_steps",
        "halt_exploration_prob",
        "rms_norm_eps",
        "rope_theta",
    ];
    let mut fields = config.architecture("trm", &names);
    let own = config.get("arch.puzzle_emb_ndim");
    let own = match own.as_str() {
        Some("${.hidden_size}") => config.get("arch.hidden_size"),
        _ => own,
    };
    fields.push(("trm.puzzle_emb_ndim".to_owned(), own.clone()));
    fields.push(("trm.pos_encodings".to_owned(), json!(config.positions())));
    let loss = match config.word("arch.loss.loss_type")? {
        "stablemax_cross_entropy" => "stablemax",
        "softmax_cross_entropy" => {
            notes.push("arch.loss.loss_type is softmax_cross_entropy, with which the reference itself fails".to_owned());
            "softmax"
        }
        other => {
            let problem = format!(
                "is {other}, and has to be stablemax_cross_entropy or softmax_cross_entropy"
            );
            return Err(Error::setting("arch.loss.loss_type", problem));
        }
    };
    fields.push(("trm.loss".to_owned(), json!(loss)));
    let dtype = config.dtype()?;
    fields.push(("dtype.compute".to_owned(), json!(dtype)));
    Ok(fields)
}

fn learning(config: &Config) -> Result<Vec<(&'static str, Json)>> {
    let of = |key: &str| config.get(key).clone();
    let mut fields = config.rates()?;
    fields.extend([
        ("optimizer.kind", json!("adam_atan2")),
        ("table.learning_rate", of("puzzle_emb_lr")),
        ("table.weight_decay", of("puzzle_emb_weight_decay")),
        ("data.label_smoothing", json!(0.0)),
        ("halting_weight", json!(super::halting::HALTING)),
        ("curriculum", json!("")),
    ]);
    if let Some(file) = config.get("load_checkpoint").as_str() {
        fields.push(("start_from", json!(file)));
    }
    Ok(fields)
}

/// The data, and how many steps all of it makes: `epochs · groups · examples of a puzzle on average / batch`.
fn length(config: &Config, notes: &mut Vec<String>) -> Result<Vec<(&'static str, Json)>> {
    let paths = config.paths("data_paths");
    let rows = config.number("global_batch_size")?;
    let (epochs, interval) = (config.number("epochs")?, config.number("eval_interval"));
    let interval = interval.unwrap_or(epochs);
    let mut examples = 0.0;
    let mut is_built = true;
    for path in &paths {
        match examples_of(Path::new(path))? {
            Some(count) => examples += count,
            None => is_built = false,
        }
    }
    let mut fields = vec![
        ("data.files", json!(paths)),
        ("batch.rows", json!(rows as u64)),
        ("evaluate.batches", json!(0)),
    ];
    if is_built && examples > 0.0 {
        let steps = |epochs: f64| (epochs * examples / rows.max(1.0)) as u64;
        let every = steps(interval).max(1);
        let saves = config.flag("checkpoint_every_eval")?;
        notes.push(format!(
            "{epochs} epochs of {examples} examples in batches of {rows} are {} steps",
            steps(epochs)
        ));
        fields.extend([
            ("steps", json!(steps(epochs).max(1))),
            ("evaluate.every", json!(every)),
            ("save.every", json!(if saves { every } else { 0 })),
            // What is in the files has been augmented.
            ("data.augment", json!(false)),
        ]);
    } else {
        fields.push(("epochs", json!(epochs)));
        notes.push(
            "an epoch is every puzzle of the data once, since no dataset.json says otherwise"
                .to_owned(),
        );
    }
    Ok(fields)
}

/// How many examples of a data set of the reference an epoch offers, where it is one.
fn examples_of(folder: &Path) -> Result<Option<f64>> {
    let path = folder.join("train").join("dataset.json");
    let Some(text) = limits::MODEL_JSON.read_text_if_there(&path, "read the data set")? else {
        return Ok(None);
    };
    let wrong = |problem: String| Error::format(&path, problem);
    let facts: Json = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    let number = |name: &str| {
        let found = facts[name]
            .as_f64()
            .filter(|it| it.is_finite() && *it >= 0.0);
        found.ok_or_else(|| wrong(format!("{name} is {}, and has to be a number", facts[name])))
    };
    Ok(Some(
        number("total_groups")? * number("mean_puzzle_examples")?,
    ))
}

#[cfg(test)]
mod tests;
