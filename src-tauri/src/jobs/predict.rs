//! Pictures that a model says the class of, inside an engine.

use std::path::Path;

use base64::{Engine, engine::general_purpose::STANDARD};
use models::{
    Error,
    device::{self, Checked, Choice},
    limits,
    tasks::picture::{
        classifier::{Classifier, View},
        decode::decode,
        pixels::Picture,
    },
};

use crate::wire::{
    error::Result,
    predict::{AskedPicture, PictureAnswer, Predicted},
};

/// Opens the classifier in a folder in the format that is safest on a device.
pub(super) fn open(folder: &Path, device: &Choice, checked: &Checked) -> Result<Classifier> {
    let dtype = super::safest_dtype(device, checked)?;
    Ok(Classifier::open(
        folder,
        dtype.into(),
        &device::open(device)?,
    )?)
}

/// Says what a picture shows. What is shown of it has sides of at most `side`, or of as many pixels as the model sees.
pub(super) fn predict(
    classifier: &Classifier,
    picture: &AskedPicture,
    side: usize,
) -> Result<PictureAnswer> {
    let view = &classifier.about().view;
    let decoded = bytes_of(picture).and_then(|bytes| decode(&bytes, view.alpha));
    let picture = match decoded {
        Ok(picture) => picture.with_channels(view.shape.channels),
        Err(problem) => return Ok(PictureAnswer::Unread(problem)),
    };
    let (width, height) = (picture.shape.width, picture.shape.height);
    let finer = finer(&picture, view, side);
    let prediction = classifier.predict(picture)?;
    Ok(PictureAnswer::Predicted(Box::new(Predicted {
        ranked: prediction.ranked,
        millis: prediction.millis,
        width,
        height,
        shown: finer.unwrap_or(prediction.seen),
    })))
}

/// The bytes of a file. The error is the end of a sentence about the picture.
fn bytes_of(picture: &AskedPicture) -> Result<Vec<u8>, String> {
    match picture {
        AskedPicture::File(path) => {
            let read = limits::PICTURE_FILE.read(path, "read the picture");
            read.map_err(|error| match error {
                Error::File { source, .. } => format!("can’t be read: {source}"),
                Error::Format { problem, .. } => problem,
                other => other.to_string(),
            })
        }
        AskedPicture::Base64(text) => STANDARD
            .decode(text)
            .map_err(|error| format!("did not arrive whole: {error}")),
    }
}

/// The part of a picture that a model sees, with more pixels than the model sees, where there are more.
fn finer(picture: &Picture, view: &View, most: usize) -> Option<Picture> {
    let (side, is_square) = (view.shape.height, view.shape.height == view.shape.width);
    let short = view.short_side.unwrap_or(side);
    let there = picture.shape.height.min(picture.shape.width);
    let shown = (there * side / short.max(1)).min(most);
    (is_square && shown > side).then(|| {
        view.crop_mode
            .square(picture, short * shown / side, shown, view.filter)
    })
}

#[cfg(test)]
mod tests {
    use models::tasks::picture::{
        classifier::Looks,
        decode::Alpha,
        pixels::Shape,
        resize::{CropMode, Filter},
    };

    use super::*;

    fn view(side: usize, short_side: Option<usize>) -> View {
        View {
            shape: Shape::square(side, 3),
            short_side,
            crop_mode: CropMode::Center,
            filter: Filter::Bilinear,
            alpha: Alpha::OnWhite,
            mean: vec![0.5; 3],
            std: vec![0.5; 3],
            looks: Looks::One,
        }
    }

    #[test]
    fn what_is_shown_is_what_the_model_sees_as_finely_as_it_is_there() {
        let picture = |height, width| {
            let shape = Shape::new(height, width, 3);
            let pixels = vec![7; shape.bytes()];
            Picture { shape, pixels }
        };
        let shown = |height, width, view: &View, most| {
            finer(&picture(height, width), view, most).map(|it| it.shape)
        };
        let plain = view(32, None);
        assert_eq!(shown(400, 600, &plain, 320), Some(Shape::square(320, 3)));
        assert_eq!(shown(100, 90, &plain, 320), Some(Shape::square(90, 3)));
        assert_eq!(shown(32, 32, &plain, 320), None, "nothing finer is there");
        assert_eq!(shown(400, 600, &plain, 0), None, "nobody asked for it");
        // A network that sees the middle alone.
        let middle = view(224, Some(256));
        assert_eq!(shown(512, 512, &middle, 999), Some(Shape::square(448, 3)));
        assert_eq!(shown(200, 200, &middle, 999), None);
    }

    #[test]
    fn what_is_no_picture_is_said_to_be_none() {
        let folder = tempfile::tempdir().unwrap();
        let missing = bytes_of(&AskedPicture::File(folder.path().join("a.png"))).unwrap_err();
        assert!(missing.starts_with("can’t be read: "), "{missing}");
        let cut = bytes_of(&AskedPicture::Base64("aGk".to_owned())).unwrap_err();
        assert!(cut.starts_with("did not arrive whole: "), "{cut}");
        assert_eq!(
            bytes_of(&AskedPicture::Base64("aGk=".to_owned())).unwrap(),
            b"hi"
        );
    }
}
