//! Commands of the reference, and what becomes of them.

use super::*;
use crate::{
    tasks::puzzle::request::PuzzleRequest,
    train::{TrainRequest, request::OptimizerKind},
};

fn read_words(words: &[&str]) -> Result<Overridden> {
    let words: Vec<String> = words.iter().map(|it| (*it).to_owned()).collect();
    crate::tasks::overrides::read(Some("cfg_pretrain"), &words)
}

fn request(overridden: &Overridden) -> TrainRequest<PuzzleRequest> {
    let mut fields = overridden.fields.clone();
    fields.as_object_mut().unwrap().remove("task");
    TrainRequest::read(&fields).unwrap()
}

/// A data set of 1000 puzzles with one example each.
fn data() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("train")).unwrap();
    let facts = json!({"total_groups": 1000, "mean_puzzle_examples": 1.0}).to_string();
    std::fs::write(folder.path().join("train/dataset.json"), facts).unwrap();
    folder
}

#[test]
fn the_command_of_the_readme_is_its_run() {
    let data = data();
    let paths = format!("data_paths=\"[{}]\"", data.path().display());
    let found = read_words(&[
        "arch=trm",
        &paths,
        "evaluators=[]",
        "epochs=50000",
        "eval_interval=5000",
        "lr=1e-4",
        "puzzle_emb_lr=1e-4",
        "weight_decay=1.0",
        "puzzle_emb_weight_decay=1.0",
        "arch.mlp_t=True",
        "arch.pos_encodings=none",
        "arch.L_layers=2",
        "arch.H_cycles=3",
        "arch.L_cycles=6",
        "+run_name=a",
        "ema=True",
    ]);
    let found = found.unwrap();
    let request = request(&found);
    let run = &request.run;
    assert_eq!(run.steps, Some(65104));
    assert_eq!(run.evaluate.every, Some(6510));
    assert_eq!(run.save.every, Some(6510));
    assert_eq!(run.name.as_deref(), Some("a"));
    assert_eq!(
        (run.ema, run.learning_rate, run.batch.rows),
        (Some(0.999), Some(1e-4), Some(768))
    );
    assert_eq!(run.batch.accumulate, Some(1));
    assert_eq!(run.optimizer.kind, Some(OptimizerKind::AdamAtan2));
    assert_eq!(run.optimizer.weight_decay, Some(1.0));
    assert_eq!(run.schedule.warmup_steps, Some(1999));
    let trm = &request.task.trm;
    assert_eq!(
        (trm.mlp_t, trm.l_cycles, trm.puzzle_emb_ndim),
        (Some(true), Some(6), Some(512))
    );
    assert_eq!(request.task.table.weight_decay, Some(1.0));
    assert_eq!(request.task.data.augment, Some(false));
    let expected = [
        "evaluators changes nothing here: what suits the data is measured",
        "50000 epochs of 1000 examples in batches of 768 are 65104 steps",
    ];
    assert_eq!(found.notes, expected);
}

#[test]
fn what_follows_another_key_follows_its_override() {
    let found = read_words(&["data_paths=[nowhere]", "arch.hidden_size=64"]).unwrap();
    let request = request(&found);
    assert_eq!(request.task.trm.puzzle_emb_ndim, Some(64));
    assert_eq!(request.run.epochs, Some(100_000.0));
    let found = read_words(&["data_paths=[nowhere]", "++lr_min_ratio=0.1"]).unwrap();
    assert_eq!(found.fields["schedule"]["kind"], "cosine");
}

#[test]
fn what_is_not_known_is_refused_with_the_nearest_name() {
    for (word, expected) in [
        (
            "ephocs=3",
            "`ephocs` is no key of cfg_pretrain; the nearest is epochs",
        ),
        ("arch.hidden_sise=3", "the nearest is arch.hidden_size"),
        ("+arch.L_cycle=3", "the nearest is arch.L_cycles"),
        ("~weight_deca", "the nearest is weight_decay"),
        ("hydra.run.dir=x", "`hydra.run.dir` is about Hydra"),
        ("arch=hrm", "`arch` is hrm, another architecture"),
        ("arch=other", "`arch` is \"other\"; trm is known here"),
        (
            "arch.no_ACT_continue=False",
            "the reference fails in training",
        ),
        ("freeze_weights=True", "`freeze_weights` is true"),
        ("arch.causal=True", "chats"),
        ("lr=fast", ""),
        (
            "ema=maybe",
            "`ema` is \"maybe\", and has to be True or False",
        ),
        ("data_paths=[a", "has a list without a ]"),
        ("arch.forward_dtype=float8", "has to be bfloat16"),
    ] {
        match read_words(&[word]) {
            Err(error) => assert!(error.to_string().contains(expected), "{error}"),
            // Our own reader says what is wrong with a number.
            Ok(found) => assert!(
                expected.is_empty() && found.fields["learning_rate"].is_string(),
                "{word}"
            ),
        }
    }
    let error = crate::tasks::overrides::read(Some("cfg_hrm"), &[]);
    let error = error.unwrap_err().to_string();
    assert!(error.starts_with("`--config-name` is cfg_hrm"), "{error}");
}

#[test]
fn keys_that_change_nothing_are_named() {
    let found = read_words(&[
        "data_paths=[nowhere]",
        "project_name=x",
        "arch.H_layers=2",
        "+checkpoint_path=y",
    ]);
    let notes = found.unwrap().notes;
    assert!(
        notes
            .iter()
            .any(|it| it.starts_with("project_name changes nothing here")),
        "{notes:?}"
    );
    assert!(
        notes.iter().any(|it| it.starts_with("arch.H_layers")),
        "{notes:?}"
    );
    assert!(
        notes.iter().any(|it| it.starts_with("checkpoint_path")),
        "{notes:?}"
    );
}
