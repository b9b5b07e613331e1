//! The device check as a user meets it, with devices that fail on request.

use serde_json::Value;

use crate::app::{App, Output, computes, sentences};

/// The rows that a check tells of, and the report at its end.
fn check(app: &App, more: &[&str]) -> (Output, Vec<Value>, Value) {
    let output = app.run(&[&["check", "--device", "cpu", "--json"], more].concat());
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
fn plan(app: &App, more: &[&str]) -> Output {
    app.file("animals.txt", &sentences(60));
    let words = [
        "train",
        "--data",
        "animals.txt",
        "--device",
        "cpu",
        "--plan",
    ];
    app.run(&[&words, more].concat())
}

#[test]
fn a_check_waits_for_nobody_and_says_who_else_used_the_device() {
    let app = App::new();
    let alone = check(&app, &[]).2;
    assert_eq!(alone.get("warning"), None);
    let _run = computes(&app, "run");
    let beside = check(&app, &[]).2;
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
    let checked = app.run(&["check", "--device", "cpu", "--strict"]);
    assert_eq!(checked.code, 0, "{checked:?}");
    assert!(checked.stdout.contains("Ready to train on "), "{checked:?}");
    let lines: Vec<&str> = checked.stdout.lines().collect();
    assert!(
        lines
            .iter()
            .any(|line| line.starts_with("attention") && line.contains(" ok "))
    );
    assert!(
        lines
            .iter()
            .any(|line| line.contains("Checkpoints are written and read"))
    );

    let report = app.run(&["check", "--device", "cpu", "--report"]).stdout;
    assert!(report.contains("| attention | f32 | ok |"), "{report}");
    assert!(!report.contains("FOLDER"), "{report}");
}

#[test]
fn a_wrong_kernel_is_done_without_and_plans_say_so() {
    let app = App::new();
    let (output, rows, _) = check(&app, &["--fault", "rms_norm=wrong"]);
    assert_eq!(output.code, 0, "{output:?}");
    let wrong = row(&rows, "rms_norm");
    assert_eq!(
        (&wrong["verdict"], &wrong["fallback"]),
        (&"inexact".into(), &"composed".into())
    );
    assert!(wrong["error"].as_f64().unwrap() > 0.1, "{wrong}");
    assert_eq!(row(&rows, "attention")["verdict"], "ok");

    let planned = plan(&app, &[]);
    assert!(planned.stderr.contains("rms_norm"), "{planned:?}");
    assert!(planned.stdout.contains("avoid_kernels"), "{planned:?}");
    assert_eq!(plan(&app, &["--strict"]).code, 2);
    let strict = app.run(&[
        "check",
        "--device",
        "cpu",
        "--strict",
        "--fault",
        "rms_norm=wrong",
    ]);
    assert_eq!(strict.code, 1, "{strict:?}");
}

#[test]
fn a_missing_operation_has_the_devices_own_words() {
    let (_, rows, _) = check(&App::new(), &["--fault", "rope=missing"]);
    let missing = row(&rows, "rope");
    assert_eq!(missing["verdict"], "missing");
    assert!(!missing["message"].as_str().unwrap().is_empty());
}

#[test]
fn a_crash_is_a_row_and_the_check_goes_on() {
    let (output, rows, report) = check(&App::new(), &["--fault", "gated=crash"]);
    assert_eq!(output.code, 0, "{output:?}");
    let crashed = row(&rows, "gated");
    assert_eq!(crashed["verdict"], "crashed");
    assert!(
        crashed["message"]
            .as_str()
            .unwrap()
            .starts_with("the engine "),
        "{crashed}"
    );
    assert_eq!(row(&rows, "attention")["verdict"], "ok");
    assert_eq!(report["rows"].as_array().unwrap().len(), rows.len());
}

#[test]
fn a_hang_is_ended() {
    let (output, rows, _) = check(&App::new(), &["--fault", "dropout=hang"]);
    assert_eq!(output.code, 0, "{output:?}");
    let hung = row(&rows, "dropout");
    assert_eq!(hung["verdict"], "crashed");
    assert!(
        hung["message"]
            .as_str()
            .unwrap()
            .contains("did nothing for "),
        "{hung}"
    );
    assert_eq!(row(&rows, "rms_norm")["verdict"], "ok");
}
