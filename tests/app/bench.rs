//! The benchmark as a user meets it in the terminal.

use std::{
    fs,
    io::{self, BufRead, BufReader},
    thread,
};

use serde_json::Value;

use crate::{
    app::{App, Output, computes},
    train::{start, tiny, wait_for},
};

/// A benchmark of a few seconds.
const QUICK: &str = "bench --device cpu --seconds 0 --only scratch_step,loader";

fn measure(app: &App, more: &str) -> Output {
    app.anneal(&format!("{QUICK} {more}"))
}

#[test]
fn a_benchmark_is_a_table_with_advice_and_is_exported_compared_and_imported() {
    let app = App::new();
    let measured = measure(&app, "--export first.json");
    measured.ended(0);
    for words in [
        "Config ",
        "Throughput",
        "Matrix product, ",
        "FLOP/s",
        "From-scratch step, preset nano, 4 x 256 tokens, f32 ",
        " tokens/s",
        "Making batches, 4 x 128 tokens, 2 workers ",
        "workers ",
    ] {
        measured.shows(words);
    }
    let report: Value =
        serde_json::from_str(&fs::read_to_string(app.folder().join("first.json")).unwrap())
            .unwrap();
    let rows = report["devices"][0]["rows"].as_array().unwrap();
    // A processor with products of bf16 is measured in them too.
    let is_usual = |row: &&Value| row["dtype"] != "bf16";
    assert_eq!(rows.iter().filter(is_usual).count(), 6, "{rows:?}");
    assert!(
        rows.iter()
            .all(|row| row["measured"]["median_millis"].as_f64() > Some(0.0))
    );

    let again = measure(&app, "--export second.csv");
    again.shows(" cases by more than the spread of their steps).");
    app.anneal("bench --compare first.json second.csv")
        .ended(0)
        .shows("From-scratch step");
    let same = app.anneal("bench --compare first.json first.json");
    assert_eq!(
        same.stdout.matches("no clear change").count(),
        rows.len(),
        "{same:?}"
    );

    assert_eq!(app.anneal("bench --list").stdout.lines().count(), 2);
    app.anneal("bench --import first.json")
        .notes("is here already");
    let elsewhere = App::new();
    let path = app.folder().join("first.json").display().to_string();
    elsewhere
        .run(&["bench", "--import", &path, "--export", "again.json"])
        .ended(0);
    let again = fs::read_to_string(elsewhere.folder().join("again.json")).unwrap();
    let again: Value = serde_json::from_str(&again).unwrap();
    assert_eq!(again["devices"], report["devices"]);
    let path = app.folder().join("second.csv");
    let imported = elsewhere.run(&["bench", "--import", &path.display().to_string()]);
    imported.ended(0);
    assert!(elsewhere.anneal("bench --list").stdout.contains("imported"));
}

#[test]
fn a_benchmark_waits_for_the_run_that_goes_on() {
    let app = tiny("steps: 1000000\n");
    let (mut run, mut events) = start(&app, &["train", "run.yaml", "--json"]);
    wait_for(&mut events, "stepped");
    // Who is not heard can't continue.
    thread::spawn(move || io::copy(&mut events, &mut io::sink()));
    let mut measuring = app
        .command(&QUICK.split(' ').collect::<Vec<_>>())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(measuring.stderr.take().unwrap()).lines();
    let waits = said.find(|line| line.as_ref().unwrap().contains("waiting until `"));
    assert!(waits.is_some_and(|line| line.unwrap().ends_with("` has ended")));
    assert!(measuring.try_wait().unwrap().is_none());
    app.anneal("runs").shows("running");

    // Its engine saves and leaves.
    run.kill().unwrap();
    run.wait().unwrap();
    let rest: Vec<String> = said.map(Result::unwrap).collect();
    let measured = measuring.wait_with_output().unwrap();
    assert!(measured.status.success(), "{rest:?}");
    let table = String::from_utf8(measured.stdout).unwrap();
    assert!(table.contains("From-scratch step"), "{table}");
    assert!(!table.contains("began meanwhile"), "{table}");
}

#[test]
fn a_benchmark_waits_for_an_answer_and_says_what_was_computed_meanwhile() {
    let app = App::new();
    let answer = computes(&app, "answer");
    let quick = "bench --device cpu --seconds 0 --only loader".split(' ');
    let mut child = app.command(&quick.collect::<Vec<_>>()).spawn().unwrap();
    let notes = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut notes = notes.map(Result::unwrap);
    let waits = notes.next().unwrap();
    assert!(
        waits.starts_with("waiting until an answer in a chat on ") && waits.ends_with(" has ended"),
        "{waits}"
    );
    assert!(child.try_wait().unwrap().is_none());
    drop(answer);
    // Its own file is there once it measures.
    let measures = || fs::read_dir(app.home().join("in-use/cpu")).unwrap();
    while !measures().any(|it| {
        let name = it.unwrap().file_name();
        name.to_string_lossy().starts_with("benchmark-")
    }) {
        assert!(
            child.try_wait().unwrap().is_none(),
            "it ended before it measured"
        );
    }
    drop(computes(&app, "run"));
    let notes: Vec<String> = notes.collect();
    assert!(child.wait().unwrap().success(), "{notes:?}");
    let marked = |note: &&String| note.contains("A run used ");
    assert_eq!(notes.iter().filter(marked).count(), 1, "{notes:?}");
}

#[test]
fn what_cannot_be_measured_is_refused_before_anything_takes_long() {
    let app = App::new();
    app.anneal("bench --only dreams")
        .ended(2)
        .notes("there is no workload `dreams`; there is matmul, ");
    measure(&app, "--export figures.xls")
        .ended(2)
        .notes("ends in .json, .csv or .md");
    let missing = app.anneal("bench --device cuda:7");
    assert_ne!(missing.code, 0, "{missing:?}");
}

#[test]
fn published_figures_are_marked_as_those_of_others() {
    App::new()
        .anneal("bench --published")
        .shows("MLX LM")
        .shows("https://")
        .notes("Nothing of it was measured here");
}
