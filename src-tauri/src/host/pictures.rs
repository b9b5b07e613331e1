//! Sets of pictures that are looked at.

#[cfg(feature = "gui")]
pub(crate) mod view;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use models::{
    data::source::{Changed, changed},
    tasks::picture::{
        recognize::holds_pictures,
        source::{Choice, PictureSet},
    },
};

use super::Host;
use crate::{lock::locked, store::picture_files::files_in, wire::error::Result};

/// Pictures that were read, kept while a page shows them.
pub(crate) struct ReadPictures {
    files: Vec<PathBuf>,
    changed: Vec<Changed>,
    set: Arc<PictureSet>,
}

impl Host {
    /// The pictures of files and folders, in the parts that these have themselves. Nothing where they hold something else.
    ///
    /// Their pixels are kept in a file until others are looked at, so that a second look decodes nothing.
    pub(crate) fn look_at_pictures(&self, files: &[PathBuf]) -> Result<Option<Arc<PictureSet>>> {
        if files.is_empty() || !files.iter().all(|path| holds_pictures(path)) {
            return Ok(None);
        }
        let changed = changed(&files_in(files)?);
        let mut read = locked(&self.read_pictures);
        let is_it = |known: &&ReadPictures| known.files == files && known.changed == changed;
        if let Some(known) = read.as_ref().filter(is_it) {
            return Ok(Some(known.set.clone()));
        }
        let folder = &self.paths.pictures;
        let before = names_in(folder);
        let set = Arc::new(PictureSet::read(files, &Choice::default(), Some(folder))?);
        // What was mapped is let go of before its file is.
        *read = Some(ReadPictures {
            files: files.to_vec(),
            changed,
            set: set.clone(),
        });
        forget_others(folder, &before);
        Ok(Some(set))
    }
}

/// The files in a folder.
fn names_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Removes files of a folder that were there before, if there are others now. One that stays takes room and is no error.
fn forget_others(folder: &Path, before: &[PathBuf]) {
    let now = names_in(folder);
    if now.iter().any(|path| !before.contains(path)) {
        for path in before {
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_of_what_was_looked_at_before_go_when_others_come() {
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| home.path().join(name);
        fs::write(path("a"), "").unwrap();
        let before = names_in(home.path());
        forget_others(home.path(), &before);
        assert!(path("a").exists(), "it was found again");
        fs::write(path("b"), "").unwrap();
        forget_others(home.path(), &before);
        assert_eq!(names_in(home.path()), [path("b")]);
        assert!(names_in(&path("nowhere")).is_empty());
    }
}
