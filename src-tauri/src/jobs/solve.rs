//! Puzzles that are solved, inside an engine.

use std::{ops::ControlFlow, path::Path};

use models::{
    device::{self, Checked, Choice},
    tasks::puzzle::solve::Solver,
};

use crate::wire::{
    engine::{Ask, Reply},
    error::Result,
};

/// Opens the puzzle model in a folder in the format that is safest on a device.
pub(super) fn open(folder: &Path, device: &Choice, checked: &Checked) -> Result<Solver> {
    let dtype = super::safest_dtype(device, checked)?;
    Ok(Solver::open(folder, dtype.into(), &device::open(device)?)?)
}

/// Reads a puzzle, solves it, or counts how many are solved. `flow` says whether it should end.
pub(super) fn solve_and_count(
    ask: Ask,
    solver: &Solver,
    send: &mut dyn FnMut(Reply),
    flow: &dyn Fn() -> ControlFlow<()>,
) -> Result<()> {
    match ask {
        Ask::ReadPuzzle { puzzle, part } => {
            let question = solver.read(&puzzle, part)?.into();
            send(Reply::PuzzleRead { question });
        }
        Ask::Solve {
            puzzle,
            part,
            effort,
        } => {
            let question = solver.read(&puzzle, part)?;
            let mut watch = |thinking: &_| {
                let thinking = Clone::clone(thinking);
                send(Reply::Thought { thinking });
                flow()
            };
            let solved = solver.solve(&question, effort, &mut watch)?;
            send(Reply::Solved { solved });
        }
        Ask::CountSolved { puzzles, steps } => {
            let mut watch = |count| {
                send(Reply::SolvedSome { count });
                flow()
            };
            if let Some(marks) = solver.measure(&puzzles, &steps, &mut watch)? {
                send(Reply::CountedSolved { marks });
            }
        }
        _ => {}
    }
    Ok(())
}
