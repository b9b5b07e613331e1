//! What puzzles say as a kind of learning.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use candle_core::Device;

use super::{
    PuzzleFacts, PuzzleTask,
    fields::FIELDS,
    footprint,
    request::{PuzzlePlan, PuzzleRequest},
    resolve::{self, HELD_OUT},
    source::PuzzleSet,
};
use crate::{
    Result,
    arch::trm::TrmConfig,
    data::source::places,
    random::stable_hash,
    train::{
        TrainPlan, TrainRequest, defaults,
        estimate::Estimate,
        fields::Field,
        kind::{Basis, Kind, Subject},
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
    /// When each was changed, and how large it is.
    changed: Vec<Option<(SystemTime, u64)>>,
    held_out: f64,
    seed: u64,
}

impl Kind for Puzzle {
    const NAME: &'static str = "puzzle";
    const UNIT: &'static str = "puzzles";
    const FIELDS: &'static [Field] = FIELDS;
    const USES: &'static [&'static str] = &["solve"];
    const SHAPED_BY: &'static [&'static str] = &["trm"];

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
        let changed = |path: &PathBuf| {
            let file = fs::metadata(path).ok()?;
            Some((file.modified().ok()?, file.len()))
        };
        let key = Key {
            files: data.files.clone(),
            changed: data.files.iter().map(changed).collect(),
            held_out: data.held_out.unwrap_or(HELD_OUT).clamp(0.0, 0.5),
            seed: request.run.seed.unwrap_or(defaults::SEED),
        };
        if let Some(known) = known.filter(|known| known.key == key) {
            return Ok(Some(known.clone()));
        }
        let puzzles = PuzzleSet::read(&key.files, key.held_out, key.seed)?;
        Ok(Some(Arc::new(ReadPuzzles { key, puzzles })))
    }

    fn facts(_: &TrainRequest<PuzzleRequest>, read: Option<&ReadPuzzles>) -> Result<PuzzleFacts> {
        let of = |read: &ReadPuzzles| PuzzleFacts {
            cells: read.puzzles.shape.cells(),
            symbols: read.puzzles.shape.size + 2,
            rows: read.puzzles.train.len(),
            held_out_rows: read.puzzles.held_out.len(),
        };
        Ok(read.map(of).unwrap_or_default())
    }

    fn open(plan: &TrainPlan<PuzzlePlan>, _: Option<&Path>, device: &Device) -> Result<PuzzleTask> {
        let data = &plan.task.data;
        let puzzles = PuzzleSet::read(&data.files, data.held_out, plan.run.seed)?;
        PuzzleTask::new(plan, puzzles, device)
    }

    fn sources(plan: &PuzzlePlan) -> BTreeMap<String, PathBuf> {
        places(&plan.data.files)
    }

    fn subject(plan: &PuzzlePlan) -> Subject {
        let config = serde_json::to_string(&plan.trm).unwrap_or_default();
        let size = plan.trm.seq_len.isqrt();
        Subject {
            model: format!("{:016x}", stable_hash(0, config.as_bytes())),
            method: Self::NAME.to_owned(),
            what: format!("a solver of {size} by {size} Sudoku"),
            base: None,
        }
    }

    fn smaller(_: &PuzzlePlan) -> Option<String> {
        Some("start it with a smaller model (`trm.hidden_size`)".to_owned())
    }
}
