//! What comes before and what comes after: days, months and numbers, asked in the same words.

use super::{Category, Cell, cell};
use crate::random::stable_hash;

const DAYS: [&str; 7] = [
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
];

/// The months, and how many days each has.
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

/// Numbers below this are asked for their neighbours.
const NUMBERS_BELOW: usize = 40;
/// In how many of the phrasings each number is asked.
const PHRASINGS_EACH: usize = 5;

/// Ways to ask for what comes next. `[]` is `day`, `month` or `number`.
const AFTER: [&str; 11] = [
    "What [] comes after {}?",
    "Which [] follows {}?",
    "What is the [] after {}?",
    "Tell me the [] after {}.",
    "Which [] is next after {}?",
    "Which [] comes right after {}?",
    "Name the [] after {}.",
    "Which [] stands after {}?",
    "After {} comes which []?",
    "what comes after {}",
    "the [] after {}",
];
/// Ways to ask for what came last.
const BEFORE: [&str; 11] = [
    "What [] comes before {}?",
    "Which [] precedes {}?",
    "What is the [] before {}?",
    "Tell me the [] before {}.",
    "Which [] is just before {}?",
    "Which [] comes right before {}?",
    "Name the [] before {}.",
    "Which [] stands before {}?",
    "Before {} comes which []?",
    "what comes before {}",
    "the [] before {}",
];
const TOMORROW: [&str; 3] = [
    "If today is {}, what is tomorrow?",
    "Today is {}. What day is tomorrow?",
    "today is {}, and tomorrow",
];
const YESTERDAY: [&str; 3] = [
    "If today is {}, what was yesterday?",
    "Today is {}. What day was yesterday?",
    "today is {}, and yesterday",
];
const LENGTHS: [&str; 7] = [
    "How many days does {} have?",
    "How many days has {}?",
    "How many days are in {}?",
    "How many days are there in {}?",
    "How long is {}?",
    "Tell me how many days {} has.",
    "days in {}",
];

/// Every day and month in every phrasing, and every number in some.
pub(super) fn cells(seed: u64) -> Vec<Cell> {
    let mut cells = Vec::new();
    let place = |place: usize| DAYS[place % DAYS.len()];
    for (index, day) in DAYS.into_iter().enumerate() {
        let (next, last) = (sentence(place(index + 1)), sentence(place(index + 6)));
        cells.extend(ask(Category::Days, "day", &AFTER, day, &next));
        cells.extend(ask(Category::Days, "day", &TOMORROW, day, &next));
        cells.extend(ask(Category::Days, "day", &BEFORE, day, &last));
        cells.extend(ask(Category::Days, "day", &YESTERDAY, day, &last));
    }
    let place = |place: usize| MONTHS[place % MONTHS.len()].0;
    for (index, (month, days)) in MONTHS.into_iter().enumerate() {
        let (next, last) = (sentence(place(index + 1)), sentence(place(index + 11)));
        cells.extend(ask(Category::Months, "month", &AFTER, month, &next));
        cells.extend(ask(Category::Months, "month", &BEFORE, month, &last));
        cells.extend(ask(Category::Months, "month", &LENGTHS, month, days));
    }
    for number in 0..NUMBERS_BELOW {
        let (name, next) = (number.to_string(), (number + 1).to_string());
        let after = some(seed, &AFTER, &format!("after {name}"), PHRASINGS_EACH);
        cells.extend(ask(Category::Counting, "number", &after, &name, &next));
        if let Some(last) = number.checked_sub(1) {
            let before = some(seed, &BEFORE, &format!("before {name}"), PHRASINGS_EACH);
            cells.extend(ask(
                Category::Counting,
                "number",
                &before,
                &name,
                &last.to_string(),
            ));
        }
    }
    cells
}

/// So many of the phrasings, others for each name.
pub(super) fn some(
    seed: u64,
    phrasings: &[&'static str],
    name: &str,
    count: usize,
) -> Vec<&'static str> {
    let start = stable_hash(seed, name.as_bytes()) as usize % phrasings.len();
    // Neighbours in the tables are much alike. No table has 4 or a multiple of it, so steps of 4 reach all.
    let chosen = (0..count).map(|index| phrasings[(start + 4 * index) % phrasings.len()]);
    chosen.collect()
}

fn ask<'a>(
    category: Category,
    kind: &'a str,
    phrasings: &'a [&str],
    name: &'a str,
    answer: &'a str,
) -> impl Iterator<Item = Cell> + 'a {
    phrasings
        .iter()
        .map(move |phrasing| cell(category, &phrasing.replace("[]", kind), name, answer))
}

fn sentence(name: &str) -> String {
    format!("{name}.")
}
