//! What is known of tokenized rows before a row length is chosen: how long each is, and where its first learned token is.
//!
//! From this follows, for any row length, which rows would be cut before anything in them is learned, without tokenizing the
//! text again. Deliberately absent: the tokens.

use rayon::prelude::*;

use super::{
    Dataset,
    encode::{Learn, TokenRow, nothing_learned, problem, token_rows},
    row::{Problem, Row},
    template::ChatTemplate,
    tokenizer::Tokenizer,
};

/// Rows before any is cut, each as the token rows that it gives, or why it gives none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outline(Vec<Result<Vec<Shape>, String>>);

/// A row of tokens, without them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    length: usize,
    /// Where the first token is that is learned. The first of all is never one.
    first_learned: Option<usize>,
}

/// The rows that are not learned from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Rows that the template refuses, or in which there is nothing to learn.
    pub problems: Vec<Problem>,
    /// Rows left out because they are cut before anything is learned.
    pub cut_away: Vec<Problem>,
}

impl Outline {
    /// Looks at rows, on all cores.
    pub fn new(rows: &[Row], tokenizer: &Tokenizer, template: &ChatTemplate, learn: Learn) -> Self {
        let shapes = |row| -> Result<Vec<Shape>, String> {
            let rows = token_rows(row, tokenizer, template, learn, usize::MAX)?;
            Ok(rows.iter().map(Shape::of).collect())
        };
        Self(rows.par_iter().map(shapes).collect())
    }

    /// What is left out of the same rows of `dataset` when each is cut at `max_length`.
    pub fn left_out(&self, dataset: &Dataset, rows: &[Row], max_length: usize) -> LeftOut {
        let mut left_out = LeftOut::default();
        for (row, shapes) in rows.iter().zip(&self.0) {
            let shapes = match shapes {
                Ok(shapes) => shapes,
                Err(reason) => {
                    let refused = problem(dataset, row, reason.clone());
                    left_out.problems.push(refused);
                    continue;
                }
            };
            for shape in shapes {
                let kept = shape.length.min(max_length);
                if shape.first_learned.is_some_and(|first| first < kept) {
                    continue;
                }
                let nothing = problem(dataset, row, nothing_learned(shape.length, kept));
                match kept < shape.length {
                    true => left_out.cut_away.push(nothing),
                    false => left_out.problems.push(nothing),
                }
            }
        }
        left_out
    }
}

impl Shape {
    fn of(row: &TokenRow) -> Self {
        let first = row.learned.iter().skip(1).position(|learned| *learned);
        Self {
            length: row.full_length,
            first_learned: first.map(|at| at + 1),
        }
    }
}
