//! Which runs are running and waiting, on disk, so that the app can offer them again after it was closed or crashed.

use std::path::Path;

use super::limits::JSON_FILE;
use crate::wire::error::Result;

/// The ids of the runs, the one that is running first. A file that is not there or can't be read names none: it only offers.
pub(crate) fn read(path: &Path) -> Vec<String> {
    let text = JSON_FILE.read(path, "read what waits").unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

/// Writes the ids.
pub(crate) fn write(path: &Path, ids: &[String]) -> Result<()> {
    super::write_json(path, &ids)
}

#[cfg(test)]
mod tests {
    use std::fs;

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
