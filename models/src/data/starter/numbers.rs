//! Numbers: addition, subtraction and counting.
//!
//! A sum is a group of its own: held out in every phrasing, so that its answer can't be remembered from another one.
//! Counts are cells like all others: one that is held out can have been read in other words.

use std::ops::{Range, RangeInclusive};

use super::{Category, Cell, cell, order::some};

const FIRST: Range<usize> = 0..40;
const SECOND: Range<usize> = 0..10;
const COUNT_FROM: Range<usize> = 0..20;
/// How many numbers are counted.
const COUNT_LENGTHS: RangeInclusive<usize> = 3..=6;

/// A question about two numbers.
struct Question {
    category: Category,
    /// In how many of the phrasings each pair of numbers is asked.
    asked: usize,
    /// Whether a pair is held out in every phrasing or in none.
    by_pair: bool,
    /// `{}` is the first number and `[]` the second.
    phrasings: &'static [&'static str],
}

const PLUS: Question = Question {
    category: Category::Arithmetic,
    asked: 2,
    by_pair: true,
    phrasings: &[
        "What is {} + []?",
        "{} + []",
        "How much is {} + []?",
        "What is {} plus []?",
        "Calculate {} + [].",
        "{} plus []",
        "{}+[]",
    ],
};
const MINUS: Question = Question {
    category: Category::Arithmetic,
    asked: 2,
    by_pair: true,
    phrasings: &[
        "What is {} - []?",
        "{} - []",
        "How much is {} - []?",
        "What is {} minus []?",
        "Calculate {} - [].",
        "{} minus []",
        "{}-[]",
    ],
};
const COUNT: Question = Question {
    category: Category::Counting,
    asked: 4,
    by_pair: false,
    phrasings: &[
        "Count from {} to [].",
        "Please count from {} to [].",
        "Can you count from {} to []?",
        "Count up from {} to [].",
        "count {} to []",
    ],
};

/// Every sum and every count, each in some of the phrasings.
pub(super) fn cells(seed: u64) -> Vec<Cell> {
    let mut cells = Vec::new();
    for first in FIRST {
        for second in SECOND {
            cells.extend(PLUS.cells(seed, (first, second), &(first + second).to_string()));
            if let Some(rest) = first.checked_sub(second) {
                cells.extend(MINUS.cells(seed, (first, second), &rest.to_string()));
            }
        }
    }
    for from in COUNT_FROM {
        for to in COUNT_LENGTHS.map(|length| from + length - 1) {
            let numbers: Vec<String> = (from..=to).map(|it| it.to_string()).collect();
            cells.extend(COUNT.cells(seed, (from, to), &numbers.join(", ")));
        }
    }
    cells
}

impl Question {
    /// A pair of numbers in some of the phrasings.
    fn cells(&self, seed: u64, (first, second): (usize, usize), answer: &str) -> Vec<Cell> {
        let (first, second) = (first.to_string(), second.to_string());
        let pair = format!("{} {first} {second}", self.phrasings[0]);
        let phrasings = some(seed, self.phrasings, &pair, self.asked).into_iter();
        let cells = phrasings.map(|phrasing| {
            let phrasing = phrasing.replace("[]", &second);
            let mut cell = cell(self.category, &phrasing, &first, answer);
            if self.by_pair {
                cell.group.clone_from(&pair);
            }
            cell
        });
        cells.collect()
    }
}
