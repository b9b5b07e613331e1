//! Folders of the reference: arrays of NumPy with every example, in `train` and `test`, each described by a `dataset.json`.
//!
//! ```text
//! identifiers.json                names of puzzles, by the number of their vector; the first is "<blank>"
//! train/dataset.json              how many symbols, cells and vectors there are, and which sets
//! train/all__inputs.npy           the cells of each example, and so for labels
//! train/all__puzzle_indices.npy   the example at which each puzzle begins, and the number of all
//! train/all__group_indices.npy    the puzzle at which each group begins, and the number of all
//! train/all__puzzle_identifiers.npy   the vector of each puzzle
//! ```

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    arc_files,
    examples::{Examples, Pick, Rows},
    grid::{MAX_SYMBOLS, Shape, UNLABELLED},
    halting::{NO_LABEL, Row},
    npy::{Npy, NpyWriter},
    source::{PuzzleSet, Reading},
};
use crate::{
    Error, Result,
    checkpoint::save::{replace_folder, write_file},
    limits,
    random::Random,
};

/// What describes the examples of a folder.
pub const METADATA: &str = "train/dataset.json";
const PARTS: [&str; 2] = ["train", "test"];
const DESCRIPTION: &str = "dataset.json";
const NAMES: &str = "identifiers.json";
const ARRAYS: [&str; 5] = [
    "inputs",
    "labels",
    "puzzle_identifiers",
    "puzzle_indices",
    "group_indices",
];
/// The most cells of an example.
const MAX_CELLS: usize = limits::PUZZLE_CELLS.most as usize;
/// A label that the reference itself leaves out.
const IGNORED: i64 = -100;

/// `dataset.json`. What is counted in it is counted from the arrays.
#[derive(Debug, Serialize, Deserialize)]
struct Description {
    pad_id: i64,
    ignore_label_id: Option<i64>,
    blank_identifier_id: u32,
    vocab_size: usize,
    seq_len: usize,
    num_puzzle_identifiers: u32,
    #[serde(default)]
    total_groups: usize,
    #[serde(default)]
    mean_puzzle_examples: f64,
    #[serde(default)]
    total_puzzles: usize,
    sets: Vec<String>,
}

/// Whether a folder is one of the reference.
pub fn is_one(folder: &Path) -> bool {
    folder.join(METADATA).is_file()
}

/// The files of a folder.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = vec![folder.join(NAMES)];
    for part in PARTS.map(|it| folder.join(it)) {
        files.push(part.join(DESCRIPTION));
        let sets = describe(&part).map(|it| it.sets).unwrap_or_default();
        let arrays = sets
            .iter()
            .flat_map(|set| ARRAYS.map(|array| part.join(format!("{set}__{array}.npy"))));
        files.extend(arrays);
    }
    files.retain(|it| it.is_file());
    files
}

fn describe(part: &Path) -> Result<Description> {
    let path = part.join(DESCRIPTION);
    let bytes = limits::PUZZLE_JSON.read(&path, "read what the puzzles are")?;
    let wrong = |problem: String| Error::format(&path, problem);
    let read: Description =
        serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
    let (symbols, cells) = (read.vocab_size, read.seq_len);
    if !(1..=MAX_SYMBOLS).contains(&symbols) {
        return Err(wrong(format!(
            "has {symbols} symbols (vocab_size), and 1 to {MAX_SYMBOLS} can be puzzles"
        )));
    }
    if !(1..=MAX_CELLS).contains(&cells) {
        return Err(wrong(format!(
            "has {cells} cells (seq_len), and 1 to {MAX_CELLS} are allowed"
        )));
    }
    if read.num_puzzle_identifiers == 0 {
        return Err(wrong("has no vectors (num_puzzle_identifiers)".to_owned()));
    }
    let is_name =
        |set: &String| !set.is_empty() && !set.contains(['/', '\\', ':']) && !set.starts_with('.');
    match read.sets.iter().find(|set| !is_name(set)) {
        Some(set) => Err(wrong(format!(
            "names a set “{set}”, which is no name of a file"
        ))),
        None => Ok(read),
    }
}

/// Reads a folder.
pub(super) fn read(folder: &Path, reading: &mut Reading) -> Result<()> {
    for name in PARTS {
        let part = folder.join(name);
        if name == "test" && !part.join(DESCRIPTION).is_file() {
            continue;
        }
        let about = describe(&part)?;
        reading.take_shape(Shape::of(about.seq_len, about.vocab_size), &part)?;
        reading.ids = reading.ids.max(about.num_puzzle_identifiers as usize);
        let rows = match name {
            "train" => &mut reading.train,
            _ => &mut reading.held_out,
        };
        for set in &about.sets {
            let set = Set {
                part: &part,
                name: set,
                about: &about,
            };
            append(rows, set.read()?);
        }
    }
    Ok(())
}

fn append(rows: &mut Rows, other: Rows) {
    if rows.is_empty() {
        *rows = other;
        return;
    }
    let (examples, puzzles) = (rows.len() as u32, rows.ids.len() as u32);
    rows.cells.extend(other.cells);
    rows.labels.extend(other.labels);
    rows.ids.extend(other.ids);
    rows.puzzles
        .extend(other.puzzles.iter().skip(1).map(|it| it + examples));
    rows.groups
        .extend(other.groups.iter().skip(1).map(|it| it + puzzles));
}

/// The arrays of a set.
struct Set<'a> {
    part: &'a Path,
    name: &'a str,
    about: &'a Description,
}

impl Set<'_> {
    fn path(&self, array: &str) -> PathBuf {
        self.part.join(format!("{}__{array}.npy", self.name))
    }

    fn wrong(&self, array: &str, problem: String) -> Error {
        Error::format(self.path(array), problem)
    }

    fn read(&self) -> Result<Rows> {
        let (inputs, labels) = (self.open("inputs")?, self.open("labels")?);
        let (examples, others) = (inputs.shape[0], labels.shape[0]);
        if others != examples {
            let problem = format!("has {others} rows, and the inputs have {examples}");
            return Err(self.wrong("labels", problem));
        }
        let ids = Npy::open(&self.path("puzzle_identifiers"))?;
        let ids = ids.numbers(self.about.num_puzzle_identifiers - 1)?;
        let puzzles = self.bounds("puzzle_indices", examples, "examples")?;
        if puzzles.len() != ids.len() + 1 {
            let (ids, puzzles) = (ids.len(), puzzles.len() - 1);
            let problem = format!("has {ids} puzzles, and the puzzle indices have {puzzles}");
            return Err(self.wrong("puzzle_identifiers", problem));
        }
        let label = |number: i64| {
            let is_left_out = number == IGNORED || Some(number) == self.about.ignore_label_id;
            if is_left_out {
                Ok(UNLABELLED)
            } else {
                self.symbol(number)
            }
        };
        Ok(Rows {
            width: self.about.seq_len,
            puzzles,
            groups: self.bounds("group_indices", ids.len(), "puzzles")?,
            cells: collect(inputs, &|number| self.symbol(number))?,
            labels: collect(labels, &label)?,
            ids,
        })
    }

    /// An array with a row of cells for each example.
    fn open(&self, array: &str) -> Result<Npy> {
        let opened = Npy::open(&self.path(array))?;
        let width = self.about.seq_len;
        match opened.shape[..] {
            [_, cells] if cells == width => Ok(opened),
            _ => {
                let shape = &opened.shape;
                let problem = format!(
                    "has the shape {shape:?}, and rows of {width} cells are needed (seq_len)"
                );
                Err(self.wrong(array, problem))
            }
        }
    }

    fn symbol(&self, number: i64) -> std::result::Result<u8, String> {
        let symbols = self.about.vocab_size;
        let found = u8::try_from(number)
            .ok()
            .filter(|it| usize::from(*it) < symbols);
        found.ok_or_else(|| format!("is {number}, and there are {symbols} symbols (vocab_size)"))
    }

    /// Where what an array counts begins, and the number of all.
    fn bounds(&self, array: &str, all: usize, what: &str) -> Result<Vec<u32>> {
        let bounds = Npy::open(&self.path(array))?.numbers(u32::MAX)?;
        let rises = bounds.windows(2).all(|it| it[0] <= it[1]);
        let ends = (
            bounds.first().copied(),
            bounds.last().map(|it| *it as usize),
        );
        match rises && ends == (Some(0), Some(all)) {
            true => Ok(bounds),
            false => Err(self.wrong(
                array,
                format!("has to rise from 0 to {all}, the number of {what}"),
            )),
        }
    }
}

fn collect(array: Npy, of: &dyn Fn(i64) -> std::result::Result<u8, String>) -> Result<Vec<u8>> {
    let mut cells = Vec::with_capacity(array.len());
    array.each(|_, number| {
        cells.push(of(number)?);
        Ok(())
    })?;
    Ok(cells)
}

/// Writes puzzles as the reference reads them, each one to learn from with so many other looks. Tasks of ARC have theirs already.
///
/// What the folder had before is replaced. Errors: [`Error::Format`] when that is something else than such puzzles.
pub fn write(set: &PuzzleSet, augmentations: usize, seed: u64, folder: &Path) -> Result<()> {
    let is_empty = fs::read_dir(folder).map_or(true, |mut it| it.next().is_none());
    if folder.is_file() || !(is_empty || is_one(folder)) {
        let problem =
            "is there, and is no folder of such puzzles: name another one, or an empty one";
        return Err(Error::format(folder, problem));
    }
    replace_folder(folder, |folder| {
        write_part(set, &set.train, augmentations, seed, &folder.join(PARTS[0]))?;
        if !set.held_out.is_empty() {
            write_part(set, &set.held_out, 0, seed, &folder.join(PARTS[1]))?;
        }
        let mut names = vec!["<blank>".to_owned()];
        if let (Examples::Arc(learned), Examples::Arc(measured)) = (&set.train, &set.held_out) {
            for (task, looks) in learned.tasks.tasks.iter().zip(&learned.tasks.looks) {
                names.extend(looks.iter().map(|look| look.name(&task.name)));
            }
            let tasks = measured
                .pairs
                .iter()
                .map(|(task, _)| &measured.tasks.tasks[*task]);
            write_file(
                &folder.join("test_puzzles.json"),
                arc_files::written(tasks).to_string().as_bytes(),
            )?;
        }
        write_file(&folder.join(NAMES), json!(names).to_string().as_bytes())
    })
}

/// How many examples are written of a puzzle, and as how many puzzles each is written.
fn counts(examples: &Examples, looks: usize) -> (usize, usize) {
    let puzzles: usize = (0..examples.groups()).map(|it| examples.puzzles(it)).sum();
    (examples.len() * looks, puzzles * looks)
}

fn write_part(
    set: &PuzzleSet,
    examples: &Examples,
    augmentations: usize,
    seed: u64,
    part: &Path,
) -> Result<()> {
    fs::create_dir_all(part).map_err(Error::file("make the folder", part))?;
    let (cells, is_arc) = (set.shape.cells(), matches!(examples, Examples::Arc(_)));
    let looks = if is_arc { 1 } else { augmentations + 1 };
    let (rows, puzzles) = counts(examples, looks);
    let path = |array: &str| part.join(format!("all__{array}.npy"));
    let array = |name: &str| NpyWriter::create(&path(name), "|u1", &[rows, cells]);
    let (mut inputs, mut labels) = (array("inputs")?, array("labels")?);
    let (mut puzzle_indices, mut group_indices, mut ids) = (vec![0], vec![0], Vec::new());
    let mut random = Random::for_purpose(seed, "looks that are written");
    let is_learned = part.ends_with(PARTS[0]);
    let mut written = 0;
    for group in 0..examples.groups() {
        for puzzle in 0..examples.puzzles(group) {
            for look in 0..looks {
                let count = examples.examples(group, puzzle);
                let mut id = 0;
                for example in 0..count {
                    let pick = Pick {
                        group: group as u32,
                        puzzle: puzzle as u32,
                        example: example as u32,
                    };
                    let seen_otherwise = if is_arc { is_learned } else { look > 0 };
                    let row = examples.row(pick, set.shape, seen_otherwise.then_some(&mut random));
                    id = row.puzzle;
                    let [cells, answers] = bytes(&row);
                    inputs.write(&cells)?;
                    labels.write(&answers)?;
                }
                written += count as u32;
                puzzle_indices.push(written);
                ids.push(id);
            }
        }
        group_indices.push(ids.len() as u32);
    }
    inputs.finish()?;
    labels.finish()?;
    for (name, numbers) in [
        ("puzzle_identifiers", &ids),
        ("puzzle_indices", &puzzle_indices),
        ("group_indices", &group_indices),
    ] {
        let mut array = NpyWriter::create(&path(name), "<i4", &[numbers.len()])?;
        array.write_numbers(numbers)?;
        array.finish()?;
    }
    let about = Description {
        pad_id: 0,
        ignore_label_id: Some(0),
        blank_identifier_id: 0,
        vocab_size: set.shape.symbols(),
        seq_len: cells,
        num_puzzle_identifiers: set.ids as u32,
        total_groups: examples.groups(),
        mean_puzzle_examples: rows as f64 / puzzles.max(1) as f64,
        total_puzzles: puzzles,
        sets: vec!["all".to_owned()],
    };
    write_file(&part.join(DESCRIPTION), json!(about).to_string().as_bytes())
}

/// The symbols of a row, and of its labels: 0 where there is none.
fn bytes(row: &Row) -> [Vec<u8>; 2] {
    let byte = |symbol: &u32| {
        if *symbol == NO_LABEL {
            0
        } else {
            *symbol as u8
        }
    };
    [&row.cells, &row.labels].map(|it| it.iter().map(byte).collect())
}
