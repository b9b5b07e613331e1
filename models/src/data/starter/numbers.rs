//! Numbers: addition, subtraction and counting.
//!
//! A sum is a group of its own: held out in every phrasing, so that its answer can't be remembered from another one.

use super::{Category, Cell, cell};
use crate::random::stable_hash;

/// The first operand is below this.
const FIRST_BELOW: usize = 50;
/// The second operand is below this: one digit.
const SECOND_BELOW: usize = 10;
/// In how many of the phrasings each sum is asked.
const PHRASINGS_EACH: usize = 2;

const PLUS: [&str; 6] = [
    "What is {} + []?",
    "{} + []",
    "How much is {} + []?",
    "What is {} plus []?",
    "Calculate {} + [].",
    "{} plus []",
];
const MINUS: [&str; 6] = [
    "What is {} - []?",
    "{} - []",
    "How much is {} - []?",
    "What is {} minus []?",
    "Calculate {} - [].",
    "{} minus []",
];
const COUNT: [&str; 4] = [
    "Count from {} to [].",
    "Please count from {} to [].",
    "Can you count from {} to []?",
    "count {} to []",
];
const NEXT: [&str; 6] = [
    "What number comes after {}?",
    "Which number follows {}?",
    "What is the number after {}?",
    "Tell me the number after {}.",
    "Which number is next after {}?",
    "number after {}",
];
const LAST: [&str; 6] = [
    "What number comes before {}?",
    "Which number precedes {}?",
    "What is the number before {}?",
    "Tell me the number before {}.",
    "Which number is just before {}?",
    "number before {}",
];

/// Every sum, every count and every neighbour, each in some of the phrasings.
pub(super) fn cells(seed: u64) -> Vec<Cell> {
    let mut cells = Vec::new();
    for first in 0..FIRST_BELOW {
        for second in 0..SECOND_BELOW {
            let sum = (first + second).to_string();
            cells.extend(pair(seed, Category::Arithmetic, &PLUS, first, second, &sum));
            if second <= first {
                let rest = (first - second).to_string();
                cells.extend(pair(
                    seed,
                    Category::Arithmetic,
                    &MINUS,
                    first,
                    second,
                    &rest,
                ));
            }
        }
    }
    for from in 0..=20_usize {
        for to in (from.saturating_sub(5)..=from + 5).filter(|to| to.abs_diff(from) > 1) {
            cells.extend(pair(
                seed,
                Category::Counting,
                &COUNT,
                from,
                to,
                &counted(from, to),
            ));
        }
    }
    for number in 0..FIRST_BELOW {
        let (next, last) = ((number + 1).to_string(), number.checked_sub(1));
        cells.extend(some(seed, Category::Counting, &NEXT, number, &next));
        if let Some(last) = last {
            cells.extend(some(
                seed,
                Category::Counting,
                &LAST,
                number,
                &last.to_string(),
            ));
        }
    }
    cells
}

/// The numbers from one to the other, up or down.
fn counted(from: usize, to: usize) -> String {
    let mut numbers: Vec<String> = (from.min(to)..=from.max(to))
        .map(|it| it.to_string())
        .collect();
    if to < from {
        numbers.reverse();
    }
    numbers.join(", ")
}

/// Cells of two operands, held out together.
fn pair(
    seed: u64,
    category: Category,
    phrasings: &[&'static str],
    first: usize,
    second: usize,
    answer: &str,
) -> Vec<Cell> {
    let group = phrasings[0]
        .replace("{}", &first.to_string())
        .replace("[]", &second.to_string());
    chosen(seed, phrasings, &group)
        .map(|phrasing| {
            let phrasing = phrasing.replace("[]", &second.to_string());
            let cell = cell(category, &phrasing, &first.to_string(), answer);
            Cell {
                group: group.clone(),
                ..cell
            }
        })
        .collect()
}

/// Cells of one number, each held out for itself.
fn some(
    seed: u64,
    category: Category,
    phrasings: &[&'static str],
    number: usize,
    answer: &str,
) -> Vec<Cell> {
    chosen(seed, phrasings, &format!("{} {number}", phrasings[0]))
        .map(|phrasing| cell(category, phrasing, &number.to_string(), answer))
        .collect()
}

/// Some of the phrasings, others for each name.
fn chosen<'a>(
    seed: u64,
    phrasings: &'a [&'static str],
    name: &str,
) -> impl Iterator<Item = &'a str> {
    let start = stable_hash(seed, name.as_bytes()) as usize % phrasings.len();
    phrasings
        .iter()
        .cycle()
        .skip(start)
        .take(PHRASINGS_EACH)
        .copied()
}
