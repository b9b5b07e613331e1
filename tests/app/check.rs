//! The device check as a user meets it, with devices that fail on request.

use serde_json::Value;

use crate::app::{App, Output, computes, sentences};

/// The rows that a check tells of, and the report at its end.
fn check(app: &App, more: &str) -> (Output, Vec<Value>, Value) {
    let output = app.anneal(&format!("check --device cpu --json{more}"));
    let lines = output.stdout.lines();
    let mut values: Vec<Value> = lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let report = values.pop().unwrap_or_default();
    (output, values, report)
}

/// The row of an operation in f32.
#[track_caller]
fn row<'a>(rows: &'a [Value], operation: &str) -> &'a Value {
    let is_it = |row: &&Value| row["operation"] == operation && row["dtype"] == "f32";
    rows.iter().find(is_it).unwrap()
}

/// The plan of a small run, as a run file.
fn plan(app: &App, more: &str) -> Output {
    app.file("animals.txt", &sentences(60));
    app.anneal(&format!(
        "train --data animals.txt --device cpu --plan{more}"
    ))
}

#[test]
fn a_check_waits_for_nobody_and_says_who_else_used_the_device() {
    let app = App::new();
    let _run = computes(&app, "run");
    let beside = check(&app, "").2;
    let warning = beside["warning"].as_str().unwrap();
    assert!(
        warning.starts_with("A run used ")
            && warning.ends_with(" at the same time, so that all took longer than alone."),
        "{warning}"
    );
}

#[test]
fn the_processor_is_exact_and_ready() {
    let app = App::new();
    let checked = app.anneal("check --device cpu --strict");
    checked.ended(0).shows("Ready to train on ");
    checked.shows("Checkpoints are written and read");
    let is_exact = |line: &str| line.starts_with("attention") && line.contains(" ok ");
    assert!(checked.stdout.lines().any(is_exact));
    for kind in ["language", "puzzle", "picture"] {
        checked.shows(&format!(
            "Training of {kind}: loader, forward pass, training step in "
        ));
    }
    assert_eq!(checked.stdout.lines().last(), Some("READY FOR TRAINING"));
    assert!(!checked.stdout.contains("at the same time"), "{checked:?}");
}

#[test]
fn a_kind_that_can_not_take_a_step_is_named_and_the_check_fails() {
    let app = App::new();
    let checked = app.anneal("check --device cpu --fault picture=missing --fault puzzle=crash");
    checked.ended(1);
    for (kind, said) in [("picture", "the device refused"), ("puzzle", "the engine ")] {
        let named = format!("Training of {kind}: loader, forward pass, training step: ");
        let mut lines = checked.stdout.lines();
        assert!(
            lines.any(|line| line.contains(&named) && line.contains(said)),
            "{checked:?}"
        );
    }
    checked.shows("Training of language: loader, forward pass, training step in ");
    assert!(!checked.stdout.contains("READY FOR TRAINING"));
}

#[test]
fn a_wrong_kernel_is_done_without_and_plans_say_so() {
    let app = App::new();
    let (output, rows, _) = check(&app, " --fault rms_norm=wrong");
    output.ended(0);
    let wrong = row(&rows, "rms_norm");
    assert_eq!(
        (&wrong["verdict"], &wrong["fallback"]),
        (&"inexact".into(), &"composed".into())
    );
    assert!(wrong["error"].as_f64().unwrap() > 0.1, "{wrong}");
    assert_eq!(row(&rows, "attention")["verdict"], "ok");

    plan(&app, "").notes("rms_norm").shows("avoid_kernels");
    plan(&app, " --strict").ended(2);
    let report = app.anneal("check --device cpu --strict --report --fault rms_norm=wrong");
    report.ended(1).shows("| attention | f32 | ok |");
    report.shows("| rms_norm | f32 | inexact |");
    assert!(!report.stdout.contains("FOLDER"), "{report:?}");
}

#[test]
fn what_is_missing_crashes_or_hangs_is_a_row_with_its_reason_and_the_check_goes_on() {
    let faults = " --fault rope=missing --fault gated=crash";
    // It has no kernel to do without.
    let hang = " --fault convert=hang";
    for (more, code) in [(faults.to_owned(), 0), (format!("{faults}{hang}"), 1)] {
        let (output, rows, report) = check(&App::new(), &more);
        output.ended(code);
        let expected = [
            ("rope", "missing", ""),
            ("gated", "crashed", "the engine "),
            ("convert", "crashed", "did nothing for "),
        ];
        let asked = more.matches("--fault").count();
        for (operation, verdict, said) in expected.into_iter().take(asked) {
            let found = row(&rows, operation);
            assert_eq!(found["verdict"], verdict);
            let message = found["message"].as_str().unwrap();
            assert!(!message.is_empty() && message.contains(said), "{found}");
        }
        assert_eq!(row(&rows, "attention")["verdict"], "ok");
        assert_eq!(report["rows"].as_array().unwrap().len(), rows.len());
    }
}
