//! Puzzles in files: tables with a question and an answer in each row, as the published sets of Sudoku have them.
//!
//! A grid is a text of its cells, row by row: digits, then letters from A for more of them, and `.` or `0` where nothing is known.
//! A folder has its puzzles in `train.csv`, and those to measure with in `test.csv`. Every puzzle is checked as it is read.
//!
//! Symbols are numbered as the reference does: 0 is no cell, 1 an empty one, and d + 1 the digit d.

use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{halting::Row, sudoku::Sudoku};
use crate::{Error, Result, figures::counted, random::stable_hash};

/// The most puzzles of a file.
pub const MAX_PUZZLES: usize = 10_000_000;
/// The most bytes of one row of a table.
const MAX_ROW_BYTES: usize = 64 << 10;
/// The file of a folder with the puzzles to learn from.
pub const TRAIN: &str = "train.csv";
/// The file of a folder with the puzzles to measure with.
pub const TEST: &str = "test.csv";
/// Names of the columns with the question and with the answer.
const QUESTIONS: [&str; 3] = ["question", "puzzle", "quizzes"];
const ANSWERS: [&str; 2] = ["answer", "solution"];

/// Puzzles of one shape.
#[derive(Debug, Clone, PartialEq)]
pub struct PuzzleSet {
    /// Their shape.
    pub shape: Sudoku,
    /// Those to learn from.
    pub train: Vec<Grid>,
    /// Those to measure with.
    pub held_out: Vec<Grid>,
}

/// A puzzle and its solution: digits, 0 where nothing is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grid {
    /// What is given.
    pub puzzle: Vec<u8>,
    /// All of it.
    pub solution: Vec<u8>,
}

impl Grid {
    /// Its symbols.
    pub fn row(&self) -> Row {
        let symbols = |grid: &[u8]| grid.iter().map(|digit| u32::from(*digit) + 1).collect();
        Row {
            cells: symbols(&self.puzzle),
            labels: symbols(&self.solution),
            puzzle: 0,
        }
    }
}

impl PuzzleSet {
    /// Reads the puzzles of files and folders. Where no folder has puzzles to measure with, a share of all is kept aside.
    pub fn read(paths: &[PathBuf], held_out_share: f64, seed: u64) -> Result<Self> {
        let (mut shape, mut train, mut held_out) = (None, Vec::new(), Vec::new());
        for path in paths {
            if !path.is_dir() {
                read_table(path, &mut shape, &mut train)?;
                continue;
            }
            let (learned, measured) = (path.join(TRAIN), path.join(TEST));
            if !learned.is_file() {
                let problem = format!("the folder has no {TRAIN}");
                return Err(Error::format(path, problem));
            }
            read_table(&learned, &mut shape, &mut train)?;
            if measured.is_file() {
                read_table(&measured, &mut shape, &mut held_out)?;
            }
        }
        let Some(shape) = shape.filter(|_| !train.is_empty()) else {
            return Err(Error::Data("there is no puzzle in the data".to_owned()));
        };
        if held_out.is_empty() && held_out_share > 0.0 {
            let bound = (held_out_share * u64::MAX as f64) as u64;
            let is_kept = |grid: &Grid| stable_hash(seed, &grid.puzzle) < bound;
            (held_out, train) = train.into_iter().partition(is_kept);
        }
        Ok(Self {
            shape,
            train,
            held_out,
        })
    }
}

/// The rows of puzzles, as they are.
pub fn rows(grids: &[Grid]) -> Vec<Arc<Row>> {
    grids.iter().map(|grid| Arc::new(grid.row())).collect()
}

fn read_table(path: &Path, shape: &mut Option<Sudoku>, grids: &mut Vec<Grid>) -> Result<()> {
    let file = File::open(path).map_err(Error::file("read the puzzles", path))?;
    let mut table = csv::ReaderBuilder::new().flexible(true).from_reader(file);
    let wrong = |problem: String| Error::format(path, problem);
    let unread = |error: csv::Error| wrong(format!("can’t be read as a table: {error}"));
    let header = table.headers().map_err(unread)?.clone();
    let column = |names: &[&str], what: &str| {
        let found = header.iter().position(|it| names.contains(&it.trim()));
        found.ok_or_else(|| {
            wrong(format!(
                "has no column with the {what}: {}",
                names.join(", ")
            ))
        })
    };
    let (question, answer) = (
        column(&QUESTIONS, "puzzles")?,
        column(&ANSWERS, "solutions")?,
    );
    for record in table.records() {
        let record = record.map_err(unread)?;
        let line = record.position().map_or(0, csv::Position::line);
        let at_line = |problem: String| wrong(format!("line {line}: {problem}"));
        if record.as_slice().len() > MAX_ROW_BYTES {
            return Err(at_line(format!("is longer than {MAX_ROW_BYTES} bytes")));
        }
        if grids.len() >= MAX_PUZZLES {
            return Err(at_line(format!(
                "there are more than {MAX_PUZZLES} puzzles"
            )));
        }
        let cell = |at: usize| record.get(at).unwrap_or_default().trim();
        let grid = grid(cell(question), cell(answer), shape).map_err(at_line)?;
        grids.push(grid);
    }
    Ok(())
}

/// A puzzle from its texts. The first one decides the shape of all.
fn grid(question: &str, answer: &str, shape: &mut Option<Sudoku>) -> Result<Grid, String> {
    let cells = question.chars().count();
    let known = shape.or_else(|| Sudoku::of_cells(cells)).ok_or_else(|| {
        let cells = counted(cells as u64, "cell");
        format!("the puzzle has {cells}, and no Sudoku has so many: 16, 36 and 81 are usual")
    })?;
    let puzzle = digits(question, known)?;
    let solution = digits(answer, known)?;
    let place = |cell: usize| {
        format!(
            "row {}, column {}",
            cell / known.size + 1,
            cell % known.size + 1
        )
    };
    if let Some(cell) = solution.iter().position(|digit| *digit == 0) {
        return Err(format!("the solution has nothing in {}", place(cell)));
    }
    if let Some((one, other)) = known.clash(&solution) {
        let digit = solution[one];
        return Err(format!(
            "the solution has {digit} twice: in {} and in {}",
            place(one),
            place(other)
        ));
    }
    let differs = (0..cells).find(|cell| puzzle[*cell] > 0 && puzzle[*cell] != solution[*cell]);
    if let Some(cell) = differs {
        let (given, found) = (puzzle[cell], solution[cell]);
        return Err(format!(
            "{} is {given} in the puzzle and {found} in its solution",
            place(cell)
        ));
    }
    *shape = Some(known);
    Ok(Grid { puzzle, solution })
}

/// The digits of a grid's text. Errors name the cell.
pub fn digits(text: &str, shape: Sudoku) -> Result<Vec<u8>, String> {
    let cells = text.chars().count();
    if cells != shape.cells() {
        let size = shape.size;
        return Err(format!(
            "a grid of {size} by {size} has {} cells, and here are {cells}",
            shape.cells()
        ));
    }
    let digit = |(cell, letter): (usize, char)| {
        let digit = match letter {
            '.' | '_' => Some(0),
            _ => letter.to_digit(36).map(|it| it as u8),
        };
        digit.filter(|it| usize::from(*it) <= shape.size).ok_or_else(|| {
            let (row, column) = (cell / shape.size + 1, cell % shape.size + 1);
            format!("row {row}, column {column} is “{letter}”, and has to be a digit up to {}, or a dot", shape.size)
        })
    };
    text.chars().enumerate().map(digit).collect()
}

/// The text of a grid.
pub fn text(grid: &[u8]) -> String {
    let letter = |digit: &u8| match digit {
        0 => '.',
        digit => char::from_digit(u32::from(*digit), 36)
            .unwrap_or('?')
            .to_ascii_uppercase(),
    };
    grid.iter().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn what_is_wrong_with_a_puzzle_is_said_by_row_and_column() {
        let cases = [
            (
                "1.3.",
                "1234",
                "the puzzle has 4 cells, and no Sudoku has so many: 16, 36 and 81 are usual",
            ),
            ("1...............", "1234341221434321", ""),
            (
                "1..............5",
                "1234341221434321",
                "row 4, column 4 is “5”, and has to be a digit up to 4, or a dot",
            ),
            (
                "2...............",
                "1234341221434321",
                "row 1, column 1 is 2 in the puzzle and 1 in its solution",
            ),
            (
                "1...............",
                "12343412214343",
                "a grid of 4 by 4 has 16 cells, and here are 14",
            ),
            (
                "1...............",
                "1234341221434320",
                "the solution has nothing in row 4, column 4",
            ),
            (
                "1...............",
                "1134341221434321",
                "the solution has 1 twice: in row 1, column 1 and in row 1, column 2",
            ),
        ];
        for (question, answer, expected) in cases {
            let found = grid(question, answer, &mut None);
            assert_eq!(found.err().unwrap_or_default(), expected, "{question}");
        }
    }

    #[test]
    fn a_grid_and_its_text_are_the_same() {
        let mut random = Random::new(1);
        for cells in [16, 81, 256] {
            let shape = Sudoku::of_cells(cells).unwrap();
            let full = shape.full(&mut random);
            assert_eq!(digits(&text(&full), shape), Ok(full));
        }
    }
}
