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

use names::{Digest, RepositoryId, RepositoryKind, is_commit, relative_path, revision_path};

use crate::wire::error::{AppError, Result};

/// Folders in folders in a snapshot; more are not looked into.
const DEEPEST: usize = 16;
/// What the name of a file ends in that is not whole.
const INCOMPLETE: &str = "incomplete";

/// The cache.
#[derive(Debug, Clone)]
pub(crate) struct HubCache {
    root: PathBuf,
}

/// A repository in the cache.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CachedRepository {
    pub(crate) kind: RepositoryKind,
    pub(crate) id: RepositoryId,
    /// Its folder.
    pub(crate) path: PathBuf,
    /// What it takes on disk; what revisions share counts once, and what was begun counts too.
    pub(crate) bytes: u64,
    /// The newest first.
    pub(crate) revisions: Vec<CachedRevision>,
}

/// A revision in the cache.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CachedRevision {
    pub(crate) commit: String,
    /// Branches and tags that mean it.
    pub(crate) names: Vec<String>,
    pub(crate) path: PathBuf,
    pub(crate) files: usize,
    pub(crate) bytes: u64,
    /// What deleting it frees.
    pub(crate) freed_bytes: u64,
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

    /// The folder of a revision. It need not be there.
    pub(crate) fn snapshot(
        &self,
        kind: RepositoryKind,
        id: &RepositoryId,
        commit: &str,
    ) -> PathBuf {
        self.folder(kind, id).join("snapshots").join(commit)
    }

    /// The content of a file.
    pub(crate) fn blob(&self, kind: RepositoryKind, id: &RepositoryId, digest: &Digest) -> PathBuf {
        self.folder(kind, id).join("blobs").join(digest.hex())
    }

    /// The content of a file while it is fetched.
    pub(crate) fn incomplete(
        &self,
        kind: RepositoryKind,
        id: &RepositoryId,
        digest: &Digest,
    ) -> PathBuf {
        self.blob(kind, id, digest).with_extension(INCOMPLETE)
    }

    /// The file that is locked by who writes a blob.
    pub(crate) fn lock(&self, kind: RepositoryKind, id: &RepositoryId, digest: &Digest) -> PathBuf {
        self.locks(kind, id).join(format!("{}.lock", digest.hex()))
    }

    /// What of a file is here: all of it, or what was fetched so far.
    pub(crate) fn bytes_here(
        &self,
        kind: RepositoryKind,
        id: &RepositoryId,
        digest: &Digest,
    ) -> u64 {
        let size = |path: PathBuf| fs::metadata(path).map(|file| file.len());
        size(self.blob(kind, id, digest))
            .or_else(|_| size(self.incomplete(kind, id, digest)))
            .unwrap_or(0)
    }

    /// Whether a revision has a file, whoever fetched it.
    pub(crate) fn has(
        &self,
        kind: RepositoryKind,
        id: &RepositoryId,
        commit: &str,
        name: &str,
    ) -> bool {
        let path = relative_path(name).map(|path| self.snapshot(kind, id, commit).join(path));
        path.is_some_and(|path| path.is_file())
    }

    /// Gives a blob its name in a revision.
    pub(crate) fn link(
        &self,
        kind: RepositoryKind,
        id: &RepositoryId,
        commit: &str,
        name: &str,
        digest: &Digest,
    ) -> Result<()> {
        let Some(relative) = relative_path(name) else {
            let name = names::shown(name);
            return Err(AppError::failed(format!(
                "a file can't be called `{name}` here"
            )));
        };
        let depth = relative.components().count();
        let path = self.snapshot(kind, id, commit).join(relative);
        super::make_folder_of(&path)?;
        let up: PathBuf = std::iter::repeat_n("..", depth + 1).collect();
        let target = up.join("blobs").join(digest.hex());
        let blob = self.blob(kind, id, digest);
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
    pub(crate) fn name_commit(
        &self,
        kind: RepositoryKind,
        id: &RepositoryId,
        name: &str,
        commit: &str,
    ) -> Result<()> {
        if is_commit(name) {
            return Ok(());
        }
        match revision_path(&self.folder(kind, id).join("refs"), name) {
            // Other programs read it as it is, so there is no line end.
            Some(path) => super::write_file(&path, commit.as_bytes()),
            None => Ok(()),
        }
    }

    /// The commit that a branch, tag or commit stood for when it was last fetched.
    pub(crate) fn commit_of(
        &self,
        kind: RepositoryKind,
        id: &RepositoryId,
        name: &str,
    ) -> Option<String> {
        if is_commit(name) {
            return Some(name.to_owned());
        }
        let path = revision_path(&self.folder(kind, id).join("refs"), name)?;
        let commit = fs::read_to_string(path).ok()?.trim().to_owned();
        is_commit(&commit).then_some(commit)
    }

    /// Whether anything of a repository is here.
    pub(crate) fn knows(&self, kind: RepositoryKind, id: &RepositoryId) -> bool {
        !super::folders(&self.folder(kind, id).join("snapshots")).is_empty()
    }

    /// All models and data sets, by name.
    pub(crate) fn list(&self) -> Vec<CachedRepository> {
        let mut found: Vec<CachedRepository> = super::folders(&self.root)
            .iter()
            .filter_map(|folder| {
                let (kind, id) = RepositoryId::of_folder(&folder.file_name()?.to_string_lossy())?;
                let repository = self.read(kind, id);
                (!repository.revisions.is_empty() || repository.bytes > 0).then_some(repository)
            })
            .collect();
        found.sort_by(|a, b| (a.kind, &a.id).cmp(&(b.kind, &b.id)));
        found
    }

    /// Deletes a revision, and the content that no other revision has. Returns the bytes that are free now.
    ///
    /// The last revision takes the whole folder along, unless something else of it is begun. A repository of which no
    /// revision is here, but something is begun, is deleted without a commit.
    pub(crate) fn delete(
        &self,
        kind: RepositoryKind,
        id: &RepositoryId,
        commit: &str,
    ) -> Result<u64> {
        let folder = self.folder(kind, id);
        self.check_that_nobody_fetches(kind, id)?;
        let snapshots = super::folders(&folder.join("snapshots"));
        if snapshots.is_empty() && commit.is_empty() && folder.is_dir() {
            return delete_folder(&folder);
        }
        let snapshot = self.snapshot(kind, id, commit);
        if !snapshots.contains(&snapshot) {
            return Err(AppError::invalid(format!(
                "the cache has no revision `{commit}` of `{id}`"
            )));
        }
        if snapshots.len() == 1 && incomplete_bytes(&folder) == 0 {
            return delete_folder(&folder);
        }
        let others = snapshots.iter().filter(|path| **path != snapshot);
        let kept: BTreeSet<PathBuf> = others
            .flat_map(|path| content(&folder, path).into_keys())
            .collect();
        let freed: Content = content(&folder, &snapshot)
            .into_iter()
            .filter(|(path, _)| !kept.contains(path))
            .collect();
        // Content first: what a name still leads to can be deleted again, and what no name leads to is lost on the disk.
        for blob in freed.keys() {
            fs::remove_file(blob).map_err(AppError::file("delete the file", blob))?;
        }
        fs::remove_dir_all(&snapshot).map_err(AppError::file("delete the revision", &snapshot))?;
        for (path, _) in refs(&folder).into_iter().filter(|(_, it)| it == commit) {
            fs::remove_file(&path).map_err(AppError::file("forget the name", &path))?;
        }
        Ok(freed.values().sum())
    }

    /// Deletes what was fetched so far of a file that is not whole. Whether nothing is left: what somebody is just writing
    /// stays.
    pub(crate) fn delete_incomplete(
        &self,
        kind: RepositoryKind,
        id: &RepositoryId,
        digest: &Digest,
    ) -> Result<bool> {
        let path = self.incomplete(kind, id, digest);
        let lock = File::open(self.lock(kind, id, digest));
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

    /// The files of the locks stay: two processes that wait for one must mean the same.
    fn check_that_nobody_fetches(&self, kind: RepositoryKind, id: &RepositoryId) -> Result<()> {
        let files = fs::read_dir(self.locks(kind, id))
            .into_iter()
            .flatten()
            .flatten();
        let is_held = |path: PathBuf| File::open(path).is_ok_and(|file| file.try_lock().is_err());
        match files.map(|entry| entry.path()).any(is_held) {
            false => Ok(()),
            true => Err(being_fetched(id)),
        }
    }

    fn read(&self, kind: RepositoryKind, id: RepositoryId) -> CachedRepository {
        let folder = self.folder(kind, &id);
        let names = refs(&folder);
        let snapshots: Vec<(PathBuf, Content)> = super::folders(&folder.join("snapshots"))
            .into_iter()
            .map(|path| (path.clone(), content(&folder, &path)))
            .collect();
        let mut users: BTreeMap<&PathBuf, usize> = BTreeMap::new();
        for path in snapshots.iter().flat_map(|(_, content)| content.keys()) {
            *users.entry(path).or_default() += 1;
        }
        let bytes = size_of(&folder);
        let mut revisions: Vec<CachedRevision> = Vec::new();
        for (path, content) in &snapshots {
            let commit = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let alone = content
                .iter()
                .filter(|(path, _)| users.get(path) == Some(&1));
            let freed_bytes = match snapshots.len() {
                1 if incomplete_bytes(&folder) == 0 => bytes,
                _ => alone.map(|(_, bytes)| bytes).sum(),
            };
            let refs = folder.join("refs");
            let names = names.iter().filter(|(_, it)| *it == commit);
            let names = names.filter_map(|(path, _)| {
                Some(
                    path.strip_prefix(&refs)
                        .ok()?
                        .to_string_lossy()
                        .replace('\\', "/"),
                )
            });
            revisions.push(CachedRevision {
                names: names.collect(),
                files: count_files(path),
                bytes: content.values().sum(),
                freed_bytes,
                fetched: fs::metadata(path).and_then(|it| it.modified()).ok(),
                path: path.clone(),
                commit,
            });
        }
        revisions.sort_by_key(|revision| std::cmp::Reverse(revision.fetched));
        CachedRepository {
            kind,
            id,
            path: folder,
            bytes,
            revisions,
        }
    }

    fn folder(&self, kind: RepositoryKind, id: &RepositoryId) -> PathBuf {
        self.root.join(id.folder_name(kind))
    }

    fn locks(&self, kind: RepositoryKind, id: &RepositoryId) -> PathBuf {
        self.root.join(".locks").join(id.folder_name(kind))
    }
}

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

/// The names of commits, each with its file.
fn refs(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.join("refs")];
    while let Some(path) = folders.pop() {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                _ => {
                    let commit = fs::read_to_string(entry.path()).unwrap_or_default();
                    found.push((entry.path(), commit.trim().to_owned()));
                }
            }
        }
    }
    found.sort();
    found
}

/// What the files of a snapshot really are. A link that leads out of the repository's folder is nothing of it.
fn content(folder: &Path, snapshot: &Path) -> Content {
    let Ok(folder) = fs::canonicalize(folder) else {
        return Content::new();
    };
    let mut found = Content::new();
    walk(snapshot, 0, &mut |path| {
        let real = fs::canonicalize(path)
            .ok()
            .filter(|real| real.starts_with(&folder));
        if let Some((real, metadata)) =
            real.and_then(|real| Some((real.clone(), fs::metadata(real).ok()?)))
        {
            found.insert(real, metadata.len());
        }
    });
    found
}

fn count_files(snapshot: &Path) -> usize {
    let mut count = 0;
    walk(snapshot, 0, &mut |_| count += 1);
    count
}

/// Shows every file below a folder. Folders behind links are not entered.
fn walk(folder: &Path, depth: usize, see: &mut dyn FnMut(&Path)) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && depth < DEEPEST => walk(&entry.path(), depth + 1, see),
            Ok(kind) if !kind.is_dir() => see(&entry.path()),
            _ => {}
        }
    }
}

/// Bytes of the files below a folder. A link counts nothing: what it leads to is counted there.
fn size_of(folder: &Path) -> u64 {
    let mut bytes = 0;
    walk(folder, 0, &mut |path| {
        let file = fs::symlink_metadata(path)
            .ok()
            .filter(fs::Metadata::is_file);
        bytes += file.map_or(0, |file| file.len());
    });
    bytes
}

/// Links need a right that few users of Windows have, and some disks know none.
fn link_file(target: &Path, path: &Path) -> std::io::Result<()> {
    #[cfg(unix)]
    return std::os::unix::fs::symlink(target, path);
    #[cfg(windows)]
    return std::os::windows::fs::symlink_file(target, path);
}

/// Bytes of files that are not whole.
fn incomplete_bytes(folder: &Path) -> u64 {
    let blobs = fs::read_dir(folder.join("blobs"))
        .into_iter()
        .flatten()
        .flatten();
    let begun = blobs.filter(|entry| entry.path().extension().is_some_and(|it| it == INCOMPLETE));
    begun
        .filter_map(|entry| Some(entry.metadata().ok()?.len()))
        .sum()
}

/// Deletes a repository's folder. Returns the bytes that are free now.
fn delete_folder(folder: &Path) -> Result<u64> {
    let bytes = size_of(folder);
    fs::remove_dir_all(folder).map_err(AppError::file("delete the files", folder))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
