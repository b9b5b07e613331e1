//! Pictures in Parquet files, as the Hub has them: a column of files, and one of labels beside it.
//!
//! Labels are whole numbers, -1 where there is none, whose names the footer says; or they are the names themselves. What a file is for
//! is told by its name, or that of its folder: `test-00000-of-00001.parquet`, `validation/0000.parquet`.
//!
//! Deliberately absent: the list of names on the card of a data set, and pictures that a row only names.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value};

use super::{
    source::{Found, Problem, Row, Side},
    store::Contents,
};
use crate::{Error, Result, data::FileTable, limits};

/// Names of the column of labels. Of a fine and a coarse one, the fine is learned.
const LABELS: [&str; 6] = [
    "label",
    "labels",
    "fine_label",
    "class",
    "target",
    "category",
];
/// Beginnings of the names of files, and of folders, that say what is in them.
const SIDES: [(&str, Side); 4] = [
    ("train", Side::Train),
    ("val", Side::HeldOut),
    ("dev", Side::HeldOut),
    ("test", Side::Test),
];
/// Files stand so many folders below the one that is named, at most.
const MAX_DEPTH: usize = 3;
const ENDING: &str = "parquet";

/// The Parquet files at a path: it, or those in it.
pub(super) fn files(path: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    match path.is_dir() {
        true => collect(path, 0, &mut files)?,
        false if is_parquet(path) => files.push(path.to_owned()),
        false => {}
    }
    files.sort();
    Ok(files)
}

fn is_parquet(path: &Path) -> bool {
    path.extension().is_some_and(|it| it == ENDING)
}

fn collect(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<()> {
    let failed = || Error::file("look into the folder", folder);
    let mut folders = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed())? {
        let entry = entry.map_err(failed())?;
        let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
        let path = entry.path();
        match path.is_dir() {
            _ if is_hidden => {}
            true => folders.push(path),
            false if is_parquet(&path) => files.push(path),
            false => {}
        }
    }
    // Folders of classes can be many, and have no tables in them.
    if depth < MAX_DEPTH && folders.len() <= 16 {
        for folder in folders {
            collect(&folder, depth + 1, files)?;
        }
    }
    Ok(())
}

/// Reads the labels of tables below a path.
pub(super) fn read(root: &Path, files: &[PathBuf]) -> Result<Vec<Found>> {
    let mut counts = [0; 3];
    files
        .iter()
        .map(|file| read_file(root, file, &mut counts))
        .collect()
}

/// What the pictures of a file are for, and how its rows are called.
fn side_of(root: &Path, file: &Path) -> (Side, &'static str) {
    let inner = file.strip_prefix(root).unwrap_or(file);
    let own = file.file_name().into_iter();
    let names = inner
        .iter()
        .rev()
        .chain(own)
        .map(|it| it.to_string_lossy().to_lowercase());
    let known = |name: String| {
        SIDES
            .iter()
            .find(|(it, _)| name.starts_with(it))
            .map(|it| it.1)
    };
    let side = names.into_iter().find_map(known).unwrap_or(Side::Train);
    match side {
        Side::Train => (side, "train"),
        Side::HeldOut => (side, "validation"),
        Side::Test => (side, "test"),
    }
}

fn read_file(root: &Path, file: &Path, counts: &mut [usize; 3]) -> Result<Found> {
    let table = FileTable::open(file, false)?;
    let wrong = |problem: String| Error::format(file, problem);
    let columns = table.columns();
    let column = LABELS
        .iter()
        .find(|it| columns.iter().any(|column| column == *it));
    let column = *column.ok_or_else(|| {
        let (known, found) = (LABELS.join(", "), columns.join(", "));
        wrong(format!(
            "has no column of labels ({known}); its columns are: {found}"
        ))
    })?;
    if let Some(problem) = limits::PICTURES.exceeded(table.num_rows()) {
        return Err(wrong(format!("its number of rows {problem}")));
    }
    let (side, part) = side_of(root, file);
    let (mut labels, mut problems) = (Vec::new(), Vec::new());
    for row in table.rows() {
        let row = row.map_err(wrong)?;
        let count = &mut counts[side as usize];
        *count += 1;
        let name = format!("{part} row {count}");
        let label =
            label(&row.values, column).map_err(|problem| wrong(format!("{name}: {problem}")))?;
        if label.is_none() {
            let problem = "has no label, and was passed over".to_owned();
            problems.push(Problem {
                name: name.clone(),
                problem,
            });
        }
        labels.push((name, label));
    }
    let named = names(table.features(), column);
    let classes = classes(&labels, named).map_err(wrong)?;
    let is_wanted = labels.iter().map(|(_, label)| label.is_some()).collect();
    let rows = labels.into_iter().filter_map(|(name, label)| {
        let label = match label? {
            Label::Number(number) => number,
            Label::Name(name) => classes.binary_search(&name).ok()? as u32,
        };
        Some(Row {
            name,
            label,
            side,
            group: None,
        })
    });
    Ok(Found {
        rows: rows.collect(),
        classes,
        contents: Contents::Rows {
            file: file.to_owned(),
            is_wanted,
        },
        problems,
    })
}

/// The class of a row.
enum Label {
    Number(u32),
    Name(String),
}

fn label(values: &Map<String, Value>, column: &str) -> Result<Option<Label>, String> {
    match values.get(column) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(name)) => Ok(Some(Label::Name(name.clone()))),
        Some(Value::Number(number)) => match number.as_i64() {
            Some(-1) => Ok(None),
            Some(number) if (0..=i64::from(u16::MAX)).contains(&number) => {
                Ok(Some(Label::Number(number as u32)))
            }
            _ => Err(format!(
                "`{column}` is {number}, and labels are from 0 to {}",
                u16::MAX
            )),
        },
        Some(other) => Err(format!("`{column}` is {other}, which is no label")),
    }
}

/// The names that the footer has for the numbers of a column.
fn names(features: Option<Value>, column: &str) -> Option<Vec<String>> {
    let features = features?;
    let names = features.get(column)?.get("names")?.as_array()?;
    names
        .iter()
        .map(|it| it.as_str().map(str::to_owned))
        .collect()
}

/// The classes of these labels: the names for them, the numbers, or the texts themselves in the order of code points.
fn classes(
    labels: &[(String, Option<Label>)],
    named: Option<Vec<String>>,
) -> Result<Vec<String>, String> {
    let labels = || labels.iter().filter_map(|(_, label)| label.as_ref());
    let numbers = labels().filter_map(|it| match it {
        Label::Number(number) => Some(*number as usize + 1),
        Label::Name(_) => None,
    });
    let texts = labels().filter_map(|it| match it {
        Label::Name(name) => Some(name.as_str()),
        Label::Number(_) => None,
    });
    let (least, texts) = (numbers.max().unwrap_or(0), texts.collect::<BTreeSet<_>>());
    match named {
        _ if least > 0 && !texts.is_empty() => {
            Err("has labels that are numbers and others that are texts".to_owned())
        }
        _ if !texts.is_empty() => Ok(texts.into_iter().map(str::to_owned).collect()),
        Some(names) if names.len() < least => Err(format!(
            "names {} classes, and has the label {}",
            names.len(),
            least - 1
        )),
        Some(names) => Ok(names),
        None => Ok((0..least).map(|it| it.to_string()).collect()),
    }
}

/// Hands over the bytes of the pictures that are wanted, so many at once and in their order, or why a row has none.
pub(super) fn each_part(
    file: &Path,
    is_wanted: &[bool],
    at_once: usize,
    mut take: impl FnMut(Vec<Result<Vec<u8>, String>>) -> Result<()>,
) -> Result<()> {
    let wrong = |problem: String| Error::format(file, problem);
    let table = FileTable::open(file, true)?;
    let (mut part, mut rows) = (Vec::new(), 0);
    for (row, is_wanted) in table.rows().zip(is_wanted) {
        let row = row.map_err(wrong)?;
        rows += 1;
        if !is_wanted {
            continue;
        }
        part.push(match (row.bytes, row.path) {
            (Some(bytes), _) => Ok(bytes),
            (None, Some(path)) => Err(format!(
                "is not in the Parquet file, which only names it: `{path}`; download the pictures as well"
            )),
            (None, None) => Err("is missing in its row".to_owned()),
        });
        if part.len() == at_once {
            take(std::mem::take(&mut part))?;
        }
    }
    match rows == is_wanted.len() {
        true => take(part),
        false => Err(wrong(format!(
            "has {rows} rows of pictures and {} of labels",
            is_wanted.len()
        ))),
    }
}
