//! A puzzle model, and what it thinks.

use models::tasks::puzzle::solve::{Board, Solved, SolvedAfter, Thinking};
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
}

/// How thinking ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SolvedView {
    /// The puzzle.
    puzzle: Vec<u32>,
    /// Its solution, if it has one and no other.
    solution: Option<Vec<u32>>,
    /// The first step, from 1, after which the grid was right and stayed so.
    solved_at: Option<usize>,
    /// The first step, from 1, after which the model would have stopped by itself.
    halts_at: Option<usize>,
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
    /// A model, of whose run so many puzzles were kept aside.
    pub(crate) fn new(solver: &OpenSolver, held_out: usize) -> Self {
        Self {
            board: solver.board.clone(),
            steps: solver.steps,
            weights: solver.weights,
            warnings: solver.warnings.clone(),
            held_out,
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
            warnings: it.warnings,
        }
    }
}
