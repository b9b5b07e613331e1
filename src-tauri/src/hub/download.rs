//! The files of one revision, into the cache that all programs of the Hub share.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use futures_util::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};

use super::{
    Hub,
    fetch::{Fetched, FileProgress, RESERVE, Retries, Transfer, Watch, fetch, no_room},
    http::Http,
    needed::RemoteFile,
    pace::Pace,
    repository::{Repository, part_of},
    splits::{DEFAULT, Split},
    wait,
};
use crate::{
    lock::locked,
    store::hub_cache::{
        HubCache, RepositoryFolder,
        names::{RepositoryId, RepositoryKind},
    },
    wire::error::{AppError, Result},
};

/// Files of one download that are fetched at the same time.
const FILES_AT_ONCE: usize = 3;
/// What makes a folder a model. It gets its name last, so that half a model is none.
const LAST: &str = "config.json";

/// What is to be fetched: files of one commit. It is all that is needed to continue in another process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Wanted {
    pub(crate) kind: RepositoryKind,
    pub(crate) id: RepositoryId,
    /// The branch or tag that was asked for, to be remembered for other programs.
    pub(crate) revision: String,
    pub(crate) commit: String,
    /// What of it, in words: `train of main`. None for what is needed.
    pub(crate) part: Option<String>,
    pub(crate) files: Vec<RemoteFile>,
    /// Whether a model can be used for chat and trained here.
    #[serde(default)]
    pub(crate) usable: bool,
    /// What becomes data to learn from: the name of each part, and its files.
    #[serde(default)]
    pub(crate) data: Vec<(String, Vec<String>)>,
}

/// How far a download is. Who fetches writes it, who watches reads it.
#[derive(Debug)]
pub(crate) struct Progress {
    files: Vec<Arc<FileProgress>>,
    total_bytes: u64,
    pace: Mutex<Pace>,
    /// Set by who no longer wants it.
    pub(crate) stop: Arc<AtomicBool>,
}

/// How far a download is at one moment.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Look {
    /// Of each file, how many bytes are here.
    pub(crate) done: Vec<u64>,
    pub(crate) bytes_per_second: Option<f64>,
    pub(crate) seconds_left: Option<f64>,
    /// Why a file is tried again, while one is.
    pub(crate) retrying: Option<AppError>,
}

/// How a download ended that did not fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Everything lies in this folder.
    Whole(PathBuf),
    /// It was stopped; what came is kept.
    Stopped,
}

impl Wanted {
    /// The files of a repository by name; without names, those that are needed.
    pub(crate) fn of(repository: &Repository, names: &[String]) -> Result<Self> {
        if names.is_empty() && repository.kind == RepositoryKind::Data {
            return Self::splits(
                repository,
                &repository.splits.iter().collect::<Vec<_>>(),
                None,
            );
        }
        let files: Vec<RemoteFile> = match names {
            [] => repository.needed().into_iter().cloned().collect(),
            names => names
                .iter()
                .map(|name| file_of(repository, name))
                .collect::<Result<_>>()?,
        };
        let has_weights = files.iter().any(|file| file.path.ends_with(".safetensors"));
        if names.is_empty() && !has_weights && repository.gate.is_none() {
            let error = format!("`{}` has no weights as safetensors", repository.id);
            return Err(AppError::failed(error).with_hint("name the files that you want anyway"));
        }
        let part = (!names.is_empty()).then(|| names.join(", "));
        let mut wanted = Self::files_of(repository, files, part)?;
        let is_text = |name: &&String| super::splits::is_text(name);
        let data: Vec<String> = names.iter().filter(is_text).cloned().collect();
        if repository.kind == RepositoryKind::Data && !data.is_empty() {
            wanted.data.push((wanted.name(), data));
        }
        Ok(wanted)
    }

    /// A part of a data set. An empty split is any, and so is an empty configuration, unless several have that split.
    pub(crate) fn split(repository: &Repository, config: &str, split: &str) -> Result<Self> {
        let found = repository.split(config, split)?;
        let mut configs: Vec<&str> = found.iter().map(|split| split.config.as_str()).collect();
        configs.dedup();
        if config.is_empty() && configs.len() > 1 {
            let error = format!(
                "`{}` has `{split}` in several configurations",
                repository.id
            );
            return Err(AppError::invalid(error).with_hint(format!(
                "name one of them with --config: {}",
                configs.join(", ")
            )));
        }
        // The only configuration has no name worth saying.
        let config = if config == DEFAULT { "" } else { config };
        let part = Some(part_of(split, config)).filter(|part| !part.is_empty());
        Self::splits(repository, &found, part)
    }

    fn splits(repository: &Repository, splits: &[&Split], part: Option<String>) -> Result<Self> {
        let mut files: Vec<RemoteFile> = splits.iter().flat_map(|it| it.files.clone()).collect();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files.dedup();
        let mut wanted = Self::files_of(repository, files, part)?;
        for split in splits.iter().filter(|split| split.problem().is_none()) {
            let config = match split.config.as_str() {
                DEFAULT => String::new(),
                config => format!(" of {config}"),
            };
            let name = format!("{}, {}{config}", repository.id, split.name);
            let files = split.files.iter().map(|file| file.path.clone());
            wanted.data.push((name, files.collect()));
        }
        Ok(wanted)
    }

    fn files_of(
        repository: &Repository,
        files: Vec<RemoteFile>,
        part: Option<String>,
    ) -> Result<Self> {
        if let Some(gate) = &repository.gate {
            return Err(gate.clone());
        }
        if files.is_empty() {
            let error = format!("`{}` has no file that data is read from", repository.id);
            return Err(AppError::failed(error).with_hint("name the files that you want anyway"));
        }
        Ok(Self {
            kind: repository.kind,
            id: repository.id.clone(),
            revision: repository.revision.clone(),
            commit: repository.commit.clone(),
            part,
            files,
            usable: false,
            data: Vec::new(),
        })
    }

    /// Whether it can be continued: it may have been read from a file that somebody changed.
    #[cfg(feature = "gui")]
    pub(crate) fn is_sound(&self) -> bool {
        use crate::store::hub_cache::names::{is_commit, relative_path};

        let is_sound =
            |file: &RemoteFile| relative_path(&file.path).is_some() && file.digest.is_sound();
        is_commit(&self.commit) && self.files.iter().all(is_sound)
    }

    /// What it is called: the repository, and what of it.
    fn name(&self) -> String {
        match &self.part {
            Some(part) => format!("{}, {part}", self.id),
            None => self.id.to_string(),
        }
    }

    /// Bytes of all its files.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// What of it is not here yet.
    pub(crate) fn missing_bytes(&self, cache: &HubCache) -> u64 {
        let here: u64 = self.here(cache).sum();
        self.bytes().saturating_sub(here)
    }

    /// Of each file, how many bytes are here.
    fn here(&self, cache: &HubCache) -> impl Iterator<Item = u64> {
        let folder = cache.repository(self.kind, &self.id);
        let files = self.files.iter();
        files.map(move |file| file.bytes_here(&folder, &self.commit))
    }
}

impl Progress {
    /// Nothing of it is fetched yet; what is here already counts.
    pub(crate) fn new(wanted: &Wanted, cache: &HubCache) -> Self {
        let file = |bytes: u64| FileProgress {
            bytes: bytes.into(),
            ..FileProgress::default()
        };
        Self {
            files: wanted.here(cache).map(file).map(Arc::new).collect(),
            total_bytes: wanted.bytes(),
            pace: Mutex::default(),
            stop: Arc::default(),
        }
    }

    /// Looks at it. It has a pace while it is running and nothing is in its way.
    pub(crate) fn look(&self, is_going: bool) -> Look {
        let why = |file: &Arc<FileProgress>| locked(&file.retrying).clone();
        let retrying = self.files.iter().find_map(why).filter(|_| is_going);
        let bytes = |file: &Arc<FileProgress>| file.bytes.load(Ordering::SeqCst);
        let done: Vec<u64> = self.files.iter().map(bytes).collect();
        let here = done.iter().sum();
        let mut pace = locked(&self.pace);
        match is_going && retrying.is_none() {
            true => pace.note(Instant::now(), here),
            false => *pace = Pace::default(),
        }
        Look {
            bytes_per_second: pace.bytes_per_second(),
            seconds_left: pace.seconds_for(self.total_bytes.saturating_sub(here)),
            done,
            retrying,
        }
    }
}

impl Look {
    /// How many bytes are here.
    pub(crate) fn bytes(&self) -> u64 {
        self.done.iter().sum()
    }
}

impl Hub {
    /// Fetches what is missing, names it, and returns when that is done or no longer wanted.
    pub(crate) fn download(
        &self,
        wanted: &Wanted,
        progress: &Arc<Progress>,
        retries: Retries,
    ) -> Result<Ended> {
        let (http, cache) = (self.http()?, self.cache()?.clone());
        let missing = wanted.missing_bytes(&cache);
        let free = cache.free_bytes();
        if missing > 0 && free.is_some_and(|free| missing + RESERVE > free) {
            return Err(no_room(
                &format!("fetch `{}`", wanted.id),
                missing,
                free,
                cache.root(),
            ));
        }
        let folder = cache.repository(wanted.kind, &wanted.id);
        let (work, into, watched) = (wanted.clone(), folder.clone(), progress.clone());
        let ended = wait(async move { fetch_all(&http, &into, &work, &watched, retries).await })?;
        match self.noted(ended)? {
            Fetched::Stopped => Ok(Ended::Stopped),
            Fetched::Whole => {
                folder.name_commit(&wanted.revision, &wanted.commit)?;
                Ok(Ended::Whole(folder.snapshot(&wanted.commit)))
            }
        }
    }
}

async fn fetch_all(
    http: &Http,
    folder: &RepositoryFolder,
    wanted: &Wanted,
    progress: &Progress,
    retries: Retries,
) -> Result<Fetched> {
    let place = Transfer {
        http,
        wanted,
        folder,
    };
    let files = wanted.files.iter().zip(&progress.files);
    // What makes the folder a model comes last.
    let (last, first): (Vec<_>, Vec<_>) = files.partition(|(file, _)| file.path == LAST);
    for files in [first, last] {
        let mut fetched = Vec::new();
        for (file, file_progress) in files {
            let watch = Watch {
                progress: file_progress,
                stop: &progress.stop,
                retries,
            };
            fetched.push(fetch_one(&place, file, watch));
        }
        let fetched: Result<()> = stream::iter(fetched)
            .buffer_unordered(FILES_AT_ONCE)
            .try_collect()
            .await;
        if progress.stop.load(Ordering::SeqCst) {
            return Ok(Fetched::Stopped);
        }
        fetched?;
    }
    let is_here = |file: &RemoteFile| file.is_here(folder, &wanted.commit);
    match wanted.files.iter().find(|file| !is_here(file)) {
        None => Ok(Fetched::Whole),
        Some(file) => Err(AppError::failed(format!(
            "`{}` of `{}` was deleted while the rest was fetched",
            file.path, wanted.id
        ))),
    }
}

/// Fetches a file unless it is here, and gives it its name.
async fn fetch_one(place: &Transfer<'_>, file: &RemoteFile, watch: Watch<'_>) -> Result<()> {
    let (folder, commit) = (place.folder, &place.wanted.commit);
    if !file.is_here(folder, commit) {
        if fetch(place, file, &watch).await? == Fetched::Stopped {
            // Ends the files beside it. Nobody is shown this.
            return Err(AppError::failed("the download was stopped"));
        }
        folder.link(commit, &file.path, &file.digest)?;
    }
    *locked(&watch.progress.retrying) = None;
    watch.progress.bytes.store(file.bytes, Ordering::SeqCst);
    Ok(())
}

fn file_of(repository: &Repository, name: &str) -> Result<RemoteFile> {
    let found = repository.files.iter().find(|file| file.path == name);
    found.cloned().ok_or_else(|| {
        AppError::invalid(format!("`{}` has no file `{name}`", repository.id)).with_hint(format!(
            "`anneal hub show {}` lists its files",
            repository.id
        ))
    })
}
