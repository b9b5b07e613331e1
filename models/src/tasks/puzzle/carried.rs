//! What is thought about at the moment, in a file of a checkpoint: the states, the puzzles, and how long each was thought about.

use std::{collections::HashMap, path::Path, sync::Arc};

use candle_core::{Device, Tensor};

use super::halting::{Carry, Row};
use crate::{
    Error, Result,
    arch::trm::{State, Trm},
    checkpoint::{save::write_safetensors, tensors::read_tensors},
};

const FILE: &str = "carry.safetensors";

/// Writes what is carried in all micro-batches of a step. Before the first step that is nothing.
pub(super) fn save(carries: &[Carry], folder: &Path) -> Result<()> {
    if carries.is_empty() {
        return Ok(());
    }
    let joined = |of: &dyn Fn(&Carry) -> Result<Tensor>| -> Result<Tensor> {
        let all: Vec<Tensor> = carries.iter().map(of).collect::<Result<_>>()?;
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
    let is_halted = |carry: &Carry| carry.halted.iter().map(|it| u32::from(*it)).collect();
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
        ("halted", column(&is_halted)?),
    ];
    let carried = carried.map(|(name, tensor)| (name.to_owned(), tensor));
    write_safetensors(&folder.join(FILE), &carried.into(), HashMap::new())
}

/// Reads what was carried, for `accumulate` micro-batches of so many rows.
pub(super) fn load(
    folder: &Path,
    model: &Trm,
    rows: usize,
    accumulate: usize,
) -> Result<Vec<Carry>> {
    let path = folder.join(FILE);
    if !path.is_file() {
        return Ok(Vec::new());
    }
    let read = read_tensors(&path)?;
    let get = |name: &str| {
        let missing = || Error::format(&path, format!("`{name}` is missing"));
        read.get(name).ok_or_else(missing)
    };
    let cells: Vec<Vec<u32>> = get("cells")?.to_vec2()?;
    let labels: Vec<Vec<u32>> = get("labels")?.to_vec2()?;
    let puzzles: Vec<u32> = get("puzzles")?.flatten_all()?.to_vec1()?;
    let steps: Vec<u32> = get("steps")?.to_vec1()?;
    let halted: Vec<u32> = get("halted")?.to_vec1()?;
    let (slots, wanted) = (cells.len(), rows * accumulate);
    if slots != wanted || [labels.len(), puzzles.len(), steps.len(), halted.len()] != [slots; 4] {
        return Err(Error::format(
            &path,
            format!("has {slots} slots, and the plan has {wanted}"),
        ));
    }
    let to_device = |name: &str, from: usize| -> Result<Tensor> {
        let part = get(name)?.narrow(0, from, rows)?;
        Ok(part.to_dtype(model.dtype())?.to_device(model.device())?)
    };
    let carry = |from: usize| -> Result<Carry> {
        let row = |slot: usize| {
            Arc::new(Row {
                cells: cells[slot].clone(),
                labels: labels[slot].clone(),
                puzzle: puzzles[slot],
            })
        };
        let part = from..from + rows;
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
    (0..accumulate).map(|place| carry(place * rows)).collect()
}
