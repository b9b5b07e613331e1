//! Days and months: what comes before and after, and how long a month is.

use super::{Category, Cell, cell};

const DAYS: [&str; 7] = [
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
];

const MONTHS: [(&str, &str); 12] = [
    ("January", "31"),
    ("February", "28, or 29 in a leap year."),
    ("March", "31"),
    ("April", "30"),
    ("May", "31"),
    ("June", "30"),
    ("July", "31"),
    ("August", "31"),
    ("September", "30"),
    ("October", "31"),
    ("November", "30"),
    ("December", "31"),
];

/// How many places further the answer is, and how to ask for it. `[]` is `day` or `month`.
const STEPS: [(isize, &[&str]); 4] = [
    (
        1,
        &[
            "What [] comes after {}?",
            "Which [] follows {}?",
            "What is the [] after {}?",
            "Tell me the [] after {}.",
            "After {} comes which []?",
            "Which [] is next after {}?",
            "what comes after {}",
            "name the [] after {}",
        ],
    ),
    (
        -1,
        &[
            "What [] comes before {}?",
            "Which [] precedes {}?",
            "What is the [] before {}?",
            "Tell me the [] before {}.",
            "Before {} comes which []?",
            "Which [] is just before {}?",
            "what comes before {}",
            "name the [] before {}",
        ],
    ),
    (
        2,
        &[
            "What [] is two []s after {}?",
            "Which [] comes two []s after {}?",
            "Tell me the [] two []s after {}.",
            "Two []s after {} is which []?",
            "Name the [] two []s after {}.",
            "two []s after {}",
        ],
    ),
    (
        -2,
        &[
            "What [] is two []s before {}?",
            "Which [] comes two []s before {}?",
            "Tell me the [] two []s before {}.",
            "Two []s before {} is which []?",
            "Name the [] two []s before {}.",
            "two []s before {}",
        ],
    ),
];

const LENGTHS: [&str; 6] = [
    "How many days does {} have?",
    "How many days are in {}?",
    "How many days are there in {}?",
    "How long is {}?",
    "Tell me how many days {} has.",
    "days in {}",
];

/// Every day and month in every phrasing.
pub(super) fn cells() -> Vec<Cell> {
    let months = MONTHS.map(|(name, _)| name);
    let mut cells = around(Category::Days, "day", &DAYS);
    cells.extend(around(Category::Months, "month", &months));
    for (name, days) in MONTHS {
        cells.extend(LENGTHS.map(|phrasing| cell(Category::Months, phrasing, name, days)));
    }
    cells
}

/// What stands around each name of a circle of names.
fn around(category: Category, kind: &str, names: &[&str]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for (step, phrasings) in STEPS {
        for (place, name) in names.iter().enumerate() {
            let other = place.wrapping_add_signed(names.len() as isize + step) % names.len();
            let answer = format!("{}.", names[other]);
            for phrasing in phrasings {
                cells.push(cell(category, &phrasing.replace("[]", kind), name, &answer));
            }
        }
    }
    cells
}
