//! `anneal profile` as a user meets it in the terminal.

use std::fs;

use serde_json::Value;

use crate::{
    app::App,
    train::{events, tiny},
};

#[test]
fn a_profile_names_the_operations_of_a_step_and_keeps_nothing() {
    let app = tiny("");
    app.anneal("profile run.yaml")
        .ended(0)
        .shows("A step takes")
        .shows("linear")
        .shows("head with cross-entropy")
        .shows("backward")
        .shows("optimizer");
    assert!(app.anneal("runs").stdout.is_empty());
}

#[test]
fn the_parts_of_a_profile_are_all_of_its_step() {
    let app = tiny("gradient_checkpointing: true\n");
    let profile = profile(&app, "profile run.yaml --trace step.json");
    let parts = profile["parts"].as_array().unwrap();
    let places = |operation: &str| {
        let named = parts.iter().filter(|it| it["operation"] == operation);
        let places = named.map(|it| it["place"].as_str().unwrap());
        let mut places: Vec<&str> = places.collect();
        places.sort_unstable();
        places
    };
    assert_eq!(places("linear"), ["again", "backward", "forward"]);
    assert_eq!(places("optimizer"), ["update"]);
    let share: f64 = parts.iter().map(|it| it["share"].as_f64().unwrap()).sum();
    assert!((share - 1.0).abs() < 1e-9, "{share}");
    let products = parts.iter().find(|it| it["operation"] == "linear").unwrap();
    assert!(products["operations"].as_f64() > Some(0.0));
    assert!(products["share_of_best"].as_f64() > Some(0.0));

    let trace: Value =
        serde_json::from_str(&fs::read_to_string(app.folder().join("step.json")).unwrap()).unwrap();
    let spans = trace["traceEvents"].as_array().unwrap();
    assert!(spans.iter().any(|it| it["name"] == "linear"));
    assert!(
        spans
            .iter()
            .all(|it| it["ph"] == "X" && it["dur"].as_f64() >= Some(0.0))
    );
}

#[test]
fn a_workload_of_the_benchmark_is_profiled_by_its_name() {
    let app = App::new();
    app.anneal("profile generation --bench --size small --device cpu")
        .ended(0)
        .shows("A step of Writing")
        .shows("linear")
        .shows("attention");
    app.anneal("profile nothing --bench")
        .ended(2)
        .notes("there is no workload `nothing`; there is matmul, bandwidth, lora_step");
    app.anneal("profile lora_step --size small")
        .ended(2)
        .notes("--bench");
}

/// Only where the allocator counts what it has handed out.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn what_operations_keep_forward_is_given_back_on_the_way_back() {
    let app = tiny("");
    let profile = profile(&app, "profile run.yaml --by memory");
    let kept = |place: &str| -> i64 {
        let parts = profile["parts"].as_array().unwrap().iter();
        let kept = parts.filter(|it| it["place"] == place);
        kept.map(|it| it["kept_bytes"].as_i64().unwrap()).sum()
    };
    let (forward, backward) = (kept("forward"), kept("backward"));
    assert!(forward > 100_000 && backward < 0, "{forward} {backward}");
    assert!(profile["peak"]["bytes"].as_i64() > Some(forward));
}

#[test]
fn a_run_that_was_trained_can_be_profiled() {
    let app = tiny("steps: 4\n");
    events(&app, &["train", "run.yaml", "--json"]);
    app.anneal("profile animals --set batch.rows=2")
        .ended(0)
        .shows("A step takes");
    let refused = app.anneal("profile nothing");
    refused.ended(2);
    let words = "there is no file and no run `nothing`";
    assert!(refused.stderr.contains(words), "{refused:?}");
}

fn profile(app: &App, command: &str) -> Value {
    let profiled = app.anneal(&format!("{command} --json"));
    profiled.ended(0);
    serde_json::from_str(&profiled.stdout).unwrap()
}

#[test]
fn an_answer_is_profiled_by_its_prompt_and_by_a_token() {
    let app = tiny("");
    app.anneal("train run.yaml").ended(0);
    app.anneal("profile animals --chat")
        .ended(0)
        .shows("Reading a prompt of ")
        .shows("Writing a token after it takes ")
        .shows("attention");
    let profile = app.anneal("profile animals --chat --json").json();
    assert!(profile["prompt_tokens"].as_u64() > Some(1));
    let products = |of: &str| {
        let parts = profile[of]["parts"].as_array().unwrap();
        let places = parts.iter().map(|it| it["place"].as_str().unwrap());
        assert!(places.clone().all(|place| place == "forward"), "{parts:?}");
        let operations = parts.iter().map(|it| it["operations"].as_f64().unwrap());
        operations.sum::<f64>()
    };
    // One token is less work than a prompt, by as many as it has.
    assert!(products("prompt") > 4.0 * products("token"), "{profile}");
    assert!(products("token") > 0.0);
    app.anneal("profile nobody --chat").ended(2).notes("nobody");
}
