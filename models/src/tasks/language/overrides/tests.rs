//! Commands of the fork that chats, and what becomes of them.

use super::*;
use crate::{
    tasks::language::request::{LanguageRequest, Learn, Method},
    train::{TrainRequest, request::OptimizerKind},
};

fn read_words(name: &str, words: &[&str]) -> Result<Overridden> {
    let words: Vec<String> = words.iter().map(|it| (*it).to_owned()).collect();
    crate::tasks::overrides::read(Some(name), &words)
}

fn request(overridden: &Overridden) -> TrainRequest<LanguageRequest> {
    let mut fields = overridden.fields.clone();
    fields.as_object_mut().unwrap().remove("task");
    TrainRequest::read(&fields).unwrap()
}

#[test]
fn the_command_of_the_guides_is_its_run() {
    let words = [
        "data_paths=[data/chats.json]",
        "arch.hidden_size=512",
        "arch.seq_len=256",
        "+run_name=a",
    ];
    let found = read_words("cfg_chat", &words).unwrap();
    assert_eq!(found.fields["task"], "language");
    let request = request(&found);
    let (run, task) = (&request.run, &request.task);
    assert_eq!(task.method, Some(Method::Scratch));
    assert_eq!(task.data.files, [Path::new("data/chats.json")]);
    assert_eq!(task.data.learn, Some(Learn::Assistant));
    let config = &task.scratch.as_ref().unwrap().config;
    for (name, value) in [
        ("model_type", json!("trm")),
        ("hidden_size", json!(512)),
        ("num_heads", json!(12)),
        ("L_layers", json!(4)),
        ("H_cycles", json!(1)),
        ("halt_max_steps", json!(1)),
        ("max_position_embeddings", json!(256)),
    ] {
        assert_eq!(config[name], value, "{name}");
    }
    assert_eq!(
        (run.batch.rows, run.batch.accumulate, run.batch.length),
        (Some(4), Some(8), Some(256))
    );
    assert_eq!(run.optimizer.kind, Some(OptimizerKind::Adamw));
    assert_eq!(
        (run.learning_rate, run.ema, run.clip_norm),
        (Some(3e-4), Some(0.999), Some(0.0))
    );
    assert_eq!(
        (run.schedule.min_ratio, run.schedule.warmup_steps),
        (Some(0.1), Some(999))
    );
    assert_eq!((run.epochs, run.seed), (Some(10.0), Some(0)));
    assert_eq!(run.name.as_deref(), Some("a"));
}

#[test]
fn what_would_see_the_future_is_refused_with_what_to_say_instead() {
    for name in ["cfg_chat_fast", "cfg_chat_fp32", "cfg_chat_fast_fp32"] {
        let error = read_words(name, &[]).unwrap_err().to_string();
        assert!(
            error.starts_with("`arch.mlp_t` is true: with trm_small"),
            "{error}"
        );
        assert!(error.contains("add arch.mlp_t=False"), "{error}");
        assert!(read_words(name, &["arch.mlp_t=False"]).is_ok(), "{name}");
    }
    let found = read_words("cfg_chat_fp32", &["arch.mlp_t=False"]).unwrap();
    assert_eq!(request(&found).run.clip_norm, Some(1.0));
    let note = |words: &str| found.notes.iter().any(|it| it.starts_with(words));
    assert!(note("arch.halt_max_steps is 4"), "{:?}", found.notes);
}

#[test]
fn an_architecture_is_the_ground_of_its_keys_wherever_it_stands() {
    let words = ["arch.mlp_t=False", "arch.H_cycles=5", "arch=trm_small"];
    let found = read_words("cfg_chat", &words).unwrap();
    let config = &found.fields["scratch"]["config"];
    assert_eq!(
        (&config["hidden_size"], &config["H_cycles"]),
        (&json!(256), &json!(5))
    );
    let softmax = "arch.loss.loss_type is stablemax_cross_entropy";
    assert!(found.notes.iter().any(|it| it.starts_with(softmax)));
}

#[test]
fn what_is_not_known_is_refused_by_its_name() {
    for (word, expected) in [
        (
            "arch=hrm",
            "`arch` is \"hrm\"; for chats there are trm_chat",
        ),
        (
            "arch.hidden_sise=3",
            "`arch.hidden_sise` is no key of cfg_chat; the nearest is arch.hidden_size",
        ),
        (
            "arch.causal=False",
            "`arch.causal` is false: a model that writes",
        ),
        ("arch.puzzle_emb_len=16", "`arch.puzzle_emb_len` is 16"),
        ("arch.seq_len=short", "`arch.seq_len` is \"short\""),
        (
            "dataset_type=puzzle",
            "puzzles begin with --config-name cfg_pretrain",
        ),
        ("load_checkpoint=step_3", "`load_checkpoint` is \"step_3\""),
        (
            "arch.loss.loss_type=mse",
            "text is learned with softmax_cross_entropy",
        ),
    ] {
        let error = read_words("cfg_chat", &[word]).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let error = read_words("cfg_talk", &[]).unwrap_err().to_string();
    assert!(
        error.contains("known here are cfg_pretrain, cfg_chat, cfg_chat_fast"),
        "{error}"
    );
    let error = crate::tasks::overrides::read(None, &["arch=trm_chat".to_owned()]);
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("begin with --config-name cfg_chat"),
        "{error}"
    );
}
