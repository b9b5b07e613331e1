//! Numbers: addition, subtraction and counting.
//!
//! A sum is a group of its own: held out in every phrasing, so that its answer can't be remembered from another one.
//! Counts are cells like all others: one that is held out can have been read in other words.

use std::ops::{Range, RangeInclusive};

use super::{Category, Cell, cell, order::some, tables::TABLES};

const FIRST: Range<usize> = 0..40;
const SECOND: Range<usize> = 0..10;
const COUNT_FROM: Range<usize> = 0..20;
/// How many numbers are counted.
const COUNT_LENGTHS: RangeInclusive<usize> = 3..=6;
/// In how many of the phrasings each sum, and each count, is asked.
const SUMS_ASKED: usize = 2;
const COUNTS_ASKED: usize = 4;

/// Every sum and every count, each in some of the phrasings.
pub(super) fn cells(seed: u64) -> Vec<Cell> {
    let mut cells = Vec::new();
    for first in FIRST {
        for second in SECOND {
            let mut ask = |phrasings, answer: usize| {
                let pair = [first, second];
                cells.extend(ask(
                    seed,
                    Category::Arithmetic,
                    phrasings,
                    pair,
                    &answer.to_string(),
                ));
            };
            ask(&TABLES.plus, first + second);
            if let Some(rest) = first.checked_sub(second) {
                ask(&TABLES.minus, rest);
            }
        }
    }
    for from in COUNT_FROM {
        for to in COUNT_LENGTHS.map(|length| from + length - 1) {
            let numbers: Vec<String> = (from..=to).map(|it| it.to_string()).collect();
            let (pair, answer) = ([from, to], numbers.join(", "));
            cells.extend(ask(seed, Category::Counting, &TABLES.count, pair, &answer));
        }
    }
    cells
}

/// A pair of numbers in some of the phrasings. A sum is held out in all of them or in none.
fn ask(
    seed: u64,
    category: Category,
    phrasings: &[String],
    pair: [usize; 2],
    answer: &str,
) -> Vec<Cell> {
    let [first, second] = pair.map(|number| number.to_string());
    let pair = format!("{} {first} {second}", phrasings[0]);
    let is_sum = category == Category::Arithmetic;
    let count = if is_sum { SUMS_ASKED } else { COUNTS_ASKED };
    let ask = |phrasing: String| {
        let mut cell = cell(category, &phrasing.replace("[]", &second), &first, answer);
        if is_sum {
            cell.group.clone_from(&pair);
        }
        cell
    };
    let chosen = some(seed, phrasings, &pair, count).into_iter();
    chosen.map(ask).collect()
}
