//! Checkpoints that were cut short or changed after they were written: never loaded, never in the way of the one before.

use std::{
    fs,
    path::{Path, PathBuf},
};

use models::{
    checkpoint::{keep::Checkpoints, whole},
    tasks::language::LanguagePlan,
    train::{Outcome, TrainEvent, TrainPlan, TrainState, state::read_saved},
};
use serde_json::json;

use crate::train::{Line, never, plan, rolled_back, run, train_line};

/// Places of a long file that are tried; of a shorter one all are.
const MAX_PLACES: usize = 1_000;

/// A run of ten steps with an average, saved after steps 5 and 10, that was then asked for ten more.
fn saved_twice() -> (tempfile::TempDir, TrainPlan<LanguagePlan>) {
    let folder = tempfile::tempdir().unwrap();
    let save = json!({ "every": 5, "keep_last": 2, "keep_best": false });
    let plan = plan(10, json!({ "ema": 0.9, "save": save }));
    let (outcome, _, _) = run(&plan, folder.path(), None, never);
    assert_eq!(outcome.unwrap(), Outcome::Finished);
    (folder, plan)
}

fn places(bytes: usize) -> impl Iterator<Item = usize> {
    (0..bytes).step_by(bytes.div_ceil(MAX_PLACES).max(1))
}

/// Whether the newest checkpoint is refused and the one before it is used, and nothing is gone.
#[track_caller]
fn check_damaged(folder: &Path, what: &str) {
    let checkpoints = Checkpoints::new(folder, 1);
    let mut told = Vec::new();
    let newest = checkpoints.newest_before(usize::MAX, &mut |it| told.push(it));
    let newest = newest.unwrap().expect("the one before");
    assert_eq!((newest.step, told.len()), (5, 1), "{what}: {told:?}");
    assert!(told[0].starts_with("the checkpoint of step 10 is damaged"));
    let aside = folder.join("step-000010.damaged");
    // As it was, for the next damage.
    fs::rename(aside, checkpoints.path(10)).unwrap();
}

#[test]
fn a_checkpoint_cut_or_changed_at_any_byte_is_never_restored_and_the_one_before_it_is() {
    let (folder, _) = saved_twice();
    let newest = Checkpoints::new(folder.path(), 1).path(10);
    let files = fs::read_dir(&newest).unwrap().map(|it| it.unwrap().path());
    let files: Vec<PathBuf> = files.collect();
    assert_eq!(files.len(), 5, "{files:?}");
    for file in files {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let whole_file = fs::read(&file).unwrap();
        for at in places(whole_file.len()) {
            fs::write(&file, &whole_file[..at]).unwrap();
            assert!(whole::verify_lengths(&newest).is_err());
            check_damaged(folder.path(), &format!("`{name}` cut at {at}"));
            let mut changed = whole_file.clone();
            changed[at] ^= 1 << (at % 8);
            fs::write(&file, &changed).unwrap();
            check_damaged(folder.path(), &format!("`{name}` changed at {at}"));
        }
        fs::remove_file(&file).unwrap();
        check_damaged(folder.path(), &format!("without `{name}`"));
        fs::write(&file, &whole_file).unwrap();
        whole::verify(&newest).unwrap();
    }
}

#[test]
fn a_run_goes_on_from_the_last_whole_checkpoint_to_the_same_weights() {
    let (folder, plan) = saved_twice();
    let checkpoints = Checkpoints::new(folder.path(), 1);
    let weights = checkpoints.path(10).join("learning.safetensors");
    let expected = fs::read(&weights).unwrap();
    fs::write(&weights, &expected[..expected.len() / 2]).unwrap();
    let (outcome, _, watch) = train_line(Line::new(), &plan, folder.path(), never);
    assert_eq!(outcome.unwrap(), Outcome::Finished);
    let begins: Vec<&TrainEvent> = watch.events.iter().take(2).collect();
    assert!(
        matches!(begins[..], [TrainEvent::Warned { message }, TrainEvent::Started { step: 5, .. }]
            if message.contains("`learning.safetensors` has")),
        "{begins:?}"
    );
    assert_eq!(fs::read(&weights).unwrap(), expected);
    let aside = folder.path().join("step-000010.damaged");
    assert!(aside.join("learning.safetensors").exists());
}

#[test]
fn a_run_goes_back_over_a_damaged_checkpoint_to_a_whole_one() {
    let folder = tempfile::tempdir().unwrap();
    let save = json!({ "every": 5, "keep_last": 3, "keep_best": false });
    let plan = plan(20, json!({ "save": save }));
    // Step 10 is damaged right after it was saved; step 13 can't be taken.
    let damage = |events: &[TrainEvent]| {
        let saved = |event: &&TrainEvent| matches!(event, TrainEvent::Saved { step: 10, .. });
        let times = events.iter().filter(saved).count();
        if let (1, Some(TrainEvent::Saved { step: 10, path, .. })) = (times, events.last()) {
            fs::write(path.join("model.safetensors"), "").unwrap();
        }
        false
    };
    let mut line = Line::new();
    (line.broken, line.times) = (Some(25), 1);
    let (outcome, _, watch) = train_line(line, &plan, folder.path(), damage);
    assert_eq!(outcome.unwrap(), Outcome::Finished);
    let back = watch.all(|event| rolled_back(event).map(|it| (it.0, it.1)));
    assert_eq!(back, [(13, 5)]);
    let whole = Checkpoints::new(folder.path(), 3).whole().unwrap();
    let steps: Vec<usize> = whole.iter().map(|it| it.step).collect();
    assert_eq!(steps, [10, 15, 20], "step 10 was saved again");
    whole.iter().for_each(|it| whole::verify(&it.path).unwrap());
}

#[test]
fn a_checkpoint_says_how_far_it_is_and_what_made_it() {
    let (folder, plan) = saved_twice();
    let newest = Checkpoints::new(folder.path(), 1).path(10);
    let saved = read_saved(&newest).unwrap();
    assert_eq!(
        (saved.progress.step, saved.plan),
        (10, serde_json::to_value(&plan).ok())
    );
    let mut line = Line::new();
    let mut state = TrainState::new(&plan, &line).unwrap();
    state.restore(&mut line, &newest).unwrap();
    assert_eq!(state.progress, saved.progress);
}
