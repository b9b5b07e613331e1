//! What comes before and what comes after: days, months and numbers, asked in the same words.

use super::{Category, Cell, cell, tables::TABLES};
use crate::random::stable_hash;

/// Numbers below this are asked for their neighbours.
const NUMBERS_BELOW: usize = 40;
/// In how many of the phrasings each number is asked.
const PHRASINGS_EACH: usize = 5;

/// Every day and month in every phrasing, and every number in some.
pub(super) fn cells(seed: u64) -> Vec<Cell> {
    let tables = &*TABLES;
    let mut cells = Vec::new();
    let place = |place: usize| format!("{}.", tables.days[place % tables.days.len()]);
    for (index, day) in tables.days.iter().enumerate() {
        let (next, last) = (place(index + 1), place(index + 6));
        let mut ask =
            |phrasings, answer| cells.extend(ask(Category::Days, "day", phrasings, day, answer));
        ask(&tables.after, &next);
        ask(&tables.tomorrow, &next);
        ask(&tables.before, &last);
        ask(&tables.yesterday, &last);
    }
    let place = |place: usize| format!("{}.", tables.months[place % tables.months.len()].0);
    for (index, (month, days)) in tables.months.iter().enumerate() {
        let (next, last) = (place(index + 1), place(index + 11));
        let mut ask = |phrasings, answer| {
            cells.extend(ask(Category::Months, "month", phrasings, month, answer))
        };
        ask(&tables.after, &next);
        ask(&tables.before, &last);
        ask(&tables.lengths, days);
    }
    for number in 0..NUMBERS_BELOW {
        let name = number.to_string();
        let mut ask = |phrasings, word: &str, answer: usize| {
            let chosen = some(seed, phrasings, &format!("{word} {name}"), PHRASINGS_EACH);
            cells.extend(ask(
                Category::Counting,
                "number",
                &chosen,
                &name,
                &answer.to_string(),
            ));
        };
        ask(&tables.after, "after", number + 1);
        if let Some(last) = number.checked_sub(1) {
            ask(&tables.before, "before", last);
        }
    }
    cells
}

/// So many of the phrasings, others for each name.
pub(super) fn some(seed: u64, phrasings: &[String], name: &str, count: usize) -> Vec<String> {
    let start = stable_hash(seed, name.as_bytes()) as usize % phrasings.len();
    // Neighbours in the tables are much alike. No table has 4 or a multiple of it, so steps of 4 reach all.
    let chosen = (0..count).map(|index| &phrasings[(start + 4 * index) % phrasings.len()]);
    chosen.cloned().collect()
}

fn ask(
    category: Category,
    kind: &str,
    phrasings: &[String],
    name: &str,
    answer: &str,
) -> impl Iterator<Item = Cell> {
    phrasings
        .iter()
        .map(move |phrasing| cell(category, &phrasing.replace("[]", kind), name, answer))
}
