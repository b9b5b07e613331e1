//! A model that says what pictures show, and what it says.

use std::path::Path;

use models::{
    checkpoint::save::name_of, tasks::picture::classifier::Ranked, train::exhibit::HeatMap,
};
use serde::Serialize;
use specta::Type;
use specta_typescript::Number;

use super::{OpenClassifier, title};
use crate::{
    host::pictures::view::PixelsView,
    wire::predict::{PictureAnswer, Predicted},
};

/// A classifier that is open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClassifierView {
    /// What it is: `ResNet-18, 64 × 64 pixels`.
    title: String,
    /// The names of its classes.
    classes: Vec<String>,
    /// Its weights, counted.
    weights: usize,
    /// What a person should know about where it computes.
    warnings: Vec<String>,
}

/// What came of a picture.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PredictionView {
    /// What it is called: the name of its file.
    name: String,
    /// Its file, if it came from one.
    path: Option<String>,
    /// Why it can’t be read, as the end of a sentence about it.
    problem: Option<String>,
    /// What the model says, if it can be read.
    said: Option<SaidView>,
}

/// What a model says of a picture.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SaidView {
    /// The most probable classes, the most probable first.
    ranked: Vec<RankedView>,
    /// Milliseconds that the model took.
    #[specta(type = Number)]
    millis: f64,
    /// Columns of the picture in its file.
    width: usize,
    /// Rows.
    height: usize,
    /// The part of it that the model saw.
    shown: PixelsView,
}

/// A class with how probable it is.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RankedView {
    class: String,
    /// From 0 to 1.
    #[specta(type = Number)]
    probability: f32,
    /// Which places speak for it, if the model has such a map.
    map: Option<HeatMap>,
}

impl ClassifierView {
    /// What a page shows of a classifier that is open.
    pub(crate) fn new(classifier: &OpenClassifier) -> Self {
        Self {
            title: title(&classifier.about),
            classes: classifier.about.classes.clone(),
            weights: classifier.weights,
            warnings: classifier.warnings.clone(),
        }
    }
}

impl PredictionView {
    /// What came of the picture in a file.
    pub(crate) fn of_file(path: &Path, answer: PictureAnswer) -> Self {
        Self {
            path: Some(path.display().to_string()),
            ..Self::new(name_of(path), answer)
        }
    }

    /// What came of a picture.
    pub(crate) fn new(name: String, answer: PictureAnswer) -> Self {
        let (problem, said) = match answer {
            PictureAnswer::Predicted(predicted) => (None, Some(SaidView::from(*predicted))),
            PictureAnswer::Unread(problem) => (Some(problem), None),
        };
        Self {
            name,
            path: None,
            problem,
            said,
        }
    }
}

impl From<Predicted> for SaidView {
    fn from(it: Predicted) -> Self {
        let longest = it.shown.shape.height.max(it.shown.shape.width);
        Self {
            ranked: it.ranked.into_iter().map(RankedView::from).collect(),
            millis: it.millis,
            width: it.width,
            height: it.height,
            shown: PixelsView::new(it.shown, longest),
        }
    }
}

impl From<Ranked> for RankedView {
    fn from(it: Ranked) -> Self {
        Self {
            class: it.class,
            probability: it.probability,
            map: it.map,
        }
    }
}
