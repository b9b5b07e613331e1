//! A trained network that says what a picture shows, and which places of the picture speak for it.
//!
//! Places are those of Grad-CAM (Selvaraju et al., 2017, <https://arxiv.org/abs/1610.02391>): with the last map A of the network and
//! the slope of a class's score by it, max(0, Σ_k a_k A_k), where a_k is the mean slope of a channel. Of a network whose scores are a
//! product with the mean of its last map, that is the class activation map itself. The map of a ViT is that of its patches before the
//! last attention.
//!
//! Letters: n pictures, h and w height and width, c channels, v classes.
//!
//! Deliberately absent: how a network learns, and how a file becomes pixels ([`super::decode`]).

use std::{path::Path, time::Instant};

use candle_core::{D, DType, Device, Tensor};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::{
    augment::write_shifted,
    decode::{Alpha, decode},
    pixels::{Picture, Shape},
    resize::{CropMode, Filter},
};
use crate::{
    Error, Result,
    arch::picture::{Mode, NetConfig, Network},
    checkpoint::{
        folder::{WEIGHTS, read_json},
        load::StoredWeights,
        save::write_file,
    },
    limits,
    ops::classify::{Squash, probabilities},
    tape::{Gradients, Tape},
    train::exhibit::HeatMap,
};

/// The file of a checkpoint that says what the network is and what it is shown.
pub const CLASSIFIER: &str = "classifier.json";
/// How many classes are told, the most probable first.
pub const MAX_RANKED: usize = 5;

/// What a network is shown of a picture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct View {
    /// Height, width and channels.
    pub shape: Shape,
    /// How long the short side becomes before the middle is cut out. Without it, as long as the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short_side: Option<usize>,
    /// Whether the middle is cut out, or all of it is seen out of shape.
    #[serde(default)]
    pub crop_mode: CropMode,
    /// How it is scaled.
    #[serde(default)]
    pub filter: Filter,
    /// What becomes of pixels that can be seen through.
    #[serde(default)]
    pub alpha: Alpha,
    /// The mean of each channel, of values from 0 to 1.
    pub mean: Vec<f32>,
    /// The deviation of each channel.
    pub std: Vec<f32>,
    /// How often it is looked at.
    #[serde(default)]
    pub looks: Looks,
}

/// How often a network looks at a picture before it says what it shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Looks {
    /// Once, as it is.
    #[default]
    One,
    /// And mirrored.
    Mirrored,
    /// Both, and both moved by a pixel in two directions, which count half.
    Six,
}

/// One of several looks.
struct Look {
    moved: (isize, isize),
    is_mirrored: bool,
    share: f64,
}

impl Looks {
    /// Each look: how far it is moved, whether it is mirrored, and how much it counts.
    fn all(self) -> Vec<Look> {
        let moves: &[((isize, isize), f64)] = match self {
            Self::Six => &[((0, 0), 0.5), ((-1, -1), 0.25), ((1, 1), 0.25)],
            Self::One | Self::Mirrored => &[((0, 0), 1.0)],
        };
        let mirrors: &[bool] = match self {
            Self::One => &[false],
            Self::Mirrored | Self::Six => &[false, true],
        };
        let count = mirrors.len() as f64;
        let all = moves.iter().flat_map(|&(moved, share)| {
            mirrors.iter().map(move |&is_mirrored| Look {
                moved,
                is_mirrored,
                share: share / count,
            })
        });
        all.collect()
    }
}

impl View {
    /// A picture of any size as the network is shown it, in bytes.
    pub fn of(&self, picture: Picture) -> Picture {
        let picture = picture.with_channels(self.shape.channels);
        if self.short_side.is_none() && picture.shape == self.shape {
            return picture;
        }
        let side = self.shape.height;
        let short = self.short_side.unwrap_or(side);
        self.crop_mode.square(&picture, short, side, self.filter)
    }

    /// Why no network can be shown pictures so, if it can’t.
    pub(super) fn problem(&self) -> Option<String> {
        let Shape {
            height,
            width,
            channels,
        } = self.shape;
        let sides = [height, width, self.short_side.unwrap_or(height)];
        let mut sides = sides.into_iter();
        if let Some(problem) = sides.find_map(|it| limits::PICTURE_SIDE.exceeded(it as u64)) {
            return Some(format!("the side of its pictures {problem}"));
        }
        if self.short_side.is_some_and(|it| it < height) {
            return Some("the middle of its pictures is larger than they are".to_owned());
        }
        for (name, numbers) in [("mean", &self.mean), ("std", &self.std)] {
            if numbers.len() != channels && numbers.len() != 1 {
                return Some(format!(
                    "its `{name}` has {} numbers, and its pictures {channels} channels",
                    numbers.len()
                ));
            }
            let is_odd = |it: &f32| !it.is_finite() || (name == "std" && *it <= 0.0);
            if numbers.iter().any(is_odd) {
                return Some(format!(
                    "its `{name}` is {numbers:?}, which no pictures have"
                ));
            }
        }
        None
    }

    /// Pictures of one size as numbers: [n, h, w, c], f32.
    fn numbers(
        &self,
        pictures: &[&[u8]],
        shape: Shape,
        look: &Look,
        to: &Device,
    ) -> Result<Tensor> {
        let count = self.shape.bytes();
        let mut numbers = vec![0f32; pictures.len() * count];
        let all = numbers.par_chunks_mut(count.max(1)).zip(pictures);
        all.for_each(|(out, picture)| {
            let (mean, std) = (&self.mean, &self.std);
            write_shifted(
                picture,
                shape,
                self.shape,
                look.moved,
                look.is_mirrored,
                mean,
                std,
                out,
            );
        });
        tensor(numbers, pictures.len(), self.shape, to)
    }

    /// The same seen once, as it is.
    pub(super) fn plain(&self, pictures: &[&[u8]], shape: Shape, to: &Device) -> Result<Tensor> {
        let look = Look {
            moved: (0, 0),
            is_mirrored: false,
            share: 1.0,
        };
        self.numbers(pictures, shape, &look, to)
    }

    /// The scores of the classes by all looks: [n, v], f32.
    pub(super) fn scores(
        &self,
        network: &Network,
        pictures: &[&[u8]],
        shape: Shape,
        device: &Device,
    ) -> Result<Tensor> {
        self.averaged(self.looks, pictures, shape, device, &|numbers| {
            let seen = network.see(None, numbers, Mode::Running)?;
            Ok(seen.scores.tensor().clone())
        })
    }

    /// What is said of pictures [n, h, w, c], averaged over some looks.
    pub(super) fn averaged(
        &self,
        looks: Looks,
        pictures: &[&[u8]],
        shape: Shape,
        device: &Device,
        say: &dyn Fn(&Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let mut sum: Option<Tensor> = None;
        for look in looks.all() {
            let numbers = self.numbers(pictures, shape, &look, device)?;
            let part = say(&numbers)?.affine(look.share, 0.0)?;
            sum = Some(match sum {
                Some(sum) => (sum + part)?,
                None => part,
            });
        }
        sum.ok_or_else(|| Error::Data("a picture that nobody looks at".to_owned()))
    }
}

/// Numbers of n pictures as a tensor.
pub(super) fn tensor(numbers: Vec<f32>, n: usize, shape: Shape, to: &Device) -> Result<Tensor> {
    let dims = (n, shape.height, shape.width, shape.channels);
    Ok(Tensor::from_vec(numbers, dims, &Device::Cpu)?.to_device(to)?)
}

/// Which places of pictures [n, h, w, c] speak for a class each. Nothing where the network has no map.
pub(super) fn heat_maps(
    network: &Network,
    pictures: &Tensor,
    classes: &[u32],
) -> Result<Option<Vec<HeatMap>>> {
    let Some(step) = network.map_step() else {
        return Ok(None);
    };
    let written = network.written(step, pictures)?;
    let tape = Tape::new(0);
    let value = tape.input(written.clone());
    let scores = network.scores_from(Some(&tape), step, &value)?;
    let count = scores.tensor().dim(D::Minus1)?;
    let chosen = classes
        .iter()
        .flat_map(|class| (0..count as u32).map(move |it| f32::from(u8::from(it == *class))));
    let device = scores.tensor().device();
    let seed = Tensor::from_vec(chosen.collect::<Vec<_>>(), (classes.len(), count), device)?;
    let slope = tape.backward_to(&scores, seed, &[&value], &mut Gradients::default())?;
    let missing = || Error::Data("the network’s scores don’t follow from its map".to_owned());
    let slope = slope.into_iter().next().flatten().ok_or_else(missing)?;
    let written = network.as_map(step, &written)?;
    let slope = network.as_map(step, &slope)?;
    let (_, rows, columns, _) = written.dims4()?;
    let slope = slope.to_dtype(DType::F32)?.mean_keepdim((1, 2))?;
    let maps = written.to_dtype(DType::F32)?.broadcast_mul(&slope)?;
    let maps: Vec<Vec<f32>> = maps.sum(D::Minus1)?.relu()?.flatten_from(1)?.to_vec2()?;
    let map = |strengths: Vec<f32>| {
        let most = strengths.iter().copied().fold(f32::MIN_POSITIVE, f32::max);
        let byte = |it: f32| (it / most * 255.0).round() as u8;
        HeatMap {
            rows,
            columns,
            strengths: strengths.into_iter().map(byte).collect(),
        }
    };
    Ok(Some(maps.into_iter().map(map).collect()))
}

/// What a checkpoint says of its network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// How it is built.
    pub net: NetConfig,
    /// The names of the classes, in the order of the scores.
    pub classes: Vec<String>,
    /// What it is shown.
    pub view: View,
    /// What scores are divided by before they become probabilities, so that those are as often right as they say.
    #[serde(default = "one")]
    pub temperature: f64,
}

fn one() -> f64 {
    1.0
}

impl About {
    /// Writes it into a checkpoint.
    pub fn save(&self, folder: &Path) -> Result<()> {
        let json =
            serde_json::to_vec_pretty(self).map_err(|error| Error::Data(error.to_string()))?;
        write_file(&folder.join(CLASSIFIER), &json)
    }

    /// Reads that of a checkpoint.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(CLASSIFIER);
        let json = read_json(&path, "read what the network is")?;
        let about: Self = serde_json::from_value(json)
            .map_err(|error| Error::format(&path, error.to_string()))?;
        match about.problem() {
            Some(problem) => Err(Error::format(&path, problem)),
            None => Ok(about),
        }
    }

    /// What does not fit together, if something does not.
    fn problem(&self) -> Option<String> {
        let Self { net, view, .. } = self;
        let shape = view.shape;
        if let Some(problem) = net.problem() {
            return Some(problem);
        }
        if self.classes.len() != net.classes {
            return Some(format!(
                "names {} classes, and the network tells {} apart",
                self.classes.len(),
                net.classes
            ));
        }
        let seen = ([shape.height, shape.width], shape.channels);
        if seen != (net.sides, net.channels) {
            return Some(format!(
                "shows the network pictures of {}, and it is for others",
                shape.title()
            ));
        }
        if let Some(problem) = view.problem() {
            return Some(problem);
        }
        let is_sound = self.temperature.is_finite() && self.temperature > 0.0;
        (!is_sound).then(|| format!("has the temperature {}", self.temperature))
    }
}

/// A class with how probable it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "specta", derive(specta::Type))]
pub struct Ranked {
    /// Its name.
    pub class: String,
    /// From 0 to 1.
    pub probability: f32,
    /// Which places speak for it. Nothing where the network has no map.
    pub map: Option<HeatMap>,
}

/// What a network said of a picture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// The most probable classes, at most [`MAX_RANKED`], the most probable first.
    pub ranked: Vec<Ranked>,
    /// The picture as the network was shown it.
    pub seen: Picture,
    /// Milliseconds that it took to say, without decoding and heat maps.
    pub millis: f64,
}

/// A network that is open to be asked.
pub struct Classifier {
    network: Network,
    about: About,
    device: Device,
}

impl Classifier {
    /// Opens the network of a checkpoint.
    pub fn open(folder: &Path, dtype: DType, device: &Device) -> Result<Self> {
        let about = About::read(folder)?;
        let file = folder.join(WEIGHTS);
        let mut weights = StoredWeights::open(
            std::slice::from_ref(&file),
            file.clone(),
            DType::F32,
            device,
        )?;
        let network = Network::new(about.net.clone(), &mut weights, dtype)?;
        weights.check_all_taken(|_| false)?;
        Ok(Self {
            network,
            about,
            device: device.clone(),
        })
    }

    /// What it is.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Its network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The probabilities of the classes for pictures of one size, each [h, w, c] in bytes.
    pub fn probabilities(&self, pictures: &[&[u8]], shape: Shape) -> Result<Vec<Vec<f32>>> {
        let view = &self.about.view;
        let scores = view.scores(&self.network, pictures, shape, &self.device)?;
        let scores = scores.affine(1.0 / self.about.temperature, 0.0)?;
        Ok(probabilities(&scores, Squash::Softmax)?.to_vec2()?)
    }

    /// What the picture in the bytes of a file shows.
    ///
    /// Errors: [`Error::Data`] that says why it can’t be read, as the end of a sentence about the picture.
    pub fn predict_file(&self, bytes: &[u8]) -> Result<Prediction> {
        let picture = decode(bytes, self.about.view.alpha).map_err(Error::Data)?;
        self.predict(picture)
    }

    /// What a picture shows.
    pub fn predict(&self, picture: Picture) -> Result<Prediction> {
        let seen = self.about.view.of(picture);
        let started = Instant::now();
        let all = self.probabilities(&[&seen.pixels], seen.shape)?;
        let millis = started.elapsed().as_secs_f64() * 1e3;
        let all = all.into_iter().next().unwrap_or_default();
        let mut order: Vec<u32> = (0..all.len() as u32).collect();
        // Of equally probable ones, the first.
        order.sort_by(|a, b| all[*b as usize].total_cmp(&all[*a as usize]));
        order.truncate(MAX_RANKED);
        let numbers = self.about.view.plain(
            &vec![seen.pixels.as_slice(); order.len()],
            seen.shape,
            &self.device,
        )?;
        let maps = heat_maps(&self.network, &numbers, &order)?;
        let mut maps = maps.into_iter().flatten();
        let ranked = order.iter().map(|class| Ranked {
            class: self.about.classes[*class as usize].clone(),
            probability: all[*class as usize],
            map: maps.next(),
        });
        Ok(Prediction {
            ranked: ranked.collect(),
            seen,
            millis,
        })
    }
}
