//! How long puzzles are thought about: what is carried from step to step, what a step says, and when a puzzle makes room for another.
//!
//! A batch has slots. Each holds a puzzle until the model wants to halt or has thought long enough; then the next one offered takes
//! its place, and one that is offered to a slot that isn't free is lost. The model learns from every slot at every step: the cells
//! by their labels, and halting by whether all of them are right. So in the reference (`ACTLossHead`), whose numbers the tests hold.
//!
//! Letters in shapes: b slots, s cells, v symbols.

use std::sync::Arc;

use candle_core::{D, DType, Device, Tensor};

use crate::{
    Result,
    arch::trm::{PUZZLES, State, Thought, Trm, Truth},
    random::Random,
    tape::{Tape, Value},
};

/// A cell with this label counts neither in the loss nor in any figure.
pub const NO_LABEL: u32 = u32::MAX;
/// How much halting counts beside the cells, in the reference.
pub const HALTING: f64 = 0.5;

/// A puzzle with its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The symbol of each cell.
    pub cells: Vec<u32>,
    /// What each should be, or [`NO_LABEL`].
    pub labels: Vec<u32>,
    /// Which vector of the table it has.
    pub puzzle: u32,
}

impl Row {
    /// The share of its labelled cells that a guess has right.
    pub fn right_cells(&self, guess: &[u32]) -> f64 {
        let labelled = self.labels.iter().zip(guess).filter(|it| *it.0 != NO_LABEL);
        let count = labelled.clone().count().max(1);
        labelled.filter(|(label, guess)| label == guess).count() as f64 / count as f64
    }
}

/// What is carried from step to step.
#[derive(Clone)]
pub struct Carry {
    /// What each slot holds.
    pub rows: Vec<Arc<Row>>,
    /// What is thought of it.
    pub state: State,
    /// For how many steps.
    pub steps: Vec<u32>,
    /// Whether it makes room.
    pub halted: Vec<bool>,
}

/// For each slot, the least steps that its puzzle is thought about when the model wants to halt.
pub type LeastSteps = Vec<u32>;

/// What counts how much in a loss.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weighing {
    /// What the loss of each slot is multiplied by before the sum.
    pub slot: f64,
    /// How much of each label is shared among all symbols.
    pub smoothing: f64,
    /// Halting, beside the cells.
    pub halting: f64,
}

/// What a step said.
pub struct Said {
    /// The loss: a sum over slots, times the weight of each.
    pub loss: Value,
    /// What the cells say, and how much it wants to halt.
    pub thought: Thought,
    /// The symbol with the highest score: [b, s], u32.
    pub guess: Tensor,
    /// Whether all labelled cells are right: [b], f32, 1 or 0.
    pub is_right: Tensor,
}

/// The rows of a batch where they are computed with.
struct Rows {
    cells: Tensor,
    classes: Tensor,
    puzzles: Tensor,
    /// 1 where a cell has a label: [b, s], f32.
    counts: Tensor,
    /// How many labels each has: [b], f32.
    labels: Tensor,
}

impl Carry {
    /// Slots that are all free.
    pub fn new(model: &Trm, rows: &[Arc<Row>]) -> Result<Self> {
        Ok(Self {
            rows: rows.to_vec(),
            state: model.first_state(rows.len())?,
            steps: vec![0; rows.len()],
            halted: vec![true; rows.len()],
        })
    }

    /// Puts the rows that are offered where there is room.
    pub fn refill(&mut self, model: &Trm, offered: &[Arc<Row>]) -> Result<()> {
        if !self.halted.contains(&true) {
            return Ok(());
        }
        let first = model.first_state(self.rows.len())?;
        self.state = match self.halted.contains(&false) {
            false => first,
            true => {
                let is_free: Vec<u8> = self.halted.iter().map(|it| u8::from(*it)).collect();
                let is_free = Tensor::new(is_free, model.device())?;
                let is_free = is_free.reshape(((), 1, 1))?;
                let is_free = is_free.broadcast_as(first.answer.shape())?.contiguous()?;
                State {
                    answer: is_free.where_cond(&first.answer, &self.state.answer)?,
                    thoughts: is_free.where_cond(&first.thoughts, &self.state.thoughts)?,
                }
            }
        };
        for (slot, row) in offered.iter().enumerate() {
            if self.halted[slot] {
                self.rows[slot] = row.clone();
                self.steps[slot] = 0;
            }
        }
        Ok(())
    }

    /// One step of thinking about what the slots hold. `weight` is that of a slot in the loss, `smoothing` that of the labels.
    pub fn think(
        &mut self,
        tape: Option<&Tape>,
        model: &Trm,
        weight: f64,
        smoothing: f64,
    ) -> Result<Said> {
        let weighing = Weighing {
            slot: weight,
            smoothing,
            halting: HALTING,
        };
        self.think_weighed(tape, model, weighing)
    }

    /// The same, with a weight of halting too.
    pub fn think_weighed(
        &mut self,
        tape: Option<&Tape>,
        model: &Trm,
        weighing: Weighing,
    ) -> Result<Said> {
        let rows = Rows::new(&self.rows, model.device())?;
        if let Some(tape) = tape {
            tape.note_rows(PUZZLES, self.rows.iter().map(|row| row.puzzle));
        }
        let x = model.embed(tape, &rows.cells, &rows.puzzles)?;
        let thought = model.think(tape, &self.state, &x)?;
        self.state = thought.state.clone();
        for steps in &mut self.steps {
            *steps += 1;
        }
        let scores = thought.scores.tensor();
        let guess = scores.argmax(D::Minus1)?;
        let right = (guess.eq(&rows.classes)?.to_dtype(DType::F32)? * &rows.counts)?;
        let is_right = right.sum(1)?.eq(&rows.labels)?.to_dtype(DType::F32)?;

        let share = rows
            .labels
            .maximum(1f32)?
            .recip()?
            .affine(weighing.slot, 0.0)?;
        let truth = Truth {
            classes: &rows.classes,
            weights: &rows.counts.broadcast_mul(&share.unsqueeze(1)?)?,
            smoothing: weighing.smoothing,
            is_right: &is_right,
            halting_weight: weighing.halting * weighing.slot,
        };
        let loss = thought.loss(&truth, model.config().loss)?;
        Ok(Said {
            loss,
            thought,
            guess,
            is_right,
        })
    }

    /// Notes which slots make room: those that want to, not before their least steps, and those that thought long enough.
    pub fn halt(&mut self, model: &Trm, said: &Said, least: &LeastSteps) -> Result<()> {
        let most = model.config().halt_max_steps as u32;
        let wants: Vec<f32> = said.thought.halt.tensor().to_vec1()?;
        for (slot, halted) in self.halted.iter_mut().enumerate() {
            let steps = self.steps[slot];
            let may = most > 1 && wants[slot] > 0.0 && steps >= least[slot];
            *halted = steps >= most || may;
        }
        Ok(())
    }
}

impl Rows {
    fn new(rows: &[Arc<Row>], device: &Device) -> Result<Self> {
        let cells = rows.first().map_or(0, |row| row.cells.len());
        let all = |of: &dyn Fn(&Row) -> Vec<u32>| {
            let numbers: Vec<u32> = rows.iter().flat_map(|row| of(row)).collect();
            Tensor::from_vec(numbers, (rows.len(), cells), device)
        };
        let counts = all(&|row| {
            row.labels
                .iter()
                .map(|it| u32::from(*it != NO_LABEL))
                .collect()
        })?;
        let counts = counts.to_dtype(DType::F32)?;
        let puzzles: Vec<u32> = rows.iter().map(|row| row.puzzle).collect();
        let class = |label: &u32| if *label == NO_LABEL { 0 } else { *label };
        Ok(Self {
            cells: all(&|row| row.cells.clone())?,
            classes: all(&|row| row.labels.iter().map(class).collect())?,
            puzzles: Tensor::new(puzzles, device)?,
            labels: counts.sum(1)?,
            counts,
        })
    }
}

/// Draws the least steps of each slot: of `chance` of them from 2 to `most`, of the others none. What is drawn depends on the seed
/// and the number of the step alone.
pub fn explore(seed: u64, step: usize, slots: usize, chance: f64, most: usize) -> LeastSteps {
    let mut random = Random::for_purpose(seed, &format!("exploration of step {step}"));
    let explores: Vec<bool> = (0..slots).map(|_| random.uniform() < chance).collect();
    let draw = |explores: bool| {
        let least = if most > 1 {
            2 + random.below(most - 1)
        } else {
            0
        };
        if explores { least as u32 } else { 0 }
    };
    explores.into_iter().map(draw).collect()
}
