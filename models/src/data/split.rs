//! Which part of the data is learned, and which is held out to see what was learned.
//!
//! Rows are held out by a hash of what they say: the choice depends on no other row and no order, so a row stays on
//! its side when the data grows, and equal rows are never on both sides. Of a stream, the end is held out.

use super::{
    Dataset,
    row::{Example, Row},
};
use crate::{Error, Result, random::stable_hash};

/// Rows to learn from and rows held out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Split {
    /// Learned.
    pub train: Vec<Row>,
    /// Never learned.
    pub held_out: Vec<Row>,
}

/// Splits a data set; `held_out` is the part to hold out, from 0 to below 1.
///
/// With rows, the part is met on average; of two or more different rows, each side has at least one.
pub fn split(dataset: &mut Dataset, held_out: f64, seed: u64) -> Result<Split> {
    if !(0.0..1.0).contains(&held_out) {
        return Err(Error::setting(
            "data.held_out",
            format!("is {held_out}; it must be from 0 to below 1"),
        ));
    }
    let rows = std::mem::take(&mut dataset.rows);
    if held_out == 0.0 {
        return Ok(Split {
            train: rows,
            held_out: Vec::new(),
        });
    }
    Ok(match dataset.is_stream {
        true => split_stream(rows, held_out),
        false => split_rows(rows, held_out, seed),
    })
}

fn split_rows(rows: Vec<Row>, held_out: f64, seed: u64) -> Split {
    let hashes: Vec<u64> = rows
        .iter()
        .map(|row| stable_hash(seed, &row.example.identity()))
        .collect();
    let sides = are_held_out(&hashes, held_out);
    let mut split = Split::default();
    for (row, is_held_out) in rows.into_iter().zip(sides) {
        match is_held_out {
            true => split.held_out.push(row),
            false => split.train.push(row),
        }
    }
    split
}

/// Which of these are held out, by their hashes: a part from 0 to below 1 on average, equal ones on one side, and of two or more
/// different ones at least one on each.
pub fn are_held_out(hashes: &[u64], part: f64) -> Vec<bool> {
    let (smallest, largest) = (hashes.iter().min(), hashes.iter().max());
    // 2^64 is exact in f64, and `as` saturates.
    let limit = (part * 2f64.powi(64)) as u64;
    let is_held_out = |hash: &u64| match smallest == largest {
        true => false,
        false => (*hash < limit || Some(hash) == smallest) && Some(hash) != largest,
    };
    hashes.iter().map(is_held_out).collect()
}

/// Holds out the last bytes of all texts together, from the next line start on.
fn split_stream(rows: Vec<Row>, held_out: f64) -> Split {
    let size = |row: &Row| match &row.example {
        Example::Text(text) => text.len(),
        Example::Chat(_) => 0,
    };
    let all: usize = rows.iter().map(size).sum();
    let mut left = all - (all as f64 * held_out) as usize;
    let mut split = Split::default();
    for mut row in rows {
        let length = size(&row);
        if length <= left {
            left -= length;
            split.train.push(row);
            continue;
        }
        if left > 0
            && let Example::Text(text) = &mut row.example
        {
            let cut = cut_at(text, left);
            let tail = text.split_off(cut);
            let line = row.line + text.bytes().filter(|&byte| byte == b'\n').count() as u32;
            let rest = Row {
                line,
                example: Example::Text(tail),
                ..row
            };
            split.train.push(row);
            split.held_out.push(rest);
        } else {
            split.held_out.push(row);
        }
        left = 0;
    }
    split
}

/// The first line start from `near` on; a text without one is cut at the next character.
fn cut_at(text: &str, near: usize) -> usize {
    let near = text.ceil_char_boundary(near);
    let line = text[near..].find('\n').map(|at| near + at + 1);
    line.filter(|&at| at < text.len()).unwrap_or(near)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dataset(texts: &[&str], is_stream: bool) -> Dataset {
        Dataset {
            files: Vec::new(),
            rows: texts
                .iter()
                .map(|&text| Row {
                    file: 0,
                    line: 1,
                    example: Example::Text(text.to_owned()),
                })
                .collect(),
            problems: Vec::new(),
            is_stream,
        }
    }

    fn sides(texts: &[&str], held_out: f64) -> (Vec<String>, Vec<String>) {
        let split = split(&mut dataset(texts, false), held_out, 1).unwrap();
        let texts = |rows: Vec<Row>| {
            rows.into_iter()
                .map(|row| String::from_utf8(row.example.identity()).unwrap())
        };
        (
            texts(split.train).collect(),
            texts(split.held_out).collect(),
        )
    }

    #[test]
    fn a_row_stays_on_its_side_whatever_stands_around_it() {
        let texts: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
        let forward: Vec<&str> = texts.iter().map(String::as_str).collect();
        let backward: Vec<&str> = forward.iter().rev().copied().collect();
        let (train, mut held_out) = sides(&forward, 0.1);
        let (_, mut again) = sides(&backward, 0.1);
        held_out.sort();
        again.sort();
        assert_eq!(held_out, again);
        assert!((60..140).contains(&held_out.len()));
        assert_eq!(train.len() + held_out.len(), 1000);
        let (_, half) = sides(&forward[..500], 0.1);
        // One more can be there: the smallest hash of the half.
        assert!(half.iter().filter(|row| !held_out.contains(row)).count() <= 1);
    }

    #[test]
    fn equal_rows_are_on_one_side_and_each_side_has_a_row() {
        for (texts, held_out) in [
            (&["a", "b"][..], 0.001),
            (&["a", "b", "b"], 0.999),
            (&["a", "b", "a"], 0.5),
        ] {
            let (train, held) = sides(texts, held_out);
            assert!(
                !train.is_empty() && !held.is_empty(),
                "{texts:?} at {held_out}"
            );
            assert!(train.iter().all(|row| !held.contains(row)));
        }
        assert_eq!(sides(&["a", "a"], 0.5).1.len(), 0);
    }

    #[test]
    fn the_end_of_a_stream_is_held_out_from_a_line_start() {
        let split = split(
            &mut dataset(&["one\ntwo\n", "three\nfour\nfïve\n"], true),
            0.4,
            1,
        )
        .unwrap();
        let text = |row: &Row| match &row.example {
            Example::Text(text) => text.clone(),
            Example::Chat(_) => unreachable!(),
        };
        assert_eq!(
            split.train.iter().map(text).collect::<Vec<_>>(),
            ["one\ntwo\n", "three\nfour\n"]
        );
        assert_eq!(
            (text(&split.held_out[0]), split.held_out[0].line),
            ("fïve\n".to_owned(), 3)
        );
    }

    #[test]
    fn a_part_outside_0_to_1_is_refused() {
        assert!(split(&mut dataset(&["a"], false), 1.0, 1).is_err());
        assert!(split(&mut dataset(&["a"], false), f64::NAN, 1).is_err());
    }
}
