//! A whole model as a folder in the layout of the Hub, which transformers 4 and 5 load.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};

use candle_core::Tensor;
use serde_json::{Value as Json, json};

use super::{
    folder::{CONFIG, WEIGHTS},
    save::{write_json, write_safetensors},
};
use crate::{
    Error, Result,
    arch::{config::DecoderConfig, decoder::Decoder, families::FAMILIES, network::Network},
};

/// Writes the weights, and `config.json` so that every version reads the same from it, into an existing folder.
///
/// Errors: [`Error::Data`] when some are in quantized blocks, which this layout does not hold.
pub fn save_model(decoder: &Decoder, config: &Json, folder: &Path) -> Result<()> {
    let quantized = decoder.parameters().quantized_count();
    if quantized > 0 {
        return Err(Error::Data(format!(
            "the model can’t be written whole: {quantized} of its weights are in quantized blocks; save its adapter"
        )));
    }
    let weights = decoder.parameters().iter();
    let weights = weights.map(|it| (it.name().to_owned(), it.tensor()));
    write_weights(weights.collect(), folder)?;
    let mut config = for_every_version(config);
    // A checkpoint can have a head of its own although its config says otherwise.
    config["tie_word_embeddings"] = json!(decoder.config().tie_word_embeddings);
    write_json(&folder.join(CONFIG), &config)
}

/// The `config.json` of a model for everybody: what it is called, rotary positions where each program looks for them, and whether the
/// head is the table of tokens.
pub fn public_config(config: &Json, decoder: &DecoderConfig) -> Result<Json> {
    let mut config = for_every_version(config);
    config["tie_word_embeddings"] = json!(decoder.tie_word_embeddings);
    let family = FAMILIES
        .iter()
        .find(|it| it.model_type == decoder.model_type);
    if let (Some(family), true) = (
        family,
        config.get("architectures").is_none_or(Json::is_null),
    ) {
        config["architectures"] = json!([family.class]);
    }
    // Some programs know one of the two names alone.
    if let Some(scaling) = config.get_mut("rope_scaling").and_then(Json::as_object_mut) {
        let kind = scaling
            .get("rope_type")
            .or_else(|| scaling.get("type"))
            .cloned();
        for field in ["rope_type", "type"] {
            if let (Some(kind), false) = (&kind, scaling.contains_key(field)) {
                scaling.insert(field.to_owned(), kind.clone());
            }
        }
    }
    Ok(config)
}

/// Writes a network of any architecture. See [`save_model`].
pub fn save_network(network: &Network, config: &Json, folder: &Path) -> Result<()> {
    match network {
        Network::Decoder(decoder) => save_model(decoder, config, folder),
        Network::Recursive(model) => {
            let weights = model.parameters().iter();
            let weights = weights.map(|it| (it.name().to_owned(), it.tensor()));
            write_weights(weights.collect(), folder)?;
            write_json(&folder.join(CONFIG), config)
        }
        Network::ChatOnly(model) => Err(model.cannot_learn()),
    }
}

fn write_weights(tensors: BTreeMap<String, Tensor>, folder: &Path) -> Result<()> {
    // transformers refuses files that don't say what framework they are for.
    let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    write_safetensors(&folder.join(WEIGHTS), &tensors, metadata)
}

/// The config with rotary positions where transformers 4 looks for them too.
///
/// Version 5 keeps them in `rope_parameters`, by layer type where types differ. Version 4 ignores that field without a
/// word, and takes the base to be 10,000.
fn for_every_version(config: &Json) -> Json {
    let mut config = config.clone();
    let Some(parameters) = config.get("rope_parameters").cloned() else {
        return config;
    };
    let is_by_type = parameters.get("full_attention").is_some();
    let scaling = config.get("rope_scaling").and_then(Json::as_object);
    if !is_by_type && scaling.is_some_and(|scaling| !scaling.is_empty()) {
        // Of both, every version reads the older one alone.
        config["rope_parameters"] = Json::Null;
        return config;
    }
    let global = parameters.get("full_attention").unwrap_or(&parameters);
    let local = parameters.get("sliding_attention");
    let mut set = |field: &str, value: Option<Json>| {
        if let (Some(value), None) = (value, config.get(field).filter(|it| !it.is_null())) {
            config[field] = value;
        }
    };
    set("rope_theta", global.get("rope_theta").cloned());
    let local_theta = local.and_then(|local| local.get("rope_theta"));
    set("rope_local_base_freq", local_theta.cloned());
    for field in ["partial_rotary_factor", "original_max_position_embeddings"] {
        set(field, global.get(field).cloned());
    }
    let has = |fields: &[&str]| {
        let mut fields = fields.iter().filter_map(|field| global.get(field));
        fields.any(|value| !value.is_null())
    };
    match global.get("rope_type").and_then(Json::as_str) {
        Some("default") | None => {}
        // Version 4 accepts these three fields, and no fourth. Where there are more it refuses the config, which is better than
        // to leave out what version 5 reads.
        Some("longrope") if !has(&["attention_factor", "factor"]) => {
            let [short, long] = ["short_factor", "long_factor"].map(|it| global.get(it));
            set(
                "rope_scaling",
                Some(json!({"type": "longrope", "short_factor": short, "long_factor": long})),
            );
        }
        Some(_) => set("rope_scaling", Some(global.clone())),
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(before: Json, after: Json) {
        assert_eq!(for_every_version(&before), after);
    }

    #[test]
    fn a_config_says_the_same_in_both_layouts() {
        let plain = json!({"rope_theta": 5e5, "rope_type": "default"});
        check(
            json!({"rope_parameters": plain}),
            json!({"rope_parameters": plain, "rope_theta": 5e5}),
        );
        let scaled = json!({"rope_theta": 5e5, "rope_type": "linear", "factor": 2.0});
        check(
            json!({"rope_parameters": scaled, "rope_scaling": null}),
            json!({"rope_parameters": scaled, "rope_theta": 5e5, "rope_scaling": scaled}),
        );
        let by_type = json!({
            "full_attention": {"rope_theta": 1e6, "rope_type": "default"},
            "sliding_attention": {"rope_theta": 1e4, "rope_type": "default"},
        });
        check(
            json!({"rope_parameters": by_type}),
            json!({"rope_parameters": by_type, "rope_theta": 1e6, "rope_local_base_freq": 1e4}),
        );
    }

    #[test]
    fn a_config_in_the_older_layout_is_left_alone() {
        let config = json!({"rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 2.0}});
        check(config.clone(), config);
    }
}
