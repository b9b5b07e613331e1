//! Everything the app keeps on disk. No other module knows a folder's name.

#[cfg(feature = "gui")]
pub(crate) mod conversations;
#[cfg(feature = "gui")]
pub(crate) mod data_sets;
pub(crate) mod models;
pub(crate) mod paths;
pub(crate) mod record;
pub(crate) mod run_file;
pub(crate) mod run_state;
pub(crate) mod runs;
pub(crate) mod settings;
#[cfg(feature = "gui")]
pub(crate) mod waiting;
pub(crate) mod yaml;

use std::{fs, path::Path};

use ::models::checkpoint::save::replace_file;

use crate::wire::error::{AppError, Result};

/// Writes a file, whole or not at all, and makes its folder where there is none.
pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    make_folder_of(path)?;
    Ok(replace_file(path, bytes)?)
}

/// Writes a value as JSON that a person can read.
#[cfg(feature = "gui")]
pub(crate) fn write_json(path: &Path, value: &impl serde::Serialize) -> Result<()> {
    let text =
        serde_json::to_vec_pretty(value).map_err(|error| AppError::failed(error.to_string()))?;
    write_file(path, &text)
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
fn now() -> String {
    let now = jiff::Timestamp::now();
    now.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}
