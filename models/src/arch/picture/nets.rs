//! The architectures: which steps each has.
//!
//! Names of weights are those under which their files are known: kuangliu's for ResNets of small pictures
//! (<https://github.com/kuangliu/pytorch-cifar>), torchvision's and timm's for those of photos.

use serde::{Deserialize, Serialize};

use super::{Begins, Layer, Step, Then, Transformer, vit, weights_of};
use crate::ops::convolution::Geometry;

/// What PyTorch adds to a variance.
const EPSILON: f64 = 1e-5;

/// How a network is built.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "specta", derive(specta::Type))]
#[serde(rename_all = "snake_case")]
pub enum Architecture {
    /// Three convolutions, two layers.
    #[default]
    Small,
    /// The network of Jordan's airbench94 (<https://github.com/KellerJordan/cifar10-airbench>).
    Airbench94,
    /// He et al., 2016 (<https://arxiv.org/abs/1512.03385>), with 18 layers.
    Resnet18,
    /// With 34.
    Resnet34,
    /// With 50.
    Resnet50,
    /// Dosovitskiy et al., 2021 (<https://arxiv.org/abs/2010.11929>): a transformer over patches, of the sizes of a [`Transformer`].
    Vit,
}

impl Architecture {
    /// What it is called.
    pub fn title(self) -> &'static str {
        match self {
            Self::Small => "Small network",
            Self::Airbench94 => "airbench94",
            Self::Resnet18 => "ResNet-18",
            Self::Resnet34 => "ResNet-34",
            Self::Resnet50 => "ResNet-50",
            Self::Vit => "ViT",
        }
    }
}

/// How a ResNet begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "specta", derive(specta::Type))]
#[serde(rename_all = "snake_case")]
pub enum Stem {
    /// A kernel of three that leaves the size: for pictures of some dozen pixels.
    #[default]
    Small,
    /// A kernel of seven that moves by two, and a pool: for photos.
    Photo,
}

/// All that a network depends on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NetConfig {
    /// How it is built.
    pub architecture: Architecture,
    /// How a ResNet begins. The others have but one beginning.
    pub stem: Stem,
    /// Height and width of its pictures.
    pub sides: [usize; 2],
    /// 3, or 1 for grey.
    pub channels: usize,
    /// Classes that it tells apart.
    pub classes: usize,
    /// The sizes of a ViT. The others have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transformer: Option<Transformer>,
}

/// The most classes that a network may tell apart: the largest set in use has 21,841.
const MAX_CLASSES: usize = 100_000;
/// The longest side of its pictures.
const MAX_PIXELS: usize = 4096;

impl NetConfig {
    /// What no network can be, if something is.
    pub fn problem(&self) -> Option<String> {
        if !(2..=MAX_CLASSES).contains(&self.classes) {
            return Some(format!(
                "has {} classes, and a network tells 2 to {MAX_CLASSES} apart",
                self.classes
            ));
        }
        if self.sides.iter().any(|it| !(1..=MAX_PIXELS).contains(it)) {
            let [height, width] = self.sides;
            return Some(format!(
                "is for pictures of {width} x {height} pixels, and sides are 1 to {MAX_PIXELS} pixels long"
            ));
        }
        if !matches!(self.channels, 1 | 3) {
            return Some(format!(
                "has {} channels, and pictures have 1 or 3",
                self.channels
            ));
        }
        match (self.architecture, self.transformer) {
            (Architecture::Vit, None) => {
                return Some("is a ViT, and nothing says how large".to_owned());
            }
            (Architecture::Vit, Some(sizes)) => {
                if let Some(problem) = sizes.problem(self.sides) {
                    return Some(problem);
                }
            }
            (_, Some(_)) => return Some("has the sizes of a ViT, and is none".to_owned()),
            (_, None) => {}
        }
        weights_of(self).err().map(|error| error.to_string())
    }

    /// The steps of the network.
    pub fn steps(&self) -> Vec<Step> {
        match self.architecture {
            Architecture::Small => small(self),
            Architecture::Airbench94 => airbench94(self),
            Architecture::Resnet18 => resnet(self, [2, 2, 2, 2], false),
            Architecture::Resnet34 => resnet(self, [3, 4, 6, 3], false),
            Architecture::Resnet50 => resnet(self, [3, 4, 6, 3], true),
            Architecture::Vit => {
                let sizes = self.transformer.as_ref();
                sizes.map_or_else(Vec::new, |it| vit::steps(it, self.classes))
            }
        }
    }
}

/// A list of steps that is being written.
#[derive(Default)]
pub(super) struct List {
    pub(super) steps: Vec<Step>,
}

impl List {
    /// Adds a step that reads the one before it.
    pub(super) fn next(&mut self, layer: Layer) -> usize {
        self.after(self.steps.len(), layer)
    }

    /// Adds a step that reads another one. Returns its number.
    pub(super) fn after(&mut self, from: usize, layer: Layer) -> usize {
        self.steps.push(Step { from, layer });
        self.steps.len()
    }
}

pub(super) fn geometry(kernel: usize, stride: usize, padding: usize) -> Geometry {
    Geometry {
        kernel,
        stride,
        padding,
    }
}

fn convolution(name: &str, out: usize, geometry: Geometry, begins: Begins) -> Layer {
    Layer::Convolution {
        name: name.to_owned(),
        out,
        geometry,
        begins,
        bias: false,
    }
}

fn norm(name: &str, then: Then, add: Option<usize>) -> Layer {
    Layer::Norm {
        name: name.to_owned(),
        add,
        then,
        epsilon: EPSILON,
        begins: 1.0,
        learns: true,
    }
}

pub(super) fn linear(name: &str, out: usize) -> Layer {
    Layer::Linear {
        name: name.to_owned(),
        out,
        bias: true,
        scale: 1.0,
    }
}

fn small(config: &NetConfig) -> Vec<Step> {
    let mut list = List::default();
    for (number, out) in [32, 64, 128].into_iter().enumerate() {
        let [conv, bn] = ["conv", "bn"].map(|it| format!("{it}{}", number + 1));
        list.next(convolution(&conv, out, Geometry::same(3), Begins::Uniform));
        list.next(norm(&bn, Then::Relu, None));
        list.next(Layer::MaxPool(geometry(2, 2, 0)));
    }
    list.next(Layer::Flatten);
    list.next(linear("fc1", 128));
    list.next(Layer::Activation(Then::Relu));
    list.next(linear("fc2", config.classes));
    list.steps
}

/// Sides of a picture of 32 pixels: 31, 15, 7, 3, 1.
fn airbench94(config: &NetConfig) -> Vec<Step> {
    // Two for each direction in the space of small patches, c 2 2 of them.
    let whitened = 2 * config.channels * 4;
    let of_group = |name: &str| Layer::Norm {
        name: name.to_owned(),
        add: None,
        then: Then::Gelu,
        epsilon: 1e-12,
        begins: 1.0,
        learns: false,
    };
    let mut list = List::default();
    list.next(Layer::Convolution {
        name: "whiten".to_owned(),
        out: whitened,
        geometry: geometry(2, 1, 0),
        begins: Begins::ByPictures,
        bias: true,
    });
    list.next(Layer::Activation(Then::Gelu));
    for (group, out) in [64, 256, 256].into_iter().enumerate() {
        let name = |what: &str| format!("group{}.{what}", group + 1);
        let convolution =
            |what: &str| convolution(&name(what), out, Geometry::same(3), Begins::Identity);
        list.next(convolution("conv1"));
        list.next(Layer::MaxPool(geometry(2, 2, 0)));
        list.next(of_group(&name("norm1")));
        list.next(convolution("conv2"));
        list.next(of_group(&name("norm2")));
    }
    list.next(Layer::MaxPool(geometry(3, 3, 0)));
    list.next(Layer::Flatten);
    list.next(Layer::Linear {
        name: "head".to_owned(),
        out: config.classes,
        bias: false,
        scale: 1.0 / 9.0,
    });
    list.steps
}

fn resnet(config: &NetConfig, blocks: [usize; 4], is_deep: bool) -> Vec<Step> {
    let (begins, shortcut, head) = match config.stem {
        Stem::Small => (Begins::Uniform, "shortcut", "linear"),
        Stem::Photo => (Begins::NormalByOutputs, "downsample", "fc"),
    };
    let mut list = List::default();
    let stem = match config.stem {
        Stem::Small => Geometry::same(3),
        Stem::Photo => geometry(7, 2, 3),
    };
    list.next(convolution("conv1", 64, stem, begins));
    list.next(norm("bn1", Then::Relu, None));
    if config.stem == Stem::Photo {
        list.next(Layer::MaxPool(geometry(3, 2, 1)));
    }
    let mut channels = 64;
    for (stage, count) in blocks.into_iter().enumerate() {
        for block in 0..count {
            let stride = if stage > 0 && block == 0 { 2 } else { 1 };
            let width = 64 << stage;
            let out = if is_deep { 4 * width } else { width };
            let from = list.steps.len();
            let name = |what: &str| format!("layer{}.{block}.{what}", stage + 1);
            // The last convolution has no ReLU of its own: what is added comes first.
            let inner: &[(usize, usize, usize)] = match is_deep {
                true => &[(1, 1, width), (3, stride, width), (1, 1, out)],
                false => &[(3, stride, width), (3, 1, width)],
            };
            let is_other = stride != 1 || channels != out;
            let add = match is_other {
                true => {
                    let name = |at: usize| format!("{}.{at}", name(shortcut));
                    let taken = geometry(1, stride, 0);
                    list.after(from, convolution(&name(0), out, taken, begins));
                    list.next(norm(&name(1), Then::Nothing, None))
                }
                false => from,
            };
            let mut last = from;
            for (number, (kernel, stride, out)) in inner.iter().enumerate() {
                let moved = geometry(*kernel, *stride, kernel / 2);
                let conv = name(&format!("conv{}", number + 1));
                list.after(last, convolution(&conv, *out, moved, begins));
                let add = (number + 1 == inner.len()).then_some(add);
                let bn = name(&format!("bn{}", number + 1));
                last = list.next(norm(&bn, Then::Relu, add));
            }
            channels = out;
        }
    }
    list.next(Layer::MeanPool);
    list.next(linear(head, config.classes));
    list.steps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(architecture: Architecture, stem: Stem, side: usize, classes: usize) -> usize {
        let config = NetConfig {
            architecture,
            stem,
            sides: [side, side],
            channels: 3,
            classes,
            transformer: None,
        };
        let learned = weights_of(&config).unwrap().into_iter();
        let learned = learned.filter(|it| !it.name.contains("running"));
        learned.map(|it| it.shape.iter().product::<usize>()).sum()
    }

    #[test]
    fn networks_have_the_published_numbers_of_weights() {
        use Architecture::*;
        assert_eq!(count(Resnet18, Stem::Small, 32, 10), 11_173_962);
        assert_eq!(count(Resnet18, Stem::Small, 32, 100), 11_220_132);
        assert_eq!(count(Resnet18, Stem::Photo, 224, 1000), 11_689_512);
        assert_eq!(count(Resnet34, Stem::Photo, 224, 1000), 21_797_672);
        assert_eq!(count(Resnet50, Stem::Photo, 224, 1000), 25_557_032);
    }

    #[test]
    fn a_vit_has_the_published_number_of_weights() {
        let config = NetConfig {
            architecture: Architecture::Vit,
            stem: Stem::Photo,
            sides: [224; 2],
            channels: 3,
            classes: 1000,
            transformer: Some(Transformer {
                patch: 16,
                width: 768,
                layers: 12,
                heads: 12,
                hidden: 3072,
                epsilon: 1e-12,
            }),
        };
        assert_eq!(config.problem(), None);
        let weights = weights_of(&config).unwrap().into_iter();
        let count: usize = weights.map(|it| it.shape.iter().product::<usize>()).sum();
        assert_eq!(count, 86_567_656);
    }

    #[test]
    fn a_network_for_larger_pictures_is_refused() {
        let config = NetConfig {
            architecture: Architecture::Airbench94,
            stem: Stem::Small,
            sides: [8, 8],
            channels: 3,
            classes: 10,
            transformer: None,
        };
        let said = weights_of(&config).unwrap_err().to_string();
        assert!(said.contains("larger than 8 x 8 pixels"), "{said}");
    }
}
