//! Puzzles that a trained model fills in, step by step, from the folder of a checkpoint.

use std::{fs, ops::ControlFlow, path::Path};

use candle_core::{DType, Device};
use models::{
    checkpoint::keep::Checkpoints,
    tasks::puzzle::{
        Puzzle, PuzzleTask,
        request::PuzzlePlan,
        solve::{Effort, Solved, Solver, Thinking},
        source::{Choice, Grid, PuzzleSet, text},
    },
    train::{Kind, Task, TrainPlan},
};
use serde_json::json;
use tempfile::TempDir;

use crate::{kind::run_from_newest, puzzles::plan};

/// Steps of thinking that the model is trained with.
const OWN_STEPS: usize = 3;

/// A model that learned a little, with the plan of its run.
struct Trained {
    folder: TempDir,
    plan: TrainPlan<PuzzlePlan>,
    solver: Solver,
}

impl Trained {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let plan = plan(folder.path(), json!({}));
        let saved = folder.path().join("run");
        run_from_newest::<Puzzle>(&plan, &saved, &mut Vec::new());
        let newest = Checkpoints::new(&saved, 2).newest().unwrap().unwrap();
        let solver = open(&newest.path).unwrap();
        Self {
            folder,
            plan,
            solver,
        }
    }

    fn held_out(&self) -> Vec<Grid> {
        let set = PuzzleSet::read(&[self.folder.path().join("data")], &Choice::ALL).unwrap();
        set.sudoku(true, 0).collect()
    }
}

fn open(folder: &Path) -> models::Result<Solver> {
    Solver::open(folder, DType::F32, &Device::Cpu)
}

/// Fills in a puzzle. Returns the end, and what was thought after each step.
#[track_caller]
fn check(solver: &Solver, puzzle: &str, effort: Effort) -> (Solved, Vec<Thinking>) {
    let question = solver.read(puzzle).unwrap();
    let mut steps = Vec::new();
    let mut watch = |step: &Thinking| {
        steps.push(step.clone());
        ControlFlow::Continue(())
    };
    let solved = solver.solve(&question, effort, &mut watch).unwrap();
    (solved, steps)
}

const USUAL: Effort = Effort { steps: 0, votes: 1 };

#[test]
fn a_checkpoint_says_what_its_model_is_and_fills_in_a_grid_step_by_step() {
    let trained = Trained::new();
    let solver = &trained.solver;
    let grids = trained.held_out();
    assert_eq!(solver.steps(), OWN_STEPS);
    let board = solver.board();
    assert_eq!((board.rows, board.columns, board.box_rows), (4, 4, 2));
    assert_eq!(board.symbols, ["", ".", "1", "2", "3", "4"]);
    assert!(solver.weights() > 1000);

    let puzzle = text(&grids[0].puzzle);
    let (solved, steps) = check(solver, &puzzle, USUAL);
    assert_eq!(steps.len(), OWN_STEPS);
    assert_eq!(board.text(&solved.puzzle), puzzle);
    let solution = solved.solution.as_ref().unwrap();
    assert_eq!(board.text(solution), text(&grids[0].solution));
    let mut before = solved.puzzle.clone();
    for step in &steps {
        for (cell, given) in solved.puzzle.iter().enumerate() {
            assert!(*given == board.blank || step.guess[cell] == *given);
            assert!((0.0..=1.0).contains(&step.confidence[cell]));
            let is_new = step.changed.contains(&cell);
            assert_eq!(is_new, step.guess[cell] != before[cell]);
        }
        assert!((0.0..=1.0).contains(&step.halt));
        before = step.guess.clone();
    }
    // A puzzle is thought about as if there were no other before.
    assert_eq!(check(solver, &puzzle, USUAL), (solved, steps));
}

#[test]
fn more_steps_begin_as_fewer_do_and_thinking_ends_when_it_is_told_to() {
    let trained = Trained::new();
    let puzzle = text(&trained.held_out()[1].puzzle);
    let few = check(&trained.solver, &puzzle, USUAL).1;
    let many = check(&trained.solver, &puzzle, Effort { steps: 9, votes: 1 }).1;
    assert_eq!(many.len(), 9);
    assert_eq!(many[..OWN_STEPS], few);

    let question = trained.solver.read(&puzzle).unwrap();
    let mut seen = 0;
    let mut watch = |_: &Thinking| {
        seen += 1;
        ControlFlow::Break(())
    };
    trained.solver.solve(&question, USUAL, &mut watch).unwrap();
    assert_eq!(seen, 1);
    let endless = Effort {
        steps: 5000,
        votes: 1,
    };
    let refused = trained
        .solver
        .solve(&question, endless, &mut |_| ControlFlow::Continue(()));
    let refused = refused.unwrap_err().to_string();
    assert_eq!(refused, "`steps` is 5000, and can be 1024 at most");
}

#[test]
fn votes_are_of_the_puzzle_itself_turned_back_and_probabilities_stay_such() {
    let trained = Trained::new();
    let puzzle = text(&trained.held_out()[2].puzzle);
    let one = check(&trained.solver, &puzzle, Effort { steps: 1, votes: 1 }).1;
    let none = check(&trained.solver, &puzzle, Effort { steps: 1, votes: 0 }).1;
    assert_eq!(one, none);
    let (solved, many) = check(&trained.solver, &puzzle, Effort { steps: 1, votes: 8 });
    for (cell, given) in solved.puzzle.iter().enumerate() {
        assert!(*given == 1 || many[0].guess[cell] == *given);
        assert!(many[0].confidence[cell] <= 1.0 + 1e-5);
    }
    assert_ne!(many[0].confidence, one[0].confidence);
}

#[test]
fn the_count_of_solved_puzzles_is_that_of_the_run() {
    let trained = Trained::new();
    let saved = trained.folder.path().join("run");
    let mut task: PuzzleTask = Puzzle::open(&trained.plan, None, &Device::Cpu).unwrap();
    let newest = Checkpoints::new(&saved, 2).newest().unwrap().unwrap();
    task.load(&newest.path).unwrap();
    let measured = task.evaluate(0, &|| true).unwrap().unwrap();
    let share = measured.metrics[0].value;
    let grids = trained.held_out();
    let mut go_on = |_| ControlFlow::Continue(());
    let counted = trained
        .solver
        .measure(&grids, &[1, OWN_STEPS, 6], &mut go_on);
    let counted = counted.unwrap().unwrap();
    let steps: Vec<usize> = counted.iter().map(|it| it.steps).collect();
    assert_eq!(steps, [1, OWN_STEPS, 6]);
    assert_eq!(counted[1].solved as f64 / grids.len() as f64, share);
    let stopped = trained
        .solver
        .measure(&grids, &[6], &mut |_| ControlFlow::Break(()));
    assert_eq!(stopped.unwrap(), None);
}

#[test]
fn what_is_wrong_with_a_puzzle_is_a_sentence() {
    let solver = Trained::new().solver;
    let none = ".".repeat(16);
    let cases = [
        (
            "12",
            "the puzzle can’t be read: a grid of 4 by 4 has 16 cells, and here are 2",
        ),
        (
            "1..............7",
            "the puzzle can’t be read: row 4, column 4 is “7”, and has to be a digit up to 4, or a dot",
        ),
        (
            "1...1...........",
            "the puzzle has no solution: it gives 1 in row 1, column 1 and in row 2, column 1",
        ),
        // The last cell of the first row can only be 4, which its column has.
        ("123....4........", "the puzzle has no solution"),
    ];
    for (puzzle, expected) in cases {
        let problem = solver.read(puzzle).unwrap_err().to_string();
        assert_eq!(problem, expected, "{puzzle}");
    }
    let open = solver.read(&none).unwrap();
    assert_eq!(open.solution, None);
    assert!(open.warnings[0].starts_with("This puzzle has more than one solution."));
    // Lines between boxes and the rows of a text don't count, and 0 is an empty cell.
    let drawn = solver
        .read("1 2 | 3 0\n0 0 | 0 0\n----+----\n0 0 | 0 0\n0 0 | 0 0\n")
        .unwrap();
    assert_eq!(solver.board().text(&drawn.cells), "123.............");
}

#[test]
fn a_folder_that_is_no_puzzle_model_is_refused_by_what_is_wrong_with_it() {
    let trained = Trained::new();
    let folder = tempfile::tempdir().unwrap();
    let problem = |folder: &Path| open(folder).map(drop).unwrap_err().to_string();
    assert!(problem(folder.path()).contains("puzzle.json"));
    let saved = trained.folder.path().join("run");
    let newest = Checkpoints::new(&saved, 2).newest().unwrap().unwrap().path;
    for name in ["puzzle.json", "model.safetensors"] {
        fs::copy(newest.join(name), folder.path().join(name)).unwrap();
    }
    open(folder.path()).unwrap();
    let weights = fs::read(newest.join("model.safetensors")).unwrap();
    fs::write(
        folder.path().join("model.safetensors"),
        &weights[..weights.len() / 2],
    )
    .unwrap();
    assert!(
        problem(folder.path()).contains("incomplete"),
        "{}",
        problem(folder.path())
    );
    let about = fs::read_to_string(newest.join("puzzle.json")).unwrap();
    for (from, to) in [
        ("\"seq_len\": 16", "\"seq_len\": 17"),
        ("\"rows\": 4", "\"rows\": 5"),
        ("{", ""),
    ] {
        fs::write(
            folder.path().join("puzzle.json"),
            about.replacen(from, to, 1),
        )
        .unwrap();
        assert!(problem(folder.path()).starts_with("puzzle.json is damaged"));
    }
}
