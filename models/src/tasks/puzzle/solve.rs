//! A trained model fills in a grid, and what it thought after each step is kept: its guess, how sure it was of each cell, what it
//! changed, which cells break a rule, and whether it would have stopped there.
//!
//! A puzzle that breaks its own rules, or has no solution, is refused, since nothing that fills it in is right. One with several
//! solutions is not: the model was taught puzzles with one, but any grid that keeps the rules is right, and the person is told.
//! Givens are never overwritten: where the model would have another symbol, the given stays.
//!
//! With votes, other looks of the puzzle are thought about beside it, turned back, and their probabilities are averaged.
//!
//! Deliberately absent: where puzzles come from, and how a grid is drawn.

use std::{ops::ControlFlow, path::Path, sync::Arc};

use candle_core::{DType, Device};
use serde::{Deserialize, Serialize};

use super::{
    halting::{Carry, Row},
    source::{Grid, digits, text},
    sudoku::{Look, Solutions, Sudoku},
};
use crate::{
    Error, Result,
    arch::trm::{Trm, TrmConfig},
    checkpoint::{
        folder::{WEIGHTS, read_json},
        load::StoredWeights,
        save::write_file,
    },
    figures::counted,
    random::Random,
    train::exhibit::Exhibit,
};

/// The file of a checkpoint that says what the model is and which grids it fills in.
pub const PUZZLE: &str = "puzzle.json";
/// The most steps of thinking that can be asked for.
pub const MAX_STEPS: usize = 1024;
/// The most looks that can vote.
pub const MAX_VOTES: usize = 64;
/// Where the draw of other looks starts: the same puzzle gives the same votes.
const LOOKS_SEED: u64 = 0;
/// How many puzzles are thought about at once when a model is measured.
const AT_ONCE: usize = 32;
/// Halts when it is likelier than not.
const HALTS: f32 = 0.5;

/// The kind of a grid, which decides its rules and how it is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "specta", derive(specta::Type))]
#[serde(rename_all = "snake_case")]
pub enum BoardKind {
    /// Each digit once in every row, column and box.
    Sudoku,
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
    /// The symbol of an empty cell.
    pub blank: u32,
}

/// What a checkpoint says of itself.
#[derive(Serialize, Deserialize)]
struct PuzzleFile {
    board: Board,
    trm: TrmConfig,
}

/// How a puzzle is thought about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effort {
    /// Steps of thinking. 0 is what the model was trained with.
    pub steps: usize,
    /// How many looks of the puzzle are thought about. 0 and 1 are the puzzle alone.
    pub votes: usize,
}

/// A puzzle that was read and checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The symbol of each cell.
    pub cells: Vec<u32>,
    /// Its solution, if it has one and no other.
    pub solution: Option<Vec<u32>>,
    /// What a person should know about it.
    pub warnings: Vec<String>,
}

/// What was thought after a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Thinking {
    /// The symbol of each cell, the given ones as they are.
    pub guess: Vec<u32>,
    /// How probable each of them is to the model, from 0 to 1. 1 where it is given.
    pub confidence: Vec<f32>,
    /// The cells that are not what they were a step before.
    pub changed: Vec<usize>,
    /// The cells that were filled in and break a rule. What is given does not: it was there first.
    pub conflicts: Vec<usize>,
    /// How probable it is to the model that all is right, from 0 to 1.
    pub halt: f32,
}

/// How thinking about a puzzle ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Solved {
    /// The puzzle.
    pub puzzle: Vec<u32>,
    /// Its solution, if it has one and no other.
    pub solution: Option<Vec<u32>>,
    /// The first step, from 1, after which the grid was right and stayed so. Nothing when the last grid is not.
    pub solved_at: Option<usize>,
    /// The first step, from 1, after which the model would have stopped by itself.
    pub halts_at: Option<usize>,
    /// What a person should know.
    pub warnings: Vec<String>,
}

/// How many puzzles are solved after so many steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "specta", derive(specta::Type))]
pub struct SolvedAfter {
    /// Steps of thinking.
    pub steps: usize,
    /// Puzzles that are right after them.
    pub solved: usize,
}

impl Board {
    /// That of a Sudoku.
    pub fn sudoku(shape: Sudoku) -> Self {
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

/// Writes what a checkpoint says of itself.
pub(super) fn save(board: &Board, trm: &TrmConfig, folder: &Path) -> Result<()> {
    let file = PuzzleFile {
        board: board.clone(),
        trm: trm.clone(),
    };
    let bytes = serde_json::to_vec_pretty(&file).map_err(|it| Error::Data(it.to_string()))?;
    write_file(&folder.join(PUZZLE), &bytes)
}

/// Puzzles as a model fills them in, to be shown: what is given stays.
pub(super) fn exhibits(model: &Trm, board: &Board, rows: &[Arc<Row>]) -> Result<Vec<Exhibit>> {
    let mut carry = Carry::new(model, rows)?;
    let mut shown: Vec<(Vec<String>, Vec<f32>)> = vec![Default::default(); rows.len()];
    for _ in 0..model.config().halt_max_steps {
        let said = carry.think(None, model, 1.0, 0.0)?;
        let guesses: Vec<Vec<u32>> = said.guess.to_vec2()?;
        let halts: Vec<f32> = said.thought.halt.tensor().to_vec1()?;
        for (at, mut guess) in guesses.into_iter().enumerate() {
            let given = rows[at].cells.iter().zip(&mut guess);
            given
                .filter(|it| *it.0 > board.blank)
                .for_each(|(given, guess)| *guess = *given);
            shown[at].0.push(board.text(&guess));
            shown[at].1.push(probability(halts[at]));
        }
    }
    let exhibit = |(at, (guesses, halts)): (usize, _)| Exhibit::Puzzle {
        title: format!("Puzzle {}", at + 1),
        columns: board.columns,
        box_rows: board.box_rows,
        box_columns: board.box_columns,
        given: board.text(&rows[at].cells),
        target: board.text(&rows[at].labels),
        guesses,
        halts,
    };
    Ok(shown.into_iter().enumerate().map(exhibit).collect())
}

/// How probable yes is by its score.
fn probability(score: f32) -> f32 {
    1.0 / (1.0 + (-score).exp())
}

/// A trained model, ready to fill in grids.
pub struct Solver {
    model: Trm,
    board: Board,
    shape: Sudoku,
}

impl Solver {
    /// Opens the folder of a checkpoint, to compute in `dtype`.
    ///
    /// Errors: the folder is not that of a model that learned puzzles, or a file of it is damaged.
    pub fn open(folder: &Path, dtype: DType, device: &Device) -> Result<Self> {
        let path = folder.join(PUZZLE);
        let json = read_json(&path, "read what the puzzle model is")?;
        let damaged =
            |problem: String| Error::damaged(&path, format!("{PUZZLE} is damaged"), problem);
        let file = PuzzleFile::deserialize(json).map_err(|error| damaged(error.to_string()))?;
        let PuzzleFile { board, trm } = file;
        let shape = Sudoku::of_cells(trm.seq_len).filter(|it| Board::sudoku(*it) == board);
        let shape = shape.filter(|it| it.size + 2 == trm.vocab_size);
        let shape = shape.ok_or_else(|| {
            damaged(format!(
                "the model has {} and {}, which no Sudoku of {} by {} has",
                counted(trm.seq_len as u64, "cell"),
                counted(trm.vocab_size as u64, "symbol"),
                board.rows,
                board.columns
            ))
        })?;
        let weights = folder.join(WEIGHTS);
        let mut stored = StoredWeights::open(
            std::slice::from_ref(&weights),
            weights.clone(),
            DType::F32,
            device,
        )?;
        let model = Trm::new(trm, &mut stored, dtype, device)?;
        Ok(Self {
            model,
            board,
            shape,
        })
    }

    /// Its grids.
    pub fn board(&self) -> &Board {
        &self.board
    }

    /// The steps of thinking it was trained with.
    pub fn steps(&self) -> usize {
        self.model.config().halt_max_steps
    }

    /// Its weights, counted.
    pub fn weights(&self) -> usize {
        self.model
            .parameters()
            .iter()
            .map(|it| it.tensor().elem_count())
            .sum()
    }

    /// Reads a puzzle from a text: its cells row by row. White space and the lines that are drawn between boxes don't count.
    ///
    /// Errors: what is wrong with it, in a sentence.
    pub fn read(&self, written: &str) -> Result<Question> {
        let wrong = |problem: String| Error::Data(format!("the puzzle {problem}"));
        let cells: String = written
            .chars()
            .filter(|it| !it.is_whitespace() && !"|+-─│┼━┃╋".contains(*it))
            .collect();
        let puzzle = digits(&cells, self.shape)
            .map_err(|problem| wrong(format!("can’t be read: {problem}")))?;
        if let Some((one, other)) = self.shape.clash(&puzzle) {
            return Err(wrong(format!(
                "has no solution: it gives {} in {} and in {}",
                text(&puzzle[one..=one]),
                self.place(one),
                self.place(other)
            )));
        }
        let mut warnings = Vec::new();
        let solution = match self.shape.solve(&puzzle, &mut Random::new(LOOKS_SEED)) {
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
                warnings.push(
                    "Whether this puzzle has one solution could not be found out.".to_owned(),
                );
                None
            }
        };
        Ok(Question {
            cells: symbols(&puzzle),
            solution,
            warnings,
        })
    }

    /// A puzzle with its solution, from their texts.
    pub fn grid(&self, puzzle: &str, solution: &str) -> Result<Grid> {
        let read = |text: &str| digits(text, self.shape).map_err(Error::Data);
        Ok(Grid {
            puzzle: read(puzzle)?,
            solution: read(solution)?,
        })
    }

    /// Thinks about a puzzle. `watch` gets each step as it is done, and can end the thinking there.
    pub fn solve(
        &self,
        question: &Question,
        effort: Effort,
        watch: &mut dyn FnMut(&Thinking) -> ControlFlow<()>,
    ) -> Result<Solved> {
        let Effort { steps, votes } = effort;
        for (field, value, most) in [("steps", steps, MAX_STEPS), ("votes", votes, MAX_VOTES)] {
            if value > most {
                return Err(Error::setting(
                    field,
                    format!("is {value}, and can be {most} at most"),
                ));
            }
        }
        let given = numbers(&question.cells);
        let mut random = Random::new(LOOKS_SEED);
        let looks: Vec<Look> = (0..votes.max(1))
            .map(|at| match at {
                0 => self.shape.as_it_is(),
                _ => self.shape.look(&mut random),
            })
            .collect();
        let rows: Vec<Arc<Row>> = looks.iter().map(|look| row(look.of(&given))).collect();
        let mut carry = Carry::new(&self.model, &rows)?;
        let mut before = question.cells.clone();
        let (mut solved_at, mut halts_at) = (None, None);
        for step in 1..=self.steps_of(steps) {
            let said = carry.think(None, &self.model, 1.0, 0.0)?;
            let scores = said.thought.probabilities(self.model.config().loss)?;
            let scores: Vec<Vec<Vec<f32>>> = scores.to_vec3()?;
            let halts: Vec<f32> = said.thought.halt.tensor().to_vec1()?;
            let thinking = self.thinking(question, &looks, &scores, &halts, &before);
            solved_at = match self.is_right(&thinking) {
                true => solved_at.or(Some(step)),
                false => None,
            };
            if thinking.halt > HALTS {
                halts_at = halts_at.or(Some(step));
            }
            let flow = watch(&thinking);
            before = thinking.guess;
            if flow.is_break() {
                break;
            }
        }
        Ok(Solved {
            puzzle: question.cells.clone(),
            solution: question.solution.clone(),
            solved_at,
            halts_at,
            warnings: question.warnings.clone(),
        })
    }

    /// How many of some puzzles are solved after each of these numbers of steps, in rising order. `watch` gets how many were
    /// thought about, and can end the measuring, which then says nothing.
    pub fn measure(
        &self,
        grids: &[Grid],
        steps: &[usize],
        watch: &mut dyn FnMut(usize) -> ControlFlow<()>,
    ) -> Result<Option<Vec<SolvedAfter>>> {
        let mark = |steps: &usize| SolvedAfter {
            steps: *steps,
            solved: 0,
        };
        let mut marks: Vec<SolvedAfter> = steps.iter().map(mark).collect();
        let most = steps.iter().copied().max().unwrap_or(0).min(MAX_STEPS);
        for (at, some) in grids.chunks(AT_ONCE).enumerate() {
            let rows: Vec<Arc<Row>> = some.iter().map(|grid| Arc::new(grid.row())).collect();
            let mut carry = Carry::new(&self.model, &rows)?;
            for step in 1..=most {
                let said = carry.think(None, &self.model, 1.0, 0.0)?;
                for mark in marks.iter_mut().filter(|it| it.steps == step) {
                    let right: Vec<f32> = said.is_right.to_vec1()?;
                    mark.solved += right.iter().filter(|it| **it > 0.0).count();
                }
                if watch(at * AT_ONCE).is_break() {
                    return Ok(None);
                }
            }
        }
        Ok(Some(marks))
    }

    fn steps_of(&self, asked: usize) -> usize {
        match asked {
            0 => self.steps(),
            steps => steps,
        }
    }

    /// What all looks say together of the puzzle as it is.
    fn thinking(
        &self,
        question: &Question,
        looks: &[Look],
        scores: &[Vec<Vec<f32>>],
        halts: &[f32],
        before: &[u32],
    ) -> Thinking {
        let count = looks.len() as f32;
        let mut sums = vec![vec![0f32; self.board.symbols.len()]; question.cells.len()];
        for (look, scores) in looks.iter().zip(scores) {
            for (scores, from) in scores.iter().zip(&look.from) {
                for (symbol, sum) in sums[*from].iter_mut().enumerate() {
                    *sum += scores[symbol_in(look, symbol)] / count;
                }
            }
        }
        let (mut guess, mut confidence) = (question.cells.clone(), vec![1.0; sums.len()]);
        for (cell, sums) in sums.iter().enumerate() {
            if question.cells[cell] == self.board.blank {
                let likeliest = sums
                    .iter()
                    .enumerate()
                    .max_by(|one, other| one.1.total_cmp(other.1));
                if let Some((symbol, sum)) = likeliest {
                    (guess[cell], confidence[cell]) = (symbol as u32, *sum);
                }
            }
        }
        let halt = halts.iter().map(|it| probability(*it)).sum::<f32>() / count;
        let is_open = |cell: &usize| question.cells[*cell] == self.board.blank;
        let mut conflicts = self.shape.clashes(&numbers(&guess));
        conflicts.retain(is_open);
        Thinking {
            changed: (0..guess.len())
                .filter(|cell| guess[*cell] != before[*cell])
                .collect(),
            conflicts,
            guess,
            confidence,
            halt,
        }
    }

    /// Whether a grid is full and keeps all rules.
    fn is_right(&self, thinking: &Thinking) -> bool {
        thinking.conflicts.is_empty() && thinking.guess.iter().all(|it| *it > self.board.blank)
    }

    fn place(&self, cell: usize) -> String {
        let columns = self.board.columns;
        format!("row {}, column {}", cell / columns + 1, cell % columns + 1)
    }
}

/// The symbol that stands for a symbol in another look.
fn symbol_in(look: &Look, symbol: usize) -> usize {
    match symbol {
        0 => 0,
        symbol => usize::from(look.digits[symbol - 1]) + 1,
    }
}

/// The symbols of digits, 0 where nothing is known.
fn symbols(digits: &[u8]) -> Vec<u32> {
    digits.iter().map(|digit| u32::from(*digit) + 1).collect()
}

/// The digits of symbols, 0 where there is none.
fn numbers(symbols: &[u32]) -> Vec<u8> {
    symbols
        .iter()
        .map(|symbol| symbol.saturating_sub(1) as u8)
        .collect()
}

/// A puzzle without an answer.
fn row(puzzle: Vec<u8>) -> Arc<Row> {
    let grid = Grid {
        solution: puzzle.clone(),
        puzzle,
    };
    Arc::new(grid.row())
}
