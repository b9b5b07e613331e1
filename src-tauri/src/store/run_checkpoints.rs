//! The checkpoints of a run: which one is used, and what each is kept for.

use std::{fs, path::PathBuf};

use models::{
    checkpoint::{
        keep::{Checkpoint, Checkpoints},
        save::folder_bytes,
        whole::verify_lengths,
    },
    train::state::read_saved,
};
use serde::Serialize;

use super::runs::Run;
use crate::wire::error::{AppError, Result};

/// A folder among the checkpoints.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct CheckpointFolder {
    /// `step-000500`.
    pub(crate) name: String,
    pub(crate) bytes: u64,
    /// What it is kept for, or what is wrong with it: `newest, best`.
    pub(crate) kept_for: String,
    /// Whether this one is used: for chat, to solve puzzles, to classify.
    #[serde(skip)]
    pub(crate) is_used: bool,
}

impl Run {
    /// The names of the checkpoints, the oldest first.
    pub(crate) fn checkpoint_names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.checkpoints())
            .into_iter()
            .flatten()
            .flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
        names.sort();
        names
    }

    /// The checkpoint that measured best, or else the newest, of those whose files are as long as they were.
    pub(crate) fn best_checkpoint(&self) -> Result<PathBuf> {
        let checkpoints = Checkpoints::new(&self.checkpoints(), 1);
        let whole = checkpoints.whole()?;
        let Some(newest) = whole.last() else {
            let damaged = checkpoints.list()?.pop();
            let damage = damaged.and_then(|it| Some((it.step, verify_lengths(&it.path).err()?)));
            return Err(AppError::failed(match damage {
                Some((step, damage)) => format!(
                    "no checkpoint of `{}` is whole; that of step {step} is damaged: {damage}",
                    self.id
                ),
                None => format!("`{}` has not saved anything yet", self.id),
            }));
        };
        let best = whole.iter().find(|it| Some(it.step) == best_step(newest));
        Ok(best.unwrap_or(newest).path.clone())
    }

    /// The checkpoints with what each is kept for, the oldest first.
    pub(crate) fn checkpoint_folders(&self) -> Vec<CheckpointFolder> {
        let (keep_last, keep_every) = self.plan().map_or((1, 0), |plan| {
            (plan.run.save.keep_last, plan.run.save.keep_every)
        });
        let checkpoints = Checkpoints::new(&self.checkpoints(), keep_last).keep_every(keep_every);
        let whole = checkpoints.whole().unwrap_or_default();
        let best = whole.last().and_then(best_step);
        let used = self.best_checkpoint().ok();
        let folder = |name: String| {
            let path = self.checkpoints().join(&name);
            let kept_for = match whole.iter().find(|it| it.path == path) {
                Some(it) => checkpoints.kept_for(it.step, &whole, best).join(", "),
                None if name.contains(".damaged") => "damaged, put aside".to_owned(),
                None => "damaged".to_owned(),
            };
            CheckpointFolder {
                bytes: folder_bytes(&path).unwrap_or(0),
                is_used: used.as_ref() == Some(&path),
                name,
                kept_for,
            }
        };
        self.checkpoint_names().into_iter().map(folder).collect()
    }
}

/// The step that measured best. What measured best before something was saved is known to the newest checkpoint.
fn best_step(newest: &Checkpoint) -> Option<usize> {
    let progress = read_saved(&newest.path).ok()?.progress;
    progress.best.map(|best| best.step)
}
