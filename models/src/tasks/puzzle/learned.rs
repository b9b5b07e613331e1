//! Which tasks of ARC a model learned from, in a file of its checkpoint.
//!
//! Each look of a task has a vector of its own, so that a task can be answered only with its vectors; and a task is known again by the
//! pairs that show its rule, whatever it is called. The looks themselves are drawn anew, from the same seed.

use std::{collections::BTreeMap, path::Path};

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::{
    arc::{Look, Task, Tasks},
    arc_files,
};
use crate::{Error, Result, checkpoint::save::write_file, limits};

/// The file of a checkpoint.
pub const TASKS: &str = "tasks.json";

/// The tasks that a model learned from.
#[derive(Debug, Clone, PartialEq)]
pub struct Learned {
    augmentations: usize,
    seed: u64,
    /// Each with the vector of its first look.
    tasks: Vec<(u32, Task)>,
}

/// The same in a file.
#[derive(Serialize, Deserialize)]
struct Written {
    augmentations: usize,
    seed: u64,
    /// The vector of each task’s first look, by its name.
    ids: BTreeMap<String, u32>,
    tasks: Json,
}

impl Learned {
    /// Writes the tasks of a run.
    pub(super) fn save(tasks: &Tasks, folder: &Path) -> Result<()> {
        let names = tasks.tasks.iter().map(|it| it.name.clone());
        let written = Written {
            augmentations: tasks.augmentations,
            seed: tasks.seed,
            ids: names.zip(tasks.ids.iter().copied()).collect(),
            tasks: arc_files::written(tasks.tasks.iter()),
        };
        let bytes = serde_json::to_vec(&written).map_err(|it| Error::Data(it.to_string()))?;
        write_file(&folder.join(TASKS), &bytes)
    }

    /// Reads the tasks of a checkpoint whose table has so many vectors. Nothing where it has none: it learned from arrays.
    pub(super) fn open(folder: &Path, vectors: usize) -> Result<Option<Self>> {
        let path = folder.join(TASKS);
        let what = "read which tasks were learned from";
        let Some(text) = limits::PUZZLE_JSON.read_text_if_there(&path, what)? else {
            return Ok(None);
        };
        let damaged =
            |problem: String| Error::damaged(&path, format!("{TASKS} is damaged"), problem);
        let written: Written =
            serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
        let tasks = arc_files::all(written.tasks).map_err(damaged)?;
        let with_id = |task: Task| match written.ids.get(&task.name) {
            Some(id) if (*id as usize) < vectors => Ok((*id, task)),
            Some(id) => Err(damaged(format!(
                "task {} has the vector {id}, and the table has {vectors}",
                task.name
            ))),
            None => Err(damaged(format!("task {} has no vector", task.name))),
        };
        if let Some(too_many) = limits::LOOKS.exceeded(written.augmentations as u64) {
            return Err(damaged(format!("its field augmentations {too_many}")));
        }
        Ok(Some(Self {
            augmentations: written.augmentations,
            seed: written.seed,
            tasks: tasks.into_iter().map(with_id).collect::<Result<_>>()?,
        }))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// The task with a name.
    pub fn named(&self, name: &str) -> Option<&Task> {
        let mut all = self.tasks.iter();
        all.find(|(_, task)| task.name == name).map(|it| &it.1)
    }

    /// The first names, to be told.
    pub fn names(&self, most: usize) -> Vec<&str> {
        let names = self.tasks.iter().map(|(_, task)| task.name.as_str());
        names.take(most).collect()
    }

    /// The vector of the first of a task’s looks, and its looks, whose vectors follow. Nothing where the task was not learned from.
    pub fn looks(&self, task: &Task) -> Option<(u32, Vec<Look>)> {
        let mut all = self.tasks.iter();
        let (id, known) = all.find(|(_, known)| known.train == task.train)?;
        Some((*id, known.looks(self.augmentations, self.seed)))
    }
}
