//! What the grids of a run are: their cells, what a cell can hold, how they are seen otherwise, and how they are shown.
//!
//! Symbols are numbered as the reference does. 0 is no cell in all of them, and never a label.

use super::{
    arc,
    halting::{NO_LABEL, Row},
    maze,
    source::text,
    sudoku::Sudoku,
};
use crate::{
    random::Random,
    train::exhibit::{Exhibit, Mark, Meaning},
};

/// The most symbols that a cell can have: one is kept for cells without a label.
pub const MAX_SYMBOLS: usize = 255;
/// In stored labels: the cell counts neither in the loss nor in any figure.
pub const UNLABELLED: u8 = u8::MAX;

/// What the grids of a run are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Sudoku: 1 is an empty cell, d + 1 the digit d.
    Sudoku(Sudoku),
    /// Mazes of so many rows and columns: 1 wall, 2 free, 3 start, 4 goal, 5 path.
    Maze(usize),
    /// Tasks of ARC on 30 by 30 cells: 1 the end of a grid, c + 2 the colour c.
    Arc,
    /// Something that is known by its numbers alone.
    Other {
        /// Cells of a grid.
        cells: usize,
        /// Symbols, with that of no cell.
        symbols: usize,
    },
}

/// A way to see grids otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// For each cell, the one that comes there.
    pub from: Vec<usize>,
    /// For each symbol, or digit from 0, the one that stands for it.
    pub symbols: Vec<u8>,
}

impl Shape {
    /// What grids of so many cells and symbols are.
    pub fn of(cells: usize, symbols: usize) -> Self {
        let size = cells.isqrt();
        let is_square = size * size == cells;
        match Sudoku::of_cells(cells) {
            Some(shape) if shape.size + 2 == symbols => Self::Sudoku(shape),
            _ if is_square && symbols == maze::SYMBOLS && maze::SIZES.contains(&size) => {
                Self::Maze(size)
            }
            _ if cells == arc::CELLS && symbols == arc::SYMBOLS => Self::Arc,
            _ => Self::Other { cells, symbols },
        }
    }

    /// Cells of a grid.
    pub fn cells(self) -> usize {
        match self {
            Self::Sudoku(shape) => shape.cells(),
            Self::Maze(size) => size * size,
            Self::Arc => arc::CELLS,
            Self::Other { cells, .. } => cells,
        }
    }

    /// Cells of a row.
    pub fn columns(self) -> usize {
        match self {
            Self::Sudoku(shape) => shape.size,
            Self::Maze(size) => size,
            Self::Arc => arc::SIDE,
            Self::Other { cells, .. } => match cells.isqrt() {
                size if size > 0 && size * size == cells => size,
                _ => cells.max(1),
            },
        }
    }

    /// Symbols that a cell can have, with that of no cell.
    pub fn symbols(self) -> usize {
        match self {
            Self::Sudoku(shape) => shape.size + 2,
            Self::Maze(_) => maze::SYMBOLS,
            Self::Arc => arc::SYMBOLS,
            Self::Other { symbols, .. } => symbols,
        }
    }

    /// What one is called: `9 by 9 Sudoku`.
    pub fn title(self) -> String {
        match self {
            Self::Sudoku(Sudoku { size, .. }) => format!("{size} by {size} Sudoku"),
            Self::Maze(size) => format!("{size} by {size} mazes"),
            Self::Arc => "tasks of ARC".to_owned(),
            Self::Other { cells, symbols } => {
                format!("grids of {cells} cells and {symbols} symbols")
            }
        }
    }

    /// A random one of the ways to see a grid and its solution otherwise. Nothing where none is known.
    pub fn view(self, random: &mut Random) -> Option<View> {
        match self {
            Self::Sudoku(shape) => {
                let View { from, symbols } = shape.look(random);
                let symbols = symbols.iter().map(|digit| digit + 1);
                Some(View {
                    from,
                    symbols: std::iter::once(0).chain(symbols).collect(),
                })
            }
            Self::Maze(size) => Some(Self::turned_maze(size, random.below(TURNS) as u8)),
            Self::Arc | Self::Other { .. } => None,
        }
    }

    /// A grid as it is, and up to `most` ways to see it in all: of a maze there are eight.
    pub fn views(self, most: usize, random: &mut Random) -> Vec<View> {
        match self {
            Self::Maze(size) => (0..TURNS.min(most) as u8)
                .map(|turn| Self::turned_maze(size, turn))
                .collect(),
            _ => {
                let others = (1..most).filter_map(|_| self.view(random));
                std::iter::once(View::plain(self)).chain(others).collect()
            }
        }
    }

    fn turned_maze(size: usize, turn: u8) -> View {
        View {
            from: turned(size, size, turn),
            symbols: (0..maze::SYMBOLS as u8).collect(),
        }
    }

    /// A symbol as it is shown.
    pub fn letter(self, symbol: u32) -> String {
        match self {
            Self::Sudoku(_) => match symbol {
                0 | 1 => ".".to_owned(),
                digit => text(&[u8::try_from(digit - 1).unwrap_or(u8::MAX)]),
            },
            Self::Maze(_) => maze::letter(symbol).to_string(),
            Self::Arc => match symbol {
                0 => " ".to_owned(),
                1 => "·".to_owned(),
                colour => (colour - 2).to_string(),
            },
            Self::Other { .. } => symbol.to_string(),
        }
    }

    /// Whether a cell is given, so that there is nothing to find.
    fn is_given(self, symbol: u32) -> bool {
        match self {
            Self::Sudoku(_) => symbol > 1,
            Self::Maze(_) => symbol != maze::FREE,
            Self::Arc | Self::Other { .. } => false,
        }
    }

    /// A guess as it is shown: what is given stays, and of ARC there is only the grid that is cut out.
    pub fn kept(self, given: &[u32], mut guess: Vec<u32>) -> Vec<u32> {
        if self == Self::Arc {
            return arc::crop(&guess).on_all_cells();
        }
        for (given, guess) in given.iter().zip(&mut guess) {
            if self.is_given(*given) {
                *guess = *given;
            }
        }
        guess
    }

    /// A puzzle as it was filled in, where nothing is known of it but its numbers.
    pub fn exhibit(self, row: &Row, guess: &[u32]) -> Exhibit {
        let (columns, labelled) = (self.columns(), |cell: usize| row.labels[cell] != NO_LABEL);
        let is_given = |cell: usize| self.is_given(row.cells[cell]) || !labelled(cell);
        let mark = |cell: usize| {
            let meaning = match (is_given(cell), guess[cell] == row.labels[cell]) {
                (true, _) => Meaning::Given,
                (false, true) => Meaning::Right,
                (false, false) => Meaning::Wrong,
            };
            Mark {
                row: cell / columns,
                column: cell % columns,
                meaning,
            }
        };
        let marks: Vec<Mark> = (0..guess.len()).map(mark).collect();
        let count = |meaning| marks.iter().filter(|it| it.meaning == meaning).count();
        let (right, wrong) = (count(Meaning::Right), count(Meaning::Wrong));
        let letter = |cell: usize| match is_given(cell) && labelled(cell) {
            true => self.letter(row.cells[cell]),
            false if labelled(cell) => self.letter(guess[cell]),
            false => self.letter(0),
        };
        let cells: Vec<String> = (0..guess.len()).map(letter).collect();
        Exhibit::Grid {
            title: match wrong {
                0 => "solved".to_owned(),
                _ => format!("{right} of {} right", right + wrong),
            },
            rows: cells.chunks(columns).map(<[String]>::to_vec).collect(),
            marks,
        }
    }
}

impl View {
    /// Grids as they are.
    pub fn plain(shape: Shape) -> Self {
        Self {
            from: (0..shape.cells()).collect(),
            symbols: (0..shape.symbols() as u8).collect(),
        }
    }

    /// Symbols or stored labels, seen so.
    pub fn of(&self, grid: &[u8]) -> Vec<u8> {
        let symbol = |from: &usize| {
            let symbol = grid[*from];
            let seen = self.symbols.get(usize::from(symbol));
            seen.copied().unwrap_or(symbol)
        };
        self.from.iter().map(symbol).collect()
    }
}

/// The ways to turn and mirror a square.
pub const TURNS: usize = 8;
/// For each, the one that takes it back.
pub const TURNED_BACK: [u8; TURNS] = [0, 3, 2, 1, 4, 5, 6, 7];

/// For each cell of a turned or mirrored grid of so many rows and columns, the one that comes there. 0 as it is, 1 to 3 turned to
/// the left once to three times, 4 with the columns mirrored, 5 the rows, 6 along the main diagonal, 7 along the other.
pub fn turned(rows: usize, columns: usize, turn: u8) -> Vec<usize> {
    let (out_rows, out_columns) = turned_size(rows, columns, turn);
    let from = |cell: usize| {
        let (i, j) = (cell / out_columns, cell % out_columns);
        let (row, column) = match turn {
            1 => (j, columns - 1 - i),
            2 => (rows - 1 - i, columns - 1 - j),
            3 => (rows - 1 - j, i),
            4 => (i, columns - 1 - j),
            5 => (rows - 1 - i, j),
            6 => (j, i),
            7 => (rows - 1 - j, columns - 1 - i),
            _ => (i, j),
        };
        row * columns + column
    };
    (0..out_rows * out_columns).map(from).collect()
}

/// Rows and columns of a turned grid.
pub fn turned_size(rows: usize, columns: usize, turn: u8) -> (usize, usize) {
    match turn {
        1 | 3 | 6 | 7 => (columns, rows),
        _ => (rows, columns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_numbered_as_in_the_reference_and_have_inverses() {
        // 0 1 2
        // 3 4 5
        let cases: [&[usize]; TURNS] = [
            &[0, 1, 2, 3, 4, 5],
            &[2, 5, 1, 4, 0, 3],
            &[5, 4, 3, 2, 1, 0],
            &[3, 0, 4, 1, 5, 2],
            &[2, 1, 0, 5, 4, 3],
            &[3, 4, 5, 0, 1, 2],
            &[0, 3, 1, 4, 2, 5],
            &[5, 2, 4, 1, 3, 0],
        ];
        for (turn, expected) in (0u8..).zip(cases) {
            let seen = turned(2, 3, turn);
            assert_eq!(seen, expected, "{turn}");
            let (rows, columns) = turned_size(2, 3, turn);
            let back = turned(rows, columns, TURNED_BACK[usize::from(turn)]);
            let again: Vec<usize> = back.iter().map(|cell| seen[*cell]).collect();
            assert_eq!(again, [0, 1, 2, 3, 4, 5], "{turn}");
        }
    }

    #[test]
    fn a_shape_is_known_by_its_cells_and_symbols() {
        for shape in [
            Shape::Sudoku(Sudoku::of_cells(16).unwrap()),
            Shape::Sudoku(Sudoku::of_cells(81).unwrap()),
            Shape::Maze(30),
            Shape::Maze(10),
            Shape::Arc,
            Shape::Other {
                cells: 12,
                symbols: 4,
            },
        ] {
            assert_eq!(Shape::of(shape.cells(), shape.symbols()), shape);
        }
    }

    #[test]
    fn a_view_keeps_what_has_no_label_and_what_is_no_cell() {
        let shape = Shape::Sudoku(Sudoku::of_cells(16).unwrap());
        let mut random = Random::new(1);
        let view = shape.view(&mut random).unwrap();
        assert_eq!(view.of(&[UNLABELLED; 16]), [UNLABELLED; 16]);
        assert_eq!(view.of(&[0; 16]), [0; 16]);
        assert_eq!(view.of(&[1; 16]), [1; 16]);
    }
}
