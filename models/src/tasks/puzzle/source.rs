//! Puzzles in files: which layout a path has, what it holds, and what is kept aside to measure with.
//!
//! - a table of Sudoku or mazes, or a folder with `train.csv` and `test.csv` (see [`super::table`])
//! - tasks of ARC, in one of their layouts (see [`super::arc_files`])
//! - a folder of the reference (see [`super::reference`])

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use super::{
    arc::{ArcExamples, Look, Task, Tasks},
    arc_files,
    board::Board,
    examples::{Examples, Rows},
    grid::Shape,
    halting::Row,
    question::Held,
    reference,
    request::PuzzleDataPlan,
    sudoku::Sudoku,
    table::{self, Filter},
};
use crate::{
    Error, Result,
    figures::counted,
    random::{Random, stable_hash},
};

/// The file of a folder with the puzzles to learn from.
pub const TRAIN: &str = "train.csv";
/// The file of a folder with the puzzles to measure with.
pub const TEST: &str = "test.csv";

/// Puzzles of one shape.
#[derive(Debug, Clone, PartialEq)]
pub struct PuzzleSet {
    /// Their shape.
    pub shape: Shape,
    /// Those to learn from.
    pub train: Examples,
    /// Those to measure with.
    pub held_out: Examples,
    /// Vectors of the table.
    pub ids: usize,
}

/// Which puzzles of the files, and how.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choice {
    /// The share kept aside to measure with, where no file says which.
    pub held_out: f64,
    /// So many random rows of each table to learn from. 0 is all.
    pub subsample_size: usize,
    /// Only rows of tables that are rated so or higher.
    pub min_difficulty: usize,
    /// So many other looks of each task of ARC, at most.
    pub augmentations: usize,
    /// What is drawn, is drawn from this.
    pub seed: u64,
}

impl Choice {
    /// That of a plan.
    pub fn of(data: &PuzzleDataPlan, seed: u64) -> Self {
        Self {
            held_out: data.held_out,
            subsample_size: data.subsample_size,
            min_difficulty: data.min_difficulty,
            augmentations: data.augmentations,
            seed,
        }
    }

    /// All of the files, as they are.
    pub const ALL: Self = Self {
        held_out: 0.0,
        subsample_size: 0,
        min_difficulty: 0,
        augmentations: 0,
        seed: 0,
    };
}

/// What was read so far.
#[derive(Default)]
pub(super) struct Reading {
    pub(super) shape: Option<Shape>,
    pub(super) train: Rows,
    pub(super) held_out: Rows,
    pub(super) tasks: Vec<(Task, PathBuf)>,
    pub(super) ids: usize,
}

/// The layout of a path.
enum Layout {
    Table,
    Tables,
    Tasks,
    Reference,
}

impl Layout {
    fn of(path: &Path) -> Result<Self> {
        let ends = |ending: &str| path.extension().is_some_and(|it| it == ending);
        if !path.is_dir() {
            return match () {
                () if ends("json") => Ok(Self::Tasks),
                () if ends("npy") => Err(Error::format(
                    path,
                    "is one array of several: name the folder with train/dataset.json",
                )),
                () => Ok(Self::Table),
            };
        }
        match () {
            () if reference::is_one(path) => Ok(Self::Reference),
            () if path.join(TRAIN).is_file() => Ok(Self::Tables),
            () if !arc_files::files(path)?.is_empty() => Ok(Self::Tasks),
            () => {
                let problem = format!(
                    "the folder has no {TRAIN}, no {}, and no tasks in .json",
                    reference::METADATA
                );
                Err(Error::format(path, problem))
            }
        }
    }
}

impl PuzzleSet {
    /// Reads the puzzles of files and folders.
    pub fn read(paths: &[PathBuf], choice: &Choice) -> Result<Self> {
        let mut reading = Reading::default();
        for path in paths {
            reading.read(path, choice)?;
        }
        reading.finish(choice)
    }

    /// The examples to learn from, or to measure with, from the one with this place on, as they are.
    pub fn rows(&self, held_out: bool, from: usize) -> impl ExactSizeIterator<Item = Row> + '_ {
        let part = self.part(held_out);
        let row = move |at| part.row(part.pick(at), self.shape, None);
        (from.min(part.len())..part.len()).map(row)
    }

    /// So many other looks of an example, always the same, where there are any.
    pub fn looks(&self, held_out: bool, at: usize, count: usize) -> Vec<Row> {
        let part = self.part(held_out);
        let pick = part.pick(at);
        if let Examples::Arc(arc) = part {
            let (task, _, pair) = arc.find(pick);
            let looks = task.looks(count, 0);
            let seen = |look: &Look| task.row(pair, look, 0, (0, 0));
            return looks.iter().skip(1).map(seen).collect();
        }
        let mut random = Random::new(0);
        let looks = (0..count).map(|_| part.row(pick, self.shape, Some(&mut random)));
        looks.collect()
    }

    fn part(&self, held_out: bool) -> &Examples {
        match held_out {
            true => &self.held_out,
            false => &self.train,
        }
    }

    /// How many puzzles are kept aside that a person could give: of ARC, tasks.
    pub fn held_count(&self) -> usize {
        match (&self.held_out, Board::of(self.shape)) {
            (Examples::Arc(arc), _) => arc.groups(),
            (Examples::Stored(rows), Some(_)) if self.shape != Shape::Arc => rows.len(),
            _ => 0,
        }
    }

    /// One of them, from 0, as a person would give it, with its solution.
    pub fn held(&self, at: usize) -> Option<Held> {
        if at >= self.held_count() {
            return None;
        }
        if let Examples::Arc(arc) = &self.held_out {
            let task = &arc.tasks.tasks[arc.pairs[at].0];
            return Some(Held {
                puzzle: arc_files::written([task].into_iter()).to_string(),
                solution: String::new(),
                part: 0,
            });
        }
        let board = Board::of(self.shape)?;
        let row = self.rows(true, at).next()?;
        Some(Held {
            puzzle: board.text(&row.cells),
            solution: board.text(&row.labels),
            part: 0,
        })
    }

    /// Up to so many questions that are kept aside and whose answers are known, the first of all.
    pub fn questions(&self, most: usize) -> Vec<Held> {
        let Examples::Arc(arc) = &self.held_out else {
            return (0..most).map_while(|at| self.held(at)).collect();
        };
        let all = (0..arc.groups()).filter_map(|at| Some((self.held(at)?, &arc.pairs[at].0)));
        let questions = all.flat_map(|(held, task)| {
            let pairs = arc.tasks.tasks[*task].test.iter().enumerate();
            let known = pairs.filter(|(_, pair)| pair.output.is_some());
            known.map(move |(part, _)| Held {
                part,
                ..held.clone()
            })
        });
        questions.take(most).collect()
    }

    /// What is measured with when these are drawn from, in the same order each time: `most` random ones, or all for 0.
    pub fn measured(&self, most: usize, seed: u64) -> Vec<usize> {
        let mut all: Vec<usize> = (0..self.held_out.len()).collect();
        if (1..all.len()).contains(&most) {
            Random::for_purpose(seed, "puzzles to measure with").shuffle(&mut all);
            all.truncate(most);
            all.sort_unstable();
        }
        all
    }
}

impl Reading {
    fn read(&mut self, path: &Path, choice: &Choice) -> Result<()> {
        let filter = Filter {
            subsample_size: choice.subsample_size,
            min_difficulty: choice.min_difficulty,
            seed: choice.seed,
        };
        let of_tests = Filter {
            subsample_size: 0,
            ..filter
        };
        match Layout::of(path)? {
            Layout::Table => table::read(path, &filter, &mut self.shape, &mut self.train),
            Layout::Tables => {
                table::read(&path.join(TRAIN), &filter, &mut self.shape, &mut self.train)?;
                match path.join(TEST) {
                    test if test.is_file() => {
                        table::read(&test, &of_tests, &mut self.shape, &mut self.held_out)
                    }
                    _ => Ok(()),
                }
            }
            Layout::Tasks => {
                self.take_shape(Shape::Arc, path)?;
                for file in arc_files::files(path)? {
                    self.add_tasks(&file)?;
                }
                Ok(())
            }
            Layout::Reference => reference::read(path, self),
        }
    }

    /// Holds what comes to the shape of what came.
    pub(super) fn take_shape(&mut self, shape: Shape, path: &Path) -> Result<()> {
        match self.shape.replace(shape) {
            Some(known) if known != shape => {
                let (known, shape) = (known.title(), shape.title());
                Err(Error::format(
                    path,
                    format!("has {shape}, and what was read before has {known}"),
                ))
            }
            _ => Ok(()),
        }
    }

    fn add_tasks(&mut self, file: &Path) -> Result<()> {
        for task in arc_files::read(file)? {
            if let Some((_, other)) = self.tasks.iter().find(|(it, _)| it.name == task.name) {
                let problem = format!(
                    "task {} is in two files, the other of which is {}; learn from one of them",
                    task.name,
                    other.display()
                );
                return Err(Error::format(file, problem));
            }
            self.tasks.push((task, file.to_owned()));
        }
        Ok(())
    }

    fn finish(self, choice: &Choice) -> Result<PuzzleSet> {
        let nothing = || Error::Data("there is no puzzle in the data".to_owned());
        let shape = self.shape.ok_or_else(nothing)?;
        if !self.tasks.is_empty() {
            if !self.train.is_empty() {
                let problem =
                    "tasks of ARC and a folder of the reference can’t be learned from together";
                return Err(Error::Data(problem.to_owned()));
            }
            return Ok(Self::of_tasks(self.tasks, choice));
        }
        if self.train.is_empty() {
            return Err(nothing());
        }
        let (mut train, mut held_out) = (self.train, self.held_out);
        let all = train.groups.len() - 1;
        if held_out.is_empty() && choice.held_out > 0.0 {
            let is_kept = |cells: &[u8]| is_kept(choice, cells);
            (held_out, train) = train.partition(is_kept);
        }
        if train.is_empty() {
            let share = choice.held_out;
            let puzzles = counted(all as u64, "puzzle");
            return Err(Error::setting(
                "data.held_out",
                format!(
                    "is {share}, and of {puzzles} it keeps all aside, so that none is left to learn from; lower it or add puzzles"
                ),
            ));
        }
        Ok(PuzzleSet {
            shape,
            train: Examples::Stored(train),
            held_out: Examples::Stored(held_out),
            ids: self.ids.max(1),
        })
    }

    fn of_tasks(tasks: Vec<(Task, PathBuf)>, choice: &Choice) -> PuzzleSet {
        let mut tasks: Vec<Task> = tasks.into_iter().map(|(task, _)| task).collect();
        if !tasks.iter().any(|it| it.is_measured) {
            for task in &mut tasks {
                task.is_measured = is_kept(choice, task.name.as_bytes());
            }
        }
        let tasks = Tasks::new(tasks, choice.augmentations, choice.seed);
        let ids = tasks.id_count();
        let (train, held_out) = ArcExamples::split(tasks);
        PuzzleSet {
            shape: Shape::Arc,
            train: Examples::Arc(train),
            held_out: Examples::Arc(held_out),
            ids,
        }
    }
}

/// Whether a puzzle is of the share that is kept aside.
fn is_kept(choice: &Choice, puzzle: &[u8]) -> bool {
    let bound = (choice.held_out * u64::MAX as f64) as u64;
    stable_hash(choice.seed, puzzle) < bound
}

/// The files that paths name, by what they are for a run: `data/1`, `data/1/train.csv`.
pub fn places(paths: &[PathBuf]) -> BTreeMap<String, PathBuf> {
    let mut places = BTreeMap::new();
    for (index, path) in paths.iter().enumerate() {
        let place = format!("data/{}", index + 1);
        // A folder without puzzles is an error of the data, which is said when it is read.
        let files = match Layout::of(path) {
            Ok(Layout::Tables) => [TRAIN, TEST].map(|it| path.join(it)).into(),
            Ok(Layout::Tasks) => arc_files::files(path).unwrap_or_default(),
            Ok(Layout::Reference) => reference::files(path),
            _ => vec![path.clone()],
        };
        let solutions: Vec<PathBuf> = files
            .iter()
            .filter_map(|it| arc_files::solutions(it))
            .collect();
        for file in files.into_iter().chain(solutions) {
            let inner = file.strip_prefix(path).map_or_else(
                |_| {
                    file.file_name()
                        .unwrap_or_default()
                        .to_string_lossy()
                        .into_owned()
                },
                |it| it.to_string_lossy().into_owned(),
            );
            if file == *path {
                places.insert(place.clone(), file);
            } else if file.is_file() {
                places.insert(format!("{place}/{inner}"), file);
            }
        }
    }
    places
}

/// A puzzle and its solution: digits, 0 where nothing is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grid {
    /// What is given.
    pub puzzle: Vec<u8>,
    /// All of it.
    pub solution: Vec<u8>,
}

impl Grid {
    /// Its symbols.
    pub fn row(&self) -> Row {
        let symbols = |grid: &[u8]| grid.iter().map(|digit| u32::from(*digit) + 1).collect();
        Row {
            cells: symbols(&self.puzzle),
            labels: symbols(&self.solution),
            puzzle: 0,
        }
    }
}

/// The digits of a grid's text. Errors name the cell.
pub fn digits(text: &str, shape: Sudoku) -> Result<Vec<u8>, String> {
    let cells = text.chars().count();
    if cells != shape.cells() {
        let size = shape.size;
        return Err(format!(
            "a grid of {size} by {size} has {} cells, and here are {cells}",
            shape.cells()
        ));
    }
    let digit = |(cell, letter): (usize, char)| {
        let digit = match letter {
            '.' | '_' => Some(0),
            _ => letter.to_digit(36).map(|it| it as u8),
        };
        digit.filter(|it| usize::from(*it) <= shape.size).ok_or_else(|| {
            let (row, column) = (cell / shape.size + 1, cell % shape.size + 1);
            format!("row {row}, column {column} is “{letter}”, and has to be a digit up to {}, or a dot", shape.size)
        })
    };
    text.chars().enumerate().map(digit).collect()
}

/// The text of a grid.
pub fn text(grid: &[u8]) -> String {
    let letter = |digit: &u8| match digit {
        0 => '.',
        digit => char::from_digit(u32::from(*digit), 36)
            .unwrap_or('?')
            .to_ascii_uppercase(),
    };
    grid.iter().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_and_its_text_are_the_same() {
        let mut random = Random::new(1);
        for cells in [16, 81, 256] {
            let shape = Sudoku::of_cells(cells).unwrap();
            let full = shape.full(&mut random);
            assert_eq!(digits(&text(&full), shape), Ok(full));
        }
    }
}
