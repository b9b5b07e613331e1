//! Hidden states in the terminal: captured, killed, continued, and exchanged with other programs.

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::{Value, json};

use crate::{
    app::App,
    train::{edit, signal, start, tiny, wait_for},
};

/// A home with a small model and texts to read.
fn ready() -> App {
    let app = tiny("steps: 2\n");
    app.anneal("train run.yaml --quiet").ended(0);
    let row = |row: usize| {
        let label = ["high", "low"][row % 2];
        json!({"text": format!("the cat sees the dog {row} times"), "label": label, "group": row / 4}).to_string()
    };
    let rows: Vec<String> = (0..400).map(row).collect();
    app.file("texts.jsonl", &rows.join("\n"));
    app
}

fn content(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(folder).unwrap().map(|it| it.unwrap());
    let read = |file: fs::DirEntry| {
        let name = file.file_name().to_string_lossy().into_owned();
        (name, fs::read(file.path()).unwrap())
    };
    files.map(read).collect()
}

#[test]
fn a_capture_says_what_it_will_do_and_goes_on_after_it_was_killed() {
    let app = ready();
    let capture = "probe capture --model animals --data texts.jsonl --device cpu";
    let how = "--suffix cognitive-action --tokens-at-once 1";
    app.anneal(&format!("{capture} {how} --dry-run"))
        .ended(0)
        .shows("400 texts, 100 groups")
        .shows("2: high 200, low 200")
        .shows("{text}⏎⏎The cognitive action being demonstrated here is")
        .shows("the state of the last token")
        .shows("⟦");
    assert!(!app.folder().join("states").exists());
    app.anneal(&format!("{capture} {how} --out whole --quiet"))
        .ended(0)
        .shows("400 texts at ");

    let killed = format!("{capture} {how} --out killed --json");
    let words: Vec<&str> = killed.split(' ').collect();
    let (mut child, mut lines) = start(&app, &words);
    wait_for(&mut lines, "planned");
    for _ in 0..3 {
        wait_for(&mut lines, "captured");
    }
    signal(child.id(), "-9");
    child.wait().unwrap();
    let ended = app.anneal(&killed).ended(0).stdout.clone();
    assert!(
        ended.contains(r#""kind":"ended","complete":true"#),
        "{ended}"
    );
    let [whole, killed] = ["whole", "killed"].map(|name| content(&app.folder().join(name)));
    assert!(whole == killed, "the bytes differ");

    app.anneal(&format!("{capture} --position mean --out whole"))
        .ended(1)
        .notes("the folder holds states of another capture");
}

#[test]
fn states_go_to_other_programs_and_come_back() {
    let app = ready();
    app.anneal("probe capture --model animals --data texts.jsonl --device cpu --sites 0 --out states --quiet")
        .ended(0);
    app.anneal("probe export states --npz states.npz")
        .ended(0)
        .shows("1 file with ");
    app.anneal("probe export states --h5 layers")
        .ended(0)
        .shows("1 file with ");
    let imported = app.anneal("probe import layers --out again --json").json();
    assert_eq!(imported["rows"], 400);
    assert_eq!(imported["sites"], json!(["block.0"]));
    let [before, after] = ["states", "again"].map(|name| content(&app.folder().join(name)));
    // The files have the parts of the data one after another, so the rows stand in another order.
    let sorted = |files: &BTreeMap<String, Vec<u8>>, width: usize| {
        let mut rows: Vec<Vec<u8>> = files["block.000.f32"]
            .chunks(width)
            .map(<[u8]>::to_vec)
            .collect();
        rows.sort();
        rows
    };
    let width = before["block.000.f32"].len() / 400;
    assert!(sorted(&before, width) == sorted(&after, width));
    app.anneal("probe import states --out more")
        .ended(1)
        .notes("the folder has no file `layer_{i}_activations.h5`");
}

#[test]
fn rows_and_columns_that_cannot_be_used_are_named() {
    let app = ready();
    app.file("bad.csv", "words,label\nthe cat,high\n,low\n");
    let capture = "probe capture --model animals --device cpu --dry-run --data bad.csv";
    app.anneal(capture)
        .ended(1)
        .notes("name it with `--text-column`. The columns are `words`, `label`");
    app.anneal(&format!("{capture} --text-column words"))
        .ended(1)
        .notes("line 3: `words` is empty");
    app.anneal(&format!("{capture} --text-column words --skip-bad-rows"))
        .ended(0)
        .shows("1 row can’t be used, the first: bad.csv: line 3: `words` is empty");
    app.anneal(&format!(
        "{capture} --text-column words --skip-bad-rows --sites 99"
    ))
    .ended(2)
    .notes("`sites` has `block.99`, and the model has the blocks 0 to");
}

/// Every line of JSON that a command writes.
fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|it| serde_json::from_str(it).unwrap())
        .collect()
}

#[test]
fn probes_find_their_model_and_score_texts_as_its_captured_states() {
    let app = ready();
    let capture =
        "probe capture --model animals --data texts.jsonl --device cpu --suffix cognitive-action";
    app.anneal(&format!("{capture} --out states --quiet"))
        .ended(0);
    app.anneal("probe train states --out probes --quiet")
        .ended(0);

    let apply = "probe apply probes --device cpu";
    let states = lines(
        &app.anneal("probe apply probes --states states --all-sites --top 99 --json")
            .ended(0)
            .stdout,
    );
    let how = "--all-sites --top 99 --json --csv all.csv --metrics figures";
    let found = lines(
        &app.anneal(&format!("{apply} --data texts.jsonl {how}"))
            .ended(0)
            .stdout,
    );
    assert_eq!(states.len(), 400);
    assert!(found == states, "scores differ");
    let table = fs::read_to_string(app.folder().join("all.csv")).unwrap();
    let labels = found[0]["labels"].as_array().unwrap().len();
    assert_eq!(table.lines().count(), 1 + 400 * labels);
    for file in [
        "metrics_high.json",
        "aggregate_metrics.json",
        "per_action_layer_analysis.json",
    ] {
        assert!(app.folder().join("figures").join(file).is_file(), "{file}");
    }

    app.anneal(&format!(
        "{apply} --text what --text cat --threshold chosen"
    ))
    .ended(0)
    .shows("what\n  ")
    .notes("this text lies farther out");
    app.anneal(&format!("{apply} --text what --metrics more"))
        .ended(1)
        .notes("no text has a label of the probes");
    app.anneal(&format!("{apply} --text what --states states"))
        .ended(2);
}

#[test]
fn a_run_of_probes_goes_on_and_says_what_was_changed_meanwhile() {
    let app = ready();
    // So many that it is not over before it hears of the interrupt.
    let texts = fs::read_to_string(app.folder().join("texts.jsonl")).unwrap();
    app.file("texts.jsonl", &[texts.as_str(); 20].join("\n"));
    let run = fs::read_dir(app.home().join("runs")).unwrap().next();
    let model = run.unwrap().unwrap().path().join("checkpoints/step-000002");
    let model = model.display().to_string();
    let train = ["probe", "train", "texts.jsonl", "--model", &model, "--json"];
    let (mut child, mut lines) = start(&app, &[&train[..], &["--device", "cpu"]].concat());
    wait_for(&mut lines, "stepped");
    signal(child.id(), "-INT");
    wait_for(&mut lines, "stopped");
    child.wait().unwrap();
    edit(&app, "texts", "position: mean", "position: last");
    app.anneal("train --resume texts")
        .ended(1)
        .notes("`probe.position` was `mean` when step ");
    edit(&app, "texts", "position: last", "position: mean");
    edit(&app, "texts", "keep_last: 2", "keep_last: 1");
    app.anneal("train --resume texts")
        .ended(0)
        .notes("`save.keep_last` was 2 when step ");
}

#[test]
fn probes_of_another_model_are_refused_unless_forced() {
    let app = ready();
    app.anneal(
        "probe capture --model animals --data texts.jsonl --device cpu --out states --quiet",
    )
    .ended(0);
    app.anneal("probe train states --out probes --quiet")
        .ended(0);
    let other = fs::read_to_string(app.folder().join("run.yaml")).unwrap();
    app.file(
        "other.yaml",
        &format!("{}seed: 7\n", other.replace("Animals", "Others")),
    );
    app.anneal("train other.yaml --quiet").ended(0);
    let apply = "probe apply probes --text what --device cpu --model others";
    app.anneal(apply)
        .ended(2)
        .notes("what differs: the model")
        .notes("open the model that they were learned from");
    app.anneal(&format!("{apply} --force"))
        .ended(0)
        .notes("don’t believe their scores");
    // The model is gone, and nobody can say where it is.
    app.anneal("runs rm animals --yes").ended(0);
    app.anneal("probe apply probes --text what --device cpu")
        .ended(2)
        .notes("no model or run here has its weights")
        .notes("--model");
}

#[test]
fn a_chat_says_how_the_scores_of_an_answer_went_and_answers_the_same() {
    let app = ready();
    app.anneal("probe capture --model animals --data texts.jsonl --device cpu --position mean --out states --quiet")
        .ended(0);
    app.anneal("probe train states --out probes --quiet")
        .ended(0);
    let chat = "chat animals --device cpu --set max_tokens=12 --json";
    let said = |more: &str| {
        let typed = format!("{chat} {more}");
        let typed: Vec<&str> = typed.split_whitespace().collect();
        let ended = app.run_with_input(&typed, "the cat\n");
        lines(&ended.ended(0).stdout).remove(0)
    };
    let (alone, watched) = (said(""), said("--probes probes"));
    assert_eq!(alone["answer"]["tokens"], watched["answer"]["tokens"]);
    assert!(alone["probes"].is_null());
    let tokens = watched["probes"]["tokens"].as_array().unwrap();
    let answer: Vec<&Value> = tokens.iter().filter(|it| it["isAnswer"] == true).collect();
    let text: String = answer
        .iter()
        .map(|it| it["text"].as_str().unwrap())
        .collect();
    assert!(
        watched["answer"]["text"]
            .as_str()
            .unwrap()
            .starts_with(&text)
    );
    assert!(
        !answer.is_empty() && answer.len() < tokens.len(),
        "{watched}"
    );
    let scores: Vec<f64> = answer
        .iter()
        .map(|it| it["scores"][0].as_f64().unwrap())
        .collect();
    let mean = scores.iter().sum::<f64>() / scores.len() as f64;
    let course = &watched["probes"]["courses"][0]["course"];
    assert!(
        (course["mean"].as_f64().unwrap() - mean).abs() < 1e-4,
        "{course} {mean}"
    );

    let typed = ["chat", "animals", "--device", "cpu", "--probes", "probes"];
    let shown = app.run_with_input(&typed, "the cat\n");
    shown
        .ended(0)
        .shows("score of")
        .notes("asked of the state of each token itself");
}

#[test]
fn probes_of_another_program_are_imported_shown_applied_and_asked_in_a_chat() {
    let app = ready();
    let goldens = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/goldens/torch_probes");
    let file = |name: &str| goldens.join(name).display().to_string();
    let files = format!(
        "{} {}",
        file("multihead_joy.pth"),
        file("multihead_calm.pth")
    );
    app.anneal(&format!("probe import {files} --out probes"))
        .ended(2)
        .notes("files of probes don’t say which model’s states they read")
        .notes("--model");
    let import = format!("probe import {files} --out probes --model animals --layer 0");
    app.anneal(&import)
        .ended(2)
        .notes("what followed the texts when they learned");
    app.anneal(&format!("{import} --suffix cognitive-action"))
        .ended(0)
        .shows("2 multihead probes of `")
        .shows("how often they are right is not known");
    app.anneal("probe show probes")
        .ended(0)
        .shows("multihead_joy.pth")
        .notes("--metrics");
    let shown = app.anneal("probe show probes --json").json();
    assert!(shown["report"].is_null() && shown["probes"][0]["validation"].is_null());
    let found = lines(
        &app.anneal("probe apply probes --text cat --device cpu --json")
            .ended(0)
            .stdout,
    );
    assert_eq!(found[0]["labels"].as_array().unwrap().len(), 2);
    assert!(found[0]["labels"][0]["probability"].is_null());
    let typed = [
        "chat",
        "animals",
        "--device",
        "cpu",
        "--probes",
        "probes",
        "--set",
        "max_tokens=4",
    ];
    app.run_with_input(&typed, "the cat\n")
        .ended(0)
        .shows("joy (block.0)");
    // What is for probes means nothing to a folder of states.
    app.file("empty/nothing", "");
    app.anneal("probe import empty --out more --layer 0")
        .ended(2)
        .notes("are for files of probes, and the folder has none");
}

/// A home with a model and probes of it, which have the difference of two means.
fn with_directions() -> App {
    let app = ready();
    app.anneal("probe capture --model animals --data texts.jsonl --device cpu --position mean --out states --quiet")
        .ended(0);
    app.anneal("probe train states --out probes --solver mean-difference --quiet")
        .ended(0);
    app
}

/// What a chat says to these lines.
fn chatted(app: &App, more: &[&str], said: &str) -> Vec<Value> {
    let typed = [
        "chat",
        "animals",
        "--device",
        "cpu",
        "--set",
        "max_tokens=12",
        "--json",
    ];
    let typed: Vec<&str> = typed.iter().chain(more).copied().collect();
    lines(&app.run_with_input(&typed, said).ended(0).stdout)
}

#[test]
fn a_chat_is_led_along_a_direction_beside_the_answer_of_the_model_as_it_is() {
    let app = with_directions();
    let said = |more: &[&str]| chatted(&app, more, "the cat\n").remove(0);
    let tokens = |it: &Value| it["tokens"].clone();
    let alone = said(&[]);
    assert!(alone["plain"].is_null() && alone["led"].is_null());
    let zero = said(&["--steer", "probes:high=0"]);
    assert_eq!(tokens(&zero["answer"]), tokens(&alone["answer"]));
    assert_eq!(tokens(&zero["plain"]), tokens(&alone["answer"]));
    assert_eq!(zero["led"]["cost"]["plain"], zero["led"]["cost"]["steered"]);
    let led = said(&["--steer", "probes:high=8"]);
    assert_ne!(tokens(&led["answer"]), tokens(&alone["answer"]));
    assert_eq!(tokens(&led["plain"]), tokens(&alone["answer"]));
    assert_eq!(led["led"]["directions"][0]["made_of"], "mean_difference");
    // Between two answers, too.
    let lines = "the cat\n/steer probes:high=8\nthe cat\n/steer\nthe cat\n";
    let said = chatted(&app, &[], lines);
    assert_eq!(tokens(&said[1]["plain"]), tokens(&alone["answer"]));
    assert_eq!(tokens(&said[1]["answer"]), tokens(&led["answer"]));
    assert!(said[0]["plain"].is_null() && said[2]["plain"].is_null());
    assert_eq!(tokens(&said[2]["answer"]), tokens(&alone["answer"]));
}

#[test]
fn a_chat_says_along_what_it_is_led_and_refuses_what_is_no_direction() {
    let app = with_directions();
    let typed = [
        "chat",
        "animals",
        "--device",
        "cpu",
        "--steer",
        "probes:low=remove",
    ];
    app.run_with_input(&typed, "the cat\n")
        .ended(0)
        .shows("As the model is, without being led:")
        .notes("what states have along its direction is taken away")
        .notes("the difference of the means of texts with the label")
        .notes("perplexity of a plain text of");
    let refused = |steer: &str, code: i32, note: &str| {
        let typed = ["chat", "animals", "--device", "cpu", "--steer", steer];
        app.run_with_input(&typed, "").ended(code).notes(note);
    };
    refused(
        "probes=0.1",
        1,
        "of which one has to be named: `high`, `low`",
    );
    refused(
        "probes:joy=0.1",
        1,
        "there is no probe of `joy`; there are `high`, `low`",
    );
    refused("probes:high=much", 2, "write it like PROBES:joy=0.1");
    // A file for other programs; they add nothing to what the first block gives.
    app.anneal("probe export probes --gguf high.gguf --label high --length 2")
        .ended(1)
        .notes("a control vector can be added after the blocks from `block.1` on");
}
