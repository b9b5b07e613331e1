//! Pictures: which of some classes each belongs to.
//!
//! - [`request`], [`recipe`], `resolve`: what is asked, what is planned, and what is chosen
//! - [`fields`]: what a run file can say about it, for a person; `footprint`: what a run takes
//! - [`pixels`]: what a picture is; [`decode`]: files of pictures; [`resize`]: as Pillow does it, byte for byte
//! - [`recognize`]: whether there are pictures to learn from at all, by the names of files
//! - [`source`]: which layout a path has, and what is kept aside, by `split`
//! - `idx`, `cifar` with `cifar_pickle`, `hub_parquet` and `class_folders`: the layouts
//! - [`store`]: pixels of a set, in memory or in a `pixel_file` that is made once
//! - [`doctor`]: what is wrong with a set
//! - [`augment`]: a picture seen otherwise, and as the numbers that a network takes; [`loader`]: batches of them
//! - [`task`]: a network with the pictures that it learns from; `whitening` and `lookahead` are what some recipes need
//! - [`evaluate`], `baselines`: how well it tells classes apart, beside simpler answers
//! - [`classifier`]: a trained network that says what a picture shows
//! - [`published`]: networks that others have trained; `features`: a head for one that stays as it is
//! - [`export`]: a trained network for other programs

pub mod augment;
mod baselines;
mod cifar;
mod cifar_pickle;
mod class_folders;
pub mod classifier;
pub mod decode;
pub mod doctor;
pub mod evaluate;
pub mod export;
mod features;
pub mod fields;
mod footprint;
mod hub_parquet;
mod idx;
pub mod kind;
pub mod loader;
mod lookahead;
mod pixel_file;
pub mod pixels;
pub mod published;
pub mod recipe;
pub mod recognize;
pub mod request;
pub mod resize;
mod resolve;
pub mod source;
mod split;
pub mod store;
pub mod task;
mod whitening;

use std::path::Path;

pub use kind::Picture;

use crate::{Result, arch::picture::NetConfig};
use classifier::View;
use pixels::Shape;
use published::Published;
use source::PictureSet;

/// Pictures that are enough to know their mean and deviation.
const MEASURED: usize = 10_000;

/// What was looked up before a run can be planned.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PictureFacts {
    /// The side of the pictures.
    pub side: usize,
    /// Whether they were found so large.
    pub is_as_found: bool,
    /// 1 for grey, 3 for colour.
    pub channels: usize,
    /// The names of the classes.
    pub classes: Vec<String>,
    /// Pictures to learn from.
    pub rows: usize,
    /// The same of the class that has fewest.
    pub fewest: usize,
    /// Pictures kept aside to measure with.
    pub held_out_rows: usize,
    /// The mean of each channel, of values from 0 to 1.
    pub mean: Vec<f64>,
    /// The deviation of each channel.
    pub std: Vec<f64>,
    /// The network that a run starts from.
    pub published: Option<PublishedFacts>,
}

/// What the network that a run starts from says of itself.
#[derive(Debug, Clone, PartialEq)]
pub struct PublishedFacts {
    /// How it is built.
    pub net: NetConfig,
    /// What it is shown.
    pub view: View,
    /// The names of its classes, where the files have them.
    pub classes: Option<Vec<String>>,
    /// What a person should know about it.
    pub notes: Vec<String>,
}

impl PublishedFacts {
    /// Those of a folder, or a file of PyTorch.
    pub fn open(model: &Path) -> Result<Self> {
        let Published {
            net,
            view,
            classes,
            licence,
            mut notes,
            ..
        } = Published::open(model)?;
        notes.extend(licence.map(|it| format!("the network has the licence {it}")));
        Ok(Self {
            net,
            view,
            classes,
            notes,
        })
    }
}

impl PictureFacts {
    /// Those of a set.
    pub fn of(set: &PictureSet) -> Self {
        let [mean, std] = measure(set);
        let side = set.shape.height.min(set.shape.width);
        Self {
            side,
            is_as_found: set
                .sizes
                .first()
                .is_some_and(|it| (it.height, it.width) == (side, side)),
            channels: set.shape.channels,
            classes: set.classes.clone(),
            rows: set.train.len(),
            fewest: fewest(set),
            held_out_rows: set.held_out.len(),
            mean,
            std,
            published: None,
        }
    }
}

/// How many pictures to learn from the class has that has fewest.
fn fewest(set: &PictureSet) -> usize {
    let mut counts = vec![0; set.classes.len()];
    for at in &set.train {
        if let Some(count) = counts.get_mut(set.labels[*at] as usize) {
            *count += 1;
        }
    }
    counts.into_iter().min().unwrap_or(0)
}

/// Mean and deviation of each channel of the pictures to learn from, to five digits.
fn measure(set: &PictureSet) -> [Vec<f64>; 2] {
    let Shape { channels, .. } = set.shape;
    let step = set.train.len().div_ceil(MEASURED).max(1);
    let mut sums = vec![[0u64; 3]; channels];
    for at in set.train.iter().step_by(step) {
        for pixel in set.pixels(*at).chunks_exact(channels) {
            for ([count, sum, squares], byte) in sums.iter_mut().zip(pixel) {
                let byte = u64::from(*byte);
                *count += 1;
                *sum += byte;
                *squares += byte * byte;
            }
        }
    }
    let rounded = |it: f64| (it * 1e5).round() / 1e5;
    let both = sums.into_iter().map(|[count, sum, squares]| {
        let count = count.max(1) as f64;
        let mean = sum as f64 / count / 255.0;
        let variance = squares as f64 / count / (255.0 * 255.0) - mean * mean;
        // Pictures of one colour have no deviation, and nothing is divided by 0.
        let std = variance.max(0.0).sqrt().max(1e-3);
        (rounded(mean), rounded(std))
    });
    let (mean, std) = both.unzip();
    [mean, std]
}
