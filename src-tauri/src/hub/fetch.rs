//! Fetches one file: continues where an earlier attempt stopped, checks it, and only then puts it into the cache.
//!
//! Bytes are written to `<digest>.incomplete` as they arrive, so if the process ends, only the connection is lost. The next
//! attempt hashes what is there and requests the rest. The process that writes a file holds its lock; another one that wants
//! the same file waits and then finds it complete.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, Write},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use bytes::Bytes;
use models::figures::bytes;
use reqwest::{Response, StatusCode, Url, header::CONTENT_RANGE};
use sha1::Sha1;
use sha2::{Digest as _, Sha256, digest::DynDigest};
use tokio::sync::{
    mpsc::{self, Receiver, Sender},
    oneshot,
};

use super::{
    download::Wanted,
    http::{Http, Trouble, pause},
    needed::RemoteFile,
};
use crate::{
    lock::locked,
    store::{
        hub_cache::{RepositoryFolder, names::Digest},
        make_folder_of,
    },
    wire::error::{AppError, Result},
};

/// A file that gives nothing is tried so often: about a minute and a half.
const TRIES: usize = 8;
/// Pieces of a file that may wait to be written.
const PIECES: usize = 16;
/// Bytes read at once from what is there already.
const BLOCK: usize = 1 << 20;
/// The room on the disk is looked at each time so many bytes were written.
const CHECK: usize = 32 << 20;
/// How often the wish to stop is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// Whoever holds a lock is looked at this often.
const LOCK: Duration = Duration::from_millis(250);
/// The disk is not filled to its last byte.
pub(super) const RESERVE: u64 = 64 << 20;

/// Where a file comes from and goes to.
pub(super) struct Transfer<'a> {
    pub(super) http: &'a Http,
    pub(super) wanted: &'a Wanted,
    pub(super) folder: &'a RepositoryFolder,
}

/// What others see of a file that is fetched.
#[derive(Debug, Default)]
pub(super) struct FileProgress {
    /// How many bytes of it are here.
    pub(super) bytes: AtomicU64,
    /// Why it is tried again, until bytes come.
    pub(super) retrying: Mutex<Option<AppError>>,
}

/// How often a file is tried that gives nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retries {
    /// A number of times in a row.
    Few,
    /// Until somebody stops it, as long as it is the network that is not there.
    Endless,
}

/// How others see what is running, and end it.
pub(super) struct Watch<'a> {
    pub(super) progress: &'a Arc<FileProgress>,
    /// Whether to leave it at that.
    pub(super) stop: &'a Arc<AtomicBool>,
    pub(super) retries: Retries,
}

impl Watch<'_> {
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Whether to try again after so many failures in a row.
    fn is_patient(&self, failures: usize, is_network: bool) -> bool {
        match self.retries {
            Retries::Few => failures < TRIES,
            Retries::Endless => is_network || failures < TRIES,
        }
    }
}

/// How a fetch ended that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fetched {
    Whole,
    Stopped,
}

/// Brings a file into the cache's blobs.
pub(super) async fn fetch(
    place: &Transfer<'_>,
    file: &RemoteFile,
    watch: &Watch<'_>,
) -> Result<Fetched> {
    let blob = place.folder.blob(&file.digest);
    let incomplete = place.folder.incomplete(&file.digest);
    let Some(lock) = lock(place, file, watch).await? else {
        return Ok(match place.folder.has_blob(&file.digest, file.bytes) {
            true => Fetched::Whole,
            false => Fetched::Stopped,
        });
    };
    make_folder_of(&blob)?;
    let Wanted {
        kind, id, commit, ..
    } = place.wanted;
    let url = place.http.file_url(*kind, id, commit, &file.path);
    let (mut failures, mut wrong) = (0, 0);
    loop {
        let before = size(&incomplete);
        let tried = attempt(place.http, &url, file, &incomplete, &lock, watch).await;
        if watch.is_stopped() {
            return Ok(Fetched::Stopped);
        }
        match tried {
            Ok(true) => {
                fs::rename(&incomplete, &blob)
                    .map_err(AppError::file("put the file in its place", &blob))?;
                return Ok(Fetched::Whole);
            }
            // All bytes came, and they are not those of the file.
            Ok(false) => {
                fs::remove_file(&incomplete)
                    .map_err(AppError::file("delete the wrong file", &incomplete))?;
                watch.progress.bytes.store(0, Ordering::SeqCst);
                wrong += 1;
                if wrong > 1 {
                    return Err(damaged(place, file));
                }
            }
            Err(Trouble::Lasting(error) | Trouble::Gated(error)) => return Err(error),
            Err(Trouble::Passing {
                error,
                wait,
                is_network,
            }) => {
                failures = match size(&incomplete) > before {
                    true => 1,
                    false => failures + 1,
                };
                if !watch.is_patient(failures, is_network) {
                    return Err(*error);
                }
                *locked(&watch.progress.retrying) = Some(*error);
                rest(pause(failures, wait), watch.stop).await;
            }
        }
    }
}

/// Takes the lock of a file. None when the file is whole, or nobody wants it any more.
async fn lock(
    place: &Transfer<'_>,
    file: &RemoteFile,
    watch: &Watch<'_>,
) -> Result<Option<Arc<File>>> {
    let path = place.folder.lock(&file.digest);
    make_folder_of(&path)?;
    let lock = File::create(&path).map_err(AppError::file("lock the file", &path))?;
    loop {
        let taken = match lock.try_lock() {
            Ok(()) => true,
            Err(fs::TryLockError::WouldBlock) => false,
            Err(fs::TryLockError::Error(error)) => {
                return Err(AppError::file("lock the file", &path)(error));
            }
        };
        let here = place.folder.bytes_here(&file.digest, file.bytes);
        watch.progress.bytes.store(here, Ordering::SeqCst);
        if place.folder.has_blob(&file.digest, file.bytes) || watch.is_stopped() {
            return Ok(None);
        }
        if taken {
            return Ok(Some(Arc::new(lock)));
        }
        tokio::time::sleep(LOCK).await;
    }
}

/// Fetches what is missing. Whether all bytes that are there now are those of the file.
async fn attempt(
    http: &Http,
    url: &Url,
    file: &RemoteFile,
    path: &Path,
    lock: &Arc<File>,
    watch: &Watch<'_>,
) -> Result<bool, Trouble> {
    let mut here = size(path);
    if here > file.bytes {
        fs::remove_file(path).map_err(AppError::file("delete the wrong file", path))?;
        here = 0;
    }
    let (pieces, is_ready, written) = write_behind(path, file, lock, watch)?;
    // Nobody is asked before what is here was read for its digest, or the connection would wait for that.
    let is_ready = is_ready.await.is_ok();
    let came = match is_ready && here < file.bytes {
        true => receive(http, url, file, here, &pieces, watch).await,
        false => Ok(()),
    };
    drop(pieces);
    // Also after a failure: what came is kept.
    let digest = written
        .await
        .map_err(|error| AppError::failed(format!("writing a file ended: {error}")))?;
    let digest = digest.map_err(|error| not_written(error, path, file))?;
    came?;
    Ok(digest.as_deref() == Some(file.digest.hex()))
}

/// Passes on the bytes from `here` on.
async fn receive(
    http: &Http,
    url: &Url,
    file: &RemoteFile,
    here: u64,
    pieces: &Sender<Bytes>,
    watch: &Watch<'_>,
) -> Result<(), Trouble> {
    let action = format!("fetch `{}`", file.path);
    let mut asked = Box::pin(http.file(&action, url, here, None));
    let mut response = loop {
        match tokio::time::timeout(LOOK, &mut asked).await {
            Ok(response) => break response?,
            Err(_) if watch.is_stopped() => return Ok(()),
            Err(_) => {}
        }
    };
    let mut skip = start_of(&action, &response, file, here)?;
    let mut missing = file.bytes - here;
    while missing > 0 {
        if watch.is_stopped() {
            return Ok(());
        }
        let mut piece = match tokio::time::timeout(LOOK, response.chunk()).await {
            Ok(Ok(Some(piece))) => piece,
            Ok(Ok(None)) => return Err(ended(&action, missing)),
            Ok(Err(error)) => return Err(http.unanswered(&action, &error)),
            // A connection that is silent for long is ended where connections are made.
            Err(_) => continue,
        };
        *locked(&watch.progress.retrying) = None;
        // A server that knows no ranges sends what is here already.
        let skipped = skip.min(piece.len() as u64);
        skip -= skipped;
        let mut piece = piece.split_off(skipped as usize);
        piece.truncate(missing.min(piece.len() as u64) as usize);
        missing -= piece.len() as u64;
        if !piece.is_empty() && pieces.send(piece).await.is_err() {
            // The writer has left, and says why.
            return Ok(());
        }
    }
    Ok(())
}

/// How many bytes come that are here already. An error when the server speaks of another file.
fn start_of(
    action: &str,
    response: &Response,
    file: &RemoteFile,
    here: u64,
) -> Result<u64, Trouble> {
    let other = |bytes: &dyn std::fmt::Display| {
        let words = format!(
            "could not {action}: the Hub lists {} bytes, and the server has {bytes}",
            file.bytes
        );
        Trouble::answer(
            AppError::failed(words).with_hint("try again later; the file may just have changed"),
        )
    };
    match response.status() {
        StatusCode::PARTIAL_CONTENT => {
            let range = response.headers().get(CONTENT_RANGE);
            let range = range.and_then(|it| it.to_str().ok()).unwrap_or_default();
            // `bytes 5-9/10`.
            let words: Vec<&str> = range.split([' ', '-', '/']).collect();
            let number = |at: usize| words.get(at)?.parse::<u64>().ok();
            match (number(1), number(3)) {
                (_, Some(total)) if total != file.bytes => Err(other(&total)),
                (Some(start), _) if start <= here => Ok(here - start),
                _ => Err(other(&format!("the range `{range}`"))),
            }
        }
        StatusCode::RANGE_NOT_SATISFIABLE => Err(other(&"fewer")),
        _ => match response.content_length() {
            Some(bytes) if bytes != file.bytes => Err(other(&bytes)),
            _ => Ok(here),
        },
    }
}

type Written = tokio::task::JoinHandle<io::Result<Option<String>>>;

/// Starts to write pieces at the end of a file, and to take its digest. It ends with the pieces, and returns the digest of
/// everything that is there then, if that is as much as the file has. What is there already is read first, and that is told.
///
/// The lock is held until the last piece is written, also when nobody waits for that any more.
fn write_behind(
    path: &Path,
    file: &RemoteFile,
    lock: &Arc<File>,
    watch: &Watch<'_>,
) -> Result<(Sender<Bytes>, oneshot::Receiver<()>, Written)> {
    if path.is_symlink() {
        fs::remove_file(path).map_err(AppError::file("delete the link", path))?;
    }
    let opened = OpenOptions::new()
        .create(true)
        .read(true)
        .append(true)
        .open(path);
    let opened = opened.map_err(AppError::file("create the file", path))?;
    let (sender, receiver) = mpsc::channel(PIECES);
    let hasher = hasher(&file.digest, file.bytes);
    let (ready, is_ready) = oneshot::channel();
    let writer = Writer {
        file: opened,
        path: path.to_owned(),
        bytes: file.bytes,
        progress: watch.progress.clone(),
        stop: watch.stop.clone(),
        _lock: lock.clone(),
    };
    let written = tokio::task::spawn_blocking(move || writer.write(hasher, ready, receiver));
    Ok((sender, is_ready, written))
}

/// Writes a file on a thread of its own.
struct Writer {
    file: File,
    path: PathBuf,
    bytes: u64,
    progress: Arc<FileProgress>,
    stop: Arc<AtomicBool>,
    _lock: Arc<File>,
}

impl Writer {
    fn write(
        mut self,
        mut hasher: Box<dyn DynDigest + Send>,
        ready: oneshot::Sender<()>,
        mut pieces: Receiver<Bytes>,
    ) -> io::Result<Option<String>> {
        let mut here = self.read(&mut *hasher)?;
        let _ = ready.send(());
        // The digest takes as long as the writing, so it is taken beside it.
        let (sender, hashed) = std::sync::mpsc::sync_channel::<Bytes>(PIECES);
        let (written, digest) = thread::scope(|scope| {
            let digest = scope.spawn(move || {
                hashed.iter().for_each(|piece| hasher.update(&piece));
                hex(&hasher.finalize())
            });
            let mut unchecked = CHECK;
            let mut written = Ok(());
            while let Some(piece) = written.is_ok().then(|| pieces.blocking_recv()).flatten() {
                here += piece.len() as u64;
                unchecked += piece.len();
                written = self.append(&piece, &mut unchecked);
                self.progress.bytes.store(here, Ordering::SeqCst);
                let _ = sender.send(piece);
            }
            drop(sender);
            (written, digest.join())
        });
        written?;
        if here < self.bytes {
            return Ok(None);
        }
        self.file.sync_data()?;
        digest
            .map(Some)
            .map_err(|_| io::Error::other("taking the digest ended in the middle"))
    }

    /// Reads what is there already. Returns how much that is.
    fn read(&mut self, hasher: &mut dyn DynDigest) -> io::Result<u64> {
        let mut here = 0;
        let mut block = vec![0; BLOCK];
        self.file.rewind()?;
        while !self.stop.load(Ordering::SeqCst) {
            let read = self.file.read(&mut block)?;
            if read == 0 {
                break;
            }
            hasher.update(&block[..read]);
            here += read as u64;
        }
        self.progress.bytes.store(here, Ordering::SeqCst);
        Ok(here)
    }

    fn append(&mut self, piece: &[u8], unchecked: &mut usize) -> io::Result<()> {
        if *unchecked >= CHECK {
            keep_reserve(&self.path)?;
            *unchecked = 0;
        }
        self.file.write_all(piece)
    }
}

/// Stops before the disk is full to its last byte.
fn keep_reserve(path: &Path) -> io::Result<()> {
    match path.parent().map(fs4::available_space) {
        Some(Ok(free)) if free < RESERVE => Err(io::ErrorKind::StorageFull.into()),
        _ => Ok(()),
    }
}

/// Takes the digest of bytes as they come, of a file of so many.
fn hasher(digest: &Digest, bytes: u64) -> Box<dyn DynDigest + Send> {
    match digest {
        Digest::Sha256(_) => Box::new(Sha256::new()),
        Digest::Git(_) => Box::new(Sha1::new_with_prefix(format!("blob {bytes}\0"))),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn ended(action: &str, missing: u64) -> Trouble {
    let words =
        format!("could not {action}: the connection ended, and {missing} bytes are missing");
    Trouble::network(AppError::failed(words))
}

fn damaged(place: &Transfer<'_>, file: &RemoteFile) -> AppError {
    AppError::failed(format!(
        "could not fetch `{}` of `{}`: what arrived twice is not what the Hub lists, so it was thrown away",
        file.path, place.wanted.id
    ))
    .with_hint("something between the Hub and this machine changes files; try another network")
}

/// The error of a disk that takes no more.
fn not_written(error: io::Error, path: &Path, file: &RemoteFile) -> AppError {
    if !matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    ) {
        return AppError::file("write the file", path)(error);
    }
    let missing = file.bytes.saturating_sub(size(path));
    let free = path
        .parent()
        .and_then(|folder| fs4::available_space(folder).ok());
    no_room(
        &format!("continue with `{}`", file.path),
        missing,
        free,
        path.parent().unwrap_or(path),
    )
}

/// The error when what is missing of something does not fit on the disk.
pub(super) fn no_room(action: &str, missing: u64, free: Option<u64>, place: &Path) -> AppError {
    let usable = free.map_or(0, |free| free.saturating_sub(RESERVE));
    let more = bytes(missing.saturating_sub(usable));
    let (missing, free) = (bytes(missing), free.map_or("too little".to_owned(), bytes));
    AppError::failed(format!(
        "could not {action}: {missing} are missing and {free} free, so {more} more are needed where the cache lies: `{}`",
        place.display()
    ))
    .with_hint("make room and continue; what was fetched so far is kept. HF_HUB_CACHE moves the cache")
}

/// Waits, unless nobody wants that any more.
async fn rest(time: Duration, stop: &AtomicBool) {
    let end = tokio::time::Instant::now() + time;
    while tokio::time::Instant::now() < end && !stop.load(Ordering::SeqCst) {
        tokio::time::sleep(LOOK.min(time)).await;
    }
}

fn size(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |file| file.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_git_and_of_the_hub() {
        // `printf 'hello\n' | git hash-object --stdin` and `| sha256sum`.
        let git = Digest::git("ce013625030ba8dba906f756967f9e9ca394464a").unwrap();
        let sha =
            Digest::sha256("5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03")
                .unwrap();
        for digest in [git, sha] {
            let mut hasher = hasher(&digest, 6);
            hasher.update(b"hel");
            hasher.update(b"lo\n");
            assert_eq!(hex(&hasher.finalize()), digest.hex());
        }
    }

    #[test]
    fn a_full_disk_says_how_much_is_missing() {
        let error = no_room(
            "fetch `a/b`",
            3_000_000_000,
            Some(1_064_000_000 + 3_108_864),
            Path::new("/cache"),
        );
        assert_eq!(
            error.message,
            "could not fetch `a/b`: 3.0 GB are missing and 1.1 GB free, so 2.0 GB more are needed where the cache lies: \
             `/cache`"
        );
        assert!(
            no_room("x", 10, None, Path::new("/c"))
                .message
                .contains("10 B are missing and too little free")
        );
    }
}
