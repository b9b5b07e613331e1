//! Puzzles, and a model that solves them, which is open in an engine.

#[cfg(feature = "gui")]
pub(crate) mod view;

use std::path::{Path, PathBuf};

use models::{
    device::RequestedDevice,
    limits,
    tasks::{
        TaskPlan,
        puzzle::{
            board::Board,
            question::{Held, Question},
            solve::{Effort, PUZZLE, Solved, SolvedAfter, Thinking},
            source::{Choice, PuzzleSet},
        },
    },
};

use super::{Host, uses::how_to_use};
use crate::{
    jobs::engine::Engine,
    store::{
        in_use::{InUse, Work},
        runs::{self, Named, Run, find_or_checkpoint},
    },
    wire::{
        engine::{Ask, Reply},
        error::{AppError, Result},
    },
};

/// A puzzle model that is open to solve puzzles.
pub(crate) struct OpenSolver {
    engine: Engine,
    /// The puzzles that its run kept aside, where a page shows them.
    pub(crate) held_out: Option<PuzzleSet>,
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
    /// Opens what a name means to solve puzzles: a run that learned puzzles, its folder, or the folder of a checkpoint.
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
            held_out: None,
            board,
            steps,
            weights,
            warnings,
            in_use: place.in_use,
        })
    }

    /// The folder with the puzzle model that a name means.
    fn solver_folder(&self, name: &str) -> Result<PathBuf> {
        let called = ["puzzle model", "puzzles"];
        let run = match find_or_checkpoint(&self.paths, name, PUZZLE, called)? {
            Named::Checkpoint(folder) => return Ok(folder),
            Named::Run(run) => run,
        };
        if let Ok(plan) = run.plan() {
            if !matches!(plan.task, TaskPlan::Puzzle(_)) {
                return Err(AppError::invalid(format!(
                    "`{}` learned no puzzles, so it can’t solve one",
                    run.id
                ))
                .with_hint(how_to_use(&run)));
            }
            check_use(&run.id, &plan.task)?;
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

    /// The puzzles of a run. One at least is kept aside that a person could give.
    pub(crate) fn puzzles_of(&self, name: &str) -> Result<PuzzleSet> {
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
        check_use(&run.id, &plan.task)?;
        let TaskPlan::Puzzle(task) = &plan.task else {
            return Err(AppError::invalid(format!(
                "`{}` learned no puzzles",
                run.id
            )));
        };
        // Of a task, nobody wants its other looks here.
        let choice = Choice {
            augmentations: 0,
            ..Choice::of(&task.data, plan.run.seed)
        };
        let set = PuzzleSet::read(&task.data.files, &choice)?;
        match set.held_count() {
            0 => Err(AppError::invalid(format!(
                "`{}` kept no puzzle aside that can be given",
                run.id
            ))),
            _ => Ok(set),
        }
    }
}

/// The text of a puzzle in a file.
pub(crate) fn puzzle_text(path: &Path) -> Result<String> {
    let bytes = limits::PUZZLE.read(path, "read the puzzle")?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to() + 1;
        let problem = format!("the file of the puzzle is no text: byte {at} is no letter");
        AppError::invalid(format!("{problem}: `{}`", path.display()))
    })
}

/// Whether what a run learned can be solved.
fn check_use(run: &str, task: &TaskPlan) -> Result<()> {
    match task {
        TaskPlan::Puzzle(_) if task.uses().is_empty() => Err(AppError::invalid(format!(
            "`{run}` learned grids of which only the numbers are known, and only Sudoku, mazes and tasks of ARC can be solved"
        ))
        .with_hint("its page shows what it answers to held-out puzzles")),
        _ => Ok(()),
    }
}

impl OpenSolver {
    /// Reads a puzzle.
    pub(crate) fn read(&mut self, puzzle: &str) -> Result<Question> {
        let mut hear = |reply| match reply {
            Reply::PuzzleRead { question } => Some(*question),
            _ => None,
        };
        let (puzzle, part) = (puzzle.to_owned(), 0);
        let ask = Ask::ReadPuzzle { puzzle, part };
        let read = self.engine.ask_for(&ask, &mut hear, &|| false)?;
        read.ok_or_else(|| AppError::failed("the engine ended without a word"))
    }

    /// Solves a puzzle, or one of its questions, from 0. `show` gets each step of thinking as it is done; `stop` ends it there.
    pub(crate) fn solve(
        &mut self,
        (puzzle, part): (&str, usize),
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
        let ask = Ask::Solve {
            puzzle: puzzle.to_owned(),
            part,
            effort,
        };
        let solved = self.engine.ask_for(&ask, &mut hear, stop)?;
        solved.ok_or_else(|| AppError::failed("the engine ended without a word"))
    }

    /// Counts how many of some puzzles are solved after each of these numbers of steps. Nothing when it was stopped.
    pub(crate) fn count_solved(
        &mut self,
        puzzles: Vec<Held>,
        steps: &[usize],
        progress: &mut dyn FnMut(usize),
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<Vec<SolvedAfter>>> {
        let _in_use = InUse::begin(&self.in_use, Work::Answer);
        let ask = Ask::CountSolved {
            puzzles,
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
