//! The Hub as the window shows it: what was found there, one repository, what is being fetched, and what was.

use std::{collections::HashSet, path::Path};

use serde::{Deserialize, Serialize};
use specta::Type;

use super::{Fit, Uses};
use crate::{
    hub::{
        Hub, User,
        downloads::{Download, DownloadState},
        needed::{RemoteFile, warning},
        preview::FirstRows,
        repository::Repository,
        search::{Found, MAX_FOUND, Search, SortBy},
        splits::Split,
    },
    store::hub_cache::{CachedRepository, CachedRevision, HubCache, names::RepositoryKind},
    wire::error::AppError,
};

/// What is looked for. An empty text is not looked at.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SearchView {
    pub(crate) kind: RepositoryKind,
    /// Words in the name.
    pub(crate) words: String,
    /// Who made it: `HuggingFaceTB`.
    pub(crate) author: String,
    /// What it is for, as the Hub calls it: `text-generation`.
    pub(crate) task: String,
    pub(crate) sort: SortBy,
    /// How many are wanted. More of the same search is asked for with a larger number.
    pub(crate) limit: u32,
}

/// The Hub itself: whether it can be asked, and where its files are kept.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HubView {
    /// `https://huggingface.co`.
    pub(crate) endpoint: String,
    /// Why it is not asked: a sentence. Everything on this machine works all the same.
    pub(crate) offline: Option<String>,
    /// Where the token is kept, or comes from: `the keychain of the system`. None without a token.
    pub(crate) token_place: Option<String>,
    /// The folder that all programs of the Hub share.
    pub(crate) cache: String,
    /// What is free where that folder lies.
    pub(crate) free_bytes: Option<u64>,
}

/// What a search found.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FoundListView {
    pub(crate) found: Vec<FoundView>,
    /// Whether there is more of it.
    pub(crate) more: bool,
}

/// A repository in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FoundView {
    /// `HuggingFaceTB/SmolLM2-135M`.
    pub(crate) id: String,
    pub(crate) task: Option<String>,
    /// `apache-2.0`.
    pub(crate) license: Option<String>,
    /// In the last thirty days.
    pub(crate) downloads: Option<u64>,
    pub(crate) likes: Option<u64>,
    /// When it last changed, in UTC.
    pub(crate) changed: Option<String>,
    /// Whether its makers ask for something before they let one have it.
    pub(crate) gated: bool,
    /// Whether some of it is on this machine.
    pub(crate) here: bool,
}

/// A repository: a model or a data set.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RepositoryView {
    pub(crate) kind: RepositoryKind,
    pub(crate) id: String,
    /// Its page for a browser.
    pub(crate) url: String,
    /// The commit that everything below is about.
    pub(crate) commit: String,
    pub(crate) task: Option<String>,
    pub(crate) license: Option<String>,
    /// What has to be done before it can be had, in a sentence; `url` is where.
    pub(crate) gate: Option<String>,
    pub(crate) downloads: Option<u64>,
    pub(crate) likes: Option<u64>,
    pub(crate) changed: Option<String>,
    /// Of a model: `llama`.
    pub(crate) architecture: Option<String>,
    pub(crate) parameters: Option<u64>,
    /// The longest text it reads, in tokens.
    pub(crate) context: Option<u32>,
    /// Of a model: what Anneal can do with it.
    pub(crate) can_train: bool,
    pub(crate) can_chat: bool,
    /// Why it can't, or what is odd about it: whole sentences.
    pub(crate) notes: Vec<String>,
    /// Of a model: what using it takes of this machine's memory.
    pub(crate) fits: Vec<FitView>,
    /// What a download without further wishes fetches.
    pub(crate) needed_bytes: u64,
    /// What of that is here already, whole files and parts of files.
    pub(crate) here_bytes: u64,
    /// The folder it lies in, once all that is needed is here.
    pub(crate) path: Option<String>,
    /// Every file, by name.
    pub(crate) files: Vec<HubFileView>,
    /// Of data: its parts.
    pub(crate) splits: Vec<SplitView>,
    /// Its description, in Markdown.
    pub(crate) card: String,
}

/// What some use of a model takes of this machine's memory.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FitView {
    /// `Chat`, `Train an adapter`, `Train all weights`.
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) free_bytes: Option<u64>,
    /// Whether it fits, where that is known.
    pub(crate) fits: Option<bool>,
}

/// A file of a repository.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HubFileView {
    pub(crate) path: String,
    pub(crate) bytes: u64,
    /// Whether a download without further wishes fetches it.
    pub(crate) needed: bool,
    /// Whether it is here.
    pub(crate) here: bool,
    /// Why it is fetched only when it is asked for by name.
    pub(crate) warning: Option<String>,
}

/// A part of data: `train` of the configuration `main`.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SplitView {
    /// `main`; `default` where there is only one.
    pub(crate) config: String,
    pub(crate) name: String,
    /// What kind of files: `Parquet`.
    pub(crate) format: String,
    pub(crate) files: u32,
    pub(crate) bytes: u64,
    /// Whether all its files are here.
    pub(crate) here: bool,
    /// Where its first file lies, or would: data that was added has the same path.
    pub(crate) path: String,
    /// Why it can't be learned from.
    pub(crate) problem: Option<String>,
}

/// The first rows of data that is not here.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FirstRowsView {
    pub(crate) columns: Vec<String>,
    /// Values by row and column, as text.
    pub(crate) rows: Vec<Vec<String>>,
    /// How many rows the first file has, where it says.
    pub(crate) total: Option<u64>,
    /// How much was fetched to know that.
    pub(crate) fetched_bytes: u64,
}

/// What is to be fetched.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WantedView {
    pub(crate) kind: RepositoryKind,
    pub(crate) id: String,
    /// A commit, branch or tag. Empty means `main`.
    pub(crate) revision: String,
    /// Files by name. Empty means those that are needed.
    pub(crate) files: Vec<String>,
    /// Of data: its part. Empty means all.
    pub(crate) config: String,
    pub(crate) split: String,
}

/// Something that is being fetched, or was.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DownloadView {
    /// Names it among the downloads.
    pub(crate) key: String,
    pub(crate) kind: RepositoryKind,
    /// `HuggingFaceTB/SmolLM2-135M`.
    pub(crate) id: String,
    /// What of it: `train of main`, `model-q4.gguf`. None for what is needed.
    pub(crate) part: Option<String>,
    pub(crate) state: DownloadState,
    pub(crate) done_bytes: u64,
    pub(crate) total_bytes: u64,
    pub(crate) bytes_per_second: Option<f64>,
    pub(crate) seconds_left: Option<f64>,
    pub(crate) files: Vec<DownloadFileView>,
    /// Why it waits or failed.
    pub(crate) problem: Option<AppError>,
    /// Whether a model can be used for chat and trained here.
    pub(crate) usable: bool,
    /// Where it lies, once it is whole: the folder of a model, the first file of data.
    pub(crate) path: Option<String>,
}

/// A file that is being fetched.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DownloadFileView {
    pub(crate) path: String,
    pub(crate) done_bytes: u64,
    pub(crate) total_bytes: u64,
}

/// A repository in the shared cache.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CachedView {
    pub(crate) kind: RepositoryKind,
    pub(crate) id: String,
    /// What it takes on disk; files that revisions share count once.
    pub(crate) bytes: u64,
    /// The newest first.
    pub(crate) revisions: Vec<CachedRevisionView>,
}

/// A revision in the shared cache.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CachedRevisionView {
    pub(crate) commit: String,
    /// Branches and tags that mean it: `main`.
    pub(crate) names: Vec<String>,
    pub(crate) path: String,
    pub(crate) files: u32,
    pub(crate) bytes: u64,
    /// What deleting it frees: files that nobody else uses.
    pub(crate) freed_bytes: u64,
    /// When it was fetched, in UTC.
    pub(crate) fetched: Option<String>,
}

/// Who the token belongs to.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UserView {
    pub(crate) name: String,
    pub(crate) full_name: Option<String>,
    /// Where the token is kept.
    pub(crate) token_place: String,
}

impl SearchView {
    /// What is looked for. An empty text is not looked at.
    pub(crate) fn search(self) -> Search {
        let filled = |text: String| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        Search {
            kind: self.kind,
            words: filled(self.words),
            author: filled(self.author),
            task: filled(self.task),
            sort: self.sort,
            limit: (self.limit as usize).min(MAX_FOUND),
        }
    }
}

impl From<&Hub> for HubView {
    fn from(hub: &Hub) -> Self {
        let cache = hub.cache().ok();
        Self {
            endpoint: hub.endpoint().to_owned(),
            offline: hub.offline(),
            token_place: hub.token_place().map(|place| place.to_string()),
            cache: cache
                .map(|cache| cache.root().display().to_string())
                .unwrap_or_default(),
            free_bytes: cache.and_then(HubCache::free_bytes),
        }
    }
}

impl FoundListView {
    /// What was found, and what of it is in a cache.
    pub(crate) fn new(
        (found, more): (Vec<Found>, bool),
        kind: RepositoryKind,
        cache: Option<&HubCache>,
    ) -> Self {
        let view = |found: Found| FoundView {
            here: cache.is_some_and(|cache| cache.repository(kind, &found.id).is_here()),
            id: found.id.to_string(),
            task: found.task,
            license: found.license,
            downloads: found.downloads,
            likes: found.likes,
            changed: found.changed,
            gated: found.gated,
        };
        Self {
            found: found.into_iter().map(view).collect(),
            more,
        }
    }
}

impl RepositoryView {
    /// A repository, what can be done with it here, and what of it is in a cache.
    pub(crate) fn new(repository: Repository, uses: Uses, cache: &HubCache) -> Self {
        let folder = cache.repository(repository.kind, &repository.id);
        let is_here = |file: &RemoteFile| file.is_here(&folder, &repository.commit);
        let bytes_here = |file: &RemoteFile| file.bytes_here(&folder, &repository.commit);
        let needed = repository.needed();
        let needed_paths: HashSet<&str> = needed.iter().map(|file| file.path.as_str()).collect();
        let path = folder.snapshot(&repository.commit);
        let is_whole = !needed.is_empty() && needed.iter().all(|file| is_here(file));
        let files = repository.files.iter().map(|file| HubFileView {
            path: file.path.clone(),
            bytes: file.bytes,
            needed: needed_paths.contains(file.path.as_str()),
            here: is_here(file),
            warning: warning(&file.path).map(str::to_owned),
        });
        let splits = repository
            .splits
            .iter()
            .map(|split| SplitView::new(split, split.files.iter().all(is_here), &path));
        Self {
            needed_bytes: needed.iter().map(|file| file.bytes).sum(),
            here_bytes: needed.iter().map(|file| bytes_here(file)).sum(),
            path: is_whole.then(|| path.display().to_string()),
            files: files.collect(),
            splits: splits.collect(),
            kind: repository.kind,
            id: repository.id.to_string(),
            gate: repository.gate.as_ref().map(AppError::sentence),
            url: repository.url,
            commit: repository.commit,
            task: repository.task,
            license: repository.license,
            downloads: repository.downloads,
            likes: repository.likes,
            changed: repository.changed,
            parameters: repository.parameters,
            card: repository.card,
            architecture: uses.architecture,
            context: uses.context.map(|tokens| tokens as u32),
            can_train: uses.can_train,
            can_chat: uses.can_chat,
            notes: uses.notes,
            fits: uses.fits.into_iter().map(FitView::from).collect(),
        }
    }
}

impl From<Fit> for FitView {
    fn from(fit: Fit) -> Self {
        Self {
            name: fit.name.to_owned(),
            bytes: fit.bytes,
            free_bytes: fit.free_bytes,
            fits: fit.free_bytes.map(|free| fit.bytes <= free),
        }
    }
}

impl SplitView {
    fn new(split: &Split, here: bool, folder: &Path) -> Self {
        let first = split.files.first().map(|file| folder.join(&file.path));
        Self {
            config: split.config.clone(),
            name: split.name.clone(),
            format: split.format.to_owned(),
            files: split.files.len() as u32,
            bytes: split.bytes(),
            here,
            path: first.unwrap_or_default().display().to_string(),
            problem: split.problem(),
        }
    }
}

impl From<FirstRows> for FirstRowsView {
    fn from(first: FirstRows) -> Self {
        Self {
            columns: first.rows.columns,
            rows: first.rows.rows,
            total: first.rows.total,
            fetched_bytes: first.fetched_bytes,
        }
    }
}

impl From<Download> for DownloadView {
    fn from(download: Download) -> Self {
        let wanted = download.wanted;
        let files = wanted
            .files
            .iter()
            .zip(&download.look.done)
            .map(|(file, done)| DownloadFileView {
                path: file.path.clone(),
                done_bytes: *done,
                total_bytes: file.bytes,
            });
        Self {
            key: download.key,
            kind: wanted.kind,
            id: wanted.id.to_string(),
            state: download.state,
            done_bytes: download.look.bytes(),
            total_bytes: wanted.bytes(),
            bytes_per_second: download.look.bytes_per_second,
            seconds_left: download.look.seconds_left,
            files: files.collect(),
            problem: download.problem,
            path: download.path.map(|path| path.display().to_string()),
            usable: wanted.usable,
            part: wanted.part.clone(),
        }
    }
}

impl From<CachedRepository> for CachedView {
    /// What is only begun is a revision without a commit, so that it can be seen and deleted.
    fn from(cached: CachedRepository) -> Self {
        let begun = CachedRevision {
            commit: String::new(),
            names: vec!["begun".to_owned()],
            path: cached.path,
            files: 0,
            bytes: cached.bytes,
            freed_bytes: cached.bytes,
            fetched: None,
        };
        let mut revisions = cached.revisions;
        if revisions.is_empty() {
            revisions.push(begun);
        }
        Self {
            kind: cached.kind,
            id: cached.id.to_string(),
            bytes: cached.bytes,
            revisions: revisions
                .into_iter()
                .map(CachedRevisionView::from)
                .collect(),
        }
    }
}

impl From<CachedRevision> for CachedRevisionView {
    fn from(revision: CachedRevision) -> Self {
        let fetched = revision
            .fetched
            .and_then(|time| jiff::Timestamp::try_from(time).ok());
        Self {
            commit: revision.commit,
            names: revision.names,
            path: revision.path.display().to_string(),
            files: revision.files as u32,
            bytes: revision.bytes,
            freed_bytes: revision.freed_bytes,
            fetched: fetched.map(|time| time.to_string()),
        }
    }
}

impl From<User> for UserView {
    fn from(user: User) -> Self {
        Self {
            name: user.name,
            full_name: user.full_name,
            token_place: user.token_place,
        }
    }
}
