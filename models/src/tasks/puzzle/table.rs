//! Tables of puzzles: a question and an answer in each row, as the published sets of Sudoku and mazes have them.
//!
//! A Sudoku is a text of its cells, row by row: digits, then letters from A for more of them, and `.` or `0` where nothing is known. A
//! maze is a text of its cells too (see [`super::maze`]). Every puzzle is checked as it is read. What is not wanted is not kept, so
//! that a thousand puzzles of a table of millions take little memory.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use super::{
    examples::Rows,
    grid::{MAX_SYMBOLS, Shape},
    maze,
    source::digits,
    sudoku::Sudoku,
};
use crate::{
    Error, Result,
    figures::{count, counted},
    limits::{PUZZLE_ROW, PUZZLES},
    random::Random,
};

/// As much of a file as is looked at at once.
const BUFFER: usize = 8 << 10;
/// Names of the column with the question.
pub const QUESTIONS: [&str; 3] = ["question", "puzzle", "quizzes"];
/// Names of the column with the answer.
pub const ANSWERS: [&str; 2] = ["answer", "solution"];
/// Names of the column with how hard it is.
const RATINGS: [&str; 2] = ["rating", "difficulty"];

/// Which rows of a table are wanted.
#[derive(Debug, Clone, Copy, Default)]
pub struct Filter {
    /// So many, drawn at random. 0 is all.
    pub subsample_size: usize,
    /// Only those that are rated so or higher. 0 is all.
    pub min_difficulty: usize,
    /// Where the draw starts.
    pub seed: u64,
}

/// A puzzle and its answer, as symbols.
#[derive(Debug, PartialEq)]
struct Puzzle {
    cells: Vec<u8>,
    labels: Vec<u8>,
}

/// The columns of a table.
struct Columns {
    question: usize,
    answer: usize,
    rating: Option<usize>,
}

/// A file whose rows end: one that does not would be in memory before its length is known.
struct EndingRows {
    file: File,
    /// Bytes since a row was done.
    taken: u64,
}

impl Read for EndingRows {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.taken = self.taken.saturating_add(read as u64);
        // What is in the buffer already can be of the row before.
        match self.taken > PUZZLE_ROW.most + 2 * BUFFER as u64 {
            true => Err(io::Error::other(too_long())),
            false => Ok(read),
        }
    }
}

fn too_long() -> String {
    let most = count(PUZZLE_ROW.most);
    format!("is longer than {most} bytes, and no puzzle is")
}

impl Columns {
    fn of(header: &csv::StringRecord, filter: &Filter) -> Result<Self, String> {
        let find = |names: &[&str]| header.iter().position(|it| names.contains(&it.trim()));
        let column = |names: &[&str], what: &str| {
            let missing = || format!("has no column with {what}: {}", names.join(", "));
            find(names).ok_or_else(missing)
        };
        Ok(Self {
            question: column(&QUESTIONS, "the puzzles")?,
            answer: column(&ANSWERS, "the solutions")?,
            rating: match filter.min_difficulty {
                0 => None,
                _ => Some(column(&RATINGS, "how hard they are")?),
            },
        })
    }

    /// Whether a row is as hard as it should be.
    fn fits(&self, record: &csv::StringRecord, filter: &Filter) -> Result<bool, String> {
        let Some(rating) = self.rating else {
            return Ok(true);
        };
        let rating = record.get(rating).unwrap_or_default().trim();
        let number: f64 = rating
            .parse()
            .map_err(|_| format!("its rating is “{rating}”, and has to be a number"))?;
        Ok(number >= filter.min_difficulty as f64)
    }
}

fn open(path: &Path) -> Result<csv::Reader<EndingRows>> {
    let file = File::open(path).map_err(Error::file("read the puzzles", path))?;
    Ok(csv::ReaderBuilder::new()
        .flexible(true)
        .buffer_capacity(BUFFER)
        .from_reader(EndingRows { file, taken: 0 }))
}

/// The error of a row that can't be read.
fn unread(path: &Path, line: u64, error: &csv::Error) -> Error {
    let problem = match error.kind() {
        csv::ErrorKind::Io(error) => format!("line {line}: {error}"),
        _ => format!("can’t be read as a table: {error}"),
    };
    Error::format(path, problem)
}

/// Reads the puzzles of a table that are wanted. The first one decides the shape of all.
pub fn read(
    path: &Path,
    filter: &Filter,
    shape: &mut Option<Shape>,
    rows: &mut Rows,
) -> Result<()> {
    let mut table = open(path)?;
    let wrong = |problem: String| Error::format(path, problem);
    let header = table.headers().map_err(|error| unread(path, 1, &error))?;
    let columns = Columns::of(header, filter).map_err(wrong)?;
    let most = match filter.subsample_size {
        0 => usize::MAX,
        size => size,
    };
    let mut random = Random::for_purpose(filter.seed, "puzzles of a table");
    let (mut drawn, mut fitting): (Vec<Puzzle>, usize) = (Vec::new(), 0);
    let mut record = csv::StringRecord::new();
    loop {
        table.get_mut().taken = 0;
        let next = table.position().line();
        if !table
            .read_record(&mut record)
            .map_err(|error| unread(path, next, &error))?
        {
            break;
        }
        let line = record.position().map_or(0, csv::Position::line);
        let at_line = |problem: String| wrong(format!("line {line}: {problem}"));
        if PUZZLE_ROW
            .exceeded(record.as_slice().len() as u64)
            .is_some()
        {
            return Err(at_line(too_long()));
        }
        if !columns.fits(&record, filter).map_err(at_line)? {
            continue;
        }
        fitting += 1;
        if let Some(problem) = PUZZLES.exceeded(fitting as u64) {
            return Err(at_line(format!("the number of puzzles {problem}")));
        }
        let cell = |at: usize| record.get(at).unwrap_or_default();
        let puzzle =
            puzzle(cell(columns.question), cell(columns.answer), shape).map_err(at_line)?;
        if rows.width == 0 {
            *rows = Rows::new(puzzle.cells.len());
        }
        match most {
            usize::MAX => rows.push(&puzzle.cells, &puzzle.labels, 0),
            _ if drawn.len() < most => drawn.push(puzzle),
            // Each of those so far is kept as likely as every other.
            _ => {
                if let Some(place) = drawn.get_mut(random.below(fitting)) {
                    *place = puzzle;
                }
            }
        }
    }
    if most < usize::MAX && fitting < most {
        let least = filter.min_difficulty;
        return Err(wrong(format!(
            "has {fitting} puzzles rated {least} or higher, and {most} are asked for"
        )));
    }
    for puzzle in drawn {
        rows.push(&puzzle.cells, &puzzle.labels, 0);
    }
    Ok(())
}

/// A puzzle from its texts. The first one decides the shape of all.
fn puzzle(question: &str, answer: &str, shape: &mut Option<Shape>) -> Result<Puzzle, String> {
    // Line ends are not cells, and spaces are those of mazes.
    let (question, answer) = (
        question.trim_matches(['\r', '\n']),
        answer.trim_matches(['\r', '\n']),
    );
    let is_maze = |text: &str| text.contains(['#', 'S']);
    let found = match shape {
        Some(Shape::Maze(size)) => Shape::Maze(*size),
        Some(Shape::Sudoku(known)) => Shape::Sudoku(*known),
        Some(other) => {
            return Err(format!(
                "a table has Sudoku or mazes, and what was read before has {}",
                other.title()
            ));
        }
        None if is_maze(question) => Shape::Maze(maze_size(question)?),
        None => {
            let cells = question.trim().chars().count();
            let known = Sudoku::of_cells(cells).filter(|it| it.size + 2 <= MAX_SYMBOLS);
            Shape::Sudoku(known.ok_or_else(|| {
                let cells = counted(cells as u64, "cell");
                format!(
                    "the puzzle has {cells}, and no Sudoku has so many: 16, 36 and 81 are usual"
                )
            })?)
        }
    };
    let puzzle = match found {
        Shape::Maze(size) => maze(question, answer, size)?,
        Shape::Sudoku(known) => sudoku(question.trim(), answer.trim(), known)?,
        Shape::Arc | Shape::Other { .. } => return Err("is no puzzle of a table".to_owned()),
    };
    *shape = Some(found);
    Ok(puzzle)
}

fn maze_size(question: &str) -> Result<usize, String> {
    let cells = question.chars().count();
    let size = cells.isqrt();
    match size * size == cells && maze::SIZES.contains(&size) {
        true => Ok(size),
        false => {
            let (least, most) = (maze::SIZES.start(), maze::SIZES.end());
            let cells = counted(cells as u64, "cell");
            Err(format!(
                "the maze has {cells}, and has to have {least} by {least} to {most} by {most}: 900 are usual"
            ))
        }
    }
}

fn maze(question: &str, answer: &str, size: usize) -> Result<Puzzle, String> {
    for (what, text) in [("maze", question), ("answer", answer)] {
        let cells = text.chars().count();
        if cells != size * size {
            let all = size * size;
            return Err(format!(
                "the {what} has {}, and {size} by {size} are {all}",
                counted(cells as u64, "cell")
            ));
        }
    }
    let (cells, labels) = (maze::symbols(question, size)?, maze::symbols(answer, size)?);
    maze::check(&cells, &labels)?;
    Ok(Puzzle { cells, labels })
}

fn sudoku(question: &str, answer: &str, known: Sudoku) -> Result<Puzzle, String> {
    let (puzzle, solution) = (digits(question, known)?, digits(answer, known)?);
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
    let differs =
        (0..known.cells()).find(|cell| puzzle[*cell] > 0 && puzzle[*cell] != solution[*cell]);
    if let Some(cell) = differs {
        let (given, found) = (puzzle[cell], solution[cell]);
        return Err(format!(
            "{} is {given} in the puzzle and {found} in its solution",
            place(cell)
        ));
    }
    let symbols = |grid: Vec<u8>| grid.iter().map(|digit| digit + 1).collect();
    Ok(Puzzle {
        cells: symbols(puzzle),
        labels: symbols(solution),
    })
}

#[cfg(test)]
mod tests {
    use std::{fs, iter::repeat_n};

    use super::*;

    #[test]
    fn a_row_without_an_end_is_refused_by_its_line_before_it_is_in_memory() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        let row = "1...............,1234341221434321\n";
        let long: String = repeat_n("1\n", 1 << 19).collect();
        let cases = [
            (format!("question,answer\n{row}\"{long}"), "line 3: "),
            (format!("question,answer,\"{long}"), "line 1: "),
            (
                format!("question,answer\n{row}{}", "1".repeat(70_000)),
                "line 3: ",
            ),
        ];
        for (text, line) in cases {
            fs::write(&path, text).unwrap();
            let mut rows = Rows::new(0);
            let refused = read(&path, &Filter::default(), &mut None, &mut rows).unwrap_err();
            let refused = refused.to_string();
            assert!(
                refused.contains(line) && refused.contains("65,536"),
                "{refused}"
            );
        }
        // Many rows are together longer than one may be.
        fs::write(&path, format!("question,answer\n{}", row.repeat(9_000))).unwrap();
        let mut rows = Rows::new(0);
        read(&path, &Filter::default(), &mut None, &mut rows).unwrap();
        assert_eq!(rows.len(), 9_000);
    }

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
            let found = puzzle(question, answer, &mut None);
            assert_eq!(found.err().unwrap_or_default(), expected, "{question}");
        }
    }

    const MAZE: &str = "S #  # ## #    ###  G    ";

    #[test]
    fn what_is_wrong_with_a_maze_is_said_by_row_and_column() {
        let answer = "So#  #o## #ooo ###o Gooo ";
        let cases = [
            (MAZE, answer, ""),
            (
                &MAZE[..24],
                answer,
                "the maze has 24 cells, and has to have 5 by 5 to 64 by 64: 900 are usual",
            ),
            (
                MAZE,
                &answer[..24],
                "the answer has 24 cells, and 5 by 5 are 25",
            ),
            (
                MAZE,
                MAZE,
                "the marked cells of the answer are no path from S to G without other marks",
            ),
        ];
        for (question, answer, expected) in cases {
            let found = puzzle(question, answer, &mut None);
            assert_eq!(found.err().unwrap_or_default(), expected, "{question}");
        }
    }

    fn table(rows: usize) -> String {
        let row = |index: usize| {
            format!(
                "x,{}...............,1234341221434321,{index}\n",
                if index < 20 { '1' } else { '.' }
            )
        };
        let rows: String = (0..rows).map(row).collect();
        format!("source,question,answer,rating\n{rows}")
    }

    fn read_some(text: &str, filter: Filter) -> Result<Rows> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        fs::write(&path, text).unwrap();
        let mut rows = Rows::default();
        read(&path, &filter, &mut None, &mut rows)?;
        Ok(rows)
    }

    #[test]
    fn rows_are_drawn_by_a_seed_and_by_how_hard_they_are() {
        let filter = |subsample_size, min_difficulty, seed| Filter {
            subsample_size,
            min_difficulty,
            seed,
        };
        assert_eq!(read_some(&table(40), filter(0, 0, 1)).unwrap().len(), 40);
        assert_eq!(read_some(&table(40), filter(0, 35, 1)).unwrap().len(), 5);
        let some = read_some(&table(40), filter(10, 10, 1)).unwrap();
        assert_eq!(some.len(), 10);
        assert_eq!(read_some(&table(40), filter(10, 10, 1)).unwrap(), some);
        assert_ne!(read_some(&table(40), filter(10, 10, 2)).unwrap(), some);
        let error = read_some(&table(40), filter(10, 35, 1))
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("has 5 puzzles rated 35 or higher, and 10 are asked for"),
            "{error}"
        );
        let unrated = table(2).replace("rating", "note");
        let error = read_some(&unrated, filter(0, 1, 1))
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("has no column with how hard they are: rating, difficulty"),
            "{error}"
        );
    }
}
