//! A trained model solves a puzzle, and what it thought after each step is kept: its guess, how sure it was of each cell, what it
//! changed, which cells break a rule, and whether it would have stopped there.
//!
//! A puzzle that breaks its own rules, or has no solution, is refused, since nothing that fills it in is right. One with several
//! solutions is not: the model was taught puzzles with one, but any grid that keeps the rules is right, and the person is told.
//! Givens are never overwritten: where the model would have another symbol, the given stays.
//!
//! With votes, other looks of the puzzle are thought about beside it. Of Sudoku and mazes they are turned back and their
//! probabilities are averaged. Of a task of ARC, whose answers may differ in size, they are counted (see [`super::vote`]).
//!
//! Deliberately absent: where puzzles come from, how they are read ([`super::question`]), and how a grid is drawn.

mod thinking;

use std::{ops::ControlFlow, path::Path, sync::Arc};

use candle_core::{DType, Device, Tensor};
use serde::{Deserialize, Serialize};

use super::{
    board::Board,
    grid::Shape,
    halting::{Carry, NO_LABEL, Row},
    learned::Learned,
    maze::{self, PathLengths},
    question::{Held, Question, Reader},
};
use crate::{
    Error, Result,
    arch::{
        WeightRequest, Weights,
        trm::{PUZZLES, Trm, TrmConfig},
    },
    checkpoint::{
        folder::{WEIGHTS, read_json},
        load::StoredWeights,
        save::write_file,
    },
    figures::counted,
    limits,
    train::exhibit::Exhibit,
};
use thinking::Sight;

/// The file of a checkpoint that says what the model is and which puzzles it solves.
pub const PUZZLE: &str = "puzzle.json";
/// The most steps of thinking that can be asked for.
pub const MAX_STEPS: usize = limits::SOLVE_STEPS.most as usize;
/// The most looks that can vote.
pub const MAX_VOTES: usize = limits::SOLVE_VOTES.most as usize;
/// How many looks of a task of ARC vote where nobody says so.
const USUAL_VOTES: usize = 8;
/// How many answers of a vote are told: as many as can be handed in.
const ANSWERS: usize = 2;
/// How many puzzles are thought about at once when a model is measured.
const AT_ONCE: usize = 32;
/// Halts when it is likelier than not.
const HALTS: f32 = 0.5;

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
    /// How many looks of the puzzle are thought about. 0 is the puzzle alone, and eight of a task of ARC.
    pub votes: usize,
}

/// What was thought after a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Thinking {
    /// The symbol of each cell, the given ones as they are. Of ARC: the answer with the most votes.
    pub guess: Vec<u32>,
    /// How probable each of them is to the model, from 0 to 1. 1 where it is given.
    pub confidence: Vec<f32>,
    /// The cells that are not what they were a step before.
    pub changed: Vec<usize>,
    /// The cells that were filled in and break a rule. What is given does not: it was there first.
    pub conflicts: Vec<usize>,
    /// How probable it is to the model that all is right, from 0 to 1.
    pub halt: f32,
    /// How many looks gave this guess, where they are counted and not averaged.
    pub votes: Option<usize>,
}

/// How thinking about a puzzle ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Solved {
    /// The symbol of each cell as it was given, row after row.
    pub puzzle: Vec<u32>,
    /// Its solution, if it has one and no other.
    pub solution: Option<Vec<u32>>,
    /// The first step, from 1, after which the grid was right and stayed so. Nothing when the last grid is not.
    pub solved_at: Option<usize>,
    /// The first step, from 1, after which the model would have stopped by itself.
    pub halts_at: Option<usize>,
    /// Looks that were thought about.
    pub looks: usize,
    /// The way that was found, of a maze.
    pub way: Option<PathLengths>,
    /// The answers with the most votes, of a task of ARC.
    pub answers: Vec<Voted>,
    /// What a person should know.
    pub warnings: Vec<String>,
}

/// An answer with its votes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Voted {
    /// Its colours, row by row.
    pub rows: Vec<Vec<u8>>,
    /// How many looks gave it.
    pub votes: usize,
    /// How sure the model was that it is right, from 0 to 1, on average.
    pub sure: f32,
    /// Whether it is right, if that is known.
    pub is_right: Option<bool>,
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

/// Writes what a checkpoint says of itself.
pub(super) fn save(board: &Board, trm: &TrmConfig, folder: &Path) -> Result<()> {
    let file = PuzzleFile {
        board: board.clone(),
        trm: trm.clone(),
    };
    let bytes = serde_json::to_vec_pretty(&file).map_err(|it| Error::Data(it.to_string()))?;
    write_file(&folder.join(PUZZLE), &bytes)
}

/// Puzzles as a model solves them, to be shown by their titles: what is given stays.
pub(super) fn exhibits(
    model: &Trm,
    shape: Shape,
    board: &Board,
    rows: &[(String, Arc<Row>)],
) -> Result<Vec<Exhibit>> {
    let thought: Vec<Arc<Row>> = rows.iter().map(|it| it.1.clone()).collect();
    let mut carry = Carry::new(model, &thought)?;
    let mut shown: Vec<(Vec<String>, Vec<f32>)> = vec![Default::default(); rows.len()];
    // A dot is where nothing is known.
    let text = |cells: &[u32]| board.text(cells).replace(' ', ".");
    for _ in 0..model.config().halt_max_steps {
        let said = carry.think(model, 1.0, 0.0)?;
        let guesses: Vec<Vec<u32>> = said.guess.to_vec2()?;
        let halts: Vec<f32> = said.thought.halt.tensor().to_vec1()?;
        for (at, guess) in guesses.into_iter().enumerate() {
            let guess = shape.kept(&thought[at].cells, guess);
            shown[at].0.push(text(&guess));
            shown[at].1.push(probability(halts[at]));
        }
    }
    let exhibit = |((title, row), (guesses, halts)): (&(String, Arc<Row>), _)| {
        let colour = |cell: &u32| match *cell {
            NO_LABEL => 0,
            cell => cell,
        };
        let target: Vec<u32> = row.labels.iter().map(colour).collect();
        Exhibit::Puzzle {
            title: title.clone(),
            drawn: board.drawn(),
            columns: board.columns,
            box_rows: board.box_rows,
            box_columns: board.box_columns,
            given: text(&row.cells),
            target: text(&target),
            guesses,
            halts,
        }
    };
    Ok(rows.iter().zip(shown).map(exhibit).collect())
}

/// How probable yes is by its score.
fn probability(score: f32) -> f32 {
    1.0 / (1.0 + (-score).exp())
}

/// A trained model, ready to solve puzzles.
pub struct Solver {
    model: Trm,
    board: Board,
    shape: Shape,
    /// The tasks of ARC that it learned from, where that is known.
    learned: Option<Learned>,
}

/// Weights whose first vector of the table, which is that of no task, is the mean of all others.
struct MeanFirst<'a>(&'a mut StoredWeights);

impl Weights for MeanFirst<'_> {
    fn tensor(&mut self, request: &WeightRequest) -> Result<Tensor> {
        let tensor = self.0.tensor(request)?;
        let rows = tensor.dim(0)?;
        if request.name != PUZZLES || rows < 2 {
            return Ok(tensor);
        }
        let others = tensor.narrow(0, 1, rows - 1)?;
        Ok(Tensor::cat(&[&others.mean_keepdim(0)?, &others], 0)?)
    }
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
        let shape = Shape::of(trm.seq_len, trm.vocab_size);
        if Board::of(shape).as_ref() != Some(&board) {
            return Err(damaged(format!(
                "the model has {} and {}, which no puzzle of {} by {} has",
                counted(trm.seq_len as u64, "cell"),
                counted(trm.vocab_size as u64, "symbol"),
                board.rows,
                board.columns
            )));
        }
        let weights = folder.join(WEIGHTS);
        let mut stored = StoredWeights::open(
            std::slice::from_ref(&weights),
            weights.clone(),
            DType::F32,
            device,
        )?;
        let (model, learned) = match shape {
            Shape::Arc => {
                let learned = Learned::open(folder, trm.num_puzzle_identifiers)?;
                (
                    Trm::new(trm, &mut MeanFirst(&mut stored), dtype, device)?,
                    learned,
                )
            }
            _ => (Trm::new(trm, &mut stored, dtype, device)?, None),
        };
        Ok(Self {
            model,
            board,
            shape,
            learned,
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

    /// Reads a puzzle from a text, or one of its questions, from 0: only a task of ARC has several.
    ///
    /// Errors: what is wrong with it, in a sentence.
    pub fn read(&self, written: &str, part: usize) -> Result<Question> {
        self.reader().read(written, part)
    }

    fn reader(&self) -> Reader<'_> {
        Reader {
            shape: self.shape,
            learned: self.learned.as_ref(),
            has_table: self.model.config().puzzle_emb_ndim > 0,
        }
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
        let sight = Sight::new(self.shape, &self.board, question, votes);
        let looks = sight.count();
        let mut warnings = question.warnings.clone();
        warnings.extend(sight.shortage(votes));
        let mut carry = Carry::new(&self.model, &sight.rows())?;
        let mut before = sight.before();
        let (mut solved_at, mut halts_at, mut answers) = (None, None, Vec::new());
        for step in 1..=self.steps_of(steps) {
            let said = carry.think(&self.model, 1.0, 0.0)?;
            let scores = said.thought.probabilities(self.model.config().loss)?;
            let scores: Vec<Vec<Vec<f32>>> = scores.to_vec3()?;
            let halts: Vec<f32> = said.thought.halt.tensor().to_vec1()?;
            let thinking;
            (thinking, answers) = sight.thinking(&scores, &halts, &before);
            solved_at = match sight.is_right(&thinking) {
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
        let is_maze = matches!(self.shape, Shape::Maze(_));
        answers.truncate(ANSWERS);
        Ok(Solved {
            puzzle: question.cells.clone(),
            solution: question.solution.clone(),
            solved_at,
            halts_at,
            looks,
            way: is_maze
                .then(|| maze::way(&question.cells, &before))
                .flatten(),
            answers,
            warnings,
        })
    }

    /// How many of some puzzles are solved after each of these numbers of steps, in rising order. `watch` gets how many were
    /// thought about, and can end the measuring, which then says nothing.
    pub fn measure(
        &self,
        puzzles: &[Held],
        steps: &[usize],
        watch: &mut dyn FnMut(usize) -> ControlFlow<()>,
    ) -> Result<Option<Vec<SolvedAfter>>> {
        let reader = self.reader();
        let rows: Vec<Arc<Row>> = puzzles
            .iter()
            .map(|it| reader.row(it).map(Arc::new))
            .collect::<Result<_>>()?;
        let mark = |steps: &usize| SolvedAfter {
            steps: *steps,
            solved: 0,
        };
        let mut marks: Vec<SolvedAfter> = steps.iter().map(mark).collect();
        let most = steps.iter().copied().max().unwrap_or(0).min(MAX_STEPS);
        for (at, some) in rows.chunks(AT_ONCE).enumerate() {
            let mut carry = Carry::new(&self.model, some)?;
            for step in 1..=most {
                let said = carry.think(&self.model, 1.0, 0.0)?;
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
}
