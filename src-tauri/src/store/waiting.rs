//! Which runs go on and wait, on disk, so that the app can offer them again after it ended, however it ended.

use std::{fs, path::Path};

use ::models::checkpoint::save::replace_file;

use crate::wire::error::{AppError, Result};

/// The ids of the runs, the one that goes on first. A file that is not there or can't be read names none: it only offers.
pub(crate) fn read(path: &Path) -> Vec<String> {
    let text = fs::read(path).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

/// Writes the ids.
pub(crate) fn write(path: &Path, ids: &[String]) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(AppError::file("make the folder", folder))?;
    }
    let text = serde_json::to_vec(ids).map_err(|error| AppError::failed(error.to_string()))?;
    Ok(replace_file(path, &text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_remembered_in_order_and_a_broken_file_names_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data/waiting.json");
        assert!(read(&path).is_empty());
        let ids = ["b", "a"].map(str::to_owned);
        write(&path, &ids).unwrap();
        assert_eq!(read(&path), ids);
        fs::write(&path, "[\"b\"").unwrap();
        assert!(read(&path).is_empty());
    }
}
