//! Sets of Sudoku of our own: seeded, made on all cores, and with no puzzle to measure with that is one to learn from seen otherwise.
//!
//! Deliberately absent: comparing them with a published set. How hard they are is told by our own rating (see [`super::sudoku`]).

use std::{collections::BTreeSet, ops::RangeInclusive, path::Path};

use rayon::prelude::*;

use super::{
    source::{Grid, TEST, TRAIN, text},
    sudoku::Sudoku,
};
use crate::{Error, Result, checkpoint::save::write_file, random::Random};

/// How many puzzles are made on all cores before they are compared.
const AT_ONCE: usize = 64;
/// Give up when so many in a row were there before: there are too few of the size.
const MAX_REPEATED: usize = 2_000;

/// A puzzle with its rating.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// The puzzle.
    pub grid: Grid,
    /// Ways of a search that led nowhere.
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
    let (mut made, mut seen) = (Vec::new(), BTreeSet::new());
    let (mut repeated, mut at) = (0, 0);
    while made.len() < order.count {
        let one = |index: usize| {
            let mut random = Random::for_purpose(order.seed, &format!("puzzle {index}"));
            let (low, high) = (*order.givens.start(), *order.givens.end());
            let givens = low + random.below(high.saturating_sub(low) + 1);
            let (puzzle, solution, rating) = order.shape.make(givens, &mut random);
            let form = order.shape.canonical(&puzzle);
            (
                form,
                Made {
                    grid: Grid { puzzle, solution },
                    rating,
                },
            )
        };
        let some: Vec<_> = (at..at + AT_ONCE).into_par_iter().map(one).collect();
        at += AT_ONCE;
        for (form, one) in some {
            let fits = one.rating >= order.min_rating && made.len() < order.count;
            match fits && seen.insert(form) {
                true => {
                    made.push(one);
                    repeated = 0;
                }
                false => repeated += 1,
            }
        }
        if repeated > MAX_REPEATED && made.len() < order.count {
            return Err(Error::Data(format!(
                "there are {} puzzles of this size with {} to {} givens and a rating from {}, as far as {at} tries found; ask for fewer",
                made.len(),
                order.givens.start(),
                order.givens.end(),
                order.min_rating
            )));
        }
    }
    Ok(made)
}

/// Writes puzzles as a folder that can be learned from: the last `held_out` are those to measure with.
pub fn write(made: &[Made], held_out: usize, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(Error::file("make the folder", folder))?;
    let (train, test) = made.split_at(made.len().saturating_sub(held_out));
    for (name, some) in [(TRAIN, train), (TEST, test)] {
        let mut table = String::from("source,question,answer,rating\n");
        for Made { grid, rating } in some {
            let (puzzle, solution) = (text(&grid.puzzle), text(&grid.solution));
            table += &format!("anneal,{puzzle},{solution},{rating}\n");
        }
        write_file(&folder.join(name), table.as_bytes())?;
    }
    Ok(())
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
}
