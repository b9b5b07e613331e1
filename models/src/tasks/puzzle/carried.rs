//! What is thought about at the moment, in a file of a checkpoint: the states, the puzzles, and how long each was thought about.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    sync::Arc,
};

use candle_core::{DType, Device, Tensor};

use super::halting::{Carry, NO_LABEL, Row};
use crate::{
    Error, Result,
    arch::trm::{State, Trm},
    checkpoint::{save::write_safetensors, tensors::read_tensors},
    train::group::Together,
};

const FILE: &str = "carry.safetensors";

/// Writes what is carried in all micro-batches of a step. Before the first step that is nothing.
pub(super) fn save<'a>(
    carries: impl Iterator<Item = (&'a usize, &'a Carry)>,
    folder: &Path,
) -> Result<()> {
    let carries: BTreeMap<_, _> = carries.collect();
    if carries.is_empty() {
        return Ok(());
    }
    let joined = |of: &dyn Fn(&Carry) -> Result<Tensor>| -> Result<Tensor> {
        let all: Vec<Tensor> = carries.values().copied().map(of).collect::<Result<_>>()?;
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
    let on_host = |state: &Tensor| Ok(state.to_device(&Device::Cpu)?);
    let is_halted = |carry: &Carry| carry.halted.iter().map(|it| u32::from(*it)).collect();
    let carried = [
        ("answer", joined(&|carry| on_host(&carry.state.answer))?),
        ("thoughts", joined(&|carry| on_host(&carry.state.thoughts))?),
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
) -> Result<BTreeMap<usize, Carry>> {
    let path = folder.join(FILE);
    if !path.is_file() {
        return Ok(BTreeMap::new());
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
    (0..accumulate)
        .map(|place| Ok((place, carry(place * rows)?)))
        .collect()
}

/// What the other ranks carry in their micro-batches of a step, on the processor: where this is the one that saves. Each rank calls it
/// with what it carries, of which it keeps its own. All have some, or none has.
pub(super) fn gather(
    carries: &mut BTreeMap<usize, Carry>,
    accumulate: usize,
    together: &mut Together,
) -> Result<BTreeMap<usize, Carry>> {
    let share = together.share();
    let mut others = BTreeMap::new();
    let Some(any) = carries.values().next().cloned() else {
        return Ok(others);
    };
    carries.retain(|place, _| share.has(*place));
    let (dtype, device) = (any.state.answer.dtype(), any.state.answer.device().clone());
    let shapes = numbers_of(&any, &device)?.map(|it| it.shape().clone());
    // The other adds its own to nothing.
    let nothing = |shape| Ok(Tensor::zeros(shape, DType::F32, &device)?);
    for place in 0..accumulate {
        let own = carries.get(&place);
        let numbers = match own {
            Some(carry) => numbers_of(carry, &device)?.to_vec(),
            None => shapes.iter().map(nothing).collect::<Result<_>>()?,
        };
        let sums = together.sum_tensors(numbers)?;
        if share.is_first() && own.is_none() {
            others.insert(place, carry_of(&sums, dtype)?);
        }
    }
    Ok(others)
}

/// Tensors of a carry that are added up.
const PARTS: usize = 3;

/// The answer, the thoughts, and a row of whole numbers for each slot, as f32, which has them exactly: the puzzle, its steps, whether it
/// halted, its cells and its labels.
fn numbers_of(carry: &Carry, device: &Device) -> Result<[Tensor; PARTS]> {
    let rows = carry.rows.iter().zip(&carry.steps).zip(&carry.halted);
    let rows = rows.map(|((row, steps), halted)| {
        let label = |label: &u32| match *label {
            NO_LABEL => -1.0,
            label => label as f32,
        };
        let mut numbers = vec![
            row.puzzle as f32,
            *steps as f32,
            f32::from(u8::from(*halted)),
        ];
        numbers.extend(row.cells.iter().map(|cell| *cell as f32));
        numbers.extend(row.labels.iter().map(label));
        numbers
    });
    let own =
        |state: &Tensor| -> Result<Tensor> { Ok(state.to_dtype(DType::F32)?.force_contiguous()?) };
    Ok([
        own(&carry.state.answer)?,
        own(&carry.state.thoughts)?,
        Tensor::new(rows.collect::<Vec<_>>(), device)?,
    ])
}

/// The carry of these numbers.
fn carry_of(numbers: &[Tensor], dtype: DType) -> Result<Carry> {
    let broken = || Error::Data("ranks carry other things than puzzles".to_owned());
    let [answer, thoughts, rows] = numbers else {
        return Err(broken());
    };
    let (mut all, mut steps, mut halted) = (Vec::new(), Vec::new(), Vec::new());
    for numbers in rows.to_vec2::<f32>()? {
        let [puzzle, thought, has_halted, cells_and_labels @ ..] = &numbers[..] else {
            return Err(broken());
        };
        let (cells, labels) = cells_and_labels.split_at(cells_and_labels.len() / 2);
        let label = |label: &f32| match *label < 0.0 {
            true => NO_LABEL,
            false => *label as u32,
        };
        all.push(Arc::new(Row {
            cells: cells.iter().map(|it| *it as u32).collect(),
            labels: labels.iter().map(label).collect(),
            puzzle: *puzzle as u32,
        }));
        steps.push(*thought as u32);
        halted.push(*has_halted > 0.0);
    }
    Ok(Carry {
        rows: all,
        state: State {
            answer: answer.to_dtype(dtype)?.to_device(&Device::Cpu)?,
            thoughts: thoughts.to_dtype(dtype)?.to_device(&Device::Cpu)?,
        },
        steps,
        halted,
    })
}
