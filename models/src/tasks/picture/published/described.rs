//! What the config files of a network say: what it is, what it was shown, and what its classes are called.
//!
//! A field that would change what the network computes is read, or refused by its name.

use serde_json::{Map, Value as Json};

use crate::{
    arch::picture::{Architecture, NetConfig, Stem},
    figures::count,
    limits,
    tasks::picture::{
        classifier::{Looks, View},
        decode::Alpha,
        pixels::Shape,
        resize::Filter,
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
            (None, Some(other)) => Err(format!(
                "the network is of the type `{other}`, and of pictures’ networks only `resnet` is known here"
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
        check_view(&view)?;
        Ok(Self {
            architecture: Some(net.architecture),
            class_count: Some(net.classes),
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
        let known = timm_architecture(architecture)?;
        check_timm(config)?;
        let view = timm_view(shown)?;
        let licence = text(shown, "license").or_else(|| text(config, "license"));
        let class_count = config
            .get("num_classes")
            .or_else(|| shown.get("num_classes"));
        Ok(Self {
            net: None,
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
        let channels = config
            .get("num_channels")
            .and_then(Json::as_u64)
            .unwrap_or(3);
        let channels = usize::try_from(channels).map_err(|error| error.to_string())?;
        let mut notes = Vec::new();
        let view = match preprocessor {
            Some(preprocessor) => of_preprocessor(preprocessor, channels)?,
            None => {
                notes.push(
                    "The folder has no preprocessor_config.json. Pictures are scaled and normalised as ImageNet’s."
                        .to_owned(),
                );
                View {
                    shape: Shape::square(224, channels),
                    short_side: Some(TORCHVISION_SHORT),
                    filter: Filter::Bicubic,
                    alpha: Alpha::default(),
                    mean: IMAGENET.0.to_vec(),
                    std: IMAGENET.1.to_vec(),
                    looks: Looks::One,
                }
            }
        };
        check_view(&view)?;
        Ok(Self {
            net: None,
            architecture: Some(architecture),
            class_count: None,
            view,
            classes: id2label(config)?,
            licence: text(config, "license").map(str::to_owned),
            notes,
        })
    }
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
            "the architecture `{name}` is not known here: resnet18, resnet34 and resnet50 are"
        )),
    }
}

/// Whether the rest of a config of timm leaves a network as its name says.
fn check_timm(config: &Map<String, Json>) -> Result<(), String> {
    let arguments = config.get("model_args").and_then(Json::as_object);
    let is_other = |it: &&String| !HARMLESS_ARGUMENTS.contains(&it.as_str());
    if let Some(name) = arguments.and_then(|it| it.keys().find(is_other)) {
        return Err(format!(
            "the network is built with `model_args.{name}`, which is not known here"
        ));
    }
    match text(config, "global_pool").filter(|it| *it != "avg") {
        None => Ok(()),
        Some(pool) => Err(format!(
            "the network ends with the pool `{pool}`, and only `avg` is known here"
        )),
    }
}

/// What a network of timm is shown.
fn timm_view(shown: &Map<String, Json>) -> Result<View, String> {
    if let Some(mode) = text(shown, "crop_mode").filter(|it| *it != "center") {
        return Err(format!(
            "its pictures are cut by `crop_mode: {mode}`, and only `center` is known here"
        ));
    }
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
    let view = View {
        shape: Shape::square(height, channels),
        short_side: Some(short_side(height, share, "crop_pct")?),
        filter,
        alpha: Alpha::default(),
        mean: floats(shown, "mean")?,
        std: floats(shown, "std")?,
        looks: Looks::One,
    };
    check_view(&view)?;
    Ok(view)
}

/// What transformers does with a picture.
fn of_preprocessor(preprocessor: &Json, channels: usize) -> Result<View, String> {
    let fields = preprocessor
        .as_object()
        .ok_or("its preprocessor_config.json is no object")?;
    let kind =
        text(fields, "image_processor_type").or_else(|| text(fields, "feature_extractor_type"));
    if let Some(kind) = kind.filter(|it| !it.starts_with("ConvNext")) {
        return Err(format!(
            "its pictures are prepared by `{kind}`, and only `ConvNextImageProcessor` is known here"
        ));
    }
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
    let filter = match fields.get("resample").and_then(Json::as_u64) {
        Some(2) => Filter::Bilinear,
        Some(3) | None => Filter::Bicubic,
        Some(other) => {
            return Err(format!(
                "its pictures are scaled by `resample: {other}`, and only 2 (bilinear) and 3 (bicubic) are known here"
            ));
        }
    };
    Ok(View {
        shape: Shape::square(side, channels),
        short_side: Some(short_side(side, share, "crop_pct")?),
        filter,
        alpha: Alpha::default(),
        mean: floats(fields, "image_mean")?,
        std: floats(fields, "image_std")?,
        looks: Looks::One,
    })
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

/// Whether a network can be shown pictures so.
fn check_view(view: &View) -> Result<(), String> {
    let Shape {
        height,
        width,
        channels,
    } = view.shape;
    for side in [height, width, view.short_side.unwrap_or(height)] {
        if let Some(problem) = limits::PICTURE_SIDE.exceeded(side as u64) {
            return Err(format!("the side of its pictures {problem}"));
        }
    }
    if view.short_side.is_some_and(|it| it < height) {
        return Err("the middle of its pictures is larger than they are".to_owned());
    }
    for (name, numbers) in [("mean", &view.mean), ("std", &view.std)] {
        if numbers.len() != channels && numbers.len() != 1 {
            return Err(format!(
                "its `{name}` has {} numbers, and its pictures {channels} channels",
                numbers.len()
            ));
        }
        let is_odd = |it: &f32| !it.is_finite() || (name == "std" && *it <= 0.0);
        if numbers.iter().any(is_odd) {
            return Err(format!(
                "its `{name}` is {numbers:?}, which no pictures have"
            ));
        }
    }
    Ok(())
}

fn text<'a>(fields: &'a Map<String, Json>, name: &str) -> Option<&'a str> {
    fields.get(name).and_then(Json::as_str)
}

fn sizes(fields: &Map<String, Json>, name: &str) -> Result<Vec<usize>, String> {
    let numbers = fields.get(name).and_then(Json::as_array);
    let numbers = numbers.ok_or_else(|| format!("its config has no `{name}`"))?;
    let size = |it: &Json| it.as_u64().and_then(|it| usize::try_from(it).ok());
    let sizes: Option<Vec<usize>> = numbers.iter().take(9).map(size).collect();
    sizes.ok_or_else(|| format!("its `{name}` has what is no size"))
}

fn floats(fields: &Map<String, Json>, name: &str) -> Result<Vec<f32>, String> {
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
