//! Pictures of a set as a page shows them, and what is wrong with the set.

use std::collections::HashMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use models::tasks::picture::{
    doctor::{self, Checkup, ClassCount, Findings, Named, Pair, SizedPicture},
    pixels::{Picture, Shape},
    source::{PictureSet, Problem, Side},
};
use serde::Serialize;
use specta::Type;

/// The most pictures of a page.
const MAX_SHOWN: usize = 200;
/// The longer side of a picture in a list, in pixels.
const THUMB_SIDE: usize = 96;
/// The same of one that is named in a finding, of which there are many.
const SMALL_SIDE: usize = 48;
/// So many of each finding are shown.
const MAX_FINDINGS: usize = 24;

/// Some pictures of a set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PicturesView {
    /// How many pictures each class has.
    classes: Vec<ClassView>,
    /// Width and height of the smallest picture as it was found, and of the largest.
    sizes: [(usize, usize); 2],
    /// Whether all are grey.
    is_grey: bool,
    /// How many could not be read, or were passed over.
    unread: usize,
    /// Whether the data itself says what is kept aside.
    has_own_held_out: bool,
    /// How many there are of what was asked for.
    matching: usize,
    /// Those that were asked for.
    pictures: Vec<PictureView>,
}

/// How many pictures a class has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClassView {
    name: String,
    /// To learn from.
    train: usize,
    /// Kept aside.
    held_out: usize,
    /// To test with.
    test: usize,
}

/// What a picture is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Type)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PicturePartView {
    Train,
    HeldOut,
    Test,
}

/// A picture of the data: what it is called, where it belongs and how it looks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PictureView {
    /// Its file, from the folder of the data on, or its row.
    name: String,
    class: String,
    part: PicturePartView,
    /// Pixels of a row, as it was found.
    width: usize,
    /// Rows, as it was found.
    height: usize,
    /// How it looks, if it could be read.
    thumb: Option<PixelsView>,
}

/// Pixels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PixelsView {
    /// Pixels of a row.
    width: usize,
    /// Red, green and blue of each, row by row, as base64.
    pixels: String,
}

/// What is wrong with a set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CheckupView {
    /// How many pictures there are.
    pictures: usize,
    /// The class with the most pictures and the one with the fewest, where one has many more.
    imbalance: Option<(ClassView, ClassView)>,
    /// Whether pictures were compared that are nearly equal. They are not where they are too small, or too many.
    compared_near: bool,
    /// What was found, the worst first.
    findings: Vec<FindingView>,
}

/// What can be wrong with pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Type)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FindingKind {
    /// They could not be read, or were passed over.
    Unread,
    /// Two that are equal, or nearly, have two classes.
    TwoClasses,
    /// Two that are equal, or nearly, are in two parts.
    AcrossParts,
    /// Two are equal.
    Identical,
    /// Two are nearly equal.
    Near,
    /// They are very small.
    Tiny,
    /// They are much longer than wide, or wider than long.
    Strips,
}

/// Something that is wrong with some pictures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FindingView {
    kind: FindingKind,
    /// How often it was found.
    count: usize,
    /// The first of them.
    shown: Vec<FoundPicturesView>,
}

/// A picture with which something is wrong, or two.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FoundPicturesView {
    /// The picture. One that could not be read has no class.
    pictures: Vec<PictureView>,
    /// Why it could not be read, as the end of a sentence about it.
    problem: Option<String>,
}

impl PixelsView {
    /// A picture, with a longer side of at most so many pixels.
    pub(crate) fn new(picture: Picture, side: usize) -> Self {
        let picture = picture.at_most(side);
        Self {
            width: picture.shape.width,
            pixels: STANDARD.encode(picture.colours()),
        }
    }
}

impl From<&ClassCount> for ClassView {
    fn from(it: &ClassCount) -> Self {
        Self {
            name: it.class.clone(),
            train: it.train,
            held_out: it.held_out,
            test: it.test,
        }
    }
}

impl From<Side> for PicturePartView {
    fn from(side: Side) -> Self {
        match side {
            Side::Train => Self::Train,
            Side::HeldOut => Self::HeldOut,
            Side::Test => Self::Test,
        }
    }
}

/// A set with what each picture is for.
struct Parts<'a> {
    set: &'a PictureSet,
    sides: Vec<Side>,
}

impl<'a> Parts<'a> {
    fn of(set: &'a PictureSet) -> Self {
        let sides = set.sides();
        Self { set, sides }
    }

    fn picture(&self, at: usize, side: usize) -> PictureView {
        let set = self.set;
        PictureView {
            name: set.names[at].clone(),
            class: set.classes[set.labels[at] as usize].clone(),
            part: self.sides[at].into(),
            width: set.sizes[at].width,
            height: set.sizes[at].height,
            thumb: Some(PixelsView::new(set.picture(at), side)),
        }
    }
}

impl PicturesView {
    /// The pictures of a class, or of all, from the `from`th on. Those of all are taken from each class in turn.
    pub(crate) fn new(set: &PictureSet, class: Option<&str>, from: usize, count: usize) -> Self {
        let parts = Parts::of(set);
        let order = match class {
            Some(class) => {
                let label = set.classes.iter().position(|it| it == class);
                let is_of = |at: &usize| label == Some(set.labels[*at] as usize);
                (0..set.len()).filter(is_of).collect()
            }
            None => in_turn(&set.labels, set.classes.len()),
        };
        let shown = order.iter().skip(from).take(count.min(MAX_SHOWN));
        Self {
            classes: doctor::class_counts(set).iter().map(Into::into).collect(),
            sizes: sizes(set),
            is_grey: set.shape.channels == 1,
            unread: set.problems.len(),
            has_own_held_out: set.has_own_held_out,
            matching: order.len(),
            pictures: shown.map(|at| parts.picture(*at, THUMB_SIDE)).collect(),
        }
    }
}

/// Width and height of the smallest picture and of the largest.
fn sizes(set: &PictureSet) -> [(usize, usize); 2] {
    let pixels = |it: &&Shape| it.width * it.height;
    let [least, most] = [
        set.sizes.iter().min_by_key(pixels),
        set.sizes.iter().max_by_key(pixels),
    ];
    [least, most].map(|it| it.map_or((0, 0), |it| (it.width, it.height)))
}

/// The places of all, one of each class after the other, as long as there are some.
fn in_turn(labels: &[u32], classes: usize) -> Vec<usize> {
    let mut counts = vec![0; classes];
    let mut order: Vec<(usize, u32, usize)> = Vec::with_capacity(labels.len());
    for (at, label) in labels.iter().enumerate() {
        let turn = &mut counts[*label as usize];
        order.push((*turn, *label, at));
        *turn += 1;
    }
    order.sort_unstable();
    order.into_iter().map(|(.., at)| at).collect()
}

impl CheckupView {
    /// Looks at all pictures of a set.
    pub(crate) fn new(set: &PictureSet) -> Self {
        Self::of(set, doctor::examine(set))
    }

    fn of(set: &PictureSet, found: Checkup) -> Self {
        let parts = Parts::of(set);
        let places: HashMap<&str, usize> = (0..set.len())
            .rev()
            .map(|at| (set.names[at].as_str(), at))
            .collect();
        let named = |name: &str| {
            let at = places.get(name)?;
            Some(parts.picture(*at, SMALL_SIDE))
        };
        let pair = |pair: &Pair| FoundPicturesView {
            pictures: [&pair.first, &pair.second]
                .into_iter()
                .filter_map(|it: &Named| named(&it.name))
                .collect(),
            problem: None,
        };
        let sized = |it: &SizedPicture| FoundPicturesView {
            pictures: named(&it.name).into_iter().collect(),
            problem: None,
        };
        let near = found.near.as_ref();
        let findings = [
            shown(
                FindingKind::Unread,
                &found.unread,
                FoundPicturesView::unread,
            ),
            shown(FindingKind::TwoClasses, &found.two_classes, pair),
            shown(FindingKind::AcrossParts, &found.across_parts, pair),
            shown(FindingKind::Identical, &found.identical, pair),
            near.and_then(|it| shown(FindingKind::Near, it, pair)),
            shown(FindingKind::Tiny, &found.tiny, sized),
            shown(FindingKind::Strips, &found.strips, sized),
        ];
        let imbalance = found.imbalance.as_ref();
        Self {
            pictures: found.pictures,
            imbalance: imbalance.map(|it| ((&it.largest).into(), (&it.smallest).into())),
            compared_near: near.is_some(),
            findings: findings.into_iter().flatten().collect(),
        }
    }
}

/// What was found of a kind, if something was.
fn shown<T>(
    kind: FindingKind,
    findings: &Findings<T>,
    view: impl Fn(&T) -> FoundPicturesView,
) -> Option<FindingView> {
    (findings.count > 0).then(|| FindingView {
        kind,
        count: findings.count,
        shown: findings.shown.iter().take(MAX_FINDINGS).map(view).collect(),
    })
}

impl FoundPicturesView {
    fn unread(it: &Problem) -> Self {
        let picture = PictureView {
            name: it.name.clone(),
            class: String::new(),
            part: PicturePartView::Train,
            width: 0,
            height: 0,
            thumb: None,
        };
        Self {
            pictures: vec![picture],
            problem: Some(it.problem.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_in_a_list_keeps_its_form_and_is_small() {
        let shape = Shape::new(50, 200, 1);
        let pixels = vec![9; shape.bytes()];
        let view = PixelsView::new(Picture { shape, pixels }, 96);
        let bytes = STANDARD.decode(view.pixels).unwrap();
        assert_eq!((view.width, bytes.len()), (96, 96 * 24 * 3));
        let shape = Shape::new(1, 2, 3);
        let pixels = vec![1, 2, 3, 4, 5, 6];
        let view = PixelsView::new(Picture { shape, pixels }, 96);
        assert_eq!((view.width, view.pixels.as_str()), (2, "AQIDBAUG"));
    }

    #[test]
    fn pictures_of_all_classes_are_shown_in_turn() {
        assert_eq!(in_turn(&[0, 0, 0, 1, 2, 2], 4), [0, 3, 4, 1, 5, 2]);
    }
}
