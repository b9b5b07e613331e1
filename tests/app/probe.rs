//! Hidden states in the terminal: captured, killed, continued, and exchanged with other programs.

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::json;

use crate::{
    app::App,
    train::{signal, start, tiny, wait_for},
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
