//! Puzzles, and a model that fills them in, which is open in an engine.

#[cfg(feature = "gui")]
pub(crate) mod view;

use std::path::{Path, PathBuf};

use models::{
    device::RequestedDevice,
    tasks::{
        TaskPlan,
        puzzle::{
            grid::Shape,
            solve::{Board, Effort, PUZZLE, Solved, SolvedAfter, Thinking},
            source::{Choice, Grid, PuzzleSet, text},
        },
    },
};

use super::Host;
use crate::{
    jobs::engine::Engine,
    store::{
        in_use::{InUse, Work},
        runs::{self, Run},
    },
    wire::{
        engine::{Ask, Reply},
        error::{AppError, Result},
    },
};

/// A puzzle model that is open to fill in grids.
pub(crate) struct OpenSolver {
    engine: Engine,
    /// Its grids.
    pub(crate) board: Board,
    /// The steps of thinking it was trained with.
    pub(crate) steps: usize,
    /// Its weights, counted.
    pub(crate) weights: usize,
    /// What a person should know about where it computes.
    pub(crate) warnings: Vec<String>,
    /// Where it stands who computes on its device.
    in_use: PathBuf,
}

impl Host {
    /// Opens what a name means to fill in grids: a run that learned puzzles, its folder, or the folder of a checkpoint.
    pub(crate) fn open_solver(
        &self,
        name: &str,
        device: Option<RequestedDevice>,
    ) -> Result<OpenSolver> {
        let folder = self.solver_folder(name)?;
        let (place, _, checked) = self.place_to_open(device)?;
        let mut engine = Engine::start(place.kind, None)?;
        let mut hear = |reply| match reply {
            Reply::SolverOpened {
                board,
                steps,
                weights,
                warnings,
            } => Some((board, steps, weights, warnings)),
            _ => None,
        };
        let ask = Ask::OpenSolver {
            folder,
            device: place.device,
            checked,
        };
        let opened = engine.ask_for(&ask, &mut hear, &|| false)?;
        let opened = opened.ok_or_else(|| AppError::failed("the engine opened nothing"));
        let (board, steps, weights, warnings) = opened?;
        Ok(OpenSolver {
            engine,
            board,
            steps,
            weights,
            warnings,
            in_use: place.in_use,
        })
    }

    /// The folder with the puzzle model that a name means.
    fn solver_folder(&self, name: &str) -> Result<PathBuf> {
        let path = Path::new(name);
        if path.join(PUZZLE).is_file() {
            return Ok(path.to_owned());
        }
        let run = runs::find(&self.paths, name).map_err(|error| match path.is_dir() {
            true => AppError::invalid(format!("the folder holds no puzzle model: `{name}`"))
                .with_hint(
                    "name a run that learned puzzles, or the folder of one of its checkpoints",
                ),
            false => error,
        })?;
        if let Ok(plan) = run.plan() {
            if !matches!(plan.task, TaskPlan::Puzzle(_)) {
                return Err(AppError::invalid(format!(
                    "`{}` learned no puzzles, so it can’t fill in a grid",
                    run.id
                ))
                .with_hint(format!("`anneal chat {}` talks to it", run.id)));
            }
            check_shape(&run.id, &plan.task)?;
        }
        let folder = run.best_checkpoint()?;
        match folder.join(PUZZLE).is_file() {
            true => Ok(folder),
            false => Err(AppError::failed(format!(
                "the checkpoint was saved by an earlier version, and does not say what its grids are: `{}`",
                folder.display()
            ))
            .with_hint("resume the run for a few steps; what it saves then can be opened")),
        }
    }

    /// The puzzles that a run never learned from.
    pub(crate) fn held_out_puzzles(&self, name: &str) -> Result<Vec<Grid>> {
        let run = runs::find(&self.paths, name).or_else(|error| {
            // The folder of a checkpoint stands in that of its run.
            let folder = std::path::absolute(name).ok();
            let run = folder.and_then(|it| Some(it.parent()?.parent()?.to_owned()));
            let run = run.filter(|it| it.join("run.yaml").is_file());
            run.map(Run::at).ok_or(error)
        });
        let run = run.map_err(|error| {
            error.with_hint("held-out puzzles are known of runs only; give a puzzle instead")
        })?;
        let plan = run.plan()?;
        check_shape(&run.id, &plan.task)?;
        let TaskPlan::Puzzle(task) = &plan.task else {
            return Err(AppError::invalid(format!(
                "`{}` learned no puzzles",
                run.id
            )));
        };
        let set = PuzzleSet::read(&task.data.files, &Choice::of(&task.data, plan.run.seed))?;
        let held_out: Vec<Grid> = set.sudoku(true, 0).collect();
        match held_out.is_empty() {
            true => Err(AppError::invalid(format!(
                "`{}` kept no Sudoku aside",
                run.id
            ))),
            false => Ok(held_out),
        }
    }
}

/// Whether what a run learned can be filled in.
fn check_shape(run: &str, task: &TaskPlan) -> Result<()> {
    match task {
        TaskPlan::Puzzle(puzzle) if task.uses().is_empty() => {
            let shape = Shape::of(puzzle.trm.seq_len, puzzle.trm.vocab_size);
            let title = shape.title();
            Err(AppError::invalid(format!(
                "`{run}` learned {title}, and only Sudoku can be filled in so far"
            ))
            .with_hint("its page shows what it answers to held-out puzzles"))
        }
        _ => Ok(()),
    }
}

impl OpenSolver {
    /// Fills in a grid. `show` gets each step of thinking as it is done; `stop` ends it there.
    pub(crate) fn solve(
        &mut self,
        puzzle: &str,
        effort: Effort,
        show: &mut dyn FnMut(Thinking),
        stop: &dyn Fn() -> bool,
    ) -> Result<Solved> {
        let _in_use = InUse::begin(&self.in_use, Work::Answer);
        let mut hear = |reply| match reply {
            Reply::Thought { thinking } => {
                show(thinking);
                None
            }
            Reply::Solved { solved } => Some(solved),
            _ => None,
        };
        let puzzle = puzzle.to_owned();
        let solved = self
            .engine
            .ask_for(&Ask::Solve { puzzle, effort }, &mut hear, stop)?;
        solved.ok_or_else(|| AppError::failed("the engine ended without a word"))
    }

    /// Counts how many of some puzzles are solved after each of these numbers of steps. Nothing when it was stopped.
    pub(crate) fn count_solved(
        &mut self,
        grids: &[Grid],
        steps: &[usize],
        progress: &mut dyn FnMut(usize),
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<Vec<SolvedAfter>>> {
        let _in_use = InUse::begin(&self.in_use, Work::Answer);
        let pair = |grid: &Grid| (text(&grid.puzzle), text(&grid.solution));
        let ask = Ask::CountSolved {
            puzzles: grids.iter().map(pair).collect(),
            steps: steps.to_vec(),
        };
        let mut hear = |reply| match reply {
            Reply::SolvedSome { count } => {
                progress(count);
                None
            }
            Reply::CountedSolved { marks } => Some(marks),
            _ => None,
        };
        self.engine.ask_for(&ask, &mut hear, stop)
    }
}
