//! Puzzles that are filled in, inside an engine.

use std::{ops::ControlFlow, path::Path};

use models::{
    device::{
        self, Checked, Choice,
        dtype::{self, DeviceClass, choose_dtype},
    },
    tasks::puzzle::{solve::Solver, source::Grid},
};

use crate::wire::{
    engine::{Ask, Reply},
    error::Result,
};

/// Opens the puzzle model in a folder in the format that is safest on a device.
pub(super) fn open(folder: &Path, device: &Choice, checked: &Checked) -> Result<Solver> {
    let class = DeviceClass::of(&device.device, checked.bf16);
    let refused = &checked.refused_dtypes;
    let dtype = choose_dtype(class, dtype::Role::Compute, None, refused, false)?.dtype;
    Ok(Solver::open(folder, dtype.into(), &device::open(device)?)?)
}

/// Fills in a grid, or counts how many are solved. `flow` says whether it should end.
pub(super) fn solve_and_count(
    ask: Ask,
    solver: &Solver,
    send: &mut dyn FnMut(Reply),
    flow: &dyn Fn() -> ControlFlow<()>,
) -> Result<()> {
    match ask {
        Ask::Solve { puzzle, effort } => {
            let question = solver.read(&puzzle)?;
            let mut watch = |thinking: &_| {
                let thinking = Clone::clone(thinking);
                send(Reply::Thought { thinking });
                flow()
            };
            let solved = solver.solve(&question, effort, &mut watch)?;
            send(Reply::Solved { solved });
        }
        Ask::CountSolved { puzzles, steps } => {
            let grid = |(puzzle, solution): &(String, String)| -> Result<Grid> {
                Ok(solver.grid(puzzle, solution)?)
            };
            let grids: Vec<Grid> = puzzles.iter().map(grid).collect::<Result<_>>()?;
            let mut watch = |count| {
                send(Reply::SolvedSome { count });
                flow()
            };
            if let Some(marks) = solver.measure(&grids, &steps, &mut watch)? {
                send(Reply::CountedSolved { marks });
            }
        }
        _ => {}
    }
    Ok(())
}
