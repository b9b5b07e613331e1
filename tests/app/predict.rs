//! Pictures in the terminal: what a network says that they show, and what is wrong with a set of them.

use std::fs;

use serde_json::Value;

use crate::{
    app::App,
    red_or_blue::{BLUE, GREY, RED, halves, red_or_blue},
};

fn write(app: &App, name: &str, bytes: &[u8]) {
    let path = app.folder().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

/// A home with a network, pictures in folders, and among them what is none.
fn made() -> App {
    let app = App::new();
    red_or_blue(app.folder());
    write(&app, "warm/a.ppm", &halves(RED, RED, 64));
    write(&app, "warm/deep/b.ppm", &halves(RED, GREY, 48));
    write(&app, "cold/c.ppm", &halves(BLUE, BLUE, 20));
    app
}

#[test]
fn pictures_are_named_one_a_line_with_how_sure_the_network_is() {
    let app = made();
    let said = app.anneal("predict red-or-blue warm cold/c.ppm --device cpu");
    said.ended(0)
        .notes("Small network, 32 × 32 pixels, 2 classes");
    let lines: Vec<Vec<&str>> = said
        .stdout
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    let firsts: Vec<&[&str]> = lines.iter().map(|it| &it[..3]).collect();
    assert_eq!(
        firsts,
        [
            ["warm/a.ppm", "red", "99.8"],
            ["warm/deep/b.ppm", "red", "95.3"],
            ["cold/c.ppm", "blue", "99.8"],
        ]
    );
    app.anneal("predict red-or-blue cold/c.ppm --top 2 --quiet")
        .ended(0)
        .shows("red 0.2 %");
}

#[test]
fn machines_get_a_line_of_json_for_each_picture_also_for_one_that_is_none() {
    let app = made();
    write(&app, "warm/none.png", b"not a picture");
    let said = app.anneal("predict red-or-blue warm --top 2 --map --json");
    assert_eq!((said.code, said.stderr.lines().count()), (1, 1), "{said:?}");
    said.notes("1 of 3 pictures can’t be read");
    let lines: Vec<Value> = said
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let problem = lines[2]["problem"].as_str().unwrap();
    assert!(
        problem.starts_with("is no picture that can be read"),
        "{problem}"
    );
    let first = &lines[1]["predictions"][0];
    assert_eq!(first["class"], "red");
    // Red is on the left, and nothing on the right speaks for it.
    for row in first["map"].as_array().unwrap() {
        assert_eq!((&row[0], &row[3]), (&255.into(), &0.into()), "{first}");
    }
    assert_eq!(lines[1]["predictions"][1]["class"], "blue");
    assert!(lines[1]["millis"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_map_shows_which_places_speak_for_the_class() {
    let app = made();
    let said = app.anneal("predict red-or-blue warm/deep/b.ppm --map --quiet");
    let lines: Vec<&str> = said.ended(0).stdout.lines().collect();
    assert_eq!(lines.len(), 5, "{said:?}");
    assert!(lines[1..].iter().all(|it| *it == "  ████    "), "{said:?}");
}

#[test]
fn what_can_not_be_asked_is_said_in_a_sentence() {
    let app = made();
    fs::create_dir(app.folder().join("empty")).unwrap();
    for (arguments, words) in [
        (
            "predict red-or-blue empty",
            "there is no picture in `empty`",
        ),
        ("predict nothing cold", "there is no run `nothing`"),
        (
            "predict warm cold",
            "the folder holds no classifier: `warm`",
        ),
        ("predict red-or-blue cold --top 9", "9 is not in 1..=5"),
    ] {
        let output = app.anneal(arguments);
        assert_ne!(output.code, 0, "{arguments}");
        output.notes(words);
    }
    let gone = app.anneal("predict red-or-blue cold/gone.ppm");
    gone.ended(1).notes("cold/gone.ppm can’t be read: ");
}

#[test]
fn a_network_that_does_not_fit_its_description_is_refused() {
    let app = made();
    let path = app.folder().join("red-or-blue/classifier.json");
    let text = fs::read_to_string(&path).unwrap();
    for (from, to, words) in [
        (r#"["red","blue"]"#, r#"["red"]"#, "names 1 classes"),
        (
            r#""classes":2"#,
            r#""classes":3"#,
            "and the network tells 3 apart",
        ),
        (r#"[32,32]"#, r#"[16,16]"#, "and it is for others"),
    ] {
        assert!(text.contains(from), "{text}");
        fs::write(&path, text.replace(from, to)).unwrap();
        app.anneal("predict red-or-blue cold").ended(1).notes(words);
    }
}

/// A network that learns in a moment.
const TINY: &str = "\
task: picture
name: Tiles
data: {files: [tiles], held_out: 0.25}
picture: {recipe: small, side: 16, flip: none}
batch: {rows: 8}
steps: 24
device: cpu
";

#[test]
fn what_a_run_learned_is_asked_by_its_name_and_by_the_folder_of_a_checkpoint() {
    let app = App::new();
    write_class(&app, "tiles/red", 24, RED);
    write_class(&app, "tiles/blue", 24, BLUE);
    app.file("run.yaml", TINY);
    app.anneal("train run.yaml --quiet")
        .ended(0)
        .shows("ask it what a picture shows with `anneal predict DAY-tiles-XXXX FILE`");
    write(&app, "new.ppm", &halves(BLUE, [10, 99, 3], 64));
    let asked = |model: &str| -> Value {
        let arguments = [
            "predict", model, "new.ppm", "--top", "2", "--json", "--device", "cpu",
        ];
        let mut told = app.run(&arguments).json();
        told.as_object_mut().unwrap().remove("millis");
        told
    };
    let told = asked("tiles");
    assert_eq!(told["predictions"][0]["class"], "blue");
    let run = fs::read_dir(app.home().join("runs")).unwrap().next();
    let run = run.unwrap().unwrap().path();
    assert_eq!(asked(&run.display().to_string()), told);
    let last = run.join("checkpoints/step-000024").display().to_string();
    assert_eq!(asked(&last)["predictions"][0]["class"], "blue");
    // It solves nothing, and is told what it does.
    app.anneal("solve tiles --puzzle 1...............")
        .ended(2)
        .notes("anneal predict DAY-tiles-XXXX FILE");
}

#[test]
fn a_run_starts_from_the_checkpoint_of_another_network() {
    let app = made();
    write_class(&app, "tiles/red", 12, RED);
    write_class(&app, "tiles/blue", 12, BLUE);
    let run = |model: &str| {
        let file = format!(
            "name: head\ntask: picture\nmodel: {model}\npicture: {{method: features, flip: none}}\ndata: {{files: [tiles]}}\ndevice: cpu\n"
        );
        app.file("run.yaml", &file);
        app.anneal("train run.yaml --quiet")
    };
    run("red-or-blue").ended(0);
    app.anneal("predict head cold/c.ppm").ended(0).shows("blue");
    // What is no network is named.
    app.file("words.pth", "no network");
    run("words.pth").ended(1).notes("words.pth");
    run("warm")
        .ended(2)
        .notes("the folder has no `config.json`, so it is not a model");
}

/// Writes pictures that are all different.
pub(crate) fn write_class(app: &App, folder: &str, count: u8, colour: [u8; 3]) {
    for at in 0..count {
        let other = [at.wrapping_mul(37), at.wrapping_mul(11), 200 - at];
        let name = format!("{folder}/{at:02}.ppm");
        write(app, &name, &halves(colour, other, 40));
    }
}

#[test]
fn pictures_of_a_folder_are_counted_by_class_with_what_is_wrong_with_some() {
    let app = App::new();
    write_class(&app, "tiles/red", 12, RED);
    write_class(&app, "tiles/blue", 2, BLUE);
    let same = fs::read(app.folder().join("tiles/red/00.ppm")).unwrap();
    write(&app, "tiles/blue/same.ppm", &same);
    write(&app, "tiles/blue/cut.jpg", b"\xff\xd8\xff\xe0 cut");
    app.anneal("data inspect tiles")
        .ended(0)
        .shows("15 pictures of 40 x 40, colour in 2 classes: 15 to learn from, 0 held out, 0 to test with")
        .shows("red")
        .shows("Can’t be read: 1")
        .shows("blue/cut.jpg is cut off")
        .shows("Equal or nearly equal pictures in two classes: ")
        .shows("blue/same.ppm (blue, train)");
    let found: Value = app.anneal("data inspect tiles --json").json();
    assert_eq!(found["identical"]["count"], 1);
    // What was looked at is in the app’s folder, and once.
    let kept = fs::read_dir(app.home().join("pictures")).unwrap();
    assert_eq!(kept.count(), 1);
}

#[test]
fn a_folder_without_pictures_is_read_as_text() {
    let app = App::new();
    app.file("notes/a.txt", "Hot steel.\n");
    app.anneal("data inspect notes").ended(0).shows("Tokens");
}

#[test]
fn a_folder_of_pictures_is_learned_from_without_saying_what_it_is() {
    let app = App::new();
    for at in 0..6 {
        for (class, colour) in [("warm", RED), ("cold", BLUE)] {
            write(
                &app,
                &format!("shades/{class}/{at}.ppm"),
                &halves(colour, GREY, 20 + at),
            );
        }
    }
    app.anneal("train --data shades --plan --device cpu")
        .ended(0)
        .shows("task: picture");
    // An option that only text has is taken at its word.
    app.anneal("train --data shades --encoding latin-1 --plan --device cpu")
        .ended(1);
}
