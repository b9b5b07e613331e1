//! What a run learns from: rows of cells and labels, in puzzles, in groups.
//!
//! A puzzle has a vector of the table and one or more examples. A group has puzzles that are one puzzle seen otherwise. In a pass
//! over the data each group gives one of its puzzles, drawn at random, with all its examples, so one that was multiplied more often
//! than another is not learned more often. What comes follows from the seed and the number of the pass alone.

use super::{
    arc::ArcExamples,
    grid::{Shape, UNLABELLED},
    halting::{NO_LABEL, Row},
};
use crate::random::Random;

/// Examples to learn from, or to measure with.
#[derive(Debug, Clone, PartialEq)]
pub enum Examples {
    /// They are stored as they are.
    Stored(Rows),
    /// Each task of ARC is stored once, and seen otherwise when it is asked for.
    Arc(ArcExamples),
}

/// One example.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pick {
    /// The group that it is of.
    pub group: u32,
    /// Which of the group's puzzles.
    pub puzzle: u32,
    /// Which of the puzzle's examples.
    pub example: u32,
}

/// Examples that are stored as they are.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rows {
    /// Cells of an example.
    pub width: usize,
    /// The symbols, example after example.
    pub cells: Vec<u8>,
    /// What each should be, or [`UNLABELLED`].
    pub labels: Vec<u8>,
    /// The example at which each puzzle begins, and the number of all.
    pub puzzles: Vec<u32>,
    /// The puzzle at which each group begins, and the number of all.
    pub groups: Vec<u32>,
    /// The vector that each puzzle has.
    pub ids: Vec<u32>,
}

impl Rows {
    /// No example yet, of so many cells.
    pub fn new(width: usize) -> Self {
        Self {
            width,
            puzzles: vec![0],
            groups: vec![0],
            ..Self::default()
        }
    }

    /// Adds a puzzle with one example, in a group of its own.
    pub fn push(&mut self, cells: &[u8], labels: &[u8], id: u32) {
        self.cells.extend_from_slice(cells);
        self.labels.extend_from_slice(labels);
        self.ids.push(id);
        self.puzzles.push(self.puzzles.len() as u32);
        self.groups.push(self.groups.len() as u32);
    }

    /// How many examples there are.
    pub fn len(&self) -> usize {
        self.cells.len().checked_div(self.width).unwrap_or(0)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// The cells and the labels of an example.
    pub fn example(&self, index: usize) -> (&[u8], &[u8]) {
        let part = index * self.width..(index + 1) * self.width;
        (&self.cells[part.clone()], &self.labels[part])
    }

    /// Splits the groups in two, by the first example of each.
    pub fn partition(self, goes_first: impl Fn(&[u8]) -> bool) -> (Self, Self) {
        let (mut first, mut second) = (Self::new(self.width), Self::new(self.width));
        for group in 0..self.groups.len().saturating_sub(1) {
            let (puzzle, puzzles) = Self::range(&self.groups, group);
            let example = self.puzzles[puzzle] as usize;
            if puzzles == 0 || example >= self.len() {
                continue;
            }
            let part = match goes_first(self.example(example).0) {
                true => &mut first,
                false => &mut second,
            };
            for puzzle in puzzle..puzzle + puzzles {
                let (example, examples) = Self::range(&self.puzzles, puzzle);
                let cells = example * self.width..(example + examples) * self.width;
                part.cells.extend_from_slice(&self.cells[cells.clone()]);
                part.labels.extend_from_slice(&self.labels[cells]);
                part.ids.push(self.ids[puzzle]);
                part.puzzles.push(part.len() as u32);
            }
            part.groups.push(part.ids.len() as u32);
        }
        (first, second)
    }

    fn range(bounds: &[u32], index: usize) -> (usize, usize) {
        let (first, end) = (bounds[index] as usize, bounds[index + 1] as usize);
        (first, end - first)
    }
}

impl Examples {
    /// Groups of puzzles.
    pub fn groups(&self) -> usize {
        match self {
            Self::Stored(rows) => rows.groups.len().saturating_sub(1),
            Self::Arc(tasks) => tasks.groups(),
        }
    }

    /// How many puzzles a group has.
    pub fn puzzles(&self, group: usize) -> usize {
        match self {
            Self::Stored(rows) => Rows::range(&rows.groups, group).1,
            Self::Arc(tasks) => tasks.puzzles(group),
        }
    }

    /// How many examples one of a group's puzzles has.
    pub fn examples(&self, group: usize, puzzle: usize) -> usize {
        match self {
            Self::Stored(rows) => {
                let first = rows.groups[group] as usize;
                Rows::range(&rows.puzzles, first + puzzle).1
            }
            Self::Arc(tasks) => tasks.examples(group),
        }
    }

    /// How many examples there are in all.
    pub fn len(&self) -> usize {
        match self {
            Self::Stored(rows) => rows.len(),
            Self::Arc(tasks) => tasks.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many examples a pass offers, on average: those of one puzzle of each group.
    pub fn per_pass(&self) -> usize {
        let mean = |group: usize| match self.puzzles(group) {
            0 => 0.0,
            puzzles => {
                let sum = (0..puzzles)
                    .map(|it| self.examples(group, it))
                    .sum::<usize>();
                sum as f64 / puzzles as f64
            }
        };
        match self {
            Self::Stored(rows) => (0..self.groups())
                .map(mean)
                .sum::<f64>()
                .round()
                .min(rows.len() as f64) as usize,
            Self::Arc(tasks) => (0..tasks.groups()).map(|it| tasks.examples(it)).sum(),
        }
    }

    /// The examples of a pass, in the order in which they come.
    pub fn pass(&self, seed: u64, number: usize) -> Vec<Pick> {
        let mut random = Random::for_purpose(seed, &format!("order of pass {number}"));
        let mut order: Vec<usize> = (0..self.groups()).collect();
        random.shuffle(&mut order);
        let mut picks = Vec::new();
        for group in order {
            let puzzles = self.puzzles(group);
            if puzzles == 0 {
                continue;
            }
            let puzzle = if puzzles > 1 {
                random.below(puzzles)
            } else {
                0
            };
            let mut examples: Vec<u32> = (0..self.examples(group, puzzle) as u32).collect();
            random.shuffle(&mut examples);
            picks.extend(examples.into_iter().map(|example| Pick {
                group: group as u32,
                puzzle: puzzle as u32,
                example,
            }));
        }
        picks
    }

    /// The example with a number from 0, in the order of the files.
    pub fn pick(&self, index: usize) -> Pick {
        match self {
            Self::Stored(rows) => {
                let holds =
                    |bounds: &[u32], at: usize| bounds.partition_point(|it| *it as usize <= at) - 1;
                let puzzle = holds(&rows.puzzles, index);
                let group = holds(&rows.groups, puzzle);
                Pick {
                    group: group as u32,
                    puzzle: puzzle as u32 - rows.groups[group],
                    example: index as u32 - rows.puzzles[puzzle],
                }
            }
            Self::Arc(tasks) => tasks.pick(index),
        }
    }

    /// An example, as it is learned from: with `random`, seen otherwise by what `random` draws.
    pub fn row(&self, pick: Pick, shape: Shape, random: Option<&mut Random>) -> Row {
        match self {
            Self::Arc(tasks) => tasks.row(pick, random),
            Self::Stored(rows) => {
                let puzzle = (rows.groups[pick.group as usize] + pick.puzzle) as usize;
                let example = (rows.puzzles[puzzle] + pick.example) as usize;
                let (cells, labels) = rows.example(example);
                let id = rows.ids[puzzle];
                match random.and_then(|random| shape.view(random)) {
                    Some(view) => row(&view.of(cells), &view.of(labels), id),
                    None => row(cells, labels, id),
                }
            }
        }
    }
}

/// A row of symbols.
pub fn row(cells: &[u8], labels: &[u8], puzzle: u32) -> Row {
    let label = |label: &u8| match *label {
        UNLABELLED => NO_LABEL,
        label => u32::from(label),
    };
    Row {
        cells: cells.iter().map(|it| u32::from(*it)).collect(),
        labels: labels.iter().map(label).collect(),
        puzzle,
    }
}

/// How far a run is in its data, and the pass that it is in, made when it is asked for and kept until another is.
#[derive(Debug, Default)]
pub struct Pass {
    number: Option<usize>,
    picks: Vec<Pick>,
}

impl Pass {
    /// The next example after `offset` ones of pass `number`, both of which it moves.
    pub fn next(
        &mut self,
        examples: &Examples,
        seed: u64,
        number: &mut usize,
        offset: &mut usize,
    ) -> Option<Pick> {
        loop {
            if self.number != Some(*number) {
                self.picks = examples.pass(seed, *number);
                self.number = Some(*number);
            }
            if let Some(pick) = self.picks.get(*offset) {
                *offset += 1;
                return Some(*pick);
            }
            if self.picks.is_empty() {
                return None;
            }
            (*number, *offset) = (*number + 1, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two groups: one of two puzzles with one and two examples, one of a puzzle with three.
    fn rows() -> Examples {
        Examples::Stored(Rows {
            width: 2,
            cells: (0..12).collect(),
            labels: (100..112).collect(),
            puzzles: vec![0, 1, 3, 6],
            groups: vec![0, 2, 3],
            ids: vec![7, 8, 9],
        })
    }

    #[test]
    fn a_pass_has_one_puzzle_of_each_group_with_all_its_examples() {
        let rows = rows();
        assert_eq!((rows.groups(), rows.len(), rows.per_pass()), (2, 6, 5));
        let mut seen = [0, 0];
        for number in 0..40 {
            let pass = rows.pass(1, number);
            assert_eq!(rows.pass(1, number), pass);
            let of = |group| {
                pass.iter()
                    .filter(|it| it.group == group)
                    .collect::<Vec<_>>()
            };
            let (first, second) = (of(0), of(1));
            assert_eq!(second.len(), 3);
            assert_eq!(first.len(), 1 + first[0].puzzle as usize);
            assert!(first.iter().all(|it| it.puzzle == first[0].puzzle));
            seen[first[0].puzzle as usize] += 1;
        }
        assert!(seen.iter().all(|it| *it > 8), "{seen:?}");
    }

    #[test]
    fn examples_are_numbered_in_the_order_of_the_files() {
        let rows = rows();
        for index in 0..6 {
            let shape = Shape::of(2, 12);
            let row = rows.row(rows.pick(index), shape, None);
            assert_eq!(row.cells, [2 * index as u32, 2 * index as u32 + 1]);
            assert_eq!(row.puzzle, [7, 8, 8, 9, 9, 9][index]);
        }
    }

    #[test]
    fn a_run_walks_from_pass_to_pass_and_continues_anywhere() {
        let rows = rows();
        let walk = |mut number, mut offset, count: usize| {
            let mut pass = Pass::default();
            let picks: Vec<Pick> = (0..count)
                .map(|_| pass.next(&rows, 3, &mut number, &mut offset).unwrap())
                .collect();
            (picks, number, offset)
        };
        let (all, ..) = walk(0, 0, 20);
        let (some, number, offset) = walk(0, 0, 9);
        let (rest, ..) = walk(number, offset, 11);
        assert_eq!([some, rest].concat(), all);
    }
}
