//! What the config files of a network say: what it is, what it was shown, and what its classes are called.
//!
//! A field that would change what the network computes is read, or refused by its name.

use serde_json::{Map, Value as Json};

use super::vit::{self, of_timm as vit_of_timm};
use crate::{
    arch::picture::{Architecture, NetConfig, Stem, Transformer},
    figures::count,
    limits,
    tasks::picture::{
        classifier::{Looks, View},
        decode::Alpha,
        pixels::Shape,
        resize::{CropMode, Filter},
    },
};

/// The name under which this program’s own configs say whose they are.
pub(in crate::tasks::picture) const LIBRARY: &str = "anneal";
/// How networks of ImageNet are shown their pictures, where nothing says otherwise.
const IMAGENET: ([f32; 3], [f32; 3]) = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]);
/// The same of kuangliu’s CIFAR-10.
const CIFAR: ([f32; 3], [f32; 3]) = ([0.4914, 0.4822, 0.4465], [0.2023, 0.1994, 0.2010]);
/// The short side before the middle is cut out, for torchvision’s own weights.
const TORCHVISION_SHORT: usize = 256;
/// The share of a side that timm keeps where a file doesn’t say it.
const TIMM_SHARE: f64 = 0.875;
/// The share of a side that transformers keeps where a file doesn’t say it.
const CONVNEXT_SHARE: f64 = 224.0 / 256.0;
/// From this side on, transformers squeezes a picture in place of cutting its middle out.
const CONVNEXT_SQUEEZED: usize = 384;
/// What `model_args` of timm may hold: what is compared with the rest, and what matters in training alone.
const HARMLESS_ARGUMENTS: [&str; 6] = [
    "num_classes",
    "in_chans",
    "global_pool",
    "drop_rate",
    "drop_path_rate",
    "drop_block_rate",
];

/// What files say of a network.
pub(super) struct Described {
    /// All of it, where they do.
    pub(super) net: Option<NetConfig>,
    /// The sizes of a ViT, where it is one.
    pub(super) transformer: Option<Transformer>,
    /// Its architecture, where they do.
    architecture: Option<Architecture>,
    /// Classes, where they do.
    class_count: Option<usize>,
    pub(super) view: View,
    pub(super) classes: Option<Vec<String>>,
    pub(super) licence: Option<String>,
    pub(super) notes: Vec<String>,
}

impl Described {
    /// What a folder says.
    pub(super) fn read(config: &Json, preprocessor: Option<&Json>) -> Result<Self, String> {
        let config = config.as_object().ok_or("its config.json is no object")?;
        if text(config, "library_name") == Some(LIBRARY) {
            return Self::of_ours(config);
        }
        match (text(config, "architecture"), text(config, "model_type")) {
            (Some(architecture), _) => Self::of_timm(config, architecture),
            (None, Some("resnet")) => Self::of_transformers(config, preprocessor),
            (None, Some("vit")) => Self::of_transformers(config, preprocessor),
            (None, Some(other)) => Err(format!(
                "the network is of the type `{other}`, and of pictures’ networks `resnet` and `vit` are known here"
            )),
            (None, None) => Err(
                "its config.json has neither `architecture`, as timm writes it, nor `model_type`, as transformers does"
                    .to_owned(),
            ),
        }
    }

    /// What is taken for granted of a file that has weights alone.
    pub(super) fn of_bare_file(stem: Stem, net: &NetConfig) -> Self {
        let [height, width] = net.sides;
        let shape = Shape::new(height, width, net.channels);
        let ((mean, std), short_side, whose) = match stem {
            Stem::Photo => (IMAGENET, Some(TORCHVISION_SHORT), "torchvision’s own"),
            Stem::Small => (CIFAR, None, "kuangliu’s CIFAR-10"),
        };
        let mut view = View {
            shape,
            short_side,
            crop_mode: CropMode::Center,
            filter: Filter::Bilinear,
            alpha: Alpha::default(),
            mean: mean.to_vec(),
            std: std.to_vec(),
            looks: Looks::One,
        };
        if net.channels == 1 {
            (view.mean, view.std) = (vec![0.5], vec![0.5]);
        }
        let whose = if net.channels == 1 {
            "a mean and a deviation of a half"
        } else {
            whose
        };
        Self {
            net: None,
            transformer: None,
            architecture: None,
            class_count: None,
            view,
            classes: None,
            licence: None,
            notes: vec![format!(
                "The file doesn’t say how pictures were shown to the network. They are scaled and normalised with {whose}."
            )],
        }
    }

    /// Whether the tensors are what the files say.
    pub(super) fn check(&self, net: &NetConfig) -> Result<(), String> {
        let different = |what: &str, said: &str, found: &str| {
            Err(format!(
                "its config says {what} {said}, and its weights {found}"
            ))
        };
        if let Some(said) = self.architecture
            && said != net.architecture
        {
            let [said, found] = [said, net.architecture].map(|it| format!("{it:?}"));
            return different("the architecture is", &said, &found);
        }
        if let Some(said) = self.class_count
            && said != net.classes
        {
            return different(
                "the classes are",
                &said.to_string(),
                &net.classes.to_string(),
            );
        }
        let channels = self.view.shape.channels;
        if channels != net.channels {
            let [said, found] = [channels, net.channels].map(|it| it.to_string());
            return different("the channels are", &said, &found);
        }
        let names = self.classes.as_ref().map(Vec::len);
        if let Some(names) = names.filter(|it| *it != net.classes) {
            return Err(format!(
                "its config names {names} classes, and its weights tell {} apart",
                net.classes
            ));
        }
        Ok(())
    }

    fn of_ours(config: &Map<String, Json>) -> Result<Self, String> {
        let field = |name: &str| config.get(name).cloned().unwrap_or_default();
        let wrong =
            |name: &str, error: serde_json::Error| format!("`{name}` of its config: {error}");
        let net: NetConfig =
            serde_json::from_value(field("net")).map_err(|error| wrong("net", error))?;
        let view: View =
            serde_json::from_value(field("view")).map_err(|error| wrong("view", error))?;
        let shape = view.shape;
        if [shape.height, shape.width] != net.sides {
            return Err("its config shows the network pictures of another size".to_owned());
        }
        view.problem().map_or(Ok(()), Err)?;
        Ok(Self {
            architecture: Some(net.architecture),
            class_count: Some(net.classes),
            transformer: net.transformer,
            net: Some(net),
            view,
            classes: label_names(config)?,
            licence: None,
            notes: Vec::new(),
        })
    }

    fn of_timm(config: &Map<String, Json>, architecture: &str) -> Result<Self, String> {
        // Of older folders, all of it is one level.
        let nested = config.get("pretrained_cfg").and_then(Json::as_object);
        let shown = nested.unwrap_or(config);
        let arguments = config.get("model_args").and_then(Json::as_object);
        let view = timm_view(shown)?;
        let transformer = vit_of_timm(architecture, arguments, &view)?;
        let known = match transformer {
            Some(_) => Architecture::Vit,
            None => timm_architecture(architecture)?,
        };
        check_timm(config, known)?;
        let licence = text(shown, "license").or_else(|| text(config, "license"));
        let class_count = config
            .get("num_classes")
            .or_else(|| shown.get("num_classes"));
        Ok(Self {
            net: None,
            transformer,
            architecture: Some(known),
            class_count: class_count.and_then(Json::as_u64).map(|it| it as usize),
            view,
            classes: label_names(config)?.or(label_names(shown)?),
            licence: licence.map(str::to_owned),
            notes: Vec::new(),
        })
    }

    fn of_transformers(
        config: &Map<String, Json>,
        preprocessor: Option<&Json>,
    ) -> Result<Self, String> {
        let is_vit = text(config, "model_type") == Some("vit");
        let transformer = match is_vit {
            true => Some(vit::of_transformers(config)?),
            false => None,
        };
        let architecture = match is_vit {
            true => Architecture::Vit,
            false => resnet_of_transformers(config)?,
        };
        let channels = config
            .get("num_channels")
            .and_then(Json::as_u64)
            .unwrap_or(3);
        let channels = usize::try_from(channels).map_err(|error| error.to_string())?;
        let mut notes = Vec::new();
        let view = match preprocessor {
            Some(preprocessor) => of_preprocessor(preprocessor, channels, is_vit)?,
            None if is_vit => {
                notes.push(
                    "The folder has no preprocessor_config.json. Pictures are scaled and normalised as transformers does it for a ViT where \
                     nothing says otherwise."
                        .to_owned(),
                );
                vit::usual_view(vit::image_size(config)?, channels)
            }
            None => {
                notes.push(
                    "The folder has no preprocessor_config.json. Pictures are scaled and normalised as ImageNet’s."
                        .to_owned(),
                );
                View {
                    shape: Shape::square(224, channels),
                    short_side: Some(TORCHVISION_SHORT),
                    crop_mode: CropMode::Center,
                    filter: Filter::Bicubic,
                    alpha: Alpha::default(),
                    mean: IMAGENET.0.to_vec(),
                    std: IMAGENET.1.to_vec(),
                    looks: Looks::One,
                }
            }
        };
        view.problem().map_or(Ok(()), Err)?;
        if is_vit && view.shape.height != vit::image_size(config)? {
            return Err(format!(
                "its config says its pictures have {0} x {0} pixels, and its preprocessor makes them {1} x {1}",
                vit::image_size(config)?,
                view.shape.height
            ));
        }
        Ok(Self {
            net: None,
            transformer,
            architecture: Some(architecture),
            class_count: None,
            view,
            classes: id2label(config)?,
            licence: text(config, "license").map(str::to_owned),
            notes,
        })
    }
}

/// Which ResNet a config of transformers means.
fn resnet_of_transformers(config: &Map<String, Json>) -> Result<Architecture, String> {
    let layer = text(config, "layer_type").unwrap_or("bottleneck");
    let depths = match config.contains_key("depths") {
        true => sizes(config, "depths")?,
        false => vec![3, 4, 6, 3],
    };
    let architecture = match (layer, depths.as_slice()) {
        ("basic", [2, 2, 2, 2]) => Architecture::Resnet18,
        ("basic", [3, 4, 6, 3]) => Architecture::Resnet34,
        ("bottleneck", [3, 4, 6, 3]) => Architecture::Resnet50,
        _ => {
            return Err(format!(
                "the network has {depths:?} blocks of the type `{layer}`, and ResNets of 18, 34 and 50 layers are known here"
            ));
        }
    };
    if let Some(other) = text(config, "hidden_act").filter(|it| *it != "relu") {
        return Err(format!(
            "its `hidden_act` is `{other}`, and only `relu` is known here"
        ));
    }
    for field in ["downsample_in_first_stage", "downsample_in_bottleneck"] {
        let matters = field != "downsample_in_bottleneck" || layer == "bottleneck";
        if matters && config.get(field).and_then(Json::as_bool) == Some(true) {
            return Err(format!("its `{field}` is on, which is not known here"));
        }
    }
    Ok(architecture)
}

/// What a name of timm means: a variant of weights stands after a point.
fn timm_architecture(name: &str) -> Result<Architecture, String> {
    let bare = name.strip_prefix("timm/").unwrap_or(name);
    let bare = bare.split('.').next().unwrap_or_default();
    match bare {
        "resnet18" => Ok(Architecture::Resnet18),
        "resnet34" => Ok(Architecture::Resnet34),
        "resnet50" => Ok(Architecture::Resnet50),
        _ => Err(format!(
            "the architecture `{name}` is not known here: resnet18, resnet34, resnet50 and ViTs such as vit_base_patch16_224 are"
        )),
    }
}

/// Whether the rest of a config of timm leaves a network as its name says.
fn check_timm(config: &Map<String, Json>, architecture: Architecture) -> Result<(), String> {
    let arguments = config.get("model_args").and_then(Json::as_object);
    let (more, pool): (&[&str], _) = match architecture {
        Architecture::Vit => (&vit::ARGUMENTS, "token"),
        _ => (&[], "avg"),
    };
    let is_other = |it: &&String| {
        let name = it.as_str();
        !HARMLESS_ARGUMENTS.contains(&name) && !more.contains(&name)
    };
    if let Some(name) = arguments.and_then(|it| it.keys().find(is_other)) {
        return Err(format!(
            "the network is built with `model_args.{name}`, which is not known here"
        ));
    }
    let pools = [Some(config), arguments].into_iter().flatten();
    let mut pools = pools.filter_map(|it| text(it, "global_pool"));
    match pools.find(|it| *it != pool) {
        None => Ok(()),
        Some(other) => Err(format!(
            "the network ends with the pool `{other}`, and only `{pool}` is known here"
        )),
    }
}

/// What a network of timm is shown.
fn timm_view(shown: &Map<String, Json>) -> Result<View, String> {
    let crop_mode = match text(shown, "crop_mode").unwrap_or("center") {
        "center" => CropMode::Center,
        "squash" => CropMode::Squash,
        mode => {
            return Err(format!(
                "its pictures are cut by `crop_mode: {mode}`, and only `center` and `squash` are known here"
            ));
        }
    };
    let size = sizes(shown, "input_size")?;
    let [channels, height, width] = size[..] else {
        return Err(format!(
            "its `input_size` is {size:?}, and has to be three numbers"
        ));
    };
    if height != width {
        return Err(format!(
            "its pictures have {width} x {height} pixels, and only squares are known here"
        ));
    }
    let filter = match text(shown, "interpolation").unwrap_or("bilinear") {
        "bilinear" => Filter::Bilinear,
        "bicubic" => Filter::Bicubic,
        other => {
            return Err(format!(
                "its pictures are scaled by `{other}`, and only `bilinear` and `bicubic` are known here"
            ));
        }
    };
    let share = match shown.get("crop_pct") {
        None | Some(Json::Null) => TIMM_SHARE,
        Some(share) => share.as_f64().unwrap_or(f64::NAN),
    };
    if crop_mode == CropMode::Squash && share != 1.0 {
        return Err(format!(
            "its pictures are squashed and then cut to {share} of a side, and only squashed ones that are kept whole are known here"
        ));
    }
    let view = View {
        shape: Shape::square(height, channels),
        short_side: Some(short_side(height, share, "crop_pct")?),
        crop_mode,
        filter,
        alpha: Alpha::default(),
        mean: floats(shown, "mean")?,
        std: floats(shown, "std")?,
        looks: Looks::One,
    };
    view.problem().map_or(Ok(()), Err)?;
    Ok(view)
}

/// What transformers does with a picture.
fn of_preprocessor(preprocessor: &Json, channels: usize, is_vit: bool) -> Result<View, String> {
    let fields = preprocessor
        .as_object()
        .ok_or("its preprocessor_config.json is no object")?;
    let kind =
        text(fields, "image_processor_type").or_else(|| text(fields, "feature_extractor_type"));
    // Which one it is where nothing says so follows from the network.
    let squashes = match kind {
        None => is_vit,
        Some(kind) if kind.starts_with("ConvNext") => false,
        Some(kind) if vit::PROCESSORS.contains(&kind) => true,
        Some(kind) => {
            return Err(format!(
                "its pictures are prepared by `{kind}`, and only `ConvNextImageProcessor` and `ViTImageProcessor` are known here"
            ));
        }
    };
    for field in ["do_resize", "do_rescale", "do_normalize"] {
        if fields.get(field).and_then(Json::as_bool) == Some(false) {
            return Err(format!(
                "its preprocessor has `{field}` off, which is not known here"
            ));
        }
    }
    if let Some(factor) = fields.get("rescale_factor").and_then(Json::as_f64)
        && (factor * 255.0 - 1.0).abs() > 1e-6
    {
        return Err(format!(
            "its preprocessor has `rescale_factor: {factor}`, and only 1/255 is known here"
        ));
    }
    if squashes {
        return vit::view_of(fields, channels);
    }
    let size = fields.get("size");
    let side = size.and_then(|it| it.as_u64().or_else(|| it.get("shortest_edge")?.as_u64()));
    let side = side.ok_or("its preprocessor has no `size.shortest_edge`")?;
    let side = usize::try_from(side).map_err(|error| error.to_string())?;
    if side >= CONVNEXT_SQUEEZED {
        return Err(format!(
            "its pictures of {side} pixels are squeezed into a square, which is not known here"
        ));
    }
    let share = match fields.get("crop_pct") {
        None | Some(Json::Null) => CONVNEXT_SHARE,
        Some(share) => share.as_f64().unwrap_or(f64::NAN),
    };
    let filter = resample(fields)?.unwrap_or(Filter::Bicubic);
    Ok(View {
        shape: Shape::square(side, channels),
        short_side: Some(short_side(side, share, "crop_pct")?),
        crop_mode: CropMode::Center,
        filter,
        alpha: Alpha::default(),
        mean: floats(fields, "image_mean")?,
        std: floats(fields, "image_std")?,
        looks: Looks::One,
    })
}

/// How pictures are scaled, where a preprocessor of transformers says it.
pub(super) fn resample(fields: &Map<String, Json>) -> Result<Option<Filter>, String> {
    match fields.get("resample").and_then(Json::as_u64) {
        None => Ok(None),
        Some(2) => Ok(Some(Filter::Bilinear)),
        Some(3) => Ok(Some(Filter::Bicubic)),
        Some(other) => Err(format!(
            "its pictures are scaled by `resample: {other}`, and only 2 (bilinear) and 3 (bicubic) are known here"
        )),
    }
}

/// How long the short side becomes of which so large a share is kept.
fn short_side(side: usize, share: f64, field: &str) -> Result<usize, String> {
    let short = (side as f64 / share).floor();
    let most = limits::PICTURE_SIDE.most;
    match share > 0.0 && share <= 1.0 && short <= most as f64 {
        true => Ok(short as usize),
        false => Err(format!(
            "its `{field}` is {share}, which makes sides of {short} pixels of {side}; it has to be at most 1, and sides at most {}",
            count(most)
        )),
    }
}

pub(super) fn text<'a>(fields: &'a Map<String, Json>, name: &str) -> Option<&'a str> {
    fields.get(name).and_then(Json::as_str)
}

pub(super) fn sizes(fields: &Map<String, Json>, name: &str) -> Result<Vec<usize>, String> {
    let numbers = fields.get(name).and_then(Json::as_array);
    let numbers = numbers.ok_or_else(|| format!("its config has no `{name}`"))?;
    let size = |it: &Json| it.as_u64().and_then(|it| usize::try_from(it).ok());
    let sizes: Option<Vec<usize>> = numbers.iter().take(9).map(size).collect();
    sizes.ok_or_else(|| format!("its `{name}` has what is no size"))
}

pub(super) fn floats(fields: &Map<String, Json>, name: &str) -> Result<Vec<f32>, String> {
    let numbers = fields.get(name).and_then(Json::as_array);
    let numbers = numbers.ok_or_else(|| format!("its config has no `{name}`"))?;
    let number = |it: &Json| it.as_f64().map(|it| it as f32);
    let numbers: Option<Vec<f32>> = numbers.iter().take(9).map(number).collect();
    numbers.ok_or_else(|| format!("its `{name}` has what is no number"))
}

/// The names of classes in timm’s config, where a description of each says more than its name.
fn label_names(config: &Map<String, Json>) -> Result<Option<Vec<String>>, String> {
    let Some(names) = config.get("label_names").and_then(Json::as_array) else {
        return Ok(None);
    };
    let descriptions = config.get("label_descriptions").and_then(Json::as_object);
    let name = |it: &Json| {
        let name = it.as_str()?;
        let described = descriptions.and_then(|it| it.get(name)?.as_str());
        Some(described.unwrap_or(name).to_owned())
    };
    let names: Option<Vec<String>> = names.iter().map(name).collect();
    names
        .map(Some)
        .ok_or_else(|| "its `label_names` has what is no name".to_owned())
}

/// The names of classes in transformers’ config. `LABEL_0` and so on are no names.
fn id2label(config: &Map<String, Json>) -> Result<Option<Vec<String>>, String> {
    let Some(labels) = config.get("id2label").and_then(Json::as_object) else {
        return Ok(None);
    };
    let mut names = Vec::new();
    for id in 0..labels.len() {
        let name = labels.get(&id.to_string()).and_then(Json::as_str);
        let name = name.ok_or_else(|| format!("its `id2label` has no name for class {id}"))?;
        names.push(name.to_owned());
    }
    let is_numbered = |(id, name): (usize, &String)| *name == format!("LABEL_{id}");
    let are_numbered = names.iter().enumerate().all(is_numbered);
    Ok((!are_numbered).then_some(names))
}
