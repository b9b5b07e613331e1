//! Pictures and labels of the MNIST family in IDX files, packed with gzip or not.
//!
//! A file is two zeros, the type of its numbers, how many dimensions there are, the size of each in four bytes with the highest first,
//! and the numbers. `train-images-idx3-ubyte` is grey pictures [count, height, width], `train-labels-idx1-ubyte` beside it is their
//! labels; what has `t10k` or `test` in its name is measured with at the end. Names of classes stand in `classes.txt`, one a line, where
//! somebody has written one.
//!
//! Deliberately absent: numbers that are no bytes, which no published set of pictures has.

use std::{
    fs::File,
    io::{BufReader, Read},
    path::{Path, PathBuf},
};

use flate2::bufread::MultiGzDecoder;

use super::{
    pixels::Shape,
    source::{Found, Row, Side},
    store::Contents,
};
use crate::{Error, Result, figures::count, limits};

/// The file with the names of classes.
const CLASSES: &str = "classes.txt";
/// The types of numbers, as IDX counts them.
const TYPES: [(u8, &str); 6] = [
    (8, "bytes"),
    (9, "signed bytes"),
    (11, "whole numbers of 2 bytes"),
    (12, "whole numbers of 4 bytes"),
    (13, "fractions of 4 bytes"),
    (14, "fractions of 8 bytes"),
];

/// A file whose header was read: bytes of so many dimensions.
struct Idx {
    shape: Vec<usize>,
    rest: Box<dyn Read>,
    path: PathBuf,
}

impl Idx {
    fn open(path: &Path) -> Result<Self> {
        let wrong = |problem: String| Error::format(path, problem);
        let mut rest = unpacked(path)?;
        let mut start = [0; 4];
        let cut = |_| wrong("is no IDX file: it ends in its header".to_owned());
        rest.read_exact(&mut start).map_err(cut)?;
        let [0, 0, kind, rank] = start else {
            return Err(wrong(
                "is no IDX file: it has to begin with two zeros".to_owned(),
            ));
        };
        if kind != 8 {
            let found = TYPES.iter().find(|it| it.0 == kind);
            let found = found.map_or("numbers of an unknown type", |it| it.1);
            return Err(wrong(format!("has {found}, and bytes are needed")));
        }
        if let Some(problem) = limits::DIMENSIONS.exceeded(rank.into()) {
            return Err(wrong(format!("its number of dimensions {problem}")));
        }
        let mut shape = Vec::new();
        for _ in 0..rank {
            let mut size = [0; 4];
            rest.read_exact(&mut size).map_err(cut)?;
            shape.push(u32::from_be_bytes(size) as usize);
        }
        let product = |product: u64, next: &usize| product.checked_mul(*next as u64);
        let bytes = shape.iter().try_fold(1, product).unwrap_or(u64::MAX);
        if let Some(problem) = limits::PICTURE_ARRAY.exceeded(bytes) {
            return Err(wrong(format!("declares {shape:?} bytes, which {problem}")));
        }
        Ok(Self {
            shape,
            rest,
            path: path.to_owned(),
        })
    }

    /// All bytes of it, of which there are as many as it declares.
    fn bytes(self) -> Result<Vec<u8>> {
        let Self { shape, rest, path } = self;
        let declared: usize = shape.iter().product();
        let mut bytes = Vec::new();
        let read = rest.take(declared as u64 + 1).read_to_end(&mut bytes);
        let failed =
            |error: std::io::Error| Error::format(&path, format!("can’t be unpacked: {error}"));
        read.map_err(failed)?;
        if bytes.len() != declared {
            let found = match bytes.len() > declared {
                true => "more".to_owned(),
                false => format!("{} of them", count(bytes.len() as u64)),
            };
            return Err(Error::format(
                path,
                format!("declares {shape:?} bytes, and has {found}"),
            ));
        }
        Ok(bytes)
    }
}

/// What a file holds, unpacked if it is packed with gzip.
fn unpacked(path: &Path) -> Result<Box<dyn Read>> {
    let file = || File::open(path).map_err(Error::file("read the pictures", path));
    let mut mark = Vec::new();
    let looked = file()?.take(2).read_to_end(&mut mark);
    looked.map_err(Error::file("read the pictures", path))?;
    let reader = BufReader::new(file()?);
    Ok(match mark.as_slice() {
        [0x1f, 0x8b] => Box::new(MultiGzDecoder::new(reader)),
        _ => Box::new(reader),
    })
}

/// The files of pictures at a path, by name: it, or those in it.
pub(super) fn pictures(path: &Path) -> Result<Vec<PathBuf>> {
    let is_idx = |path: &Path| {
        let name = name_of(path);
        name.contains("images") && (name.contains("idx") || name.contains("ubyte"))
    };
    if !path.is_dir() {
        return Ok(if is_idx(path) {
            vec![path.to_owned()]
        } else {
            Vec::new()
        });
    }
    let mut files = Vec::new();
    for entry in path
        .read_dir()
        .map_err(Error::file("look into the folder", path))?
    {
        let entry = entry.map_err(Error::file("look into the folder", path))?;
        files.push(entry.path());
    }
    files.retain(|it| is_idx(it) && it.is_file());
    files.sort();
    // The same packed and not is one.
    let packed = |path: &Path| path.extension().is_some_and(|it| it == "gz");
    let open: Vec<PathBuf> = files.iter().filter(|it| !packed(it)).cloned().collect();
    files.retain(|it| !packed(it) || !open.contains(&it.with_extension("")));
    Ok(files)
}

/// The labels of a file of pictures, which stand beside it.
fn labels(pictures: &Path) -> Result<PathBuf> {
    let name = pictures.file_name().unwrap_or_default().to_string_lossy();
    let named = name
        .replace("images", "labels")
        .replace("idx3", "idx1")
        .replace("idx4", "idx1");
    let open = named.strip_suffix(".gz").unwrap_or(&named).to_owned();
    let packed = format!("{open}.gz");
    let beside = [open, packed].map(|name| pictures.with_file_name(name));
    let found = beside.iter().find(|it| it.is_file());
    found.cloned().ok_or_else(|| {
        Error::format(
            pictures,
            format!("has no labels beside it: `{named}` is missing"),
        )
    })
}

/// Reads the pictures of a file, with their labels.
pub(super) fn read(path: &Path) -> Result<Found> {
    let idx = Idx::open(path)?;
    let wrong = |path: &Path, problem: String| Error::format(path, problem);
    let (count_of, shape) = match idx.shape[..] {
        [count, height, width] => (count, Shape::new(height, width, 1)),
        [count, height, width, channels @ (1 | 3)] => (count, Shape::new(height, width, channels)),
        _ => {
            let problem = format!(
                "has the dimensions {:?}, and pictures have [count, height, width] or [count, height, width, 3]",
                idx.shape
            );
            return Err(wrong(path, problem));
        }
    };
    if shape.bytes() == 0 {
        return Err(wrong(
            path,
            format!("has pictures of {}, which is no pixel", shape.title()),
        ));
    }
    if let Some(problem) = limits::PICTURES.exceeded(count_of as u64) {
        return Err(wrong(path, format!("its number of pictures {problem}")));
    }
    let of_labels = labels(path)?;
    let idx_of_labels = Idx::open(&of_labels)?;
    if idx_of_labels.shape != [count_of] {
        let problem = format!(
            "has labels of the dimensions {:?}, and there are {} pictures",
            idx_of_labels.shape,
            count(count_of as u64)
        );
        return Err(wrong(&of_labels, problem));
    }
    let (pixels, labels) = (idx.bytes()?, idx_of_labels.bytes()?);
    let name = name_of(path);
    let (side, part) = match () {
        () if name.contains("t10k") || name.contains("test") => (Side::Test, "test"),
        () if name.contains("val") => (Side::HeldOut, "validation"),
        () => (Side::Train, "train"),
    };
    let row = |(at, label): (usize, &u8)| Row {
        name: format!("{part} row {}", at + 1),
        label: u32::from(*label),
        side,
        group: None,
    };
    let largest = labels.iter().max().map_or(0, |it| usize::from(*it) + 1);
    Ok(Found {
        classes: classes(path, largest)?,
        rows: labels.iter().enumerate().map(row).collect(),
        contents: Contents::Pixels { shape, pixels },
        problems: Vec::new(),
    })
}

/// The names of so many classes: those of a file beside, or their numbers.
fn classes(beside: &Path, least: usize) -> Result<Vec<String>> {
    let path = beside.with_file_name(CLASSES);
    let numbers = || (0..least).map(|it| it.to_string()).collect();
    let Some(text) =
        limits::PICTURE_METADATA.read_text_if_there(&path, "read the names of classes")?
    else {
        return Ok(numbers());
    };
    let names: Vec<String> = text.lines().map(|it| it.trim().to_owned()).collect();
    let named = names.iter().filter(|it| !it.is_empty()).count();
    if named < least || named != names.len() {
        let problem = format!(
            "names {named} classes in {} lines, and the labels need {least}",
            names.len()
        );
        return Err(Error::format(path, problem));
    }
    Ok(names)
}

fn name_of(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .to_lowercase()
}
