//! Three parts of the rows: what is learned from, what choices are made on, and what is reported once.
//!
//! A group is never on both sides: the rows of one conversation, of one document, or with one text. Which part a group falls to
//! follows from a stable hash of its key, stratum by stratum, so that labels are spread as evenly as groups permit. Texts that are
//! nearly equal and fell to different parts are reported, and stay where they are.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::words::words;
use crate::random::stable_hash;

/// A part of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Weights are learned from it.
    Train,
    /// Layer, penalty and threshold are chosen on it.
    Validation,
    /// Figures are reported on it, once.
    Test,
}

/// All of them, in their order.
pub const PARTS: [Part; 3] = [Part::Train, Part::Validation, Part::Test];

/// The shares of the parts, unless said otherwise.
pub const SHARES: [f64; 3] = [0.70, 0.15, 0.15];

/// Bits by which fingerprints of nearly equal texts differ, at most.
const NEAR_BITS: u32 = 3;
/// Pairs of near texts that are named. All are counted.
const NAMED: usize = 20;
/// Texts of one piece of a fingerprint that are compared with each other: what nearly all texts share says nothing.
const COMPARED: usize = 256;

/// Texts that occur more than once, or nearly so, and which of them cross parts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "specta",
    derive(specta::Type),
    serde(rename = "DuplicateTexts")
)]
pub struct Duplicates {
    /// Rows whose text occurred in an earlier row, but for letter case and spaces.
    pub exact: u64,
    /// Those of them whose earlier row is in another part.
    pub exact_across: u64,
    /// Pairs of different texts in different parts whose fingerprints are within three bits.
    pub near_across: u64,
    /// The first of these pairs, by their rows.
    pub pairs: Vec<[usize; 2]>,
}

/// A text without what makes equal texts look different: case, and the spaces between words.
pub fn normalised(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").to_lowercase()
}

/// The key of the group of a row: its own where the data has one, else its text.
pub fn group_key(group: Option<&str>, text: &str) -> u64 {
    match group {
        Some(group) => stable_hash(1, group.as_bytes()),
        None => stable_hash(2, normalised(text).as_bytes()),
    }
}

/// The part of each of n rows. `groups` and `strata` have a number for each row; the stratum of a group is the one that most of its
/// rows have.
pub fn split(groups: &[u64], strata: &[u32], shares: [f64; 3], seed: u64) -> Vec<Part> {
    let parts = divide(groups, strata, &shares, seed);
    parts.into_iter().map(|it| PARTS[it]).collect()
}

/// The same for any number of parts, by their places among the shares.
pub fn divide(groups: &[u64], strata: &[u32], shares: &[f64], seed: u64) -> Vec<usize> {
    let mut members: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (row, group) in groups.iter().enumerate() {
        members.entry(*group).or_default().push(row);
    }
    let mut by_stratum: BTreeMap<u32, Vec<(u64, Vec<usize>)>> = BTreeMap::new();
    for (group, rows) in members {
        let stratum = most_frequent(rows.iter().map(|&row| strata[row]));
        let hash = stable_hash(seed, &group.to_le_bytes());
        by_stratum.entry(stratum).or_default().push((hash, rows));
    }
    let mut parts = vec![0; groups.len()];
    for mut groups in by_stratum.into_values() {
        groups.sort();
        let all: usize = groups.iter().map(|(_, rows)| rows.len()).sum();
        let mut filled = vec![0usize; shares.len()];
        for (_, rows) in groups {
            // Whichever part lacks most of its share; of equal ones the first.
            let lack = |part: usize| all as f64 * shares[part] - filled[part] as f64;
            let part = (1..shares.len()).fold(0, |most, part| match lack(part) > lack(most) {
                true => part,
                false => most,
            });
            filled[part] += rows.len();
            for row in rows {
                parts[row] = part;
            }
        }
    }
    parts
}

fn most_frequent(strata: impl Iterator<Item = u32>) -> u32 {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for stratum in strata {
        *counts.entry(stratum).or_default() += 1;
    }
    let most = counts
        .into_iter()
        .max_by_key(|&(stratum, count)| (count, u32::MAX - stratum));
    most.map_or(0, |(stratum, _)| stratum)
}

/// Finds equal and nearly equal texts among rows that were split.
pub fn duplicates(texts: &[&str], parts: &[Part]) -> Duplicates {
    let mut found = Duplicates::default();
    let mut first: HashMap<String, usize> = HashMap::new();
    let mut different = Vec::new();
    let rows = texts.iter().enumerate();
    for (row, text) in rows.filter(|(_, text)| !text.trim().is_empty()) {
        match first.get(&normalised(text)) {
            Some(&earlier) => {
                found.exact += 1;
                found.exact_across += u64::from(parts[earlier] != parts[row]);
            }
            None => {
                first.insert(normalised(text), row);
                different.extend(fingerprint(text).map(|print| (print, row)));
            }
        }
    }
    // Two fingerprints that differ in three bits agree in one of four quarters.
    let mut pairs = Vec::new();
    for quarter in 0..4 {
        let mut buckets: HashMap<u16, Vec<(u64, usize)>> = HashMap::new();
        for &(print, row) in &different {
            let piece = (print >> (16 * quarter)) as u16;
            let bucket = buckets.entry(piece).or_default();
            for &(other, earlier) in bucket.iter().rev().take(COMPARED) {
                let is_near = (print ^ other).count_ones() <= NEAR_BITS;
                if is_near && parts[earlier] != parts[row] {
                    pairs.push([earlier, row]);
                }
            }
            bucket.push((print, row));
        }
    }
    pairs.sort_unstable();
    pairs.dedup();
    found.near_across = pairs.len() as u64;
    pairs.truncate(NAMED);
    found.pairs = pairs;
    found
}

/// 64 bits that are similar for similar texts: each bit is what most triples of words say (Charikar, 2002). `None` of fewer than
/// three words, of which it would say nothing.
fn fingerprint(text: &str) -> Option<u64> {
    let words: Vec<String> = words(text).collect();
    if words.len() < 3 {
        return None;
    }
    let mut votes = [0i32; 64];
    for triple in words.windows(3) {
        let hash = stable_hash(3, triple.join(" ").as_bytes());
        for (bit, vote) in votes.iter_mut().enumerate() {
            *vote += if hash >> bit & 1 == 1 { 1 } else { -1 };
        }
    }
    let bits = votes.iter().enumerate();
    Some(bits.fold(0, |print, (bit, &vote)| print | u64::from(vote > 0) << bit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_stay_together_and_labels_are_spread() {
        let rows = 3_000;
        let groups: Vec<u64> = (0..rows).map(|row| row / 3).collect();
        let strata: Vec<u32> = (0..rows).map(|row| u32::from(row / 3 % 10 == 0)).collect();
        let parts = split(&groups, &strata, SHARES, 1);
        for rows in parts.chunks(3) {
            assert!(rows.iter().all(|it| *it == rows[0]));
        }
        for stratum in [0, 1] {
            let of: Vec<Part> = parts
                .iter()
                .zip(&strata)
                .filter(|it| *it.1 == stratum)
                .map(|it| *it.0)
                .collect();
            for (part, share) in PARTS.iter().zip(SHARES) {
                let found = of.iter().filter(|it| *it == part).count() as f64 / of.len() as f64;
                assert!((found - share).abs() < 0.02, "{part:?} {found}");
            }
        }
        assert_ne!(parts, split(&groups, &strata, SHARES, 2));
        assert_eq!(parts, split(&groups, &strata, SHARES, 1));
    }

    #[test]
    fn equal_texts_fall_to_one_part_and_near_ones_are_reported() {
        // One word more in a thousand changes three triples of them.
        let long: Vec<String> = (0..1_000).map(|it| format!("word{it}")).collect();
        let long = &long.join(" ")[..];
        let near = format!("{long} more");
        let other = "a completely different sentence about the weather of tomorrow";
        let texts = ["One  text", "one text", long, &near, other];
        assert_eq!(group_key(None, texts[0]), group_key(None, texts[1]));
        assert_ne!(
            group_key(Some("a"), texts[0]),
            group_key(Some("b"), texts[0])
        );
        let across = [
            Part::Train,
            Part::Test,
            Part::Train,
            Part::Validation,
            Part::Test,
        ];
        let found = duplicates(&texts, &across);
        assert_eq!((found.exact, found.exact_across), (1, 1));
        assert_eq!(found.pairs, [[2, 3]]);
        assert_eq!(duplicates(&texts, &[Part::Train; 5]).near_across, 0);
    }
}
