//! Folders of HDF5 files, one for each block, to and from folders of hidden states.
//!
//! The layout (see [`super::hdf5`]) has no texts and one label a row. What is imported has rows without text, known by their part
//! and number; rows that are zero at every site are those of texts that failed while they were captured, and are left out by name.

use std::{
    collections::BTreeMap,
    fs,
    ops::Range,
    path::{Path, PathBuf},
};

use super::{
    hdf5::{self, LayerFile, LayerHeader, PARTS, PartToWrite, block_of},
    states::{About, ModelIdentity, PromptRule, SourceFile, StateRow, States, sha256},
    states_writer::StatesWriter,
};
use crate::{Error, Result, arch::sites::Site, checkpoint::save::name_of, limits};

/// Of a hundred rows or groups that the data puts into no part, so many are to learn from, and so many more to choose by.
const TRAIN_PERCENT: u64 = 70;
/// See [`TRAIN_PERCENT`].
const VALIDATE_PERCENT: u64 = 15;
/// How many rows that are left out are named.
const LEFT_OUT_NAMED: usize = 1000;

/// What is known of HDF5 files that they don't say themselves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportRequest {
    /// The folder with `layer_{i}_activations.h5`.
    pub folder: PathBuf,
    /// How texts were shown to the model, with `{text}` where they stand.
    pub pattern: Option<String>,
    /// The names of the labels, in the order of their numbers. Without them, a label is called by its number.
    pub label_names: Vec<String>,
    /// What imports them: `anneal 0.1.0`.
    pub written_by: String,
}

/// Writes the file of each block into a folder, and returns their paths.
///
/// Rows are in the part that the data names, or in one drawn by the sum of their group, or of their text. Errors: [`Error::Data`]
/// when a row has not one label, when there are several vectors of a text, or when no block was captured.
pub fn export(states: &States, folder: &Path) -> Result<Vec<PathBuf>> {
    let about = states.about();
    if about.vectors != about.rows {
        let problem =
            "the HDF5 layout has one vector of each text, and these states have one of each token";
        return Err(Error::Data(problem.to_owned()));
    }
    let blocks: Vec<usize> = states
        .sites()
        .iter()
        .filter_map(|site| match site {
            Site::Block(block) => Some(*block),
            _ => None,
        })
        .collect();
    if blocks.is_empty() {
        let problem =
            "the HDF5 layout has files of blocks, and the states of no block were captured";
        return Err(Error::Data(problem.to_owned()));
    }
    let labels = label_numbers(states)?;
    let rows = rows_of_parts(states);
    fs::create_dir_all(folder).map_err(Error::file("create the folder", folder))?;
    let header = LayerHeader {
        model_name: about.model.name.clone(),
        layers: blocks.iter().map(|block| *block as i64).collect(),
        pattern: Some(about.prompt.pattern.clone()),
        label_names: about.labels.clone(),
    };
    let mut written = Vec::new();
    for block in blocks {
        let matrix = states.matrix(Site::Block(block))?;
        let width = matrix.width();
        let read = |rows: &[usize]| {
            let mut vectors = vec![0.0; rows.len() * width];
            for (row, into) in rows.iter().zip(vectors.chunks_mut(width)) {
                matrix.copy_vector(*row, into);
            }
            vectors
        };
        let readers = rows
            .each_ref()
            .map(|rows| move |range: Range<usize>| read(&rows[range]));
        let parts: Vec<PartToWrite> = rows
            .iter()
            .zip(&readers)
            .map(|(rows, vectors)| PartToWrite {
                labels: rows.iter().map(|row| labels[*row]).collect(),
                vectors,
            })
            .collect();
        let path = folder.join(hdf5::file_name(block));
        hdf5::write(&path, &header, block, width, &parts)?;
        written.push(path);
    }
    Ok(written)
}

/// Makes a folder of hidden states of a folder of HDF5 files.
///
/// Errors: those of [`LayerFile::open`]; [`Error::Data`] when the files don't have the same rows and labels.
pub fn import(request: &ImportRequest, out: &Path) -> Result<States> {
    let files = open_all(&request.folder)?;
    let Some((_, first)) = files.first() else {
        let problem = "the folder has no file `layer_{i}_activations.h5`";
        return Err(Error::format(&request.folder, problem));
    };
    let labels = same_labels(&files)?;
    let is_zero = zero_rows(&files, labels.len())?;
    let (rows, left_out) = rows_of(first, &labels, &is_zero, request)?;
    let sources = files
        .iter()
        .map(|(block, _)| request.folder.join(hdf5::file_name(*block)));
    let sources = sources
        .map(|path| SourceFile::of(&path))
        .collect::<Result<_>>()?;
    let pattern = request
        .pattern
        .clone()
        .or_else(|| first.header.pattern.clone());
    let mut names: Vec<String> = rows.iter().flat_map(|row| row.labels.clone()).collect();
    names.sort_unstable();
    names.dedup();
    let model = ModelIdentity {
        name: first.header.model_name.clone(),
        ..ModelIdentity::default()
    };
    let about = About {
        written_by: request.written_by.clone(),
        prompt: PromptRule {
            pattern: pattern.unwrap_or_default(),
            template: None,
        },
        sites: files.iter().map(|(block, _)| Site::Block(*block)).collect(),
        width: first.width,
        rows: rows.len(),
        vectors: rows.len(),
        sources,
        labels: names,
        left_out,
        ..About::unknown(model)
    };
    let mut writer = StatesWriter::begin(out, about, &rows)?;
    copy(&files, &is_zero, &mut writer)?;
    States::open(out)
}

/// The files of a folder by their blocks, rising.
fn open_all(folder: &Path) -> Result<Vec<(usize, LayerFile)>> {
    let entries = fs::read_dir(folder).map_err(Error::file("read the folder", folder))?;
    let mut blocks = Vec::new();
    for entry in entries {
        let entry = entry.map_err(Error::file("read the folder", folder))?;
        blocks.extend(block_of(&entry.file_name().to_string_lossy()));
    }
    blocks.sort_unstable();
    blocks.dedup();
    if let Some(problem) = limits::STATES_SITES.exceeded(blocks.len() as u64) {
        return Err(Error::format(
            folder,
            format!("the number of files {problem}"),
        ));
    }
    let open = |block: usize| {
        Ok((
            block,
            LayerFile::open(&folder.join(hdf5::file_name(block)))?,
        ))
    };
    blocks.into_iter().map(open).collect()
}

/// The labels, which all files have to have.
fn same_labels(files: &[(usize, LayerFile)]) -> Result<Vec<i64>> {
    let mut all: Option<(usize, Vec<i64>)> = None;
    for (block, file) in files {
        let labels = file.labels()?;
        let (first, _) = &files[0];
        let width = files[0].1.width;
        match &all {
            Some((_, known)) if *known != labels => {
                return Err(Error::Data(format!(
                    "the files of layer {first} and layer {block} don’t have the same rows and labels"
                )));
            }
            _ if file.width != width => {
                return Err(Error::Data(format!(
                    "the file of layer {first} has vectors of {width} numbers, and that of layer {block} of {}",
                    file.width
                )));
            }
            _ => all = Some((*block, labels)),
        }
    }
    Ok(all.map(|(_, labels)| labels).unwrap_or_default())
}

/// Which rows are zero in every file.
fn zero_rows(files: &[(usize, LayerFile)], rows: usize) -> Result<Vec<bool>> {
    let mut is_zero = vec![true; rows];
    for (_, file) in files {
        if !is_zero.contains(&true) {
            break;
        }
        let mut row = 0;
        file.each(&mut |vectors| {
            for vector in vectors.chunks(file.width) {
                is_zero[row] &= vector.iter().all(|number| *number == 0.0);
                row += 1;
            }
            Ok(())
        })?;
    }
    Ok(is_zero)
}

/// The rows that are kept, and the names of those that are not.
fn rows_of(
    file: &LayerFile,
    labels: &[i64],
    is_zero: &[bool],
    request: &ImportRequest,
) -> Result<(Vec<StateRow>, Vec<String>)> {
    let names = match request.label_names.is_empty() {
        true => &file.header.label_names,
        false => &request.label_names,
    };
    let name = |number: i64| match usize::try_from(number).ok().and_then(|at| names.get(at)) {
        Some(name) => Ok(name.clone()),
        None if names.is_empty() => Ok(number.to_string()),
        None => Err(Error::Data(format!(
            "a row has the label {number}, and there are {} names of labels, counted from 0",
            names.len()
        ))),
    };
    let parts = file.parts();
    let places = parts
        .iter()
        .flat_map(|(part, rows)| (0..*rows).map(move |row| (*part, row)));
    let (mut rows, mut left_out) = (Vec::new(), Vec::new());
    for ((part, row), (label, is_zero)) in places.zip(labels.iter().zip(is_zero)) {
        let id = format!("{part}:{row}");
        match is_zero {
            true => left_out.push(format!("{id}: all numbers are zero at every site")),
            false => rows.push(StateRow {
                id,
                labels: vec![name(*label)?],
                part: Some(part.to_owned()),
                vectors: 1,
                ..StateRow::default()
            }),
        }
    }
    left_out.truncate(LEFT_OUT_NAMED);
    Ok((rows, left_out))
}

/// Copies the vectors of all rows that are not zero, all files side by side.
fn copy(files: &[(usize, LayerFile)], is_zero: &[bool], writer: &mut StatesWriter) -> Result<()> {
    // Every file is read a piece at a time, and all pieces are in memory together.
    let step = files.iter().map(|(_, file)| file.rows_at_once()).min();
    let step = step.unwrap_or(1).max(1);
    let mut written = 0;
    for start in (0..is_zero.len()).step_by(step) {
        let rows = start..(start + step).min(is_zero.len());
        let kept = rows.clone().filter(|row| !is_zero[*row]).count();
        // What an interrupted import has written is there already.
        written += kept;
        if kept == 0 || written <= writer.rows() {
            continue;
        }
        let read = |(_, file): &(usize, LayerFile)| -> Result<Vec<f32>> {
            let vectors = file.read_rows(rows.clone())?;
            let vectors = vectors.chunks(file.width).zip(&is_zero[rows.clone()]);
            let kept = vectors.filter(|(_, is_zero)| !**is_zero);
            Ok(kept.flat_map(|(vector, _)| vector).copied().collect())
        };
        let states: Vec<Vec<f32>> = files.iter().map(read).collect::<Result<_>>()?;
        writer.append(kept, &states)?;
        writer.sync()?;
    }
    writer.sync()
}

/// The number of each row's label, its place among the names.
fn label_numbers(states: &States) -> Result<Vec<i64>> {
    let names = states.about().labels.iter().zip(0..);
    let numbers: BTreeMap<&str, i64> = names
        .map(|(name, number)| (name.as_str(), number))
        .collect();
    let number = |row: &StateRow| match row.labels.as_slice() {
        [label] if numbers.contains_key(label.as_str()) => Ok(numbers[label.as_str()]),
        labels => Err(Error::Data(format!(
            "the HDF5 layout has one label of each text, and `{}` has {}",
            row.id,
            labels.len()
        ))),
    };
    states.rows().iter().map(number).collect()
}

/// The rows of each of [`PARTS`].
fn rows_of_parts(states: &States) -> [Vec<usize>; 3] {
    let mut parts: [Vec<usize>; 3] = Default::default();
    for (row, at) in states.rows().iter().zip(0..) {
        let named = match row.part.as_deref() {
            Some("validation" | "valid" | "dev") => Some(1),
            Some(name) => PARTS.iter().position(|part| *part == name),
            None => None,
        };
        parts[named.unwrap_or_else(|| drawn(row))].push(at);
    }
    parts
}

/// The part of a row that the data puts into none: the same for rows of one group, or of one text.
fn drawn(row: &StateRow) -> usize {
    let key = match (&row.group, row.text.is_empty()) {
        (Some(group), _) => group,
        (None, false) => &row.text,
        (None, true) => &row.id,
    };
    let sum = sha256(key.trim().as_bytes());
    let number = u64::from_str_radix(&sum[..12], 16).unwrap_or_default() % 100;
    match number {
        it if it < TRAIN_PERCENT => 0,
        it if it < TRAIN_PERCENT + VALIDATE_PERCENT => 1,
        _ => 2,
    }
}

/// A line about an import, for a person: what it was made of.
pub fn sentence(states: &States, folder: &Path) -> String {
    let about = states.about();
    format!(
        "{} rows of {} layers, {} numbers each, from `{}`; {} left out",
        about.rows,
        about.sites.len(),
        about.width,
        name_of(folder),
        about.left_out.len()
    )
}
