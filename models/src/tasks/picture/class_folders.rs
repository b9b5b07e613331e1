//! Pictures in folders: one for each class, or one of all with a list of their labels.
//!
//! - `root/<class>/**/<picture>`, in the order of the code points of the classes; above may stand `train/`, `val/` and `test/`
//! - `root/metadata.csv` or `metadata.jsonl` with `file_name`, `label`, and `group` where pictures belong together
//!
//! Beside folders of classes, `root/groups.csv` with `file_name` and `group` says which belong together.
//!
//! What is hidden, and what systems leave in folders, is passed over. A class without a picture is an error: it is more often a mistake
//! than meant.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value};

use super::{
    decode::is_picture,
    source::{Found, Problem, Row, Side},
    store::Contents,
};
use crate::{Error, Result, figures::counted, limits, random::stable_hash};

/// Names of folders that say what their pictures are for.
const SIDES: [(&str, Side); 6] = [
    ("train", Side::Train),
    ("training", Side::Train),
    ("val", Side::HeldOut),
    ("valid", Side::HeldOut),
    ("validation", Side::HeldOut),
    ("test", Side::Test),
];
/// What systems leave in folders. What begins with a dot is passed over as well.
const LEFTOVERS: [&str; 3] = ["Thumbs.db", "desktop.ini", "__MACOSX"];
/// Lists of labels.
const LISTS: [&str; 2] = ["metadata.csv", "metadata.jsonl"];

/// The list of what belongs together, beside folders of classes.
const GROUPS: &str = "groups.csv";

/// Whether a name is one that nobody gave: hidden, or left by a system.
pub(super) fn is_left(name: &str) -> bool {
    name.starts_with('.') || LEFTOVERS.contains(&name)
}

/// What a folder holds, by name.
#[derive(Default)]
struct Listing {
    folders: Vec<(String, PathBuf)>,
    files: Vec<(String, PathBuf)>,
}

impl Listing {
    fn of(folder: &Path) -> Result<Self> {
        let failed = || Error::file("look into the folder", folder);
        let mut listing = Self::default();
        for entry in fs::read_dir(folder).map_err(failed())? {
            let entry = entry.map_err(failed())?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if is_left(&name) {
                continue;
            }
            let path = entry.path();
            match path.is_dir() {
                true => listing.folders.push((name, path)),
                false => listing.files.push((name, path)),
            }
        }
        // Code points, not what a language or a disk thinks of them.
        listing.folders.sort();
        listing.files.sort();
        Ok(listing)
    }

    fn list(&self) -> Option<&Path> {
        let file = self
            .files
            .iter()
            .find(|(name, _)| LISTS.contains(&name.as_str()));
        file.map(|(_, path)| path.as_path())
    }
}

/// What was found in a folder so far: for each picture its class by name.
struct Reading<'a> {
    root: &'a Path,
    rows: Vec<(Row, String, PathBuf)>,
    problems: Vec<Problem>,
}

/// Reads the names of the pictures of a folder, with their classes.
pub(super) fn read(root: &Path) -> Result<Found> {
    let mut reading = Reading {
        root,
        rows: Vec::new(),
        problems: Vec::new(),
    };
    let listing = Listing::of(root)?;
    let side = |name: &str| {
        let name = name.to_lowercase();
        SIDES.iter().find(|(it, _)| *it == name).map(|it| it.1)
    };
    let is_split = !listing.folders.is_empty()
        && listing.folders.iter().all(|(name, _)| side(name).is_some())
        && listing
            .folders
            .iter()
            .any(|(name, _)| side(name) == Some(Side::Train));
    if is_split && listing.list().is_none() {
        reading.pass_over(&listing.files);
        for (name, folder) in &listing.folders {
            let side = side(name).unwrap_or(Side::Train);
            reading.part(&Listing::of(folder)?, folder, side)?;
        }
    } else {
        reading.part(&listing, root, Side::Train)?;
    }
    let groups = root.join(GROUPS);
    if groups.is_file() {
        reading.group(&groups)?;
    }
    reading.finish()
}

impl Reading<'_> {
    /// Reads a folder of classes, or one with a list.
    fn part(&mut self, listing: &Listing, folder: &Path, side: Side) -> Result<()> {
        if let Some(list) = listing.list() {
            return self.listed(list, folder, side);
        }
        if listing.folders.is_empty() {
            let pictures = listing
                .files
                .iter()
                .filter(|(name, _)| is_picture(name))
                .count();
            let problem = format!(
                "has {} and no folder for each class, nor a {}",
                counted(pictures as u64, "picture"),
                LISTS.join(" or ")
            );
            return Err(Error::format(folder, problem));
        }
        self.pass_over(&listing.files);
        for (class, folder) in &listing.folders {
            let before = self.rows.len();
            self.pictures(class, folder, side, 0)?;
            if self.rows.len() == before {
                let problem = format!(
                    "the class `{class}` has no picture; remove the folder, or put pictures into it"
                );
                return Err(Error::format(folder, problem));
            }
        }
        Ok(())
    }

    /// Reads the pictures of a class, in all folders of it.
    fn pictures(&mut self, class: &str, folder: &Path, side: Side, depth: u64) -> Result<()> {
        if let Some(problem) = limits::PICTURE_DEPTH.exceeded(depth) {
            return Err(Error::format(
                folder,
                format!("the depth of folders {problem}"),
            ));
        }
        let listing = Listing::of(folder)?;
        for (name, path) in listing.files {
            match is_picture(&name) {
                true => self.add(path, class, side, None)?,
                false => self.problem(&path, "is no picture by its name, and was passed over"),
            }
        }
        for (_, folder) in listing.folders {
            self.pictures(class, &folder, side, depth + 1)?;
        }
        Ok(())
    }

    fn add(&mut self, path: PathBuf, class: &str, side: Side, group: Option<u64>) -> Result<()> {
        if let Some(problem) = limits::PICTURES.exceeded(self.rows.len() as u64 + 1) {
            return Err(Error::format(
                self.root,
                format!("its number of pictures {problem}"),
            ));
        }
        let row = Row {
            name: self.name(&path),
            label: 0,
            side,
            group,
        };
        self.rows.push((row, class.to_owned(), path));
        Ok(())
    }

    /// Says of pictures that stand beside the folders of classes that they are of none.
    fn pass_over(&mut self, files: &[(String, PathBuf)]) {
        for (_, path) in files.iter().filter(|(name, _)| is_picture(name)) {
            self.problem(path, "stands in no folder of a class, and was passed over");
        }
    }

    fn problem(&mut self, path: &Path, problem: &str) {
        let name = self.name(path);
        self.problems.push(Problem {
            name,
            problem: problem.to_owned(),
        });
    }

    /// Where a file is, from the root on, the same on every system.
    fn name(&self, path: &Path) -> String {
        let inner = path.strip_prefix(self.root).unwrap_or(path);
        let parts = inner
            .components()
            .map(|it| it.as_os_str().to_string_lossy());
        parts.collect::<Vec<_>>().join("/")
    }

    /// Reads a list of labels.
    fn listed(&mut self, list: &Path, folder: &Path, side: Side) -> Result<()> {
        for Record { path, values, .. } in records(list, folder)? {
            match values.text("label") {
                Some(label) if path.is_file() => self.add(path, &label, side, values.group())?,
                Some(_) => self.problem(&path, "is named by the list of labels, and not there"),
                None => self.problem(&path, "has no label in the list, and was passed over"),
            }
        }
        Ok(())
    }

    /// Reads which pictures belong together. One that the list does not name is a group of its own.
    fn group(&mut self, list: &Path) -> Result<()> {
        let mut groups = BTreeMap::new();
        for Record { line, path, values } in records(list, self.root)? {
            let missing = || Error::format(list, format!("line {line}: has no `group`"));
            groups.insert(path, values.group().ok_or_else(missing)?);
        }
        for (row, _, path) in &mut self.rows {
            row.group = groups.remove(path).or(row.group);
        }
        for path in groups.into_keys() {
            self.problem(
                &path,
                "is named by groups.csv, and is no picture of a class",
            );
        }
        Ok(())
    }

    fn finish(self) -> Result<Found> {
        let classes: BTreeSet<&str> = self
            .rows
            .iter()
            .map(|(_, class, _)| class.as_str())
            .collect();
        let classes: Vec<String> = classes.into_iter().map(str::to_owned).collect();
        let (mut rows, mut files) = (Vec::new(), Vec::new());
        for (row, class, path) in self.rows {
            let label = classes.binary_search(&class).unwrap_or_default() as u32;
            rows.push(Row { label, ..row });
            files.push(path);
        }
        Ok(Found {
            classes,
            rows,
            contents: Contents::Files(files),
            problems: self.problems,
        })
    }
}

/// A file that a list names, which has to be in the folder.
fn inside(folder: &Path, name: &str) -> std::result::Result<PathBuf, String> {
    let inner = Path::new(name);
    let is_inside = inner
        .components()
        .all(|it| matches!(it, std::path::Component::Normal(_)));
    match is_inside {
        true => Ok(folder.join(inner)),
        false => Err(format!("`{name}` is not in the folder of the list")),
    }
}

/// A row of a list about pictures.
struct Record {
    line: u64,
    path: PathBuf,
    values: Values,
}

/// The values of a row, by the names of the columns.
struct Values(Map<String, Value>);

impl Values {
    fn text(&self, name: &str) -> Option<String> {
        match self.0.get(name) {
            Some(Value::String(text)) => Some(text.trim().to_owned()).filter(|it| !it.is_empty()),
            Some(Value::Null) | None => None,
            Some(other) => Some(other.to_string()),
        }
    }

    /// What stands for the group.
    fn group(&self) -> Option<u64> {
        self.text("group").map(|it| stable_hash(0, it.as_bytes()))
    }
}

/// The rows of a list about pictures of a folder, each of another picture.
fn records(list: &Path, folder: &Path) -> Result<Vec<Record>> {
    let mut seen = BTreeSet::new();
    let record = |(line, values)| {
        let wrong = |problem: String| Error::format(list, format!("line {line}: {problem}"));
        let values = Values(values);
        let name = values.text("file_name");
        let name = name.ok_or_else(|| wrong("has no `file_name`".to_owned()))?;
        let path = inside(folder, &name).map_err(wrong)?;
        match seen.insert(path.clone()) {
            true => Ok(Record { line, path, values }),
            false => Err(wrong(format!("`{name}` is named a second time"))),
        }
    };
    lines(list)?.into_iter().map(record).collect()
}

/// The rows of a list, each with its line.
fn lines(list: &Path) -> Result<Vec<(u64, Map<String, Value>)>> {
    let bytes = limits::PICTURE_METADATA.read(list, "read the list of labels")?;
    let wrong = |line: u64, problem: String| Error::format(list, format!("line {line}: {problem}"));
    if list.extension().is_some_and(|it| it == "jsonl") {
        let lines = bytes.split(|it| *it == b'\n').zip(1..);
        let lines = lines.filter(|(line, _)| !line.trim_ascii().is_empty());
        let record = |(line, number): (&[u8], u64)| {
            let record = serde_json::from_slice(line);
            Ok((
                number,
                record.map_err(|error| wrong(number, error.to_string()))?,
            ))
        };
        return lines.map(record).collect();
    }
    let mut table = csv::Reader::from_reader(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes));
    let unread =
        |error: csv::Error| Error::format(list, format!("can’t be read as a table: {error}"));
    let header = table.headers().map_err(unread)?.clone();
    let record = |record: csv::Result<csv::StringRecord>| {
        let record = record.map_err(unread)?;
        let line = record.position().map_or(0, csv::Position::line);
        let values = header.iter().zip(&record);
        let values = values.map(|(name, value)| (name.trim().to_owned(), Value::from(value)));
        Ok((line, values.collect()))
    };
    table.records().map(record).collect()
}
