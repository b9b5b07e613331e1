//! Pictures with their classes: which layout a path has, what it holds, and what is kept aside.
//!
//! - IDX files of the MNIST family, or a folder of them (`idx`)
//! - CIFAR-10 or CIFAR-100, packed or not (`cifar`)
//! - Parquet files of the Hub, or a folder of them (`hub_parquet`)
//! - a folder of classes, or of pictures with a list of labels (`class_folders`)
//!
//! What is wrong with a picture is reported by its name. It is never dropped in silence.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
};

use serde::Serialize;

use super::{
    cifar, class_folders,
    decode::Alpha,
    hub_parquet, idx,
    pixel_file::Outcome,
    pixels::{Picture, Shape},
    resize::{CropMode, Filter},
    split,
    store::{self, Contents, Pixels, Preparation, Stored},
};
use crate::{Error, Result, figures::counted, limits, random::Random};

/// Which pictures, and how.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choice {
    /// The share kept aside to measure with, where the data has no part for that. From 0 to below 1.
    pub held_out: f64,
    /// The side that all are scaled to. Without it, small pictures of one size stay as they are, and others become
    /// [`store::DEFAULT_SIDE`].
    pub side: Option<usize>,
    /// What larger pictures become where no side is said, and up to which those of one size stay as they are. Without it,
    /// [`store::DEFAULT_SIDE`] and [`store::MAX_KEPT_PIXELS`].
    pub usual_side: Option<usize>,
    /// How long the short side becomes before the middle is cut out, for parity with a published network. Without it, `side`.
    pub short_side: Option<usize>,
    /// Whether the middle is cut out, or all of each is seen out of shape.
    pub crop_mode: CropMode,
    /// 1 for grey, 3 for colour. Without it, 3 as soon as one is in colour.
    pub channels: Option<usize>,
    /// How they are scaled.
    pub filter: Filter,
    /// What becomes of pixels that can be seen through.
    pub alpha: Alpha,
    /// What is kept aside, is drawn from this.
    pub seed: u64,
}

impl Default for Choice {
    fn default() -> Self {
        Self {
            held_out: 0.0,
            side: None,
            usual_side: None,
            short_side: None,
            crop_mode: CropMode::default(),
            channels: None,
            filter: Filter::default(),
            alpha: Alpha::default(),
            seed: 0,
        }
    }
}

/// What is wrong with a picture, and which.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Its file, from the folder of the data on, or its row.
    pub name: String,
    /// What is wrong, as the end of a sentence about it.
    pub problem: String,
}

/// Identical pictures in two parts of the data, which then measure what was learned by heart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Overlap {
    /// Kept aside, and to learn from.
    pub held_out_in_train: usize,
    /// To test with, and to learn from.
    pub test_in_train: usize,
    /// To test with, and kept aside.
    pub test_in_held_out: usize,
}

/// Pictures of one size with their classes.
#[derive(Debug)]
pub struct PictureSet {
    /// The size of all.
    pub shape: Shape,
    /// The names of the classes.
    pub classes: Vec<String>,
    /// The class of each picture, by its place in `classes`.
    pub labels: Vec<u32>,
    /// What each picture is called: its file from the folder of the data on, or `train row 17`.
    pub names: Vec<String>,
    /// What is the same for pictures that show the same, to the last bit.
    pub identities: Vec<u64>,
    /// How large each was before it became as all are.
    pub sizes: Vec<Shape>,
    /// What belongs together, where the data says so.
    pub groups: Option<Vec<u64>>,
    /// Those to learn from, by their places in the set.
    pub train: Vec<usize>,
    /// Those kept aside: the validation of the data, or a share of what there is to learn from.
    pub held_out: Vec<usize>,
    /// Those to test with at the end, where the data brings some.
    pub test: Vec<usize>,
    /// Identical pictures in two parts.
    pub overlap: Overlap,
    /// What could not be read, or was passed over.
    pub problems: Vec<Problem>,
    /// How many files were decoded to read this set. 0 when their pixels were there.
    pub decoded: usize,
    /// Whether the data itself says what is kept aside.
    pub has_own_held_out: bool,
    share: f64,
    pixels: Pixels,
}

/// What a layout holds.
pub(super) struct Found {
    pub(super) classes: Vec<String>,
    /// One for each picture of the contents.
    pub(super) rows: Vec<Row>,
    pub(super) contents: Contents,
    pub(super) problems: Vec<Problem>,
}

/// A picture of a layout.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) label: u32,
    pub(super) side: Side,
    pub(super) group: Option<u64>,
}

/// What a picture is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// To learn from.
    Train,
    /// Kept aside.
    HeldOut,
    /// To test with.
    Test,
}

impl PictureSet {
    /// Reads the pictures of files and folders. `cache` is a folder for files of pixels, in which a second reading finds them.
    ///
    /// Errors: [`Error::Format`] and [`Error::File`] where a layout is not what it should be, [`Error::Data`] where nothing is left,
    /// [`Error::Setting`] where the choice can't be served.
    pub fn read(files: &[PathBuf], choice: &Choice, cache: Option<&Path>) -> Result<Self> {
        if !(0.0..1.0).contains(&choice.held_out) {
            let problem = format!("is {}; it must be from 0 to below 1", choice.held_out);
            return Err(Error::setting("data.held_out", problem));
        }
        let mut all = Vec::new();
        for path in files {
            all.extend(found(path)?);
        }
        let Merged {
            classes,
            rows,
            contents,
            problems,
        } = merge(all)?;
        let wish = Preparation {
            side: choice.side,
            usual_side: choice.usual_side,
            short_side: choice.short_side,
            crop_mode: choice.crop_mode,
            channels: choice.channels,
            filter: choice.filter,
            alpha: choice.alpha,
        };
        let stored = store::build(contents, &wish, cache)?;
        let mut set = Self::of(classes, rows, problems, stored, choice);
        set.check_classes()?;
        set.split(choice.seed);
        if set.train.is_empty() {
            let problem = "of the pictures that can be read, none is to learn from";
            return Err(Error::Data(problem.to_owned()));
        }
        Ok(set)
    }

    /// Pictures of noise, all to learn from, for who wants to know how long something takes.
    pub fn noise(count: usize, shape: Shape, classes: usize) -> Self {
        let mut random = Random::for_purpose(1, "pictures");
        let mut pixels = vec![0; count * shape.bytes()];
        for part in pixels.chunks_mut(8) {
            part.copy_from_slice(&random.bits().to_le_bytes()[..part.len()]);
        }
        let row = |at: usize| Row {
            name: format!("row {at}"),
            label: (at % classes) as u32,
            side: Side::Train,
            group: None,
        };
        let stored = Stored {
            shape,
            pixels: Pixels::Memory(pixels),
            outcomes: (0..count).map(|at| Outcome::Read(at as u64)).collect(),
            sizes: vec![Some(shape); count],
            decoded: 0,
        };
        let names = (0..classes).map(|it| it.to_string()).collect();
        let rows = (0..count).map(row).collect();
        Self::of(names, rows, Vec::new(), stored, &Choice::default())
    }

    fn of(
        classes: Vec<String>,
        rows: Vec<Row>,
        problems: Vec<Problem>,
        stored: Stored,
        choice: &Choice,
    ) -> Self {
        let mut set = Self {
            shape: stored.shape,
            classes,
            labels: Vec::new(),
            names: Vec::new(),
            identities: Vec::new(),
            sizes: Vec::new(),
            groups: None,
            train: Vec::new(),
            held_out: Vec::new(),
            test: Vec::new(),
            overlap: Overlap::default(),
            problems,
            decoded: stored.decoded,
            has_own_held_out: false,
            share: choice.held_out,
            pixels: stored.pixels,
        };
        let mut groups = Vec::new();
        let found = stored.outcomes.into_iter().zip(stored.sizes);
        for (row, (outcome, size)) in rows.into_iter().zip(found) {
            let identity = match outcome {
                Outcome::Read(identity) => identity,
                Outcome::Unread(problem) => {
                    let name = row.name;
                    set.problems.push(Problem { name, problem });
                    continue;
                }
            };
            let at = set.labels.len();
            match row.side {
                Side::Train => set.train.push(at),
                Side::HeldOut => set.held_out.push(at),
                Side::Test => set.test.push(at),
            }
            set.labels.push(row.label);
            set.names.push(row.name);
            set.identities.push(identity);
            set.sizes.push(size.unwrap_or(set.shape));
            groups.push(row.group);
        }
        set.has_own_held_out = !set.held_out.is_empty();
        if groups.iter().any(Option::is_some) {
            // A picture of no group is one of its own.
            let own = groups.iter().zip(&set.identities);
            set.groups = Some(
                own.map(|(group, identity)| group.unwrap_or(*identity))
                    .collect(),
            );
        }
        set
    }

    /// How many pictures there are.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The bytes of a picture, [height, width, channels].
    pub fn pixels(&self, at: usize) -> &[u8] {
        let size = self.shape.bytes();
        &self.pixels[at * size..(at + 1) * size]
    }

    /// How many groups of pictures there are that belong together, where the data says so.
    pub fn count_groups(&self) -> Option<usize> {
        let groups: HashSet<u64> = self.groups.as_ref()?.iter().copied().collect();
        Some(groups.len())
    }

    /// What each picture is for.
    pub fn sides(&self) -> Vec<Side> {
        let mut sides = vec![Side::Train; self.len()];
        for (side, part) in [(Side::HeldOut, &self.held_out), (Side::Test, &self.test)] {
            part.iter().for_each(|at| sides[*at] = side);
        }
        sides
    }

    /// The picture at this place among all, from 0, in the size that all of them have.
    pub fn picture(&self, at: usize) -> Picture {
        Picture {
            shape: self.shape,
            pixels: self.pixels(at).to_vec(),
        }
    }

    /// What a person should know before something learns from it.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if let Some(first) = self.problems.first() {
            let count = counted(self.problems.len() as u64, "picture");
            let Problem { name, problem } = first;
            warnings.push(format!(
                "{count} can’t be used; the first, {name}, {problem}"
            ));
        }
        let Overlap {
            held_out_in_train,
            test_in_train,
            ..
        } = self.overlap;
        for (count, part) in [
            (held_out_in_train, "kept aside"),
            (test_in_train, "to test with"),
        ] {
            if count > 0 {
                let pictures = counted(count as u64, "picture");
                warnings.push(format!("{pictures} {part} can be learned from as well, so what is measured is better than it is"));
            }
        }
        warnings
    }

    /// Keeps aside by these groups, one for each picture: all of a group go to one side. A part that the data itself keeps aside stays
    /// as it is.
    ///
    /// Errors: [`Error::Data`] when there are not as many groups as pictures.
    pub fn split_by_groups(&mut self, groups: &[u64], seed: u64) -> Result<()> {
        if groups.len() != self.len() {
            let (groups, pictures) = (groups.len() as u64, self.len() as u64);
            return Err(Error::Data(format!(
                "there are {} for {}",
                counted(groups, "group"),
                counted(pictures, "picture")
            )));
        }
        self.groups = Some(groups.to_vec());
        if !self.has_own_held_out {
            self.train.append(&mut self.held_out);
            self.train.sort_unstable();
        }
        self.split(seed);
        Ok(())
    }

    /// Keeps a share of what there is to learn from aside, unless the data has such a part, and compares the parts.
    fn split(&mut self, seed: u64) {
        if !self.has_own_held_out {
            let of = |all: &[u64]| -> Vec<u64> { self.train.iter().map(|at| all[*at]).collect() };
            let identities = of(&self.identities);
            let groups = self.groups.as_deref().map(of);
            let sides = split::held_out(&identities, groups.as_deref(), self.share, seed);
            let all = std::mem::take(&mut self.train);
            for (at, is_held_out) in all.into_iter().zip(sides) {
                match is_held_out {
                    true => self.held_out.push(at),
                    false => self.train.push(at),
                }
            }
        }
        let known = |part: &[usize]| -> HashSet<u64> {
            part.iter().map(|at| self.identities[*at]).collect()
        };
        let (train, held_out) = (known(&self.train), known(&self.held_out));
        let also = |part: &[usize], other: &HashSet<u64>| {
            part.iter()
                .filter(|at| other.contains(&self.identities[**at]))
                .count()
        };
        self.overlap = Overlap {
            held_out_in_train: also(&self.held_out, &train),
            test_in_train: also(&self.test, &train),
            test_in_held_out: also(&self.test, &held_out),
        };
    }

    /// Whether there is something to tell apart.
    fn check_classes(&self) -> Result<()> {
        let [only] = self.classes.as_slice() else {
            return Ok(());
        };
        Err(Error::Data(format!(
            "all pictures are of one class, `{only}`; there have to be two to be told apart"
        )))
    }
}

/// What a path holds, in one part or in several.
fn found(path: &Path) -> Result<Vec<Found>> {
    let arrays = idx::pictures(path)?;
    if !arrays.is_empty() {
        return arrays.iter().map(|it| idx::read(it)).collect();
    }
    if let Some(place) = cifar::place(path) {
        return Ok(vec![cifar::read(&place)?]);
    }
    let tables = hub_parquet::files(path)?;
    if !tables.is_empty() {
        return hub_parquet::read(path, &tables);
    }
    match path.is_dir() {
        true => Ok(vec![class_folders::read(path)?]),
        false => {
            // Whether it is there at all is said first.
            path.metadata()
                .map_err(Error::file("read the pictures", path))?;
            let problem =
                "is no file that pictures with classes come in; name the folder of the pictures";
            Err(Error::format(path, problem))
        }
    }
}

/// All layouts as one.
struct Merged {
    classes: Vec<String>,
    rows: Vec<Row>,
    contents: Vec<Contents>,
    problems: Vec<Problem>,
}

/// Puts layouts behind one another. Classes of one name are one; what a later one has new, stands behind.
fn merge(all: Vec<Found>) -> Result<Merged> {
    let mut merged = Merged {
        classes: Vec::new(),
        rows: Vec::new(),
        contents: Vec::new(),
        problems: Vec::new(),
    };
    let mut known: HashMap<String, u32> = HashMap::new();
    for found in all {
        let places: Vec<u32> = found
            .classes
            .into_iter()
            .map(|name| {
                let next = merged.classes.len() as u32;
                *known.entry(name).or_insert_with_key(|name| {
                    merged.classes.push(name.clone());
                    next
                })
            })
            .collect();
        debug_assert_eq!(found.rows.len(), found.contents.len());
        merged.rows.extend(found.rows.into_iter().map(|row| Row {
            label: places[row.label as usize],
            ..row
        }));
        merged.contents.push(found.contents);
        merged.problems.extend(found.problems);
    }
    if let Some(problem) = limits::PICTURES.exceeded(merged.rows.len() as u64) {
        return Err(Error::Data(format!("the number of pictures {problem}")));
    }
    if merged.rows.is_empty() {
        return Err(Error::Data("there is no picture in the data".to_owned()));
    }
    Ok(merged)
}
