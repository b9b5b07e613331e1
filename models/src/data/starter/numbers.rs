//! Numbers: addition, subtraction and counting.
//!
//! A sum is a group of its own: held out in every phrasing, so that its answer can't be remembered from another one.

use super::{Category, Cell, cell, order::some};

/// The first operand is below this.
const FIRST_BELOW: usize = 50;
/// The second operand is below this: one digit.
const SECOND_BELOW: usize = 10;
/// Counting starts below this.
const COUNT_BELOW: usize = 25;
/// Counting goes on for at most so many numbers.
const COUNT_MOST: usize = 7;
/// In how many of the phrasings each sum is asked, and each count.
const PHRASINGS_EACH: usize = 2;

const PLUS: [&str; 7] = [
    "What is {} + []?",
    "{} + []",
    "How much is {} + []?",
    "What is {} plus []?",
    "Calculate {} + [].",
    "{} plus []",
    "{}+[]",
];
const MINUS: [&str; 7] = [
    "What is {} - []?",
    "{} - []",
    "How much is {} - []?",
    "What is {} minus []?",
    "Calculate {} - [].",
    "{} minus []",
    "{}-[]",
];
const COUNT: [&str; 5] = [
    "Count from {} to [].",
    "Please count from {} to [].",
    "Can you count from {} to []?",
    "Count up from {} to [].",
    "count {} to []",
];

/// Every sum and every count, each in some of the phrasings.
pub(super) fn cells(seed: u64) -> Vec<Cell> {
    let mut cells = Vec::new();
    for first in 0..FIRST_BELOW {
        for second in 0..SECOND_BELOW {
            let sum = (first + second).to_string();
            cells.extend(pair(
                seed,
                Category::Arithmetic,
                &PLUS,
                (first, second),
                &sum,
            ));
            if second <= first {
                let rest = (first - second).to_string();
                cells.extend(pair(
                    seed,
                    Category::Arithmetic,
                    &MINUS,
                    (first, second),
                    &rest,
                ));
            }
        }
    }
    for from in 0..COUNT_BELOW {
        for to in from + 2..from + COUNT_MOST {
            let numbers: Vec<String> = (from..=to).map(|it| it.to_string()).collect();
            cells.extend(pair(
                seed,
                Category::Counting,
                &COUNT,
                (from, to),
                &numbers.join(", "),
            ));
        }
    }
    cells
}

/// Cells of two numbers in some of the phrasings, held out together.
fn pair(
    seed: u64,
    category: Category,
    phrasings: &[&'static str],
    (first, second): (usize, usize),
    answer: &str,
) -> Vec<Cell> {
    let fill = |phrasing: &str| phrasing.replace("[]", &second.to_string());
    let group = fill(phrasings[0]).replace("{}", &first.to_string());
    let phrasings = some(seed, phrasings, &group, PHRASINGS_EACH);
    let cell = |phrasing| cell(category, &fill(phrasing), &first.to_string(), answer);
    let cells = phrasings.into_iter().map(cell).map(|cell| Cell {
        group: group.clone(),
        ..cell
    });
    cells.collect()
}
