//! What the keys of the chat configurations mean for a run of a recursive language model. They are those of the fork of Tiny Recursive
//! Models that chats (`dpalmqvist/TinyRecursiveModels` at cf01052); its numbers are in `overrides/configs.json`. What is done otherwise
//! than there, and why, is said by the name of the key.

use std::{path::Path, sync::LazyLock};

use serde_json::{Value as Json, json};

use super::Language;
use crate::{
    Error, Result,
    arch::trm::MODEL_TYPE,
    embedded,
    tasks::overrides::{Config, Overridden, assignment, tree},
    train::Kind,
};

/// The configurations, and the architectures that they name.
static CONFIGS: LazyLock<Json> =
    LazyLock::new(|| embedded::table("configs.json", include_str!("overrides/configs.json")));

/// The context that its examples build their data with, in tokens.
const CONTEXT: u64 = 512;
/// The most tokens of a tokenizer that is trained in place of GPT-2's.
const VOCABULARY: u64 = 8192;

/// Keys that are not in its files, and that are known all the same. `arch.seq_len` is in its guides, and fails there.
const MORE: [&str; 6] = [
    "run_name",
    "project_name",
    "load_checkpoint",
    "checkpoint_path",
    "eval_save_outputs",
    "arch.seq_len",
];

/// Keys that change nothing here, with why.
const IGNORED: [(&str, &str); 12] = [
    ("arch.H_layers", "the reference ignores it too"),
    (
        "arch.halt_exploration_prob",
        "when to halt is not learned: all steps are always thought",
    ),
    (
        "puzzle_emb_lr",
        "conversations have no vectors of their own",
    ),
    (
        "puzzle_emb_weight_decay",
        "conversations have no vectors of their own",
    ),
    ("project_name", "nothing is sent to a tracker"),
    (
        "checkpoint_path",
        "checkpoints are in the folder of the run",
    ),
    (
        "checkpoint_every_eval",
        "checkpoints are saved as often as suits the run",
    ),
    ("eval_save_outputs", "samples are shown instead"),
    ("evaluators", "what suits the data is measured"),
    (
        "eval_interval",
        "held-out conversations are looked at as often as suits the run",
    ),
    (
        "min_eval_interval",
        "held-out conversations are looked at from the beginning",
    ),
    (
        "data_paths_test",
        "some of the conversations are held out instead",
    ),
];

/// The names of the configurations.
pub fn configs() -> Vec<&'static str> {
    names("configs")
}

fn names(group: &str) -> Vec<&'static str> {
    let all = CONFIGS[group].as_object();
    all.map(|all| all.keys().map(String::as_str).collect())
        .unwrap_or_default()
}

/// Reads the words over the configuration of this name.
pub fn read(name: &str, words: &[String]) -> Result<Overridden> {
    let mut defaults = CONFIGS["all"].clone();
    let own = CONFIGS["configs"][name].as_object();
    let fields = defaults.as_object_mut().zip(own);
    if let Some((fields, own)) = fields {
        fields.extend(own.clone());
    }
    // A whole group comes before single keys of it, wherever it stands.
    let mut arch = defaults["arch"].as_str().unwrap_or_default().to_owned();
    for word in words
        .iter()
        .filter(|word| word.trim_start_matches('+').starts_with("arch="))
    {
        let asked = assignment(word)?.1;
        arch = known_arch(&asked)?.to_owned();
    }
    defaults["arch"] = CONFIGS["arch"][arch.as_str()].clone();
    let mut config = Config::new(name, defaults, &MORE);
    for word in words {
        config.apply(word, |asked| known_arch(asked).map(drop))?;
    }
    refuse(&config, &arch)?;
    overridden(&config)
}

fn known_arch(asked: &Json) -> Result<&str> {
    let known = names("arch");
    let name = asked.as_str().filter(|name| known.contains(name));
    name.ok_or_else(|| {
        let problem = format!("is {asked}; for chats there are {}", known.join(", "));
        Error::setting("arch", problem)
    })
}

/// Refuses what would be another training than the one that was asked for, or none that leads to a model that can write.
fn refuse(config: &Config, arch: &str) -> Result<()> {
    config.refuse_what_nobody_can()?;
    if config.flag("arch.mlp_t")? {
        let why = format!(
            "with {arch}, blocks would multiply along the sequence and see the tokens that they are to predict, so the loss would \
             fall and nothing could be written; add arch.mlp_t=False, which attends instead, or take --config-name cfg_chat"
        );
        return Err(config.refused("arch.mlp_t", &why));
    }
    if !config.flag("arch.causal")? {
        let why = "a model that writes must not see what comes later";
        return Err(config.refused("arch.causal", why));
    }
    for key in ["arch.puzzle_emb_ndim", "arch.puzzle_emb_len"] {
        if config.number(key)? != 0.0 {
            let why = "conversations have no vectors and places of their own; leave it 0";
            return Err(config.refused(key, why));
        }
    }
    if config.word("dataset_type")? != "chat" {
        let why = "puzzles begin with --config-name cfg_pretrain";
        return Err(config.refused("dataset_type", why));
    }
    if let Some(built) = config
        .paths("data_paths")
        .into_iter()
        .find(|it| is_built(it))
    {
        let problem = format!(
            "has {built}, a folder of arrays; name the JSON file that it was built from, whose template and tokens are made here"
        );
        return Err(Error::setting("data_paths", problem));
    }
    if !config.get("load_checkpoint").is_null() {
        let why = "checkpoints of the fork can’t be continued yet, since they come without their tokenizer; \
                   a run of ours continues with `model`";
        return Err(config.refused("load_checkpoint", why));
    }
    Ok(())
}

/// Whether a folder has been built by the reference: numbers of tokens that mean nothing without its tokenizer.
fn is_built(folder: &str) -> bool {
    Path::new(folder)
        .join("train")
        .join("dataset.json")
        .is_file()
}

fn overridden(config: &Config) -> Result<Overridden> {
    let mut notes = config.ignored(&IGNORED);
    let mut fields = model(config, &mut notes)?;
    let named = |(field, value): (&str, Json)| (field.to_owned(), value);
    fields.extend(config.rates()?.into_iter().map(named));
    let length = context(config)?;
    fields.extend(
        [
            ("optimizer.kind", json!("adamw")),
            ("method", json!("scratch")),
            ("scratch.vocab_size", json!(VOCABULARY)),
            ("data.files", json!(config.paths("data_paths"))),
            ("data.learn", json!("assistant")),
            ("batch.length", json!(length)),
            (
                "batch.rows",
                json!(config.number("global_batch_size")? as u64),
            ),
            ("epochs", config.get("epochs").clone()),
            ("dtype.compute", json!(config.dtype()?)),
        ]
        .map(named),
    );
    notes.extend([
        "only the assistant’s words are learned; the reference learns the user’s too, as --set data.learn=all does".to_owned(),
        format!(
            "a tokenizer of up to {VOCABULARY} tokens is trained on the data in place of GPT-2’s; --set scratch.tokenizer=FOLDER takes another"
        ),
        format!(
            "short conversations share rows of {length} tokens without seeing each other; the reference fills each up, as --set data.packing=false does"
        ),
    ]);
    Ok(Overridden {
        fields: tree(Language::NAME, fields),
        notes,
    })
}

/// The fields of `scratch.config`, and `arch.seq_len` as the context.
fn model(config: &Config, notes: &mut Vec<String>) -> Result<Vec<(String, Json)>> {
    let field = |name: &str| format!("scratch.config.{name}");
    let mut fields = vec![
        (field("model_type"), json!(MODEL_TYPE)),
        (field("causal"), json!(true)),
        (field("max_position_embeddings"), json!(context(config)?)),
    ];
    let names = [
        "hidden_size",
        "num_heads",
        "expansion",
        "L_layers",
        "H_cycles",
        "L_cycles",
        "halt_max_steps",
        "rms_norm_eps",
        "rope_theta",
    ];
    fields.extend(config.architecture("scratch.config", &names));
    fields.push((field("pos_encodings"), json!(config.positions())));
    match config.word("arch.loss.loss_type")? {
        "softmax_cross_entropy" => {}
        "stablemax_cross_entropy" => notes.push(
            "arch.loss.loss_type is stablemax_cross_entropy; text is learned and written with softmax here".to_owned(),
        ),
        _ => {
            let why = "text is learned with softmax_cross_entropy";
            return Err(config.refused("arch.loss.loss_type", why));
        }
    }
    if config.number("arch.halt_max_steps")? > 1.0 {
        notes.push(format!(
            "arch.halt_max_steps is {}: every token is thought about for all of them, anew, and each is learned from; when to halt is not \
             learned, since the reference reads that from the first token, which sees no other",
            config.get("arch.halt_max_steps")
        ));
    }
    Ok(fields)
}

/// The context: what `arch.seq_len` says, for the model, its batches and what it writes.
fn context(config: &Config) -> Result<u64> {
    let found = config.get("arch.seq_len");
    let wrong = || config.refused("arch.seq_len", "it has to be a whole number of tokens");
    match found.is_null() {
        true => Ok(CONTEXT),
        false => found.as_u64().ok_or_else(wrong),
    }
}

#[cfg(test)]
mod tests;
