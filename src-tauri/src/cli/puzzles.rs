//! `anneal data build`: puzzles of our own.

use std::path::PathBuf;

use models::{
    figures::counted,
    tasks::puzzle::{make, sudoku::Sudoku},
};

use super::{Ended, terminal::Terminal};
use crate::wire::error::{AppError, Result};

/// Something to build.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Build {
    /// Sudoku with one solution each, made here from a seed. No held-out puzzle is one to learn from seen otherwise.
    Sudoku(BuildSudoku),
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
    /// Where all randomness starts.
    #[arg(long, default_value_t = 42)]
    seed: u64,
}

pub(super) fn build(build: Build, terminal: &Terminal) -> Result<Ended> {
    let Build::Sudoku(asked) = build;
    let shape = Sudoku::of_cells(asked.size.saturating_mul(asked.size));
    let shape = shape.filter(|it| it.size <= 9);
    let wrong = || {
        AppError::failed(format!(
            "there is no Sudoku of {} digits to build: 4, 6, 8 and 9 are there",
            asked.size
        ))
    };
    let order = make::Order {
        shape: shape.ok_or_else(wrong)?,
        count: asked.train.saturating_add(asked.held_out),
        givens: match (asked.givens, asked.size) {
            (Some(givens), _) => givens..=givens,
            (None, 4) => 0..=9,
            (None, _) => 0..=0,
        },
        min_rating: asked.min_rating,
        seed: asked.seed,
    };
    if asked.train == 0 || order.count > MAX_BUILT {
        return Err(AppError::failed(format!(
            "{} puzzles to learn from can’t be built: at least 1, and {MAX_BUILT} in all",
            asked.train
        )));
    }
    let made = make::make(&order)?;
    make::write(&made, asked.held_out, &asked.folder)?;
    if terminal.json {
        let built = serde_json::json!({"folder": asked.folder, "train": asked.train, "held_out": asked.held_out});
        terminal.json(&built)?;
        return Ok(Ended::Done);
    }
    terminal.line(format_args!(
        "{} to learn from and {} to measure with in {}",
        counted(asked.train as u64, "puzzle"),
        asked.held_out,
        asked.folder.display()
    ));
    let hardest = made.iter().map(|it| it.rating).max().unwrap_or(0);
    let easy = made.iter().filter(|it| it.rating == 0).count();
    let easy = easy as f64 / made.len() as f64 * 100.0;
    terminal.line(format_args!(
        "rating: {easy:.0} % need no search; the hardest takes {hardest} wrong ways"
    ));
    Ok(Ended::Done)
}

/// The most puzzles that are built at once.
const MAX_BUILT: usize = 1_000_000;
