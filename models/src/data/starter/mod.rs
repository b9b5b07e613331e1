//! The starter's data: short conversations the program writes itself, so that a first model needs no file.
//!
//! Each category is a grid of facts and phrasings. One share of the grid's cells is held out: questions the model is
//! asked at the end and has never read. It can only answer them when it has learned the fact from other phrasings, the
//! phrasing from other facts, or how to calculate: an operand pair of arithmetic is held out in every phrasing.
//!
//! Which cells are held out is a matter of a stable hash, never of a choice by hand. Questions that differ in nothing
//! but capitals and punctuation are one cell. Deliberately absent: chat templates and tokens.

mod numbers;
mod order;
mod tables;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::random::{Random, stable_hash};
use tables::TABLES;

/// The share of each category's cells that is held out: one in eight.
const HELD_OUT_ONE_IN: usize = 8;
/// Of the conversations, how many are two questions in a row: one in eight.
const TWO_TURNS_ONE_IN: usize = 8;

/// What a question is about. Results are counted by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// Greetings, thanks, who are you.
    SmallTalk,
    /// Addition and subtraction of small numbers.
    Arithmetic,
    /// Counting, the number before and after.
    Counting,
    /// The days of the week.
    Days,
    /// The months of the year.
    Months,
    /// The colours of things, and what colours make together.
    Colours,
    /// Words that mean the opposite.
    Opposites,
    /// The sounds, young and legs of animals.
    Animals,
    /// Capitals, continents, authors and other facts.
    Encyclopedia,
}

impl Category {
    /// What a person calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::SmallTalk => "small talk",
            Self::Arithmetic => "arithmetic",
            Self::Counting => "counting",
            Self::Days => "days",
            Self::Months => "months",
            Self::Colours => "colours",
            Self::Opposites => "opposites",
            Self::Animals => "animals",
            Self::Encyclopedia => "encyclopedia",
        }
    }
}

/// A question and the one answer that counts as right.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exchange {
    /// What it is about.
    pub category: Category,
    /// What the user says.
    pub question: String,
    /// What the model should say, to the letter.
    pub answer: String,
}

/// The conversations to learn from, and the questions to be asked at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StarterData {
    /// Conversations of one or two exchanges, in random order.
    pub train: Vec<Vec<Exchange>>,
    /// Questions that occur in no conversation, in random order.
    pub held_out: Vec<Exchange>,
}

/// Writes the starter's data. The same seed gives the same data, everywhere.
pub fn starter_data(seed: u64) -> StarterData {
    let (train, held_out): (Vec<Cell>, Vec<Cell>) = split(seed, cells(seed));
    let mut random = Random::for_purpose(seed, "starter order");
    let mut train: Vec<Exchange> = train.into_iter().map(|cell| cell.exchange).collect();
    let mut held_out: Vec<Exchange> = held_out.into_iter().map(|cell| cell.exchange).collect();
    random.shuffle(&mut train);
    random.shuffle(&mut held_out);
    StarterData {
        train: conversations(train, &mut random),
        held_out,
    }
}

/// The letters and digits of a question, in small letters: two questions with the same key are one cell.
pub fn question_key(question: &str) -> String {
    let plain: String = question
        .to_lowercase()
        .chars()
        .map(|it| {
            if it.is_alphanumeric() || "+-".contains(it) {
                it
            } else {
                ' '
            }
        })
        .collect();
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// One cell of a category's grid.
struct Cell {
    exchange: Exchange,
    /// Cells with the same group are held out together.
    group: String,
}

/// A cell that is held out for itself.
fn cell(category: Category, phrasing: &str, subject: &str, answer: &str) -> Cell {
    let hurried = phrasing.starts_with(|it: char| it.is_lowercase());
    let question = if hurried {
        phrasing.replace("{}", subject).to_lowercase()
    } else {
        capitalized(&phrasing.replace("{}", subject))
    };
    Cell {
        group: question_key(&question),
        exchange: Exchange {
            category,
            question,
            answer: answer.to_owned(),
        },
    }
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).collect()
}

/// All cells of all categories.
fn cells(seed: u64) -> Vec<Cell> {
    let mut cells = talk();
    cells.extend(numbers::cells(seed));
    cells.extend(order::cells(seed));
    for relation in &TABLES.relations {
        for (subject, answer) in &relation.facts {
            let asked = relation.phrasings.iter();
            cells.extend(asked.map(|phrasing| cell(relation.category, phrasing, subject, answer)));
        }
    }
    cells
}

/// Small talk: every saying in every surrounding.
fn talk() -> Vec<Cell> {
    let mut cells = Vec::new();
    for intent in &TABLES.intents {
        for saying in &intent.sayings {
            let (words, mark) = saying.split_at(saying.len() - 1);
            for surrounding in &TABLES.surroundings {
                // Who types in a hurry leaves the mark out.
                let hurried = surrounding.starts_with(|it: char| it.is_lowercase());
                let phrasing = format!("{surrounding}{}", if hurried { "" } else { mark });
                cells.push(cell(Category::SmallTalk, &phrasing, words, &intent.answer));
            }
        }
    }
    cells
}

/// Takes the groups whose hashes are lowest out of each category: at least one in [`HELD_OUT_ONE_IN`] groups.
fn split(seed: u64, cells: Vec<Cell>) -> (Vec<Cell>, Vec<Cell>) {
    let mut hashes: BTreeMap<Category, Vec<u64>> = BTreeMap::new();
    let hash = |cell: &Cell| stable_hash(seed, cell.group.as_bytes());
    for cell in &cells {
        let category = hashes.entry(cell.exchange.category).or_default();
        category.push(hash(cell));
    }
    for category in hashes.values_mut() {
        category.sort_unstable();
        category.dedup();
        category.truncate(category.len().div_ceil(HELD_OUT_ONE_IN));
    }
    cells.into_iter().partition(|cell| {
        let held_out = hashes.get(&cell.exchange.category);
        held_out.is_none_or(|them| them.binary_search(&hash(cell)).is_err())
    })
}

/// Puts some exchanges behind others, so that the model has seen a conversation go on.
fn conversations(exchanges: Vec<Exchange>, random: &mut Random) -> Vec<Vec<Exchange>> {
    let mut conversations: Vec<Vec<Exchange>> = Vec::new();
    for exchange in exchanges {
        match conversations.last_mut() {
            Some(last) if last.len() == 1 && random.below(TWO_TURNS_ONE_IN) == 0 => {
                last.push(exchange);
            }
            _ => conversations.push(vec![exchange]),
        }
    }
    conversations
}

#[cfg(test)]
mod tests;
