//! Everything the app keeps on disk. No other module knows a folder's name.

pub(crate) mod benchmarks;
pub(crate) mod checks;
pub(crate) mod conversations;
#[cfg(feature = "gui")]
pub(crate) mod data_sets;
#[cfg(feature = "gui")]
pub(crate) mod dropped;
pub(crate) mod hub_cache;
pub(crate) mod in_use;
pub(crate) mod limits;
pub(crate) mod lm_studio;
pub(crate) mod memory_fallbacks;
pub(crate) mod models;
#[cfg(feature = "gui")]
pub(crate) mod naming;
pub(crate) mod paths;
pub(crate) mod picture_files;
pub(crate) mod plan_changes;
pub(crate) mod record;
pub(crate) mod run_checkpoints;
pub(crate) mod run_file;
mod run_plan;
pub(crate) mod run_state;
pub(crate) mod runs;
pub(crate) mod settings;
mod smooth;
pub(crate) mod sources;
pub(crate) mod step_times;
#[cfg(feature = "gui")]
pub(crate) mod waiting;
pub(crate) mod yaml;

use std::{
    fs,
    path::{Path, PathBuf},
};

use ::models::checkpoint::save::replace_file;

use crate::wire::error::{AppError, Result};

/// Writes a file, whole or not at all, and makes its folder where there is none.
pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    make_folder_of(path)?;
    Ok(replace_file(path, bytes)?)
}

/// Writes a value as JSON that a person can read.
pub(crate) fn write_json(path: &Path, value: &impl serde::Serialize) -> Result<()> {
    let text =
        serde_json::to_vec_pretty(value).map_err(|error| AppError::failed(error.to_string()))?;
    write_file(path, &text)
}

/// Reads a list that was written as JSON. Without a file it is empty.
pub(crate) fn read_list<T: serde::de::DeserializeOwned>(path: &Path, what: &str) -> Result<Vec<T>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = limits::JSON_FILE.read(path, "read the list")?;
    serde_json::from_slice(&text)
        .map_err(|error| AppError::failed(format!("not a {what}: {error}: `{}`", path.display())))
}

/// Writes a file that only its owner can read.
pub(crate) fn write_private_file(path: &Path, bytes: &[u8]) -> Result<()> {
    use std::io::Write;
    make_folder_of(path)?;
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    // Nobody may have opened it before it was private.
    let temporary = path.with_extension("writing");
    let _ = fs::remove_file(&temporary);
    let written = options
        .open(&temporary)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&temporary, path));
    written.map_err(AppError::file("write the file", path))
}

/// The folders in a folder, in order. A folder that can't be read has none.
pub(crate) fn folders(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    folders
}

/// Makes the folder that a file is to be in.
pub(crate) fn make_folder_of(path: &Path) -> Result<()> {
    match path.parent() {
        Some(folder) => {
            fs::create_dir_all(folder).map_err(AppError::file("make the folder", folder))
        }
        None => Ok(()),
    }
}

/// The moment, in UTC: `2026-11-21T09:30:00.123Z`.
pub(crate) fn now() -> String {
    in_words(jiff::Timestamp::now())
}

/// A moment that the file system knows, in the same words.
pub(crate) fn moment(time: std::time::SystemTime) -> Option<String> {
    jiff::Timestamp::try_from(time).ok().map(in_words)
}

fn in_words(moment: jiff::Timestamp) -> String {
    moment.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}
