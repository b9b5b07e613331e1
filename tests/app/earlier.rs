//! What an earlier version wrote is read, shown and continued: the home in `fixtures/home-of-0.1` was written by the version
//! before there was more than one kind of learning.

use std::{fs, path::Path};

use crate::{
    app::App,
    train::{events, losses},
};

/// The losses of the steps after the checkpoint, as the earlier version computed them.
const LOSSES: [(u64, f64); 2] = [(5, 5.470_943_927_764_893), (6, 5.471_736_431_121_826)];

/// An app whose home was written by the earlier version.
fn earlier() -> App {
    let app = App::new();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/app/fixtures/home-of-0.1");
    copy(&fixture, &app.home(), &app.folder().display().to_string());
    fs::rename(
        app.home().join("animals.txt"),
        app.folder().join("animals.txt"),
    )
    .unwrap();
    app
}

/// Copies a folder. Where a text says `FOLDER`, it says where the app works.
fn copy(from: &Path, to: &Path, folder: &str) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to, folder);
            continue;
        }
        let content = fs::read(entry.path()).unwrap();
        // What is in a checkpoint is what it was.
        let is_saved = from.ends_with("step-000004");
        let content = match String::from_utf8(content) {
            Ok(text) if is_saved => text.into_bytes(),
            Ok(text) => text
                .replace("FOLDER", &folder.replace('\\', "/"))
                .into_bytes(),
            Err(bytes) => bytes.into_bytes(),
        };
        fs::write(to, content).unwrap();
    }
}

#[test]
fn a_run_of_an_earlier_version_is_shown_and_resumed_to_the_same_losses() {
    let app = earlier();
    let listed = app.anneal("runs --json");
    let runs = listed.json();
    let text = runs.to_string();
    assert!(
        text.contains("before") && text.contains("\"step\":4"),
        "{text}"
    );

    let found = losses(&events(&app, &["train", "--resume", "before", "--json"]));
    assert_eq!(found.keys().copied().collect::<Vec<_>>(), [5, 6]);
    for (step, expected) in LOSSES {
        let loss: f64 = found[&step].parse().unwrap();
        assert!(
            (loss - expected).abs() < 1e-4,
            "step {step}: {loss}, not {expected}"
        );
    }
    app.run_with_input(&["chat", "before", "--set", "max_tokens=2"], "the cat\n")
        .ended(0);
}

#[test]
fn settings_and_benchmarks_of_an_earlier_version_are_read() {
    let app = earlier();
    let device = app.anneal("device --json");
    let used = device.json();
    let reason = used["chosen"]["reason"].as_str().unwrap();
    assert!(reason.contains("(cpu) was asked for"), "{used}");
    let file = app.home().join("measured.json");
    app.run(&["bench", "--import", &file.display().to_string()])
        .ended(0);
    app.anneal("bench --list").shows("small");
}
