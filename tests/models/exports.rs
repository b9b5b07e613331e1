//! What is saved is what was trained: for us, and for transformers and peft.

use std::{fs, path::PathBuf};

use candle_core::Device;
use models::{
    arch::decoder::{Decoder, Input},
    checkpoint::{
        adapter::{load_adapter, read_adapter_config, save_adapter},
        folder::ModelFolder,
        load::{LoadDtypes, load_decoder},
        model::save_model,
    },
};
use serde_json::json;

use crate::{
    decoder::logits,
    golden::{Golden, cases, is_adapter, largest_difference},
};

/// With this variable, the saved folders stay in the folder it names, each with the logits that
/// `tests/goldens/check_exports.py` compares.
const KEEP: &str = "ANNEAL_WRITE_EXPORTS";

#[test]
fn a_saved_model_is_loaded_with_the_logits_it_was_trained_to() {
    check(
        |name| !is_adapter(name),
        |golden, decoder, folder| {
            let config = ModelFolder::open(&golden.folder).unwrap().config;
            save_model(decoder, &config, folder).unwrap();
            load(&ModelFolder::open(folder).unwrap())
        },
    );
}

#[test]
fn a_saved_adapter_is_loaded_with_the_logits_it_was_trained_to() {
    check(is_adapter, |golden, decoder, folder| {
        let golden_base = ModelFolder::open(&golden.folder).unwrap();
        let base = folder.join("base");
        fs::create_dir_all(&base).unwrap();
        save_model(&load(&golden_base), &golden_base.config, &base).unwrap();
        let config = read_adapter_config(&golden.folder.join("adapter")).unwrap();
        save_adapter(decoder, &config, &base.to_string_lossy(), folder).unwrap();
        let mut loaded = load(&ModelFolder::open(&base).unwrap());
        load_adapter(&mut loaded, folder).unwrap();
        loaded
    });
}

#[test]
fn an_adapter_whose_names_fit_nothing_is_refused_in_words_of_its_file() {
    for golden in cases(|name| name == "lora-all-v5") {
        let folder = tempfile::tempdir().unwrap();
        let file = fs::read(golden.folder.join("adapter/adapter_config.json")).unwrap();
        for (option, value, problem) in [
            (
                "target_modules",
                json!(["self_attn"]),
                "`target_modules` names none of the model’s linear layers; they are `q_proj`, `k_proj`, `v_proj`, \
                 `gate_proj`, `up_proj`, `o_proj`, `down_proj`",
            ),
            (
                "layers_to_transform",
                json!(2),
                "`layers_to_transform` names layer 2; the model has 2, from 0",
            ),
        ] {
            let mut config: serde_json::Value = serde_json::from_slice(&file).unwrap();
            config[option] = value;
            let path = folder.path().join("adapter_config.json");
            fs::write(&path, config.to_string()).unwrap();
            let weights = "adapter_model.safetensors";
            fs::copy(
                golden.folder.join("adapter").join(weights),
                folder.path().join(weights),
            )
            .unwrap();
            let mut decoder = load(&ModelFolder::open(&golden.folder).unwrap());
            let error = load_adapter(&mut decoder, folder.path()).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("{problem}: `{}`", path.display())
            );
        }
    }
}

/// Trains every wanted case a little, and compares the logits of what `save_and_load` returns.
fn check(
    wanted: impl Fn(&str) -> bool,
    save_and_load: impl Fn(&Golden, &Decoder, &PathBuf) -> Decoder,
) {
    let temporary = tempfile::tempdir().unwrap();
    let kept = std::env::var_os(KEEP).map(PathBuf::from);
    for golden in cases(wanted) {
        let parent = kept.as_deref().unwrap_or(temporary.path());
        let folder = parent.join(&golden.name);
        fs::create_dir_all(&folder).unwrap();
        let decoder = golden.decoder();
        for parameter in decoder.parameters().trainable() {
            let moved = parameter.tensor().affine(1.25, 0.01).unwrap();
            parameter.assign(&moved).unwrap();
        }
        let loaded = save_and_load(&golden, &decoder, &folder);
        let (tokens, rows) = golden.tokens("tokens");
        let logits = |it: &Decoder| logits(it, Input::new(&tokens, rows));
        let (trained, loaded) = (logits(&decoder), logits(&loaded));
        assert_eq!(
            largest_difference(&trained, &loaded),
            0.0,
            "{}",
            golden.name
        );
        let tokens: Vec<_> = tokens.chunks(tokens.len() / rows).collect();
        let written = json!({"tokens": tokens, "logits": trained.to_vec3::<f32>().unwrap()});
        fs::write(folder.join("logits.json"), written.to_string()).unwrap();
    }
}

fn load(folder: &ModelFolder) -> Decoder {
    load_decoder(folder, LoadDtypes::F32, false, &Device::Cpu).unwrap()
}
