//! Token rows to batches, epoch after epoch, in an order that depends on nothing but the seed.
//!
//! The order of an epoch is a function of the seed and the epoch's number, so the whole position in the data is two
//! numbers, and a run resumes exactly from them. A batch is always full: it continues into the next epoch where one
//! ends. The size of a batch may change between batches, for a run that ran out of memory, without any row being
//! skipped or seen twice.
//!
//! Deliberately absent: worker threads. Tokens are in memory, and a batch is a copy of some thousand numbers, which
//! takes microseconds; a step of training takes a thousand times longer.

use serde::{Deserialize, Serialize};

use super::{
    encode::TokenRow,
    pack::{PackedRow, Packing, best_fit, padded_length},
};
use crate::{
    Error, Result,
    random::{Random, stable_hash},
};

/// Texts as one long run of tokens, to be learned in windows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TokenStream {
    /// The tokens of all documents, one after another.
    pub tokens: Vec<u32>,
    /// At which token each document begins, in order.
    pub starts: Vec<usize>,
    /// How many characters of text they stand for, to give a loss per character.
    pub characters: usize,
}

/// Tokens for a step of learning: `rows` rows of `row_length`, row after row in each list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    /// Ids in the vocabulary, padding included.
    pub tokens: Vec<u32>,
    /// For each token, the one to be said next, or [`super::pack::IGNORE`].
    pub targets: Vec<u32>,
    /// For each token, its place in its document.
    pub positions: Vec<u32>,
    /// For each token, which document of its row it belongs to.
    pub documents: Vec<u32>,
    /// How many rows.
    pub rows: usize,
    /// How many tokens in each.
    pub row_length: usize,
    /// How many tokens in all only fill rows up.
    pub padding: usize,
}

/// How batches are made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchSettings {
    /// The longest row, in tokens.
    pub row_length: usize,
    /// How rows of different lengths become a batch. Streams have no rows and don't ask.
    pub packing: Packing,
    /// How many rows a batch has.
    pub rows_per_batch: usize,
    /// How many rows a whole step has. Padded rows of like length come in groups of so many; unlike
    /// `rows_per_batch` it never changes during a run, since the order depends on it.
    pub rows_per_step: usize,
    /// The token that fills up rows.
    pub pad: u32,
    /// Decides the order.
    pub seed: u64,
}

/// Where in the data a run stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Which pass over the data, from 0.
    pub epoch: u64,
    /// How many rows of the pass are done.
    pub next_row: u64,
    /// A hash of all tokens and of the settings that decide the order: a position means nothing in other data.
    pub data: u64,
}

/// Batches without end.
#[derive(Debug, Clone)]
pub struct Batches {
    content: Content,
    settings: BatchSettings,
    position: Position,
    /// The order of the current epoch.
    order: Vec<u32>,
    /// Where the first window of the current epoch begins.
    offset: usize,
}

#[derive(Debug, Clone)]
enum Content {
    /// Rows, and which of them share a packed row.
    Rows {
        rows: Vec<TokenRow>,
        groups: Vec<Vec<u32>>,
    },
    Stream(TokenStream),
}

/// Padded rows are sorted by length within stretches of this many steps: long enough to find like ones, short enough
/// that an epoch's order stays random.
const STEPS_PER_BUCKET: usize = 16;

impl TokenStream {
    /// Adds a document.
    pub fn add(&mut self, mut tokens: Vec<u32>, characters: usize) {
        self.starts.push(self.tokens.len());
        self.characters += characters;
        // The first one is often all there is, and as large as memory allows.
        match self.tokens.is_empty() {
            true => self.tokens = tokens,
            false => self.tokens.append(&mut tokens),
        }
    }

    /// The tokens `start..start + length` and the targets after each of them. The last one may lie past the window.
    fn window(&self, start: usize, length: usize) -> PackedRow {
        let mut row = PackedRow::default();
        let mut at = start;
        let mut document = self.starts.partition_point(|&first| first <= start);
        let end = (start + length).min(self.tokens.len());
        while at < end {
            let document_end = self
                .starts
                .get(document)
                .copied()
                .unwrap_or(self.tokens.len());
            let until = document_end.min(end);
            row.add(&self.tokens[at..until], |_| true);
            if until < document_end
                && let Some(target) = row.targets.last_mut()
            {
                *target = self.tokens[until];
            }
            at = until;
            document += 1;
        }
        row
    }
}

impl Batches {
    /// Batches of rows.
    pub fn of_rows(rows: Vec<TokenRow>, settings: BatchSettings) -> Result<Self> {
        if rows.is_empty() {
            return Err(Error::Data("there is no row to learn from".to_owned()));
        }
        let lengths: Vec<usize> = rows.iter().map(|row| row.tokens.len()).collect();
        let groups = match settings.packing {
            Packing::Packed => best_fit(&lengths, settings.row_length),
            Packing::Padded => (0..rows.len() as u32).map(|at| vec![at]).collect(),
        };
        Self::new(Content::Rows { rows, groups }, settings)
    }

    /// Batches of windows of a stream, which begin at another place in each epoch.
    pub fn of_stream(stream: TokenStream, settings: BatchSettings) -> Result<Self> {
        if stream.tokens.len() < 2 {
            return Err(Error::Data(
                "the text is too short to learn from: fewer than 2 tokens".to_owned(),
            ));
        }
        Self::new(Content::Stream(stream), settings)
    }

    fn new(content: Content, mut settings: BatchSettings) -> Result<Self> {
        for (field, value) in [
            ("max_length", settings.row_length),
            ("batch", settings.rows_per_batch),
            ("batch", settings.rows_per_step),
        ] {
            if value == 0 {
                return Err(Error::setting(field, "is 0"));
            }
        }
        // A row that no data fills would only cost time.
        settings.row_length = settings
            .row_length
            .min(content.longest(settings.row_length));
        let position = Position {
            data: content.fingerprint(&settings),
            ..Position::default()
        };
        let mut batches = Self {
            content,
            settings,
            position,
            order: Vec::new(),
            offset: 0,
        };
        batches.begin_epoch();
        Ok(batches)
    }

    /// The next batch. There always is one.
    pub fn next_batch(&mut self) -> Batch {
        let mut picked = Vec::with_capacity(self.settings.rows_per_batch);
        while picked.len() < self.settings.rows_per_batch {
            if self.position.next_row as usize >= self.order.len() {
                self.position.epoch += 1;
                self.position.next_row = 0;
                self.begin_epoch();
            }
            let item = self.order[self.position.next_row as usize];
            picked.push(self.content.row(item as usize, self.offset, &self.settings));
            self.position.next_row += 1;
        }
        Batch::new(picked, &self.settings)
    }

    /// Every row once, in an order that is always the same, for evaluation. The last batch may have fewer rows.
    ///
    /// Packed rows are shuffled: packing makes the longest first, and who looks at some has to see all lengths.
    pub fn once(&self) -> impl Iterator<Item = Batch> + '_ {
        let count = match &self.content {
            Content::Rows { groups, .. } => groups.len(),
            // Also the last window, which is rarely full.
            Content::Stream(stream) => (stream.tokens.len() - 1).div_ceil(self.settings.row_length),
        };
        let items = match (&self.content, self.settings.packing) {
            (Content::Rows { .. }, Packing::Packed) => {
                let mut random = Random::for_purpose(self.settings.seed, "order of evaluation");
                shuffled(count, &mut random)
            }
            _ => (0..count as u32).collect(),
        };
        let chunk = self.settings.rows_per_batch;
        (0..count.div_ceil(chunk)).map(move |at| {
            let items = &items[at * chunk..((at + 1) * chunk).min(count)];
            let rows = items
                .iter()
                .map(|&item| self.content.row(item as usize, 0, &self.settings))
                .collect();
            Batch::new(rows, &self.settings)
        })
    }

    /// Where the run stands, to be saved.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Continues from a saved position. An error if it was saved with other data, length, packing or seed.
    pub fn resume(&mut self, position: Position) -> Result<()> {
        if position.data != self.position.data {
            return Err(Error::Data(
                "the run can’t continue where it stopped: the data, its order or its length is not what it was; start a \
                 new run, or bring back the files and settings"
                    .to_owned(),
            ));
        }
        self.position = position;
        self.begin_epoch();
        Ok(())
    }

    /// Changes how many rows the next batches have.
    pub fn set_rows_per_batch(&mut self, rows: usize) {
        self.settings.rows_per_batch = rows.max(1);
    }

    /// How many rows (of packed data: packed rows; of a stream: windows) one epoch has.
    pub fn rows_per_epoch(&self) -> usize {
        self.order.len()
    }

    /// The longest row, in tokens: what was asked, or less when no data is as long.
    pub fn row_length(&self) -> usize {
        self.settings.row_length
    }

    fn begin_epoch(&mut self) {
        let purpose = format!("data order, epoch {}", self.position.epoch);
        let mut random = Random::for_purpose(self.settings.seed, &purpose);
        let length = self.settings.row_length;
        (self.offset, self.order) = match &self.content {
            Content::Rows { rows, .. } if self.settings.packing == Packing::Padded => {
                (0, bucketed(rows, self.settings.rows_per_step, &mut random))
            }
            Content::Rows { groups, .. } => (0, shuffled(groups.len(), &mut random)),
            Content::Stream(stream) => {
                // Fewer windows than there is text for, so that they can begin anywhere and still be equally many.
                let targets = stream.tokens.len() - 1;
                let windows = (targets + 1).saturating_sub(length) / length;
                match windows {
                    0 => (0, shuffled(targets.div_ceil(length), &mut random)),
                    _ => (
                        random.below(targets - windows * length + 1),
                        shuffled(windows, &mut random),
                    ),
                }
            }
        };
    }
}

impl Content {
    fn row(&self, item: usize, offset: usize, settings: &BatchSettings) -> PackedRow {
        match self {
            Self::Rows { rows, groups } => PackedRow::new(
                groups[item].iter().map(|&at| &rows[at as usize]),
                0,
                settings.pad,
            ),
            Self::Stream(stream) => {
                stream.window(offset + item * settings.row_length, settings.row_length)
            }
        }
    }

    /// The length of the longest row there will be.
    fn longest(&self, limit: usize) -> usize {
        match self {
            Self::Rows { rows, groups } => {
                let filled = |group: &Vec<u32>| {
                    group
                        .iter()
                        .map(|&at| rows[at as usize].tokens.len())
                        .sum::<usize>()
                };
                padded_length(groups.iter().map(filled).max().unwrap_or(0), limit)
            }
            Self::Stream(stream) => stream.tokens.len() - 1,
        }
    }

    fn fingerprint(&self, settings: &BatchSettings) -> u64 {
        let order = (
            settings.row_length,
            settings.packing,
            settings.rows_per_step,
            settings.seed,
        );
        let start = stable_hash(0, format!("{order:?}").as_bytes());
        let add = |hash, tokens: &[u32]| {
            tokens.iter().fold(hash, |hash: u64, &token| {
                (hash ^ u64::from(token))
                    .wrapping_mul(0x0000_0100_0000_01b3)
                    .rotate_left(5)
            })
        };
        match self {
            Self::Rows { rows, .. } => rows
                .iter()
                .fold(start, |hash, row| add(hash, &row.tokens).rotate_left(1)),
            Self::Stream(stream) => add(start, &stream.tokens),
        }
    }
}

impl Batch {
    fn new(rows: Vec<PackedRow>, settings: &BatchSettings) -> Self {
        let longest = rows.iter().map(|row| row.tokens.len()).max().unwrap_or(0);
        let row_length = match settings.packing {
            Packing::Packed => settings.row_length.max(longest),
            Packing::Padded => padded_length(longest, settings.row_length),
        };
        let mut batch = Self {
            rows: rows.len(),
            row_length,
            ..Self::default()
        };
        for mut row in rows {
            row.pad(row_length, settings.pad);
            batch.padding += row.padding;
            batch.tokens.append(&mut row.tokens);
            batch.targets.append(&mut row.targets);
            batch.positions.append(&mut row.positions);
            batch.documents.append(&mut row.documents);
        }
        batch
    }

    /// How many tokens are learned: the number a loss is the mean of.
    pub fn target_tokens(&self) -> usize {
        self.targets
            .iter()
            .filter(|&&target| target != super::pack::IGNORE)
            .count()
    }
}

fn shuffled(count: usize, random: &mut Random) -> Vec<u32> {
    let mut order: Vec<u32> = (0..count as u32).collect();
    random.shuffle(&mut order);
    order
}

/// A random order in which the rows of each step have like lengths.
fn bucketed(rows: &[TokenRow], rows_per_step: usize, random: &mut Random) -> Vec<u32> {
    let mut order = shuffled(rows.len(), random);
    for bucket in order.chunks_mut(rows_per_step * STEPS_PER_BUCKET) {
        bucket.sort_by_key(|&at| rows[at as usize].tokens.len());
    }
    let mut steps: Vec<&[u32]> = order.chunks(rows_per_step).collect();
    // A short step stays last, so that the others stay whole.
    let whole = order.len() / rows_per_step;
    random.shuffle(&mut steps[..whole]);
    steps.concat()
}
