//! Sets of puzzles of our own: seeded, made on all cores, and with no puzzle to measure with that is one to learn from seen otherwise.
//!
//! Deliberately absent: comparing them with a published set. How hard they are is told by our own rating (see [`super::sudoku`]).

use std::{
    collections::BTreeSet,
    ops::RangeInclusive,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
};

use rayon::prelude::*;

use super::{
    grid::{TURNS, turned},
    maze::{self, Maze},
    source::{Grid, TEST, TRAIN, text},
    sudoku::Sudoku,
};
use crate::{Error, Result, checkpoint::save::write_file, random::Random};

/// How many puzzles are made on all cores before they are compared.
const AT_ONCE: usize = 64;
/// Give up when so many in a row were there before: there are too few of the size.
const MAX_REPEATED: usize = 2_000;
/// How many random mazes are looked at for one whose way is long enough, and how often none of so many may have one.
const MAX_MAZES: usize = 2_000;
/// See [`MAX_MAZES`].
const MAX_REPEATED_MAZES: usize = 128;

/// Told how many puzzles were made, from several threads; says whether to continue.
pub type Watch<'a> = &'a (dyn Fn(usize) -> bool + Sync);

/// A puzzle with its rating.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// What is given, and its solution.
    pub grid: Grid,
    /// Ways of a search that led nowhere, on average.
    pub rating: usize,
}

/// What to make.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    /// The shape of the puzzles.
    pub shape: Sudoku,
    /// How many.
    pub count: usize,
    /// As few cells are given as one solution needs, but not fewer than a number drawn from these.
    pub givens: RangeInclusive<usize>,
    /// The least rating.
    pub min_rating: usize,
    /// Where all randomness starts.
    pub seed: u64,
}

/// Makes puzzles, no two of which are one puzzle seen otherwise.
///
/// Errors: [`Error::Data`] when there are not so many.
pub fn make(order: &Order) -> Result<Vec<Made>> {
    Ok(make_harder(order, 0, &|_| true)?.unwrap_or_default())
}

/// The same, each after so many steps to harder ones. Nothing when `watch` says no meanwhile.
pub fn make_harder(order: &Order, steps: usize, watch: Watch) -> Result<Option<Vec<Made>>> {
    let one = |index: usize, continues: &dyn Fn() -> bool| {
        let mut random = Random::for_purpose(order.seed, &format!("puzzle {index}"));
        let (low, high) = (*order.givens.start(), *order.givens.end());
        let givens = low + random.below(high.saturating_sub(low) + 1);
        let (easy, solution) = order.shape.make(givens, &mut random);
        let puzzle = order
            .shape
            .harder((&easy, &solution), steps, &mut random, continues)?;
        let rating = order.shape.rating(&puzzle, &mut random).round() as usize;
        let form = (rating >= order.min_rating).then(|| order.shape.canonical(&puzzle))?;
        let grid = Grid { puzzle, solution };
        Some((form, Made { grid, rating }))
    };
    collect((order.count, MAX_REPEATED), one, watch, &|made, tries| {
        format!(
            "there are {made} puzzles of this size with {} to {} givens and a rating from {}, as far as {tries} tries found; ask for fewer",
            order.givens.start(),
            order.givens.end(),
            order.min_rating
        )
    })
}

/// Makes mazes of so many rows and columns with exactly one shortest path, longer than `min_length`, no two of which are one maze
/// turned or mirrored. Nothing when `watch` says no meanwhile.
pub fn make_mazes(
    size: usize,
    min_length: usize,
    count: usize,
    seed: u64,
    watch: Watch,
) -> Result<Option<Vec<Maze>>> {
    let one = |index: usize, continues: &dyn Fn() -> bool| {
        let mut random = Random::for_purpose(seed, &format!("maze {index}"));
        let mut tries = (0..MAX_MAZES).take_while(|_| continues());
        let maze = tries.find_map(|_| maze::make(size, min_length, &mut random))?;
        Some((first_turn(&maze.cells, size), maze))
    };
    collect((count, MAX_REPEATED_MAZES), one, watch, &|made, tries| {
        format!(
            "there are {made} mazes of {size} by {size} whose way has more than {min_length} steps, as far as {tries} times \
             {MAX_MAZES} tries found; ask for fewer or for shorter ways"
        )
    })
}

/// The turned or mirrored look of a maze that comes first of all: the same for all of them.
pub fn first_turn(cells: &[u8], size: usize) -> Vec<u8> {
    let seen = |turn: usize| -> Vec<u8> {
        let from = turned(size, size, turn as u8).into_iter();
        from.map(|cell| cells[cell]).collect()
    };
    (0..TURNS).map(seen).min().unwrap_or_default()
}

/// Makes so many things by their numbers, on all cores. What has a form that was there, or could not be made, is left out; that may
/// happen `max_repeated` times in a row.
fn collect<T: Send>(
    (count, max_repeated): (usize, usize),
    one: impl Fn(usize, &dyn Fn() -> bool) -> Option<(Vec<u8>, T)> + Sync,
    watch: Watch,
    too_few: &dyn Fn(usize, usize) -> String,
) -> Result<Option<Vec<T>>> {
    let (mut made, mut seen) = (Vec::new(), BTreeSet::new());
    let (mut repeated, mut at) = (0, 0);
    while made.len() < count {
        let ready = AtomicUsize::new(made.len());
        let continues = || watch(ready.load(Ordering::Relaxed).min(count));
        let watched = |index: usize| {
            let one = continues().then(|| one(index, &continues)).flatten();
            ready.fetch_add(usize::from(one.is_some()), Ordering::Relaxed);
            one
        };
        let some: Vec<_> = (at..at + AT_ONCE).into_par_iter().map(watched).collect();
        if !continues() {
            return Ok(None);
        }
        at += AT_ONCE;
        for one in some {
            let new = one.filter(|(form, _)| made.len() < count && seen.insert(form.clone()));
            match new {
                Some((_, one)) => {
                    made.push(one);
                    repeated = 0;
                }
                None => repeated += 1,
            }
        }
        if repeated > max_repeated && made.len() < count {
            return Err(Error::Data(too_few(made.len(), at)));
        }
    }
    Ok(Some(made))
}

/// Writes puzzles as a folder that can be learned from: the last `held_out` are those to measure with.
pub fn write(made: &[Made], held_out: usize, folder: &Path) -> Result<()> {
    let row = |Made { grid, rating }: &Made| {
        let (puzzle, solution) = (text(&grid.puzzle), text(&grid.solution));
        format!("anneal,{puzzle},{solution},{rating}\n")
    };
    write_tables(made, held_out, folder, row)
}

/// Writes mazes as a folder that can be learned from. They are rated by how long the way is.
pub fn write_mazes(made: &[Maze], held_out: usize, folder: &Path) -> Result<()> {
    let row = |maze: &Maze| {
        let [cells, answer] = [&maze.cells, &maze.answer].map(|it| maze::text(it));
        format!("anneal,\"{cells}\",\"{answer}\",{}\n", maze.length)
    };
    write_tables(made, held_out, folder, row)
}

fn write_tables<T>(
    made: &[T],
    held_out: usize,
    folder: &Path,
    row: impl Fn(&T) -> String,
) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(Error::file("make the folder", folder))?;
    let (train, test) = made.split_at(made.len().saturating_sub(held_out));
    for (name, some) in [(TRAIN, train), (TEST, test)] {
        let rows: String = some.iter().map(&row).collect();
        let table = format!("source,question,answer,rating\n{rows}");
        write_file(&folder.join(name), table.as_bytes())?;
    }
    Ok(())
}

/// How many values are in each of at most so many equal ranges: the first value of each, and how many.
pub fn histogram(values: &[usize], ranges: usize) -> Vec<(usize, usize)> {
    let (Some(least), Some(most)) = (values.iter().min(), values.iter().max()) else {
        return Vec::new();
    };
    let width = (most - least + 1).div_ceil(ranges.max(1));
    let count = |range: usize| {
        let first = least + range * width;
        let inside = values
            .iter()
            .filter(|it| (first..first + width).contains(it));
        (first, inside.count())
    };
    (0..(most - least + 1).div_ceil(width)).map(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(count: usize) -> Order {
        Order {
            shape: Sudoku::of_cells(16).unwrap(),
            count,
            givens: 0..=9,
            min_rating: 0,
            seed: 3,
        }
    }

    #[test]
    fn the_same_seed_makes_the_same_puzzles_and_none_twice() {
        let some = make(&order(60)).unwrap();
        assert_eq!(make(&order(60)).unwrap(), some);
        assert_eq!(make(&order(40)).unwrap(), some[..40]);
        let shape = Sudoku::of_cells(16).unwrap();
        let forms: BTreeSet<Vec<u8>> = some
            .iter()
            .map(|it| shape.canonical(&it.grid.puzzle))
            .collect();
        assert_eq!(forms.len(), 60);
    }

    #[test]
    fn more_than_there_are_is_refused_with_how_many_there_are() {
        let error = make(&order(1_000_000)).unwrap_err();
        assert!(error.to_string().starts_with("there are "), "{error}");
    }

    #[test]
    fn mazes_are_the_same_by_the_same_seed_and_none_is_another_one_turned() {
        let make = |count| make_mazes(8, 10, count, 5, &|_| true).unwrap().unwrap();
        let mazes = make(80);
        assert_eq!(make(20), mazes[..20]);
        let forms: BTreeSet<Vec<u8>> = mazes.iter().map(|it| first_turn(&it.cells, 8)).collect();
        assert_eq!(forms.len(), 80);
        for turn in 0..TURNS as u8 {
            let seen: Vec<u8> = turned(8, 8, turn)
                .into_iter()
                .map(|it| mazes[0].cells[it])
                .collect();
            assert_eq!(first_turn(&seen, 8), first_turn(&mazes[0].cells, 8));
        }
        let error = make_mazes(5, 24, 10, 5, &|_| true).unwrap_err().to_string();
        assert!(error.starts_with("there are 0 mazes of 5 by 5"), "{error}");
    }

    #[test]
    fn making_stops_when_it_is_told_to_and_tells_how_far_it_is() {
        assert_eq!(make_harder(&order(60), 3, &|_| false).unwrap(), None);
        let most = AtomicUsize::new(0);
        let watch = |made| most.fetch_max(made, Ordering::Relaxed) < 100;
        assert_eq!(make_harder(&order(100), 0, &watch).unwrap(), None);
        assert_eq!(most.into_inner(), 100);
    }

    #[test]
    fn a_histogram_has_every_value_once() {
        assert_eq!(
            histogram(&[3, 3, 4, 9, 12], 4),
            [(3, 3), (6, 0), (9, 1), (12, 1)]
        );
        assert_eq!(histogram(&[7], 4), [(7, 1)]);
        assert_eq!(histogram(&[], 4), []);
    }
}
