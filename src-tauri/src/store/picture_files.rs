//! Which files are pictures, by their names.
//!
//! Deliberately absent: what is in them. Whoever reads them says what is wrong.

use std::{
    fs,
    path::{Path, PathBuf},
};

use models::{limits, tasks::picture::decode};

use crate::wire::error::{AppError, Result};

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
}
