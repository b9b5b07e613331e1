//! The checkpoints of a run: what they are called, which is the newest that is whole, and which are kept.
//!
//! A damaged checkpoint is never deleted: it does not count, and is renamed once a run resumes from the one before.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{save, whole};
use crate::{Error, Result};

/// The folder of a run's checkpoints: `step-000500` and so on.
#[derive(Debug, Clone)]
pub struct Checkpoints {
    folder: PathBuf,
    keep_last: usize,
    keep_every: usize,
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
            keep_every: 0,
        }
    }

    /// Also keeps those whose step is a multiple of `steps`. 0 keeps no more.
    pub fn keep_every(self, steps: usize) -> Self {
        Self {
            keep_every: steps,
            ..self
        }
    }

    /// Where the checkpoint after `step` belongs.
    pub fn path(&self, step: usize) -> PathBuf {
        self.folder.join(format!("step-{step:06}"))
    }

    /// All checkpoints, the oldest first, damaged or not. A folder that does not exist holds none.
    pub fn list(&self) -> Result<Vec<Checkpoint>> {
        let exists = self.folder.try_exists();
        if !exists.map_err(Error::file("find the checkpoints", &self.folder))? {
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

    /// The checkpoints whose files are as long as they were, the oldest first.
    pub fn whole(&self) -> Result<Vec<Checkpoint>> {
        let mut all = self.list()?;
        all.retain(|checkpoint| whole::verify_lengths(&checkpoint.path).is_ok());
        Ok(all)
    }

    /// The newest checkpoint whose files are as long as they were.
    pub fn newest(&self) -> Result<Option<Checkpoint>> {
        let mut all = self.list()?.into_iter().rev();
        Ok(all.find(|checkpoint| whole::verify_lengths(&checkpoint.path).is_ok()))
    }

    /// The newest checkpoint before `step` that is what was written, to the last bit: the one to resume from.
    ///
    /// Damaged ones on the way are put aside under another name, so that they are neither met again nor written over.
    /// `report` gets a sentence for each.
    pub fn newest_before(
        &self,
        step: usize,
        report: &mut dyn FnMut(String),
    ) -> Result<Option<Checkpoint>> {
        for checkpoint in self.list()?.into_iter().rev() {
            if checkpoint.step >= step {
                continue;
            }
            let damage = match whole::verify(&checkpoint.path) {
                Ok(()) => return Ok(Some(checkpoint)),
                // A disk that can't be read now says nothing about what is on it.
                Err(error) if error.is_about_the_disk() => return Err(error),
                Err(damage) => damage,
            };
            let aside = save::put_aside(&checkpoint.path)?;
            let (step, name) = (checkpoint.step, save::name_of(&aside));
            report(format!(
                "the checkpoint of step {step} is damaged and was put aside as `{name}`: {damage}"
            ));
        }
        Ok(None)
    }

    /// Removes all but the newest ones, that of step `best`, and those that are kept every so many steps. Damaged ones
    /// don't count, and stay.
    pub fn prune(&self, best: Option<usize>) -> Result<()> {
        let all = self.whole()?;
        let old = all.len().saturating_sub(self.keep_last);
        let is_kept = |step| Some(step) == best || is_multiple(step, self.keep_every);
        for checkpoint in all.iter().take(old).filter(|it| !is_kept(it.step)) {
            self.remove(checkpoint)?;
        }
        self.remove_unfinished()
    }

    /// What the whole checkpoint of `step` is kept for, in words such as `newest`. `newest` are the steps of all that
    /// are whole, the oldest first.
    pub fn kept_for(&self, step: usize, whole: &[Checkpoint], best: Option<usize>) -> Vec<String> {
        let mut reasons = Vec::new();
        let after = whole.iter().filter(|other| other.step > step).count();
        if after == 0 {
            reasons.push("newest".to_owned());
        } else if after < self.keep_last {
            reasons.push(format!("one of the last {}", self.keep_last));
        }
        if best == Some(step) {
            reasons.push("best".to_owned());
        }
        if is_multiple(step, self.keep_every) {
            reasons.push(format!("every {}", self.keep_every));
        }
        reasons
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

/// Whether a step is a multiple of another number of steps. Step 0 and a number of 0 are never.
fn is_multiple(step: usize, every: usize) -> bool {
    every != 0 && step != 0 && step.is_multiple_of(every)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with whole checkpoints of these steps.
    fn saved(steps: &[usize]) -> (tempfile::TempDir, Checkpoints) {
        let folder = tempfile::tempdir().unwrap();
        let checkpoints = Checkpoints::new(folder.path(), 2);
        for step in steps {
            let path = checkpoints.path(*step);
            fs::create_dir(&path).unwrap();
            fs::write(path.join("model"), "some weights").unwrap();
            let fields = serde_json::json!({"step": step});
            whole::write_state(&path, fields.as_object().unwrap().clone()).unwrap();
        }
        (folder, checkpoints)
    }

    fn steps(checkpoints: &[Checkpoint]) -> Vec<usize> {
        checkpoints.iter().map(|it| it.step).collect()
    }

    #[test]
    fn the_newest_the_best_and_one_every_so_often_are_kept() {
        let (folder, checkpoints) = saved(&[0, 5, 10, 15, 20, 25]);
        fs::create_dir(folder.path().join(".step-000030.writing")).unwrap();
        let checkpoints = checkpoints.keep_every(10);
        checkpoints.prune(Some(5)).unwrap();
        let left = checkpoints.whole().unwrap();
        assert_eq!(steps(&left), [5, 10, 20, 25]);
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            4,
            "unfinished ones are gone"
        );
        let why = |step| checkpoints.kept_for(step, &left, Some(5)).join(", ");
        assert_eq!(
            [5, 10, 20, 25].map(why),
            ["best", "every 10", "one of the last 2, every 10", "newest"]
        );
    }

    #[test]
    fn damaged_checkpoints_are_not_counted_not_deleted_and_not_gone_on_from() {
        let (_folder, checkpoints) = saved(&[5, 10, 15, 20]);
        fs::write(checkpoints.path(15).join("model"), "some weightz").unwrap();
        fs::write(checkpoints.path(20).join("model"), "some").unwrap();
        checkpoints.prune(None).unwrap();
        assert_eq!(steps(&checkpoints.list().unwrap()), [10, 15, 20]);
        assert_eq!(checkpoints.newest().unwrap().unwrap().step, 15);

        let mut reported = Vec::new();
        let newest = checkpoints.newest_before(usize::MAX, &mut |it| reported.push(it));
        assert_eq!(newest.unwrap().unwrap().step, 10);
        let begins = "the checkpoint of step 20 is damaged and was put aside as \
                      `step-000020.damaged`: `model` has 4 of 12 bytes";
        assert!(reported[0].starts_with(begins), "{reported:?}");
        assert!(
            reported[1].contains("step 15") && reported.len() == 2,
            "{reported:?}"
        );
        assert_eq!(steps(&checkpoints.list().unwrap()), [10]);
        let aside = checkpoints.path(20).with_extension("damaged");
        assert_eq!(fs::read(aside.join("model")).unwrap(), b"some");
    }
}
