//! Whether a file or folder holds pictures to learn from, by the names in it.
//!
//! Deliberately absent: what is in them. Whoever reads them says what is wrong.

use std::{fs, path::Path};

use super::{class_folders::is_left, decode::is_picture};
use crate::data::FileTable;

/// Files of CIFAR that are in no other folder.
const CIFAR: [&str; 3] = ["data_batch_1", "data_batch_1.bin", "fine_label_names.txt"];
/// So many entries of a folder, and of those in it, say whether it holds pictures.
const LOOKED_AT: usize = 2_000;
/// Of so many files one is a picture, in a folder of pictures: each may have some words beside it. A folder of texts with a drawing here
/// and there has fewer.
const ONE_OF: usize = 4;

/// Whether a file or folder holds pictures to learn from. A single picture is none: it has no class.
pub fn holds_pictures(path: &Path) -> bool {
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
    let (mut entries, mut files, mut pictures) = (0, 0, 0);
    while let Some(next) = waiting.pop() {
        let found = fs::read_dir(&next).into_iter().flatten().flatten();
        let mut found: Vec<_> = found.map(|it| it.path()).collect();
        // Each system has them in an order of its own.
        found.sort();
        for path in found {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if is_left(&name) {
                continue;
            }
            entries += 1;
            if entries > LOOKED_AT {
                return is_enough(pictures, files);
            }
            if path.is_dir() {
                waiting.push(path.clone());
                continue;
            }
            if holds_many(&path) {
                return true;
            }
            files += 1;
            pictures += usize::from(is_picture(&name));
        }
    }
    is_enough(pictures, files)
}

fn is_enough(pictures: usize, files: usize) -> bool {
    pictures > 0 && pictures * ONE_OF >= files
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
            (&["cats/1.jpg", "cats/1.txt", "cats/1.json"], true),
            (&["1.md", "2.md", "3.md", "4.md", "sketch.png"], false),
        ] {
            assert_eq!(holds_pictures(made(files).path()), expected, "{files:?}");
        }
        let home = made(&["a.png", "t10k-images-idx3-ubyte"]);
        assert!(!holds_pictures(&home.path().join("a.png")));
        assert!(holds_pictures(&home.path().join("t10k-images-idx3-ubyte")));
    }
}
