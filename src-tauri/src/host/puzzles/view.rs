//! Puzzles as a page shows them.

use models::tasks::puzzle::{
    board::Board,
    halting::{NO_LABEL, Row},
    source::PuzzleSet,
};
use serde::Serialize;
use specta::Type;

/// The most puzzles of a page.
const MAX_SHOWN: usize = 100;

/// Some puzzles of a set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PuzzlesView {
    /// What their grids are.
    board: Board,
    /// How many there are to learn from.
    train: usize,
    /// How many there are to measure with.
    held_out: usize,
    /// Those that were asked for.
    puzzles: Vec<PuzzleView>,
    /// Other looks of the first of them.
    looks: Vec<PuzzleView>,
}

/// A puzzle of the data and its solution, to be drawn as grids.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PuzzleView {
    /// Its place among those of its part, from 1.
    number: usize,
    /// The symbol of each cell.
    cells: Vec<u32>,
    /// What it is solved.
    solution: Vec<u32>,
}

impl PuzzlesView {
    /// The puzzles from the `from`th on, with so many other looks of the first.
    pub(crate) fn new(
        (set, board): (&PuzzleSet, Board),
        held_out: bool,
        from: usize,
        count: usize,
        looks: usize,
    ) -> Self {
        let rows = set.rows(held_out, from).take(count.min(MAX_SHOWN));
        let puzzles: Vec<PuzzleView> = (from..)
            .zip(rows)
            .map(|(at, row)| PuzzleView::new(at, row))
            .collect();
        let looks = match puzzles.first() {
            Some(_) => set.looks(held_out, from, looks.min(MAX_SHOWN)),
            None => Vec::new(),
        };
        let look = |row| PuzzleView::new(from, row);
        Self {
            board,
            train: set.train.len(),
            held_out: set.held_out.len(),
            puzzles,
            looks: looks.into_iter().map(look).collect(),
        }
    }
}

impl PuzzleView {
    /// The puzzle at a place, from 0.
    fn new(at: usize, row: Row) -> Self {
        let symbol = |label: u32| match label {
            NO_LABEL => 0,
            label => label,
        };
        Self {
            number: at + 1,
            cells: row.cells,
            solution: row.labels.into_iter().map(symbol).collect(),
        }
    }
}
