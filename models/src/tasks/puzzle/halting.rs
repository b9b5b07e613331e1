//! How long puzzles are thought about: what is carried from step to step, what a step says, and when a puzzle makes room for another.
//!
//! A batch has slots. Each holds a puzzle until the model wants to halt or has thought long enough; then the next one offered takes
//! its place, and one that is offered to a slot that isn't free is lost. The model learns from every slot at every step: the cells
//! by their labels, and halting by whether all of them are right. So in the reference (`ACTLossHead`), whose numbers the tests hold.
//!
//! A step that learns is a [`FixedPass`], so that a GPU can record it: which slots make room for another puzzle is known before it,
//! and which will, after it.
//!
//! Letters in shapes: b slots, s cells, v symbols.

use std::{cell::RefCell, sync::Arc};

use candle_core::{D, DType, Device, Tensor};

use crate::{
    Result,
    arch::trm::{PUZZLES, State, Thought, Trm, Truth},
    ops::attention::Spans,
    random::Random,
    tape::{FixedPass, Left, Tape, Value},
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

/// A step of thinking that is learned from. All that it reads lies where it is computed before it begins.
pub struct Thinking {
    model: Trm,
    state: State,
    /// 1 for the slots that begin anew: [b, 1, 1], u8. Nothing where none does.
    is_free: Option<Tensor>,
    rows: Rows,
    /// The vectors of the table that they use.
    used: Vec<u32>,
    spans: Spans,
    weighing: Weighing,
    left: RefCell<Left>,
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

    /// Puts a row where there is room. The next [`Carry::thinking`] begins anew there; [`Carry::think`] goes on with
    /// the state that there is.
    pub fn refill(&mut self, mut offered: impl FnMut(usize) -> Arc<Row>) {
        for slot in 0..self.rows.len() {
            if self.halted[slot] {
                self.rows[slot] = offered(slot);
                self.steps[slot] = 0;
            }
        }
    }

    /// One step of thinking about what the slots hold, from which nothing is learned. `weight` is that of a slot in the loss,
    /// `smoothing` that of the labels.
    pub fn think(&mut self, model: &Trm, weight: f64, smoothing: f64) -> Result<Said> {
        let weighing = Weighing {
            slot: weight,
            smoothing,
            halting: HALTING,
        };
        let rows = Rows::new(&self.rows, model.device())?;
        let spans = model.spans(self.rows.len());
        let said = think((None, model), &self.state, (&rows, &spans), weighing)?;
        self.thought(said.thought.state.clone());
        Ok(said)
    }

    /// The next step of thinking, with its [`Trm::spans`]. Of one that is to be recorded, all slots may begin anew.
    pub fn thinking(
        &self,
        model: Trm,
        spans: Spans,
        weighing: Weighing,
        is_recorded: bool,
    ) -> Result<Thinking> {
        let is_free = match is_recorded || self.halted.contains(&true) {
            true => {
                let is_free: Vec<u8> = self.halted.iter().map(|it| u8::from(*it)).collect();
                Some(Tensor::new(is_free, model.device())?.reshape(((), 1, 1))?)
            }
            false => None,
        };
        Ok(Thinking {
            state: self.state.clone(),
            is_free,
            rows: Rows::new(&self.rows, model.device())?,
            used: self.rows.iter().map(|row| row.puzzle).collect(),
            spans,
            weighing,
            left: RefCell::default(),
            model,
        })
    }

    /// Notes what came of a step.
    pub fn thought(&mut self, state: State) {
        self.state = state;
        for steps in &mut self.steps {
            *steps += 1;
        }
    }

    /// Notes which slots make room: those that want to, not before their least steps, and those that thought long enough. `wants` is
    /// how much each wants to.
    pub fn halt(&mut self, most: usize, wants: &[f32], least: &LeastSteps) {
        let most = most as u32;
        for (slot, halted) in self.halted.iter_mut().enumerate() {
            let steps = self.steps[slot];
            let may = most > 1 && wants[slot] > 0.0 && steps >= least[slot];
            *halted = steps >= most || may;
        }
    }
}

impl State {
    /// The same, with the state at first in the slots that are free: [b, 1, 1], u8.
    fn anew(&self, model: &Trm, is_free: &Tensor) -> Result<Self> {
        let first = model.first_state(self.answer.dim(0)?)?;
        let is_free = is_free.broadcast_as(first.answer.shape())?.contiguous()?;
        Ok(Self {
            answer: is_free.where_cond(&first.answer, &self.answer)?,
            thoughts: is_free.where_cond(&first.thoughts, &self.thoughts)?,
        })
    }
}

impl FixedPass for Thinking {
    fn inputs(&self) -> Vec<Tensor> {
        let State { answer, thoughts } = self.state.clone();
        let mut inputs = vec![answer, thoughts];
        inputs.extend(self.rows.all());
        inputs.extend(self.is_free.clone());
        inputs.extend(self.spans.placed());
        inputs
    }

    fn form(&self) -> String {
        format!("{:?}, {:?}", self.model.cycles(), self.weighing)
    }

    fn loss(&self, tape: &Tape) -> Result<Value> {
        tape.note_rows(PUZZLES, self.used.iter().copied());
        let state = match &self.is_free {
            Some(is_free) => self.state.anew(&self.model, is_free)?,
            None => self.state.clone(),
        };
        let seen = (&self.rows, &self.spans);
        let said = think((Some(tape), &self.model), &state, seen, self.weighing)?;
        let State { answer, thoughts } = said.thought.state;
        *self.left.borrow_mut() = vec![answer, thoughts, said.thought.halt.tensor().clone()];
        Ok(said.loss)
    }

    /// The answer, the thoughts, and how much each slot wants to halt.
    fn take_left(&self) -> Left {
        self.left.take()
    }
}

/// One step of thinking about these rows.
fn think(
    (tape, model): (Option<&Tape>, &Trm),
    state: &State,
    (rows, spans): (&Rows, &Spans),
    weighing: Weighing,
) -> Result<Said> {
    let x = model.embed(tape, &rows.cells, &rows.puzzles)?;
    let thought = model.think(tape, state, &x, spans)?;
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

impl Rows {
    fn all(&self) -> [Tensor; 5] {
        [
            &self.cells,
            &self.classes,
            &self.puzzles,
            &self.counts,
            &self.labels,
        ]
        .map(Clone::clone)
    }

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
