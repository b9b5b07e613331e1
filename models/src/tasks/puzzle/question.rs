//! A puzzle as a person gives it: read, checked by its rules, and, where Anneal can, solved.
//!
//! - a Sudoku is a text of its cells; a maze too, in one line or in rows (see [`maze::read`])
//! - a task of ARC is JSON as its public files have it, or the name of one that the model learned from
//!
//! Deliberately absent: what a model thinks of it.

use serde::{Deserialize, Serialize};

use super::{
    arc::{Look, Task},
    arc_files,
    grid::Shape,
    halting::Row,
    learned::Learned,
    maze,
    solve::MAX_VOTES,
    source::{digits, text},
    sudoku::{Solutions, Sudoku},
};
use crate::{Error, Result, figures::counted, random::Random};

/// Where the draw of other looks starts: the same puzzle gives the same votes.
pub(super) const LOOKS_SEED: u64 = 0;
/// The vector of what is known of no task.
const NO_TASK: u32 = 0;
/// How many names of tasks are told to who names none of them.
const NAMED: usize = 3;

/// A puzzle with its solution, as texts that are read like a person’s.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// As a person would type it. Of ARC it can be the name of a task.
    pub puzzle: String,
    /// Its solution. Empty where the puzzle has it in itself, as a task of ARC.
    pub solution: String,
    /// Which of its questions, from 0.
    pub part: usize,
}

/// A puzzle that was read and checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// The symbol of each cell.
    pub cells: Vec<u32>,
    /// Its solution, if it has one and no other.
    pub solution: Option<Vec<u32>>,
    /// What a person should know about it.
    pub warnings: Vec<String>,
    /// The task that it is of, of ARC.
    pub asked: Option<Asked>,
}

/// A task of ARC, and one of its questions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// With its pairs, and the inputs that are asked about.
    pub task: Task,
    /// Which of its test inputs, from 0.
    pub part: usize,
    /// Whether the model learned from its pairs.
    pub is_known: bool,
    /// The ways to look at it, each with its vector of the table.
    pub looks: Vec<(Look, u32)>,
}

/// What a model brings to the reading of a puzzle.
pub(super) struct Reader<'a> {
    pub(super) shape: Shape,
    /// The tasks that it learned from, where that is known.
    pub(super) learned: Option<&'a Learned>,
    /// Whether each puzzle has a vector of its own.
    pub(super) has_table: bool,
}

impl Question {
    /// How many questions the puzzle has.
    pub fn parts(&self) -> usize {
        self.asked.as_ref().map_or(1, |it| it.task.test.len())
    }
}

impl Asked {
    /// The question, looked at so.
    pub(super) fn row(&self, look: &Look, id: u32) -> Row {
        let pair = self.task.train.len() + self.part;
        self.task.row(pair, look, id, (0, 0))
    }
}

impl Reader<'_> {
    /// Reads a puzzle, or one of its questions.
    ///
    /// Errors: what is wrong with it, in a sentence.
    pub(super) fn read(&self, written: &str, part: usize) -> Result<Question> {
        let question = match self.shape {
            Shape::Sudoku(shape) => sudoku(written, shape),
            Shape::Maze(size) => maze(written, size),
            _ => self.task(written, part),
        };
        let question = question.map_err(Error::Data)?;
        match part < question.parts() {
            true => Ok(question),
            false => Err(Error::Data(format!(
                "there is no question {}: the puzzle has {}",
                part + 1,
                question.parts()
            ))),
        }
    }

    /// A puzzle with its solution, as it is measured with.
    pub(super) fn row(&self, held: &Held) -> Result<Row> {
        let pair = |read: &dyn Fn(&str) -> Result<Vec<u32>, String>| {
            let row = |cells, labels| Row {
                cells,
                labels,
                puzzle: NO_TASK,
            };
            let labels = read(&held.solution)?;
            Ok(row(read(&held.puzzle)?, labels))
        };
        let row = match self.shape {
            Shape::Sudoku(shape) => pair(&|text| digits(text, shape).map(|it| symbols(&it))),
            Shape::Maze(size) => pair(&|text| {
                let cells = maze::symbols(text, size)?;
                Ok(cells.into_iter().map(u32::from).collect())
            }),
            _ => self.find(&held.puzzle).map(|task| {
                let known = self.learned.and_then(|it| it.looks(&task));
                let id = known.map_or(NO_TASK, |it| it.0);
                task.row(task.train.len() + held.part, &Look::PLAIN, id, (0, 0))
            }),
        };
        row.map_err(Error::Data)
    }

    fn task(&self, written: &str, part: usize) -> Result<Question, String> {
        let task = self.find(written.trim())?;
        let known = self.learned.and_then(|it| it.looks(&task));
        let mut warnings = Vec::new();
        if known.is_none() && self.has_table {
            warnings.push(match self.learned {
                Some(_) => "The model did not learn from this task. It has a vector for each task that it learned from and none for \
                    this one, so it starts from the mean of all. Published models of this kind solve no task that is new to them."
                    .to_owned(),
                None => "Which tasks the model learned from is not in its checkpoint, as it learned from arrays. So it starts from the \
                    mean of all vectors of tasks, and can’t be expected to solve this one."
                    .to_owned(),
            });
        }
        let (is_known, mut looks) = match known {
            Some((first, looks)) => (
                true,
                (first..).zip(looks).map(|(id, it)| (it, id)).collect(),
            ),
            None => {
                let looks = task.looks(MAX_VOTES - 1, LOOKS_SEED);
                let looks: Vec<(Look, u32)> = looks.into_iter().map(|it| (it, NO_TASK)).collect();
                (false, looks)
            }
        };
        looks.truncate(MAX_VOTES);
        let pair = task.test.get(part);
        let solution = pair.and_then(|it| it.output.as_ref());
        Ok(Question {
            cells: pair.map(|it| it.input.on_all_cells()).unwrap_or_default(),
            solution: solution.map(|it| it.on_all_cells()),
            warnings,
            asked: Some(Asked {
                task,
                part,
                is_known,
                looks,
            }),
        })
    }

    /// The task of a text, or the one with this name.
    fn find(&self, written: &str) -> Result<Task, String> {
        if written.starts_with(['{', '[']) || written.is_empty() {
            return arc_files::one(written);
        }
        let Some(learned) = self.learned else {
            return Err(format!(
                "“{written}” can’t be found: the model learned from arrays, which don’t have the tasks; give the task itself"
            ));
        };
        learned.named(written).cloned().ok_or_else(|| {
            format!(
                "there is no task “{written}” among those that the model learned from: {}, such as {}",
                counted(learned.len() as u64, "task"),
                learned.names(NAMED).join(", ")
            )
        })
    }
}

fn sudoku(written: &str, shape: Sudoku) -> Result<Question, String> {
    let wrong = |problem: String| format!("the puzzle {problem}");
    let place = |cell: usize| {
        format!(
            "row {}, column {}",
            cell / shape.size + 1,
            cell % shape.size + 1
        )
    };
    let cells: String = written
        .chars()
        .filter(|it| !it.is_whitespace() && !"|+-─│┼━┃╋".contains(*it))
        .collect();
    let puzzle =
        digits(&cells, shape).map_err(|problem| wrong(format!("can’t be read: {problem}")))?;
    if let Some((one, other)) = shape.clash(&puzzle) {
        return Err(wrong(format!(
            "has no solution: it gives {} in {} and in {}",
            text(&puzzle[one..=one]),
            place(one),
            place(other)
        )));
    }
    let mut warnings = Vec::new();
    let solution = match shape.solve(&puzzle, &mut Random::new(LOOKS_SEED)) {
        Solutions::None => return Err(wrong("has no solution".to_owned())),
        Solutions::One { grid, .. } => Some(symbols(&grid)),
        Solutions::Several => {
            warnings.push(
                "This puzzle has more than one solution. The model learned from puzzles with one; any grid that keeps the rules counts as solved."
                    .to_owned(),
            );
            None
        }
        Solutions::Unknown => {
            let unknown = "Whether this puzzle has one solution could not be found out.";
            warnings.push(unknown.to_owned());
            None
        }
    };
    Ok(Question {
        cells: symbols(&puzzle),
        solution,
        warnings,
        asked: None,
    })
}

fn maze(written: &str, size: usize) -> Result<Question, String> {
    let cells = maze::read(written, size)?;
    let (answer, is_only) = maze::solve(&cells)?;
    let mut warnings = Vec::new();
    if !is_only {
        warnings.push(
            "This maze has more than one shortest path. Any of them counts as solved.".to_owned(),
        );
    }
    Ok(Question {
        cells,
        solution: is_only.then_some(answer),
        warnings,
        asked: None,
    })
}

/// The symbols of digits, 0 where nothing is known.
fn symbols(digits: &[u8]) -> Vec<u32> {
    digits.iter().map(|digit| u32::from(*digit) + 1).collect()
}
