//! A folder with weights under the names of PyTorch and a config: timm’s, where timm has the network, and else a plain one.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};

use candle_core::{DType, Device, Tensor};
use serde_json::{Value as Json, json};

use super::plain::of_channels;
use crate::{
    Error, Result,
    arch::picture::{Architecture, NetConfig, Network, Stem},
    checkpoint::{
        folder::{CONFIG, WEIGHTS},
        save::{write_file, write_safetensors},
    },
    tasks::picture::{
        classifier::{Classifier, View},
        published::{LIBRARY, Published, name_of_vit},
        resize::Filter,
    },
};

/// How many pixels of a photo become one place of the last map.
const REDUCTION: usize = 32;

/// What timm calls the network, and how many numbers its head reads. Nothing where timm has no such network.
fn name_of(net: &NetConfig) -> Option<(String, usize)> {
    let (name, features) = match (net.stem, net.architecture) {
        (_, Architecture::Vit) => {
            let sizes = net.transformer.as_ref()?;
            return Some((name_of_vit(sizes, net.sides)?, sizes.width));
        }
        (Stem::Photo, Architecture::Resnet18) => ("resnet18", 512),
        (Stem::Photo, Architecture::Resnet34) => ("resnet34", 512),
        (Stem::Photo, Architecture::Resnet50) => ("resnet50", 2048),
        _ => return None,
    };
    Some((name.to_owned(), features))
}

/// What whoever reads the folder has to know.
pub(super) fn notes(classifier: &Classifier) -> Vec<String> {
    let about = classifier.about();
    let temperature = (about.temperature != 1.0).then(|| {
        format!(
            "Divide scores by the temperature {} before they become probabilities, as is done here; it is in the config and not in the \
             weights.",
            about.temperature
        )
    });
    let stranger = name_of(&about.net).is_none().then(|| stranger(&about.net));
    temperature.into_iter().chain(stranger).collect()
}

/// Why timm can’t open it.
fn stranger(net: &NetConfig) -> String {
    let names = match (net.architecture, net.stem) {
        (Architecture::Small | Architecture::Airbench94, _) => "our own",
        (Architecture::Vit, _) => "those of timm’s ViT",
        _ => "those of github.com/kuangliu/pytorch-cifar",
    };
    format!(
        "timm has no network of this shape, so its config is our own. The weights have names and shapes of PyTorch, and the names are \
         {names}."
    )
}

/// Writes the folder, and opens it again.
pub(super) fn write(classifier: &Classifier, folder: &Path) -> Result<Network> {
    let about = classifier.about();
    let mut tensors = BTreeMap::new();
    for parameter in classifier.network().parameters().iter() {
        let name = parameter.name();
        tensors.insert(name.to_owned(), parameter.tensor());
        if let Some(norm) = name.strip_suffix(".running_mean") {
            // PyTorch counts batches there, and misses the number where it is not.
            let counter = format!("{norm}.num_batches_tracked");
            tensors.insert(counter, Tensor::new(0i64, &Device::Cpu)?);
        }
    }
    let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    write_safetensors(&folder.join(WEIGHTS), &tensors, metadata)?;
    let config = match name_of(&about.net) {
        Some((name, features)) => config_of_timm(classifier, &name, features),
        None => json!({
            "library_name": LIBRARY,
            "about": stranger(&about.net),
            "num_classes": about.net.classes,
            "label_names": about.classes,
            "net": about.net,
            "view": about.view,
            "temperature": about.temperature,
        }),
    };
    let config =
        serde_json::to_vec_pretty(&config).map_err(|error| Error::Data(error.to_string()))?;
    write_file(&folder.join(CONFIG), &config)?;
    let published = Published::open(folder)?;
    let is_same = published.net == about.net
        && published.classes.as_ref() == Some(&about.classes)
        && is_shown_alike(&published.view, &about.view);
    if !is_same {
        return Err(Error::Data(
            "the config that was written says something else than the network’s own".to_owned(),
        ));
    }
    published.network(None, 0, DType::F32, &Device::Cpu)
}

/// Whether two views show the same of every picture.
fn is_shown_alike(one: &View, other: &View) -> bool {
    let channels = one.shape.channels;
    let short = |view: &View| view.short_side.unwrap_or(view.shape.height);
    let numbers = |view: &View| {
        let (mean, std) = (&view.mean, &view.std);
        [(mean, 0.0), (std, 1.0)].map(|(it, otherwise)| of_channels(it, channels, otherwise))
    };
    one.shape == other.shape
        && short(one) == short(other)
        && one.crop_mode == other.crop_mode
        && one.filter == other.filter
        && numbers(one) == numbers(other)
}

fn config_of_timm(classifier: &Classifier, name: &str, features: usize) -> Json {
    let about = classifier.about();
    let (net, view) = (&about.net, &about.view);
    let [height, width] = net.sides;
    let channels = net.channels;
    let filter = match view.filter {
        Filter::Bilinear => "bilinear",
        Filter::Bicubic => "bicubic",
    };
    let is_vit = net.architecture == Architecture::Vit;
    let pool = if is_vit { "token" } else { "avg" };
    let [first, head] = match is_vit {
        true => ["patch_embed.proj", "head"],
        false => ["conv1", "fc"],
    };
    let places = [height, width].map(|side| side.div_ceil(REDUCTION));
    json!({
        "architecture": name,
        "num_classes": net.classes,
        "num_features": features,
        "global_pool": pool,
        "label_names": about.classes,
        "model_args": {"num_classes": net.classes, "in_chans": channels, "global_pool": pool},
        "temperature": about.temperature,
        "pretrained_cfg": {
            "tag": LIBRARY,
            "custom_load": false,
            "input_size": [channels, height, width],
            "fixed_input_size": is_vit,
            "interpolation": filter,
            "crop_pct": share_of(height, view.short_side.unwrap_or(height)),
            "crop_mode": view.crop_mode,
            "mean": exact(of_channels(&view.mean, channels, 0.0)),
            "std": exact(of_channels(&view.std, channels, 1.0)),
            "num_classes": net.classes,
            "pool_size": (!is_vit).then_some(places),
            "first_conv": first,
            "classifier": head,
        },
    })
}

/// The shortest decimal of each number: of .485, it and not what its nearest f32 is in f64.
fn exact(numbers: Vec<f32>) -> Vec<f64> {
    let shortest = |it: &f32| it.to_string().parse().unwrap_or(f64::from(*it));
    numbers.iter().map(shortest).collect()
}

/// The share of the short side that is kept, so that `floor(side / share)` is the short side again, as timm counts it.
fn share_of(side: usize, short: usize) -> f64 {
    let mut share = side as f64 / short.max(1) as f64;
    while (side as f64 / share).floor() < short as f64 {
        share = share.next_down();
    }
    share
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_that_is_kept_gives_the_short_side_again() {
        for side in [28, 32, 64, 160, 224, 288] {
            for short in side..2 * side {
                let share = share_of(side, short);
                assert_eq!((side as f64 / share).floor() as usize, short);
                assert!(share <= 1.0);
            }
        }
    }
}
