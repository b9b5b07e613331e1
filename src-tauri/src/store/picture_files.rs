//! Which files are pictures, by their names, and which files and folders hold pictures to learn from.
//!
//! Deliberately absent: what is in them. Whoever reads them says what is wrong.

use std::{
    fs,
    path::{Path, PathBuf},
};

use models::{data::FileTable, limits, tasks::picture::decode};

use crate::wire::error::{AppError, Result};

/// Files of CIFAR that are in no other folder.
const CIFAR: [&str; 3] = ["data_batch_1", "data_batch_1.bin", "fine_label_names.txt"];
/// So many entries of a folder, and of those in it, say whether it holds pictures.
const LOOKED_AT: usize = 2_000;

/// Whether a file is a picture by its name.
pub(crate) fn is_picture(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    // What begins with a dot and has no other is a name, and no ending.
    path.extension().is_some() && decode::is_picture(&name.to_string_lossy())
}

/// Whether a name is one that nobody gave: hidden, or left by a system.
fn is_left(name: &str) -> bool {
    name.starts_with('.') || name == "__MACOSX"
}

/// What is in a folder, in the order of the code points of the names, without what nobody put there.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = || AppError::file("look into the folder", folder);
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed())? {
        let entry = entry.map_err(failed())?;
        if !is_left(&entry.file_name().to_string_lossy()) {
            paths.push(entry.path());
        }
    }
    paths.sort();
    Ok(paths)
}

/// The pictures that paths mean: a file is itself, a folder is every picture in it and below.
pub(crate) fn pictures_in(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    found_in(paths, is_picture)
}

/// The files that paths mean, whatever they are.
pub(crate) fn files_in(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    found_in(paths, |_| true)
}

fn found_in(paths: &[PathBuf], is_wanted: fn(&Path) -> bool) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in paths {
        match path.is_dir() {
            true => collect(path, 1, is_wanted, &mut found)?,
            false => found.push(path.clone()),
        }
    }
    Ok(found)
}

fn collect(
    folder: &Path,
    depth: u64,
    is_wanted: fn(&Path) -> bool,
    found: &mut Vec<PathBuf>,
) -> Result<()> {
    if let Some(problem) = limits::PICTURE_DEPTH.exceeded(depth) {
        return Err(AppError::invalid(format!(
            "the depth of the folder {problem}: `{}`",
            folder.display()
        )));
    }
    for path in entries(folder)? {
        match path.is_dir() {
            true => collect(&path, depth + 1, is_wanted, found)?,
            false if is_wanted(&path) => found.push(path),
            false => {}
        }
    }
    Ok(())
}

/// Whether a file or folder holds pictures to learn from, by the names in it. A single picture is none: it has no class.
pub(crate) fn holds_pictures(path: &Path) -> bool {
    match path.is_dir() {
        true => folder_holds(path),
        false => holds_many(path),
    }
}

/// Whether a file holds many pictures: an array of the MNIST family, an archive or a batch of CIFAR, or a table with a column of files.
fn holds_many(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.to_lowercase();
    let is_packed = name.ends_with(".tar.gz") || name.ends_with(".tgz");
    let is_idx = name.contains("images") && (name.contains("idx") || name.contains("ubyte"));
    let is_cifar = (name.contains("cifar") && is_packed) || CIFAR.contains(&name.as_str());
    let is_table = || name.ends_with(".parquet") && FileTable::open(path, false).is_ok();
    path.is_file() && (is_idx || is_cifar || is_table())
}

fn folder_holds(folder: &Path) -> bool {
    let mut waiting = vec![folder.to_owned()];
    let mut left = LOOKED_AT;
    while let Some(next) = waiting.pop() {
        for path in entries(&next).unwrap_or_default() {
            left = left.saturating_sub(1);
            match path.is_dir() {
                _ if left == 0 => return false,
                true => waiting.push(path),
                false if is_picture(&path) || holds_many(&path) => return true,
                false => {}
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(files: &[&str]) -> tempfile::TempDir {
        let home = tempfile::tempdir().unwrap();
        for file in files {
            let path = home.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        home
    }

    #[test]
    fn a_folder_means_its_pictures_in_order_and_a_file_itself() {
        let home = made(&[
            "b/2.PNG",
            "b/1.jpeg",
            "b/notes.txt",
            "a.heic",
            ".hidden.png",
            "__MACOSX/c.png",
            "B/3.gif",
        ]);
        let found = pictures_in(&[home.path().to_owned(), home.path().join("b/notes.txt")]);
        let names: Vec<String> = found
            .unwrap()
            .iter()
            .map(|it| {
                let name = it.strip_prefix(home.path()).unwrap().display().to_string();
                name.replace(std::path::MAIN_SEPARATOR, "/")
            })
            .collect();
        assert_eq!(
            names,
            ["B/3.gif", "a.heic", "b/1.jpeg", "b/2.PNG", "b/notes.txt"]
        );
        assert!(pictures_in(&[home.path().join("nowhere")]).is_ok_and(|it| it.len() == 1));
    }

    #[test]
    fn pictures_to_learn_from_are_known_by_the_names_in_a_folder() {
        for (files, expected) in [
            (&["cats/1.jpg", "dogs/2.jpg"][..], true),
            (&["train/cats/1.webp"], true),
            (&["train-images-idx3-ubyte.gz"], true),
            (&["cifar-10-batches-bin/data_batch_1.bin"], true),
            (&["train.bin", "fine_label_names.txt"], true),
            (&["train.bin"], false),
            (&["rows.parquet"], false),
            (&["rows.jsonl", "notes.txt"], false),
            (&[".thumbnails/1.png"], false),
        ] {
            assert_eq!(holds_pictures(made(files).path()), expected, "{files:?}");
        }
        let home = made(&["a.png", "t10k-images-idx3-ubyte"]);
        assert!(!holds_pictures(&home.path().join("a.png")));
        assert!(holds_pictures(&home.path().join("t10k-images-idx3-ubyte")));
    }
}
