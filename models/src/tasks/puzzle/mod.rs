//! Puzzles: grids that a Tiny Recursive Model fills in.
//!
//! - [`request`], [`recipe`], `resolve`: what is asked, what is planned, and what is chosen
//! - [`fields`]: what a run file can say about it, for a person
//! - `footprint`: what a run takes
//! - [`source`], [`sudoku`], [`make`]: puzzles in files, what they are, and puzzles of our own
//! - [`halting`]: how long puzzles are thought about, and what is learned from a step

pub mod fields;
mod footprint;
pub mod halting;
pub mod kind;
pub mod make;
pub mod recipe;
pub mod request;
mod resolve;
pub mod source;
pub mod sudoku;

use std::{collections::HashMap, path::Path, sync::Arc};

use candle_core::{Device, Tensor};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

pub use kind::Puzzle;

use crate::{
    Error, Result,
    arch::{
        initial::InitialWeights,
        trm::{PUZZLES, State, Trm},
    },
    checkpoint::{folder::WEIGHTS, save::write_safetensors},
    optim::{DecayScope, OwnRule, OwnRules, sign_sgd::SignSgd},
    parameters::Parameters,
    random::Random,
    tape::{Tape, Value},
    train::{
        TrainPlan,
        exhibit::{Exhibit, Mark, Meaning},
        task::{BatchSize, Evaluation, Metric, Task, load_weights},
    },
};
use halting::{Carry, Row, explore};
use request::PuzzlePlan;
use source::{PuzzleSet, rows};

/// The file of a checkpoint with what is thought about at the moment.
const CARRY: &str = "carry.safetensors";
/// How many held-out puzzles are shown.
const SHOWN: usize = 3;

/// What was looked up before a run can be planned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PuzzleFacts {
    /// Cells of a puzzle.
    pub cells: usize,
    /// Symbols that a cell can have, with the empty one and that of no cell.
    pub symbols: usize,
    /// Puzzles to learn from.
    pub rows: usize,
    /// Puzzles kept aside.
    pub held_out_rows: usize,
}

/// A model that learns puzzles.
pub struct PuzzleTask {
    model: Trm,
    puzzles: PuzzleSet,
    held_out: Vec<Arc<Row>>,
    augment: bool,
    label_smoothing: f64,
    own_rules: OwnRules,
    seed: u64,
    /// Slots of a micro-batch, and micro-batches of a step.
    rows: usize,
    accumulate: usize,
    position: Position,
    order: Order,
    /// What is carried, for each micro-batch of a step. Empty before the first.
    carries: Vec<Carry>,
    /// The same at the beginning of the step.
    before: Vec<Carry>,
}

/// How far the task is in its data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct Position {
    /// Micro-batches that were taken.
    batches: usize,
}

/// Puzzles that are offered to the slots of a micro-batch.
pub struct Offer {
    /// Which micro-batch of all it is.
    number: usize,
}

impl PuzzleTask {
    fn new(plan: &TrainPlan<PuzzlePlan>, puzzles: PuzzleSet, device: &Device) -> Result<Self> {
        let (run, task) = (&plan.run, &plan.task);
        if puzzles.shape.cells() != task.trm.seq_len {
            return Err(Error::Data(format!(
                "the plan is for puzzles of {} cells, and the data has puzzles of {}",
                task.trm.seq_len,
                puzzles.shape.cells()
            )));
        }
        let mut weights = InitialWeights::new(run.seed, device);
        let model = Trm::new(
            task.trm.clone(),
            &mut weights,
            run.dtype.compute.into(),
            device,
        )?;
        let table = OwnRule {
            rule: SignSgd {
                weight_decay: task.table.weight_decay,
            }
            .into(),
            rate_ratio: task.table.learning_rate / run.learning_rate,
        };
        Ok(Self {
            model,
            held_out: rows(&puzzles.held_out),
            puzzles,
            augment: task.data.augment,
            label_smoothing: task.data.label_smoothing,
            own_rules: OwnRules::from([(PUZZLES.to_owned(), table)]),
            seed: run.seed,
            rows: run.batch.rows,
            accumulate: run.batch.accumulate,
            position: Position::default(),
            order: Order::default(),
            carries: Vec::new(),
            before: Vec::new(),
        })
    }

    /// The puzzle that is offered as number `at` of the run: each once in a pass, in an order of its own, in another look.
    fn offered(&mut self, at: usize) -> Arc<Row> {
        let train = &self.puzzles.train;
        let grid = &train[self.order.of(self.seed, at, train.len())];
        if !self.augment {
            return Arc::new(grid.row());
        }
        let mut random = Random::for_purpose(self.seed, &format!("look of puzzle {at}"));
        let look = self.puzzles.shape.look(&mut random);
        let seen = source::Grid {
            puzzle: look.of(&grid.puzzle),
            solution: look.of(&grid.solution),
        };
        Arc::new(seen.row())
    }

    /// Thinks about puzzles as long as a model may, and hands over the last step.
    fn solve(&self, rows: &[Arc<Row>], weight: f64) -> Result<halting::Said> {
        let mut carry = Carry::new(&self.model, rows)?;
        let mut said = carry.think(None, &self.model, weight, 0.0)?;
        for _ in 1..self.model.config().halt_max_steps {
            said = carry.think(None, &self.model, weight, 0.0)?;
        }
        Ok(said)
    }
}

/// The order of a pass, made when it is asked for and kept until another is.
#[derive(Default)]
struct Order {
    pass: Option<usize>,
    order: Vec<usize>,
}

impl Order {
    /// Which of `count` puzzles is number `at` of a run.
    fn of(&mut self, seed: u64, at: usize, count: usize) -> usize {
        let pass = at / count;
        if self.pass != Some(pass) {
            self.order = (0..count).collect();
            let purpose = format!("order of pass {pass}");
            Random::for_purpose(seed, &purpose).shuffle(&mut self.order);
            self.pass = Some(pass);
        }
        self.order[at % count]
    }
}

impl Task for PuzzleTask {
    type Batch = Offer;

    fn parameters(&self) -> &Parameters {
        self.model.parameters()
    }

    fn own_rules(&self) -> OwnRules {
        self.own_rules.clone()
    }

    fn decays(&self) -> DecayScope {
        DecayScope::All
    }

    fn next_batch(&mut self) -> Result<Offer> {
        let number = self.position.batches;
        self.position.batches += 1;
        Ok(Offer { number })
    }

    fn size(&self, _: &Offer) -> BatchSize {
        BatchSize {
            targets: self.rows,
            units: self.rows,
        }
    }

    fn loss(&mut self, tape: &Tape, offer: &Offer, targets: f64) -> Result<Value> {
        let (step, place) = (
            offer.number / self.accumulate,
            offer.number % self.accumulate,
        );
        let first = offer.number * self.rows;
        while self.carries.len() <= place {
            let grid = Arc::new(self.puzzles.train[0].row());
            let empty = vec![grid; self.rows];
            self.carries.push(Carry::new(&self.model, &empty)?);
        }
        let mut carry = self.carries[place].clone();
        // Only what finds room is made.
        let offered: Vec<Arc<Row>> = (0..self.rows)
            .map(|slot| match carry.halted[slot] {
                true => self.offered(first + slot),
                false => carry.rows[slot].clone(),
            })
            .collect();
        carry.refill(&self.model, &offered)?;
        let said = carry.think(Some(tape), &self.model, 1.0 / targets, self.label_smoothing)?;
        let config = self.model.config();
        let slots = self.rows * self.accumulate;
        let (chance, most) = (config.halt_exploration_prob, config.halt_max_steps);
        let least = explore(self.seed, step, slots, chance, most);
        let least = least[place * self.rows..][..self.rows].to_vec();
        carry.halt(&self.model, &said, &least)?;
        self.carries[place] = carry;
        Ok(said.loss)
    }

    fn begin_losses(&mut self) -> Result<()> {
        self.before = self.carries.clone();
        Ok(())
    }

    fn undo_losses(&mut self) -> Result<()> {
        self.carries = self.before.clone();
        Ok(())
    }

    fn evaluate(&mut self, batches: usize) -> Result<Option<Evaluation>> {
        if self.held_out.is_empty() {
            return Ok(None);
        }
        let most = if batches == 0 { usize::MAX } else { batches };
        let (mut loss, mut puzzles, mut solved, mut knows) = (0.0, 0, 0.0, 0.0);
        for rows in self.held_out.chunks(self.rows).take(most) {
            let said = self.solve(rows, 1.0)?;
            loss += f64::from(said.loss.tensor().to_scalar::<f32>()?);
            let right: Vec<f32> = said.is_right.to_vec1()?;
            let halts: Vec<f32> = said.thought.halt.tensor().to_vec1()?;
            let agree = right
                .iter()
                .zip(&halts)
                .filter(|(right, halt)| (**right > 0.0) == (**halt >= 0.0));
            knows += agree.count() as f64;
            solved += right.iter().map(|it| f64::from(*it)).sum::<f64>();
            puzzles += rows.len();
        }
        let share = |name: &str, label: &str, count: f64| Metric {
            name: name.to_owned(),
            label: label.to_owned(),
            value: count / puzzles as f64,
            higher_is_better: true,
            of: Some(puzzles),
        };
        Ok(Some(Evaluation {
            loss: loss / puzzles as f64,
            metrics: vec![
                share("solved", "puzzles solved", solved),
                share("knows", "knows whether it solved them", knows),
            ],
            targets: puzzles,
        }))
    }

    fn show(&mut self) -> Result<Vec<Exhibit>> {
        let shown = self.held_out.len().min(SHOWN);
        if shown == 0 {
            return Ok(Vec::new());
        }
        let rows = &self.held_out[..shown];
        let guesses: Vec<Vec<u32>> = self.solve(rows, 1.0)?.guess.to_vec2()?;
        let size = self.puzzles.shape.size;
        let all = rows.iter().zip(guesses);
        Ok(all.map(|(row, guess)| exhibit(row, &guess, size)).collect())
    }

    fn state(&self) -> Json {
        json!({"position": self.position})
    }

    fn restore(&mut self, state: &Json) -> Result<()> {
        let read = Position::deserialize(&state["position"]);
        self.position = read.map_err(|error| Error::Data(error.to_string()))?;
        Ok(())
    }

    fn save(&self, folder: &Path) -> Result<()> {
        let weights = self.parameters().iter();
        let weights = weights.map(|it| (it.name().to_owned(), it.tensor()));
        write_safetensors(&folder.join(WEIGHTS), &weights.collect(), HashMap::new())?;
        if self.carries.is_empty() {
            return Ok(());
        }
        let joined = |of: &dyn Fn(&Carry) -> Result<Tensor>| -> Result<Tensor> {
            let all: Vec<Tensor> = self.carries.iter().map(of).collect::<Result<_>>()?;
            Ok(Tensor::cat(&all, 0)?)
        };
        let numbers = |of: &dyn Fn(&Row) -> Vec<u32>| {
            joined(&|carry| {
                let all: Vec<Vec<u32>> = carry.rows.iter().map(|row| of(row)).collect();
                Ok(Tensor::new(all, &Device::Cpu)?)
            })
        };
        let column = |of: &dyn Fn(&Carry) -> Vec<u32>| {
            joined(&|carry| Ok(Tensor::new(of(carry), &Device::Cpu)?))
        };
        let carried = [
            ("answer", joined(&|carry| Ok(carry.state.answer.clone()))?),
            (
                "thoughts",
                joined(&|carry| Ok(carry.state.thoughts.clone()))?,
            ),
            ("cells", numbers(&|row| row.cells.clone())?),
            ("labels", numbers(&|row| row.labels.clone())?),
            ("puzzles", numbers(&|row| vec![row.puzzle])?),
            ("steps", column(&|carry| carry.steps.clone())?),
            (
                "halted",
                column(&|carry| carry.halted.iter().map(|it| u32::from(*it)).collect())?,
            ),
        ];
        let carried = carried.map(|(name, tensor)| (name.to_owned(), tensor));
        write_safetensors(&folder.join(CARRY), &carried.into(), HashMap::new())
    }

    fn load(&mut self, folder: &Path) -> Result<()> {
        load_weights(self.parameters(), folder)?;
        self.carries = match folder.join(CARRY) {
            path if path.is_file() => self.read_carries(&path)?,
            _ => Vec::new(),
        };
        Ok(())
    }

    fn row_length(&mut self, rows: usize) -> (usize, f64) {
        (1, rows as f64)
    }

    fn held_out_batches(&self) -> usize {
        self.held_out.len().div_ceil(self.rows.max(1))
    }
}

impl PuzzleTask {
    /// What was carried, cut for the slots of the plan's micro-batches.
    fn read_carries(&self, path: &Path) -> Result<Vec<Carry>> {
        let read = candle_core::safetensors::load(path, &Device::Cpu)?;
        let get = |name: &str| {
            let missing = || Error::format(path, format!("`{name}` is missing"));
            read.get(name).ok_or_else(missing)
        };
        let cells: Vec<Vec<u32>> = get("cells")?.to_vec2()?;
        let labels: Vec<Vec<u32>> = get("labels")?.to_vec2()?;
        let puzzles: Vec<u32> = get("puzzles")?.flatten_all()?.to_vec1()?;
        let steps: Vec<u32> = get("steps")?.to_vec1()?;
        let halted: Vec<u32> = get("halted")?.to_vec1()?;
        let slots = cells.len();
        if slots != self.rows * self.accumulate
            || [labels.len(), puzzles.len(), steps.len(), halted.len()] != [slots; 4]
        {
            let wanted = self.rows * self.accumulate;
            return Err(Error::format(
                path,
                format!("has {slots} slots, and the plan has {wanted}"),
            ));
        }
        let to_device = |name: &str, from: usize| -> Result<Tensor> {
            let part = get(name)?.narrow(0, from, self.rows)?;
            Ok(part
                .to_dtype(self.model.dtype())?
                .to_device(self.model.device())?)
        };
        let carry = |from: usize| -> Result<Carry> {
            let row = |slot: usize| {
                Arc::new(Row {
                    cells: cells[slot].clone(),
                    labels: labels[slot].clone(),
                    puzzle: puzzles[slot],
                })
            };
            let part = from..from + self.rows;
            Ok(Carry {
                rows: part.clone().map(row).collect(),
                state: State {
                    answer: to_device("answer", from)?,
                    thoughts: to_device("thoughts", from)?,
                },
                steps: steps[part.clone()].to_vec(),
                halted: halted[part].iter().map(|it| *it > 0).collect(),
            })
        };
        (0..self.accumulate)
            .map(|place| carry(place * self.rows))
            .collect()
    }
}

/// A puzzle as it was filled in.
fn exhibit(row: &Row, guess: &[u32], size: usize) -> Exhibit {
    let mark = |cell: usize| {
        let meaning = match (row.cells[cell] > 1, guess[cell] == row.labels[cell]) {
            (true, _) => Meaning::Given,
            (false, true) => Meaning::Right,
            (false, false) => Meaning::Wrong,
        };
        Mark {
            row: cell / size,
            column: cell % size,
            meaning,
        }
    };
    let open = (0..guess.len()).filter(|cell| row.cells[*cell] <= 1);
    let (open, wrong) = open.fold((0, 0), |(open, wrong), cell| {
        (
            open + 1,
            wrong + usize::from(guess[cell] != row.labels[cell]),
        )
    });
    let symbol = |symbol: &u32| match symbol {
        0 | 1 => ".".to_owned(),
        digit => source::text(&[(digit - 1) as u8]),
    };
    let cell = |cell: usize| match row.cells[cell] {
        0 | 1 => symbol(&guess[cell]),
        given => symbol(&given),
    };
    Exhibit::Grid {
        title: match wrong {
            0 => "solved".to_owned(),
            _ => format!("{} of {open} right", open - wrong),
        },
        rows: (0..size)
            .map(|line| (line * size..(line + 1) * size).map(cell).collect())
            .collect(),
        marks: (0..guess.len()).map(mark).collect(),
    }
}
