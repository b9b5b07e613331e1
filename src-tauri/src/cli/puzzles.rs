//! `anneal data build`: puzzles of our own, and puzzles of others in another layout; and `anneal data inspect`, where the data is
//! puzzles.

use std::{path::PathBuf, sync::atomic::Ordering};

use console::style;
use models::{
    Error, figures,
    figures::counted,
    tasks::puzzle::{
        arc_files,
        board::{Board, BoardKind},
        halting::Row,
        make, maze, reference,
        source::{Choice, PuzzleSet},
    },
};
use serde_json::json;

use super::{
    Ended,
    grids::{beside, drawn},
    terminal::{Terminal, count_interrupts},
};
use crate::{
    host::{Host, puzzles::SudokuOrder},
    wire::error::{AppError, Result},
};

/// The most puzzles that are built at once.
const MAX_BUILT: usize = 1_000_000;
/// Lines of a histogram, and the letters of its longest bar.
const LINES: usize = 10;
/// See [`LINES`].
const BAR_WIDTH: usize = 40;

/// Something to build.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Build {
    /// Sudoku with one solution each, made here from a seed. No held-out puzzle is one to learn from seen otherwise.
    Sudoku(BuildSudoku),
    /// Mazes with one shortest path each, made here from a seed. No held-out maze is one to learn from turned or mirrored.
    Maze(BuildMaze),
    /// Tasks of ARC from their files, all in one folder: those to learn from, and those to measure with.
    Arc(BuildArc),
    /// Puzzles of any layout as arrays of NumPy, as the published program of TRM reads them.
    Reference(BuildReference),
}

#[derive(Debug, clap::Args)]
pub(super) struct BuildSudoku {
    /// The folder to write train.csv and test.csv into.
    folder: PathBuf,
    /// Digits of a grid: 4, 6, 8 or 9.
    #[arg(long, default_value_t = 4)]
    size: usize,
    /// How many puzzles to learn from. Of 4 digits there are a few hundred.
    #[arg(long, default_value_t = 300)]
    train: usize,
    /// How many to measure with.
    #[arg(long, default_value_t = 60)]
    held_out: usize,
    /// Give at least so many cells. Without it, as few as one solution needs, and up to 9 of 4 digits, so that there are enough.
    #[arg(long)]
    givens: Option<usize>,
    /// The least rating: how often a search takes a wrong way.
    #[arg(long, default_value_t = 0)]
    min_rating: usize,
    /// Make each harder in so many steps. 400 take about ten seconds for each puzzle of 9 digits.
    #[arg(
        long,
        value_name = "STEPS",
        num_args = 0..=1,
        default_value_t = 0,
        default_missing_value = "400",
        hide_default_value = true
    )]
    hard: usize,
    /// Where all randomness starts.
    #[arg(long, default_value_t = 42)]
    seed: u64,
}

#[derive(Debug, clap::Args)]
pub(super) struct BuildMaze {
    /// The folder to write train.csv and test.csv into.
    folder: PathBuf,
    /// Rows and columns.
    #[arg(long, default_value_t = 30)]
    size: usize,
    /// How many mazes to learn from.
    #[arg(long, default_value_t = 1000)]
    train: usize,
    /// How many to measure with.
    #[arg(long, default_value_t = 1000)]
    held_out: usize,
    /// The way has more steps than this. Without it, an eighth of the cells: 112 of 30 by 30.
    #[arg(long)]
    min_length: Option<usize>,
    /// Where all randomness starts.
    #[arg(long, default_value_t = 42)]
    seed: u64,
}

#[derive(Debug, clap::Args)]
pub(super) struct BuildArc {
    /// The folder to write train.json and test.json into.
    folder: PathBuf,
    /// Files of challenges with the solutions beside them, or folders with a file for each task. What has “evaluation” in its
    /// name is measured with.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(super) struct BuildReference {
    /// The folder to write.
    folder: PathBuf,
    /// Tables, tasks of ARC, or folders of them.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// So many random rows of each table to learn from. Without it, all.
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    subsample_size: usize,
    /// Only rows of tables that are rated so or higher.
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    min_difficulty: usize,
    /// So many other looks of each puzzle to learn from; of a task of ARC, so many vectors.
    #[arg(long, default_value_t = 0)]
    num_aug: usize,
    /// The share to measure with, where no file says which.
    #[arg(long, default_value_t = 0.1)]
    held_out: f64,
    /// Where all randomness starts.
    #[arg(long, default_value_t = 42)]
    seed: u64,
}

pub(super) fn build(build: Build, host: &Host, terminal: &Terminal) -> Result<Ended> {
    match build {
        Build::Sudoku(asked) => sudoku(&asked, host, terminal),
        Build::Maze(asked) => mazes(&asked, terminal),
        Build::Arc(asked) => arc(&asked, terminal),
        Build::Reference(asked) => as_arrays(&asked, terminal),
    }
}

fn sudoku(asked: &BuildSudoku, host: &Host, terminal: &Terminal) -> Result<Ended> {
    let order = SudokuOrder {
        size: asked.size,
        train: asked.train,
        held_out: asked.held_out,
        givens: asked.givens,
        min_rating: asked.min_rating,
        hard: asked.hard,
        seed: asked.seed,
    };
    let all = asked.train.saturating_add(asked.held_out);
    let watched = |watch: make::Watch| host.build_sudoku(order, &asked.folder, watch);
    let Some(made) = watch(all, terminal, watched)? else {
        return Ok(Ended::Stopped);
    };
    let ratings: Vec<usize> = made.iter().map(|it| it.rating).collect();
    told(
        terminal,
        &asked.folder,
        (asked.train, asked.held_out),
        || {
            let easy = made.iter().filter(|it| it.rating == 0).count() as f64 / made.len() as f64;
            let given = |it: &make::Made| it.grid.puzzle.iter().filter(|it| **it > 0).count();
            let given = made.iter().map(given).sum::<usize>() as f64 / made.len() as f64;
            let easy = easy * 100.0;
            terminal.line(format_args!(
                "{given:.1} cells are given on average; {easy:.0} % need no search"
            ));
            histogram(
                terminal,
                "rating, in ways of a search that lead nowhere",
                &ratings,
            );
        },
    )
}

fn mazes(asked: &BuildMaze, terminal: &Terminal) -> Result<Ended> {
    let (size, sizes) = (asked.size, maze::SIZES);
    if !sizes.contains(&size) {
        let (least, most) = (sizes.start(), sizes.end());
        return Err(AppError::failed(format!(
            "there are no mazes of {size} by {size} to build: {least} to {most} are allowed"
        )));
    }
    let min_length = asked.min_length.unwrap_or(maze::usual_length(size));
    let all = count(asked.train, asked.held_out)?;
    let watched =
        |watch: make::Watch| Ok(make::make_mazes(size, min_length, all, asked.seed, watch)?);
    let Some(made) = watch(all, terminal, watched)? else {
        return Ok(Ended::Stopped);
    };
    make::write_mazes(&made, asked.held_out, &asked.folder)?;
    told(
        terminal,
        &asked.folder,
        (asked.train, asked.held_out),
        || {
            let walls = |it: &maze::Maze| {
                it.cells
                    .iter()
                    .filter(|it| u32::from(**it) == maze::WALL)
                    .count()
            };
            let shares: Vec<usize> = made
                .iter()
                .map(|it| walls(it) * 100 / it.cells.len())
                .collect();
            let lengths: Vec<usize> = made.iter().map(|it| it.length).collect();
            histogram(terminal, "steps of the way", &lengths);
            histogram(terminal, "walls, in % of the cells", &shares);
        },
    )
}

fn arc(asked: &BuildArc, terminal: &Terminal) -> Result<Ended> {
    let mut tasks = Vec::new();
    for path in &asked.files {
        for file in arc_files::files(path)? {
            tasks.extend(arc_files::read(&file)?);
        }
    }
    let parts = [(arc_files::TRAIN, false), (arc_files::TEST, true)];
    std::fs::create_dir_all(&asked.folder)
        .map_err(Error::file("make the folder", &asked.folder))?;
    let mut counts = [0, 0];
    for ((name, is_measured), count) in parts.into_iter().zip(&mut counts) {
        let some = tasks.iter().filter(|it| it.is_measured == is_measured);
        *count = some.clone().count();
        let path = asked.folder.join(name);
        std::fs::write(&path, arc_files::written(some).to_string())
            .map_err(Error::file("write the tasks", &path))?;
    }
    told(terminal, &asked.folder, counts.into(), || {
        let shown: usize = tasks.iter().map(|it| it.train.len()).sum();
        let asked: usize = tasks.iter().map(|it| it.test.len()).sum();
        terminal.line(format_args!(
            "{shown} pairs show the rules, {asked} ask for them"
        ));
    })
}

fn as_arrays(asked: &BuildReference, terminal: &Terminal) -> Result<Ended> {
    let choice = Choice {
        held_out: asked.held_out,
        subsample_size: asked.subsample_size,
        min_difficulty: asked.min_difficulty,
        augmentations: asked.num_aug,
        seed: asked.seed,
    };
    let set = PuzzleSet::read(&asked.files, &choice)?;
    reference::write(&set, asked.num_aug, asked.seed, &asked.folder)?;
    told(
        terminal,
        &asked.folder,
        (set.train.groups(), set.held_out.groups()),
        || {
            let ids = counted(set.ids as u64, "vector");
            terminal.line(format_args!(
                "{}, with {ids} of the table",
                set.shape.title()
            ));
        },
    )
}

/// How many puzzles to make in all.
fn count(train: usize, held_out: usize) -> Result<usize> {
    let all = train.saturating_add(held_out);
    match train > 0 && all <= MAX_BUILT {
        true => Ok(all),
        false => Err(AppError::failed(format!(
            "{train} puzzles to learn from can’t be built: at least 1, and {MAX_BUILT} in all"
        ))),
    }
}

/// Makes something with a bar, until Ctrl-C. Then there is nothing.
fn watch<T>(
    all: usize,
    terminal: &Terminal,
    make: impl FnOnce(make::Watch) -> Result<Option<T>>,
) -> Result<Option<T>> {
    let interrupts = count_interrupts()?;
    let bar = terminal.bar("{pos}/{len}  {eta} left  ", 50);
    bar.set_length(all as u64);
    terminal.show(&bar);
    let made = make(&|made| {
        bar.set_position(made as u64);
        interrupts.load(Ordering::SeqCst) == 0
    });
    bar.finish_and_clear();
    let made = made?;
    if made.is_none() {
        terminal.note("stopped; nothing was written");
    }
    Ok(made)
}

/// Says what was built, and more of it to a person.
fn told(
    terminal: &Terminal,
    folder: &std::path::Path,
    (train, held_out): (usize, usize),
    more: impl FnOnce(),
) -> Result<Ended> {
    if terminal.json {
        let built = serde_json::json!({"folder": folder, "train": train, "held_out": held_out});
        terminal.json(&built)?;
        return Ok(Ended::Done);
    }
    terminal.line(format_args!(
        "{} to learn from and {held_out} to measure with in {}",
        counted(train as u64, "puzzle"),
        folder.display()
    ));
    more();
    Ok(Ended::Done)
}

fn histogram(terminal: &Terminal, what: &str, values: &[usize]) {
    terminal.line(format_args!("{what}:"));
    let ranges = make::histogram(values, LINES);
    let most = ranges.iter().map(|it| it.1).max().unwrap_or(0).max(1);
    for (first, count) in ranges {
        let bar = "█".repeat((count * BAR_WIDTH).div_ceil(most));
        terminal.line(format_args!("{first:>6}  {count:>6}  {bar}"));
    }
}

/// How many puzzles are shown.
const SHOWN: usize = 2;

/// Shows puzzles as grids, each beside its solution; mazes with their paths.
pub(super) fn inspect(set: &PuzzleSet, board: &Board, terminal: &Terminal) -> Result<Ended> {
    let (train, held_out) = (set.train.len(), set.held_out.len());
    let rows = || set.rows(false, 0).take(SHOWN);
    if terminal.json {
        let example = |row: Row| json!({"puzzle": board.text(&row.cells), "solution": board.text(&row.labels)});
        let examples: Vec<_> = rows().map(example).collect();
        terminal.json(
            &json!({"board": board, "train": train, "held_out": held_out, "examples": examples}),
        )?;
        return Ok(Ended::Done);
    }
    let (size, what) = match board.kind {
        BoardKind::Sudoku => (
            format!("Sudoku of {} by {}", board.rows, board.columns),
            "puzzle",
        ),
        BoardKind::Maze => (
            format!("Mazes of {} by {}", board.rows, board.columns),
            "maze",
        ),
        BoardKind::Arc => ("Tasks of ARC".to_owned(), "pair"),
    };
    terminal.line(format_args!(
        "{size}: {} to learn from, {} to measure with",
        counted(train as u64, what),
        figures::count(held_out as u64)
    ));
    for (number, row) in (1..).zip(rows()) {
        let is_given = |cell: usize| row.cells[cell] != board.blank;
        let given = (0..board.cells()).filter(|it| is_given(*it)).count();
        terminal.line("");
        match board.kind {
            BoardKind::Sudoku => terminal.line(format_args!(
                "puzzle {number}, {given} of {} cells given",
                board.cells()
            )),
            _ => terminal.line(format_args!("{what} {number}")),
        }
        let look = |cell: usize, symbol: String| match is_given(cell) {
            true => style(symbol).bold().to_string(),
            false => style(symbol).dim().to_string(),
        };
        let (before, after) = (
            drawn(board, &row.cells, &look),
            drawn(board, &row.labels, &look),
        );
        let lines = match board.kind {
            BoardKind::Maze => after,
            _ => beside(&before, &after),
        };
        for line in lines {
            terminal.line(format!("  {line}").trim_end());
        }
    }
    Ok(Ended::Done)
}
