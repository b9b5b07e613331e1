//! peft's `adapter_config.json`: what an adapter is, and what of it can't be served here.
//!
//! An option that changes what a model computes and isn't known is refused by its name; those that change nothing are on
//! a list. Names and defaults are peft's (`LoraConfig` of 0.21).

use std::path::Path;

use serde_json::{Map, Value as Json};

use super::ADAPTER_CONFIG;
use crate::{
    Error, Result,
    arch::lora::{LoraConfig, Targets},
    checkpoint::folder::read_json,
};

/// Options read here.
const READ: [&str; 10] = [
    "peft_type",
    "r",
    "lora_alpha",
    "lora_dropout",
    "use_rslora",
    "bias",
    "init_lora_weights",
    "target_modules",
    "layers_to_transform",
    "layers_pattern",
];
/// Options that change nothing of what a trained adapter computes: notes about its making, settings of the start of its
/// training, and what other trainers write beside peft's own.
const HARMLESS: [&str; 19] = [
    "task_type",
    "auto_mapping",
    "peft_version",
    "base_model_name_or_path",
    "revision",
    "inference_mode",
    "runtime_config",
    "megatron_core",
    "qalora_group_size",
    "loftq_config",
    "eva_config",
    "corda_config",
    "lora_ga_config",
    "ensure_weight_tying",
    "unsloth_fixed",
    "loraplus_lr_ratio",
    "loraplus_lr_embedding",
    "lorap_lr_ratio",
    "lorap_emb_lr",
];
/// Starts of A and B that leave the base model as it is. The others take from its weights what the adapter starts with.
const STARTS: [&str; 4] = ["gaussian", "eva", "orthogonal", "mica"];
/// Modules that peft can adapt and this crate can't.
const OUTSIDE: [&str; 2] = ["lm_head", "model.embed_tokens"];

/// Reads peft's `adapter_config.json`. What can't be served here is an error that names the option and its value.
pub fn read_adapter_config(folder: &Path) -> Result<LoraConfig> {
    let path = folder.join(ADAPTER_CONFIG);
    let json = read_json(&path, "read the adapter’s config")?;
    let config = match &json {
        Json::Object(options) => Options(options).config(),
        _ => Err("is not an object of options".to_owned()),
    };
    let config = config.map_err(|problem| Error::format(&path, problem))?;
    for outside in OUTSIDE {
        let is_target = config.targets.contain(outside);
        if is_target.map_err(|error| in_words_of_peft(error, folder))? {
            let problem = format!(
                "`target_modules` names `{outside}`; only the linear layers inside the blocks can have an adapter"
            );
            return Err(Error::format(&path, problem));
        }
    }
    Ok(config)
}

/// A problem with a setting of a run, as one of the file that it was read from.
pub(super) fn in_words_of_peft(error: Error, folder: &Path) -> Error {
    let Error::Setting { field, problem } = error else {
        return error;
    };
    let option = match field.as_str() {
        "lora.targets" => "target_modules",
        "lora.layers" => "layers_to_transform",
        other => other,
    };
    Error::format(folder.join(ADAPTER_CONFIG), format!("`{option}` {problem}"))
}

/// The options of an adapter. Errors are sentences that begin with the option.
struct Options<'a>(&'a Map<String, Json>);

impl Options<'_> {
    fn config(&self) -> Result<LoraConfig, String> {
        match self.get("peft_type").and_then(Json::as_str) {
            Some("LORA") => {}
            _ => {
                let kind = self.get("peft_type").unwrap_or(&Json::Null);
                return Err(format!("`peft_type` is {kind}; only \"LORA\" is known"));
            }
        }
        self.check_unknown()?;
        self.check_start()?;
        if let Some(bias) = self.get("bias").filter(|it| *it != "none") {
            return Err(format!(
                "`bias` is {bias}; adapters that train biases of the base model are not supported, only \"none\""
            ));
        }
        Ok(LoraConfig {
            rank: self.rank()?,
            alpha: self.alpha()?,
            dropout: self.dropout()?,
            rank_stabilized: self.switch("use_rslora")?,
            targets: self.targets()?,
            layers: self.layers()?,
        })
    }

    /// An option that is there and not null.
    fn get(&self, option: &str) -> Option<&Json> {
        self.0.get(option).filter(|value| !value.is_null())
    }

    /// Refuses every option that is neither read nor harmless nor off.
    fn check_unknown(&self) -> Result<(), String> {
        for (option, value) in self.0 {
            let is_known = READ.iter().chain(&HARMLESS).any(|known| known == option);
            if is_known || is_off(value) {
                continue;
            }
            let is_switch = option.starts_with("use_") || option.ends_with("_bias");
            return Err(match value {
                Json::Number(_) | Json::String(_) if is_switch => {
                    format!("`{option}` is {value}; it has to be true or false")
                }
                value => format!("`{option}` is {value}, which is not supported"),
            });
        }
        Ok(())
    }

    /// Refuses starts that have changed the base model: without the same change the adapter computes something else.
    fn check_start(&self) -> Result<(), String> {
        match self.get("init_lora_weights") {
            None | Some(Json::Bool(_)) => Ok(()),
            Some(Json::String(name)) if STARTS.contains(&name.as_str()) => Ok(()),
            Some(value) => Err(format!(
                "`init_lora_weights` is {value}, which changes the base model’s weights and is not supported; save the \
                 adapter in peft with `path_initial_model_for_weight_conversion`, which makes it a plain one"
            )),
        }
    }

    fn rank(&self) -> Result<usize, String> {
        let Some(value) = self.get("r") else {
            return Ok(8);
        };
        let rank = value.as_u64().and_then(|it| usize::try_from(it).ok());
        rank.filter(|rank| *rank > 0)
            .ok_or_else(|| format!("`r` is {value}; a rank is a whole number of at least 1"))
    }

    fn alpha(&self) -> Result<f64, String> {
        let Some(value) = self.get("lora_alpha") else {
            return Ok(8.0);
        };
        let alpha = value.as_f64().filter(|it| it.is_finite());
        alpha.ok_or_else(|| format!("`lora_alpha` is {value}; it has to be a number"))
    }

    fn dropout(&self) -> Result<f64, String> {
        let Some(value) = self.get("lora_dropout") else {
            return Ok(0.0);
        };
        let dropout = value.as_f64().filter(|it| (0.0..1.0).contains(it));
        dropout.ok_or_else(|| {
            format!("`lora_dropout` is {value}; it has to be a number from 0 to below 1")
        })
    }

    fn switch(&self, option: &str) -> Result<bool, String> {
        match self.get(option) {
            None => Ok(false),
            Some(Json::Bool(on)) => Ok(*on),
            Some(value) => Err(format!("`{option}` is {value}; it has to be true or false")),
        }
    }

    fn targets(&self) -> Result<Targets, String> {
        match self.get("target_modules") {
            Some(Json::String(pattern)) => Ok(Targets::Matching(pattern.clone())),
            Some(Json::Array(names)) if !names.is_empty() => {
                let texts = names.iter().map(|it| it.as_str().map(str::to_owned));
                let texts: Option<Vec<String>> = texts.collect();
                let problem = "`target_modules` has an entry that is no text";
                texts.map(Targets::Named).ok_or_else(|| problem.to_owned())
            }
            value => Err(format!(
                "`target_modules` is {}; it has to name layers, in a list or in a regular expression",
                value.unwrap_or(&Json::Null)
            )),
        }
    }

    fn layers(&self) -> Result<Option<Vec<usize>>, String> {
        let Some(value) = self.get("layers_to_transform").filter(|it| !is_off(it)) else {
            return Ok(None);
        };
        if let Some(pattern @ Json::String(_)) = self.get("target_modules") {
            return Err(format!(
                "`layers_to_transform` is {value} beside `target_modules` {pattern}, which already says the layers"
            ));
        }
        if let Some(pattern) = self.get("layers_pattern").filter(|it| !is_off(it))
            && *pattern != "layers"
            && *pattern != serde_json::json!(["layers"])
        {
            return Err(format!(
                "`layers_pattern` is {pattern}; the models known here have their blocks in \"layers\""
            ));
        }
        let single = std::slice::from_ref(value);
        let numbers = value.as_array().map_or(single, Vec::as_slice);
        let number = |it: &Json| it.as_u64().and_then(|it| usize::try_from(it).ok());
        let layers: Option<Vec<usize>> = numbers.iter().map(number).collect();
        let problem =
            || format!("`layers_to_transform` is {value}; layers are whole numbers from 0");
        layers.map(Some).ok_or_else(problem)
    }
}

/// Whether a value turns its option off, whatever the option is.
fn is_off(value: &Json) -> bool {
    match value {
        Json::Null | Json::Bool(false) => true,
        Json::String(text) => text.is_empty(),
        Json::Array(list) => list.is_empty(),
        Json::Object(map) => map.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

    /// What is read of a plain adapter with these options in place of its own.
    fn read(options: Json) -> Result<LoraConfig, String> {
        let mut config = json!({
            "peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["q_proj"], "bias": "none",
            "init_lora_weights": true, "use_dora": false, "rank_pattern": {}, "qalora_group_size": 16,
        });
        let own = config.as_object_mut().unwrap();
        own.extend(options.as_object().unwrap().clone());
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(ADAPTER_CONFIG), config.to_string()).unwrap();
        read_adapter_config(folder.path()).map_err(|error| error.to_string())
    }

    #[test]
    fn an_option_that_can_not_be_served_is_refused_with_its_name_and_value() {
        let cases: Vec<(Json, String)> =
            serde_json::from_str(include_str!("refused.json")).unwrap();
        for (options, start) in cases {
            let error = read(options).unwrap_err();
            assert!(error.starts_with(&start), "{error}");
            assert!(error.contains(ADAPTER_CONFIG), "{error}");
        }
    }

    #[test]
    fn an_option_that_is_off_or_changes_nothing_is_read_over() {
        let plain = read(json!({})).unwrap();
        for options in [
            json!({"init_lora_weights": "gaussian"}),
            json!({"init_lora_weights": false, "exclude_modules": null, "use_dora": null}),
            json!({"loftq_config": {"loftq_bits": 4}, "task_type": "CAUSAL_LM", "unsloth_fixed": true}),
            json!({"modules_to_save": [], "layers_to_transform": [], "layers_pattern": "", "of_tomorrow": false}),
        ] {
            assert_eq!(read(options.clone()).unwrap(), plain, "{options}");
        }
        let defaults = read(json!({"r": null, "lora_alpha": null, "bias": null})).unwrap();
        assert_eq!((defaults.rank, defaults.alpha), (8, 8.0));
    }

    #[test]
    fn layers_are_named_as_peft_names_them() {
        let path = "model.layers.11.self_attn.q_proj";
        for (targets, expected) in [
            (json!(["q_proj"]), true),
            (json!(["k_proj", "self_attn.q_proj"]), true),
            (json!([path]), true),
            (json!(["proj"]), false),
            (json!(["1.self_attn.q_proj"]), false),
            (json!("all-linear"), true),
            (json!("All-Linear"), true),
            (json!(r".*\.(q|v)_proj"), true),
            (json!(r".*layers\.1\..*"), false),
            (json!("q_proj"), false),
            (json!(r"model\.layers\.11\.self_attn\.q_proj|x"), true),
            (json!(r"(?i).*Q_PROJ"), true),
            (json!(r".*(?<!k)_proj(?!ection)"), true),
        ] {
            let read = read(json!({"target_modules": targets})).unwrap();
            assert_eq!(read.targets.contain(path).unwrap(), expected, "{targets}");
        }
    }
}
