//! Writing a folder of hidden states, so that a capture that was stopped at any moment continues to the same bytes.
//!
//! The texts are written first, whole. The states of each site are appended in the order of the texts, and synced before
//! `whole.json` says that they are there; anything beyond that is cut off when the capture continues.

use std::{
    fs::{self, File},
    io::{Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use candle_core::{DType, Tensor};
use half::bf16;

use super::states::{ABOUT, About, ROWS, StateRow, StatesDtype, WHOLE, Whole, sha256};
use crate::{Error, Result, checkpoint::save::replace_file};

/// How often what is written is said to be whole. The disk is waited for then.
const SYNC_EVERY: Duration = Duration::from_secs(3);

/// How many texts a pass read, and their states [s, m, width] on the CPU.
pub(super) type StatesOfPass = (usize, Tensor);

/// A folder of states that is being filled.
#[derive(Debug)]
pub struct StatesWriter {
    folder: PathBuf,
    about: About,
    /// The vectors of each row.
    vectors: Vec<usize>,
    files: Vec<(PathBuf, File)>,
    /// What is written, and not on disk yet for certain.
    written: Whole,
    whole: Whole,
}

impl StatesWriter {
    /// Begins a folder, or continues one that was begun with the same [`About`] and rows.
    ///
    /// The sizes and the sum of the rows are filled in here. Errors: [`Error::Data`] when the folder holds something else, with
    /// what is different.
    pub fn begin(folder: &Path, mut about: About, rows: &[StateRow]) -> Result<Self> {
        let mut text = Vec::new();
        for row in rows {
            serde_json::to_writer(&mut text, row)
                .map_err(|error| Error::Data(format!("could not write a row: {error}")))?;
            text.push(b'\n');
        }
        let vectors: Vec<usize> = rows.iter().map(|row| row.vectors).collect();
        about.rows = rows.len();
        about.vectors = vectors.iter().sum();
        about.rows_sha256 = sha256(&text);
        let whole = match folder.join(ABOUT).exists() {
            true => {
                refuse_other(folder, &About::read(folder)?, &about)?;
                Whole::read(folder)?
            }
            false => {
                refuse_full(folder)?;
                fs::create_dir_all(folder).map_err(Error::file("create the folder", folder))?;
                replace_file(&folder.join(ROWS), &text)?;
                replace_file(&folder.join(ABOUT), &json(&about)?)?;
                Whole::default()
            }
        };
        let rows_whole = vectors.get(..whole.rows).map(|rows| rows.iter().sum());
        if rows_whole != Some(whole.vectors) {
            let problem = format!("says that {} rows are whole, which can’t be", whole.rows);
            return Err(Error::format(folder.join(WHOLE), problem));
        }
        let mut writer = Self {
            folder: folder.to_owned(),
            about,
            vectors,
            files: Vec::new(),
            written: whole,
            whole,
        };
        for site in writer.about.sites.clone() {
            let path = folder.join(writer.about.file_of(site));
            let file = writer.open_at_whole(&path)?;
            writer.files.push((path, file));
        }
        Ok(writer)
    }

    /// How many rows are whole, those included that were appended since the last [`Self::sync`].
    pub fn rows(&self) -> usize {
        self.written.rows
    }

    /// What the states are of, with the sizes.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Appends the states of the next rows: for each site, in order, [their vectors, width]. They are certain after
    /// [`Self::sync`].
    ///
    /// Errors: [`Error::Data`] when the sizes are others or a number is not finite.
    pub fn append(&mut self, rows: usize, states: &[Vec<f32>]) -> Result<()> {
        let vectors = self
            .vectors
            .get(self.written.rows..self.written.rows + rows);
        let vectors: Option<usize> = vectors.map(|rows| rows.iter().sum());
        let expected = vectors.map(|vectors| vectors * self.about.width);
        let (sites, width) = (self.about.sites.len(), self.about.width);
        if states.len() != sites || states.iter().any(|it| Some(it.len()) != expected) {
            let problem = format!("states of {sites} sites with {width} numbers were expected");
            return Err(Error::Data(problem));
        }
        for ((path, file), (states, site)) in self
            .files
            .iter_mut()
            .zip(states.iter().zip(&self.about.sites))
        {
            if states.iter().any(|it| !it.is_finite()) {
                let first = self.written.rows;
                return Err(Error::Data(format!(
                    "a hidden state of `{site}` is NaN or infinite in the rows {} to {}, so no probe can learn from it",
                    first + 1,
                    first + rows
                )));
            }
            let bytes = bytes(states, self.about.dtype);
            file.write_all(&bytes)
                .map_err(Error::file("write the states", &*path))?;
        }
        self.written.rows += rows;
        self.written.vectors += vectors.unwrap_or_default();
        Ok(())
    }

    /// Appends the states of passes as they come, syncs now and then and at the end, and returns how many rows then have some.
    pub(super) fn append_all(
        mut self,
        states: impl IntoIterator<Item = StatesOfPass>,
    ) -> Result<usize> {
        let mut synced = Instant::now();
        for (rows, states) in states {
            self.append(rows, &numbers_of(&states)?)?;
            if synced.elapsed() > SYNC_EVERY {
                self.sync()?;
                synced = Instant::now();
            }
        }
        self.sync()?;
        Ok(self.rows())
    }

    /// Waits until the disk has what was appended, and says that it is whole.
    pub fn sync(&mut self) -> Result<()> {
        for (path, file) in &self.files {
            file.sync_data()
                .map_err(Error::file("write the states", path))?;
        }
        self.whole = self.written;
        replace_file(&self.folder.join(WHOLE), &json(&self.whole)?)
    }

    /// Opens the file of a site behind what is whole of it, and cuts off the rest.
    fn open_at_whole(&self, path: &Path) -> Result<File> {
        let failed = || Error::file("write the states", path);
        let mut open = File::options();
        let file = open.create(true).truncate(false).write(true).open(path);
        let mut file = file.map_err(failed())?;
        let whole = self.whole.vectors as u64 * self.about.vector_bytes() as u64;
        let found = file.metadata().map_err(failed())?.len();
        if found < whole {
            let problem = format!(
                "the file has {found} bytes, and {WHOLE} says that {whole} are whole; remove the folder and start again"
            );
            return Err(Error::format(path, problem));
        }
        file.set_len(whole).map_err(failed())?;
        file.seek(SeekFrom::Start(whole)).map_err(failed())?;
        Ok(file)
    }
}

/// Stacked states [s, m, width] as numbers, site by site.
pub(super) fn numbers_of(states: &Tensor) -> Result<Vec<Vec<f32>>> {
    let states = states.to_dtype(DType::F32)?;
    (0..states.dim(0)?)
        .map(|site| Ok(states.get(site)?.flatten_all()?.to_vec1()?))
        .collect()
}

/// Numbers as they are stored.
fn bytes(numbers: &[f32], dtype: StatesDtype) -> Vec<u8> {
    match dtype {
        StatesDtype::F32 => numbers.iter().flat_map(|it| it.to_le_bytes()).collect(),
        StatesDtype::Bf16 => {
            let numbers = numbers.iter().map(|it| bf16::from_f32(*it));
            numbers.flat_map(bf16::to_le_bytes).collect()
        }
    }
}

fn json(value: &impl serde::Serialize) -> Result<Vec<u8>> {
    let text = serde_json::to_string_pretty(value);
    let text = text
        .map_err(|error| Error::Data(format!("could not write what is said of states: {error}")))?;
    Ok((text + "\n").into_bytes())
}

/// An error where a folder holds states of something else, with the first thing that differs.
fn refuse_other(folder: &Path, found: &About, asked: &About) -> Result<()> {
    // Another version of the program continues what this one began.
    let asked = &About {
        written_by: found.written_by.clone(),
        ..asked.clone()
    };
    let differs = [
        ("model", found.model != asked.model),
        ("adapter", found.adapter != asked.adapter),
        ("compute dtype", found.compute_dtype != asked.compute_dtype),
        ("suffix or chat template", found.prompt != asked.prompt),
        ("position", found.position != asked.position),
        ("sites", found.sites != asked.sites),
        ("source files", found.sources != asked.sources),
        ("rows", found.rows_sha256 != asked.rows_sha256),
        ("way of capturing", found != asked),
    ];
    match differs.into_iter().find(|(_, differs)| *differs) {
        None => Ok(()),
        Some((what, _)) => Err(Error::Data(format!(
            "the folder holds states of another capture, whose {what} is not the one asked for; name another folder: `{}`",
            folder.display()
        ))),
    }
}

/// An error where a folder has files that no capture of ours left there.
fn refuse_full(folder: &Path) -> Result<()> {
    if !folder.exists() {
        return Ok(());
    }
    let entries = fs::read_dir(folder).map_err(Error::file("look into the folder", folder))?;
    for entry in entries {
        let entry = entry.map_err(Error::file("look into the folder", folder))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name != ROWS && !name.starts_with('.') {
            return Err(Error::Data(format!(
                "the folder has a file `{name}`, and states are written to a new folder: `{}`",
                folder.display()
            )));
        }
    }
    Ok(())
}
