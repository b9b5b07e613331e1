//! Writing so that nothing is ever half there: to a temporary name, synced, then renamed.

use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
};

use candle_core::{Device, Tensor};
use safetensors::SafeTensorError;
use serde_json::Value as Json;

use crate::{Error, Result};

/// Writes a folder as a whole: `write` fills a temporary folder beside it, which then takes its place.
///
/// A folder that was there before stays until the new one is complete; between two renames it has a name that begins
/// with a dot, like what an interrupted attempt leaves behind. The next attempt at the same path removes both.
pub fn replace_folder(path: &Path, write: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let temporary = beside(path, "writing");
    let old = beside(path, "old");
    for left in [&temporary, &old] {
        if left.exists() {
            fs::remove_dir_all(left).map_err(Error::file("remove an unfinished folder", left))?;
        }
    }
    fs::create_dir_all(&temporary).map_err(Error::file("create the folder", &temporary))?;
    if let Err(error) = write(&temporary).and_then(|()| sync_files(&temporary)) {
        // What was written of it would fill a disk that has too little room.
        let _ = fs::remove_dir_all(&temporary);
        return Err(error);
    }
    if path.exists() {
        fs::rename(path, &old).map_err(Error::file("put the old folder aside", path))?;
    }
    fs::rename(&temporary, path).map_err(Error::file("put the folder in its place", path))?;
    sync_parent(path)?;
    if old.exists() {
        fs::remove_dir_all(&old).map_err(Error::file("remove the old folder", &old))?;
    }
    Ok(())
}

/// Writes a file as a whole, with the same care.
pub fn replace_file(path: &Path, bytes: &[u8]) -> Result<()> {
    replace_with(path, |mut file| {
        let written = file.write_all(bytes);
        written.map_err(Error::file("write the file", path))
    })
}

/// Writes a file as a whole, piece by piece.
pub fn replace_with(path: &Path, write: impl FnOnce(&File) -> Result<()>) -> Result<()> {
    let temporary = beside(path, "writing");
    let file = File::create(&temporary).map_err(Error::file("write the file", &temporary))?;
    let written = write(&file).and_then(|()| {
        let synced = file.sync_all();
        synced.map_err(Error::file("write the file to disk", &temporary))
    });
    drop(file);
    let named = written.and_then(|()| {
        let named = fs::rename(&temporary, path);
        named.map_err(Error::file("put the file in its place", path))
    });
    if let Err(error) = named {
        // What was written of it would fill a disk that has too little room.
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    sync_parent(path)
}

/// Writes a file into a folder that is being made. For the disk [`replace_folder`] waits.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes).map_err(Error::file("write the file", path))
}

/// Writes tensors by name as safetensors, with `metadata` in the header, into a folder that is being made. For the disk
/// [`replace_folder`] waits.
pub fn write_safetensors(
    path: &Path,
    tensors: &BTreeMap<String, Tensor>,
    metadata: HashMap<String, String>,
) -> Result<()> {
    let on_host = |(name, tensor): (&String, &Tensor)| {
        let tensor = match tensor.device().is_cpu() {
            true => tensor.contiguous()?,
            // A weight may be a part of one large tensor, and what is moved is always the whole of it.
            false => tensor.force_contiguous()?.to_device(&Device::Cpu)?,
        };
        Ok((name.clone(), tensor))
    };
    let tensors = tensors.iter().map(on_host).collect::<Result<Vec<_>>>()?;
    let written = safetensors::serialize_to_file(tensors, Some(metadata), path);
    written.map_err(|error| match error {
        SafeTensorError::IoError(error) => Error::file("write the tensors", path)(error),
        error => Error::format(path, format!("could not write the tensors: {error}")),
    })
}

/// The room on the disk of a path, which need not be there yet. Nothing where the system does not say.
pub fn free_bytes(path: &Path) -> Option<u64> {
    let existing = path.ancestors().find(|folder| folder.exists())?;
    fs4::available_space(existing).ok()
}

/// Writes JSON into a folder that is being made.
pub fn write_json(path: &Path, json: &Json) -> Result<()> {
    write_file(path, format!("{json:#}\n").as_bytes())
}

/// Bytes of all files in a folder.
pub fn folder_bytes(path: &Path) -> Result<u64> {
    let entries = fs::read_dir(path).map_err(Error::file("read the folder", path))?;
    let size = |entry: std::io::Result<fs::DirEntry>| {
        let metadata = entry.and_then(|entry| entry.metadata());
        metadata
            .map(|it| it.len())
            .map_err(Error::file("look at a file of the folder", path))
    };
    entries.map(size).sum()
}

/// Gives a damaged file or folder a name under which nobody takes it for a whole one: `name.damaged`, or with a number
/// where that is taken. Returns its new path.
pub fn put_aside(path: &Path) -> Result<PathBuf> {
    let name = name_of(path);
    let mut aside = path.with_file_name(format!("{name}.damaged"));
    for number in 2.. {
        if !aside.exists() {
            break;
        }
        aside = path.with_file_name(format!("{name}.damaged-{number}"));
    }
    fs::rename(path, &aside).map_err(Error::file("put what is damaged aside", path))?;
    Ok(aside)
}

/// The last part of a path, for people.
pub fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// `.name.purpose` beside `name`.
fn beside(path: &Path, purpose: &str) -> PathBuf {
    path.with_file_name(format!(".{}.{purpose}", name_of(path)))
}

/// Waits until the disk has a folder with all files in it. Without their bytes, a name is kept by a power cut and leads to an
/// empty file.
fn sync_files(folder: &Path) -> Result<()> {
    let entries = fs::read_dir(folder).map_err(Error::file("read the folder", folder))?;
    for entry in entries {
        let path = entry
            .map_err(Error::file("read the folder", folder))?
            .path();
        match path.is_dir() {
            true => sync_files(&path)?,
            false => sync_file(&path)?,
        }
    }
    sync_folder(folder)
}

/// Waits until the disk has a file.
fn sync_file(path: &Path) -> Result<()> {
    // Windows lets only who may write have a file flushed.
    let file = File::options().write(true).open(path);
    file.and_then(|file| file.sync_all())
        .map_err(Error::file("write the file to disk", path))
}

/// Waits until the disk knows what a path names.
fn sync_parent(path: &Path) -> Result<()> {
    match path.parent() {
        // A bare name lies where the program works.
        Some(folder) if folder.as_os_str().is_empty() => sync_folder(Path::new(".")),
        Some(folder) => sync_folder(folder),
        None => Ok(()),
    }
}

/// Waits until the disk has a folder's list of names. Windows has no such call and needs none.
fn sync_folder(path: &Path) -> Result<()> {
    if cfg!(windows) {
        return Ok(());
    }
    let folder = File::open(path).map_err(Error::file("open the folder", path))?;
    folder
        .sync_all()
        .map_err(Error::file("write the folder to disk", path))
}
