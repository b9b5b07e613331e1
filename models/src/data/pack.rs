//! Token rows to rows of one length: several documents in one row, or one document and padding.
//!
//! A document never sees another: each token says which document of its row it belongs to (attention stays within)
//! and its position in it (positions start at 0 again). The target of a token is the next one of the same document,
//! if that one is learned; everything else has the target [`IGNORE`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::encode::TokenRow;

/// The target of a token after which nothing is learned.
pub const IGNORE: u32 = u32::MAX;

/// How rows of different lengths become a batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Packing {
    /// Several documents in one row of the full length. Little is wasted, and every batch has one shape.
    #[default]
    Packed,
    /// One document in each row, filled up to one of a few lengths. Rows of like length come together.
    Padded,
}

/// One row of a batch. The four lists have the row's length.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackedRow {
    /// Ids in the vocabulary, padding included.
    pub tokens: Vec<u32>,
    /// For each token, the one to be said next, or [`IGNORE`].
    pub targets: Vec<u32>,
    /// For each token, its place in its document.
    pub positions: Vec<u32>,
    /// For each token, which document of the row it belongs to, from 0. Padding is one more document.
    pub documents: Vec<u32>,
    /// How many tokens at the end only fill the row up.
    pub padding: usize,
}

impl PackedRow {
    /// The documents in order, and padding up to a length.
    pub fn new<'a>(
        documents: impl IntoIterator<Item = &'a TokenRow>,
        length: usize,
        pad: u32,
    ) -> Self {
        let mut row = Self::default();
        for document in documents {
            row.add(&document.tokens, |at| document.learned[at]);
        }
        row.pad(length, pad);
        row
    }

    /// Adds a document; `learned` says of each of its tokens whether it is a target.
    pub(crate) fn add(&mut self, tokens: &[u32], learned: impl Fn(usize) -> bool) {
        let number = self.documents.last().map_or(0, |last| last + 1);
        self.tokens.extend(tokens);
        self.targets
            .extend((1..=tokens.len()).map(|next| match tokens.get(next) {
                Some(&token) if learned(next) => token,
                _ => IGNORE,
            }));
        self.positions.extend(0..tokens.len() as u32);
        self.documents.resize(self.tokens.len(), number);
    }

    pub(crate) fn pad(&mut self, length: usize, pad: u32) {
        let missing = length.saturating_sub(self.tokens.len());
        self.add(&vec![pad; missing], |_| false);
        self.padding += missing;
    }
}

/// Which rows share a packed row of `length` tokens: best fit, the longest first.
///
/// Every row is in exactly one group, and no group is longer than `length` (a longer row is alone). The same lengths
/// give the same groups.
pub fn best_fit(lengths: &[usize], length: usize) -> Vec<Vec<u32>> {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by_key(|&at| std::cmp::Reverse(lengths[at]));
    let mut groups: Vec<Vec<u32>> = Vec::new();
    // The groups that have so many tokens left, by that number.
    let mut open: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for at in order {
        let needed = lengths[at];
        let space = open.range(needed..).next().map(|(&space, _)| space);
        let fitting = space.and_then(|space| {
            let same = open.get_mut(&space)?;
            let group = same.pop()?;
            if same.is_empty() {
                open.remove(&space);
            }
            Some((space, group))
        });
        let (space, group) = fitting.unwrap_or_else(|| {
            groups.push(Vec::new());
            (length.max(needed), groups.len() - 1)
        });
        groups[group].push(at as u32);
        if space > needed {
            open.entry(space - needed).or_default().push(group);
        }
    }
    groups
}

/// The length to which a row of `tokens` is padded: 16, 24, 32, 48, 64, 96 and so on, at most `longest`.
///
/// Few lengths, because each new shape costs a device time and memory; multiples of 8, because matrix units like them.
pub fn padded_length(tokens: usize, longest: usize) -> usize {
    let power = tokens.next_power_of_two().max(16);
    let three_quarters = power / 4 * 3;
    let length = if power > 16 && tokens <= three_quarters {
        three_quarters
    } else {
        power
    };
    length.min(longest).max(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(tokens: &[u32], learned: &[u8]) -> TokenRow {
        TokenRow {
            tokens: tokens.to_vec(),
            learned: learned.iter().map(|&it| it == 1).collect(),
            full_length: tokens.len(),
        }
    }

    #[test]
    fn targets_stay_within_a_document() {
        let rows = [row(&[5, 6, 7], &[1, 0, 1]), row(&[8, 9], &[1, 1])];
        let packed = PackedRow::new(&rows, 7, 0);
        assert_eq!(packed.tokens, [5, 6, 7, 8, 9, 0, 0]);
        assert_eq!(
            packed.targets,
            [IGNORE, 7, IGNORE, 9, IGNORE, IGNORE, IGNORE]
        );
        assert_eq!(packed.positions, [0, 1, 2, 0, 1, 0, 1]);
        assert_eq!(packed.documents, [0, 0, 0, 1, 1, 2, 2]);
    }

    #[test]
    fn best_fit_uses_every_row_once_and_leaves_little_room() {
        let mut random = crate::random::Random::new(9);
        let lengths: Vec<usize> = (0..2000).map(|_| 1 + random.below(200)).collect();
        let groups = best_fit(&lengths, 256);
        let mut seen: Vec<u32> = groups.concat();
        seen.sort_unstable();
        assert_eq!(seen, (0..2000).collect::<Vec<u32>>());
        let filled = |group: &Vec<u32>| group.iter().map(|&at| lengths[at as usize]).sum::<usize>();
        assert!(groups.iter().all(|group| filled(group) <= 256));
        let tokens: usize = lengths.iter().sum();
        assert!(tokens as f64 / (groups.len() * 256) as f64 > 0.97);
        assert_eq!(groups, best_fit(&lengths, 256));
    }

    #[test]
    fn padded_lengths_are_few_and_never_too_short() {
        let mut lengths: Vec<usize> = (1..=1000)
            .map(|tokens| padded_length(tokens, 1000))
            .collect();
        assert!(
            (1..=1000)
                .zip(&lengths)
                .all(|(tokens, &length)| length >= tokens && length <= 1000)
        );
        lengths.dedup();
        assert_eq!(
            lengths,
            [16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1000]
        );
    }
}
