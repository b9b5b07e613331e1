//! Pictures that a model is asked about, and what it says of them.

use std::path::PathBuf;

use models::tasks::picture::{classifier::Ranked, pixels::Picture};
use serde::{Deserialize, Serialize};

/// A picture to be asked about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AskedPicture {
    /// In a file.
    File(PathBuf),
    /// The bytes of a file, as base64.
    Base64(String),
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PictureAnswer {
    /// What the model says it shows.
    Predicted(Box<Predicted>),
    /// Why it can’t be read, as the end of a sentence about it.
    Unread(String),
}

/// What a model says of a picture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Predicted {
    /// The most probable classes, the most probable first.
    pub(crate) ranked: Vec<Ranked>,
    /// Milliseconds that the model took, without decoding and maps.
    pub(crate) millis: f64,
    /// Columns of the picture in its file.
    pub(crate) width: usize,
    /// Rows.
    pub(crate) height: usize,
    /// The part of it that the model was shown. It may be finer than what the model was shown.
    pub(crate) shown: Picture,
}
