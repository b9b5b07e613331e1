//! What is chosen for each setting that nobody asked for, with the reason.

use serde::Serialize;
use serde_json::{Value, json};

use super::of;
use crate::{
    arch::picture::Stem,
    device::{DeviceKind, FoundDevice},
    tasks::picture::{
        PictureFacts,
        augment::Flip,
        classifier::Looks,
        decode::Alpha,
        recipe::Recipe,
        request::Method,
        resize::{CropMode, Filter},
    },
    train::plan::Chosen,
};

/// Threads that make batches for a GPU, on any machine: as the usual lessons have it.
const GPU_WORKERS: usize = 4;

/// Why something is so that no person chose.
pub(super) const IN_PUBLISHED: &str = "so it is in the published network";

/// Settings with what is chosen for them, by their names.
pub(super) type Choices = Vec<(&'static str, Chosen<Value>)>;

/// A setting as the published network has it, or as it is chosen without one.
fn of_published<T: Serialize>(
    name: &'static str,
    published: Option<T>,
    otherwise: T,
    why: &str,
) -> (&'static str, Chosen<Value>) {
    let chosen = match published {
        Some(value) => Chosen::new(json!(value), IN_PUBLISHED),
        None => Chosen::new(json!(otherwise), why),
    };
    (name, chosen)
}

/// How the network is built.
pub(super) fn network(recipe: &Recipe, facts: &PictureFacts, device: &FoundDevice) -> Choices {
    let net = facts.published.as_ref().map(|it| &it.net);
    let (name, mut architecture) = of_published(
        "architecture",
        net.map(|it| it.architecture),
        recipe.architecture,
        &of(recipe),
    );
    architecture.why += &convolutions(device);
    vec![
        (name, architecture),
        of_published(
            "stem",
            net.map(|it| it.stem),
            Stem::Small,
            "small pictures are seen whole by it",
        ),
        of_published(
            "channels",
            net.map(|it| it.channels),
            facts.channels,
            "as the pictures have",
        ),
        (
            "classes",
            Chosen::new(json!(facts.classes.len()), "as many as the data has"),
        ),
    ]
}

/// What computes convolutions on NVIDIA, the end of a sentence: it may be another library on another machine.
fn convolutions(device: &FoundDevice) -> String {
    match (device.kind, &device.cudnn_version) {
        (DeviceKind::Cuda, Some(version)) => {
            format!("; in bf16 and f16 convolutions go through cuDNN {version}, which was found")
        }
        (DeviceKind::Cuda, None) => {
            "; convolutions go through Anneal’s own kernels, since no cuDNN 9 was found".to_owned()
        }
        _ => String::new(),
    }
}

/// What it is shown.
pub(super) fn view(facts: &PictureFacts) -> Choices {
    let view = facts.published.as_ref().map(|it| &it.view);
    let wide = |numbers: &Vec<f32>| numbers.iter().map(|it| rounded(f64::from(*it))).collect();
    let of_pictures = "that of the pictures";
    let side = match facts.is_as_found {
        true => "as large as the pictures are",
        false => "shapes are told at this size, and it is learned in minutes",
    };
    vec![
        of_published("side", view.map(|it| it.shape.height), facts.side, side),
        of_published(
            "crop_mode",
            view.map(|it| it.crop_mode),
            CropMode::default(),
            "shapes stay as they are",
        ),
        of_published(
            "filter",
            view.map(|it| it.filter),
            Filter::default(),
            "it suits most pictures",
        ),
        of_published(
            "alpha",
            view.map(|it| it.alpha),
            Alpha::default(),
            "as a viewer shows them",
        ),
        of_published(
            "mean",
            view.map(|it| wide(&it.mean)),
            facts.mean.clone(),
            of_pictures,
        ),
        of_published(
            "std",
            view.map(|it| wide(&it.std)),
            facts.std.clone(),
            of_pictures,
        ),
    ]
}

/// How batches are made, and how they come to the device.
pub(super) fn loader(method: Method, kind: DeviceKind) -> Choices {
    let (workers, why) = match (method, kind) {
        (Method::Features, _) => (1, "the usual value; features are read without it"),
        (_, DeviceKind::Cpu) => (
            1,
            "loader: 1 thread, next batch made ahead; pinned: no, because the processor reads it where it is",
        ),
        (_, DeviceKind::Metal) => (
            GPU_WORKERS,
            "loader: 4 threads, next batch made ahead, copied once; pinned: no, because Metal shares memory",
        ),
        (_, DeviceKind::Cuda | DeviceKind::Rocm) => (
            GPU_WORKERS,
            "loader: 4 threads, next batch made ahead, copied to the GPU once; pinned: no, because candle has no such memory",
        ),
    };
    vec![("workers", Chosen::new(json!(workers), why))]
}

/// How pictures are changed while it learns.
pub(super) fn seen_otherwise(method: Method, recipe: &Recipe, facts: &PictureFacts) -> Choices {
    let (is_changed, why) = match method {
        Method::Features => (false, "features are of the pictures as they are"),
        _ => (
            true,
            "a picture that is moved is another one with the same class",
        ),
    };
    let by = &recipe.augmentation;
    let least_area = by.random_resized_crop.map_or(1.0, |it| it.0);
    let of_recipe = |name, value| (name, Chosen::new(value, of(recipe)));
    vec![
        ("subsample_size", Chosen::new(json!(0), "every picture")),
        ("augment", Chosen::new(json!(is_changed), why)),
        ("flip", flip(recipe, facts)),
        of_recipe("pad", json!(by.pad)),
        of_recipe("border", json!(by.border)),
        of_recipe("cutout", json!(by.cutout)),
        of_recipe("least_area", json!(least_area)),
        of_recipe("jitter", json!(by.jitter)),
    ]
}

/// How it learns, beside what every run has.
pub(super) fn learned(method: Method, recipe: &Recipe, steps_of_epoch: f64) -> Choices {
    let whitening = (recipe.whitening_epochs * steps_of_epoch).ceil() as usize;
    let norms = match method {
        Method::Scratch => Chosen::new(json!(recipe.norm_momentum), of(recipe)),
        _ => Chosen::new(
            json!(0.0),
            "few pictures would change what many have measured",
        ),
    };
    let of_recipe = |name, value| (name, Chosen::new(value, of(recipe)));
    vec![
        of_recipe("label_smoothing", json!(recipe.label_smoothing)),
        of_recipe("bias_rate_ratio", json!(recipe.bias_rate_ratio)),
        of_recipe("body_rate_ratio", json!(recipe.body_rate_ratio)),
        of_recipe("whitening_steps", json!(whitening)),
        of_recipe("lookahead_every", json!(recipe.lookahead.every)),
        of_recipe("lookahead_decay", json!(recipe.lookahead.decay)),
        ("norm_momentum", norms),
    ]
}

/// A number to five digits, as a person would write it.
fn rounded(number: f64) -> f64 {
    (number * 1e5).round() / 1e5
}

/// Whether pictures are mirrored where nobody says so: not where classes are called as letters and digits are.
fn flip(recipe: &Recipe, facts: &PictureFacts) -> Chosen<Value> {
    let is_sign = |name: &String| name.chars().count() == 1 || name.parse::<u32>().is_ok();
    match !facts.classes.is_empty() && facts.classes.iter().all(is_sign) {
        true => Chosen::new(
            json!(Flip::None),
            "classes are called as digits or letters are, which mean something else in a mirror",
        ),
        false => Chosen::new(json!(recipe.flip), of(recipe)),
    }
}

/// How often a picture is looked at. Nothing is looked at in a mirror that was never learned so.
pub(super) fn looks(method: Method, recipe: &Recipe, flip: &Value) -> Chosen<Value> {
    if method == Method::Features && *flip != json!(Flip::None) {
        return Chosen::new(json!(Looks::Mirrored), "features are of both");
    }
    match *flip == json!(Flip::None) {
        true => Chosen::new(json!(Looks::One), "nothing was mirrored while it learned"),
        false => Chosen::new(json!(recipe.looks), of(recipe)),
    }
}
