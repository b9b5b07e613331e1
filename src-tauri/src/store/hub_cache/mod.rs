//! The cache that programs of the Hugging Face Hub share, in the layout of Python's `huggingface_hub`.
//!
//! ```text
//! models--maker--name/
//!   blobs/<digest>               the content of a file; <digest>.incomplete while it is fetched
//!   snapshots/<commit>/<path>    links to blobs, under the names that files have in that commit
//!   refs/<branch>                the commit a name stands for
//! .locks/models--maker--name/<digest>.lock     held by the process that writes a blob
//! ```
//!
//! So a model that another program fetched is here, and what is fetched here is there for others. Where the system allows
//! no links, a snapshot holds second names of the blobs, or the files themselves.

pub(crate) mod names;

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    fs::{self, File},
    path::{Path, PathBuf},
    time::SystemTime,
};

use serde::Serialize;

use names::{Digest, RepositoryId, RepositoryKind, is_commit, relative_path};

use super::limits::{WORD_FILE, read_text};
use crate::wire::error::{AppError, Result};

/// Folders in folders in a snapshot; more are not looked into.
const DEEPEST: usize = 16;
/// What the name of a file ends in that is not whole.
const INCOMPLETE: &str = "incomplete";

/// The folder in which all programs of the Hub on this machine keep what they fetched.
#[derive(Debug, Clone)]
pub(crate) struct HubCache {
    root: PathBuf,
}

/// Where one repository lies in the cache. Nothing of it need be there.
#[derive(Debug, Clone)]
pub(crate) struct RepositoryFolder {
    id: RepositoryId,
    path: PathBuf,
    locks: PathBuf,
}

/// A repository in the cache.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct CachedRepository {
    pub(crate) kind: RepositoryKind,
    pub(crate) id: RepositoryId,
    /// Its folder.
    #[serde(skip)]
    pub(crate) path: PathBuf,
    /// What it takes on disk; what revisions share counts once, and what was begun counts too.
    pub(crate) bytes: u64,
    /// The newest first.
    pub(crate) revisions: Vec<CachedRevision>,
}

/// A revision in the cache.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct CachedRevision {
    pub(crate) commit: String,
    /// Branches and tags that mean it.
    pub(crate) names: Vec<String>,
    pub(crate) path: PathBuf,
    pub(crate) files: usize,
    pub(crate) bytes: u64,
    /// What deleting it frees.
    pub(crate) freed_bytes: u64,
    #[serde(skip)]
    pub(crate) fetched: Option<SystemTime>,
}

/// A file of a snapshot: its real path in the repository's folder, and its size. Links out of that folder have none.
type Content = BTreeMap<PathBuf, u64>;

impl HubCache {
    /// The cache of the user, where the usual variables say.
    pub(crate) fn of_user() -> Option<Self> {
        let root = folder("HF_HUB_CACHE")
            .or_else(|| folder("HUGGINGFACE_HUB_CACHE"))
            .or_else(|| Some(hub_home()?.join("hub")))?;
        Some(Self::at(std::path::absolute(&root).unwrap_or(root)))
    }

    /// The cache in a folder.
    pub(crate) fn at(root: PathBuf) -> Self {
        Self { root }
    }

    /// Its folder.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Bytes that are free where it lies, or will.
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        let existing = self.root.ancestors().find(|path| path.exists())?;
        fs4::available_space(existing).ok()
    }

    /// Where a repository lies, or would.
    pub(crate) fn repository(&self, kind: RepositoryKind, id: &RepositoryId) -> RepositoryFolder {
        let name = id.folder_name(kind);
        RepositoryFolder {
            id: id.clone(),
            path: self.root.join(&name),
            locks: self.root.join(".locks").join(name),
        }
    }

    /// All models and data sets, by name.
    pub(crate) fn list(&self) -> Vec<CachedRepository> {
        let folders = super::folders(&self.root);
        let found = folders.iter().filter_map(|folder| {
            let (kind, id) = RepositoryId::of_folder(&folder.file_name()?.to_string_lossy())?;
            let repository = self.repository(kind, &id).read(kind);
            (!repository.revisions.is_empty() || repository.bytes > 0).then_some(repository)
        });
        let mut found: Vec<CachedRepository> = found.collect();
        found.sort_by(|a, b| (a.kind, &a.id).cmp(&(b.kind, &b.id)));
        found
    }
}

impl RepositoryFolder {
    /// The folder of a revision. It need not be there.
    pub(crate) fn snapshot(&self, commit: &str) -> PathBuf {
        self.path.join("snapshots").join(commit)
    }

    /// The content of a file.
    pub(crate) fn blob(&self, digest: &Digest) -> PathBuf {
        self.path.join("blobs").join(digest.hex())
    }

    /// The content of a file while it is fetched.
    pub(crate) fn incomplete(&self, digest: &Digest) -> PathBuf {
        self.blob(digest).with_extension(INCOMPLETE)
    }

    /// The file that is locked by who writes a blob.
    pub(crate) fn lock(&self, digest: &Digest) -> PathBuf {
        self.locks.join(format!("{}.lock", digest.hex()))
    }

    /// Whether the content of a file is here. One of another size was cut off, and is to be fetched again.
    pub(crate) fn has_blob(&self, digest: &Digest, bytes: u64) -> bool {
        is_file_of(&self.blob(digest), bytes)
    }

    /// What of a file is here: all of it, or what was fetched so far.
    pub(crate) fn bytes_here(&self, digest: &Digest, bytes: u64) -> u64 {
        match self.has_blob(digest, bytes) {
            true => bytes,
            false => size(&self.incomplete(digest)).min(bytes),
        }
    }

    /// Whether a revision has a file, whoever fetched it. One of another size was cut off, and is to be fetched again.
    pub(crate) fn has(&self, commit: &str, name: &str, bytes: u64) -> bool {
        relative_path(name).is_some_and(|path| is_file_of(&self.snapshot(commit).join(path), bytes))
    }

    /// Gives a blob its name in a revision.
    pub(crate) fn link(&self, commit: &str, name: &str, digest: &Digest) -> Result<()> {
        let relative = relative_path(name).ok_or_else(|| {
            let name = names::shown(name);
            AppError::failed(format!("a file can’t be called `{name}` here"))
        })?;
        let depth = relative.components().count();
        let path = self.snapshot(commit).join(relative);
        super::make_folder_of(&path)?;
        let up: PathBuf = std::iter::repeat_n("..", depth + 1).collect();
        let target = up.join("blobs").join(digest.hex());
        let blob = self.blob(digest);
        // Under another name first: another process may give the same name at the same moment.
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let temporary = path.with_file_name(format!(".{name}.{}", std::process::id()));
        let _ = fs::remove_file(&temporary);
        link_file(&target, &temporary)
            .or_else(|_| fs::hard_link(&blob, &temporary))
            .or_else(|_| fs::copy(&blob, &temporary).map(|_| ()))
            .and_then(|()| fs::rename(&temporary, &path))
            .map_err(AppError::file("name the file", &path))
    }

    /// Remembers which commit a branch or tag stood for.
    pub(crate) fn name_commit(&self, name: &str, commit: &str) -> Result<()> {
        match self.name_file(name).filter(|_| !is_commit(name)) {
            // Other programs read it as it is, so there is no line end.
            Some(path) => super::write_file(&path, commit.as_bytes()),
            None => Ok(()),
        }
    }

    /// The commit that a branch, tag or commit stood for when it was last fetched.
    pub(crate) fn commit_of(&self, name: &str) -> Option<String> {
        if is_commit(name) {
            return Some(name.to_owned());
        }
        let commit = read_text(WORD_FILE, &self.name_file(name)?, "read a commit").ok()?;
        Some(commit.trim().to_owned()).filter(|commit| is_commit(commit))
    }

    /// Whether anything of it is here.
    pub(crate) fn is_here(&self) -> bool {
        !self.snapshots().is_empty()
    }

    /// Deletes a revision, and the content that no other revision has. Returns the bytes that are free now.
    ///
    /// The last revision takes the whole folder along, unless something else of it is begun. A repository of which no
    /// revision is here, but something is begun, is deleted without a commit.
    pub(crate) fn delete(&self, commit: &str) -> Result<u64> {
        let locks = fs::read_dir(&self.locks).into_iter().flatten().flatten();
        // The files of the locks stay: two processes that wait for one must mean the same.
        let is_held = |path: PathBuf| File::open(path).is_ok_and(|file| file.try_lock().is_err());
        if locks.map(|entry| entry.path()).any(is_held) {
            return Err(being_fetched(&self.id));
        }
        let snapshots = self.snapshots();
        let snapshot = self.snapshot(commit);
        let is_begun = snapshots.is_empty() && commit.is_empty() && self.path.is_dir();
        if !is_begun && !snapshots.contains(&snapshot) {
            let problem = format!("the cache has no revision `{commit}` of `{}`", self.id);
            return Err(AppError::invalid(problem));
        }
        if is_begun || snapshots.len() == 1 && self.has_all() {
            let bytes = size_of(&self.path);
            fs::remove_dir_all(&self.path)
                .map_err(AppError::file("delete the files", &self.path))?;
            return Ok(bytes);
        }
        let others = snapshots.iter().filter(|path| **path != snapshot);
        let kept: BTreeSet<PathBuf> = others
            .flat_map(|path| self.content(path).into_keys())
            .collect();
        let mut freed = self.content(&snapshot);
        freed.retain(|path, _| !kept.contains(path));
        // Content first: what a name still leads to can be deleted again, and what no name leads to is lost on the disk.
        for blob in freed.keys() {
            fs::remove_file(blob).map_err(AppError::file("delete the file", blob))?;
        }
        fs::remove_dir_all(&snapshot).map_err(AppError::file("delete the revision", &snapshot))?;
        for (path, _) in self.names().into_iter().filter(|(_, it)| it == commit) {
            fs::remove_file(&path).map_err(AppError::file("forget the name", &path))?;
        }
        Ok(freed.values().sum())
    }

    /// Deletes what was fetched so far of a file that is not whole. Whether nothing is left: what somebody is just writing
    /// stays.
    pub(crate) fn delete_incomplete(&self, digest: &Digest) -> Result<bool> {
        let path = self.incomplete(digest);
        let lock = File::open(self.lock(digest));
        // Held until the part is gone, so that nobody begins to write it.
        if path.exists() && lock.is_ok_and(|lock| lock.try_lock().is_err()) {
            return Ok(false);
        }
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(AppError::file("delete the part of a file", &path)(error))
            }
            _ => Ok(true),
        }
    }

    fn read(self, kind: RepositoryKind) -> CachedRepository {
        let (names, bytes) = (self.names(), size_of(&self.path));
        let snapshots = self.snapshots();
        let contents: Vec<Content> = snapshots.iter().map(|it| self.content(it)).collect();
        let mut users: BTreeMap<&PathBuf, usize> = BTreeMap::new();
        for path in contents.iter().flat_map(Content::keys) {
            *users.entry(path).or_default() += 1;
        }
        let takes_all = snapshots.len() == 1 && self.has_all();
        let refs = self.path.join("refs");
        let revision = |(path, content): (&PathBuf, &Content)| {
            let commit = path.file_name().unwrap_or_default().to_string_lossy();
            let name = |(path, it): &(PathBuf, String)| {
                let name = path.strip_prefix(&refs).ok().filter(|_| *it == commit)?;
                Some(name.to_string_lossy().replace('\\', "/"))
            };
            let alone = content
                .iter()
                .filter(|(path, _)| users.get(path) == Some(&1));
            CachedRevision {
                names: names.iter().filter_map(name).collect(),
                files: files_below(path).len(),
                bytes: content.values().sum(),
                freed_bytes: match takes_all {
                    true => bytes,
                    false => alone.map(|(_, bytes)| bytes).sum(),
                },
                fetched: fs::metadata(path).and_then(|it| it.modified()).ok(),
                path: path.clone(),
                commit: commit.into_owned(),
            }
        };
        let mut revisions: Vec<CachedRevision> =
            snapshots.iter().zip(&contents).map(revision).collect();
        revisions.sort_by_key(|revision| std::cmp::Reverse(revision.fetched));
        CachedRepository {
            kind,
            id: self.id,
            path: self.path,
            bytes,
            revisions,
        }
    }

    fn snapshots(&self) -> Vec<PathBuf> {
        super::folders(&self.path.join("snapshots"))
    }

    /// The file that says which commit a branch or tag stands for.
    fn name_file(&self, name: &str) -> Option<PathBuf> {
        Some(self.path.join("refs").join(relative_path(name)?))
    }

    /// The files of branches and tags, each with its commit.
    fn names(&self) -> Vec<(PathBuf, String)> {
        let mut files = files_below(&self.path.join("refs"));
        files.sort();
        let commit = |path: &Path| read_text(WORD_FILE, path, "read a commit").unwrap_or_default();
        let named = files.into_iter().map(|path| (commit(&path), path));
        named
            .map(|(commit, path)| (path, commit.trim().to_owned()))
            .collect()
    }

    /// What the files of a snapshot really are. A link that leads out of the repository's folder is nothing of it.
    fn content(&self, snapshot: &Path) -> Content {
        let Ok(folder) = fs::canonicalize(&self.path) else {
            return Content::new();
        };
        let real = |path: PathBuf| {
            let real = fs::canonicalize(path).ok()?;
            let bytes = fs::metadata(&real).ok()?.len();
            real.starts_with(&folder).then_some((real, bytes))
        };
        files_below(snapshot).into_iter().filter_map(real).collect()
    }

    /// Whether nothing of it is only begun.
    fn has_all(&self) -> bool {
        let blobs = files_below(&self.path.join("blobs"));
        let begun = blobs
            .iter()
            .filter(|path| path.extension().is_some_and(|it| it == INCOMPLETE));
        begun.map(|path| size(path)).sum::<u64>() == 0
    }
}

/// Variables that programs of the Hub read the user’s token from.
pub(crate) const SECRETS: [&str; 2] = ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"];

/// The error when something is to be deleted that comes just now.
pub(crate) fn being_fetched(id: &RepositoryId) -> AppError {
    AppError::failed(format!("`{id}` is being fetched right now"))
        .with_hint("wait until that is done, or cancel it")
}

/// The folder for everything of the Hub, where the usual variables say.
pub(crate) fn hub_home() -> Option<PathBuf> {
    folder("HF_HOME")
        .or_else(|| Some(folder("XDG_CACHE_HOME")?.join("huggingface")))
        .or_else(|| {
            Some(
                directories::BaseDirs::new()?
                    .home_dir()
                    .join(".cache/huggingface"),
            )
        })
}

/// The folder that a variable names. An empty one names none.
pub(crate) fn folder(variable: &str) -> Option<PathBuf> {
    let value = env::var_os(variable).filter(|value| !value.is_empty())?;
    let path = PathBuf::from(value);
    // As Python's library reads it.
    match path.strip_prefix("~") {
        Ok(rest) => Some(directories::BaseDirs::new()?.home_dir().join(rest)),
        Err(_) => Some(path),
    }
}

/// Every file below a folder. Folders behind links are not entered.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    fn walk(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && depth < DEEPEST => {
                    walk(&entry.path(), depth + 1, files)
                }
                Ok(kind) if !kind.is_dir() => files.push(entry.path()),
                _ => {}
            }
        }
    }
    let mut files = Vec::new();
    walk(folder, 0, &mut files);
    files
}

/// Bytes of the files below a folder.
fn size_of(folder: &Path) -> u64 {
    files_below(folder).iter().map(|path| size(path)).sum()
}

/// Bytes of a file. A link has none: what it leads to is counted there.
fn size(path: &Path) -> u64 {
    let file = fs::symlink_metadata(path).ok();
    file.filter(fs::Metadata::is_file)
        .map_or(0, |file| file.len())
}

fn is_file_of(path: &Path, bytes: u64) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() == bytes)
}

/// Links need a right that few users of Windows have, and some disks know none.
fn link_file(target: &Path, path: &Path) -> std::io::Result<()> {
    #[cfg(unix)]
    return std::os::unix::fs::symlink(target, path);
    #[cfg(windows)]
    return std::os::windows::fs::symlink_file(target, path);
}

#[cfg(test)]
mod tests;
