//! The window's downloads: several at once, the rest queued; they can be paused and resumed, and survive a restart.
//!
//! Unfinished downloads are on disk. The next start shows them paused, since nothing is fetched that the user has not
//! asked for since then.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

use models::random::stable_hash;
use serde::{Deserialize, Serialize};

use super::{
    Hub,
    download::{Ended, Look, Progress, Wanted},
    fetch::Retries,
};
use crate::{
    lock::locked,
    store::{
        data_sets,
        hub_cache::names::{RepositoryId, RepositoryKind},
        paths::Paths,
        read_list, write_json,
    },
    wire::error::{AppError, Result},
};

/// How many are fetched at once.
const AT_ONCE: usize = 2;
/// How often, and how many times, the end of who writes a file is waited for.
const CANCEL_LOOK: Duration = Duration::from_millis(50);
const CANCEL_LOOKS: usize = 100;
/// How often the window is told how far they are.
const TELL: Duration = Duration::from_millis(250);

/// The downloads of an app.
pub(crate) struct Downloads {
    shared: Arc<Shared>,
}

struct Shared {
    hub: Arc<Hub>,
    paths: Paths,
    line: Mutex<Line>,
    changed: Condvar,
}

#[derive(Default)]
struct Line {
    entries: Vec<Entry>,
    /// Grows with everything but bytes.
    version: u64,
    closed: bool,
}

struct Entry {
    key: String,
    /// Shared with who looks: its list of files may be long, and is looked at four times a second.
    wanted: Arc<Wanted>,
    state: DownloadState,
    progress: Arc<Progress>,
    problem: Option<AppError>,
    path: Option<PathBuf>,
}

/// How far a download is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, specta::Type)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DownloadState {
    /// For others to be done.
    Waiting,
    Going,
    /// For the network to come back.
    Retrying,
    Paused,
    Failed,
    Done,
}

/// A download, as it is at one moment.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Download {
    /// Names it among the downloads.
    pub(crate) key: String,
    pub(crate) wanted: Arc<Wanted>,
    pub(crate) state: DownloadState,
    pub(crate) look: Look,
    /// Why it waits or failed.
    pub(crate) problem: Option<AppError>,
    /// Where it lies, once it is whole: the folder of a model, the first file of data.
    pub(crate) path: Option<PathBuf>,
}

/// What was last told to somebody who follows the downloads.
#[derive(Default)]
pub(crate) struct Told {
    version: u64,
    downloads: Vec<Download>,
}

impl Downloads {
    /// The downloads that were not done when the app last ended, paused.
    pub(crate) fn new(hub: Arc<Hub>, paths: Paths) -> Self {
        // A list that can't be read is no reason not to start: its files are in the cache, and are continued.
        let unfinished: Vec<Wanted> =
            read_list(&paths.downloads, "list of downloads").unwrap_or_default();
        let unfinished = unfinished.into_iter().filter(Wanted::is_sound);
        let entries = unfinished.filter_map(|wanted| {
            let progress = Arc::new(Progress::new(&wanted, hub.cache().ok()?));
            Some(Entry::new(wanted.into(), DownloadState::Paused, progress))
        });
        let line = Line {
            entries: entries.collect(),
            version: 1,
            closed: false,
        };
        Self {
            shared: Arc::new(Shared {
                hub,
                paths,
                line: Mutex::new(line),
                changed: Condvar::new(),
            }),
        }
    }

    /// Starts to fetch something, or has it wait. Returns its key. What was paused or failed continues.
    pub(crate) fn start(&self, wanted: Wanted) -> Result<String> {
        self.begin(wanted.into())
    }

    fn begin(&self, wanted: Arc<Wanted>) -> Result<String> {
        let progress = Arc::new(Progress::new(&wanted, self.shared.hub.cache()?));
        let entry = Entry::new(wanted, DownloadState::Waiting, progress);
        let key = entry.key.clone();
        let mut line = self.shared.line();
        match line.entries.iter_mut().find(|known| known.key == key) {
            Some(known) if known.is_open() => {}
            Some(known) => *known = entry,
            None => line.entries.push(entry),
        }
        self.shared.changed(&mut line);
        Ok(key)
    }

    /// Has a download wait until it is resumed. What was fetched of it is kept.
    pub(crate) fn pause(&self, key: &str) -> Result<()> {
        self.shared.change(key, |entry| {
            if entry.is_open() {
                entry.progress.stop.store(true, Ordering::SeqCst);
                entry.state = DownloadState::Paused;
            }
        })
    }

    /// Has a download resume from where it is.
    pub(crate) fn resume(&self, key: &str) -> Result<()> {
        let mut line = self.shared.line();
        let wanted = line.find(key)?.wanted.clone();
        drop(line);
        self.begin(wanted).map(|_| ())
    }

    /// Takes a download out of the list. Whole files stay; parts of files are deleted.
    pub(crate) fn cancel(&self, key: &str) -> Result<()> {
        let mut line = self.shared.line();
        let at = line.entries.iter().position(|entry| entry.key == key);
        let entry = line.entries.remove(at.ok_or_else(|| unknown(key))?);
        entry.progress.stop.store(true, Ordering::SeqCst);
        let others: HashSet<String> = line.entries.iter().flat_map(Entry::digests).collect();
        self.shared.changed(&mut line);
        drop(line);
        let hub = self.shared.hub.clone();
        thread::spawn(move || {
            let Ok(cache) = hub.cache() else { return };
            let folder = cache.repository(entry.wanted.kind, &entry.wanted.id);
            let digests = entry.wanted.files.iter().map(|file| &file.digest);
            for digest in digests.filter(|digest| !others.contains(digest.hex())) {
                // Who is just writing it first ends. Another process that writes it keeps it.
                for _ in 0..CANCEL_LOOKS {
                    if folder.delete_incomplete(digest).unwrap_or(true) {
                        break;
                    }
                    thread::sleep(CANCEL_LOOK);
                }
            }
        });
        Ok(())
    }

    /// Whether anything of a repository is being fetched.
    pub(crate) fn fetches(&self, kind: RepositoryKind, id: &RepositoryId) -> bool {
        let line = self.shared.line();
        let is_it = |entry: &&Entry| entry.wanted.kind == kind && entry.wanted.id == *id;
        line.entries.iter().filter(is_it).any(Entry::is_open)
    }

    /// Whether anything is being fetched.
    pub(crate) fn is_moving(&self) -> bool {
        self.shared.line().is_moving()
    }

    /// All of them, in order.
    pub(crate) fn list(&self) -> Vec<Download> {
        self.shared.line().look()
    }

    /// Waits until something is new, and returns all of them; none when the app ends.
    pub(crate) fn next(&self, told: &mut Told) -> Option<Vec<Download>> {
        let mut line = self.shared.line();
        loop {
            let before = Instant::now();
            while line.version == told.version && !line.closed && before.elapsed() < TELL {
                let time = if line.is_moving() {
                    TELL
                } else {
                    Duration::MAX
                };
                let waited = self.shared.changed.wait_timeout(line, time);
                line = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            if line.closed {
                return None;
            }
            let downloads = line.look();
            if line.version != told.version || downloads != told.downloads {
                *told = Told {
                    version: line.version,
                    downloads: downloads.clone(),
                };
                return Some(downloads);
            }
        }
    }

    /// Ends all of them. What was fetched is kept.
    pub(crate) fn close(&self) {
        let mut line = self.shared.line();
        line.closed = true;
        for entry in &line.entries {
            entry.progress.stop.store(true, Ordering::SeqCst);
        }
        self.shared.changed.notify_all();
    }
}

impl Drop for Downloads {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn line(&self) -> MutexGuard<'_, Line> {
        locked(&self.line)
    }

    fn change(self: &Arc<Self>, key: &str, change: impl FnOnce(&mut Entry)) -> Result<()> {
        let mut line = self.line();
        change(line.find(key)?);
        self.changed(&mut line);
        Ok(())
    }

    /// Begins what can begin now, writes down what is not done, and wakes who follows.
    fn changed(self: &Arc<Self>, line: &mut Line) {
        line.version += 1;
        while let Some(entry) = line.begin() {
            entry.state = DownloadState::Going;
            let (shared, progress) = (self.clone(), entry.progress.clone());
            let (key, wanted) = (entry.key.clone(), entry.wanted.clone());
            thread::spawn(move || {
                let ended = shared.hub.download(&wanted, &progress, Retries::Endless);
                shared.ended(&key, &wanted, &progress, ended);
            });
        }
        let open = line
            .entries
            .iter()
            .filter(|entry| entry.state != DownloadState::Done);
        let open: Vec<&Wanted> = open.map(|entry| &*entry.wanted).collect();
        // Without the list, the next start shows no download; their files are in the cache all the same.
        let _ = write_json(&self.paths.downloads, &open);
        self.changed.notify_all();
    }

    fn ended(
        self: &Arc<Self>,
        key: &str,
        wanted: &Wanted,
        progress: &Arc<Progress>,
        ended: Result<Ended>,
    ) {
        let ended = match ended {
            Ok(Ended::Whole(folder)) => self
                .add_data(wanted, &folder)
                .map(|data| Ended::Whole(data.unwrap_or(folder))),
            ended => ended,
        };
        let mut line = self.line();
        // It may have been taken out, or continued by another thread.
        let Ok(entry) = line.find(key) else { return };
        if !Arc::ptr_eq(&entry.progress, progress) {
            return;
        }
        match ended {
            Ok(Ended::Whole(path)) => {
                entry.state = DownloadState::Done;
                entry.path = Some(path);
            }
            // Who stopped it said what it is now.
            Ok(Ended::Stopped) => {}
            Err(error) => {
                entry.state = DownloadState::Failed;
                entry.problem = Some(error);
            }
        }
        if !line.closed {
            self.changed(&mut line);
        }
    }

    /// Puts data that was fetched into the list of data, each part by itself. Returns the path of the first.
    fn add_data(&self, wanted: &Wanted, folder: &Path) -> Result<Option<PathBuf>> {
        let mut first = None;
        for (name, files) in wanted.data.iter().rev() {
            let files: Vec<PathBuf> = files.iter().map(|file| folder.join(file)).collect();
            first = files.first().cloned();
            data_sets::add_files(&self.paths, name.clone(), files)?;
        }
        Ok(first)
    }
}

impl Line {
    fn find(&mut self, key: &str) -> Result<&mut Entry> {
        let entry = self.entries.iter_mut().find(|entry| entry.key == key);
        entry.ok_or_else(|| unknown(key))
    }

    /// The next one to be fetched, if there is room.
    fn begin(&mut self) -> Option<&mut Entry> {
        let is_going = |entry: &&Entry| entry.state == DownloadState::Going;
        if self.closed || self.entries.iter().filter(is_going).count() >= AT_ONCE {
            return None;
        }
        self.entries
            .iter_mut()
            .find(|entry| entry.state == DownloadState::Waiting)
    }

    fn is_moving(&self) -> bool {
        self.entries
            .iter()
            .any(|entry| entry.state == DownloadState::Going)
    }

    fn look(&self) -> Vec<Download> {
        self.entries.iter().map(Entry::look).collect()
    }
}

impl Entry {
    fn new(wanted: Arc<Wanted>, state: DownloadState, progress: Arc<Progress>) -> Self {
        let files: Vec<&str> = wanted.files.iter().map(|file| file.path.as_str()).collect();
        let what = format!(
            "{} {} {} {}",
            wanted.kind,
            wanted.id,
            wanted.commit,
            files.join("/")
        );
        Self {
            key: format!("{:016x}", stable_hash(0, what.as_bytes())),
            wanted,
            state,
            progress,
            problem: None,
            path: None,
        }
    }

    /// Whether it is running, or will be.
    fn is_open(&self) -> bool {
        matches!(self.state, DownloadState::Waiting | DownloadState::Going)
    }

    fn digests(&self) -> Vec<String> {
        let files = self.wanted.files.iter();
        files.map(|file| file.digest.hex().to_owned()).collect()
    }

    fn look(&self) -> Download {
        let look = self.progress.look(self.state == DownloadState::Going);
        Download {
            key: self.key.clone(),
            wanted: self.wanted.clone(),
            state: match look.retrying {
                Some(_) => DownloadState::Retrying,
                None => self.state,
            },
            problem: self.problem.clone().or_else(|| look.retrying.clone()),
            look,
            path: self.path.clone(),
        }
    }
}

fn unknown(key: &str) -> AppError {
    AppError::invalid(format!("there is no download `{key}`"))
}
