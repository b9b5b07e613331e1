//! What the words of a text say by themselves: single words and pairs, counted, with rare ones weighing more.
//!
//! A study shows this beside every probe, since a probe that does no better reads the words and not the model. Weights are those of
//! scikit-learn's `TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2))`: 1 + ln(count), times ln((1 + n) / (1 + rows with it)) + 1,
//! each row divided by its length. Instead of a vocabulary, words are hashed into so many places that few share one.

use std::collections::HashMap;

use super::features::Sparse;
use crate::random::stable_hash;

/// Places that words are hashed into.
const PLACES: u64 = 1 << 20;

/// Which words and pairs the training rows have, and how rare they are.
#[derive(Debug, Clone, Default)]
pub struct Words {
    /// The column and the weight of each place that occurs.
    places: HashMap<u32, (u32, f64)>,
}

/// The words of a text, in small letters: what has two letters, digits or low lines side by side.
pub fn words(text: &str) -> impl Iterator<Item = String> {
    let is_of_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let words = text.split(move |letter| !is_of_word(letter));
    let long = words.filter(|word| word.chars().nth(1).is_some());
    long.map(str::to_lowercase)
}

/// How often each place occurs in a text, by words and by pairs of them.
fn counts(text: &str) -> Vec<(u32, f64)> {
    let words: Vec<String> = words(text).collect();
    let place = |bytes: &[u8]| (stable_hash(4, bytes) % PLACES) as u32;
    let single = words.iter().map(|it| place(it.as_bytes()));
    let pairs = words
        .windows(2)
        .map(|pair| place(pair.join(" ").as_bytes()));
    let mut places: Vec<u32> = single.chain(pairs).collect();
    places.sort_unstable();
    let runs = places.chunk_by(|a, b| a == b);
    runs.map(|run| (run[0], run.len() as f64)).collect()
}

impl Words {
    /// Learns which words there are from the training texts alone.
    pub fn of(texts: &[&str]) -> Self {
        let mut with = HashMap::new();
        let mut order = Vec::new();
        for text in texts {
            for (place, _) in counts(text) {
                let rows = with.entry(place).or_insert_with(|| {
                    order.push(place);
                    0u32
                });
                *rows += 1;
            }
        }
        let n = texts.len() as f64;
        let weight = |place| ((1.0 + n) / (1.0 + f64::from(with[place]))).ln() + 1.0;
        let places = order.iter().zip(0..);
        Self {
            places: places
                .map(|(place, column)| (*place, (column, weight(place))))
                .collect(),
        }
    }

    /// Texts as rows; what no training text has is left out.
    pub fn rows(&self, texts: &[&str]) -> Sparse {
        let mut rows = Sparse {
            starts: vec![0],
            width: self.places.len(),
            ..Sparse::default()
        };
        for text in texts {
            let known = counts(text).into_iter().filter_map(|(place, count)| {
                let &(column, weight) = self.places.get(&place)?;
                Some((column, (1.0 + count.ln()) * weight))
            });
            let known: Vec<(u32, f64)> = known.collect();
            let squares: f64 = known.iter().map(|(_, x)| x * x).sum();
            let length = squares.sqrt().max(f64::MIN_POSITIVE);
            for (column, x) in known {
                rows.columns.push(column);
                rows.numbers.push((x / length) as f32);
            }
            rows.starts.push(rows.columns.len());
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_the_reference() {
        let found: Vec<String> = words("What 's a Y2K-bug , or naïve_idea ?").collect();
        assert_eq!(found, ["what", "y2k", "bug", "or", "naïve_idea"]);
    }

    #[test]
    fn rare_words_weigh_more_and_rows_have_length_1() {
        let texts = ["red red car", "red house", "red tree"];
        let words = Words::of(&texts);
        let rows = words.rows(&texts);
        assert_eq!(rows.rows(), 3);
        for row in 0..3 {
            let square: f32 = rows.row(row).map(|(_, x)| x * x).sum();
            assert!((square - 1.0).abs() < 1e-6);
        }
        // red, house, red house: (ln(4/4) + 1) and twice (ln(4/2) + 1).
        let mut numbers: Vec<f32> = rows.row(1).map(|(_, x)| x).collect();
        numbers.sort_by(f32::total_cmp);
        let (common, rare) = (1.0, 2f64.ln() + 1.0);
        let length = (common * common + 2.0 * rare * rare).sqrt();
        assert!((f64::from(numbers[0]) - common / length).abs() < 1e-6);
        assert!((f64::from(numbers[2]) - rare / length).abs() < 1e-6);
        let unknown = words.rows(&["blue"]);
        assert_eq!((unknown.rows(), unknown.columns.len()), (1, 0));
    }
}
