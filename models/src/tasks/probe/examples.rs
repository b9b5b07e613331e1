//! The rows of a study but for their states: texts, labels, groups, and which part each is in.

use std::collections::BTreeSet;

use super::{
    fitting::Truth,
    split::{self, Part},
    states::{Position, StateRow, States},
};
use crate::{Error, Result, figures::counted};

/// The fewest rows that can be divided into three parts that say anything.
const FEWEST: usize = 30;

/// Labelled rows, in the order of the states.
#[derive(Debug, Clone, Default)]
pub struct Examples {
    /// Names of the K labels, sorted.
    pub labels: Vec<String>,
    /// Which rows have each label: [K][n].
    pub positive: Vec<Vec<bool>>,
    /// The texts: [n].
    pub texts: Vec<String>,
    /// How many tokens the model read of each: [n].
    pub tokens: Vec<usize>,
    /// Which rows are of one group: [n].
    pub groups: Vec<u64>,
    /// The part of each row: [n].
    pub parts: Vec<Part>,
}

impl Examples {
    /// The rows of captured states, divided by the parts that their source names, or else by their groups.
    ///
    /// Errors: [`Error::Data`] where there are no labels or too few rows, where only some rows name a part, or where each token has
    /// a vector of its own.
    pub fn of(states: &States, only: &[String], seed: u64) -> Result<Self> {
        if states.about().position == Position::Tokens {
            let problem = "these states have a vector for each token, and a probe learns from one a text; capture them with \
                           `--position mean` or `last`";
            return Err(Error::Data(problem.into()));
        }
        Self::of_rows(states.rows(), only, seed)
    }

    /// The same of rows that may have no states yet.
    pub(super) fn of_rows(rows: &[StateRow], only: &[String], seed: u64) -> Result<Self> {
        if rows.len() < FEWEST {
            return Err(Error::Data(format!(
                "{} with states; a study needs at least {FEWEST} to learn, choose and report on different ones",
                counted(rows.len() as u64, "text")
            )));
        }
        let names: BTreeSet<&str> = rows
            .iter()
            .flat_map(|it| &it.labels)
            .map(|it| &it[..])
            .collect();
        let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
        let labels = chosen(names, only)?;
        let has = |label: &String| rows.iter().map(|it| it.labels.contains(label)).collect();
        let mut examples = Self {
            positive: labels.iter().map(has).collect(),
            labels,
            texts: rows.iter().map(|it| it.text.clone()).collect(),
            tokens: rows.iter().map(|it| it.tokens).collect(),
            groups: rows.iter().map(group).collect(),
            parts: Vec::new(),
        };
        examples.parts = match parts_of_source(rows.iter().map(|it| it.part.as_deref()))? {
            Some(parts) => parts,
            None => split::split(&examples.groups, &examples.strata(), split::SHARES, seed),
        };
        Ok(examples)
    }

    /// Every so many-th row.
    pub(super) fn some(&self, every: usize) -> Self {
        fn some<T: Clone>(of: &[T], every: usize) -> Vec<T> {
            of.iter().step_by(every).cloned().collect()
        }
        let positive = self.positive.iter();
        Self {
            labels: self.labels.clone(),
            positive: positive.map(|it| some(it, every)).collect(),
            texts: some(&self.texts, every),
            tokens: some(&self.tokens, every),
            groups: some(&self.groups, every),
            parts: some(&self.parts, every),
        }
    }

    /// Whether the texts are known. States of other programs’ files come without.
    pub fn have_texts(&self) -> bool {
        self.texts.iter().any(|it| !it.trim().is_empty())
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.texts.len()
    }

    /// The rows of a part, in their order.
    pub fn of_part(&self, part: Part) -> Vec<usize> {
        let rows = self.parts.iter().enumerate();
        rows.filter(|(_, it)| **it == part)
            .map(|(row, _)| row)
            .collect()
    }

    /// Which rows of three parts have a label.
    pub(super) fn truth(&self, label: usize, rows: &[Vec<usize>; 3]) -> Truth {
        let has = |&row: &usize| self.positive[label][row];
        rows.each_ref().map(|rows| rows.iter().map(has).collect())
    }

    /// What rows are spread by over parts and draws: the first of a row’s labels, from 1, or 0 without one.
    pub fn strata(&self) -> Vec<u32> {
        let first = |row: usize| {
            let label = self.positive.iter().position(|it| it[row]);
            label.map_or(0, |it| it as u32 + 1)
        };
        (0..self.texts.len()).map(first).collect()
    }

    /// The class of each row, where every row has exactly one of at least two labels.
    pub fn classes(&self) -> Option<Vec<usize>> {
        let class = |row: usize| {
            let mut of = (0..self.positive.len()).filter(|&it| self.positive[it][row]);
            of.next().filter(|_| of.next().is_none())
        };
        let classes: Option<Vec<usize>> = (0..self.rows()).map(class).collect();
        classes.filter(|_| self.labels.len() > 1)
    }
}

/// What a row stays together with: its group, rows of its text, or where there is no text only itself.
fn group(row: &StateRow) -> u64 {
    let own = format!("row {}", row.id);
    match (&row.group, row.text.trim()) {
        (None, "") => split::group_key(Some(&own), ""),
        (group, text) => split::group_key(group.as_deref(), text),
    }
}

/// The labels that are asked for, or all.
fn chosen(names: Vec<String>, only: &[String]) -> Result<Vec<String>> {
    if names.is_empty() {
        return Err(Error::Data(
            "the rows have no labels, and a probe learns from them; capture again with `--label-column`".into(),
        ));
    }
    if let Some(unknown) = only.iter().find(|it| !names.contains(it)) {
        return Err(Error::Data(format!(
            "no row has the label `{unknown}`; there are: {}",
            names.join(", ")
        )));
    }
    // Two labels of which a row has one say the same twice; both are kept, since both names are looked for.
    Ok(match only.is_empty() {
        true => names,
        false => only.to_vec(),
    })
}

/// The parts that the source names, if it names any.
fn parts_of_source<'a>(
    parts: impl ExactSizeIterator<Item = Option<&'a str>>,
) -> Result<Option<Vec<Part>>> {
    let rows = parts.len();
    let mut found = Vec::new();
    for (row, part) in parts.enumerate() {
        found.push(match part {
            None => continue,
            Some("train") => Part::Train,
            Some("val" | "valid" | "validation" | "dev") => Part::Validation,
            Some("test") => Part::Test,
            Some(other) => {
                return Err(Error::Data(format!(
                    "row {} is in the part `{other}`; parts are train, val and test",
                    row + 1
                )));
            }
        });
    }
    if found.is_empty() {
        return Ok(None);
    }
    if found.len() < rows {
        return Err(Error::Data(format!(
            "{} of {rows} name a part; either all do or none",
            counted(found.len() as u64, "row")
        )));
    }
    if let Some(part) = split::PARTS.iter().find(|it| !found.contains(it)) {
        return Err(Error::Data(format!(
            "no row is in the part {part:?}; a study learns from train, chooses on val and reports on test"
        )));
    }
    Ok(Some(found))
}
