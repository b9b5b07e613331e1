//! What is being computed on which device: a file for each computation of this home, locked by its process while it
//! lasts.
//!
//! ```text
//! in-use/cpu/
//!   answer-4711-0   an answer that process 4711 has an engine write
//! ```
//!
//! A file that is not locked belongs to a computation that is over, whether it finished or crashed. It stays while something
//! is being measured, since it may have disturbed the figures. Deliberately absent: what has to wait for what, which the host
//! decides.

use std::{
    collections::HashSet,
    fs::{self, File},
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicUsize, Ordering},
};

use models::{device::RequestedDevice, figures::capitalized};

use super::paths::Paths;
use crate::wire::error::{AppError, Result};

/// What somebody computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    Answer,
    Probe,
    Examination,
    Run,
    Trial,
    Check,
    Benchmark,
}

impl Work {
    const ALL: [(Self, &str, &str); 7] = [
        (Self::Answer, "answer", "an answer in a chat"),
        (Self::Probe, "probe", "the reading of hidden states"),
        (
            Self::Examination,
            "examination",
            "the starter’s examination",
        ),
        (Self::Run, "run", "a run"),
        (Self::Trial, "trial", "the trial of a run"),
        (Self::Check, "check", "a device check"),
        (Self::Benchmark, "benchmark", "a benchmark"),
    ];

    /// How its files begin.
    fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// As a sentence names it: `a benchmark`.
    pub(crate) fn describe(self) -> &'static str {
        Self::ALL[self as usize].2
    }

    /// Whose file it is.
    fn of(file: &str) -> Option<Self> {
        let name = file.split('-').next()?;
        let found = Self::ALL.into_iter().find(|(_, known, _)| *known == name);
        found.map(|(work, ..)| work)
    }

    /// Whether figures come of it.
    fn measures(self) -> bool {
        matches!(self, Self::Trial | Self::Check | Self::Benchmark)
    }
}

/// Somebody computes on a device, until this is dropped.
#[derive(Debug)]
pub(crate) struct InUse {
    folder: PathBuf,
    name: String,
    /// Who was done before this began.
    done_before: HashSet<String>,
    _held: File,
}

/// The folder of a device.
pub(crate) fn folder(paths: &Paths, device: RequestedDevice) -> PathBuf {
    paths.in_use.join(device.to_string().replace(':', "-"))
}

/// What is computed now on the device with this folder.
pub(crate) fn now(folder: &Path) -> Vec<Work> {
    let files = files(folder).into_iter();
    let held = files.filter(|(_, path)| is_held(path));
    held.filter_map(|(name, _)| Work::of(&name)).collect()
}

impl InUse {
    /// Lets everybody know that something is computed on the device with this folder.
    pub(crate) fn begin(folder: &Path, work: Work) -> Result<Self> {
        static BEGUN: AtomicUsize = AtomicUsize::new(0);

        let failed = |error| AppError::file("say that the device is in use", folder)(error);
        fs::create_dir_all(folder).map_err(failed)?;
        let is_measured = now(folder).into_iter().any(Work::measures);
        let mut done_before = HashSet::new();
        for (name, path) in files(folder) {
            if !is_held(&path) && (is_measured || fs::remove_file(&path).is_err()) {
                done_before.insert(name);
            }
        }
        let number = BEGUN.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{}-{number}", work.name(), process::id());
        // Nobody sees it before it is held.
        let hidden = folder.join(format!(".{name}"));
        let file = File::create(&hidden).map_err(failed)?;
        file.lock().map_err(failed)?;
        fs::rename(&hidden, folder.join(&name)).map_err(failed)?;
        Ok(Self {
            folder: folder.to_owned(),
            name,
            done_before,
            _held: file,
        })
    }

    /// What else was computed on the device since this began, and by then.
    pub(crate) fn others(&self) -> Vec<Work> {
        let files = files(&self.folder).into_iter();
        let others =
            files.filter(|(name, _)| *name != self.name && !self.done_before.contains(name));
        let mut works = Vec::new();
        for work in others.filter_map(|(name, _)| Work::of(&name)) {
            if !works.contains(&work) {
                works.push(work);
            }
        }
        works
    }
}

/// A sentence that marks figures, if anything else was computed while they were measured.
pub(crate) fn warning(others: &[Work], device: &str) -> Option<String> {
    let (first, rest) = others.split_first()?;
    let mut message = first.describe().to_owned();
    for other in rest {
        message += &format!(" and {}", other.describe());
    }
    Some(format!(
        "{} used {device} at the same time, so that all took longer than alone.",
        capitalized(&message)
    ))
}

/// The files of a device, by their names.
fn files(folder: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.map(|entry| {
        (
            entry.file_name().to_string_lossy().into_owned(),
            entry.path(),
        )
    });
    files.filter(|(name, _)| !name.starts_with('.')).collect()
}

/// Whether somebody holds a file. One that can't be asked is nobody's.
fn is_held(path: &Path) -> bool {
    let file = File::open(path);
    file.is_ok_and(|file| matches!(file.try_lock_shared(), Err(fs::TryLockError::WouldBlock)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_computes_is_known_until_it_is_over() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("cpu");
        assert_eq!(now(&folder), []);
        let answer = InUse::begin(&folder, Work::Answer).unwrap();
        let run = InUse::begin(&folder, Work::Run).unwrap();
        let mut works = now(&folder);
        works.sort_by_key(|work| *work as usize);
        assert_eq!(works, [Work::Answer, Work::Run]);
        drop(answer);
        assert_eq!(now(&folder), [Work::Run]);
        drop(run);
        assert_eq!(now(&folder), []);
        // What others left is not kept for ever.
        let _last = InUse::begin(&folder, Work::Run).unwrap();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    }

    #[test]
    fn who_measures_knows_of_all_that_was_computed_meanwhile() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("cuda-1");
        drop(InUse::begin(&folder, Work::Run).unwrap());
        let answer = InUse::begin(&folder, Work::Answer).unwrap();
        let bench = InUse::begin(&folder, Work::Benchmark).unwrap();
        assert_eq!(bench.others(), [Work::Answer], "what was over is no matter");
        drop(answer);
        let trial = InUse::begin(&folder, Work::Trial).unwrap();
        drop(InUse::begin(&folder, Work::Run).unwrap());
        let mut others = bench.others();
        others.sort_by_key(|work| *work as usize);
        assert_eq!(others, [Work::Answer, Work::Run, Work::Trial]);
        let mut others = trial.others();
        others.sort_by_key(|work| *work as usize);
        assert_eq!(others, [Work::Run, Work::Benchmark]);
        assert_eq!(
            warning(&others, "the CPU").unwrap(),
            "A run and a benchmark used the CPU at the same time, so that all took longer than alone."
        );
        assert_eq!(warning(&[], "the CPU"), None);
    }

    #[test]
    fn each_kind_of_work_is_read_back_from_its_files() {
        for (work, name, _) in Work::ALL {
            assert_eq!(work.name(), name);
            assert_eq!(Work::of(&format!("{name}-12-3")), Some(work));
        }
        assert_eq!(Work::of("settings.yaml"), None);
    }
}
