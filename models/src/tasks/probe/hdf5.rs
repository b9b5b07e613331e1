//! Hidden states of one block in an HDF5 file, in the layout that probes are trained from with PyTorch.
//!
//! Root attributes `model_name` (text) and `layers` (whole numbers: all blocks that were captured, of which the file's name says
//! its own: `layer_14_activations.h5`). Groups `train`, `val` and `test`, each with `activations` f32 [n, d] and `labels` int64
//! [n]; f16 and f64 are read too, and become f32. Files that are written here have three more attributes, which other readers
//! ignore: `layer`, `pattern` and `label_names`.
//!
//! A file comes from outside: declared sizes are compared with its length before anything is allocated, and links to other files
//! are refused. This is the only module that knows the library. Deliberately absent: any other layout.

use std::{
    fs,
    ops::Range,
    path::{Path, PathBuf},
};

use rust_hdf5::{H5Dataset, H5File, H5FileOptions, LinkClass, StorageLayout};

use crate::{
    Error, Result, caught,
    figures::{count, counted},
    limits,
};

/// The parts of the data, each a group of the file.
pub const PARTS: [&str; 3] = ["train", "val", "test"];
const ACTIVATIONS: &str = "activations";
const LABELS: &str = "labels";
/// Bytes that are read or written at once, about.
const AT_ONCE: usize = 32 << 20;

/// What a file says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LayerHeader {
    /// The name of the model whose states these are. Empty where a file doesn't say it.
    pub model_name: String,
    /// The blocks of which there are files.
    pub layers: Vec<i64>,
    /// How texts were shown to the model, with `{text}` where they stand. Files that others wrote don't say it.
    pub pattern: Option<String>,
    /// The names of the labels, whose numbers are their places. Files that others wrote don't say them.
    pub label_names: Vec<String>,
}

/// A file that is open to be read.
pub struct LayerFile {
    path: PathBuf,
    /// What it says of itself.
    pub header: LayerHeader,
    /// Numbers of a vector.
    pub width: usize,
    parts: Vec<Part>,
    _file: H5File,
}

/// A group of a file.
struct Part {
    name: &'static str,
    rows: usize,
    activations: H5Dataset,
    labels: H5Dataset,
    /// How many rows a chunk has; 1 where there are none.
    chunk: usize,
}

/// The name of the file of a block.
pub fn file_name(block: usize) -> String {
    format!("layer_{block}_activations.h5")
}

/// The block that a file's name is of.
pub fn block_of(name: &str) -> Option<usize> {
    let number = name.strip_prefix("layer_")?;
    number.strip_suffix("_activations.h5")?.parse().ok()
}

impl LayerFile {
    /// Opens a file, and compares what it declares with its length.
    ///
    /// Errors: [`Error::File`] when it can't be read, [`Error::Format`] when it is no such file.
    pub fn open(path: &Path) -> Result<Self> {
        let length = fs::metadata(path)
            .map_err(Error::file("read the states", path))?
            .len();
        // The library may not be ready for what somebody made up.
        let opened = caught(|| Self::read(path, length));
        opened
            .map_err(|panic| format!("the library can’t read it ({panic})"))
            .and_then(|opened| opened)
            .map_err(|problem| Error::format(path, problem))
    }

    fn read(path: &Path, length: u64) -> Result<Self, String> {
        let file = H5FileOptions::new().no_locking().open(path);
        let file = file.map_err(|error| format!("is no HDF5 file that can be read ({error})"))?;
        let root = file.root_group();
        let links = root.link_names().map_err(plain)?;
        let mut parts = Vec::new();
        for name in PARTS {
            if !links.iter().any(|link| link == name) {
                continue;
            }
            is_inside(&root.link_class(name).map_err(plain)?, name)?;
            let group = root.group(name).map_err(plain)?;
            let dataset = |inner: &str| {
                let path = format!("{name}/{inner}");
                let link = group.link_class(inner);
                let link = link.map_err(|_| format!("has no dataset `{path}`"))?;
                is_inside(&link, &path)?;
                let dataset = file.dataset(&path).map_err(|error| {
                    format!("has a dataset `{path}` that can’t be read ({error})")
                })?;
                check(&dataset, &path, length).map(|()| dataset)
            };
            parts.push(Part::new(name, dataset(ACTIVATIONS)?, dataset(LABELS)?)?);
        }
        let width = match parts.first() {
            Some(part) => part.activations.shape()[1],
            None => return Err(format!("has none of the groups {}", PARTS.join(", "))),
        };
        if let Some(other) = parts
            .iter()
            .find(|part| part.activations.shape()[1] != width)
        {
            let (name, found) = (other.name, other.activations.shape()[1]);
            return Err(format!(
                "has vectors of {width} numbers, and in `{name}` of {found}"
            ));
        }
        Ok(Self {
            path: path.to_owned(),
            header: LayerHeader::read(&file),
            width,
            parts,
            _file: file,
        })
    }

    /// The parts that the file has, with their rows.
    pub fn parts(&self) -> Vec<(&'static str, usize)> {
        self.parts
            .iter()
            .map(|part| (part.name, part.rows))
            .collect()
    }

    /// The numbers of the labels of all rows, part after part.
    pub fn labels(&self) -> Result<Vec<i64>> {
        let mut labels = Vec::new();
        for part in &self.parts {
            let read = || part.labels.read_numeric_slice_as::<i64>(&[0], &[part.rows]);
            labels.extend(self.caught(read)?);
        }
        Ok(labels)
    }

    /// Hands over all vectors, part after part, a piece at a time: [rows, width].
    pub fn each(&self, take: &mut dyn FnMut(Vec<f32>) -> Result<()>) -> Result<()> {
        for part in &self.parts {
            for rows in pieces(part.rows, self.width, part.chunk) {
                take(self.vectors(part, rows)?)?;
            }
        }
        Ok(())
    }

    /// The vectors of rows, counted over all parts.
    pub fn read_rows(&self, rows: Range<usize>) -> Result<Vec<f32>> {
        let (mut vectors, mut start) = (Vec::new(), 0);
        for part in &self.parts {
            let first = rows.start.clamp(start, start + part.rows) - start;
            let last = rows.end.clamp(start, start + part.rows) - start;
            if first < last {
                vectors.extend(self.vectors(part, first..last)?);
            }
            start += part.rows;
        }
        Ok(vectors)
    }

    /// How many rows are best read at once, so that a chunk is unpacked once.
    pub fn rows_at_once(&self) -> usize {
        let chunk = self.parts.iter().map(|part| part.chunk).max();
        pieces(usize::MAX, self.width, chunk.unwrap_or(1))
            .next()
            .map_or(1, |it| it.len())
    }

    fn vectors(&self, part: &Part, rows: Range<usize>) -> Result<Vec<f32>> {
        let (starts, counts) = ([rows.start, 0], [rows.len(), self.width]);
        let activations = &part.activations;
        if activations.element_size() > size_of::<f32>() {
            let read = self.caught(|| activations.read_numeric_slice_as::<f64>(&starts, &counts));
            return Ok(read?.into_iter().map(|it| it as f32).collect());
        }
        self.caught(|| activations.read_numeric_slice_as::<f32>(&starts, &counts))
    }

    fn caught<T>(&self, read: impl FnOnce() -> rust_hdf5::Result<T>) -> Result<T> {
        let read = caught(read).map_err(|panic| format!("the library can’t read it ({panic})"));
        let read = read.and_then(|read| read.map_err(|error| format!("is damaged ({error})")));
        read.map_err(|problem| Error::format(&self.path, problem))
    }
}

impl Part {
    fn new(name: &'static str, activations: H5Dataset, labels: H5Dataset) -> Result<Self, String> {
        let (shape, of_labels) = (activations.shape(), labels.shape());
        let ([rows, width], [labelled]) = (shape.as_slice(), of_labels.as_slice()) else {
            return Err(format!(
                "has `{name}` with activations of {shape:?} and labels of {of_labels:?}, and [n, d] and [n] are needed"
            ));
        };
        if rows != labelled || *width == 0 {
            return Err(format!(
                "has {} of {width} numbers in `{name}`, and {labelled} labels",
                counted(*rows as u64, "vector")
            ));
        }
        if let Some(problem) = limits::STATES_WIDTH.exceeded(*width as u64) {
            return Err(format!("has vectors in `{name}` whose width {problem}"));
        }
        let datatype = activations.datatype().map_err(plain)?;
        if datatype.ieee_format().is_none() {
            return Err(format!(
                "has activations of {datatype} in `{name}`, and f16, f32 or f64 is needed"
            ));
        }
        let chunk = activations.chunk_dims().and_then(|it| it.first().copied());
        Ok(Self {
            name,
            rows: *rows,
            chunk: chunk.unwrap_or(1).max(1),
            activations,
            labels,
        })
    }
}

impl LayerHeader {
    /// What is not there, or is something else, is left out: only the numbers are needed.
    fn read(file: &H5File) -> Self {
        let text = |name: &str| file.attr_string(name).ok();
        let names = text("label_names").and_then(|names| serde_json::from_str(&names).ok());
        Self {
            model_name: text("model_name").unwrap_or_default(),
            layers: Vec::new(),
            pattern: text("pattern"),
            label_names: names.unwrap_or_default(),
        }
    }
}

/// Vectors and labels of one part, to be written.
pub struct PartToWrite<'a> {
    /// The numbers of the labels.
    pub labels: Vec<i64>,
    /// Reads the vectors of these rows of the part: [rows, width].
    pub vectors: &'a dyn Fn(Range<usize>) -> Vec<f32>,
}

/// Writes the file of a block. `parts` are those of [`PARTS`], in order.
///
/// Errors: [`Error::Format`] when the library or the disk refuses.
pub fn write(
    path: &Path,
    header: &LayerHeader,
    block: usize,
    width: usize,
    parts: &[PartToWrite],
) -> Result<()> {
    let failed = |error: rust_hdf5::Hdf5Error| {
        Error::format(path, format!("could not write the states ({error})"))
    };
    let write = || -> rust_hdf5::Result<()> {
        let file = H5FileOptions::new().no_locking().create(path)?;
        file.set_attr_string("model_name", &header.model_name)?;
        file.set_attr_array_numeric("layers", &header.layers)?;
        file.set_attr_numeric("layer", &(block as i64))?;
        if let Some(pattern) = &header.pattern {
            file.set_attr_string("pattern", pattern)?;
        }
        let names = serde_json::Value::from(header.label_names.clone()).to_string();
        file.set_attr_string("label_names", &names)?;
        for (name, part) in PARTS.iter().zip(parts) {
            let rows = part.labels.len();
            let group = file.create_group(name)?;
            let activations = group.new_dataset::<f32>().shape([rows, width]);
            let activations = activations.create(ACTIVATIONS)?;
            for rows in pieces(rows, width, 1) {
                let vectors = (part.vectors)(rows.clone());
                activations.write_slice(&[rows.start, 0], &[rows.len(), width], &vectors)?;
            }
            let labels = group.new_dataset::<i64>().shape([rows]).create(LABELS)?;
            if rows > 0 {
                labels.write_raw(&part.labels)?;
            }
        }
        file.close()
    };
    caught(write)
        .map_err(|panic| Error::format(path, format!("could not write the states ({panic})")))?
        .map_err(failed)
}

/// Ranges of rows of about [`AT_ONCE`] bytes, each a multiple of a chunk's rows.
fn pieces(rows: usize, width: usize, chunk: usize) -> impl Iterator<Item = Range<usize>> {
    let fitting = (AT_ONCE / (4 * width.max(1))).max(1);
    let step = (fitting / chunk).max(1).saturating_mul(chunk);
    (0..rows)
        .step_by(step)
        .map(move |start| start..start.saturating_add(step).min(rows))
}

/// An error where a link leads to another place, which may be another file.
fn is_inside(link: &LinkClass, path: &str) -> Result<(), String> {
    match link {
        LinkClass::Hard => Ok(()),
        _ => Err(format!(
            "has a link as `{path}`, and links are not followed"
        )),
    }
}

/// An error where the numbers of a dataset are not in the file, or are more than it can hold.
fn check(dataset: &H5Dataset, path: &str, length: u64) -> Result<(), String> {
    let layout = dataset.storage_layout().map_err(plain)?;
    let elsewhere = !dataset.external_files().map_err(plain)?.is_empty();
    if elsewhere || matches!(layout, StorageLayout::Virtual) {
        return Err(format!(
            "has the numbers of `{path}` in other files, which are not opened"
        ));
    }
    let most = match layout {
        StorageLayout::Chunked => length.saturating_mul(limits::STATES_UNFOLDED.most),
        _ => length,
    };
    let bytes = |shape: &[usize]| {
        let element = dataset.element_size() as u64;
        let product = |product: u64, next: &usize| product.checked_mul(*next as u64);
        shape.iter().try_fold(element, product)
    };
    let chunk = dataset.chunk_dims().unwrap_or_default();
    for declared in [dataset.shape(), chunk] {
        if bytes(&declared).is_none_or(|bytes| bytes > most && bytes > AT_ONCE as u64) {
            return Err(format!(
                "declares {declared:?} numbers for `{path}`, which a file of {} bytes can’t hold",
                count(length)
            ));
        }
    }
    match limits::STATES_ROWS.exceeded(dataset.shape().first().copied().unwrap_or(0) as u64) {
        Some(problem) => Err(format!("has `{path}`, whose number of rows {problem}")),
        None => Ok(()),
    }
}

fn plain(error: rust_hdf5::Hdf5Error) -> String {
    format!("can’t be read ({error})")
}
