//! The command line of the reference: `arch=trm data_paths=[data/x] epochs=50000 lr=1e-4 +run_name=a ema=True` as a request of ours, so that
//! a command that somebody has can be run here.
//!
//! Words are `key=value`, `+key=value`, `++key=value` and `~key`, with dots in keys, over the reference's own defaults
//! (`overrides/defaults.json`). What a key changes here, what it does not, and why, is said by its name.
//!
//! Deliberately absent: the environment, and which processes there are.

mod value;

use std::{collections::BTreeMap, path::Path, sync::LazyLock};

use serde_json::{Map, Value as Json, json};

use super::Puzzle;
use crate::{Error, Result, embedded, limits, train::Kind};

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

/// What the words ask for.
#[derive(Debug, Clone, PartialEq)]
pub struct Overridden {
    /// The fields of a run file.
    pub fields: Json,
    /// What a person should know of how the words were understood.
    pub notes: Vec<String>,
}

/// The configuration of the reference, and which keys somebody gave.
struct Config {
    tree: Json,
    given: BTreeMap<String, Json>,
}

/// Whether a word is an override, and no name of a file.
pub fn is_override(word: &str) -> bool {
    word.starts_with('~') || word.contains('=')
}

/// Reads the words. `config` is what `--config-name` says. Paths of data are read for how much there is of it, from the folder that the
/// program was started in.
pub fn read(config: Option<&str>, words: &[String]) -> Result<Overridden> {
    if let Some(name) = config.filter(|it| it.trim_end_matches(".yaml") != "cfg_pretrain") {
        let problem = format!("is {name}, and cfg_pretrain is the only one that is known here");
        return Err(Error::setting("--config-name", problem));
    }
    let mut config = Config {
        tree: DEFAULTS.clone(),
        given: BTreeMap::new(),
    };
    for word in words {
        config.apply(word)?;
    }
    config.refuse()?;
    config.overridden()
}

impl Config {
    /// Applies one word.
    fn apply(&mut self, word: &str) -> Result<()> {
        if let Some(key) = word.strip_prefix('~') {
            let key = key.split_once('=').map_or(key, |(key, _)| key);
            let place = pointer(key);
            let (parent, last) = place.rsplit_once('/').unwrap_or_default();
            let parent = self.tree.pointer_mut(parent).and_then(Json::as_object_mut);
            let removed = parent.and_then(|it| it.remove(last));
            return removed.map(drop).ok_or_else(|| unknown(key));
        }
        let bare = word.trim_start_matches('+');
        let (key, text) = bare
            .split_once('=')
            .ok_or_else(|| Error::setting(word, "has no ="))?;
        if key.split('.').next() == Some("hydra") {
            return Err(Error::setting(
                key,
                "is about Hydra, which is not used here",
            ));
        }
        let value = value::read(text).map_err(|problem| Error::setting(key, problem))?;
        let value = match (key, value) {
            ("arch", name) => return Self::architecture(&name),
            // A list in quotes is one.
            (_, Json::String(text)) if text.starts_with('[') => {
                value::read(&text).map_err(|problem| Error::setting(key, problem))?
            }
            (_, value) => value,
        };
        let is_known = DEFAULTS.pointer(&pointer(key)).is_some() || MORE.contains(&key);
        if !is_known {
            return Err(unknown(key));
        }
        self.put(key, value.clone());
        self.given.insert(key.to_owned(), value);
        Ok(())
    }

    fn architecture(name: &Json) -> Result<()> {
        match name.as_str() {
            Some("trm") => Ok(()),
            Some(name @ ("trm_singlez" | "trm_hier6" | "hrm" | "transformers_baseline")) => {
                let problem = format!(
                    "is {name}, another architecture than Tiny Recursive Models of two states; trm is known here"
                );
                Err(Error::setting("arch", problem))
            }
            _ => Err(Error::setting(
                "arch",
                format!("is {name}; trm is known here"),
            )),
        }
    }

    fn put(&mut self, key: &str, value: Json) {
        let mut at = &mut self.tree;
        for part in key.split('.') {
            if !at.is_object() {
                *at = Json::Object(Map::new());
            }
            at = &mut at[part];
        }
        *at = value;
    }

    fn get(&self, key: &str) -> &Json {
        self.tree.pointer(&pointer(key)).unwrap_or(&Json::Null)
    }

    /// A number, or what is wrong with it.
    fn number(&self, key: &str) -> Result<f64> {
        let wrong = || Error::setting(key, format!("is {}, and has to be a number", self.get(key)));
        self.get(key).as_f64().ok_or_else(wrong)
    }

    fn flag(&self, key: &str) -> Result<bool> {
        let wrong = || {
            Error::setting(
                key,
                format!("is {}, and has to be True or False", self.get(key)),
            )
        };
        self.get(key).as_bool().ok_or_else(wrong)
    }

    fn word(&self, key: &str) -> Result<&str> {
        let wrong = || Error::setting(key, format!("is {}, and has to be a word", self.get(key)));
        self.get(key).as_str().ok_or_else(wrong)
    }

    /// Refuses what would be another training than the one that was asked for.
    fn refuse(&self) -> Result<()> {
        let refused = |key: &str, why: &str| {
            let problem = format!("is {}: {why}", self.get(key));
            Err(Error::setting(key, problem))
        };
        if !self.flag("arch.no_ACT_continue")? {
            let why = "the reference fails in training with it, where five values are unpacked from three";
            return refused("arch.no_ACT_continue", why);
        }
        if self.flag("freeze_weights")? {
            return refused(
                "freeze_weights",
                "training the table alone is not there yet",
            );
        }
        if self.get("arch.causal") == &json!(true) {
            return refused(
                "arch.causal",
                "the configuration for chats is not there yet",
            );
        }
        if !["puzzle", "null"].contains(&self.get("dataset_type").as_str().unwrap_or("null")) {
            return refused(
                "dataset_type",
                "the configuration for chats is not there yet",
            );
        }
        for (key, whole) in [
            (
                "arch.name",
                "recursive_reasoning.trm@TinyRecursiveReasoningModel_ACTV1",
            ),
            ("arch.loss.name", "losses@ACTLossHead"),
        ] {
            // The fork for chats writes a colon.
            if self.word(key)?.replace(':', "@") != whole {
                return refused(key, &format!("{whole} is known here"));
            }
        }
        Ok(())
    }

    fn overridden(self) -> Result<Overridden> {
        let mut notes = Vec::new();
        for (key, why) in IGNORED {
            if self.given.contains_key(key) {
                notes.push(format!("{key} changes nothing here: {why}"));
            }
        }
        let mut fields = json!({"task": Puzzle::NAME});
        let mut put = |field: &str, value: Json| {
            let mut at = &mut fields;
            for part in field.split('.') {
                at = &mut at[part];
            }
            *at = value;
        };
        for (field, value) in self.model(&mut notes)? {
            put(&field, value);
        }
        for (field, value) in self.learning()? {
            put(field, value);
        }
        for (field, value) in self.length(&mut notes)? {
            put(field, value);
        }
        Ok(Overridden { fields, notes })
    }

    fn model(&self, notes: &mut Vec<String>) -> Result<Vec<(String, Json)>> {
        let mut fields = Vec::new();
        for name in [
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
        ] {
            let value = self.get(&format!("arch.{name}"));
            if !value.is_null() {
                fields.push((format!("trm.{name}"), value.clone()));
            }
        }
        let own = self.get("arch.puzzle_emb_ndim");
        let own = match own.as_str() {
            Some("${.hidden_size}") => self.get("arch.hidden_size"),
            _ => own,
        };
        fields.push(("trm.puzzle_emb_ndim".to_owned(), own.clone()));
        let positions = self.get("arch.pos_encodings").as_str();
        let positions = positions.filter(|it| ["rope", "learned"].contains(it));
        let positions = positions.unwrap_or("none");
        fields.push(("trm.pos_encodings".to_owned(), json!(positions)));
        let loss = match self.word("arch.loss.loss_type")? {
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
        let dtype = match self.word("arch.forward_dtype")? {
            "bfloat16" => "bf16",
            "float16" => "f16",
            "float32" => "f32",
            other => {
                let problem = format!("is {other}, and has to be bfloat16, float16 or float32");
                return Err(Error::setting("arch.forward_dtype", problem));
            }
        };
        fields.push(("dtype.compute".to_owned(), json!(dtype)));
        Ok(fields)
    }

    fn learning(&self) -> Result<Vec<(&'static str, Json)>> {
        let of = |key: &str| self.get(key).clone();
        let is_constant = self.number("lr_min_ratio")? == 1.0;
        let warmup = self.number("lr_warmup_steps")?;
        let mut fields = vec![
            ("learning_rate", of("lr")),
            ("optimizer.kind", json!("adam_atan2")),
            ("optimizer.beta1", of("beta1")),
            ("optimizer.beta2", of("beta2")),
            ("optimizer.weight_decay", of("weight_decay")),
            (
                "schedule.kind",
                json!(if is_constant { "constant" } else { "cosine" }),
            ),
            ("schedule.min_ratio", of("lr_min_ratio")),
            // Ours is at the highest rate one step after the warm-up, and the reference's at the end of it.
            (
                "schedule.warmup_steps",
                json!((warmup as u64).saturating_sub(1)),
            ),
            ("table.learning_rate", of("puzzle_emb_lr")),
            ("table.weight_decay", of("puzzle_emb_weight_decay")),
            ("data.label_smoothing", json!(0.0)),
            ("halting_weight", json!(super::halting::HALTING)),
            ("curriculum", json!("")),
            ("seed", of("seed")),
            (
                "ema",
                if self.flag("ema")? {
                    of("ema_rate")
                } else {
                    json!(0.0)
                },
            ),
            (
                "clip_norm",
                json!(self.get("grad_clip_norm").as_f64().unwrap_or(0.0)),
            ),
        ];
        if let Some(name) = self.get("run_name").as_str() {
            fields.push(("name", json!(name)));
        }
        if let Some(file) = self.get("load_checkpoint").as_str() {
            fields.push(("start_from", json!(file)));
        }
        // As many as are asked for at once are all of an update.
        let accumulate = self.get("gradient_accumulation_steps").as_u64();
        fields.push(("batch.accumulate", json!(accumulate.unwrap_or(1))));
        Ok(fields)
    }

    /// The data, and how many steps all of it makes: `epochs · groups · examples of a puzzle on average / batch`.
    fn length(&self, notes: &mut Vec<String>) -> Result<Vec<(&'static str, Json)>> {
        let paths: Vec<&str> = match self.get("data_paths") {
            Json::Array(all) => all.iter().filter_map(Json::as_str).collect(),
            Json::String(one) => vec![one],
            _ => Vec::new(),
        };
        let rows = self.number("global_batch_size")?;
        let (epochs, interval) = (self.number("epochs")?, self.number("eval_interval"));
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
            let saves = self.flag("checkpoint_every_eval")?;
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

fn pointer(key: &str) -> String {
    format!("/{}", key.replace('.', "/"))
}

/// Says that nobody knows a key, and which is the nearest.
fn unknown(key: &str) -> Error {
    let mut known: Vec<String> = MORE.iter().map(|it| (*it).to_owned()).collect();
    leaves("", &DEFAULTS, &mut known);
    known.push("arch".to_owned());
    let nearest = known.iter().min_by_key(|it| strsim::osa_distance(key, it));
    let nearest = nearest.map(|it| format!("; the nearest is {it}"));
    let problem = format!("is no key of cfg_pretrain{}", nearest.unwrap_or_default());
    Error::setting(key, problem)
}

fn leaves(prefix: &str, tree: &Json, known: &mut Vec<String>) {
    match tree {
        Json::Object(fields) => {
            for (name, value) in fields {
                let dot = if prefix.is_empty() { "" } else { "." };
                leaves(&format!("{prefix}{dot}{name}"), value, known);
            }
        }
        _ => known.push(prefix.to_owned()),
    }
}

#[cfg(test)]
mod tests;
