//! Gradients out of all proportion: what the loop does about them, on the line of `train`.

use std::path::Path;

use models::{
    tasks::language::LanguagePlan,
    train::{TrainEvent, TrainPlan},
};
use serde_json::json;

use crate::train::{
    Line, Watch, after_going_back, never, plan, rolled_back, steps_taken, train_line, warnings,
};

/// A plan whose line is noisy enough that its gradients never vanish.
fn long_plan(steps: usize) -> TrainPlan<LanguagePlan> {
    plan(
        steps,
        json!({
            "learning_rate": 1e-4, "clip_norm": 1.0,
            "save": { "every": 25, "keep_last": 99, "keep_best": false },
        }),
    )
}

/// Trains with poisoned batches. Two batches a step: batches 100 and 101 are in step 51.
fn run_poisoned(
    poisoned: &[u64],
    plan: &TrainPlan<LanguagePlan>,
    folder: &Path,
    enough: impl Fn(&[TrainEvent]) -> bool + 'static,
) -> (Line, Watch) {
    let mut line = Line::new();
    line.poisoned = poisoned.to_vec();
    let (outcome, line, watch) = train_line(line, plan, folder, enough);
    outcome.unwrap();
    (line, watch)
}

#[test]
fn a_gradient_out_of_proportion_is_gone_back_for_once_and_then_taken_with_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let (line, watch) = run_poisoned(&[110], &long_plan(80), folder.path(), never);
    assert_eq!(watch.all(rolled_back), [(56, 50, 5e-5)]);
    let why = watch.all(|event| match event {
        TrainEvent::RolledBack { why, .. } => Some(why.clone()),
        _ => None,
    });
    let (begins, ends) = ("the gradient norm was ", " times the usual");
    assert!(
        why[0].starts_with(begins) && why[0].ends_with(ends),
        "{why:?}"
    );
    let warnings = warnings(&watch);
    let [warning] = warnings.as_slice() else {
        panic!("{warnings:?}");
    };
    let end = ", in step 56, also after going back, so its batch is odd and not the model; the step was taken, clipped \
               to 1 as always";
    assert!(warning.ends_with(end), "{warning}");
    assert!(matches!(
        watch.events.last(),
        Some(TrainEvent::Finished { step: 80, .. })
    ));
    // No batch was left out, and none was learned from twice.
    assert_eq!(line.position, 160);
}

#[test]
fn spikes_never_end_a_run_and_are_gone_back_for_three_times_at_most() {
    let folder = tempfile::tempdir().unwrap();
    // Each further apart than a step is remembered, so that each is news.
    let poisoned = [200, 600, 1_000, 1_400, 1_800];
    let (line, watch) = run_poisoned(&poisoned, &long_plan(1_000), folder.path(), never);
    let steps = watch.all(|event| rolled_back(event).map(|it| it.0));
    assert_eq!(steps, [101, 301, 501]);
    let warnings = warnings(&watch);
    assert_eq!(warnings.len(), 5, "{warnings:?}");
    assert!(warnings[2].contains(", in step 501, also after going back"));
    let often = ", in step 901, and the run went back for others often enough; the step was taken";
    assert!(warnings[4].contains(often), "{warnings:?}");
    assert_eq!(line.position, 2_000);
}

#[test]
fn a_run_that_stops_before_or_after_a_spike_goes_on_with_the_same_bits() {
    let whole = tempfile::tempdir().unwrap();
    let plan = long_plan(80);
    let (expected, expected_events) = run_poisoned(&[110], &plan, whole.path(), never);
    // After 25 steps the norms are too few to tell, after 50 they are enough, and the rest is in the checkpoint.
    let stops: [fn(&[TrainEvent]) -> bool; 3] = [
        |events| steps_taken(events) >= 25,
        |events| steps_taken(events) >= 50,
        after_going_back,
    ];
    for enough in stops {
        let folder = tempfile::tempdir().unwrap();
        run_poisoned(&[110], &plan, folder.path(), enough);
        let (resumed, events) = run_poisoned(&[110], &plan, folder.path(), never);
        assert_eq!(resumed.weight(), expected.weight());
        assert_eq!(warnings(&events), warnings(&expected_events));
    }
}
