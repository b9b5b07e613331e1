//! Puzzles: sets of them, and models that solve them.

use std::{
    path::{Path, PathBuf},
    sync::atomic::Ordering,
};

use models::tasks::puzzle::{make::make_mazes, maze, solve::Effort};
use tauri::{State, ipc::Channel};

use super::App;
use crate::{
    host::{
        inspect::view::DataSetView,
        puzzles::{SudokuOrder, view::PuzzlesView},
        solve::{
            OpenSolver, puzzle_text,
            view::{MarksView, QuestionView, SolvedView, SolverView, ThinkingView},
        },
    },
    lock::locked,
    store::data_sets,
    wire::error::{AppError, Result},
};

/// How many held-out puzzles are enough to say what more steps gain.
const COUNTED: usize = 200;

/// Some puzzles of files, with so many other looks of the first of them. Nothing where the files hold something else.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn puzzles(
    app: State<'_, App>,
    files: Vec<String>,
    held_out: bool,
    from: usize,
    count: usize,
    looks: usize,
) -> Result<Option<PuzzlesView>> {
    let files: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
    let set = app.host.look_at_puzzles(&files)?;
    Ok(set.map(|(set, board)| PuzzlesView::new((&set, board), held_out, from, count, looks)))
}

/// Makes a set of Sudoku and adds it as data. `progress` gets how many there are. Nothing when it was stopped.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn build_sudoku(
    app: State<'_, App>,
    size: usize,
    train: usize,
    held_out: usize,
    seed: u64,
    progress: Channel<usize>,
) -> Result<Option<DataSetView>> {
    let number = app.builds_asked.fetch_add(1, Ordering::SeqCst) + 1;
    // Runs are called after the folder, so it has the short name, and what else was asked for stands above it.
    let made = format!("made-{train}-{held_out}-seed-{seed}");
    let folder = app.host.paths.data.join(made);
    let folder = folder.join(format!("sudoku-{size}x{size}"));
    let order = SudokuOrder {
        size,
        train,
        held_out,
        givens: None,
        min_rating: 0,
        hard: 0,
        seed,
    };
    let watch = |made| {
        let _ = progress.send(made);
        app.builds_asked.load(Ordering::SeqCst) == number
    };
    if app.host.build_sudoku(order, &folder, &watch)?.is_none() {
        return Ok(None);
    }
    let name = format!("Sudoku {size} × {size}");
    let set = data_sets::add_files(&app.host.paths, name, vec![folder])?;
    Ok(Some(set.into()))
}

/// Ends the making of a set.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn stop_build(app: State<'_, App>) -> Result<()> {
    app.builds_asked.fetch_add(1, Ordering::SeqCst);
    Ok(())
}

/// Opens a run to solve puzzles, in place of the one that is open.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn open_solver(app: State<'_, App>, name: String) -> Result<SolverView> {
    let place = &app.solver;
    place.stop.store(true, Ordering::SeqCst);
    let mut open = locked(&place.model);
    *open = None;
    let mut solver = app.host.open_solver(&name, None)?;
    // Puzzles that are gone leave only those that a person gives.
    solver.held_out = app.host.puzzles_of(&name).ok();
    let view = SolverView::new(&solver);
    *open = Some(solver);
    Ok(view)
}

/// Closes the model, which gives its memory back.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn close_solver(app: State<'_, App>) -> Result<()> {
    app.solver.stop.store(true, Ordering::SeqCst);
    *locked(&app.solver.model) = None;
    Ok(())
}

/// Reads a puzzle from a text: of ARC also one that the model learned from, by its name.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn read_puzzle(app: State<'_, App>, text: String) -> Result<QuestionView> {
    with_solver(&app, |solver, _| {
        let question = solver.read(&text)?;
        Ok(QuestionView::new(None, text, question))
    })
}

/// Reads a puzzle from a file.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn read_puzzle_file(app: State<'_, App>, path: String) -> Result<QuestionView> {
    read_puzzle(app, puzzle_text(Path::new(&path))?)
}

/// A maze of the model’s size that nobody made before. The same number makes the same one.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn random_maze(app: State<'_, App>, seed: u32) -> Result<QuestionView> {
    with_solver(&app, |solver, _| {
        let text = random_maze_text(solver.board.rows, seed.into())?;
        let question = solver.read(&text)?;
        Ok(QuestionView::new(None, text, question))
    })
}

fn random_maze_text(size: usize, seed: u64) -> Result<String> {
    let made = make_mazes(size, maze::usual_length(size), 1, seed, &|_| true)?;
    let made = made.and_then(|it| it.into_iter().next());
    let made = made.ok_or_else(|| AppError::failed("no maze could be made"))?;
    Ok(maze::text(&made.cells))
}

/// Solves a puzzle, given as a text, or one of its questions, from 0. `thoughts` gets each step as it is done. 0 steps are those of
/// the training.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn solve(
    app: State<'_, App>,
    puzzle: String,
    part: usize,
    steps: usize,
    votes: usize,
    thoughts: Channel<ThinkingView>,
) -> Result<SolvedView> {
    with_solver(&app, |solver, stop| {
        let mut show = |thinking| {
            let _ = thoughts.send(ThinkingView::from(thinking));
        };
        let effort = Effort { steps, votes };
        let solved = solver.solve((&puzzle, part), effort, &mut show, stop)?;
        Ok(solved.into())
    })
}

/// Ends what the model is thinking about.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn stop_solving(app: State<'_, App>) -> Result<()> {
    app.solver.stop.store(true, Ordering::SeqCst);
    Ok(())
}

/// A puzzle that the run of the open model never learned from, by its number from 1. Numbers beyond the last begin anew.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn held_out_puzzle(app: State<'_, App>, number: usize) -> Result<QuestionView> {
    with_solver(&app, |solver, _| {
        let set = solver.held_out.as_ref().ok_or_else(no_held_out)?;
        let at = number.saturating_sub(1) % set.held_count().max(1);
        let held = set.held(at).ok_or_else(no_held_out)?;
        let question = solver.read(&held.puzzle)?;
        Ok(QuestionView::new(Some(at + 1), held.puzzle, question))
    })
}

/// Counts how many held-out puzzles of the open model’s run are solved after each of these numbers of steps. `progress` gets how many
/// were thought about. Nothing when it was stopped.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn count_solved(
    app: State<'_, App>,
    steps: Vec<usize>,
    progress: Channel<usize>,
) -> Result<Option<MarksView>> {
    with_solver(&app, |solver, stop| {
        let set = solver.held_out.as_ref().ok_or_else(no_held_out)?;
        let puzzles = set.questions(COUNTED);
        let mut show = |count| {
            let _ = progress.send(count);
        };
        let of = puzzles.len();
        let marks = solver.count_solved(puzzles, &steps, &mut show, stop)?;
        Ok(marks.map(|marks| MarksView { of, marks }))
    })
}

fn no_held_out() -> AppError {
    AppError::invalid("the run of this model kept no puzzle aside that can be given")
}

/// Has the open model do something, which `stop_solving` ends.
fn with_solver<T>(
    app: &App,
    act: impl FnOnce(&mut OpenSolver, &dyn Fn() -> bool) -> Result<T>,
) -> Result<T> {
    let place = &app.solver;
    let mut open = locked(&place.model);
    let solver = open
        .as_mut()
        .ok_or_else(|| AppError::failed("no puzzle model is open"))?;
    place.stop.store(false, Ordering::SeqCst);
    act(solver, &|| place.stop.load(Ordering::SeqCst))
}
