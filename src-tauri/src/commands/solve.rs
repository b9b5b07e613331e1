//! Puzzles: sets of them, and models that fill them in.

use std::{path::PathBuf, sync::atomic::Ordering};

use models::tasks::puzzle::solve::Effort;
use tauri::{State, ipc::Channel};

use super::App;
use crate::{
    host::{
        inspect::view::DataSetView,
        puzzles::{
            SudokuOrder,
            view::{PuzzleView, PuzzlesView},
        },
        solve::{
            OpenSolver,
            view::{MarksView, SolvedView, SolverView, ThinkingView},
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
    Ok(set.map(|(set, shape)| PuzzlesView::new((&set, shape), held_out, from, count, looks)))
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

/// Opens a run to fill in grids, in place of the one that is open.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn open_solver(app: State<'_, App>, name: String) -> Result<SolverView> {
    let place = &app.solver;
    place.stop.store(true, Ordering::SeqCst);
    let mut open = locked(&place.model);
    *open = None;
    let solver = app.host.open_solver(&name, None)?;
    // Puzzles that are gone leave only those that a person types.
    let held_out = app.host.held_out_puzzles(&name).map_or(0, |it| it.len());
    let view = SolverView::new(&solver, held_out);
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

/// Fills in a grid, given as a text. `thoughts` gets each step as it is done. 0 steps are those of the training.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn solve(
    app: State<'_, App>,
    puzzle: String,
    steps: usize,
    votes: usize,
    thoughts: Channel<ThinkingView>,
) -> Result<SolvedView> {
    with_solver(&app, |solver, stop| {
        let mut show = |thinking| {
            let _ = thoughts.send(ThinkingView::from(thinking));
        };
        let effort = Effort { steps, votes };
        Ok(solver.solve(&puzzle, effort, &mut show, stop)?.into())
    })
}

/// Ends what the model is thinking about.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn stop_solving(app: State<'_, App>) -> Result<()> {
    app.solver.stop.store(true, Ordering::SeqCst);
    Ok(())
}

/// A puzzle that a run never learned from, by its number from 1. Numbers beyond the last begin anew.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn held_out_puzzle(
    app: State<'_, App>,
    name: String,
    number: usize,
) -> Result<PuzzleView> {
    let all = app.host.held_out_puzzles(&name)?;
    let at = number.saturating_sub(1) % all.len();
    Ok(PuzzleView::new(at, &all[at]))
}

/// Counts how many held-out puzzles of a run are solved after each of these numbers of steps. `progress` gets how many were thought
/// about. Nothing when it was stopped.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn count_solved(
    app: State<'_, App>,
    name: String,
    steps: Vec<usize>,
    progress: Channel<usize>,
) -> Result<Option<MarksView>> {
    let mut grids = app.host.held_out_puzzles(&name)?;
    grids.truncate(COUNTED);
    with_solver(&app, |solver, stop| {
        let mut show = |count| {
            let _ = progress.send(count);
        };
        let marks = solver.count_solved(&grids, &steps, &mut show, stop)?;
        let of = grids.len();
        Ok(marks.map(|marks| MarksView { of, marks }))
    })
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
