//! Puzzles as a page shows them.

use models::{
    random::Random,
    tasks::puzzle::{
        solve::Board,
        source::{Grid, PuzzleSet},
        sudoku::Sudoku,
    },
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

/// A puzzle.
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
        (set, shape): (&PuzzleSet, Sudoku),
        held_out: bool,
        from: usize,
        count: usize,
        looks: usize,
    ) -> Self {
        let grids = set.sudoku(held_out, from).take(count.min(MAX_SHOWN));
        let shown: Vec<(usize, Grid)> = (from..).zip(grids).collect();
        let mut random = Random::new(0);
        let looks = shown.first().map_or(Vec::new(), |(at, grid)| {
            let look = |_| {
                let look = shape.look(&mut random);
                let seen = Grid {
                    puzzle: look.of(&grid.puzzle),
                    solution: look.of(&grid.solution),
                };
                PuzzleView::new(*at, &seen)
            };
            (0..looks.min(MAX_SHOWN)).map(look).collect()
        });
        Self {
            board: Board::sudoku(shape),
            train: set.train.len(),
            held_out: set.held_out.len(),
            puzzles: shown
                .iter()
                .map(|(at, grid)| PuzzleView::new(*at, grid))
                .collect(),
            looks,
        }
    }
}

impl PuzzleView {
    /// The puzzle at a place, from 0.
    pub(crate) fn new(at: usize, grid: &Grid) -> Self {
        let row = grid.row();
        Self {
            number: at + 1,
            cells: row.cells,
            solution: row.labels,
        }
    }
}
