//! Data that the user added: where it lies and how it is read. The data itself stays where it is.

use std::{
    fs,
    path::{Path, PathBuf},
};

use models::{
    data::{DataRequest, not_text},
    random::stable_hash,
    tasks::recognized,
};
use serde::{Deserialize, Serialize};

use super::{naming, paths::Paths, read_list, write_file, write_json};
use crate::wire::error::{AppError, Result};

/// What pasted text is called.
const PASTED: &str = "Pasted text";

/// Some data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct DataSet {
    /// Stays the same when its reading changes.
    pub(crate) id: String,
    /// How it is called: like its file or folder, and like no other when it was added.
    pub(crate) name: String,
    /// The files, and how they are read.
    pub(crate) request: DataRequest,
    /// When it was added, in UTC.
    pub(crate) added: String,
}

/// All of them, the newest first.
pub(crate) fn list(paths: &Paths) -> Result<Vec<DataSet>> {
    read_list(&paths.data_sets, "list of data")
}

/// The one with an id.
pub(crate) fn find(paths: &Paths, id: &str) -> Result<DataSet> {
    let found = list(paths)?.into_iter().find(|it| it.id == id);
    found.ok_or_else(|| AppError::invalid("this data is not in the list any more"))
}

/// Adds a file or folder. One that was added before is moved to the front and keeps how it is read.
pub(crate) fn add(paths: &Paths, path: &Path) -> Result<DataSet> {
    let path = std::path::absolute(path).map_err(AppError::file("find the data", path))?;
    if !path.exists() {
        let path = path.display();
        return Err(AppError::invalid(format!(
            "the file is not there: `{path}`"
        )));
    }
    if path.is_file() && recognized(&path).is_none() {
        not_text::check_name(&path)?;
    }
    add_files(paths, naming::of_data(&path), vec![path])
}

/// Adds files under one name, with a number where that is taken. Those that were added before are moved to the front and keep how they are read.
pub(crate) fn add_files(paths: &Paths, name: String, files: Vec<PathBuf>) -> Result<DataSet> {
    let mut sets = list(paths)?;
    let known = sets.iter().position(|set| set.request.paths == files);
    let set = match known {
        Some(at) => sets.remove(at),
        None => DataSet {
            id: format!("{:08x}", id_of(&files)),
            name: naming::numbered(&name, |name| sets.iter().any(|set| set.name == name)),
            request: DataRequest {
                paths: files,
                ..DataRequest::default()
            },
            added: super::now(),
        },
    };
    sets.insert(0, set.clone());
    write_json(&paths.data_sets, &sets)?;
    Ok(set)
}

/// Keeps a text that was pasted in a file of its own, and adds that.
pub(crate) fn add_text(paths: &Paths, text: &str) -> Result<DataSet> {
    if text.trim().is_empty() {
        return Err(AppError::invalid("there is no text to add"));
    }
    let is_rows = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .all(|line| serde_json::from_str::<serde_json::Map<_, _>>(line).is_ok());
    let ending = if is_rows { "jsonl" } else { "txt" };
    let now = jiff::Zoned::now().strftime("%Y-%m-%d-%H%M%S").to_string();
    let number = stable_hash(0, text.as_bytes()) & 0xffff;
    let path = paths
        .data
        .join(format!("pasted-{now}-{number:04x}.{ending}"));
    write_file(&path, text.as_bytes())?;
    add_files(paths, PASTED.to_owned(), vec![path])
}

/// Changes how data is read.
pub(crate) fn change(paths: &Paths, id: &str, request: DataRequest) -> Result<DataSet> {
    let mut sets = list(paths)?;
    let set = sets.iter_mut().find(|set| set.id == id);
    let set = set.ok_or_else(|| AppError::invalid("this data is not in the list any more"))?;
    set.request = DataRequest {
        paths: set.request.paths.clone(),
        ..request
    };
    let changed = set.clone();
    write_json(&paths.data_sets, &sets)?;
    Ok(changed)
}

/// Takes data out of the list. Its files stay, save those that were pasted, which the app made itself.
pub(crate) fn remove(paths: &Paths, id: &str) -> Result<()> {
    let set = find(paths, id)?;
    let mut sets = list(paths)?;
    sets.retain(|it| it.id != id);
    write_json(&paths.data_sets, &sets)?;
    for path in set.request.paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.parent() == Some(&paths.data) && name.starts_with("pasted-") {
            fs::remove_file(&path).map_err(AppError::file("delete the pasted text", &path))?;
        }
    }
    Ok(())
}

fn id_of(files: &[PathBuf]) -> u64 {
    let hash = |seed, path: &PathBuf| stable_hash(seed, path.as_os_str().as_encoded_bytes());
    files.iter().fold(0, hash) & 0xffff_ffff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_added_once_changed_and_forgotten_while_its_file_stays() {
        let home = tempfile::tempdir().unwrap();
        let paths = Paths::new(Some(home.path())).unwrap();
        let file = home.path().join("notes.txt");
        fs::write(&file, "Hot steel.\n").unwrap();
        let first = add(&paths, &file).unwrap();
        let pasted = add_text(&paths, "{\"text\": \"a\"}\n").unwrap();
        assert_eq!(
            (first.name.as_str(), pasted.name.as_str()),
            ("notes", "Pasted text")
        );
        let request = DataRequest {
            encoding: Some("latin-1".to_owned()),
            ..DataRequest::default()
        };
        change(&paths, &first.id, request).unwrap();
        let again = add(&paths, &file).unwrap();
        assert_eq!(again.request.encoding.as_deref(), Some("latin-1"));
        assert_eq!(again.request.paths, std::slice::from_ref(&file));
        assert_eq!(list(&paths).unwrap().len(), 2);

        remove(&paths, &first.id).unwrap();
        remove(&paths, &pasted.id).unwrap();
        assert!(list(&paths).unwrap().is_empty());
        assert!(file.exists());
        assert!(!pasted.request.paths[0].exists());
    }

    #[test]
    fn data_of_one_name_is_told_apart_and_a_picture_is_no_data() {
        let home = tempfile::tempdir().unwrap();
        let paths = Paths::new(Some(home.path())).unwrap();
        let add = |name: &str| {
            let file = home.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, "x").unwrap();
            add(&paths, &file).map(|set| set.name)
        };
        assert_eq!(add("gsm8k/train.jsonl").unwrap(), "gsm8k · train");
        assert_eq!(add("songs/train.jsonl").unwrap(), "songs · train");
        assert_eq!(add("a/support.jsonl").unwrap(), "support");
        assert_eq!(add("b/support.csv").unwrap(), "support 2");
        assert_eq!(
            add("a/support.jsonl").unwrap(),
            "support",
            "it was there already"
        );
        let refused = add("pic.png").unwrap_err();
        assert!(
            refused.message.starts_with("pic.png is a picture; "),
            "{refused}"
        );
        assert_eq!(list(&paths).unwrap().len(), 4);
    }

    #[test]
    fn what_is_not_there_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let paths = Paths::new(Some(home.path())).unwrap();
        assert!(add(&paths, Path::new("nowhere.txt")).is_err());
        assert!(add_text(&paths, " \n").is_err());
        assert!(remove(&paths, "7").is_err());
    }
}
