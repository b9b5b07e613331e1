//! The files of one revision, into the cache that all programs of the Hub share.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use futures_util::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};

use super::{
    Hub,
    fetch::{Fetched, Place, RESERVE, Watch, fetch, no_room},
    http::Http,
    needed::RemoteFile,
    repository::Repository,
    splits::DEFAULT,
    wait,
};
use crate::{
    host::locked,
    store::hub_cache::{
        HubCache,
        names::{RepositoryId, RepositoryKind},
    },
    wire::error::{AppError, Code, Result},
};

/// Files of one download that are fetched at the same time.
const FILES_AT_ONCE: usize = 3;
/// What makes a folder a model. It gets its name last, so that half a model is none.
const LAST: &str = "config.json";

/// What is to be fetched: files of one commit. It is all that is needed to go on in another process.
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
}

/// How far a download is. Who fetches writes it, who watches reads it.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Of each file, how many bytes are here.
    done: Vec<Arc<AtomicU64>>,
    /// Set by who no longer wants it.
    pub(crate) stop: AtomicBool,
    /// Why it is being tried again, while it is.
    retrying: Mutex<Option<AppError>>,
}

/// How a download ended that did not fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Everything lies in this folder.
    Whole(PathBuf),
    /// It was stopped; what came is kept.
    Stopped,
}

/// How often a file is tried that gives nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// So many times in a row.
    Tries(usize),
    /// Until somebody stops it.
    #[cfg(feature = "gui")]
    Endless,
}

impl Wanted {
    /// The files of a repository by name; without names, those that are needed.
    pub(crate) fn of(repository: &Repository, names: &[String]) -> Result<Self> {
        let files: Vec<RemoteFile> = match names {
            [] => repository.needed().into_iter().cloned().collect(),
            names => names
                .iter()
                .map(|name| file_of(repository, name))
                .collect::<Result<_>>()?,
        };
        let part = (!names.is_empty()).then(|| names.join(", "));
        Self::files_of(repository, files, part)
    }

    /// A part of a data set. An empty name is any.
    pub(crate) fn split(repository: &Repository, config: &str, split: &str) -> Result<Self> {
        let mut files = repository.files_of_split(config, split)?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files.dedup();
        // The only configuration has no name worth saying.
        let config = if config == DEFAULT { "" } else { config };
        let words: Vec<&str> = [split, config]
            .into_iter()
            .filter(|it| !it.is_empty())
            .collect();
        Self::files_of(
            repository,
            files,
            (!words.is_empty()).then(|| words.join(" of ")),
        )
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
            let what = match repository.kind {
                RepositoryKind::Model => "neither a config nor weights as safetensors",
                RepositoryKind::Data => "no file that data is read from",
            };
            return Err(AppError::failed(format!("`{}` has {what}", repository.id))
                .with_hint("name the files that you want all the same"));
        }
        Ok(Self {
            kind: repository.kind,
            id: repository.id.clone(),
            revision: repository.revision.clone(),
            commit: repository.commit.clone(),
            part,
            files,
        })
    }

    /// Bytes of all its files.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// What of it is here already: whole files, and parts of files.
    pub(crate) fn bytes_here(&self, cache: &HubCache) -> u64 {
        let here = |file: &RemoteFile| self.file_here(cache, file);
        self.files.iter().map(here).sum()
    }

    /// The folder that it comes to lie in.
    pub(crate) fn folder(&self, cache: &HubCache) -> PathBuf {
        cache.snapshot(self.kind, &self.id, &self.commit)
    }

    fn file_here(&self, cache: &HubCache, file: &RemoteFile) -> u64 {
        match cache.has(self.kind, &self.id, &self.commit, &file.path) {
            true => file.bytes,
            false => cache
                .bytes_here(self.kind, &self.id, &file.digest)
                .min(file.bytes),
        }
    }
}

impl Progress {
    /// Nothing of it is fetched yet; what is here already counts.
    pub(crate) fn new(wanted: &Wanted, cache: &HubCache) -> Self {
        let here = |file: &RemoteFile| Arc::new(AtomicU64::new(wanted.file_here(cache, file)));
        Self {
            done: wanted.files.iter().map(here).collect(),
            ..Self::default()
        }
    }

    /// Of each file, how many bytes are here.
    #[cfg(feature = "gui")]
    pub(crate) fn of_files(&self) -> Vec<u64> {
        self.done
            .iter()
            .map(|done| done.load(Ordering::SeqCst))
            .collect()
    }

    /// How many bytes are here.
    pub(crate) fn bytes(&self) -> u64 {
        self.done
            .iter()
            .map(|done| done.load(Ordering::SeqCst))
            .sum()
    }

    /// Why it is being tried again, while it is.
    pub(crate) fn retrying(&self) -> Option<AppError> {
        locked(&self.retrying).clone()
    }
}

impl Hub {
    /// Fetches what is missing, names it, and returns when that is done or no longer wanted.
    pub(crate) fn download(
        &self,
        wanted: &Wanted,
        progress: &Arc<Progress>,
        patience: Patience,
    ) -> Result<Ended> {
        let (http, cache) = (self.clients()?.http, self.cache()?.clone());
        let missing = wanted.bytes().saturating_sub(wanted.bytes_here(&cache));
        let free = cache.free_bytes();
        if missing > 0 && free.is_some_and(|free| missing + RESERVE > free) {
            return Err(no_room(
                &format!("fetch `{}`", wanted.id),
                missing,
                free,
                cache.root(),
            ));
        }
        let (work, watched) = (wanted.clone(), progress.clone());
        let ended = wait(async move { fetch_all(&http, &cache, &work, &watched, patience).await })?;
        match self.noted(ended)? {
            Fetched::Stopped => Ok(Ended::Stopped),
            Fetched::Whole => {
                let cache = self.cache()?;
                cache.name_commit(wanted.kind, &wanted.id, &wanted.revision, &wanted.commit)?;
                Ok(Ended::Whole(wanted.folder(cache)))
            }
        }
    }
}

async fn fetch_all(
    http: &Http,
    cache: &HubCache,
    wanted: &Wanted,
    progress: &Progress,
    patience: Patience,
) -> Result<Fetched> {
    let place = Place {
        http,
        cache,
        kind: wanted.kind,
        id: &wanted.id,
        commit: &wanted.commit,
    };
    let again = |error: &AppError, failures: usize| {
        *locked(&progress.retrying) = Some(error.clone());
        match patience {
            Patience::Tries(most) => failures < most,
            #[cfg(feature = "gui")]
            Patience::Endless => true,
        }
    };
    let files = wanted.files.iter().zip(&progress.done);
    // What makes the folder a model comes last.
    let (last, first): (Vec<_>, Vec<_>) = files.partition(|(file, _)| file.path == LAST);
    for files in [first, last] {
        let mut fetched = Vec::new();
        for (file, done) in files {
            let watch = Watch {
                done,
                stop: &progress.stop,
                again: &again,
            };
            fetched.push(fetch_one(&place, file, watch, &progress.retrying));
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
    Ok(Fetched::Whole)
}

/// Fetches a file unless it is here, and gives it its name.
async fn fetch_one(
    place: &Place<'_>,
    file: &RemoteFile,
    watch: Watch<'_>,
    retrying: &Mutex<Option<AppError>>,
) -> Result<()> {
    if !place
        .cache
        .has(place.kind, place.id, place.commit, &file.path)
    {
        if fetch(place, file, &watch).await? == Fetched::Stopped {
            return Err(stopped());
        }
        *locked(retrying) = None;
        place
            .cache
            .link(place.kind, place.id, place.commit, &file.path, &file.digest)?;
    }
    watch.done.store(file.bytes, Ordering::SeqCst);
    Ok(())
}

/// Ends the files beside one that is no longer wanted. Nobody is shown it.
fn stopped() -> AppError {
    AppError::failed("the download was stopped")
}

fn file_of(repository: &Repository, name: &str) -> Result<RemoteFile> {
    let found = repository.files.iter().find(|file| file.path == name);
    found.cloned().ok_or_else(|| AppError {
        code: Code::InvalidRequest,
        ..AppError::failed(format!("`{}` has no file `{name}`", repository.id)).with_hint(format!(
            "`anneal hub show {}` lists its files",
            repository.id
        ))
    })
}
