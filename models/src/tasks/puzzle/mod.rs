//! Puzzles: grids that a Tiny Recursive Model fills in.
//!
//! - [`request`], [`recipe`], `resolve`: what is asked, what is planned, and what is chosen
//! - [`fields`]: what a run file can say about it, for a person
//! - `footprint`: what a run takes
//! - [`overrides`]: the command line of the reference
//! - [`curriculum`]: fewer cycles in the first parts of a run
//! - [`exchange`]: weights from and for the reference
//! - [`grid`], [`examples`]: what grids are and how they are seen otherwise, and in which order examples come
//! - [`source`]: puzzles in files; [`table`], [`arc_files`] and [`reference`] with [`npy`] read their layouts
//! - [`sudoku`], [`maze`], [`arc`]: what is right, and what is the same seen otherwise
//! - [`make`]: puzzles of our own
//! - [`board`], [`question`], [`solve`]: what a trained model solves, a puzzle as a person gives it, and how it is solved, step by step
//! - [`learned`]: which tasks of ARC a model learned from, in a checkpoint
//! - [`halting`]: how long puzzles are thought about, and what is learned from a step
//! - `carried`: what is thought about at the moment, in a checkpoint
//! - [`evaluate`], [`vote`]: how well it solves what is held out

pub mod arc;
pub mod arc_files;
pub mod board;
mod carried;
pub mod curriculum;
pub mod evaluate;
pub mod examples;
pub mod exchange;
pub mod fields;
mod footprint;
pub mod grid;
pub mod halting;
pub mod kind;
pub mod learned;
pub mod make;
pub mod maze;
pub mod npy;
pub mod overrides;
pub mod question;
pub mod recipe;
pub mod reference;
pub mod request;
mod resolve;
pub mod solve;
pub mod source;
pub mod sudoku;
pub mod table;
pub mod vote;

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap},
    path::Path,
    sync::Arc,
};

use candle_core::{Device, Tensor};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

pub use kind::Puzzle;

use crate::{
    Error, Result,
    arch::{
        Weights,
        initial::InitialWeights,
        trm::{PUZZLES, State, Trm},
    },
    checkpoint::{folder::WEIGHTS, save::write_safetensors},
    ops::attention::Spans,
    optim::{DecayScope, OwnRule, OwnRules, sign_sgd::SignSgd},
    parameters::Parameters,
    random::Random,
    tape::{FixedPass, Left, Tape, Value},
    train::{
        Measuring, TrainPlan,
        exhibit::Exhibit,
        group::Together,
        task::{BatchSize, Evaluation, Metric, Task, load_weights},
    },
};
use board::Board;
use curriculum::Curriculum;
use examples::{Examples, Pass, Pick};
use exchange::StartWeights;
use halting::{Carry, Row, Thinking, Weighing, explore};
use learned::Learned;
use request::{ModelRequest, PuzzlePlan};
use source::PuzzleSet;
use vote::Votes;

/// How many held-out puzzles are shown.
const SHOWN: usize = 3;

/// What was looked up before a run can be planned.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PuzzleFacts {
    /// Cells of a puzzle.
    pub cells: usize,
    /// Symbols that a cell can have, with the empty one and that of no cell.
    pub symbols: usize,
    /// Examples to learn from in a pass.
    pub rows: usize,
    /// Examples kept aside.
    pub held_out_rows: usize,
    /// Vectors of the table.
    pub ids: usize,
    /// What the file that the run starts from says of its model.
    pub started: Option<ModelRequest>,
}

/// A model that learns puzzles.
pub struct PuzzleTask {
    model: Trm,
    puzzles: PuzzleSet,
    /// Which of the held-out examples are measured with during the run.
    measured: Vec<usize>,
    /// Those that are measured with when all steps are done: so many, or all for 0.
    measured_at_end: usize,
    /// What was answered to tasks of ARC in all evaluations.
    votes: Votes,
    augment: bool,
    label_smoothing: f64,
    halting_weight: f64,
    curriculum: Curriculum,
    steps: usize,
    own_rules: OwnRules,
    seed: u64,
    /// Slots of a micro-batch, and micro-batches of a step.
    rows: usize,
    accumulate: usize,
    position: Position,
    pass: Pass,
    /// What is carried, by the places of micro-batches in a step. Empty before the first; of several ranks each has its own.
    carries: BTreeMap<usize, Carry>,
    /// What other ranks carried when the run was last saved.
    others: BTreeMap<usize, Carry>,
    /// What is carried, at the beginning of the step.
    before: BTreeMap<usize, Carry>,
    /// What is thought about in the passes that have begun, by the numbers of their micro-batches.
    begun: RefCell<HashMap<usize, Carry>>,
    /// What the places of the puzzles of a micro-batch see.
    spans: Spans,
}

/// How far the task is in its data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct Position {
    /// Micro-batches that were taken.
    batches: usize,
    /// The pass over the data, from 0.
    pass: usize,
    /// Examples of the pass that were offered.
    offset: usize,
}

/// Puzzles that are offered to the slots of a micro-batch.
pub struct Offer {
    /// Which micro-batch of all it is.
    number: usize,
    /// The examples, in the order of the slots.
    picks: Vec<Pick>,
}

impl PuzzleTask {
    fn new(plan: &TrainPlan<PuzzlePlan>, puzzles: PuzzleSet, device: &Device) -> Result<Self> {
        let (run, task) = (&plan.run, &plan.task);
        let planned = [
            task.trm.seq_len,
            task.trm.vocab_size,
            task.trm.num_puzzle_identifiers,
        ];
        let found = [puzzles.shape.cells(), puzzles.shape.symbols(), puzzles.ids];
        if planned != found {
            let numbers = |[cells, symbols, ids]: [usize; 3]| {
                format!("{cells} cells, {symbols} symbols and {ids} vectors")
            };
            return Err(Error::Data(format!(
                "the plan is for puzzles of {}, and the data has puzzles of {}",
                numbers(planned),
                numbers(found)
            )));
        }
        let mut weights: Box<dyn Weights> = match &task.start_from {
            Some(file) => Box::new(StartWeights::open(file, &task.trm, task.folder(), device)?),
            None => Box::new(InitialWeights::new(run.seed, device)),
        };
        let model = Trm::new(
            task.trm.clone(),
            weights.as_mut(),
            run.tensor_dtype().into(),
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
            measured: puzzles.measured(task.data.evaluate_puzzles, run.seed),
            measured_at_end: task.data.evaluate_at_end,
            votes: Votes::default(),
            puzzles,
            augment: task.data.augment,
            label_smoothing: task.data.label_smoothing,
            halting_weight: task.halting_weight,
            curriculum: Curriculum::read(&task.curriculum, &task.trm)?,
            steps: run.steps,
            own_rules: OwnRules::from([(PUZZLES.to_owned(), table)]),
            seed: run.seed,
            rows: run.batch.rows,
            accumulate: run.batch.accumulate,
            position: Position::default(),
            pass: Pass::default(),
            carries: BTreeMap::new(),
            others: BTreeMap::new(),
            before: BTreeMap::new(),
            begun: RefCell::default(),
            spans: model.spans(run.batch.rows),
            model,
        })
    }

    /// The held-out puzzles that are shown, each with its title. Of ARC, tasks as they are and not several looks of one.
    fn shown(&self) -> Vec<(String, Arc<Row>)> {
        if let Examples::Arc(arc) = &self.puzzles.held_out {
            return arc.shown(SHOWN);
        }
        let shown = (1..).zip(self.measured.iter().take(SHOWN));
        shown
            .map(|(number, at)| (format!("Puzzle {number}"), Arc::new(self.held_out(*at))))
            .collect()
    }

    /// The next step of thinking about what a micro-batch has, and what it is offered where there is room.
    fn thinking(&self, offer: &Offer, targets: f64, is_recorded: bool) -> Result<Thinking> {
        let (step, place) = self.place(offer);
        let mut carry = match self.carries.get(&place) {
            Some(carry) => carry.clone(),
            None => {
                let train = &self.puzzles.train;
                let any = Arc::new(train.row(offer.picks[0], self.puzzles.shape, None));
                Carry::new(&self.model, &vec![any; self.rows])?
            }
        };
        // Only what finds room is made.
        let first = offer.number * self.rows;
        carry.refill(|slot| self.offered(offer.picks[slot], first + slot));
        let share = step as f64 / self.steps.max(1) as f64;
        let model = self.model.with_cycles(self.curriculum.at(share));
        let weighing = Weighing {
            slot: 1.0 / targets,
            smoothing: self.label_smoothing,
            halting: self.halting_weight,
        };
        let thinking = carry.thinking(model, self.spans.clone(), weighing, is_recorded)?;
        self.begun.borrow_mut().insert(offer.number, carry);
        Ok(thinking)
    }

    /// Carries on what a step of thinking left.
    fn follow(&mut self, offer: &Offer, left: Left) -> Result<()> {
        let broken = || Error::Data("a step of thinking left no state".to_owned());
        let [answer, thoughts, wants] = <[Tensor; 3]>::try_from(left).map_err(|_| broken())?;
        let begun = self.begun.get_mut().remove(&offer.number);
        let mut carry = begun.ok_or_else(broken)?;
        carry.thought(State { answer, thoughts });
        let (step, place) = self.place(offer);
        let config = self.model.config();
        let slots = self.rows * self.accumulate;
        let (chance, most) = (config.halt_exploration_prob, config.halt_max_steps);
        let least = explore(self.seed, step, slots, chance, most);
        let least = least[place * self.rows..][..self.rows].to_vec();
        carry.halt(most, &wants.to_vec1::<f32>()?, &least);
        self.carries.insert(place, carry);
        Ok(())
    }

    /// The step that a micro-batch belongs to, and its place in it.
    fn place(&self, offer: &Offer) -> (usize, usize) {
        (
            offer.number / self.accumulate,
            offer.number % self.accumulate,
        )
    }

    /// The example that is offered as number `at` of the run, in a look of its own.
    fn offered(&self, pick: Pick, at: usize) -> Arc<Row> {
        let mut random = Random::for_purpose(self.seed, &format!("look of puzzle {at}"));
        let random = self.augment.then_some(&mut random);
        Arc::new(self.puzzles.train.row(pick, self.puzzles.shape, random))
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
        let Position { pass, offset, .. } = &mut self.position;
        let train = &self.puzzles.train;
        let next = |_| self.pass.next(train, self.seed, pass, offset);
        let picks: Option<Vec<Pick>> = (0..self.rows).map(next).collect();
        let nothing = || Error::Data("no group of the data has an example".to_owned());
        Ok(Offer {
            number,
            picks: picks.ok_or_else(nothing)?,
        })
    }

    fn size(&self, _: &Offer) -> BatchSize {
        BatchSize {
            targets: self.rows,
            units: self.rows,
        }
    }

    fn loss(&mut self, tape: &Tape, offer: &Offer, targets: f64) -> Result<Value> {
        let thinking = self.thinking(offer, targets, false)?;
        let loss = thinking.loss(tape)?;
        self.follow(offer, thinking.take_left())?;
        Ok(loss)
    }

    fn fixed_pass<'a>(
        &'a self,
        offer: &'a Offer,
        targets: f64,
    ) -> Result<Option<Box<dyn FixedPass + 'a>>> {
        // Which vectors of a table are used is another list for each pass.
        if self.model.config().num_puzzle_identifiers > 1 {
            return Ok(None);
        }
        self.spans.on_device(self.model.device())?;
        let thinking = self.thinking(offer, targets, true)?;
        Ok(Some(Box::new(thinking)))
    }

    fn passed(&mut self, offer: &Offer, left: Left) -> Result<()> {
        // What a recorded pass leaves is there until the next.
        let kept = left.iter().map(Tensor::force_contiguous);
        self.follow(offer, kept.collect::<Result<_, _>>()?)
    }

    fn gather(&mut self, together: &mut Together) -> Result<()> {
        self.others = carried::gather(&mut self.carries, self.accumulate, together)?;
        Ok(())
    }

    fn begin_losses(&mut self) -> Result<()> {
        self.begun.get_mut().clear();
        self.before = self.carries.clone();
        Ok(())
    }

    fn undo_losses(&mut self) -> Result<()> {
        self.carries = self.before.clone();
        Ok(())
    }

    fn evaluate(
        &mut self,
        batches: usize,
        measuring: &mut Measuring,
    ) -> Result<Option<Evaluation>> {
        self.evaluate_some(batches, measuring)
    }

    fn judged_by(&self) -> Option<&'static str> {
        Some(evaluate::EXACT)
    }

    fn examine(&mut self, measuring: &mut Measuring) -> Result<Vec<Metric>> {
        self.evaluate_at_end(measuring)
    }

    fn show(&mut self) -> Result<Vec<Exhibit>> {
        let shape = self.puzzles.shape;
        let rows = self.shown();
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        if let Some(board) = Board::of(shape) {
            return solve::exhibits(&self.model, shape, &board, &rows);
        }
        let rows: Vec<Arc<Row>> = rows.into_iter().map(|it| it.1).collect();
        let (answers, _) = self.answer(&rows)?;
        let all = rows.iter().zip(answers);
        let exhibit =
            |(row, answer): (&Arc<Row>, evaluate::Answer)| shape.exhibit(row, &answer.cells);
        Ok(all.map(exhibit).collect())
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
        if let Some(board) = Board::of(self.puzzles.shape) {
            solve::save(&board, self.model.config(), folder)?;
        }
        if let Examples::Arc(examples) = &self.puzzles.train {
            Learned::save(&examples.tasks, folder)?;
        }
        self.save_votes(folder)?;
        carried::save(self.carries.iter().chain(&self.others), folder)
    }

    fn load(&mut self, folder: &Path) -> Result<()> {
        load_weights(self.parameters(), folder)?;
        self.load_votes(folder)?;
        self.carries = carried::load(folder, &self.model, self.rows, self.accumulate)?;
        Ok(())
    }

    fn row_length(&mut self, rows: usize) -> (usize, f64) {
        (1, rows as f64)
    }

    fn held_out_batches(&self) -> usize {
        self.measured.len().div_ceil(self.rows.max(1))
    }
}
