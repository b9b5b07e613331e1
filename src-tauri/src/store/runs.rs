//! Runs on disk: a folder for each, which a person can read.
//!
//! ```text
//! 2026-11-21-shakespeare-7f3a/
//!   run.yaml        the whole plan, its reasons as comments
//!   sources.json    the files it learns from and starts from, by their sums
//!   events.jsonl    what happened, one event per line
//!   events.reserve  room for what is still to be said when the disk is full
//!   checkpoints/    what it learned, one folder per saved step
//!   log.txt         what its engines wrote beside the events: the place of a mistake
//!   lock            held by the process that trains it
//! ```

#[cfg(feature = "gui")]
pub(crate) mod view;

use std::{
    fs::{self, File, TryLockError},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use super::{
    conversations,
    paths::Paths,
    record::{self, Record, RecordedEvent},
    run_file,
    run_state::{RunProgress, RunState},
};
use crate::wire::error::{AppError, Result};
use models::{
    checkpoint::save::replace_file,
    random::stable_hash,
    tasks::{AnyPlan, AnyResolved},
    train::TrainEvent,
};

/// A run, by its folder.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Run {
    /// The folder's name: `2026-11-21-shakespeare-7f3a`.
    pub(crate) id: String,
    /// Where its plan, its events and its checkpoints lie.
    pub(crate) folder: PathBuf,
}

/// How long a lock is waited for.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Held while a process trains a run. The system lets go of it when the process ends, however it ends.
#[derive(Debug)]
pub(crate) struct RunLock(
    #[expect(dead_code, reason = "the lock is what holding the file is for")] File,
);

/// Makes the folder of a new run, named after the day, the run and a number that is new.
pub(crate) fn create(paths: &Paths, resolved: &AnyResolved) -> Result<Run> {
    let day = jiff::Zoned::now().strftime("%Y-%m-%d").to_string();
    let name = slug(&resolved.plan.run.name);
    fs::create_dir_all(&paths.runs).map_err(AppError::file("make the folder", &paths.runs))?;
    let mut seed = jiff::Timestamp::now().as_nanosecond() as u64 ^ u64::from(std::process::id());
    loop {
        seed = stable_hash(seed, name.as_bytes());
        let id = format!("{day}-{name}-{:04x}", seed & 0xffff);
        let folder = paths.runs.join(&id);
        match fs::create_dir(&folder) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => continue,
            made => made.map_err(AppError::file("make the run’s folder", &folder))?,
        }
        let run = Run { id, folder };
        replace_file(&run.plan_file(), run_file::write(resolved)?.as_bytes())?;
        // What was warned of before the run belongs to its story.
        let mut record = Record::open(&run.events_file())?;
        for message in resolved.warnings.clone() {
            record.append(TrainEvent::Warned { message })?;
        }
        return Ok(run);
    }
}

/// All runs, the newest last.
pub(crate) fn list(paths: &Paths) -> Vec<Run> {
    let entries = fs::read_dir(&paths.runs).into_iter().flatten().flatten();
    let mut runs: Vec<Run> = entries
        .map(|entry| Run {
            id: entry.file_name().to_string_lossy().into_owned(),
            folder: entry.path(),
        })
        .filter(|run| is_run(&run.folder))
        .collect();
    let made = |run: &Run| {
        fs::metadata(run.plan_file())
            .or_else(|_| fs::metadata(&run.folder))
            .and_then(|file| file.modified())
            .ok()
    };
    runs.sort_by_key(|run| (run.id.get(..10).map(str::to_owned), made(run)));
    runs
}

/// The run with exactly this id.
pub(crate) fn exact(paths: &Paths, id: &str) -> Result<Run> {
    let found = list(paths).into_iter().find(|run| run.id == id);
    found.ok_or_else(|| AppError::invalid(format!("there is no run `{id}`")))
}

/// Whether a folder holds a run, or what is left of one.
fn is_run(folder: &Path) -> bool {
    let parts = ["run.yaml", "events.jsonl", "checkpoints"];
    parts.iter().any(|part| folder.join(part).exists())
}

/// The run with this id, or the only one whose id contains these words, or the run in this folder.
pub(crate) fn find(paths: &Paths, name: &str) -> Result<Run> {
    let stored = find_stored(paths, name);
    let folder = Path::new(name);
    if stored.is_err() && is_run(folder) {
        let folder = std::path::absolute(folder).map_err(AppError::file("find the run", folder))?;
        return Ok(Run::at(folder));
    }
    stored
}

/// What a name means that something is to be opened by.
pub(crate) enum Named {
    /// The folder of a checkpoint, as it was named.
    Checkpoint(PathBuf),
    /// A run, one of whose checkpoints is still to be chosen.
    Run(Run),
}

/// What a name means: the folder of a checkpoint, which has a file called `file`, or a run. `holds` is what such a checkpoint is called
/// in errors, and `learned` what its run learned.
pub(crate) fn find_or_checkpoint(
    paths: &Paths,
    name: &str,
    file: &str,
    [holds, learned]: [&str; 2],
) -> Result<Named> {
    let path = Path::new(name);
    if path.join(file).is_file() {
        return Ok(Named::Checkpoint(path.to_owned()));
    }
    let run = find(paths, name).map_err(|error| match path.is_dir() {
        true => AppError::invalid(format!("the folder holds no {holds}: `{name}`")).with_hint(
            format!("name a run that learned {learned}, or the folder of one of its checkpoints"),
        ),
        false => error,
    })?;
    Ok(Named::Run(run))
}

/// The run with this id, or the only one whose id contains these words, among those that the app keeps.
pub(crate) fn find_stored(paths: &Paths, name: &str) -> Result<Run> {
    let runs = list(paths);
    if let Some(run) = runs.iter().find(|run| run.id == name) {
        return Ok(run.clone());
    }
    // A name is a part of the id in the form in which ids have it.
    let in_id = slug(name);
    let fits = |run: &&Run| {
        run.id.contains(name) || (name.contains(char::is_alphanumeric) && run.id.contains(&in_id))
    };
    let mut matching: Vec<&Run> = runs.iter().filter(fits).collect();
    match (matching.pop(), matching.len()) {
        (Some(run), 0) => Ok(run.clone()),
        (Some(last), _) => {
            matching.push(last);
            let ids: Vec<&str> = matching.iter().map(|run| run.id.as_str()).collect();
            Err(AppError::invalid(format!(
                "`{name}` fits {} runs: {}",
                ids.len(),
                ids.join(", ")
            ))
            .with_hint("name more of it"))
        }
        (None, _) => Err(AppError::invalid(format!("there is no run `{name}`"))
            .with_hint("`anneal runs` lists them")),
    }
}

impl Run {
    /// The run in a folder.
    pub(crate) fn at(folder: PathBuf) -> Self {
        let id = folder
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        Self { id, folder }
    }

    /// Where the plan lies, which says all that the run does.
    pub(crate) fn plan_file(&self) -> PathBuf {
        self.folder.join("run.yaml")
    }

    /// Where the events lie: what happened in the run, one JSON object a line.
    pub(crate) fn events_file(&self) -> PathBuf {
        self.folder.join("events.jsonl")
    }

    /// The files it learns from and starts from.
    pub(crate) fn sources_file(&self) -> PathBuf {
        self.folder.join("sources.json")
    }

    /// What its engines wrote beside the events.
    pub(crate) fn log_file(&self) -> PathBuf {
        self.folder.join("log.txt")
    }

    /// The folder of the checkpoints.
    pub(crate) fn checkpoints(&self) -> PathBuf {
        self.folder.join("checkpoints")
    }

    /// Reads what happened.
    pub(crate) fn events(&self) -> Result<Vec<RecordedEvent>> {
        record::read(&self.events_file())
    }

    /// Reads how far it is.
    pub(crate) fn state(&self) -> Result<RunState> {
        let mut progress = RunProgress::new(self);
        progress.catch_up_with_all()?;
        progress.state(self, false)
    }

    /// Takes the run for this process, so that no other trains or deletes it.
    pub(crate) fn lock(&self) -> Result<RunLock> {
        let path = self.folder.join("lock");
        let file = File::create(&path).map_err(AppError::file("lock the run", &path))?;
        // Whoever looks at the run holds the lock for a moment, and an engine whose app went away holds it until the run is
        // saved; so one refusal is not an answer yet.
        let started = Instant::now();
        while started.elapsed() < TIMEOUT {
            match file.try_lock() {
                Ok(()) => return Ok(RunLock(file)),
                Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(10)),
                Err(TryLockError::Error(error)) => {
                    return Err(AppError::file("lock the run", &path)(error));
                }
            }
        }
        Err(AppError::failed(format!(
            "`{}` is being trained by another process",
            self.id
        )))
    }

    /// Gives the run another name, keeping its day, its number and the conversations with it.
    pub(crate) fn rename(&self, paths: &Paths, name: &str) -> Result<Self> {
        // Windows renames no folder with an open file in it, so the lock only says that nobody trains the run.
        drop(self.lock()?);
        let day = self.id.get(..10).unwrap_or(&self.id);
        let number = self.id.rsplit('-').next().unwrap_or_default();
        let id = format!("{day}-{}-{number}", slug(name));
        let folder = paths.runs.join(&id);
        if folder.exists() {
            return Err(AppError::invalid(format!("there already is a run `{id}`")));
        }
        if let Some(damage) = self.known_plan()?.damage {
            return Err(AppError::failed(damage)
                .with_hint("continue the run first, which writes the file anew"));
        }
        let renamed = run_file::with_field(&self.plan_text()?, "name", name.into())?;
        fs::rename(&self.folder, &folder)
            .map_err(AppError::file("rename the run", &self.folder))?;
        let run = Self { id, folder };
        replace_file(&run.plan_file(), renamed.as_bytes())?;
        conversations::rename_run(&paths.conversations, &self.id, &run.id, name).map_err(
            |error| AppError {
                message: format!(
                    "the run is `{}` now, and a conversation still has its old name: {error}",
                    run.id
                ),
                ..error
            },
        )?;
        Ok(run)
    }

    /// Has the run end at a later step.
    pub(crate) fn extend(&self, steps: usize) -> Result<()> {
        let _lock = self.lock()?;
        let planned = self.plan()?.run.steps;
        if steps <= planned {
            return Err(AppError::invalid(format!(
                "`steps` is {steps}; the run already has {planned}"
            ))
            .with_field("steps"));
        }
        let mended = self.mend_plan()?;
        let longer = run_file::with_field(&self.plan_text()?, "steps", steps.into())?;
        replace_file(&self.plan_file(), longer.as_bytes())?;
        let message = format!("the run was made longer, from {planned} to {steps} steps");
        let mut record = Record::open(&self.events_file())?;
        for message in mended.into_iter().chain([message]) {
            record.append(TrainEvent::Warned { message })?;
        }
        Ok(())
    }

    /// Has so many devices train the run from now on.
    pub(crate) fn train_on(&self, devices: usize) -> Result<()> {
        let plan = self.plan()?;
        if plan.run.devices == devices {
            return Ok(());
        }
        let mut other = plan;
        other.run.share_among(devices).map_err(|rows| {
            AppError::invalid(format!(
                "{rows} rows in a step can’t be shared by {devices} devices"
            ))
            .with_hint("take a number that divides the rows")
            .with_field("devices")
        })?;
        let _lock = self.lock()?;
        let text = self.changed_plan(&other, "so many devices train it now")?;
        Ok(replace_file(&self.plan_file(), text.as_bytes())?)
    }

    /// The plan's file with another plan, and the reason beside each value that is new.
    pub(crate) fn changed_plan(&self, plan: &AnyPlan, why: &str) -> Result<String> {
        run_file::with_plan(&self.plan_text()?, plan, why)
    }

    /// Deletes the run with everything it learned.
    pub(crate) fn delete(&self) -> Result<()> {
        let _lock = self.lock()?;
        fs::remove_dir_all(&self.folder).map_err(AppError::file("delete the run", &self.folder))
    }

    /// Whether a process trains it.
    pub(crate) fn is_locked(&self) -> Result<bool> {
        let path = self.folder.join("lock");
        match File::open(&path) {
            Err(_) => Ok(false),
            Ok(file) => match file.try_lock_shared() {
                Ok(()) => Ok(false),
                Err(TryLockError::WouldBlock) => Ok(true),
                Err(TryLockError::Error(error)) => {
                    Err(AppError::file("look at the run’s lock", &path)(error))
                }
            },
        }
    }
}

/// A name that every file system takes: letters, digits and single dashes.
fn slug(name: &str) -> String {
    let name = name.split(|letter: char| !letter.is_alphanumeric());
    let slug: Vec<String> = name
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    let slug: String = slug.join("-").chars().take(40).collect();
    match slug.trim_end_matches('-') {
        "" => "run".to_owned(),
        slug => slug.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_becomes_part_of_a_folder() {
        for (name, expected) in [
            ("shakespeare", "shakespeare"),
            ("My first run!", "my-first-run"),
            ("../etc", "etc"),
            ("Grüße", "grüße"),
            ("//", "run"),
        ] {
            assert_eq!(slug(name), expected);
        }
    }
}
