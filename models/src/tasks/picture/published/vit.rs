//! ViTs of others: what their configs say, and what their weights are called.
//!
//! timm stacks queries, keys and values in one matrix, as we do; transformers has three.

use serde_json::{Map, Value as Json};

use super::described::{floats, resample, sizes, text};
use crate::{
    arch::picture::Transformer,
    tasks::picture::{
        classifier::{Looks, View},
        decode::Alpha,
        pixels::Shape,
        resize::{CropMode, Filter},
    },
};

/// What transformers calls what squashes pictures for a ViT.
pub(super) const PROCESSORS: [&str; 3] = [
    "ViTImageProcessor",
    "ViTImageProcessorFast",
    "ViTFeatureExtractor",
];
/// What `model_args` of timm may hold of a ViT, beside what is harmless: each is read.
pub(super) const ARGUMENTS: [&str; 4] = ["img_size", "embed_dim", "depth", "num_heads"];
/// timm’s sizes: the name, numbers of a token, layers, heads.
const SIZES: [(&str, usize, usize, usize); 4] = [
    ("tiny", 192, 12, 3),
    ("small", 384, 12, 6),
    ("base", 768, 12, 12),
    ("large", 1024, 24, 16),
];
/// How much wider than a token timm’s feed-forward parts are.
const EXPANSION: usize = 4;
/// What timm adds to a variance.
const TIMM_EPSILON: f64 = 1e-6;
/// The pixels of a side for timm’s names.
const SIDES: [usize; 2] = [224, 384];
/// The pixels of a side of a patch for timm’s names.
const PATCHES: [usize; 2] = [16, 32];

/// What timm calls a ViT of these sizes. Nothing where it has none.
pub(in crate::tasks::picture) fn name_of(
    sizes: &Transformer,
    [height, width]: [usize; 2],
) -> Option<String> {
    let is_it = |it: &&(&str, usize, usize, usize)| {
        (it.1, it.2, it.3) == (sizes.width, sizes.layers, sizes.heads)
    };
    let (size, ..) = SIZES.iter().find(is_it)?;
    let is_known = sizes.epsilon == TIMM_EPSILON
        && sizes.hidden == EXPANSION * sizes.width
        && height == width
        && SIDES.contains(&height)
        && PATCHES.contains(&sizes.patch);
    is_known.then(|| format!("vit_{size}_patch{}_{height}", sizes.patch))
}

/// The sizes of a ViT of timm, by its name and what it was built with. Nothing where it is no such ViT.
pub(super) fn of_timm(
    name: &str,
    arguments: Option<&Map<String, Json>>,
    view: &View,
) -> Result<Option<Transformer>, String> {
    let bare = name.strip_prefix("timm/").unwrap_or(name);
    let bare = bare.split('.').next().unwrap_or_default();
    let parts: Vec<&str> = bare.split('_').collect();
    let ["vit", size, patch, side] = parts[..] else {
        return Ok(None);
    };
    let known = SIZES.iter().find(|it| it.0 == size);
    let number = |text: &str, known: &[usize]| {
        let number = text.parse().ok();
        number.filter(|it| known.contains(it))
    };
    let patch = patch
        .strip_prefix("patch")
        .and_then(|it| number(it, &PATCHES));
    let (Some(known), Some(patch), Some(side)) = (known, patch, number(side, &SIDES)) else {
        return Ok(None);
    };
    let argument = |name: &str, usual: usize| match arguments.and_then(|it| it.get(name)) {
        None | Some(Json::Null) => Ok(usual),
        Some(it) => {
            as_size(it).ok_or_else(|| format!("its `model_args.{name}` is {it}, which is no size"))
        }
    };
    // A size is a number, or height and width.
    let built = match arguments.and_then(|it| it.get("img_size")) {
        Some(Json::Array(_)) => arguments
            .map(|it| sizes(it, "img_size"))
            .transpose()?
            .unwrap_or_default(),
        _ => vec![argument("img_size", side)?],
    };
    let shown = view.shape.height;
    if built.is_empty() || built.iter().any(|it| *it != shown) {
        return Err(format!(
            "it was built for pictures of {built:?} pixels, and is shown {shown} x {shown}"
        ));
    }
    let width = argument("embed_dim", known.1)?;
    Ok(Some(Transformer {
        patch,
        width,
        layers: argument("depth", known.2)?,
        heads: argument("num_heads", known.3)?,
        hidden: width.saturating_mul(EXPANSION),
        epsilon: TIMM_EPSILON,
    }))
}

/// The sizes of a ViT of transformers. What its config does not say is what its `ViTConfig` has then.
pub(super) fn of_transformers(config: &Map<String, Json>) -> Result<Transformer, String> {
    if let Some(other) = text(config, "hidden_act").filter(|it| *it != "gelu") {
        return Err(format!(
            "its `hidden_act` is `{other}`, and only `gelu` is known here"
        ));
    }
    if config.get("qkv_bias").is_some_and(|it| *it != true) {
        return Err("its `qkv_bias` is off, and only ViTs that have it are known here".to_owned());
    }
    let size = |name: &str, usual| of_config(config, name, usual);
    let epsilon = match config.get("layer_norm_eps") {
        None => Some(1e-12),
        Some(it) => it.as_f64(),
    };
    Ok(Transformer {
        patch: size("patch_size", 16)?,
        width: size("hidden_size", 768)?,
        layers: size("num_hidden_layers", 12)?,
        heads: size("num_attention_heads", 12)?,
        hidden: size("intermediate_size", 3072)?,
        epsilon: epsilon.ok_or("its `layer_norm_eps` is no number")?,
    })
}

/// The side of the pictures that a ViT of transformers is for.
pub(super) fn image_size(config: &Map<String, Json>) -> Result<usize, String> {
    of_config(config, "image_size", 224)
}

/// What a ViT is shown where transformers is told nothing else.
pub(super) fn usual_view(side: usize, channels: usize) -> View {
    View {
        shape: Shape::square(side, channels),
        short_side: None,
        crop_mode: CropMode::Squash,
        filter: Filter::Bilinear,
        alpha: Alpha::default(),
        mean: vec![0.5; channels.min(3)],
        std: vec![0.5; channels.min(3)],
        looks: Looks::One,
    }
}

/// What a ViT is shown by its preprocessor_config.json.
pub(super) fn view_of(fields: &Map<String, Json>, channels: usize) -> Result<View, String> {
    let size = fields.get("size");
    let sides = match size {
        Some(Json::Object(sides)) => ["height", "width"].map(|it| sides.get(it).and_then(as_size)),
        other => [other.and_then(as_size); 2],
    };
    let [Some(height), Some(width)] = sides else {
        return Err("its preprocessor has no `size` of height and width".to_owned());
    };
    if height != width {
        return Err(format!(
            "its pictures have {width} x {height} pixels, and only squares are known here"
        ));
    }
    let usual = usual_view(height, channels);
    let of = |name: &str, usual: &[f32]| match fields.contains_key(name) {
        true => floats(fields, name),
        false => Ok(usual.to_vec()),
    };
    Ok(View {
        filter: resample(fields)?.unwrap_or(usual.filter),
        mean: of("image_mean", &usual.mean)?,
        std: of("image_std", &usual.std)?,
        ..usual
    })
}

/// Their names of a weight that is called so here, the parts of a stacked one in order.
pub(super) fn names_in_transformers(name: &str) -> Option<Vec<String>> {
    let one = |name: &str| Some(vec![name.to_owned()]);
    let parts: Vec<&str> = name.split('.').collect();
    match parts[..] {
        ["cls_token"] => one("vit.embeddings.cls_token"),
        ["pos_embed"] => one("vit.embeddings.position_embeddings"),
        ["patch_embed", "proj", what] => Some(vec![format!(
            "vit.embeddings.patch_embeddings.projection.{what}"
        )]),
        ["norm", what] => Some(vec![format!("vit.layernorm.{what}")]),
        ["head", what] => Some(vec![format!("classifier.{what}")]),
        ["blocks", layer, ref part @ .., what] => {
            let of = |part: &str| format!("vit.encoder.layer.{layer}.{part}.{what}");
            let parts: &[&str] = match part {
                ["norm1"] => &["layernorm_before"],
                ["norm2"] => &["layernorm_after"],
                ["attn", "qkv"] => &[
                    "attention.attention.query",
                    "attention.attention.key",
                    "attention.attention.value",
                ],
                ["attn", "proj"] => &["attention.output.dense"],
                ["mlp", "fc1"] => &["intermediate.dense"],
                ["mlp", "fc2"] => &["output.dense"],
                _ => return None,
            };
            Some(parts.iter().map(|it| of(it)).collect())
        }
        _ => None,
    }
}

fn of_config(config: &Map<String, Json>, name: &str, usual: usize) -> Result<usize, String> {
    match config.get(name) {
        None => Ok(usual),
        Some(it) => as_size(it).ok_or_else(|| format!("its `{name}` is {it}, which is no size")),
    }
}

fn as_size(json: &Json) -> Option<usize> {
    usize::try_from(json.as_u64()?).ok()
}
