//! The fields that only runs of pictures have, as a person meets them.

use super::Picture;
use crate::train::{
    Kind,
    fields::{
        Choice, Field, FieldKind,
        FieldKind::{Choice as Word, Count, Flag, List, Number, Text},
        choice,
    },
};

const METHODS: &[Choice] = &[
    choice("features", "From a few pictures"),
    choice("fine_tune", "Fine-tune"),
    choice("scratch", "From scratch"),
];

const ARCHITECTURES: &[Choice] = &[
    choice("small", "Small network"),
    choice("airbench94", "Airbench"),
    choice("resnet18", "ResNet-18"),
    choice("resnet34", "ResNet-34"),
    choice("resnet50", "ResNet-50"),
    choice("vit", "ViT"),
];

const HEADS: &[Choice] = &[choice("new", "New"), choice("kept", "Kept")];

const STEMS: &[Choice] = &[
    choice("small", "For small pictures"),
    choice("photo", "For photos"),
];

const FLIPS: &[Choice] = &[
    choice("none", "Never"),
    choice("random", "One in two"),
    choice("alternating", "Every second time"),
];

const BORDERS: &[Choice] = &[choice("reflect", "Reflected"), choice("zeros", "Black")];

const FILTERS: &[Choice] = &[choice("bilinear", "Bilinear"), choice("bicubic", "Bicubic")];

const CROP_MODES: &[Choice] = &[choice("center", "Middle"), choice("squash", "Squashed")];

const ALPHAS: &[Choice] = &[choice("on_white", "On white"), choice("dropped", "Dropped")];

const LOOKS: &[Choice] = &[
    choice("one", "Once"),
    choice("mirrored", "Also mirrored"),
    choice("six", "Six times"),
];

/// The fields of a run that learns pictures.
#[rustfmt::skip]
pub const FIELDS: &[Field] = &[
    of("Pictures", "picture.method", "Method", Word, "From a few pictures, a published network stays as it is and the classes are told by its features, in seconds. Fine-tuning changes all of it. From scratch, a new network learns.").choices(METHODS),
    of("Pictures", "picture.recipe", "Recipe", Text, "The settings to begin with: airbench94, small, seed, resnet18, resnet18-long or fine-tune."),
    of("Pictures", "picture.flip", "Mirror", Word, "Whether pictures are mirrored, left to right, while it learns. Not where a mirrored picture means something else, as with letters, digits or signs.").choices(FLIPS),
    of("Pictures", "picture.side", "Side", Count, "Height and width that pictures are scaled to. Time and memory grow with its square.").unit("pixels").at_least(8.0).at_most(1024.0),
    of("Pictures", "picture.architecture", "Network", Word, "How the network is built.").choices(ARCHITECTURES).advanced(),
    of("Pictures", "picture.stem", "Stem", Word, "How a ResNet begins: for pictures of some dozen pixels, or for photos.").choices(STEMS).advanced(),
    of("Pictures", "picture.head", "Head", Word, "What the head of a published network begins with. One that is kept tells the same classes apart, and the run keeps it where learning gains nothing.").choices(HEADS).advanced(),
    of("Pictures", "picture.augment", "Augment", Flag, "Show each picture otherwise each time: moved, mirrored, in other light.").advanced(),
    of("Pictures", "picture.pad", "Shift", Count, "By how much pictures are moved at most.").unit("pixels").advanced(),
    of("Pictures", "picture.border", "Border", Word, "What stands where a moved picture has ended.").choices(BORDERS).advanced(),
    of("Pictures", "picture.cutout", "Cutout", Count, "The side of a square that is blotted out. 0 turns it off.").unit("pixels").advanced(),
    of("Pictures", "picture.least_area", "Smallest part", Number, "The smallest share of a picture that is cut out and scaled to the whole. 1 turns it off.").above(0.0).at_most(1.0).advanced(),
    of("Pictures", "picture.jitter", "Light", Number, "By how much brightness, contrast and saturation change at most. 0 turns it off.").at_least(0.0).at_most(1.0).advanced(),
    of("Pictures", "picture.label_smoothing", "Label smoothing", Number, "How much of each label is shared among all classes. 0 turns it off.").at_least(0.0).at_most(0.9).advanced(),
    of("Pictures", "picture.subsample_size", "Pictures drawn", Count, "Learn from so many random pictures. 0 is all.").advanced(),
    of("Pictures", "picture.looks", "Looks", Word, "How often a picture is looked at before it is said what it shows.").choices(LOOKS).advanced(),
    of("Pictures", "picture.lookahead_every", "Lookahead", Count, "After how many steps the weights go back to a slower copy of them. 0 turns it off.").unit("steps").advanced(),
    of("Pictures", "picture.lookahead_decay", "Lookahead decay", Number, "How much of that copy is kept for each step.").at_least(0.0).at_most(1.0).advanced(),
    of("Pictures", "picture.norm_momentum", "Norm momentum", Number, "The share of a batch in the running means of norms. 0 leaves those of a published network as they are.").at_least(0.0).at_most(1.0).advanced(),
    of("Pictures", "picture.bias_rate_ratio", "Rate of norm biases", Number, "The learning rate of the biases of norms, as a multiple of the others’.").above(0.0).at_most(1000.0).advanced(),
    of("Pictures", "picture.body_rate_ratio", "Rate of the body", Number, "The learning rate of all but the head, as a multiple of that of the head.").above(0.0).at_most(1000.0).advanced(),
    of("Pictures", "picture.whitening_steps", "Steps of the first bias", Count, "In how many steps the bias of a first layer learns whose weights follow from the pictures.").unit("steps").advanced(),
    of("Pictures", "picture.workers", "Loader workers", Count, "Threads that make the next batch while the network learns from the present one. How many there are changes no figure.").unit("threads").at_least(1.0).at_most(64.0).advanced(),
    of("Pictures", "picture.short_side", "Short side", Count, "How long the short side becomes before the middle is cut out. Not less than the side.").unit("pixels").at_least(8.0).at_most(2048.0).advanced(),
    of("Pictures", "picture.crop_mode", "Crop", Word, "How a picture that is no square becomes one: the middle is cut out, or all of it is squashed.").choices(CROP_MODES).advanced(),
    of("Pictures", "picture.filter", "Scaling", Word, "How pictures are scaled.").choices(FILTERS).advanced(),
    of("Pictures", "picture.alpha", "Transparency", Word, "What becomes of pixels that can be seen through.").choices(ALPHAS).advanced(),
    of("Pictures", "picture.channels", "Channels", Count, "1 for grey, 3 for colour.").advanced(),
    of("Pictures", "picture.classes", "Classes", Count, "How many classes are told apart: as many as the data has.").advanced(),
    of("Pictures", "picture.mean", "Mean", List, "The mean of each channel, of values from 0 to 1, which is taken away.").advanced(),
    of("Pictures", "picture.std", "Deviation", List, "The deviation of each channel, by which it is divided.").advanced(),
];

const fn of(
    group: &'static str,
    name: &'static str,
    label: &'static str,
    kind: FieldKind,
    help: &'static str,
) -> Field {
    Field::new(group, name, label, kind, help).of(Picture::NAME)
}
