//! What the program keeps on disk.

use std::fs;

use crate::app::{App, sentences};

#[test]
fn a_home_on_the_command_line_comes_before_the_environment() {
    let app = App::new();
    app.anneal("device --use cpu --home elsewhere").ended(0);
    assert!(app.folder().join("elsewhere/settings.yaml").is_file());
    assert!(!app.home().join("settings.yaml").exists());
}

#[test]
fn a_preferred_device_is_remembered_in_a_file_that_explains_itself() {
    let app = App::new();
    app.anneal("device --use cpu");
    let text = fs::read_to_string(app.home().join("settings.yaml")).unwrap();
    assert!(text.starts_with("# Settings of Anneal."), "{text}");
    assert!(text.contains("\ndevice: cpu\n"), "{text}");
    app.anneal("device").shows("(cpu) was asked for");
}

#[test]
fn a_setting_that_is_not_known_is_reported_by_its_line() {
    let app = App::new();
    app.file("home/settings.yaml", "device: cpu\ndevcie: metal\n");
    let output = app.anneal("runs");
    assert_eq!(
        output.stderr.lines().next().unwrap(),
        "warning: `devcie` in line 2 of the settings is not known and changes nothing: `FOLDER/home/settings.yaml`"
    );
    output.ended(0);
}

#[test]
fn settings_that_cannot_be_read_are_put_aside_by_choosing_a_device() {
    let app = App::new();
    app.file("home/settings.yaml", "theme: [dark\n");
    app.anneal("device")
        .ended(2)
        .notes("`anneal device --use auto`");
    let mended = app.anneal("device --use cpu");
    mended.ended(0);
    let warning = "the old ones are kept: `FOLDER/home/settings.broken-1.yaml`";
    mended.notes(warning);
    let again = app.anneal("device");
    assert_eq!((again.code, again.stderr.as_str()), (0, ""), "{again:?}");
}

#[test]
fn the_plan_of_a_run_can_be_planned_again() {
    let app = App::new();
    app.file("animals.txt", &sentences(400));
    let first = app.anneal("train --data animals.txt --plan").stdout;
    // Paths in a run file start at its folder.
    app.file("again.yaml", &first.replace("FOLDER/", ""));
    let second = app.anneal("train again.yaml --plan --json").stdout;
    let once: serde_json::Value = {
        let text = app.anneal("train --data animals.txt --plan --json").stdout;
        serde_json::from_str(&text).unwrap()
    };
    let twice: serde_json::Value = serde_json::from_str(&second).unwrap();
    assert_eq!(once["plan"], twice["plan"]);
}
