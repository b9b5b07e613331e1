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
        grid::Shape,
        make::{self, Made},
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
    /// The Sudoku of files and folders. Nothing where they hold something else.
    pub(crate) fn look_at_puzzles(
        &self,
        files: &[PathBuf],
    ) -> Result<Option<(Arc<PuzzleSet>, Sudoku)>> {
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
        Ok(match set.shape {
            Shape::Sudoku(shape) => Some((set, shape)),
            _ => None,
        })
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

/// Whether a file, or the one of a folder that is learned from, begins as a table of puzzles: with a question and an answer of as
/// many cells as a square has, and no words in them.
fn has_puzzles(path: &Path) -> bool {
    let file = match path.is_dir() {
        true => path.join(TRAIN),
        false => path.to_owned(),
    };
    let mut beginning = String::new();
    let read = File::open(file).and_then(|it| it.take(BEGINNING).read_to_string(&mut beginning));
    let mut lines = beginning.lines();
    let (Ok(_), Some(head), Some(first)) = (read, lines.next(), lines.next()) else {
        return false;
    };
    let head: Vec<&str> = head.split(',').map(str::trim).collect();
    let first: Vec<&str> = first.split(',').map(str::trim).collect();
    let cell = |names: &[&str]| {
        let at = head.iter().position(|it| names.contains(it))?;
        first
            .get(at)
            .filter(|it| it.len() >= 16 && it.len().isqrt().pow(2) == it.len())
    };
    let pair = (cell(&QUESTIONS), cell(&ANSWERS));
    matches!(pair, (Some(question), Some(answer)) if question.len() == answer.len())
}
