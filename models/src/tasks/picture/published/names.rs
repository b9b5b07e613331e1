//! Which network the names and shapes of tensors mean, and what each weight is called there.
//!
//! Names of transformers are turned into torchvision’s first; then both spellings of a shortcut and of the head are understood,
//! whichever comes first in a network. Names of a ViT are timm's or transformers'.

use std::collections::BTreeMap;

use super::vit;
use crate::arch::picture::{Architecture, NetConfig, Stem, Transformer, weights_of};

/// Shapes by names.
pub(super) type Shapes = BTreeMap<String, Vec<usize>>;

/// What other programs put before all names.
const PREFIXES: [&str; 2] = ["module.", "_orig_mod."];
/// The spellings of the parts that programs call differently.
const SPELLINGS: [[&str; 2]; 2] = [["downsample", "shortcut"], ["fc", "linear"]];
/// Counts batches, which nothing here needs.
const COUNTER: &str = "num_batches_tracked";
/// Parts of names that belong to other networks, with what those are.
const OTHERS: [(&str, &str); 6] = [
    (
        "conv1.0.weight",
        "a stem of three convolutions (ResNet-d and its kin)",
    ),
    (
        ".downsample.2.",
        "an average pool in its shortcuts (ResNet-d and its kin)",
    ),
    (".se.", "squeeze-and-excitation in its blocks (SE-ResNet)"),
    (".attn.", "attention over channels in its blocks"),
    (".aa.", "a blur before its strides (anti-aliased ResNet)"),
    (".pre_norm", "norms before its convolutions (ResNet v2)"),
];
/// The pixels of a side that a small ResNet is shown.
const SMALL_SIDE: usize = 32;
/// The same of photos.
const PHOTO_SIDE: usize = 224;

/// A network that tensors were found to be.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) net: NetConfig,
    /// Their names of each weight, by ours: several where they have in parts what is stacked here.
    pub(super) names: BTreeMap<String, Vec<String>>,
    /// What could not be known, in sentences.
    pub(super) notes: Vec<String>,
}

/// Tensors by the names that torchvision gives them: their name there, and the shape.
struct Known<'a>(BTreeMap<String, (&'a str, &'a [usize])>);

impl Found {
    /// What these tensors are.
    pub(super) fn recognise(shapes: &Shapes) -> Result<Self, String> {
        let known = Known::of(shapes);
        let mut notes = Vec::new();
        let names = || known.0.keys();
        for (part, what) in OTHERS {
            if names().any(|it| it == part || (part.starts_with('.') && it.contains(part))) {
                return Err(format!(
                    "the network has {what}, and only plain ResNets are known here"
                ));
            }
        }
        if names().any(|it| it.ends_with("cls_token") || it == "class_token") {
            return Err(
                "the tensors are a ViT, and names and shapes don’t say how many heads it has: name a folder with config.json and safetensors"
                    .to_owned(),
            );
        }
        let first = known.shape("conv1.weight").ok_or(
            "the tensors are no network that is known here: ResNets of 18, 34 and 50 layers, and three convolutions with two layers",
        )?;
        let (kernel, channels) = match *first {
            [_, channels, height, width] if height == width => (height, channels),
            _ => {
                return Err(format!(
                    "`conv1.weight` is {first:?}, which is no kernel of a picture"
                ));
            }
        };
        let net = match known.shape("layer1.0.conv1.weight") {
            Some(_) => known.resnet(kernel, channels, &mut notes)?,
            None => known.small(channels, &mut notes)?,
        };
        Self::fit(net, shapes, notes)
    }

    /// A ViT of these sizes for pictures with these sides and channels. Its classes are those of its head.
    pub(super) fn vit(
        sizes: Transformer,
        side: usize,
        channels: usize,
        shapes: &Shapes,
    ) -> Result<Self, String> {
        let known = Known::of(shapes);
        let head = ["head.weight", "classifier.weight"];
        let name = head.into_iter().find(|it| known.shape(it).is_some());
        let [classes, _] = known.head(name.unwrap_or(head[0]))?;
        let net = NetConfig {
            architecture: Architecture::Vit,
            stem: Stem::Photo,
            sides: [side; 2],
            channels,
            classes,
            transformer: Some(sizes),
        };
        Self::fit(net, shapes, Vec::new())
    }

    /// The tensors of a network that is known. None may be missing, and none may be left.
    pub(super) fn fit(net: NetConfig, shapes: &Shapes, notes: Vec<String>) -> Result<Self, String> {
        if let Some(problem) = net.problem() {
            return Err(format!("the network {problem}"));
        }
        let mut known = Known::of(shapes);
        let is_vit_of_transformers = known.0.keys().any(|it| it.starts_with("vit."));
        let mut names = BTreeMap::new();
        for need in weights_of(&net).map_err(|error| error.to_string())? {
            let found = spelled(&need.name).find_map(|it| known.0.remove(&it));
            let parts = match found {
                Some(found) => vec![found],
                None if is_vit_of_transformers => known.parts(&need.name)?,
                None => return Err(format!("`{}` is missing in the network", need.name)),
            };
            let mut expected = need.shape.clone();
            expected[0] /= parts.len();
            if let Some((theirs, shape)) = parts.iter().find(|it| *it.1 != expected) {
                return Err(format!(
                    "`{theirs}` is {shape:?}, and {expected:?} in the network that the other tensors are"
                ));
            }
            let parts = parts.into_iter().map(|it| it.0.to_owned());
            names.insert(need.name, parts.collect());
        }
        match known.0.values().find(|(name, _)| !name.ends_with(COUNTER)) {
            None => Ok(Self { net, names, notes }),
            Some((name, _)) => Err(format!(
                "`{name}` is no part of the network that the other tensors are"
            )),
        }
    }
}

impl<'a> Known<'a> {
    fn of(shapes: &'a Shapes) -> Self {
        let prefix = PREFIXES
            .into_iter()
            .find(|prefix| shapes.keys().all(|it| it.starts_with(prefix)))
            .unwrap_or_default();
        let named = shapes.iter().map(|(theirs, shape)| {
            let name = theirs.strip_prefix(prefix).unwrap_or(theirs);
            let name = of_transformers(name).unwrap_or_else(|| name.to_owned());
            (name, (theirs.as_str(), shape.as_slice()))
        });
        Self(named.collect())
    }

    /// Takes the parts of a weight, as transformers has them of a ViT.
    fn parts(&mut self, name: &str) -> Result<Vec<(&'a str, &'a [usize])>, String> {
        let missing = |name: &str| format!("`{name}` is missing in the network");
        let theirs = vit::names_in_transformers(name).ok_or_else(|| missing(name))?;
        let found = theirs
            .iter()
            .map(|it| self.0.remove(it).ok_or_else(|| missing(it)));
        found.collect()
    }

    fn shape(&self, name: &str) -> Option<&'a [usize]> {
        spelled(name).find_map(|it| Some(self.0.get(&it)?.1))
    }

    /// Classes by the shape of the head, and the numbers that it reads.
    fn head(&self, name: &str) -> Result<[usize; 2], String> {
        match self.shape(name) {
            Some(&[classes, width]) => Ok([classes, width]),
            Some(other) => Err(format!("`{name}` is {other:?}, which is no head")),
            None => Err(format!(
                "the network has no head: `{name}` is missing, and whoever trains it on has to know how its features were read"
            )),
        }
    }

    fn resnet(
        &self,
        kernel: usize,
        channels: usize,
        notes: &mut Vec<String>,
    ) -> Result<NetConfig, String> {
        let is_deep = self.shape("layer1.0.conv3.weight").is_some();
        let blocks: Vec<usize> = (1..=4).map(|stage| self.blocks(stage)).collect();
        let architecture = match (is_deep, blocks.as_slice()) {
            (false, [2, 2, 2, 2]) => Architecture::Resnet18,
            (false, [3, 4, 6, 3]) => Architecture::Resnet34,
            (true, [3, 4, 6, 3]) => Architecture::Resnet50,
            _ => {
                return Err(format!(
                    "the network has {blocks:?} blocks of {} convolutions, and ResNets of 18, 34 and 50 layers are known here",
                    if is_deep { 3 } else { 2 }
                ));
            }
        };
        if is_deep {
            let inner = self.shape("layer1.0.conv2.weight").unwrap_or_default();
            if let [outputs, inputs, ..] = *inner
                && outputs != inputs
            {
                return Err(format!(
                    "the network has groups of {inputs} channels (ResNeXt), and only plain ResNets are known here"
                ));
            }
            if inner.first().is_some_and(|it| *it != 64) {
                return Err(
                    "the network is wide (Wide ResNet), and only plain ResNets are known here"
                        .to_owned(),
                );
            }
        }
        let stem = match kernel {
            7 => Stem::Photo,
            3 => Stem::Small,
            other => {
                return Err(format!(
                    "the first kernel has {other} pixels, and ResNets begin with 7, or with 3 for small pictures"
                ));
            }
        };
        let [classes, _] = self.head("fc.weight")?;
        if stem == Stem::Small && self.0.contains_key("fc.weight") {
            notes.push(
                "Its first kernel has 3 pixels under torchvision’s names. It is taken to move by one and to have no pool after it, as in \
                 ResNets of small pictures; the file can’t say."
                    .to_owned(),
            );
        }
        let side = match stem {
            Stem::Small => SMALL_SIDE,
            Stem::Photo => PHOTO_SIDE,
        };
        Ok(NetConfig {
            architecture,
            stem,
            sides: [side; 2],
            channels,
            classes,
            transformer: None,
        })
    }

    /// The blocks of a stage.
    fn blocks(&self, stage: usize) -> usize {
        let has = |block: &usize| {
            let name = format!("layer{stage}.{block}.conv1.weight");
            self.0.contains_key(&name)
        };
        (0..).take_while(has).count()
    }

    fn small(&self, channels: usize, notes: &mut Vec<String>) -> Result<NetConfig, String> {
        let [_, width] = self.head("fc1.weight")?;
        let [classes, _] = self.head("fc2.weight")?;
        // 128 channels of what three pools have left of a side.
        let left = (width / 128).isqrt();
        if left == 0 || width != left * left * 128 {
            return Err(format!(
                "`fc1.weight` reads {width} numbers, which are no 128 channels of a square"
            ));
        }
        // Of all sides that leave as much, the one in use.
        let side = if left == 3 {
            28
        } else {
            left.saturating_mul(8)
        };
        notes.push(format!(
            "Its pictures are taken to have {side} x {side} pixels; the file says only that a side has {} to {}.",
            left.saturating_mul(8),
            left.saturating_mul(8).saturating_add(7)
        ));
        Ok(NetConfig {
            architecture: Architecture::Small,
            stem: Stem::Small,
            sides: [side; 2],
            channels,
            classes,
            transformer: None,
        })
    }
}

/// A name, and the same as the other program spells it.
fn spelled(name: &str) -> impl Iterator<Item = String> {
    let others = SPELLINGS.into_iter().flat_map(|[one, other]| {
        let swapped = |from: &str, to: &str| {
            let parts = name.split('.');
            let parts: Vec<&str> = parts.map(|it| if it == from { to } else { it }).collect();
            parts.join(".")
        };
        [swapped(one, other), swapped(other, one)]
    });
    let others: Vec<String> = others.filter(|it| it != name).collect();
    std::iter::once(name.to_owned()).chain(others)
}

/// What torchvision calls a weight of transformers’ ResNet.
fn of_transformers(name: &str) -> Option<String> {
    let parts: Vec<&str> = name.split('.').collect();
    let number = |text: &str| text.parse::<usize>().ok()?.checked_add(1);
    match parts.as_slice() {
        ["resnet", "embedder", "embedder", "convolution", what] => Some(format!("conv1.{what}")),
        ["resnet", "embedder", "embedder", "normalization", what] => Some(format!("bn1.{what}")),
        [
            "resnet",
            "encoder",
            "stages",
            stage,
            "layers",
            block,
            rest @ ..,
        ] => {
            let stage = number(stage)?;
            let part = match rest {
                ["shortcut", "convolution", what] => format!("downsample.0.{what}"),
                ["shortcut", "normalization", what] => format!("downsample.1.{what}"),
                ["layer", place, "convolution", what] => format!("conv{}.{what}", number(place)?),
                ["layer", place, "normalization", what] => format!("bn{}.{what}", number(place)?),
                _ => return None,
            };
            Some(format!("layer{stage}.{block}.{part}"))
        }
        ["classifier", "1", what] => Some(format!("fc.{what}")),
        _ => None,
    }
}
