//! Puzzles in the terminal: made, looked at, learned and filled in.

use std::path::PathBuf;

use serde_json::Value;

use crate::app::App;

/// A model that learns in a moment.
const TINY: &str = "\
task: puzzle
name: Small
data: {files: [puzzles]}
trm: {hidden_size: 32, num_heads: 2, halt_max_steps: 3}
batch: {rows: 4, accumulate: 1}
steps: 4
device: cpu
";

/// How puzzles are thought about here.
const HOW: &[&str] = &["--steps", "5", "--votes", "2", "--json"];

/// A home with a run that learned a little.
fn trained() -> App {
    let app = App::new();
    app.file("run.yaml", TINY);
    app.anneal("data build sudoku puzzles --train 20 --held-out 5 --seed 1")
        .ended(0)
        .shows("20 puzzles to learn from and 5 to measure with");
    app.anneal("train run.yaml --quiet")
        .ended(0)
        .shows("have it fill in a puzzle with `anneal solve DAY-small-XXXX --held-out 1`");
    app
}

#[test]
fn puzzles_are_made_shown_learned_and_filled_in() {
    let app = trained();
    app.anneal("data inspect puzzles")
        .ended(0)
        .shows("Sudoku of 4 by 4: 20 puzzles to learn from, 5 to measure with")
        .shows("puzzle 1, ")
        .shows("────┼────");
    app.anneal("solve small --held-out 1 --device cpu")
        .ended(0)
        .shows("step  changed  in conflict  halting probability")
        .shows("solved");

    let solved: Value = app
        .anneal("solve small --held-out 1 --steps 5 --votes 2 --json")
        .json();
    assert_eq!(solved["steps"].as_array().unwrap().len(), 5);
    assert_eq!(solved["board"]["kind"], "sudoku");
    let puzzle = solved["puzzle"].as_str().unwrap();
    assert_eq!(puzzle.len(), 16);
    // The same puzzle by its text, from a file, and from standard input.
    let by_text = app.run(&[&["solve", "small", "--puzzle", puzzle], HOW].concat());
    assert_eq!(by_text.json(), solved);
    app.file(
        "puzzle.txt",
        &format!("{}\n{}\n", &puzzle[..8], &puzzle[8..]),
    );
    let by_file = app.anneal("solve small --file puzzle.txt --steps 5 --votes 2 --json");
    assert_eq!(by_file.json(), solved);
    let by_input = app.run_with_input(
        &["solve", "small", "--steps", "5", "--votes", "2", "--json"],
        puzzle,
    );
    assert_eq!(by_input.json(), solved);
    // By its folder a run is the same; a checkpoint of it may be another than the best, of the same puzzles.
    let mut runs = std::fs::read_dir(app.home().join("runs")).unwrap();
    let run = runs.next().unwrap().unwrap().path();
    let of = |folder: PathBuf| {
        let folder = folder.display().to_string();
        app.run(&[&["solve", &folder, "--held-out", "1"], HOW].concat())
            .json()
    };
    assert_eq!(of(run.clone()), solved);
    let saved = of(run.join("checkpoints/step-000004"));
    assert_eq!(
        (&saved["puzzle"], &saved["board"]),
        (&solved["puzzle"], &solved["board"])
    );
}

#[test]
fn what_is_wrong_with_a_puzzle_or_a_model_is_said_in_a_sentence() {
    let app = trained();
    for (arguments, words) in [
        (
            &["solve", "small", "--puzzle", "12"][..],
            "a grid of 4 by 4 has 16 cells, and here are 2",
        ),
        (
            &["solve", "small", "--puzzle", "11.............."],
            "the puzzle has no solution: it gives 1 in row 1, column 1",
        ),
        (
            &["solve", "small", "--held-out", "6"],
            "there is no held-out puzzle 6: the run has 5",
        ),
        (
            &["solve", "nothing", "--held-out", "1"],
            "there is no run `nothing`",
        ),
        (
            &["solve", "puzzles", "--puzzle", "1..............."],
            "the folder holds no puzzle model",
        ),
    ] {
        let output = app.run(arguments);
        assert_ne!(output.code, 0, "{arguments:?}");
        output.notes(words);
    }
    let open = app.run(&["solve", "small", "--puzzle", &".".repeat(16)]);
    open.ended(0).notes("more than one solution");
}

#[test]
fn what_can_not_be_filled_in_yet_is_said_by_its_name() {
    let app = App::new();
    app.file("run.yaml", TINY);
    app.anneal("data build maze puzzles --size 8 --train 12 --held-out 4 --seed 1")
        .ended(0);
    app.anneal("train run.yaml --quiet").ended(0);
    app.anneal("solve small --held-out 1")
        .ended(2)
        .notes("learned 8 by 8 mazes, and only Sudoku can be filled in so far");
}
