//! A run from its beginning to a chat, with everything that can happen to it on the way.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Read},
    path::PathBuf,
    process::{Child, ChildStdout, Command, Stdio},
};

use serde_json::Value;

use crate::app::{App, sentences};

/// A model that learns in a moment.
const TINY: &str = "\
name: Animals
data:
  files: [animals.txt]
scratch:
  preset: nano
  vocab_size: 300
  config: {hidden_size: 16, intermediate_size: 32, num_hidden_layers: 1, num_attention_heads: 2,
    num_key_value_heads: 2, head_dim: 8}
batch: {rows: 2, length: 32, accumulate: 1}
evaluate: {batches: 2}
device: cpu
";

#[test]
fn a_run_is_trained_listed_shown_talked_to_renamed_and_deleted() {
    let app = tiny("steps: 10\nsample: {every: 5, tokens: 4, prompts: [The cat]}\n");
    app.anneal("train run.yaml --quiet")
        .ended(0)
        .shows("chat with it in `anneal chat DAY-animals-XXXX`");

    let list = app.anneal("runs").stdout;
    assert!(list.contains("DAY-animals-XXXX  finished  10/10"), "{list}");
    let shown = app.anneal("runs show animals").stdout;
    for words in ["step-000010", "steps: 10", "loss per character "] {
        assert!(shown.contains(words), "{words} is not in {shown}");
    }

    let chat = app.run_with_input(
        &["chat", "animals", "--set", "max_tokens=3"],
        "The dog\n/exit\nThe cat\n",
    );
    assert_eq!((chat.code, chat.stderr.as_str()), (0, ""), "{chat:?}");
    assert_eq!(chat.stdout.matches('\n').count(), 1, "{chat:?}");

    assert_eq!(
        app.anneal("runs rename animals Farm").stdout,
        "DAY-farm-XXXX\n"
    );
    app.anneal("runs rm farm").ended(2);
    app.anneal("runs rm Farm --yes").ended(0);
    assert_eq!(app.anneal("runs --quiet").stdout, "");
}

#[test]
fn a_run_tells_machines_everything_in_numbered_lines() {
    let app = tiny("steps: 4\n");
    let output = app.anneal("train run.yaml --json");
    assert_eq!((output.code, output.stderr.as_str()), (0, ""));
    let events: Vec<Value> = output
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let kinds: Vec<&str> = events
        .iter()
        .map(|event| event["kind"].as_str().unwrap())
        .collect();
    assert_eq!(
        (kinds[0], kinds[1], *kinds.last().unwrap()),
        ("opened", "started", "finished")
    );
    assert_eq!(kinds.iter().filter(|kind| **kind == "stepped").count(), 4);
    let numbers: Vec<u64> = events[1..]
        .iter()
        .map(|event| event["number"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
}

#[test]
fn a_run_that_is_watched_through_a_pipe_is_told_in_lines() {
    let app = tiny("steps: 4\n");
    let lines = app.anneal("train run.yaml").stderr;
    for words in [
        "run DAY-animals-XXXX\n",
        "step 1/4",
        "step 4  held-out loss",
        "step 4 saved",
        "4 steps in",
    ] {
        assert!(lines.contains(words), "no `{words}` in {lines}");
    }
    assert!(!lines.contains('\x1b') && !lines.contains('\r'), "{lines}");
}

#[cfg(unix)]
#[test]
fn an_interrupt_saves_and_leaves_and_the_run_continues_where_it_was() {
    let app = tiny("steps: 1000000\n");
    let (mut child, mut lines) = start(&app, &["train", "run.yaml", "--json"]);
    wait_for(&mut lines, "stepped");
    signal(child.id(), "-INT");
    let stopped = wait_for(&mut lines, "stopped");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    app.anneal("runs").shows("stopped");

    let (mut child, mut lines) = start(&app, &["runs", "resume", "animals", "--json"]);
    let started = wait_for(&mut lines, "started");
    assert_eq!(started["step"], stopped["step"]);
    assert_eq!(started["number"], stopped["number"].as_u64().unwrap() + 1);
    app.anneal("runs").shows("running");
    app.anneal("train --resume animals")
        .notes("is being trained by another process");

    // When the app goes away without a word, its engine saves and leaves.
    signal(child.id(), "-KILL");
    child.wait().unwrap();
    let (mut child, mut lines) = start(&app, &["train", "--resume", "animals", "--json"]);
    wait_for(&mut lines, "stepped");
    signal(child.id(), "-INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[cfg(unix)]
#[test]
fn one_interrupt_ends_a_conversation_in_which_nothing_is_being_answered() {
    use std::io::Write;

    let app = tiny("steps: 2\n");
    app.anneal("train run.yaml --quiet").ended(0);
    let chat = ["chat", "animals", "--json", "--set", "max_tokens=3"];
    let mut child = app.command(&chat).stdin(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"The cat\n").unwrap();
    let mut answer = String::new();
    lines.read_line(&mut answer).unwrap();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["said"], "The cat");
    signal(child.id(), "-INT");
    // Its input stays open: only the interrupt can end it.
    assert_eq!(child.wait().unwrap().code(), Some(130));
    drop(stdin);
}

#[cfg(unix)]
#[test]
fn another_engine_goes_on_after_one_that_was_killed_unless_that_happens_again_and_again() {
    let app = tiny("steps: 1000000\n");
    let (child, mut lines) = start(&app, &["train", "run.yaml", "--json"]);
    for death in 0..3 {
        let engine = wait_for(&mut lines, "opened")["engine"].as_u64().unwrap();
        if death == 0 {
            wait_for(&mut lines, "stepped");
        }
        signal(engine as u32, "-KILL");
    }
    lines.read_to_string(&mut String::new()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        error.contains("the engine was killed") && error.contains("log.txt"),
        "{error}"
    );
    app.anneal("runs").shows("failed");
}

#[test]
fn only_runs_that_the_app_keeps_are_deleted_or_renamed() {
    let app = tiny("steps: 4\n");
    app.file("mine/run.yaml", "steps: 3\n");
    app.file("mine/thesis.txt", "years of work");
    for arguments in [
        &["runs", "rm", "mine", "--yes"][..],
        &["runs", "rm", "./mine", "--yes"],
        &["runs", "rm", ".", "--yes"],
        &["runs", "rename", "mine", "other"],
    ] {
        assert_eq!(app.run(arguments).code, 2, "{arguments:?}");
    }
    assert!(app.folder().join("mine/thesis.txt").exists());

    app.anneal("train run.yaml --quiet --name My_Run");
    app.anneal("runs show My_Run").ended(0);
    app.run(&["runs", "rename", "my-run", "Grand Name"]);
    let shown = app.run(&["runs", "show", "Grand Name"]).stdout;
    assert!(
        shown.contains("name: Grand Name\n") && shown.contains("# "),
        "{shown}"
    );
}

#[test]
fn a_renamed_run_keeps_its_conversations() {
    let app = tiny("steps: 2\n");
    app.anneal("train run.yaml --quiet").ended(0);
    let runs = || fs::read_dir(app.home().join("runs")).unwrap();
    let id = || runs().next().unwrap().unwrap().file_name();
    let id = || id().into_string().unwrap();
    let talk = |name: &str, model: &str| {
        let text = format!(
            r#"{{"id": "{name}", "title": "Cats", "model": "{model}", "modelTitle": "Animals",
            "system": "", "turns": [{{"said": "The cat", "answer": " says", "beside": null}}],
            "changed": "2026-11-21T09:30:00.000Z"}}"#
        );
        app.file(&format!("home/conversations/{name}.json"), &text)
    };
    let (own, others) = (talk("own", &id()), talk("others", "another"));
    let read = |path: &PathBuf| -> Value {
        serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
    };
    let (own_before, others_before) = (read(&own), read(&others));
    app.run(&["runs", "rename", "animals", "The Farm"]).ended(0);
    let mut expected = own_before;
    expected["model"] = id().into();
    expected["modelTitle"] = "The Farm".into();
    assert_eq!(read(&own), expected);
    assert_eq!(read(&others), others_before);
    let chat = ["chat", expected["model"].as_str().unwrap()];
    assert_eq!(app.run_with_input(&chat, "").code, 0);
}

#[test]
fn a_long_row_is_left_out_with_a_warning_and_ends_no_run() {
    let app = tiny("steps: 5\nsample: {every: 2, tokens: 4}\n");
    let row = |prompt: &str| {
        format!(
            "{}\n",
            serde_json::json!({"prompt": prompt, "completion": "yes"})
        )
    };
    let rows: String = (0..60)
        .map(|at| row(&format!("is {at} a number")))
        .collect();
    app.file("rows.jsonl", &(rows + &row(&"very long ".repeat(200))));
    // With half of the rows kept aside, the long one is in either part.
    for seed in ["1", "2", "3"] {
        let set = format!("seed={seed}");
        let arguments = [
            "train",
            "run.yaml",
            "--data",
            "rows.jsonl",
            "--set",
            "data.held_out=0.5",
            "--set",
            &set,
        ];
        app.run(&arguments)
            .ended(0)
            .notes("left out, since nothing")
            .notes("held-out loss");
    }
}

#[test]
fn a_run_that_cannot_start_fails_with_the_reason_and_remembers_it() {
    let app = tiny("steps: 4\n");
    app.anneal("train run.yaml --quiet");
    let app_runs = app.home().join("runs");
    let run = fs::read_dir(&app_runs)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let plan = fs::read_to_string(run.join("run.yaml")).unwrap();
    fs::write(run.join("run.yaml"), plan.replace("steps: 4", "steps: 8")).unwrap();
    fs::remove_file(app.folder().join("animals.txt")).unwrap();
    app.anneal("train --resume animals")
        .ended(1)
        .notes("animals.txt");
    app.anneal("runs").shows("failed");
}

#[test]
fn a_run_whose_data_changed_says_so_and_goes_on_only_when_it_is_forced() {
    let app = tiny("steps: 4\nsave: {every: 2, keep_every: 2}\n");
    app.anneal("train run.yaml --quiet");
    let shown = app.anneal("runs show animals").stdout;
    assert!(shown.contains("newest, best, every 2"), "{shown}");
    let run = fs::read_dir(app.home().join("runs")).unwrap().next();
    let run = run.unwrap().unwrap().path();
    let plan = fs::read_to_string(run.join("run.yaml")).unwrap();
    fs::write(run.join("run.yaml"), plan.replace("steps: 4", "steps: 6")).unwrap();
    app.file("animals.txt", &sentences(390));

    let refused = app.anneal("train --resume animals");
    refused.ended(1);
    for words in ["`animals.txt` is not what it was", "--force"] {
        refused.notes(words);
    }
    fs::write(run.join("run.yaml"), "").unwrap();
    let list = app.anneal("runs");
    list.shows("failed  4/4");
    let damage = "`run.yaml` is damaged";
    list.notes(damage);
    fs::write(run.join("run.yaml"), plan.replace("steps: 4", "steps: 6")).unwrap();
    app.anneal("train --resume animals --force")
        .ended(0)
        .notes("read from its beginning");
}

/// A folder with text and a run file for a tiny model.
pub(crate) fn tiny(more: &str) -> App {
    let app = App::new();
    app.file("animals.txt", &sentences(400));
    app.file("run.yaml", &format!("{TINY}{more}"));
    app
}

/// All events of a command that trains to the end.
pub(crate) fn events(app: &App, arguments: &[&str]) -> String {
    let (mut child, mut lines) = start(app, arguments);
    let mut events = String::new();
    lines.read_to_string(&mut events).unwrap();
    assert!(child.wait().unwrap().success(), "{arguments:?}: {events}");
    events
}

/// The folder of the last checkpoint that events tell of.
pub(crate) fn checkpoint(events: &str) -> PathBuf {
    let mut events = events
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let last = events.rfind(|event| event["kind"] == "saved");
    PathBuf::from(last.unwrap()["path"].as_str().unwrap())
}

/// The loss of each step, the last one where a step was done again. A line cut short by a kill is none.
pub(crate) fn losses(events: &str) -> BTreeMap<u64, String> {
    let events = events
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let steps = events.filter(|event| event["kind"] == "stepped");
    steps
        .map(|event| (event["step"].as_u64().unwrap(), event["loss"].to_string()))
        .collect()
}

pub(crate) fn start(app: &App, arguments: &[&str]) -> (Child, BufReader<ChildStdout>) {
    let mut child = app.command(arguments).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap());
    (child, lines)
}

/// Reads events until one of a kind comes.
#[track_caller]
pub(crate) fn wait_for(lines: &mut BufReader<ChildStdout>, kind: &str) -> Value {
    let mut line = String::new();
    while lines.read_line(&mut line).unwrap() > 0 {
        let event: Value = serde_json::from_str(&line).unwrap();
        if event["kind"] == kind {
            return event;
        }
        line.clear();
    }
    panic!("the program ended without `{kind}`");
}

/// Sends a signal to a process, which may be gone already.
pub(crate) fn signal(process: u32, signal: &str) {
    let _ = Command::new("kill")
        .args([signal, &process.to_string()])
        .stderr(Stdio::null())
        .status();
}

/// Changes a word in the `run.yaml` of the run with this in its name.
#[track_caller]
pub(crate) fn edit(app: &App, run: &str, from: &str, to: &str) {
    let mut runs = fs::read_dir(app.home().join("runs")).unwrap();
    let folder = runs.find_map(|it| {
        let path = it.unwrap().path();
        path.to_string_lossy().contains(run).then_some(path)
    });
    let file = folder.unwrap().join("run.yaml");
    let plan = fs::read_to_string(&file).unwrap();
    assert!(plan.contains(from), "no `{from}` in {plan}");
    fs::write(file, plan.replace(from, to)).unwrap();
}
