//! The pixels of a set, all pictures of one size: in memory, or in a file that is made once and mapped.
//!
//! Arrays of pictures (CIFAR, the MNIST family) are held as they are. Photos are decoded and scaled, in parallel and in their order,
//! and laid into a file whose name follows from what they hold and from what was done with them: a second run decodes nothing. The file
//! ends with what became of each picture and with a sum of all, so that one that was damaged is made anew. It gets its name when it is
//! whole.

use std::{
    borrow::Cow,
    cmp::Reverse,
    collections::HashMap,
    ops::Deref,
    path::{Path, PathBuf},
};

use memmap2::Mmap;
use rayon::prelude::*;
use sha2::{Digest, Sha256};

use super::{
    decode::{self, Alpha},
    hub_parquet,
    pixel_file::{self, Outcome, Writer},
    pixels::{Picture, Shape, identity},
    resize::{CropMode, Filter},
};
use crate::{
    Error, Result,
    figures::{bytes, counted},
    limits,
    random::stable_hash,
};

/// The side that photos of many sizes are scaled to: a network from scratch learns their shapes at this size, and a thousand take
/// 49 MB. Who starts from a published network names the side that it was trained with.
pub const DEFAULT_SIDE: usize = 128;
/// Pictures of one size stay as they are up to so many pixels, as many as 256 x 256 have.
pub const MAX_KEPT_PIXELS: usize = 256 * 256;
/// So many of ten pictures have one size, for the rest to be scaled to it.
const COMMON_OF_TEN: usize = 9;
/// Files that are read and decoded before their pixels are written.
const AT_ONCE: usize = 128;
/// Raised when the same pictures become other pixels than they did.
const VERSION: u32 = 1;

/// Where pictures are.
pub(super) enum Contents {
    /// In memory, [count, height, width, channels].
    Pixels {
        /// The size of each.
        shape: Shape,
        /// All of them.
        pixels: Vec<u8>,
    },
    /// Each in a file.
    Files(Vec<PathBuf>),
    /// Each in a row of a Parquet file, where it is wanted.
    Rows {
        /// The Parquet file that has all of them.
        file: PathBuf,
        /// Whether its row is wanted, for each.
        is_wanted: Vec<bool>,
    },
}

/// A picture as it is found.
enum Raw<'a> {
    Pixels(Shape, &'a [u8]),
    File(Cow<'a, [u8]>),
}

/// What is done with every picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Preparation {
    pub(super) side: Option<usize>,
    pub(super) usual_side: Option<usize>,
    pub(super) short_side: Option<usize>,
    pub(super) crop_mode: CropMode,
    pub(super) channels: Option<usize>,
    pub(super) filter: Filter,
    pub(super) alpha: Alpha,
}

/// What all pictures become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Target {
    shape: Shape,
    /// How long the short side becomes before the middle is cut out. None leaves pictures that have the shape as they are.
    short: Option<usize>,
    crop_mode: CropMode,
    filter: Filter,
    alpha: Alpha,
}

/// The pixels of a set.
pub(super) struct Stored {
    pub(super) shape: Shape,
    pub(super) pixels: Pixels,
    /// What each picture shows, in the order of the contents, or why there are no pixels of it.
    pub(super) outcomes: Vec<Outcome>,
    /// How large each was found, in the same order; nothing where it could not be seen.
    pub(super) sizes: Vec<Option<Shape>>,
    /// How many files were decoded.
    pub(super) decoded: usize,
}

/// Bytes in memory or in a mapped file.
#[derive(Debug)]
pub(super) enum Pixels {
    Memory(Vec<u8>),
    Mapped { map: Mmap, bytes: usize },
}

impl Deref for Pixels {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Memory(bytes) => bytes,
            Self::Mapped { map, bytes } => &map[..*bytes],
        }
    }
}

impl Contents {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Pixels { shape, pixels } => pixels.len() / shape.bytes().max(1),
            Self::Files(files) => files.len(),
            Self::Rows { is_wanted, .. } => is_wanted.iter().filter(|it| **it).count(),
        }
    }

    /// Does something with each picture, in parallel, and hands over what came of it in their order.
    fn each<T: Send>(
        &self,
        work: impl Fn(Result<Raw<'_>, String>) -> T + Sync,
        mut take: impl FnMut(Vec<T>) -> Result<()>,
    ) -> Result<()> {
        match self {
            Self::Pixels { shape, pixels } => {
                let size = shape.bytes().max(1);
                for part in pixels.chunks(size * AT_ONCE) {
                    let raw = part.par_chunks_exact(size);
                    take(raw.map(|it| work(Ok(Raw::Pixels(*shape, it)))).collect())?;
                }
            }
            Self::Files(files) => {
                for part in files.chunks(AT_ONCE) {
                    let read = |path: &PathBuf| work(read(path).map(|it| Raw::File(it.into())));
                    take(part.par_iter().map(read).collect())?;
                }
            }
            Self::Rows { file, is_wanted } => {
                hub_parquet::each_part(file, is_wanted, AT_ONCE, |part| {
                    let opened = part.into_par_iter();
                    take(
                        opened
                            .map(|it| work(it.map(|it| Raw::File(it.into()))))
                            .collect(),
                    )
                })?;
            }
        }
        Ok(())
    }
}

/// A file of a picture. The error is the end of a sentence about it.
fn read(path: &Path) -> Result<Vec<u8>, String> {
    let read = limits::PICTURE_FILE.read(path, "read the picture");
    read.map_err(|error| match error {
        Error::File { source, .. } => format!("can’t be read: {source}"),
        Error::Format { problem, .. } => problem,
        other => other.to_string(),
    })
}

/// What is known of a picture before it is decoded.
struct Look {
    shape: Shape,
    bytes: u64,
    hash: u64,
}

impl Look {
    fn at(raw: Result<Raw<'_>, String>) -> Result<Self, String> {
        let raw = raw?;
        let (shape, bytes): (_, &[u8]) = match &raw {
            Raw::Pixels(shape, bytes) => (*shape, bytes),
            Raw::File(bytes) => (decode::shape(bytes)?, bytes),
        };
        Ok(Self {
            shape,
            bytes: bytes.len() as u64,
            hash: stable_hash(0, bytes),
        })
    }
}

impl Target {
    /// What all of these become.
    fn of(looks: &[Result<Look, String>], wish: &Preparation) -> Result<Self> {
        let mut sizes: HashMap<(usize, usize), usize> = HashMap::new();
        let mut channels = 1;
        for look in looks.iter().flatten() {
            *sizes
                .entry((look.shape.height, look.shape.width))
                .or_default() += 1;
            channels = channels.max(look.shape.channels);
        }
        let all: usize = sizes.values().sum();
        // Of equally many, the smaller size.
        let most = sizes
            .iter()
            .max_by_key(|(size, count)| (**count, Reverse(**size)));
        let ((height, width), count) = most.map_or(((0, 0), 0), |(size, count)| (*size, *count));
        let most_kept = wish.usual_side.map_or(MAX_KEPT_PIXELS, |side| side * side);
        let usual_side = wish.usual_side.unwrap_or(DEFAULT_SIDE);
        let is_small = height * width <= most_kept;
        let is_common = height == width && count * 10 >= all * COMMON_OF_TEN;
        let (height, width) = match wish.side {
            Some(side) => (side, side),
            None if is_small && (count == all || is_common) => (height, width),
            None => (usual_side, usual_side),
        };
        Ok(Self {
            shape: Shape::new(height, width, wish.channels.unwrap_or(channels)),
            short: wish.short_side,
            crop_mode: wish.crop_mode,
            filter: wish.filter,
            alpha: wish.alpha,
        })
    }

    fn changes(&self, shape: Shape) -> bool {
        self.short.is_some() || shape != self.shape
    }

    /// A picture as all are.
    fn fit(&self, picture: Picture) -> Picture {
        let picture = picture.with_channels(self.shape.channels);
        if !self.changes(picture.shape) {
            return picture;
        }
        let side = self.shape.height;
        let short = self.short.unwrap_or(side);
        self.crop_mode.square(&picture, short, side, self.filter)
    }

    /// A picture as it is found to its identity and its pixels.
    fn make(&self, raw: Result<Raw<'_>, String>) -> Result<(u64, Vec<u8>), String> {
        let picture = match raw? {
            Raw::Pixels(shape, pixels) => Picture {
                shape,
                pixels: pixels.to_vec(),
            },
            Raw::File(bytes) => decode::decode(&bytes, self.alpha)?,
        };
        let identity = picture.identity();
        Ok((identity, self.fit(picture).pixels))
    }

    /// The name of the file with what these become.
    fn key(&self, looks: &[Result<Look, String>]) -> String {
        let mut sum = Sha256::new();
        sum.update(format!("{VERSION} {self:?}"));
        for look in looks {
            match look {
                Ok(it) => sum.update([it.hash.to_le_bytes(), it.bytes.to_le_bytes()].concat()),
                Err(problem) => sum.update(problem),
            }
        }
        let digits = sum.finalize();
        digits
            .iter()
            .take(16)
            .map(|it| format!("{it:02x}"))
            .collect()
    }
}

/// Reads all pictures and makes them one size. `cache` is the folder for files of pixels.
pub(super) fn build(
    contents: Vec<Contents>,
    wish: &Preparation,
    cache: Option<&Path>,
) -> Result<Stored> {
    check_wish(wish)?;
    let mut looks: Vec<Result<Look, String>> = Vec::new();
    for part in &contents {
        part.each(Look::at, |found| {
            looks.extend(found);
            Ok(())
        })?;
    }
    let Some(shown) = looks.iter().find_map(|it| it.as_ref().ok()) else {
        let problem = looks.iter().find_map(|it| it.as_ref().err());
        let why = problem.map_or(String::new(), |it| format!("; the first {it}"));
        return Err(Error::Data(format!(
            "there is no picture that can be read{why}"
        )));
    };
    let target = Target::of(&looks, wish)?;
    let needed = (looks.len() as u64).saturating_mul(target.shape.bytes() as u64);
    if let Some(problem) = limits::PICTURE_SET.exceeded(needed) {
        let pictures = counted(looks.len() as u64, "picture");
        let problem = format!(
            "{pictures} of {} have a size that {problem}",
            target.shape.title()
        );
        return Err(Error::Data(problem));
    }
    let is_raw =
        |it: &Contents| matches!(it, Contents::Pixels { shape, .. } if !target.changes(*shape));
    let stored = match cache {
        _ if shown.shape == target.shape && contents.iter().all(is_raw) => {
            as_they_are(contents, target.shape)
        }
        Some(folder) => in_a_file(&contents, &looks, &target, folder)?,
        None => in_memory(&contents, &looks, &target)?,
    };
    let size = |it: Result<Look, String>| it.ok().map(|it| it.shape);
    Ok(Stored {
        sizes: looks.into_iter().map(size).collect(),
        ..stored
    })
}

fn check_wish(wish: &Preparation) -> Result<()> {
    let refused = |field: &str, problem: String| Err(Error::setting(field, problem));
    for (field, side) in [
        ("data.side", wish.side),
        ("data.short_side", wish.short_side),
    ] {
        match side {
            Some(0) => return refused(field, "is 0; it must be at least 1".to_owned()),
            Some(side) => {
                if let Some(problem) = limits::PICTURE_SIDE.exceeded(side as u64) {
                    return refused(field, problem);
                }
            }
            None => {}
        }
    }
    if let Some(short) = wish.short_side
        && wish.side.is_none_or(|side| side > short)
    {
        let problem = format!("is {short}; it is for a `data.side` that is given, and no larger");
        return refused("data.short_side", problem);
    }
    match wish.channels {
        None | Some(1 | 3) => Ok(()),
        Some(other) => refused("data.channels", format!("is {other}; it must be 1 or 3")),
    }
}

/// Arrays of one size, one behind the other.
fn as_they_are(contents: Vec<Contents>, shape: Shape) -> Stored {
    let arrays = contents.into_iter().map(|it| match it {
        Contents::Pixels { pixels, .. } => pixels,
        Contents::Files(_) | Contents::Rows { .. } => Vec::new(),
    });
    let pixels = arrays
        .reduce(|mut all, next| {
            all.extend(next);
            all
        })
        .unwrap_or_default();
    let read = |it: &[u8]| Outcome::Read(identity(it, shape));
    Stored {
        shape,
        outcomes: pixels.par_chunks_exact(shape.bytes()).map(read).collect(),
        pixels: Pixels::Memory(pixels),
        sizes: Vec::new(),
        decoded: 0,
    }
}

/// Makes all pictures and hands over the pixels of each. Returns what became of them, and how many files were decoded.
fn make(
    contents: &[Contents],
    target: &Target,
    mut take: impl FnMut(&[u8]) -> Result<()>,
) -> Result<(Vec<Outcome>, usize)> {
    let (mut outcomes, mut decoded) = (Vec::new(), 0);
    for part in contents {
        part.each(
            |raw| target.make(raw),
            |made| {
                for one in made {
                    outcomes.push(match one {
                        Ok((identity, pixels)) => {
                            take(&pixels)?;
                            decoded += usize::from(!matches!(part, Contents::Pixels { .. }));
                            Outcome::Read(identity)
                        }
                        Err(problem) => Outcome::Unread(problem),
                    });
                }
                Ok(())
            },
        )?;
    }
    if outcomes.iter().any(|it| matches!(it, Outcome::Read(_))) {
        return Ok((outcomes, decoded));
    }
    let problem = outcomes.iter().find_map(|it| match it {
        Outcome::Unread(problem) => Some(problem.as_str()),
        Outcome::Read(_) => None,
    });
    let why = problem.unwrap_or("is missing");
    Err(Error::Data(format!(
        "there is no picture that can be read; the first {why}"
    )))
}

fn in_memory(
    contents: &[Contents],
    looks: &[Result<Look, String>],
    target: &Target,
) -> Result<Stored> {
    let mut pixels: Vec<u8> = Vec::new();
    let readable = looks.iter().flatten().count();
    let needed = readable * target.shape.bytes();
    pixels.try_reserve_exact(needed).map_err(|_| {
        let (pictures, size) = (counted(readable as u64, "picture"), bytes(needed as u64));
        Error::Data(format!(
            "{pictures} of {} need {size} of memory, which there is not",
            target.shape.title()
        ))
    })?;
    let (outcomes, decoded) = make(contents, target, |picture| {
        pixels.extend_from_slice(picture);
        Ok(())
    })?;
    Ok(Stored {
        shape: target.shape,
        pixels: Pixels::Memory(pixels),
        outcomes,
        sizes: Vec::new(),
        decoded,
    })
}

fn in_a_file(
    contents: &[Contents],
    looks: &[Result<Look, String>],
    target: &Target,
    folder: &Path,
) -> Result<Stored> {
    let path = folder.join(format!("{}.{}", target.key(looks), pixel_file::ENDING));
    let shape = target.shape;
    if let Some((pixels, outcomes)) = pixel_file::read(&path, shape, looks.len()) {
        return Ok(Stored {
            shape,
            pixels,
            outcomes,
            sizes: Vec::new(),
            decoded: 0,
        });
    }
    let mut writer = Writer::new(&path)?;
    let (outcomes, decoded) = make(contents, target, |picture| writer.add(picture))?;
    writer.finish(shape, &outcomes)?;
    let written = pixel_file::read(&path, shape, looks.len());
    let (pixels, outcomes) = written.ok_or_else(|| {
        Error::format(
            &path,
            "is not what was written: the disk may be broken; use another folder",
        )
    })?;
    Ok(Stored {
        shape,
        pixels,
        outcomes,
        sizes: Vec::new(),
        decoded,
    })
}
