//! CIFAR-10 and CIFAR-100, as their author packs them (<https://www.cs.toronto.edu/~kriz/cifar.html>): the binary files or those of
//! Python, in a folder or in the archive as it is downloaded.
//!
//! A record is a label, or a coarse and a fine one, and 32 x 32 pixels: all red, all green, all blue, row by row. Of CIFAR-100, the fine
//! labels are learned.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufReader, Read},
    path::{Path, PathBuf},
};

use flate2::bufread::MultiGzDecoder;

use super::{
    cifar_pickle::Pickle,
    pixels::Shape,
    source::{Found, Row, Side},
    store::Contents,
};
use crate::{Error, Result, figures::count, limits};

/// The size of all.
const SHAPE: Shape = Shape::square(32, 3);
/// Folders that the archives unpack to.
const FOLDERS: [&str; 4] = [
    "cifar-10-batches-bin",
    "cifar-10-batches-py",
    "cifar-100-binary",
    "cifar-100-python",
];
/// The name of a file that tells of each layout that it is there, first the one whose names are also those of others.
const LAYOUTS: [Layout; 4] = [
    Layout {
        train: &[
            "data_batch_1.bin",
            "data_batch_2.bin",
            "data_batch_3.bin",
            "data_batch_4.bin",
            "data_batch_5.bin",
        ],
        test: "test_batch.bin",
        names: "batches.meta.txt",
        is_binary: true,
        labels: 1,
    },
    Layout {
        train: &["train.bin"],
        test: "test.bin",
        names: "fine_label_names.txt",
        is_binary: true,
        labels: 2,
    },
    Layout {
        train: &[
            "data_batch_1",
            "data_batch_2",
            "data_batch_3",
            "data_batch_4",
            "data_batch_5",
        ],
        test: "test_batch",
        names: "batches.meta",
        is_binary: false,
        labels: 1,
    },
    Layout {
        train: &["train"],
        test: "test",
        names: "meta",
        is_binary: false,
        labels: 2,
    },
];
/// A block of an archive.
const BLOCK: usize = 512;

/// Which files a data set has.
struct Layout {
    train: &'static [&'static str],
    test: &'static str,
    names: &'static str,
    is_binary: bool,
    /// Labels of a record.
    labels: usize,
}

impl Layout {
    fn files(&self) -> impl Iterator<Item = &'static str> {
        self.train.iter().copied().chain([self.test, self.names])
    }

    /// Whether these names are its files.
    fn fits(&self, has: impl Fn(&str) -> bool) -> bool {
        has(self.train[0]) && (has(self.names) || self.is_binary)
    }
}

/// Where CIFAR is at a path: in a folder, or in an archive.
pub(super) fn place(path: &Path) -> Option<PathBuf> {
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .to_lowercase();
    if path.is_file() {
        let is_archive =
            name.contains("cifar") && (name.ends_with(".tar.gz") || name.ends_with(".tgz"));
        return is_archive.then(|| path.to_owned());
    }
    let mut folders = vec![path.to_owned()];
    folders.extend(FOLDERS.map(|it| path.join(it)));
    let is_one = |folder: &PathBuf| {
        LAYOUTS
            .iter()
            .any(|layout| layout.fits(|name| folder.join(name).is_file()))
    };
    folders.into_iter().find(is_one)
}

/// Reads what [`place`] found.
pub(super) fn read(path: &Path) -> Result<Found> {
    let mut files = match path.is_dir() {
        true => in_folder(path)?,
        false => in_archive(path)?,
    };
    let layout = LAYOUTS
        .iter()
        .find(|layout| layout.fits(|name| files.contains_key(name)));
    let layout = layout
        .ok_or_else(|| Error::format(path, "has none of the files of CIFAR-10 or CIFAR-100"))?;
    let wrong = |file: &str, problem: String| Error::format(path, format!("`{file}` {problem}"));
    let classes = match files.remove(layout.names) {
        Some(bytes) => {
            let names = names(&bytes, layout);
            Some(names.map_err(|problem| wrong(layout.names, problem))?)
        }
        None => None,
    };
    let (mut rows, mut pixels) = (Vec::new(), Vec::new());
    for name in layout.train.iter().copied().chain([layout.test]) {
        let Some(bytes) = files.remove(name) else {
            continue;
        };
        let side = if name == layout.test {
            Side::Test
        } else {
            Side::Train
        };
        let labels = match layout.is_binary {
            true => records(&bytes, layout.labels, &mut pixels),
            false => batch(&bytes, layout.labels, &mut pixels),
        };
        let labels = labels.map_err(|problem| wrong(name, problem))?;
        let part = if side == Side::Test { "test" } else { "train" };
        let before = rows.iter().filter(|row: &&Row| row.side == side).count();
        for (at, label) in labels.into_iter().enumerate() {
            let classes = classes.as_ref().map_or(256, Vec::len);
            if usize::from(label) >= classes {
                let problem = format!(
                    "has the label {label} in record {}, and there are {classes} classes",
                    at + 1
                );
                return Err(wrong(name, problem));
            }
            rows.push(Row {
                name: format!("{part} row {}", before + at + 1),
                label: label.into(),
                side,
                group: None,
            });
        }
    }
    let largest = rows.iter().map(|it| it.label + 1).max().unwrap_or(0);
    Ok(Found {
        classes: classes.unwrap_or_else(|| (0..largest).map(|it| it.to_string()).collect()),
        rows,
        contents: Contents::Pixels {
            shape: SHAPE,
            pixels,
        },
        problems: Vec::new(),
    })
}

/// The files of a folder that are wanted.
fn in_folder(folder: &Path) -> Result<BTreeMap<&'static str, Vec<u8>>> {
    let names = LAYOUTS
        .iter()
        .find(|it| it.fits(|name| folder.join(name).is_file()));
    let mut files = BTreeMap::new();
    for name in names.into_iter().flat_map(Layout::files) {
        let path = folder.join(name);
        if path.is_file() {
            files.insert(
                name,
                limits::PICTURE_PICKLE.read(&path, "read the pictures")?,
            );
        }
    }
    Ok(files)
}

/// The files of an archive that are wanted. An archive is blocks of 512 bytes: for each file one with its name and its size in octal
/// digits, and then its bytes.
fn in_archive(path: &Path) -> Result<BTreeMap<&'static str, Vec<u8>>> {
    let file = File::open(path).map_err(Error::file("read the pictures", path))?;
    let most = limits::PICTURE_ARCHIVE.most;
    // A byte more than the most says that there is more, and nothing after it is unfolded.
    let mut archive = MultiGzDecoder::new(BufReader::new(file)).take(most + 1);
    let wrong = |problem: &str| Error::format(path, format!("is no archive of CIFAR: {problem}"));
    let cut = |error: std::io::Error| wrong(&format!("it ends too early: {error}"));
    let mut files = BTreeMap::new();
    loop {
        let mut header = [0; BLOCK];
        let is_whole = archive.read_exact(&mut header);
        if archive.limit() == 0 {
            let most = count(most);
            return Err(wrong(&format!("it unfolds to more than {most} bytes")));
        }
        is_whole.map_err(cut)?;
        // Two blocks of zeros end it.
        if header.iter().all(|it| *it == 0) {
            return Ok(files);
        }
        let text = |bytes: &[u8]| {
            let end = bytes.iter().position(|it| *it == 0).unwrap_or(bytes.len());
            String::from_utf8_lossy(&bytes[..end]).into_owned()
        };
        let name = text(&header[..100]);
        let size = u64::from_str_radix(text(&header[124..136]).trim(), 8);
        let size = size.map_err(|_| wrong("the size of a file in it is no number"))?;
        let padded = size.next_multiple_of(BLOCK as u64);
        let last = name.rsplit('/').next().unwrap_or_default();
        let wanted = LAYOUTS
            .iter()
            .flat_map(Layout::files)
            .find(|it| *it == last);
        match wanted.filter(|_| header[156] == b'0' || header[156] == 0) {
            Some(wanted) => {
                if let Some(problem) = limits::PICTURE_PICKLE.exceeded(size) {
                    return Err(Error::format(
                        path,
                        format!("the size of `{wanted}` in it {problem}"),
                    ));
                }
                let mut bytes = Vec::new();
                archive
                    .by_ref()
                    .take(padded)
                    .read_to_end(&mut bytes)
                    .map_err(cut)?;
                if bytes.len() as u64 != padded && archive.limit() > 0 {
                    return Err(wrong("it ends too early"));
                }
                bytes.truncate(size as usize);
                files.insert(wanted, bytes);
            }
            None => {
                std::io::copy(&mut archive.by_ref().take(padded), &mut std::io::sink())
                    .map_err(cut)?;
            }
        }
    }
}

/// The names of the classes.
fn names(bytes: &[u8], layout: &Layout) -> Result<Vec<String>, String> {
    if !layout.is_binary {
        return Pickle::read(bytes)?.texts(&["label_names", "fine_label_names"]);
    }
    let text = String::from_utf8_lossy(bytes);
    let lines = text.lines().map(str::trim).filter(|it| !it.is_empty());
    Ok(lines.map(str::to_owned).collect())
}

/// Adds the pixels of a binary file, and gives its labels: the last of each record.
fn records(bytes: &[u8], labels: usize, pixels: &mut Vec<u8>) -> Result<Vec<u8>, String> {
    let size = labels + SHAPE.bytes();
    if !bytes.len().is_multiple_of(size) {
        let found = count(bytes.len() as u64);
        return Err(format!(
            "has {found} bytes, and records of {size} don’t fit into it"
        ));
    }
    let records = bytes.chunks_exact(size);
    records
        .clone()
        .for_each(|it| interleave(&it[labels..], pixels));
    Ok(records.map(|it| it[labels - 1]).collect())
}

/// The same of a file of Python.
fn batch(bytes: &[u8], labels: usize, pixels: &mut Vec<u8>) -> Result<Vec<u8>, String> {
    let pickle = Pickle::read(bytes)?;
    let data = pickle.array(&["data"])?;
    let labels = pickle.numbers(if labels == 1 {
        &["labels"]
    } else {
        &["fine_labels"]
    })?;
    if data.shape != [labels.len(), SHAPE.bytes()] {
        let (found, labels) = (data.shape, labels.len());
        return Err(format!(
            "has data of {found:?} for {labels} labels, and a picture has {}",
            SHAPE.bytes()
        ));
    }
    let pictures = data.bytes.chunks_exact(SHAPE.bytes());
    pictures.for_each(|it| interleave(it, pixels));
    Ok(labels)
}

/// Colour by colour to pixel by pixel.
fn interleave(planes: &[u8], pixels: &mut Vec<u8>) {
    let plane = SHAPE.height * SHAPE.width;
    pixels
        .extend((0..plane).flat_map(|at| [planes[at], planes[plane + at], planes[2 * plane + at]]));
}
