//! Sets of puzzles: built here, and looked at.

#[cfg(feature = "gui")]
pub(crate) mod view;

use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
    sync::Arc,
};

use models::{
    data::source::{Changed, changed},
    tasks::puzzle::{
        arc_files,
        board::Board,
        make::{self, Made},
        reference,
        source::{Choice, PuzzleSet, TRAIN, places},
        sudoku::Sudoku,
        table::{ANSWERS, QUESTIONS},
    },
};

use super::Host;
use crate::{
    lock::locked,
    wire::error::{AppError, Result},
};

/// The most puzzles that are built at once.
const MAX_BUILT: usize = 1_000_000;

/// So much of a file says whether it has puzzles.
const BEGINNING: u64 = 1 << 14;

/// A set of Sudoku to build.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SudokuOrder {
    /// Digits of a grid.
    pub(crate) size: usize,
    /// Puzzles to learn from.
    pub(crate) train: usize,
    /// Puzzles to measure with.
    pub(crate) held_out: usize,
    /// The least cells that are given. Without it, what leaves enough puzzles.
    pub(crate) givens: Option<usize>,
    /// The least rating.
    pub(crate) min_rating: usize,
    /// Steps to harder ones.
    pub(crate) hard: usize,
    /// Where all randomness starts.
    pub(crate) seed: u64,
}

/// Puzzles that were read, kept while a page shows them.
pub(crate) struct ReadPuzzles {
    files: Vec<PathBuf>,
    changed: Vec<Changed>,
    set: Arc<PuzzleSet>,
}

impl Host {
    /// The puzzles of files and folders. Nothing where they hold something else.
    pub(crate) fn look_at_puzzles(
        &self,
        files: &[PathBuf],
    ) -> Result<Option<(Arc<PuzzleSet>, Board)>> {
        if files.is_empty() || !files.iter().all(|path| has_puzzles(path)) {
            return Ok(None);
        }
        let changed = changed(places(files).values());
        let mut read = locked(&self.read_puzzles);
        let is_it = |known: &&ReadPuzzles| known.files == files && known.changed == changed;
        let set = match read.as_ref().filter(is_it) {
            Some(known) => known.set.clone(),
            None => Arc::new(PuzzleSet::read(files, &Choice::ALL)?),
        };
        *read = Some(ReadPuzzles {
            files: files.to_vec(),
            changed,
            set: set.clone(),
        });
        Ok(Board::of(set.shape).map(|board| (set, board)))
    }

    /// Makes a set of Sudoku in a folder. `watch` hears how many there are, and can end it, which leaves nothing behind.
    pub(crate) fn build_sudoku(
        &self,
        order: SudokuOrder,
        folder: &Path,
        watch: make::Watch,
    ) -> Result<Option<Vec<Made>>> {
        let shape = Sudoku::of_cells(order.size.saturating_mul(order.size));
        let shape = shape.filter(|it| it.size <= 9).ok_or_else(|| {
            let size = order.size;
            AppError::invalid(format!(
                "there is no Sudoku of {size} digits to build: 4, 6, 8 and 9 are there"
            ))
        })?;
        let wanted = make::Order {
            shape,
            count: order.train.saturating_add(order.held_out),
            givens: match (order.givens, order.size) {
                (Some(givens), _) => givens..=givens,
                (None, 4) => 0..=9,
                (None, _) => 0..=0,
            },
            min_rating: order.min_rating,
            seed: order.seed,
        };
        if order.train == 0 || wanted.count > MAX_BUILT {
            return Err(AppError::invalid(format!(
                "{} puzzles to learn from can’t be built: at least 1, and {MAX_BUILT} in all",
                order.train
            )));
        }
        let Some(made) = make::make_harder(&wanted, order.hard, watch)? else {
            return Ok(None);
        };
        make::write(&made, order.held_out, folder)?;
        Ok(Some(made))
    }
}

/// Whether a path has a table of puzzles, tasks of ARC, or the arrays of the reference.
fn has_puzzles(path: &Path) -> bool {
    let is_json = |path: &Path| path.extension().is_some_and(|it| it == "json");
    match path.is_dir() {
        true if reference::is_one(path) => true,
        true if path.join(TRAIN).is_file() => is_table(&path.join(TRAIN)),
        true => {
            let files = arc_files::files(path).unwrap_or_default();
            files.first().is_some_and(|it| has_tasks(it))
        }
        false if is_json(path) => has_tasks(path),
        false => is_table(path),
    }
}

/// Whether a file begins as tasks of ARC: with objects that have pairs.
fn has_tasks(path: &Path) -> bool {
    let begins = |text: String| {
        let text = text.trim_start();
        text.starts_with('{')
            && ["train", "input"]
                .iter()
                .all(|it| text.contains(&format!("\"{it}\"")))
    };
    beginning(path).is_some_and(begins)
}

/// Whether a file begins as a table of puzzles: with a question and an answer of as many cells as a square has, and no words in them.
fn is_table(path: &Path) -> bool {
    let Some(text) = beginning(path) else {
        return false;
    };
    let mut lines = text.lines();
    let (Some(head), Some(first)) = (lines.next(), lines.next()) else {
        return false;
    };
    let head: Vec<&str> = head.split(',').map(str::trim).collect();
    // Spaces are cells of a maze.
    let first: Vec<&str> = first.split(',').collect();
    let cells = |names: &[&str]| {
        let at = head.iter().position(|it| names.contains(it))?;
        // What begins with a space is in quotes.
        let cell = first.get(at)?.trim_matches(['\r', '"']);
        let (whole, bare) = (cell.chars().count(), cell.trim().chars().count());
        let is_square = |count: &usize| *count >= 16 && count.isqrt().pow(2) == *count;
        [whole, bare].into_iter().find(is_square)
    };
    let pair = (cells(&QUESTIONS), cells(&ANSWERS));
    matches!(pair, (Some(question), Some(answer)) if question == answer)
}

/// The beginning of a file of text.
fn beginning(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path)
        .ok()?
        .take(BEGINNING)
        .read_to_end(&mut bytes)
        .ok()?;
    let text = match std::str::from_utf8(&bytes) {
        Ok(text) => text,
        // A letter may be cut at the end.
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    Some(text.to_owned())
}
