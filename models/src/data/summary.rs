//! What the data looks like in tokens, for people: lengths, what is cut, and one example with its learned part marked.

use serde::{Deserialize, Serialize};

use super::{encode::TokenRow, tokenizer::Tokenizer};
use crate::Result;

/// How long the rows are, in tokens before any is cut.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LengthSummary {
    /// How many rows.
    pub rows: usize,
    /// All their tokens.
    pub tokens: usize,
    /// Of these, how many are learned, after rows are cut.
    pub target_tokens: usize,
    /// How many rows are longer than the length they are cut to.
    pub truncated: usize,
    /// The shortest row.
    pub shortest: usize,
    /// The longest row.
    pub longest: usize,
    /// The mean length.
    pub mean: f64,
    /// So many percent of the rows are at most so long.
    pub percentiles: Vec<Percentile>,
    /// How many rows have which length, in bins of equal width.
    pub histogram: Vec<Bin>,
    /// How many rows are longer than each power of two up to the longest.
    #[serde(default)]
    pub longer: Vec<(usize, usize)>,
}

/// So many percent of the rows have at most so many tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Percentile {
    /// Percent of the rows.
    pub percent: u32,
    /// Tokens.
    pub tokens: usize,
}

/// The rows with lengths from `from` up to and without `to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "specta", derive(specta::Type))]
pub struct Bin {
    /// The smallest length, in tokens.
    pub from: usize,
    /// One more than the largest.
    pub to: usize,
    /// How many rows.
    pub rows: usize,
}

/// A stretch of an example's text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "specta", derive(specta::Type))]
pub struct Segment {
    /// The text, special tokens spelled out.
    pub text: String,
    /// Whether the model is taught to say it.
    pub learned: bool,
}

const PERCENTS: [u32; 6] = [5, 25, 50, 75, 95, 99];
const BINS: usize = 16;

impl LengthSummary {
    /// Of texts that are one stream, which has no rows to compare.
    pub fn of_stream(texts: usize, tokens: usize) -> Self {
        Self {
            rows: texts,
            tokens,
            longest: tokens,
            ..Self::default()
        }
    }

    /// Looks at encoded rows.
    pub fn new(rows: &[TokenRow]) -> Self {
        let mut lengths: Vec<usize> = rows.iter().map(|row| row.full_length).collect();
        lengths.sort_unstable();
        let (Some(&shortest), Some(&longest)) = (lengths.first(), lengths.last()) else {
            return Self::default();
        };
        let tokens = lengths.iter().sum();
        Self {
            rows: rows.len(),
            tokens,
            target_tokens: rows.iter().map(TokenRow::target_tokens).sum(),
            truncated: rows.iter().filter(|row| row.is_truncated()).count(),
            shortest,
            longest,
            mean: tokens as f64 / rows.len() as f64,
            percentiles: PERCENTS
                .map(|percent| Percentile {
                    percent,
                    tokens: percentile(&lengths, percent),
                })
                .to_vec(),
            histogram: histogram(&lengths, shortest, longest),
            longer: longer(&lengths, longest),
        }
    }
}

/// An example as stretches of text that are learned and that are not.
pub fn preview(row: &TokenRow, tokenizer: &Tokenizer) -> Result<Vec<Segment>> {
    let mut segments = Vec::new();
    let mut shown = 0;
    let mut end = 0;
    for run in row.learned.chunk_by(|a, b| a == b) {
        end += run.len();
        // Decoded from the start each time: the text of a token can depend on those before it.
        let text = tokenizer.decode(&row.tokens[..end], true)?;
        segments.push(Segment {
            text: text.get(shown..).unwrap_or_default().to_owned(),
            learned: run[0],
        });
        shown = text.len();
    }
    Ok(segments)
}

/// The smallest length that at least `percent` of the sorted lengths don't exceed (the nearest rank).
fn percentile(sorted: &[usize], percent: u32) -> usize {
    let rank = (sorted.len() * percent as usize).div_ceil(100);
    sorted[rank.max(1) - 1]
}

/// How many of the sorted lengths are above each power of two, up to the first that none is.
fn longer(sorted: &[usize], longest: usize) -> Vec<(usize, usize)> {
    let powers = (0..=longest.next_power_of_two().ilog2()).map(|power| 1 << power);
    let above = |length: usize| sorted.len() - sorted.partition_point(|&it| it <= length);
    powers.map(|length| (length, above(length))).collect()
}

fn histogram(lengths: &[usize], shortest: usize, longest: usize) -> Vec<Bin> {
    let width = (longest + 1 - shortest).div_ceil(BINS);
    let mut bins: Vec<Bin> = (0..BINS)
        .map(|bin| shortest + bin * width)
        .take_while(|&from| from <= longest)
        .map(|from| Bin {
            from,
            to: from + width,
            rows: 0,
        })
        .collect();
    for length in lengths {
        bins[(length - shortest) / width].rows += 1;
    }
    bins
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(lengths: impl Iterator<Item = usize>, cut: usize) -> Vec<TokenRow> {
        lengths
            .map(|length| TokenRow {
                tokens: vec![1; length.min(cut)],
                learned: vec![true; length.min(cut)],
                full_length: length,
            })
            .collect()
    }

    #[test]
    fn one_to_a_hundred_has_its_own_numbers_as_percentiles() {
        let summary = LengthSummary::new(&rows((1..=100).rev(), 90));
        let tokens: Vec<usize> = summary.percentiles.iter().map(|it| it.tokens).collect();
        assert_eq!(tokens, [5, 25, 50, 75, 95, 99]);
        assert_eq!(
            (summary.rows, summary.tokens, summary.truncated),
            (100, 5050, 10)
        );
        assert_eq!(
            (summary.shortest, summary.longest, summary.mean),
            (1, 100, 50.5)
        );
        // Each of the 100 rows loses its first token, and ten are cut to 90.
        assert_eq!(summary.target_tokens, 5050 - 55 - 100);
        assert_eq!(
            summary.histogram.iter().map(|bin| bin.rows).sum::<usize>(),
            100
        );
        assert_eq!(
            summary.histogram[0],
            Bin {
                from: 1,
                to: 8,
                rows: 7
            }
        );
    }

    #[test]
    fn few_and_equal_rows_have_a_summary_too() {
        assert_eq!(LengthSummary::new(&[]), LengthSummary::default());
        let summary = LengthSummary::new(&rows([7, 7].into_iter(), 10));
        assert_eq!(
            summary.histogram,
            [Bin {
                from: 7,
                to: 8,
                rows: 2
            }]
        );
        assert!(summary.percentiles.iter().all(|it| it.tokens == 7));
    }
}
