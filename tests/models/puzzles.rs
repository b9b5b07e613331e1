//! Runs that learn puzzles: planned from a folder, trained, killed and resumed.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};

use candle_core::Device;
use models::{
    checkpoint::keep::Checkpoints,
    tasks::puzzle::{
        Puzzle,
        make::{Order, make, write},
        request::{PuzzlePlan, PuzzleRequest},
        sudoku::Sudoku,
    },
    train::{
        Kind, Measuring, Observer, RunPlace, Task, TrainEvent, TrainPlan, TrainRequest,
        exhibit::Exhibit, resolve,
    },
};
use serde_json::{Value as Json, json};

use crate::kind::{Killed, change, on_a_processor, run_from_newest};

/// A folder of small Sudoku, and the plan of a run on it.
pub(crate) fn plan(folder: &Path, changes: Json) -> TrainPlan<PuzzlePlan> {
    let order = Order {
        shape: Sudoku::of_cells(16).unwrap(),
        count: 40,
        givens: 0..=9,
        min_rating: 0,
        seed: 1,
    };
    let made = make(&order).unwrap();
    write(&made, 10, &folder.join("data")).unwrap();
    plan_of(&folder.join("data"), changes)
}

/// The plan of a short run on what a path has.
pub(crate) fn plan_of(data: &Path, changes: Json) -> TrainPlan<PuzzlePlan> {
    let mut tree = json!({
        "data": {"files": [data]},
        "trm": {"hidden_size": 32, "num_heads": 2, "halt_max_steps": 3, "halt_exploration_prob": 0.5},
        "batch": {"rows": 4, "accumulate": 2}, "steps": 9, "schedule": {"warmup_steps": 2},
        "save": {"every": 3}, "evaluate": {"every": 3}, "sample": {"every": 0},
    });
    change(&mut tree, &changes);
    let request = TrainRequest::<PuzzleRequest>::read(&tree).unwrap();
    let read = Puzzle::read(&request, None).unwrap();
    let facts = on_a_processor(Puzzle::facts(&request, read.as_deref()).unwrap());
    resolve::<Puzzle>(&request, &facts).unwrap().plan
}

/// Trains from the newest checkpoint in a folder. Returns all weights, and what the run would show.
pub(crate) fn run(
    plan: &TrainPlan<PuzzlePlan>,
    folder: &Path,
    observer: &mut dyn Observer,
) -> (Vec<Vec<f32>>, Vec<Exhibit>) {
    let mut task = run_from_newest::<Puzzle>(plan, folder, observer);
    let weights = task.parameters().iter();
    let weights = weights.map(|it| it.tensor().flatten_all().unwrap().to_vec1().unwrap());
    (weights.collect(), task.show().unwrap())
}

/// Has a run killed and resumed, and one that is not. Both must end with the same bits, which are returned with what is shown.
#[track_caller]
pub(crate) fn check_resume(plan: &TrainPlan<PuzzlePlan>, folder: &Path) -> Vec<Exhibit> {
    let straight = run(plan, &folder.join("straight"), &mut Vec::new());
    let saved = folder.join("killed");
    let killed = catch_unwind(AssertUnwindSafe(|| run(plan, &saved, &mut Killed(8))));
    assert!(killed.is_err());
    let newest = Checkpoints::new(&saved, 2).newest().unwrap().unwrap();
    assert_eq!(newest.step, 6);
    assert_eq!(run(plan, &saved, &mut Vec::new()), straight);
    straight.1
}

#[test]
fn a_run_of_puzzles_resumes_after_a_kill_to_the_same_bits() {
    for mlp_t in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let mut plan = plan(folder.path(), json!({}));
        plan.task.trm.mlp_t = mlp_t;
        let shown = check_resume(&plan, folder.path());
        assert!(
            matches!(&shown[0], Exhibit::Puzzle { columns: 4, guesses, .. } if guesses.len() == 3 && guesses[0].len() == 16)
        );
    }
}

#[test]
fn a_step_learns_the_same_in_parts() {
    let folder = tempfile::tempdir().unwrap();
    let losses = |rows: usize| {
        let batch = json!({"rows": rows, "accumulate": 8 / rows});
        let plan = plan(
            folder.path(),
            json!({"batch": batch, "learning_rate": 1e-4}),
        );
        let mut events = Vec::new();
        run(&plan, &folder.path().join(rows.to_string()), &mut events);
        let loss = |event: &TrainEvent| match event {
            TrainEvent::Stepped { loss, .. } => *loss,
            _ => None,
        };
        events.iter().filter_map(loss).collect::<Vec<f64>>()
    };
    let whole = losses(8);
    assert_eq!(whole.len(), 9);
    for rows in [4, 2] {
        for (step, (part, whole)) in losses(rows).iter().zip(&whole).enumerate() {
            let apart = (part - whole).abs() / whole.abs();
            assert!(
                apart < 1e-4,
                "step {step} of {rows} rows: {part} and {whole}"
            );
        }
    }
}

#[test]
fn held_out_puzzles_are_those_of_the_folder_and_are_measured_by_how_many_are_solved() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(folder.path(), json!({}));
    let mut task = Puzzle::open(&plan, &RunPlace::bare(&Device::Cpu)).unwrap();
    let measured = task
        .evaluate(0, &mut Measuring::alone(&|| true))
        .unwrap()
        .unwrap();
    assert_eq!(measured.targets, 10);
    let names: Vec<&str> = measured.metrics.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "exact_accuracy",
            "token_accuracy",
            "halting_accuracy",
            "steps_to_halt"
        ]
    );
    assert_eq!(measured.metrics[0].of, Some(10));
}

#[test]
fn a_few_puzzles_are_learned_in_the_batches_of_the_recipe() {
    let folder = tempfile::tempdir().unwrap();
    let few = plan(
        folder.path(),
        json!({"batch": {"rows": null, "accumulate": null}, "steps": null, "schedule": {"warmup_steps": null}}),
    );
    assert_eq!((few.run.batch.rows, few.run.batch.accumulate), (128, 1));
    assert_eq!(few.run.steps, 1500);
}

#[test]
fn a_run_that_is_shorter_than_its_recipe_warms_up_for_half_of_it_at_most() {
    let folder = tempfile::tempdir().unwrap();
    let short = plan(
        folder.path(),
        json!({"steps": 12, "schedule": {"warmup_steps": null}}),
    );
    assert_eq!(short.run.schedule.warmup_steps, 6);
    let whole = plan(
        folder.path(),
        json!({"steps": 1500, "schedule": {"warmup_steps": null}}),
    );
    assert_eq!(whole.run.schedule.warmup_steps, 100);
}
