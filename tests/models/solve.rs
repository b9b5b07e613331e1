//! Puzzles that a trained model fills in, step by step, from the folder of a checkpoint.

use std::{
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use candle_core::{DType, Device};
use models::{
    checkpoint::keep::Checkpoints,
    tasks::puzzle::{
        Puzzle, PuzzleTask, make,
        maze::PathLengths,
        question::Held,
        request::PuzzlePlan,
        solve::{Effort, Solved, Solver, Thinking},
        source::{Choice, PuzzleSet},
    },
    train::{Kind, Measuring, RunPlace, Task, TrainPlan},
};
use serde_json::json;
use tempfile::TempDir;

use crate::{
    kind::run_from_newest,
    puzzles::{plan, plan_of},
    puzzles_data::tasks,
};

/// Steps of thinking that the model is trained with.
const OWN_STEPS: usize = 3;

/// A model that learned a little, with the plan of its run.
pub(crate) struct Trained {
    pub(crate) folder: TempDir,
    pub(crate) plan: TrainPlan<PuzzlePlan>,
    pub(crate) solver: Solver,
}

impl Trained {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let plan = plan(folder.path(), json!({}));
        Self::on(folder, plan)
    }

    /// On mazes of 6 by 6.
    fn mazes() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mazes = make::make_mazes(6, 5, 40, 3, &|_| true).unwrap().unwrap();
        make::write_mazes(&mazes, 10, &folder.path().join("data")).unwrap();
        let plan = plan_of(&folder.path().join("data"), json!({}));
        Self::on(folder, plan)
    }

    /// On four tasks of ARC, with three other looks of each.
    pub(crate) fn tasks() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let changes = json!({
            "data": {"augmentations": 3},
            "trm": {"mlp_t": false, "pos_encodings": "rope", "hidden_size": 8, "num_heads": 1, "L_layers": 1,
                "H_cycles": 1, "L_cycles": 1, "halt_max_steps": 2, "puzzle_emb_len": 1},
            "batch": {"rows": 2, "accumulate": 1}, "steps": 2, "save": {"every": 2}, "evaluate": {"every": 0},
        });
        let plan = plan_of(&tasks(&folder.path().join("data")), changes);
        Self::on(folder, plan)
    }

    fn on(folder: TempDir, plan: TrainPlan<PuzzlePlan>) -> Self {
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

    pub(crate) fn held_out(&self) -> Vec<Held> {
        let set = PuzzleSet::read(&[self.folder.path().join("data")], &Choice::ALL).unwrap();
        set.questions(usize::MAX)
    }

    pub(crate) fn newest(&self) -> PathBuf {
        let saved = self.folder.path().join("run");
        Checkpoints::new(&saved, 2).newest().unwrap().unwrap().path
    }
}

pub(crate) fn open(folder: &Path) -> models::Result<Solver> {
    Solver::open(folder, DType::F32, &Device::Cpu)
}

/// Fills in a puzzle. Returns the end, and what was thought after each step.
#[track_caller]
fn check(solver: &Solver, puzzle: &str, effort: Effort) -> (Solved, Vec<Thinking>) {
    let question = solver.read(puzzle, 0).unwrap();
    let mut steps = Vec::new();
    let mut watch = |step: &Thinking| {
        steps.push(step.clone());
        ControlFlow::Continue(())
    };
    let solved = solver.solve(&question, effort, &mut watch).unwrap();
    (solved, steps)
}

pub(crate) const USUAL: Effort = Effort { steps: 0, votes: 1 };

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

    let puzzle = grids[0].puzzle.clone();
    let (solved, steps) = check(solver, &puzzle, USUAL);
    assert_eq!(steps.len(), OWN_STEPS);
    assert_eq!(board.text(&solved.puzzle), puzzle);
    let solution = solved.solution.as_ref().unwrap();
    assert_eq!(board.text(solution), grids[0].solution);
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
    let puzzle = trained.held_out()[1].puzzle.clone();
    let few = check(&trained.solver, &puzzle, USUAL).1;
    let many = check(&trained.solver, &puzzle, Effort { steps: 9, votes: 1 }).1;
    assert_eq!(many.len(), 9);
    assert_eq!(many[..OWN_STEPS], few);

    let question = trained.solver.read(&puzzle, 0).unwrap();
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
    let puzzle = trained.held_out()[2].puzzle.clone();
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
    let mut task: PuzzleTask = Puzzle::open(&trained.plan, &RunPlace::bare(&Device::Cpu)).unwrap();
    let newest = Checkpoints::new(&saved, 2).newest().unwrap().unwrap();
    task.load(&newest.path).unwrap();
    let measured = task
        .evaluate(0, &mut Measuring::alone(&|| true))
        .unwrap()
        .unwrap();
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
        let problem = solver.read(puzzle, 0).unwrap_err().to_string();
        assert_eq!(problem, expected, "{puzzle}");
    }
    let open = solver.read(&none, 0).unwrap();
    assert_eq!(open.solution, None);
    assert!(open.warnings[0].starts_with("This puzzle has more than one solution."));
    // Lines between boxes and the rows of a text don't count, and 0 is an empty cell.
    let drawn = solver
        .read("1 2 | 3 0\n0 0 | 0 0\n----+----\n0 0 | 0 0\n0 0 | 0 0\n", 0)
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

/// As many rows of text as a maze has.
fn rows(maze: &str, size: usize) -> String {
    let cells: Vec<char> = maze.chars().collect();
    let rows = cells.chunks(size);
    rows.map(|row| row.iter().collect::<String>() + "\n")
        .collect()
}

#[test]
fn a_maze_is_solved_step_by_step_and_its_path_is_measured_against_the_shortest() {
    let trained = Trained::mazes();
    let (solver, held) = (&trained.solver, trained.held_out());
    assert_eq!((solver.board().rows, held.len()), (6, 10));
    let (solved, steps) = check(solver, &held[0].puzzle, USUAL);
    assert_eq!(steps.len(), OWN_STEPS);
    let board = solver.board();
    assert_eq!(
        board.text(solved.solution.as_ref().unwrap()),
        held[0].solution
    );
    let shortest = held[0].solution.matches('o').count() + 1;
    let way = solved.way.unwrap();
    assert_eq!(way.shortest, shortest);
    // It learned too little to find a way, and so nothing is said to be solved.
    let is_solved = way.length == Some(shortest);
    assert_eq!(solved.solved_at.is_some(), is_solved);
    for step in &steps {
        let kept = solved.puzzle.iter().zip(&step.guess);
        for (cell, (given, guess)) in kept.enumerate() {
            assert!(*given == board.blank || given == guess);
            // A mark that no path can have is told, and nothing that is given.
            assert!(!step.conflicts.contains(&cell) || *given == board.blank);
        }
    }
    // By its rows, with dots or with spaces that were lost at their ends, it is the same.
    let lines = rows(&held[0].puzzle, 6);
    let trimmed: Vec<&str> = lines.lines().map(str::trim_end).collect();
    for written in [lines.clone(), lines.replace(' ', "."), trimmed.join("\r\n")] {
        assert_eq!(check(solver, &written, USUAL).0, solved, "{written}");
    }
    // There are eight looks of it, and no more.
    let many = Effort {
        steps: 1,
        votes: 20,
    };
    let (turned, _) = check(solver, &held[0].puzzle, many);
    assert_eq!(turned.looks, 8);
    assert_eq!(
        turned.warnings,
        ["A maze can be seen in 8 ways, so 8 looks vote and not 20."]
    );
}

#[test]
fn the_looks_of_a_maze_vote_as_one_when_each_is_seen_first() {
    let trained = Trained::mazes();
    let puzzle = &trained.held_out()[1].puzzle;
    let all = Effort { steps: 1, votes: 8 };
    let one = check(&trained.solver, puzzle, all).1;
    // The same maze mirrored has the same eight looks, so they say the same of it, mirrored.
    let mirror = |text: &str| -> String {
        let lines = rows(text, 6);
        lines
            .lines()
            .map(|line| line.chars().rev().collect::<String>())
            .collect()
    };
    let other = check(&trained.solver, &mirror(puzzle), all).1;
    let text = |step: &Thinking| trained.solver.board().text(&step.guess);
    assert_eq!(mirror(&text(&one[0])), text(&other[0]));
    assert!((one[0].halt - other[0].halt).abs() < 1e-4);
}

#[test]
fn what_is_wrong_with_a_maze_is_a_sentence_with_its_place() {
    let solver = Trained::mazes().solver;
    let good = "S.....\n######\n......\n......\n......\nG.....\n";
    let cases = [
        (
            "S.#",
            "the maze has 3 cells, and the model’s have 6 rows of 6: 36",
        ),
        (
            "S.\n..\n.G\n",
            "the maze has 3 rows, and the model’s have 6",
        ),
        (
            "S......\n......\n......\n......\n......\nG.....",
            "row 1 of the maze has 7 cells, and the model’s have 6",
        ),
        (
            &good.replace('#', "x"),
            "row 2, column 1 is “x”, and has to be one of # S G o or a space",
        ),
        (&good.replace('S', "."), "the maze has no start (S)"),
        (&good.replace('G', "."), "the maze has no goal (G)"),
        (
            &good.replacen("......", ".G....", 1),
            "the maze has 2 of a goal (G), and one is allowed: the first are in row 3, column 2 and in row 6, column 1",
        ),
        (
            good,
            "the maze has no way from its start in row 1, column 1 to its goal in row 6, column 1",
        ),
        (
            &good.replacen("......", "..o...", 1),
            "row 3, column 3 is “o”: the path is what the model finds; leave the cell free",
        ),
    ];
    for (maze, expected) in cases {
        let problem = solver.read(maze, 0).unwrap_err().to_string();
        assert_eq!(problem, expected, "{maze}");
    }
    let open = solver
        .read("S.....\n......\n......\n......\n......\n.....G", 0)
        .unwrap();
    assert_eq!(open.solution, None);
    assert_eq!(
        open.warnings,
        ["This maze has more than one shortest path. Any of them counts as solved."]
    );
}

#[test]
fn a_path_that_is_given_is_held_to_the_shortest() {
    let size = 5;
    let wide = |text: &str| -> Vec<u32> {
        let cells = models::tasks::puzzle::maze::symbols(text, size).unwrap();
        cells.into_iter().map(u32::from).collect()
    };
    let maze = wide("S #  # ## #    ###  G    ");
    let cases = [
        ("So#  #o## #ooo ###o Gooo ", Some(10), 0),
        ("So#  #o## #oooo### oGoooo", Some(12), 0),
        // One that ends, beside one cell that has nothing to do with it.
        ("So#  #o## #oo  ###  G   o", None, 2),
    ];
    for (answer, length, loose) in cases {
        let answer = wide(answer);
        let way = models::tasks::puzzle::maze::way(&maze, &answer).unwrap();
        let shortest = 10;
        assert_eq!(way, PathLengths { length, shortest });
        assert_eq!(
            models::tasks::puzzle::maze::loose(&maze, &answer).len(),
            loose
        );
    }
}
