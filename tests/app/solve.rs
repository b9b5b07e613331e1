//! Puzzles in the terminal: made, looked at, learned and solved.

use std::path::PathBuf;

use serde_json::Value;

use crate::{app::App, train::edit};

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
pub(crate) fn trained() -> App {
    let app = App::new();
    app.file("run.yaml", TINY);
    app.anneal("data build sudoku puzzles --train 20 --held-out 5 --seed 1")
        .ended(0)
        .shows("20 puzzles to learn from and 5 to measure with");
    app.anneal("train run.yaml --quiet")
        .ended(0)
        .shows("have it solve a puzzle with `anneal solve DAY-small-XXXX --held-out 1`");
    app
}

#[test]
fn a_run_of_puzzles_goes_on_and_says_what_was_changed_meanwhile() {
    let app = trained();
    edit(&app, "small", "steps: 4", "steps: 6");
    edit(&app, "small", "hidden_size: 32", "hidden_size: 64");
    app.anneal("train --resume small")
        .ended(1)
        .notes("`trm.hidden_size` was 32 when step 4 was saved, and is 64 now");
    edit(&app, "small", "hidden_size: 64", "hidden_size: 32");
    edit(&app, "small", "halting_weight: 0.5", "halting_weight: 0.25");
    app.anneal("train --resume small")
        .ended(0)
        .notes("`halting_weight` was 0.5 when step 4 was saved, and is 0.25 now");
    app.anneal("runs").shows("finished  6/6");
}

#[test]
fn puzzles_are_made_shown_learned_and_filled_in() {
    let app = trained();
    app.anneal("data inspect puzzles")
        .ended(0)
        .shows("Sudoku of 4 by 4: 20 puzzles to learn from, 5 to measure with")
        .shows("puzzle 1, ")
        .shows("────┼────");
    app.anneal("data build reference arrays puzzles --num-aug 2")
        .ended(0);
    app.anneal("data inspect arrays")
        .ended(0)
        .shows("Sudoku of 4 by 4: 60 puzzles to learn from, 5 to measure with")
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
fn mazes_are_solved_from_files_by_name_and_by_number() {
    let app = App::new();
    let small = "halt_max_steps: 3, L_layers: 1, H_cycles: 1, L_cycles: 1";
    app.file("run.yaml", &TINY.replace("halt_max_steps: 3", small));
    app.anneal("data build maze puzzles --size 8 --train 12 --held-out 4 --seed 1")
        .ended(0);
    app.anneal("data inspect puzzles")
        .ended(0)
        .shows("Mazes of 8 by 8: 12 mazes to learn from, 4 to measure with")
        .shows("██");
    app.anneal("train run.yaml --quiet").ended(0);
    app.anneal("solve small --held-out 1 --votes 8")
        .ended(0)
        .shows("step  changed  off path  halting probability")
        .shows("solved");
    let solved: Value = app.anneal("solve small --held-out 1 --json").json();
    assert_eq!(solved["board"]["kind"], "maze");
    assert!(solved["way"]["shortest"].as_u64().unwrap() > 8);
    let puzzle: Vec<char> = solved["puzzle"].as_str().unwrap().chars().collect();
    let lines: Vec<String> = puzzle.chunks(8).map(|it| it.iter().collect()).collect();
    app.file("maze.txt", &lines.join("\n"));
    let by_file: Value = app.anneal("solve small --file maze.txt --json").json();
    assert_eq!(by_file, solved);
    app.file("maze.txt", &lines.join("\n").replace('S', " "));
    app.anneal("solve small --file maze.txt")
        .ended(1)
        .notes("the maze has no start (S)");
}

/// A model that learns tasks in a moment.
const TASKS: &str = "\
task: puzzle
name: Small
data: {files: [tasks], augmentations: 3}
trm: {hidden_size: 8, num_heads: 1, halt_max_steps: 2, mlp_t: false, pos_encodings: rope, L_layers: 1, H_cycles: 1, L_cycles: 1, puzzle_emb_len: 1}
batch: {rows: 2, accumulate: 1}
steps: 2
device: cpu
";

#[test]
fn tasks_are_answered_by_votes_and_a_new_one_is_said_to_be_new() {
    let app = App::new();
    let pairs = |colour: u8| {
        format!(
            r#"{{"train": [{{"input": [[{colour}, 0]], "output": [[{colour}]]}}], "test": [{{"input": [[{colour}, 0, 0]], "output": [[{colour}]]}}, {{"input": [[0, {colour}]]}}]}}"#
        )
    };
    app.file("tasks/training/aa.json", &pairs(1));
    app.file("tasks/evaluation/bb.json", &pairs(2));
    app.file("run.yaml", TASKS);
    app.anneal("data inspect tasks")
        .ended(0)
        .shows("Tasks of ARC: 2 pairs to learn from, 2 to measure with");
    app.anneal("train run.yaml --quiet").ended(0);
    app.anneal("solve small --held-out 1 --device cpu")
        .ended(0)
        .shows("task bb, test input 1 of 2")
        .shows("step  changed  votes   halting probability")
        .shows("whether that is right is not known");
    let solved: Value = app
        .anneal("solve small --puzzle bb --votes 2 --json")
        .json();
    assert_eq!(
        (&solved["task"], &solved["is_known"]),
        (&"bb".into(), &true.into())
    );
    let questions = solved["questions"].as_array().unwrap();
    assert_eq!((questions.len(), &questions[0]["looks"]), (2, &2.into()));
    app.file("new.json", &pairs(3));
    app.anneal("solve small --file new.json")
        .ended(0)
        .notes("The model did not learn from this task.")
        .shows("task of yours, test input 1 of 2");
    app.anneal("solve small --puzzle cc").ended(1).notes(
        "there is no task “cc” among those that the model learned from: 2 tasks, such as aa, bb",
    );
}
