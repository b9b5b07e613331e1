//! The fields of a `config.json`: which are read, which are known to change nothing, and how one is read.

use std::{collections::BTreeMap, sync::LazyLock};

use serde::Deserialize;
use serde_json::{Map, Value as Json};

use super::limits::Limit;
use crate::{Error, Result, embedded::table};

/// Every field that some family reads.
const FIELDS: [&str; 32] = [
    "attention_bias",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "head_dim",
    "hidden_act",
    "hidden_activation",
    "hidden_size",
    "initializer_range",
    "intermediate_size",
    "layer_types",
    "max_position_embeddings",
    "max_window_layers",
    "mlp_bias",
    "model_type",
    "no_rope_layer_interval",
    "no_rope_layers",
    "num_attention_heads",
    "num_hidden_layers",
    "num_key_value_heads",
    "original_max_position_embeddings",
    "partial_rotary_factor",
    "query_pre_attn_scalar",
    "rms_norm_eps",
    "rope_local_base_freq",
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    "sliding_window",
    "sliding_window_pattern",
    "tie_word_embeddings",
    "use_sliding_window",
    "vocab_size",
];

/// Fields that say how the stored weights were made smaller.
const QUANTIZATION: [&str; 3] = ["compression_config", "quantization", "quantization_config"];

/// Names that share a smaller part of their pairs of letters than this are not alike.
const LIKE: f64 = 0.45;

/// Fields that are not read.
#[derive(Debug, Deserialize)]
struct Harmless {
    /// Those that change nothing about a decoder, whatever they hold.
    any: Vec<String>,
    /// Those that change nothing as long as they hold this.
    only: BTreeMap<String, Json>,
    /// Those that change only how others train. Nothing is dropped here but in adapters, which have a setting of their own.
    dropouts: Vec<String>,
}

/// The fields that are not read, in `harmless.json`.
static HARMLESS: LazyLock<Harmless> =
    LazyLock::new(|| table("harmless.json", include_str!("harmless.json")));

/// What is wrong with a field of a config that somebody wrote, apart from its value where that is read: a name that nobody reads
/// would change nothing, without a word.
pub fn unread(name: &str, value: &Json) -> Option<String> {
    let is_none = value.is_null() || value.as_f64() == Some(0.0);
    if HARMLESS.dropouts.iter().any(|it| it == name) && !is_none {
        return Some(format!("is {value}, and has no effect here but as 0"));
    }
    let problem = unknown(name, value)?;
    if HARMLESS.only.contains_key(name) || QUANTIZATION.contains(&name) {
        return Some(problem);
    }
    let likeness = |known| (strsim::sorensen_dice(name, known), known);
    // Of several that are as near, the last is taken: that comes first in the list.
    let nearest = FIELDS.into_iter().rev().map(likeness);
    let nearest = nearest.max_by(|(a, _), (b, _)| a.total_cmp(b));
    Some(match nearest {
        Some((like, nearest)) if like > LIKE => {
            format!("is no field that is known; did you mean `{nearest}`?")
        }
        _ => "is no field that is known".to_owned(),
    })
}

/// What is wrong with a field of a checkpoint's config that is not read here and may change what the model computes.
pub(super) fn unknown(name: &str, value: &Json) -> Option<String> {
    match FIELDS.contains(&name) {
        true => None,
        false => harmful(name, value),
    }
}

/// What is wrong with a field that nobody reads.
pub fn harmful(name: &str, value: &Json) -> Option<String> {
    let is_in = |list: &[String]| list.iter().any(|it| it == name);
    if value.is_null() || is_in(&HARMLESS.any) || is_in(&HARMLESS.dropouts) {
        return None;
    }
    if QUANTIZATION.contains(&name) {
        return Some(
            "says that the weights are quantized, which can’t be read here; use the model as it was before that"
                .to_owned(),
        );
    }
    let is_equal =
        |only: &Json| only == value || (only.is_number() && only.as_f64() == value.as_f64());
    match HARMLESS.only.get(name) {
        Some(only) if is_equal(only) => None,
        Some(only) => Some(format!("is {value}, and only {only} is computed here")),
        None => Some(
            "is not known here, so it may change what the model computes; if it does not, remove it from config.json"
                .to_owned(),
        ),
    }
}

/// Read access to the fields of a `config.json`, or of an object in it.
pub(super) struct Fields<'a> {
    pub(super) fields: &'a Map<String, Json>,
    /// What those are that are left out.
    pub(super) defaults: &'a Map<String, Json>,
    /// Where they stand, before their names in messages: empty, or `rope_scaling.`.
    pub(super) place: &'static str,
}

impl Fields<'_> {
    /// The value of the file or else the default; null is none, except that `in_file` looks at the file only.
    pub(super) fn get(&self, name: &str) -> Option<&Json> {
        let default = || self.defaults.get(name).filter(|value| !value.is_null());
        self.in_file(name).or_else(default)
    }

    fn in_file(&self, name: &str) -> Option<&Json> {
        self.fields.get(name).filter(|value| !value.is_null())
    }

    /// Where a null of the file is a value of its own, which is none; otherwise as [`Self::number`].
    pub(super) fn number_or_none(&self, name: &str) -> Result<Option<f64>> {
        match self.fields.get(name) {
            Some(Json::Null) => Ok(None),
            _ => self.number(name),
        }
    }

    /// Where a null of the file is a value of its own, which is none; otherwise as [`Self::count`].
    pub(super) fn count_or_none(&self, name: &str) -> Result<Option<usize>> {
        match self.fields.get(name) {
            Some(Json::Null) => Ok(None),
            _ => self.count(name),
        }
    }

    pub(super) fn error(&self, name: &str, problem: impl Into<String>) -> Error {
        Error::setting(format!("{}{name}", self.place), problem)
    }

    pub(super) fn missing(&self, name: &str) -> Error {
        self.error(name, "is missing from the model’s config")
    }

    fn read<'a, T: Deserialize<'a>>(&'a self, name: &str, what: &str) -> Result<Option<T>> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        let wrong = |_| self.error(name, format!("is {value}, which is not {what}"));
        T::deserialize(value).map(Some).map_err(wrong)
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<&str>> {
        self.read(name, "text")
    }

    pub(super) fn list(&self, name: &str) -> Result<Option<Vec<Json>>> {
        self.read(name, "a list")
    }

    pub(super) fn object(&self, name: &str) -> Result<Option<&Map<String, Json>>> {
        let wrong = |value| self.error(name, format!("is {value}, which is not an object"));
        let value = self.get(name);
        value
            .map(|value| value.as_object().ok_or_else(|| wrong(value)))
            .transpose()
    }

    pub(super) fn flag(&self, name: &str) -> Result<bool> {
        Ok(self.read(name, "true or false")?.unwrap_or(false))
    }

    /// A number within its limits.
    pub(super) fn number(&self, name: &str) -> Result<Option<f64>> {
        let number = self.read(name, "a number")?;
        if let (Some(number), Some(written)) = (number, self.get(name)) {
            Limit::check(&format!("{}{name}", self.place), name, number, written)?;
        }
        Ok(number)
    }

    pub(super) fn number_or(&self, name: &str, default: f64) -> Result<f64> {
        Ok(self.number(name)?.unwrap_or(default))
    }

    pub(super) fn required_number(&self, name: &str) -> Result<f64> {
        self.number(name)?.ok_or_else(|| self.missing(name))
    }

    pub(super) fn numbers(&self, name: &str) -> Result<Vec<f64>> {
        Ok(self.read(name, "a list of numbers")?.unwrap_or_default())
    }

    /// A whole number within its limits.
    pub(super) fn count(&self, name: &str) -> Result<Option<usize>> {
        // As a number first, since one that fits into no word is beyond its limit too.
        if self.get(name).is_some_and(Json::is_number) {
            self.number(name)?;
        }
        self.read(name, "a whole number")
    }

    pub(super) fn required(&self, name: &str) -> Result<usize> {
        self.count(name)?.ok_or_else(|| self.missing(name))
    }
}
