//! Runs as the window starts, follows and ends them.

use super::*;

#[test]
fn a_run_is_followed_paused_stopped_extended_renamed_and_deleted() {
    let window = Window::open();
    let id = window.start();
    let news = window.follow(&id, 0);
    let status = || window.run(&id)["status"].as_str().unwrap().to_owned();
    heard(&news, |news| news["run"]["step"].as_u64() >= Some(3));

    window.call("pause_run", json!({ "id": id }));
    heard(&news, |news| news["run"]["status"] == "paused");
    let step = window.run(&id)["step"].clone();
    let running = "the run is running or waiting; stop it first";
    window.refuses("delete_run", json!({ "id": id }), running);
    window.call("resume_run", json!({ "id": id, "force": false }));
    heard(&news, |news| news["run"]["step"].as_u64() > step.as_u64());
    let recorded = window.home.path().join(format!("runs/{id}/events.jsonl"));
    let recorded = fs::read_to_string(recorded).unwrap();
    let events = recorded
        .lines()
        .map(|it| serde_json::from_str::<Value>(it).unwrap_or_default());
    let mut paused = events.skip_while(|event| event["kind"] != "paused");
    for kind in ["paused", "continued"] {
        let event = paused.next().unwrap();
        assert_eq!(
            (&event["kind"], &event["step"]),
            (&kind.into(), &step),
            "no step in the pause"
        );
    }

    window.call("stop_run", json!({ "id": id }));
    heard(&news, |news| news["run"]["status"] == "stopped");
    until(|| window.call("status", json!({}))["going"].is_null());
    let events = window.call("run_events", json!({ "id": id }));
    let steps = events["steps"].as_array().unwrap();
    assert!(
        steps
            .iter()
            .map(|it| it.as_u64().unwrap())
            .eq(1..=steps.len() as u64)
    );
    // A page that has all of it hears only what is new.
    let late = window.follow(&id, events["last"].as_u64().unwrap());
    let first = late.recv_timeout(TIMEOUT).unwrap();
    assert_eq!(first["events"]["steps"], json!([]));

    let refused = window.refused("extend_run", json!({"id": id, "steps": 10}));
    assert_eq!(refused["field"], "steps");
    window.call("extend_run", json!({"id": id, "steps": 2_000_000}));
    until(|| window.run(&id)["steps"] == json!(2_000_000) && status() == "running");
    window.call("stop_run", json!({ "id": id }));
    until(|| status() == "stopped" && window.call("status", json!({}))["going"].is_null());

    let renamed = window.call("rename_run", json!({"id": id, "name": "Second  try"}));
    assert_eq!(window.run(renamed.as_str().unwrap())["name"], "Second  try");
    let settings = window.call("run_settings", json!({ "id": renamed }));
    assert_eq!(settings["batch.rows"], "2");
    let plan = window.call("run_plan", json!({ "id": renamed }));
    assert!(plan.as_array().unwrap().len() > 30);
    let files = window.call("run_files", json!({ "id": renamed }));
    assert_eq!(files[0]["name"], "run.yaml");
    let freed = window.call("delete_run", json!({ "id": renamed }));
    assert!(freed.as_f64().unwrap() > 1e5);
    assert_eq!(window.call("runs", json!({})), json!([]));
}

#[test]
fn a_run_whose_data_changed_says_so_and_goes_on_all_the_same_when_that_is_forced() {
    let window = Window::open();
    let id = window.start();
    until(|| window.run(&id)["step"].as_u64() >= Some(3));
    window.call("stop_run", json!({ "id": id }));
    until(|| window.call("status", json!({}))["going"].is_null());
    let text = window.home.path().join("text.txt");
    let longer = fs::read_to_string(&text).unwrap() + "It is then worked.\n";
    fs::write(&text, longer).unwrap();

    window.call("resume_run", json!({ "id": id, "force": false }));
    until(|| window.run(&id)["status"] == "failed");
    let refused = window.run(&id);
    let problem = refused["problem"].as_str().unwrap();
    assert!(
        problem.starts_with("`text.txt` is not what it was"),
        "{problem}"
    );
    let hint = refused["hint"].as_str().unwrap();
    assert!(!hint.contains("--force"), "{hint}");
    assert_eq!(refused["forceHelps"], true);
    until(|| window.call("status", json!({}))["going"].is_null());

    let step = refused["step"].as_u64();
    window.call("resume_run", json!({ "id": id, "force": true }));
    until(|| window.run(&id)["step"].as_u64() > step);
    assert_eq!(window.run(&id)["forceHelps"], false);
    window.close();
}

#[test]
fn runs_wait_in_an_order_that_can_be_changed_and_are_offered_again() {
    let window = Window::open();
    let ids = [(); 4].map(|()| window.start());
    /// The ids of runs in a list of the status.
    fn listed(window: &Window, list: &str) -> Vec<String> {
        let status = window.call("status", json!({}));
        let runs = status[list].as_array().unwrap().iter();
        runs.map(|run| run["id"].as_str().unwrap().to_owned())
            .collect()
    }
    let waiting = || listed(&window, "waiting");
    until(|| waiting() == ids[1..]);
    window.call("order_runs", json!({"ids": [ids[3], ids[1]]}));
    assert_eq!(waiting(), [&ids[3], &ids[1], &ids[2]].map(String::clone));
    window.call("stop_run", json!({"id": ids[1]}));
    assert_eq!(waiting(), [&ids[3], &ids[2]].map(String::clone));

    // The window closes: what is running is saved, and the next start offers it and what waited.
    let home = window.close();
    let window = Window::at(home);
    let offered = [&ids[0], &ids[3], &ids[2]].map(String::clone);
    assert_eq!(listed(&window, "offered"), offered);
    window.call("resume_offered", json!({}));
    until(|| window.run(&ids[0])["status"] == "running");
    assert_eq!(window.call("status", json!({}))["offered"], json!([]));
    window.close();
}
