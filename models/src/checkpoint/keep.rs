//! The checkpoints of a run: what they are called, which is the newest, and which are kept.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{Error, Result};

/// The folder of a run's checkpoints: `step-000500` and so on.
#[derive(Debug, Clone)]
pub struct Checkpoints {
    folder: PathBuf,
    keep_last: usize,
}

/// One checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The step it was saved after.
    pub step: usize,
    /// Its folder.
    pub path: PathBuf,
}

impl Checkpoints {
    /// Checkpoints in `folder`, of which the newest `keep_last` are kept, and at least one.
    pub fn new(folder: &Path, keep_last: usize) -> Self {
        Self {
            folder: folder.to_owned(),
            keep_last: keep_last.max(1),
        }
    }

    /// Where the checkpoint after `step` belongs.
    pub fn path(&self, step: usize) -> PathBuf {
        self.folder.join(format!("step-{step:06}"))
    }

    /// All whole checkpoints, the oldest first. A folder that does not exist holds none.
    pub fn list(&self) -> Result<Vec<Checkpoint>> {
        if !self.folder.exists() {
            return Ok(Vec::new());
        }
        let entries = fs::read_dir(&self.folder)
            .map_err(Error::file("list the checkpoints", &self.folder))?;
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry.map_err(Error::file("list the checkpoints", &self.folder))?;
            let name = entry.file_name();
            let step = name
                .to_str()
                .and_then(|name| name.strip_prefix("step-"))
                .and_then(|step| step.parse().ok());
            if let Some(step) = step {
                found.push(Checkpoint {
                    step,
                    path: entry.path(),
                });
            }
        }
        found.sort_unstable_by_key(|checkpoint| checkpoint.step);
        Ok(found)
    }

    /// The newest checkpoint.
    pub fn newest(&self) -> Result<Option<Checkpoint>> {
        Ok(self.list()?.pop())
    }

    /// Removes all but the newest ones and that of step `best`.
    pub fn prune(&self, best: Option<usize>) -> Result<()> {
        let all = self.list()?;
        let old = all.len().saturating_sub(self.keep_last);
        for checkpoint in all.iter().take(old).filter(|it| Some(it.step) != best) {
            self.remove(checkpoint)?;
        }
        self.remove_unfinished()
    }

    /// Removes a checkpoint.
    pub fn remove(&self, checkpoint: &Checkpoint) -> Result<()> {
        let path = &checkpoint.path;
        fs::remove_dir_all(path).map_err(Error::file("remove a checkpoint", path))
    }

    /// Removes what a process that went away while it saved has left behind.
    fn remove_unfinished(&self) -> Result<()> {
        let entries = fs::read_dir(&self.folder)
            .map_err(Error::file("list the checkpoints", &self.folder))?;
        for entry in entries {
            let path = entry
                .map_err(Error::file("list the checkpoints", &self.folder))?
                .path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with(".step-") {
                fs::remove_dir_all(&path)
                    .map_err(Error::file("remove an unfinished checkpoint", &path))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_and_the_best_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let checkpoints = Checkpoints::new(folder.path(), 2);
        for step in [0, 5, 10, 15, 20] {
            fs::create_dir(checkpoints.path(step)).unwrap();
        }
        fs::create_dir(folder.path().join(".step-000025.writing")).unwrap();
        checkpoints.prune(Some(5)).unwrap();
        let steps: Vec<usize> = checkpoints
            .list()
            .unwrap()
            .iter()
            .map(|it| it.step)
            .collect();
        assert_eq!(steps, [5, 15, 20]);
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            3,
            "unfinished ones are gone"
        );
        assert_eq!(checkpoints.newest().unwrap().unwrap().step, 20);
    }
}
