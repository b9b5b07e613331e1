//! What the grids of a model are, as a checkpoint says it and as a page and a terminal draw it.
//!
//! A grid is a text too: a symbol for each cell, row by row, with a dot where a symbol has no letter.
//!
//! Deliberately absent: what is right, and what is read from a person.

use serde::{Deserialize, Serialize};

use super::{arc, grid::Shape, maze, source::text, sudoku::Sudoku};
use crate::train::exhibit::Drawn;

/// The kind of a grid, which decides its rules and how it is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "specta", derive(specta::Type))]
#[serde(rename_all = "snake_case")]
pub enum BoardKind {
    /// Each digit once in every row, column and box.
    Sudoku,
    /// Walls, a start, a goal, and the shortest path between them.
    Maze,
    /// A grid of colours that follows from another, as some pairs show.
    Arc,
}

/// What the grids of a model are: rows by columns of symbols.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "specta", derive(specta::Type))]
pub struct Board {
    /// Their kind.
    pub kind: BoardKind,
    /// Rows of cells.
    pub rows: usize,
    /// Cells of a row.
    pub columns: usize,
    /// Rows of a box. 0 where there are no boxes.
    pub box_rows: usize,
    /// Cells in a row of a box.
    pub box_columns: usize,
    /// What each symbol is in a text, by its number. An empty cell is the one of `blank`.
    pub symbols: Vec<String>,
    /// The symbol of a cell that is to be found.
    pub blank: u32,
}

impl Board {
    /// That of a shape. Nothing where no rules are known.
    pub fn of(shape: Shape) -> Option<Self> {
        let square = |kind, size: usize, symbols: Vec<String>, blank| Self {
            kind,
            rows: size,
            columns: size,
            box_rows: 0,
            box_columns: 0,
            symbols,
            blank,
        };
        match shape {
            Shape::Sudoku(shape) => Some(Self::sudoku(shape)),
            Shape::Maze(size) => {
                let letters = maze::LETTERS.iter().map(char::to_string);
                let symbols = std::iter::once(String::new()).chain(letters).collect();
                Some(square(BoardKind::Maze, size, symbols, maze::FREE))
            }
            Shape::Arc => {
                let colours = (0..arc::COLOURS).map(|it| it.to_string());
                let none = [String::new(), String::new()];
                let symbols = none.into_iter().chain(colours).collect();
                Some(square(BoardKind::Arc, arc::SIDE, symbols, 0))
            }
            Shape::Other { .. } => None,
        }
    }

    fn sudoku(shape: Sudoku) -> Self {
        let digit = |digit: usize| text(&[digit as u8]);
        let symbols = [String::new()]
            .into_iter()
            .chain((0..=shape.size).map(digit));
        Self {
            kind: BoardKind::Sudoku,
            rows: shape.size,
            columns: shape.size,
            box_rows: shape.box_rows,
            box_columns: shape.box_columns,
            symbols: symbols.collect(),
            blank: 1,
        }
    }

    /// Cells of a grid.
    pub fn cells(&self) -> usize {
        self.rows * self.columns
    }

    /// How its grids are drawn.
    pub fn drawn(&self) -> Drawn {
        match self.kind {
            BoardKind::Sudoku => Drawn::Symbols,
            BoardKind::Maze => Drawn::Maze,
            BoardKind::Arc => Drawn::Colours,
        }
    }

    /// A grid as a text, row by row.
    pub fn text(&self, cells: &[u32]) -> String {
        let symbol = |cell: &u32| self.symbols.get(*cell as usize).map_or(".", String::as_str);
        let symbol = |cell| match symbol(cell) {
            "" => ".",
            symbol => symbol,
        };
        cells.iter().map(symbol).collect()
    }
}
