//! A folder of hidden states: what they are of, the texts with their labels, and one matrix for each site.
//!
//! | file | holds |
//! |---|---|
//! | `states.json` | [`About`]: the model, the prompt, the position, the sites, and how many rows there are |
//! | `rows.jsonl` | a [`StateRow`] on each line: the text, its labels, its group |
//! | `embed.f32`, `block.014.bf16` and so on | the states of a site, row after row, little-endian, nothing else |
//! | `whole.json` | how many rows are whole; a capture that was stopped continues there |
//!
//! The files of sites are mapped and read in parts, so that a folder may be larger than memory. Deliberately absent: f16, which
//! the residual stream of some models goes beyond.

use std::{
    fs::{self, File},
    io::Read,
    ops::Range,
    path::{Path, PathBuf},
};

use half::bf16;
use memmap2::Mmap;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{
    Error, Result,
    arch::sites::Site,
    checkpoint::folder::read_json,
    figures::{count, counted},
    limits,
};

/// The file that says what the states are of.
pub const ABOUT: &str = "states.json";
/// The file of the texts and labels.
pub const ROWS: &str = "rows.jsonl";
/// The file that says how many rows are whole.
pub const WHOLE: &str = "whole.json";
/// The layout of the folder that is written. A later one is refused.
pub const VERSION: u32 = 1;

/// What stands where a program did not say what it computed in.
pub const UNKNOWN: &str = "unknown";

/// What the numbering of the sites means, for whoever opens the folder with another program.
pub const NUMBERING: &str = "embed is the input of the first block; block.i is the residual stream after block i, counted from 0, \
                             also of the last one before the final norm; final is after the final norm";

/// A folder of hidden states that is whole.
#[derive(Debug, Clone)]
pub struct States {
    folder: PathBuf,
    about: About,
    rows: Vec<StateRow>,
}

/// What hidden states are of. States with another value in [`About::model`], [`About::adapter`], [`About::prompt`] or
/// [`About::position`] are not the same: what was learned from these says nothing about those.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct About {
    /// The layout of the folder.
    pub version: u32,
    /// What wrote it: `anneal 0.1.0`.
    pub written_by: String,
    /// The model that computed them.
    pub model: ModelIdentity,
    /// The adapter that changed the model.
    pub adapter: Option<ModelIdentity>,
    /// What the model computed in: `f32` or `bf16`, or [`UNKNOWN`].
    pub compute_dtype: String,
    /// How a text became tokens.
    pub prompt: PromptRule,
    /// Which tokens' states were kept.
    pub position: Position,
    /// What the numbers of the sites mean.
    pub numbering: String,
    /// The sites, in the order in which a pass reaches them.
    pub sites: Vec<Site>,
    /// What the states are stored in.
    pub dtype: StatesDtype,
    /// Numbers of a vector: the model's width, or twice that for [`Position::MeanAndMax`].
    pub width: usize,
    /// How many blocks the model has.
    pub blocks: usize,
    /// How many texts there are.
    pub rows: usize,
    /// How many vectors each site has: as many as texts, or with [`Position::Tokens`] as many as tokens.
    pub vectors: usize,
    /// The SHA-256 of `rows.jsonl`.
    pub rows_sha256: String,
    /// The files that the texts come from.
    pub sources: Vec<SourceFile>,
    /// The names of the labels, sorted.
    pub labels: Vec<String>,
    /// How many tokens the model read at once; 0 where that is not known. Other sums are rounded otherwise in the last digits.
    pub tokens_at_once: usize,
    /// Rows of the source that have no states, each with the reason.
    pub left_out: Vec<String>,
}

/// Which model, or which adapter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelIdentity {
    /// Its name on the Hub, or that of its folder.
    pub name: String,
    /// The revision of the Hub, where the folder says it.
    pub revision: Option<String>,
    /// Its `model_type`; empty for an adapter.
    pub family: String,
    /// The files of its weights.
    pub weights: Vec<SourceFile>,
}

/// A file, known by its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceFile {
    /// Its name, without the folder.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// Its SHA-256.
    pub sha256: String,
}

/// How a text becomes the tokens that the model reads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PromptRule {
    /// What is shown, with `{text}` where the text stands: `{text}` alone, or with a suffix that asks for something.
    pub pattern: String,
    /// The chat template in which that is a user's turn, so that another one is noticed.
    pub template: Option<String>,
}

/// Which tokens' states are kept of a text, and what is made of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "specta",
    derive(specta::Type),
    serde(rename = "StatesPosition")
)]
#[serde(rename_all = "snake_case")]
pub enum Position {
    /// The last token that the model reads, that of the suffix where there is one.
    #[default]
    Last,
    /// The mean over the text's own tokens.
    Mean,
    /// The largest value over them, for each number of the vector.
    Max,
    /// The mean, then the largest values: a vector of twice the width.
    MeanAndMax,
    /// Each of the text's own tokens by itself.
    Tokens,
    /// The mean over the assistant's tokens of a conversation.
    Answer,
    /// The mean over the tokens of marked parts of the text.
    Marked,
}

/// What states are stored in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StatesDtype {
    /// 4 bytes a number.
    F32,
    /// 2 bytes a number: all digits that a model which computes in bf16 has.
    Bf16,
}

/// A text with its labels.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateRow {
    /// What the data calls it, or `FILE:LINE`.
    pub id: String,
    /// What the model read, in full.
    pub text: String,
    /// Its labels: one, several or none.
    pub labels: Vec<String>,
    /// Texts of one group are never on both sides of a split.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The part of the data that the source puts it in: `train`, `val` or `test`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// How many tokens the model read of it, those around the text included.
    pub tokens: usize,
    /// How many vectors each site has of it: 1, or with [`Position::Tokens`] one for each of the text's tokens.
    pub vectors: usize,
    /// The last token that was read, as text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub token_read: String,
}

/// How much of a folder is whole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Whole {
    pub(super) rows: usize,
    pub(super) vectors: usize,
}

impl States {
    /// Opens a folder, and compares its files with what it says of them.
    ///
    /// Errors: [`Error::Data`] when the capture is not finished, [`Error::Format`] or [`Error::Damaged`] when a file is
    /// not what the folder says.
    pub fn open(folder: &Path) -> Result<Self> {
        let about = About::read(folder)?;
        let whole = Whole::read(folder)?;
        if whole.rows < about.rows {
            let (done, all) = (count(whole.rows as u64), counted(about.rows as u64, "row"));
            let folder = folder.display();
            return Err(Error::Data(format!(
                "the capture is not finished: {done} of {all} have states; start it again with the same arguments, and it \
                 continues there: `{folder}`"
            )));
        }
        let rows = read_rows(folder, &about)?;
        for site in &about.sites {
            about.check_length(&folder.join(about.file_of(*site)), about.vectors)?;
        }
        Ok(Self {
            folder: folder.to_owned(),
            about,
            rows,
        })
    }

    /// What the states are of.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Where the matrices and the list of rows lie.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The texts with their labels, in the order of the matrices' rows.
    pub fn rows(&self) -> &[StateRow] {
        &self.rows
    }

    /// The sites, in the order in which a pass reaches them.
    pub fn sites(&self) -> &[Site] {
        &self.about.sites
    }

    /// Which vectors of a matrix are of which text: for each text, its range of them.
    pub fn vectors_of_rows(&self) -> Vec<Range<usize>> {
        let mut start = 0;
        let range = |row: &StateRow| {
            let range = start..start + row.vectors;
            start = range.end;
            range
        };
        self.rows.iter().map(range).collect()
    }

    /// The states of some texts at a site, in the order in which they are asked for, of a capture with one vector a text: [rows,
    /// width].
    ///
    /// Errors: those of [`Self::matrix`].
    pub fn read_rows(&self, site: Site, rows: &[usize]) -> Result<Vec<f32>> {
        let (matrix, width) = (self.matrix(site)?, self.about.width.max(1));
        let mut numbers = vec![0.0; rows.len() * width];
        for (into, &row) in numbers.chunks_mut(width).zip(rows) {
            matrix.copy_vector(row, into);
        }
        Ok(numbers)
    }

    /// The states of a site, [vectors, width]. Nothing of it is read yet.
    ///
    /// Errors: [`Error::Data`] when the site was not captured.
    pub fn matrix(&self, site: Site) -> Result<Matrix> {
        if !self.about.sites.contains(&site) {
            let sites: Vec<String> = self.about.sites.iter().map(Site::to_string).collect();
            return Err(Error::Data(format!(
                "the states of `{site}` were not captured; there are: {}",
                sites.join(", ")
            )));
        }
        let path = self.folder.join(self.about.file_of(site));
        self.about.check_length(&path, self.about.vectors)?;
        let file = File::open(&path).map_err(Error::file("open the states", &path))?;
        // SAFETY: a mapped file must not change while it is read. A capture only appends, and what it appended is not changed.
        let bytes = unsafe { Mmap::map(&file) };
        Ok(Matrix {
            bytes: bytes.map_err(Error::file("open the states", &path))?,
            dtype: self.about.dtype,
            vectors: self.about.vectors,
            width: self.about.width,
        })
    }
}

/// The states of one site, on disk: [vectors, width].
#[derive(Debug)]
pub struct Matrix {
    bytes: Mmap,
    dtype: StatesDtype,
    vectors: usize,
    width: usize,
}

impl Matrix {
    /// How many vectors there are.
    pub fn vectors(&self) -> usize {
        self.vectors
    }

    /// Numbers of a vector.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Copies the vector `index` into `into`, whose length is the width.
    pub fn copy_vector(&self, index: usize, into: &mut [f32]) {
        let bytes = self.width * self.dtype.bytes();
        self.copy(&self.bytes[index * bytes..(index + 1) * bytes], into);
    }

    /// The vectors of a range as f32, row-major: a piece of a matrix that may not fit into memory.
    pub fn read(&self, vectors: Range<usize>) -> Vec<f32> {
        let bytes = self.width * self.dtype.bytes();
        let mut numbers = vec![0.0; vectors.len() * self.width];
        self.copy(
            &self.bytes[vectors.start * bytes..vectors.end * bytes],
            &mut numbers,
        );
        numbers
    }

    /// All vectors as f32, row-major.
    pub fn read_all(&self) -> Vec<f32> {
        self.read(0..self.vectors)
    }

    fn copy(&self, bytes: &[u8], into: &mut [f32]) {
        match self.dtype {
            StatesDtype::F32 => {
                let numbers = bytes.as_chunks().0.iter().zip(into);
                numbers.for_each(|(bytes, number)| *number = f32::from_le_bytes(*bytes));
            }
            StatesDtype::Bf16 => {
                let numbers = bytes.as_chunks().0.iter().zip(into);
                numbers.for_each(|(bytes, number)| *number = bf16::from_le_bytes(*bytes).to_f32());
            }
        }
    }
}

impl About {
    /// Of states of another program, of which only the model is known.
    pub(super) fn unknown(model: ModelIdentity) -> Self {
        Self {
            version: VERSION,
            written_by: String::new(),
            model,
            adapter: None,
            compute_dtype: UNKNOWN.to_owned(),
            prompt: PromptRule::default(),
            position: Position::Last,
            numbering: NUMBERING.to_owned(),
            sites: Vec::new(),
            dtype: StatesDtype::F32,
            width: 0,
            blocks: 0,
            rows: 0,
            vectors: 0,
            rows_sha256: String::new(),
            sources: Vec::new(),
            labels: Vec::new(),
            tokens_at_once: 0,
            left_out: Vec::new(),
        }
    }

    /// Reads `states.json` of a folder.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(ABOUT);
        let json = read_json(&path, "read what the states are of")?;
        let version = json.get("version").and_then(serde_json::Value::as_u64);
        if version.is_some_and(|version| version > u64::from(VERSION)) {
            let problem = "was written by a later version of Anneal, and can’t be read by this one";
            return Err(Error::format(&path, problem));
        }
        let about: Self = serde_json::from_value(json)
            .map_err(|error| Error::format(&path, format!("is no {ABOUT}: {error}")))?;
        let sizes = [
            (limits::STATES_ROWS, about.rows),
            (limits::STATES_VECTORS, about.vectors),
            (limits::STATES_WIDTH, about.width),
            (limits::STATES_SITES, about.sites.len()),
        ];
        for (limit, size) in sizes {
            if let Some(problem) = limit.exceeded(size as u64) {
                return Err(Error::format(&path, format!("{} {problem}", limit.what)));
            }
        }
        Ok(about)
    }

    /// The name of the file with the states of a site.
    pub fn file_of(&self, site: Site) -> String {
        let ending = self.dtype.name();
        match site {
            Site::Block(index) => format!("block.{index:03}.{ending}"),
            site => format!("{site}.{ending}"),
        }
    }

    /// Bytes of a vector in a file.
    pub fn vector_bytes(&self) -> usize {
        self.width * self.dtype.bytes()
    }

    /// Bytes of the files of all sites when they are whole.
    pub fn bytes(&self) -> u64 {
        let site = self.vectors as u64 * self.vector_bytes() as u64;
        site * self.sites.len() as u64
    }

    fn check_length(&self, path: &Path, vectors: usize) -> Result<()> {
        let file = fs::metadata(path).map_err(Error::file("open the states", path))?;
        let expected = vectors as u64 * self.vector_bytes() as u64;
        if file.len() != expected {
            let problem = format!(
                "the file has {} bytes, and {} of {} numbers take {}",
                count(file.len()),
                counted(vectors as u64, "vector"),
                self.width,
                count(expected)
            );
            return Err(Error::format(path, problem));
        }
        Ok(())
    }
}

impl StatesDtype {
    /// Bytes of a number.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 => 2,
        }
    }

    /// As it is written: `f32`.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
        }
    }
}

impl SourceFile {
    /// Reads a file for its content.
    pub fn of(path: &Path) -> Result<Self> {
        let failed = || Error::file("read the file", path);
        let mut file = File::open(path).map_err(failed())?;
        let mut sum = Sha256::new();
        let mut part = vec![0; 1 << 20];
        let mut bytes = 0;
        loop {
            let read = file.read(&mut part).map_err(failed())?;
            if read == 0 {
                break;
            }
            sum.update(&part[..read]);
            bytes += read as u64;
        }
        Ok(Self {
            name: crate::checkpoint::save::name_of(path),
            bytes,
            sha256: hex(&sum.finalize()),
        })
    }
}

impl Whole {
    /// Of a folder in which nothing is whole yet, nothing.
    pub(super) fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(WHOLE);
        if !path.exists() {
            return Ok(Self::default());
        }
        let json = read_json(&path, "read how much of the states is whole")?;
        serde_json::from_value(json)
            .map_err(|error| Error::format(&path, format!("is no {WHOLE}: {error}")))
    }
}

/// The SHA-256 of bytes, as it is written in files.
pub(super) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The rows of a folder. Their number, their vectors and their sum have to be what the folder says.
fn read_rows(folder: &Path, about: &About) -> Result<Vec<StateRow>> {
    let path = folder.join(ROWS);
    let bytes = limits::STATES_TEXT.read(&path, "read the texts of the states")?;
    if sha256(&bytes) != about.rows_sha256 {
        let problem = format!(
            "the file was changed after the states were captured: its SHA-256 is not the one in {ABOUT}"
        );
        return Err(Error::format(&path, problem));
    }
    let lines = bytes.split(|byte| *byte == b'\n');
    let rows = lines.filter(|line| !line.is_empty()).zip(1..);
    let read = |(line, number): (&[u8], u64)| {
        serde_json::from_slice(line)
            .map_err(|error| Error::format(&path, format!("line {number} is no row: {error}")))
    };
    let rows: Vec<StateRow> = rows.map(read).collect::<Result<_>>()?;
    let vectors = rows
        .iter()
        .try_fold(0usize, |sum, row| sum.checked_add(row.vectors));
    if rows.len() != about.rows || vectors != Some(about.vectors) {
        let problem = format!(
            "the file has {} with {} vectors, and {ABOUT} says {} with {}",
            counted(rows.len() as u64, "row"),
            vectors.map_or("too many".to_owned(), |it| count(it as u64)),
            count(about.rows as u64),
            count(about.vectors as u64),
        );
        return Err(Error::format(&path, problem));
    }
    Ok(rows)
}
