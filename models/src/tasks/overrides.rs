//! The command lines of other programs as requests of ours: `arch=trm data_paths=[data/x] epochs=50000 lr=1e-4 +run_name=a ema=True`, so
//! that a command that somebody has can be run here.
//!
//! Words are `key=value`, `+key=value`, `++key=value` and `~key`, with dots in keys, over the defaults of a configuration, which
//! `--config-name` names. What the keys of one mean is said where its kind of learning is.
//!
//! Deliberately absent: the environment, and which processes there are.

mod value;

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json};

use super::{language, puzzle};
use crate::{Error, Result};

/// What the words ask for.
#[derive(Debug, Clone, PartialEq)]
pub struct Overridden {
    /// The fields of a run file.
    pub fields: Json,
    /// What a person should know of how the words were understood.
    pub notes: Vec<String>,
}

/// Whether a word is an override, and no name of a file.
pub fn is_override(word: &str) -> bool {
    word.starts_with('~') || word.contains('=')
}

/// Reads the words. `config` is what `--config-name` says. Paths of data are read for how much there is of it, from the folder that the
/// program was started in.
pub fn read(config: Option<&str>, words: &[String]) -> Result<Overridden> {
    let name = config.unwrap_or(puzzle::overrides::CONFIG);
    let name = name.trim_end_matches(".yaml");
    if name == puzzle::overrides::CONFIG {
        return puzzle::overrides::read(words);
    }
    let chats = language::overrides::configs();
    if chats.contains(&name) {
        return language::overrides::read(name, words);
    }
    let known = [&[puzzle::overrides::CONFIG], chats.as_slice()].concat();
    let problem = format!("is {name}; known here are {}", known.join(", "));
    Err(Error::setting("--config-name", problem))
}

/// A configuration, and which keys somebody gave.
pub(super) struct Config {
    /// Its name.
    name: String,
    tree: Json,
    /// What it is when nothing is said.
    defaults: Json,
    /// Keys that are not among the defaults, and that are known all the same.
    more: &'static [&'static str],
    given: BTreeMap<String, Json>,
}

impl Config {
    /// A configuration that nothing is said about yet.
    pub(super) fn new(name: &str, defaults: Json, more: &'static [&'static str]) -> Self {
        Self {
            name: name.to_owned(),
            tree: defaults.clone(),
            defaults,
            more,
            given: BTreeMap::new(),
        }
    }

    /// Applies one word. `architecture` takes the name of a whole group of keys.
    pub(super) fn apply(
        &mut self,
        word: &str,
        architecture: impl Fn(&Json) -> Result<()>,
    ) -> Result<()> {
        if let Some(key) = word.strip_prefix('~') {
            let key = key.split_once('=').map_or(key, |(key, _)| key);
            let place = pointer(key);
            let (parent, last) = place.rsplit_once('/').unwrap_or_default();
            let parent = self.tree.pointer_mut(parent).and_then(Json::as_object_mut);
            let removed = parent.and_then(|it| it.remove(last));
            return removed.map(drop).ok_or_else(|| self.unknown(key));
        }
        let (key, value) = assignment(word)?;
        if key == "arch" {
            return architecture(&value);
        }
        let is_known = self.defaults.pointer(&pointer(key)).is_some() || self.more.contains(&key);
        if !is_known {
            return Err(self.unknown(key));
        }
        self.put(key, value.clone());
        self.given.insert(key.to_owned(), value);
        Ok(())
    }

    /// What these keys of the architecture say, as fields of a section: `trm`.
    pub(super) fn architecture(&self, section: &str, names: &[&str]) -> Vec<(String, Json)> {
        let said = names
            .iter()
            .map(|name| (name, self.get(&format!("arch.{name}"))));
        said.filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (format!("{section}.{name}"), value.clone()))
            .collect()
    }

    /// How blocks know places. A word that means nothing to the reference is none there.
    pub(super) fn positions(&self) -> &str {
        let named = self.get("arch.pos_encodings").as_str();
        named
            .filter(|it| ["rope", "learned"].contains(it))
            .unwrap_or("none")
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

    /// The value of a key, or null.
    pub(super) fn get(&self, key: &str) -> &Json {
        self.tree.pointer(&pointer(key)).unwrap_or(&Json::Null)
    }

    /// A number, or what is wrong with it.
    pub(super) fn number(&self, key: &str) -> Result<f64> {
        let wrong = || Error::setting(key, format!("is {}, and has to be a number", self.get(key)));
        self.get(key).as_f64().ok_or_else(wrong)
    }

    /// True or False, or what is wrong with it.
    pub(super) fn flag(&self, key: &str) -> Result<bool> {
        let wrong = || {
            Error::setting(
                key,
                format!("is {}, and has to be True or False", self.get(key)),
            )
        };
        self.get(key).as_bool().ok_or_else(wrong)
    }

    /// A word, or what is wrong with it.
    pub(super) fn word(&self, key: &str) -> Result<&str> {
        let wrong = || Error::setting(key, format!("is {}, and has to be a word", self.get(key)));
        self.get(key).as_str().ok_or_else(wrong)
    }

    /// Files and folders: one, or a list.
    pub(super) fn paths(&self, key: &str) -> Vec<&str> {
        match self.get(key) {
            Json::Array(all) => all.iter().filter_map(Json::as_str).collect(),
            Json::String(one) => vec![one],
            _ => Vec::new(),
        }
    }

    /// What is computed in, as a run file has it.
    pub(super) fn dtype(&self) -> Result<&'static str> {
        match self.word("arch.forward_dtype")? {
            "bfloat16" => Ok("bf16"),
            "float16" => Ok("f16"),
            "float32" => Ok("f32"),
            other => {
                let problem = format!("is {other}, and has to be bfloat16, float16 or float32");
                Err(Error::setting("arch.forward_dtype", problem))
            }
        }
    }

    /// The schedule of learning rates, and how the rest of a run is said by the same keys in every configuration.
    pub(super) fn rates(&self) -> Result<Vec<(&'static str, Json)>> {
        let of = |key: &str| self.get(key).clone();
        let is_constant = self.number("lr_min_ratio")? == 1.0;
        let kind = if is_constant { "constant" } else { "cosine" };
        let warmup = self.number("lr_warmup_steps")?;
        let ema = match self.flag("ema")? {
            true => of("ema_rate"),
            false => 0.0.into(),
        };
        let mut fields = vec![
            ("learning_rate", of("lr")),
            ("optimizer.beta1", of("beta1")),
            ("optimizer.beta2", of("beta2")),
            ("optimizer.weight_decay", of("weight_decay")),
            ("schedule.kind", kind.into()),
            ("schedule.min_ratio", of("lr_min_ratio")),
            // Ours is at the highest rate one step after the warm-up, and the reference's at the end of it.
            (
                "schedule.warmup_steps",
                (warmup as u64).saturating_sub(1).into(),
            ),
            ("seed", of("seed")),
            ("ema", ema),
            (
                "clip_norm",
                self.get("grad_clip_norm").as_f64().unwrap_or(0.0).into(),
            ),
            // As many as are asked for at once are all of an update.
            (
                "batch.accumulate",
                self.get("gradient_accumulation_steps")
                    .as_u64()
                    .unwrap_or(1)
                    .into(),
            ),
        ];
        if let Some(name) = self.get("run_name").as_str() {
            fields.push(("name", name.into()));
        }
        Ok(fields)
    }

    /// An error that names a key with its value, and says why it is none that can be followed.
    pub(super) fn refused(&self, key: &str, why: &str) -> Error {
        Error::setting(key, format!("is {}: {why}", self.get(key)))
    }

    /// Refuses what the reference can't do, and what no configuration here can.
    pub(super) fn refuse_what_nobody_can(&self) -> Result<()> {
        if !self.flag("arch.no_ACT_continue")? {
            let why = "the reference fails in training with it, where five values are unpacked from three";
            return Err(self.refused("arch.no_ACT_continue", why));
        }
        if self.flag("freeze_weights")? {
            let why = "training the table alone is not there yet";
            return Err(self.refused("freeze_weights", why));
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
                return Err(self.refused(key, &format!("{whole} is known here")));
            }
        }
        Ok(())
    }

    /// Says of each of these keys that was given why it changes nothing.
    pub(super) fn ignored(&self, keys: &[(&str, &str)]) -> Vec<String> {
        let given = keys.iter().filter(|(key, _)| self.given.contains_key(*key));
        given
            .map(|(key, why)| format!("{key} changes nothing here: {why}"))
            .collect()
    }

    /// Says that nobody knows a key, and which is the nearest.
    fn unknown(&self, key: &str) -> Error {
        let mut known: Vec<String> = self.more.iter().map(|it| (*it).to_owned()).collect();
        leaves("", &self.defaults, &mut known);
        known.push("arch".to_owned());
        let nearest = known.iter().min_by_key(|it| strsim::osa_distance(key, it));
        let nearest = nearest.map(|it| format!("; the nearest is {it}"));
        let problem = format!("is no key of {}{}", self.name, nearest.unwrap_or_default());
        Error::setting(key, problem)
    }
}

/// The key and the value of a word.
pub(super) fn assignment(word: &str) -> Result<(&str, Json)> {
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
    let read = |text: &str| value::read(text).map_err(|problem| Error::setting(key, problem));
    Ok((
        key,
        match read(text)? {
            // A list in quotes is one.
            Json::String(text) if text.starts_with('[') => read(&text)?,
            value => value,
        },
    ))
}

/// Fields by their names with dots, as the tree of a run file.
pub(super) fn tree(task: &str, fields: impl IntoIterator<Item = (String, Json)>) -> Json {
    let mut tree = serde_json::json!({ "task": task });
    for (field, value) in fields {
        let mut at = &mut tree;
        for part in field.split('.') {
            at = &mut at[part];
        }
        *at = value;
    }
    tree
}

fn pointer(key: &str) -> String {
    format!("/{}", key.replace('.', "/"))
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
