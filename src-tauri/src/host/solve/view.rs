//! A puzzle model, and what it thinks.

use models::tasks::puzzle::{
    arc::{Pair, Task},
    board::Board,
    maze::PathLengths,
    question::Question,
    solve::{Solved, SolvedAfter, Thinking, Voted},
};
use serde::Serialize;
use specta::Type;
use specta_typescript::Number;

use super::OpenSolver;

/// A puzzle model that is open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SolverView {
    /// What its grids are.
    board: Board,
    /// The steps of thinking it was trained with.
    steps: usize,
    /// Its weights, counted.
    weights: usize,
    /// How many puzzles its run kept aside. 0 where that is not known.
    held_out: usize,
    /// What a person should know about where it computes.
    warnings: Vec<String>,
}

/// A puzzle that was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QuestionView {
    /// Its number among those that the run kept aside, from 1, if it is one.
    number: Option<usize>,
    /// The puzzle as it is solved by: its text.
    text: String,
    /// The symbol of each cell. Of a task, those of its first test input.
    cells: Vec<u32>,
    /// The task that it is, of ARC.
    task: Option<TaskView>,
    /// What a person should know about it.
    warnings: Vec<String>,
}

/// A task of ARC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TaskView {
    /// Its name. Empty where it has none.
    name: String,
    /// Whether the model learned from it.
    is_known: bool,
    /// Pairs that show the rule.
    train: Vec<PairView>,
    /// Pairs that ask for it.
    test: Vec<PairView>,
}

/// A grid and the one that follows from it, each as rows of colours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PairView {
    /// What is given.
    input: Vec<Vec<u8>>,
    /// What follows from it, if that is known.
    output: Option<Vec<Vec<u8>>>,
}

/// An answer to a task, with its votes.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VotedView {
    /// Its colours, row by row.
    rows: Vec<Vec<u8>>,
    /// How many looks gave it.
    votes: usize,
    /// How sure the model was of it, from 0 to 1, on average.
    #[specta(type = Number)]
    sure: f32,
    /// Whether it is right, if that is known.
    is_right: Option<bool>,
}

/// What was thought after a step.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ThinkingView {
    /// The symbol of each cell.
    guess: Vec<u32>,
    /// How probable each is to the model, from 0 to 1.
    #[specta(type = Vec<Number>)]
    confidence: Vec<f32>,
    /// The cells that are not what they were a step before.
    changed: Vec<usize>,
    /// The cells that were filled in and break a rule.
    conflicts: Vec<usize>,
    /// How probable it is to the model that all is right, from 0 to 1.
    #[specta(type = Number)]
    halt: f32,
    /// How many looks gave this guess, where they are counted.
    votes: Option<usize>,
}

/// How thinking ended.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SolvedView {
    /// The symbol of each cell as it was given, row after row.
    puzzle: Vec<u32>,
    /// Its solution, if it has one and no other.
    solution: Option<Vec<u32>>,
    /// The first step, from 1, after which the grid was right and stayed so.
    solved_at: Option<usize>,
    /// The first step, from 1, after which the model would have stopped by itself.
    halts_at: Option<usize>,
    /// Looks that were thought about.
    looks: usize,
    /// The way that was found, of a maze.
    way: Option<PathLengths>,
    /// The answers with the most votes, of a task of ARC.
    answers: Vec<VotedView>,
    /// What a person should know.
    warnings: Vec<String>,
}

/// How many held-out puzzles are solved after so many steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MarksView {
    /// Of how many.
    pub(crate) of: usize,
    /// After which steps how many.
    pub(crate) marks: Vec<SolvedAfter>,
}

impl SolverView {
    /// What a page shows of a model that is open.
    pub(crate) fn new(solver: &OpenSolver) -> Self {
        let held_out = solver.held_out.as_ref();
        Self {
            board: solver.board.clone(),
            steps: solver.steps,
            weights: solver.weights,
            warnings: solver.warnings.clone(),
            held_out: held_out.map_or(0, |it| it.held_count()),
        }
    }
}

impl QuestionView {
    /// A puzzle that was read from a text.
    pub(crate) fn new(number: Option<usize>, text: String, question: Question) -> Self {
        let is_known = question.asked.as_ref().is_some_and(|it| it.is_known);
        Self {
            number,
            text,
            cells: question.cells,
            task: question.asked.map(|it| TaskView::new(it.task, is_known)),
            warnings: question.warnings,
        }
    }
}

impl TaskView {
    fn new(task: Task, is_known: bool) -> Self {
        let pairs = |pairs: &[Pair]| pairs.iter().map(PairView::new).collect();
        Self {
            train: pairs(&task.train),
            test: pairs(&task.test),
            name: task.name,
            is_known,
        }
    }
}

impl PairView {
    fn new(pair: &Pair) -> Self {
        Self {
            input: pair.input.lines(),
            output: pair.output.as_ref().map(|it| it.lines()),
        }
    }
}

impl From<Voted> for VotedView {
    fn from(it: Voted) -> Self {
        Self {
            rows: it.rows,
            votes: it.votes,
            sure: it.sure,
            is_right: it.is_right,
        }
    }
}

impl From<Thinking> for ThinkingView {
    fn from(it: Thinking) -> Self {
        Self {
            guess: it.guess,
            confidence: it.confidence,
            changed: it.changed,
            conflicts: it.conflicts,
            halt: it.halt,
            votes: it.votes,
        }
    }
}

impl From<Solved> for SolvedView {
    fn from(it: Solved) -> Self {
        Self {
            puzzle: it.puzzle,
            solution: it.solution,
            solved_at: it.solved_at,
            halts_at: it.halts_at,
            looks: it.looks,
            way: it.way,
            answers: it.answers.into_iter().map(VotedView::from).collect(),
            warnings: it.warnings,
        }
    }
}
