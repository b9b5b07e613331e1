//! What puzzles say as a kind of learning.

use std::{
    collections::BTreeMap,
    path::{self, Path, PathBuf},
    sync::Arc,
};

use candle_core::Device;

use super::{
    PuzzleFacts, PuzzleTask,
    exchange::{self, StartWeights},
    fields::FIELDS,
    footprint,
    grid::Shape,
    request::{PuzzlePlan, PuzzleRequest},
    resolve::{self, AUGMENTATIONS, HELD_OUT},
    source::{Choice, PuzzleSet, TRAIN, places},
};
use crate::{
    Error, Result,
    arch::trm::TrmConfig,
    data::source::{Changed, changed},
    random::stable_hash,
    train::{
        TrainPlan, TrainRequest, defaults,
        estimate::Estimate,
        fields::Field,
        kind::{Basis, Kind, RunPlace, Subject, Tiny},
        resolve::Resolver,
    },
};

/// Tiny Recursive Models learn to fill in grids.
pub enum Puzzle {}

/// Puzzles that were read for a plan.
pub struct ReadPuzzles {
    key: Key,
    puzzles: PuzzleSet,
}

/// What was read: the same key means the same puzzles.
#[derive(PartialEq)]
struct Key {
    files: Vec<PathBuf>,
    changed: Vec<Changed>,
    choice: Choice,
}

impl Kind for Puzzle {
    const NAME: &'static str = "puzzle";
    const UNIT: &'static str = "puzzles";
    const FIELDS: &'static [Field] = FIELDS;
    const SHAPED_BY: &'static [&'static str] = &["trm"];
    const TINY: Option<Tiny> = Some(Tiny {
        files: tiny_files,
        request: r#"{"trm": {"hidden_size": 32, "num_heads": 2, "halt_max_steps": 2}, "data": {"held_out": 0.25},
            "batch": {"rows": 4}}"#,
    });

    type Request = PuzzleRequest;
    type Plan = PuzzlePlan;
    type Facts = PuzzleFacts;
    type Read = ReadPuzzles;
    type Shape = TrmConfig;
    type Task = PuzzleTask;

    fn files(request: &mut PuzzleRequest) -> &mut Vec<PathBuf> {
        &mut request.data.files
    }

    fn data(plan: &PuzzlePlan) -> &[PathBuf] {
        &plan.data.files
    }

    fn resolve(resolver: &mut Resolver<Self>) -> (PuzzlePlan, Basis) {
        resolve::resolve(resolver)
    }

    fn shape(plan: &PuzzlePlan, _: &PuzzleFacts) -> Option<TrmConfig> {
        Some(plan.trm.clone())
    }

    fn read_shape(plan: &PuzzlePlan) -> Result<TrmConfig> {
        // A person can have changed the sizes of a plan that was made here.
        plan.trm.check()?;
        Ok(plan.trm.clone())
    }

    fn estimate(plan: &TrainPlan<PuzzlePlan>, shape: &TrmConfig) -> Estimate {
        footprint::estimate(plan, shape)
    }

    fn read(
        request: &TrainRequest<PuzzleRequest>,
        known: Option<&Arc<ReadPuzzles>>,
    ) -> Result<Option<Arc<ReadPuzzles>>> {
        let data = &request.task.data;
        if data.files.is_empty() {
            return Ok(None);
        }
        let key = Key {
            files: data.files.clone(),
            changed: changed(places(&data.files).values()),
            choice: Choice {
                held_out: data.held_out.unwrap_or(HELD_OUT).clamp(0.0, 0.5),
                subsample_size: data.subsample_size.unwrap_or(0),
                min_difficulty: data.min_difficulty.unwrap_or(0),
                augmentations: data.augmentations.unwrap_or(AUGMENTATIONS),
                seed: request.run.seed.unwrap_or(defaults::SEED),
            },
        };
        if let Some(known) = known.filter(|known| known.key == key) {
            return Ok(Some(known.clone()));
        }
        let puzzles = PuzzleSet::read(&key.files, &key.choice)?;
        Ok(Some(Arc::new(ReadPuzzles { key, puzzles })))
    }

    fn facts(
        request: &TrainRequest<PuzzleRequest>,
        read: Option<&ReadPuzzles>,
    ) -> Result<PuzzleFacts> {
        let of = |read: &ReadPuzzles| PuzzleFacts {
            cells: read.puzzles.shape.cells(),
            symbols: read.puzzles.shape.symbols(),
            rows: read.puzzles.train.per_pass(),
            held_out_rows: read.puzzles.held_out.len(),
            ids: read.puzzles.ids,
            started: None,
        };
        let mut facts = read.map(of).unwrap_or_default();
        if let Some(file) = &request.task.start_from {
            facts.started = Some(exchange::shape(file, facts.cells)?);
        }
        Ok(facts)
    }

    fn find_files(request: &mut PuzzleRequest) -> Result<()> {
        for file in request.data.files.iter_mut().chain(&mut request.start_from) {
            *file = path::absolute(&file).map_err(Error::file("find the file", &file))?;
        }
        Ok(())
    }

    fn seen_from(request: &mut PuzzleRequest, folder: &Path) {
        for file in request.data.files.iter_mut().chain(&mut request.start_from) {
            *file = folder.join(&file);
        }
    }

    fn warnings(plan: &TrainPlan<PuzzlePlan>, _: &ReadPuzzles) -> Result<Vec<String>> {
        let task = &plan.task;
        let Some(file) = &task.start_from else {
            return Ok(Vec::new());
        };
        Ok(StartWeights::open(file, &task.trm, task.folder(), &Device::Cpu)?.notes)
    }

    fn open(plan: &TrainPlan<PuzzlePlan>, place: &RunPlace) -> Result<PuzzleTask> {
        let data = &plan.task.data;
        let puzzles = PuzzleSet::read(&data.files, &Choice::of(data, plan.run.seed))?;
        PuzzleTask::new(plan, puzzles, place.device)
    }

    fn sources(plan: &PuzzlePlan) -> BTreeMap<String, PathBuf> {
        let mut sources = places(&plan.data.files);
        let start = plan.start_from.clone();
        sources.extend(start.map(|file| ("model/start".to_owned(), file)));
        sources
    }

    /// Grids of which only the numbers are known can’t be solved: nobody could give one, or say whether it is right.
    fn uses(plan: &PuzzlePlan) -> &'static [&'static str] {
        match Shape::of(plan.trm.seq_len, plan.trm.vocab_size) {
            Shape::Other { .. } => &[],
            _ => &["solve"],
        }
    }

    fn subject(plan: &PuzzlePlan) -> Subject {
        let config = serde_json::to_string(&plan.trm).unwrap_or_default();
        let shape = Shape::of(plan.trm.seq_len, plan.trm.vocab_size);
        Subject {
            model: format!("{:016x}", stable_hash(0, config.as_bytes())),
            method: Self::NAME.to_owned(),
            what: format!("a solver of {}", shape.title()),
            base: None,
        }
    }

    fn smaller(_: &PuzzlePlan) -> Option<String> {
        Some("start it with a smaller model (`trm.hidden_size`)".to_owned())
    }
}

/// A few Sudoku of 4 x 4: one solution, of which other cells are open each time.
fn tiny_files() -> Vec<(&'static str, Vec<u8>)> {
    const SOLUTION: &str = "1234341221434321";
    let mut table = "question,answer\n".to_owned();
    for row in 0..SOLUTION.len() {
        let cells = SOLUTION.chars().enumerate();
        let is_open = |at: usize| (at + row) % SOLUTION.len() < 4;
        let question: String = cells
            .map(|(at, it)| if is_open(at) { '.' } else { it })
            .collect();
        table += &format!("{question},{SOLUTION}\n");
    }
    vec![(TRAIN, table.into_bytes())]
}
