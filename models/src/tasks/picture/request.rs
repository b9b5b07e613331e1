//! What is asked of a run that learns pictures, and what is planned: the same names, with nothing optional.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{
    augment::{Augmentation, Border, Flip},
    classifier::{Looks, View},
    decode::Alpha,
    pixels::Shape,
    resize::{CropMode, Filter},
};
use crate::{
    arch::picture::{Architecture, NetConfig, Stem},
    optim::lookahead::Lookahead,
    train::tree::Part,
};

/// How a network comes to know the classes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// A published network stays as it is, and only which of its features speak for which class is found, in seconds.
    Features,
    /// All of a published network learns.
    FineTune,
    /// A network learns from scratch.
    #[default]
    Scratch,
}

/// What the head of a published network begins with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Head {
    /// Small random weights.
    #[default]
    New,
    /// Its own weights: for what tells the same classes apart.
    Kept,
}

/// The part of a request that is about pictures. Everything is optional.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PictureRequest {
    /// The published network to start from: a folder, or a file of PyTorch.
    pub model: Option<PathBuf>,
    /// What to learn from.
    pub data: PictureDataRequest,
    /// How.
    pub picture: SettingsRequest,
}

impl Part for PictureRequest {}

/// What to learn from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PictureDataRequest {
    /// Files and folders of pictures with their classes.
    pub files: Vec<PathBuf>,
    /// The share kept aside to measure with, where the data has no part for that.
    pub held_out: Option<f64>,
}

/// How it is learned: a request and a plan have the same settings.
macro_rules! settings {
    ($($(#[doc = $doc:literal])+ $name:ident: $kind:ty,)+) => {
        /// What can be said of how pictures are learned.
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct SettingsRequest {
            $($(#[doc = $doc])+ pub $name: Option<$kind>,)+
        }

        /// How pictures are learned.
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
        pub struct Settings {
            $($(#[doc = $doc])+ pub $name: $kind,)+
        }
    };
}

settings! {
    /// Whether a published network is used or learns, or a new one does.
    method: Method,
    /// What the head of a published network begins with.
    head: Head,
    /// The settings that were begun with.
    recipe: String,
    /// How the network is built.
    architecture: Architecture,
    /// How a ResNet begins.
    stem: Stem,
    /// The side that pictures are scaled to.
    side: usize,
    /// How long the short side becomes before the middle is cut out.
    short_side: usize,
    /// Whether the middle is cut out, or all of each is seen out of shape.
    crop_mode: CropMode,
    /// How they are scaled.
    filter: Filter,
    /// What becomes of pixels that can be seen through.
    alpha: Alpha,
    /// 1 for grey, 3 for colour.
    channels: usize,
    /// How many classes are told apart: as many as the data has.
    classes: usize,
    /// The mean of each channel, of values from 0 to 1, which is taken away.
    mean: Vec<f64>,
    /// The deviation of each channel, by which it is divided.
    std: Vec<f64>,
    /// So many random pictures to learn from. 0 is all.
    subsample_size: usize,
    /// Whether each picture is seen otherwise each time.
    augment: bool,
    /// Whether they are mirrored, left to right.
    flip: Flip,
    /// So many pixels are put around, and a part is cut out from anywhere.
    pad: usize,
    /// What those are.
    border: Border,
    /// The side of a square that is blotted out. 0 is none.
    cutout: usize,
    /// The smallest share of a picture that is cut out and scaled to the whole. 1 is the whole itself.
    least_area: f64,
    /// By how much brightness, contrast and saturation change at most.
    jitter: f64,
    /// How much of each label is shared among all classes.
    label_smoothing: f64,
    /// How much faster the biases of norms learn.
    bias_rate_ratio: f64,
    /// How much faster, or slower, than the head all other weights learn.
    body_rate_ratio: f64,
    /// In how many steps the bias of a first layer learns whose weights follow from the pictures.
    whitening_steps: usize,
    /// After how many steps the weights go back to a slower copy of them. 0 is never.
    lookahead_every: usize,
    /// How much of that copy is kept for each step.
    lookahead_decay: f64,
    /// The share of a batch in the running means of norms. 0 leaves those of the published network as they are.
    norm_momentum: f64,
    /// How often a picture is looked at to say what it shows.
    looks: Looks,
    /// Threads that make the next batch while the network learns from the present one.
    workers: usize,
}

impl Settings {
    /// The network. The sizes of a ViT are those of the published network.
    pub fn net(&self, published: Option<&NetConfig>) -> NetConfig {
        let is_vit = self.architecture == Architecture::Vit;
        NetConfig {
            architecture: self.architecture,
            stem: self.stem,
            sides: [self.side, self.side],
            channels: self.channels,
            classes: self.classes,
            transformer: published.filter(|_| is_vit).and_then(|it| it.transformer),
        }
    }

    /// What it is shown.
    pub fn view(&self) -> View {
        View {
            shape: Shape::square(self.side, self.channels),
            short_side: (self.short_side > self.side).then_some(self.short_side),
            crop_mode: self.crop_mode,
            filter: self.filter,
            alpha: self.alpha,
            mean: self.mean.iter().map(|it| *it as f32).collect(),
            std: self.std.iter().map(|it| *it as f32).collect(),
            looks: self.looks,
        }
    }

    /// How pictures are changed while it learns. Nothing where they are not.
    pub fn augmentation(&self) -> Option<Augmentation> {
        self.augment.then(|| Augmentation {
            pad: self.pad,
            border: self.border,
            flip: self.flip,
            cutout: self.cutout,
            random_resized_crop: (self.least_area < 1.0).then_some((self.least_area, 1.0)),
            jitter: self.jitter,
        })
    }

    /// The slower copy of the weights.
    pub fn lookahead(&self) -> Lookahead {
        Lookahead {
            every: self.lookahead_every,
            decay: self.lookahead_decay,
        }
    }

    /// Whether norms go by the batch that is learned from.
    pub fn follows_batches(&self) -> bool {
        self.norm_momentum > 0.0
    }
}

/// The part of a plan that is about pictures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PicturePlan {
    /// The published network to start from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<PathBuf>,
    /// What to learn from.
    pub data: PictureDataPlan,
    /// How.
    pub picture: Settings,
}

/// What no run of pictures reads: an average of weights would need norms of its own, and nothing here is computed twice.
const UNREAD: &[&str] = &["ema", "gradient_checkpointing"];
/// What a run does not read besides whose head is found without following gradients.
const UNREAD_OF_FEATURES: &[&str] = &[
    "ema",
    "gradient_checkpointing",
    "learning_rate",
    "schedule",
    "optimizer",
    "clip_norm",
];

impl Part for PicturePlan {
    fn unread(&self) -> &'static [&'static str] {
        match self.picture.method {
            Method::Features => UNREAD_OF_FEATURES,
            Method::FineTune | Method::Scratch => UNREAD,
        }
    }
}

/// What to learn from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PictureDataPlan {
    /// Files and folders of pictures with their classes.
    pub files: Vec<PathBuf>,
    /// The share kept aside to measure with, where the data has no part for that.
    pub held_out: f64,
}
