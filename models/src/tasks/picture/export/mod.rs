//! A trained network for other programs.
//!
//! | format | is | for |
//! |---|---|---|
//! | `safetensors` | a folder with weights and a config, `timm` | PyTorch, and timm where it knows the network |
//! | `onnx` | a file, `onnx` | ONNX Runtime and whatever else reads ONNX |
//! | `coreml` | a file, `coreml` | apps on Apple’s systems |
//!
//! What was written is read again and computed with before it gets its name: [`Compared`] says what that was and how far its scores are
//! from those of the network. `plain` is the network as the last two need it, without norms.
//!
//! Deliberately absent: weights of fewer bits, Core ML’s newer packages, and running what was written in the programs that it is for:
//! that is done in `tests/peers`.

mod coreml;
mod onnx;
mod plain;
mod timm;

use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor};
use serde::{Deserialize, Serialize};

use super::{
    classifier::{Classifier, Looks, View},
    pixels::Shape,
    resize::{CropMode, Filter},
};
use crate::{
    Error, Result,
    arch::picture::{Mode, Network},
    checkpoint::save::{folder_bytes, replace_file, replace_folder},
    figures::counted,
    random::Random,
};

/// What other programs a network is written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "specta", derive(specta::Type))]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// PyTorch and timm.
    Safetensors,
    /// ONNX, of opset 17.
    Onnx,
    /// Core ML, as a neural network of specification 4.
    Coreml,
}

/// What is known of a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AboutFormat {
    /// Which one.
    pub format: Format,
    /// Its name, as it is asked for.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// How the name of a file ends. Nothing where it is a folder.
    pub ending: Option<&'static str>,
    /// Whom it is for.
    pub reader: &'static str,
}

/// All formats.
pub const FORMATS: [AboutFormat; 3] = [
    AboutFormat {
        format: Format::Onnx,
        name: "onnx",
        title: "ONNX",
        ending: Some("onnx"),
        reader: "ONNX Runtime",
    },
    AboutFormat {
        format: Format::Coreml,
        name: "coreml",
        title: "Core ML",
        ending: Some("mlmodel"),
        reader: "apps on Apple’s systems",
    },
    AboutFormat {
        format: Format::Safetensors,
        name: "safetensors",
        title: "safetensors",
        ending: None,
        reader: "PyTorch and timm",
    },
];

impl Format {
    /// What is known of it.
    pub fn about(self) -> &'static AboutFormat {
        let is_it = |it: &&AboutFormat| it.format == self;
        FORMATS.iter().find(is_it).unwrap_or(&FORMATS[0])
    }
}

/// The pictures that a network and what was written of it are compared by.
const PICTURES: usize = 8;
/// The seed of those pictures.
const SEED: u64 = 8;
/// How far scores may be apart, as a share of the largest one.
const MAX_DIFFERENCE: f64 = 1e-4;

/// How what was written was compared with the network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "specta", derive(specta::Type))]
pub struct Compared {
    /// What was computed from the file, in a sentence.
    pub what: String,
    /// How many pictures were drawn for it.
    pub pictures: usize,
    /// How far scores are apart at most, as a share of the largest one.
    pub apart: f64,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "specta", derive(specta::Type))]
pub struct Exported {
    /// For whom.
    pub format: Format,
    /// The file or folder.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// How it was compared.
    pub compared: Compared,
    /// What whoever uses it has to know, in sentences.
    pub notes: Vec<String>,
}

/// Writes the network of a checkpoint for other programs, to a path where nothing is yet. It is there as a whole, compared, or not at
/// all.
///
/// Errors: [`Error::Data`] where something is there already, or where what was written computes something else; those of
/// [`Classifier::open`]; [`Error::File`] when the disk refuses.
pub fn export(checkpoint: &Path, format: Format, to: &Path) -> Result<Exported> {
    if to.exists() {
        return Err(Error::Data(format!(
            "there is something already where the export would be, and an export replaces nothing: `{}`",
            to.display()
        )));
    }
    let classifier = Classifier::open(checkpoint, DType::F32, &Device::Cpu)?;
    let mut notes = notes(&classifier);
    let compared = match format {
        Format::Safetensors => {
            notes.extend(timm::notes(&classifier));
            write_folder(&classifier, to)?
        }
        Format::Onnx => {
            notes.extend([onnx::USE.to_owned(), shown(&classifier.about().view)]);
            let net = plain::Net::of(&classifier)?;
            let (bytes, read): (_, Read) = (onnx::write(&net)?, onnx::read);
            let what = "the file was read again, and its graph computed by our own operations: not by ONNX Runtime";
            write_bytes(&classifier, to, &bytes, read, what)?
        }
        Format::Coreml => {
            notes.extend([coreml::USE.to_owned(), shown(&classifier.about().view)]);
            let net = plain::Net::of(&classifier)?;
            let (bytes, read): (_, Read) = (coreml::write(&net)?, coreml::read);
            let what = "the file was read again, and its layers computed by our own operations: not by Core ML";
            write_bytes(&classifier, to, &bytes, read, what)?
        }
    };
    let bytes = match to.is_dir() {
        true => folder_bytes(to)?,
        false => to
            .metadata()
            .map_err(Error::file("look at the export", to))?
            .len(),
    };
    Ok(Exported {
        format,
        path: to.to_owned(),
        bytes,
        compared,
        notes,
    })
}

/// Reads a network from the bytes of a file that was written here.
type Read = fn(&[u8]) -> Result<plain::Net, String>;

/// What is so of every format.
fn notes(classifier: &Classifier) -> Vec<String> {
    let looks = classifier.about().view.looks;
    let looks = match looks {
        Looks::One => return Vec::new(),
        Looks::Mirrored => "twice, once mirrored",
        Looks::Six => "six times",
    };
    vec![format!(
        "Here the network looks at each picture {looks}, and takes the mean. What was written looks once, so its probabilities differ \
         a little from those here."
    )]
}

/// What has to be done with a picture before the network sees it, which files of these formats don’t hold.
fn shown(view: &View) -> String {
    let Shape { height, width, .. } = view.shape;
    let filter = match view.filter {
        Filter::Bilinear => "bilinear",
        Filter::Bicubic => "bicubic",
    };
    if view.crop_mode == CropMode::Squash {
        return format!(
            "It was shown pictures that were scaled to {width} x {height} pixels ({filter}), out of shape where they are no squares."
        );
    }
    format!(
        "It was shown pictures whose short side was scaled to {} pixels ({filter}), and of which the middle of {width} x {height} was cut out.",
        view.short_side.unwrap_or(height)
    )
}

fn write_folder(classifier: &Classifier, to: &Path) -> Result<Compared> {
    let mut apart = 0.0;
    replace_folder(to, |folder| {
        let network = timm::write(classifier, folder)?;
        let numbers = drawn(classifier);
        let pictures: Vec<&[u8]> = numbers.iter().map(Vec::as_slice).collect();
        let view = &classifier.about().view;
        let shown = view.plain(&pictures, view.shape, &Device::Cpu)?;
        let [found, expected] = [&network, classifier.network()].map(|it| scores(it, &shown));
        apart = check(&found?, &expected?)?;
        Ok(())
    })?;
    Ok(Compared {
        what: "the folder was opened again as a network of somebody else: names, shapes, config and scores".to_owned(),
        pictures: PICTURES,
        apart,
    })
}

fn write_bytes(
    classifier: &Classifier,
    to: &Path,
    bytes: &[u8],
    read: Read,
    what: &str,
) -> Result<Compared> {
    let numbers = drawn(classifier);
    let pictures: Vec<&[u8]> = numbers.iter().map(Vec::as_slice).collect();
    let about = classifier.about();
    let shown = about
        .view
        .plain(&pictures, about.view.shape, &Device::Cpu)?;
    let expected = scores(classifier.network(), &shown)?.affine(1.0 / about.temperature, 0.0)?;
    let net =
        read(bytes).map_err(|problem| Error::Data(format!("what was to be written {problem}")))?;
    if net.classes != about.classes {
        return Err(Error::Data(
            "what was to be written has other names of classes".to_owned(),
        ));
    }
    let apart = check(&net.scores(&pictures)?, &expected)?;
    replace_file(to, bytes)?;
    let written = std::fs::read(to).map_err(Error::file("read the export again", to))?;
    if written != bytes {
        return Err(Error::format(
            to,
            "the disk holds other bytes than were written",
        ));
    }
    Ok(Compared {
        what: what.to_owned(),
        pictures: PICTURES,
        apart,
    })
}

fn scores(network: &Network, shown: &Tensor) -> Result<Tensor> {
    let seen = network.see(None, shown, Mode::Running)?;
    Ok(seen.scores.tensor().clone())
}

/// How far scores are apart, as a share of the largest one.
fn check(found: &Tensor, expected: &Tensor) -> Result<f64> {
    let numbers = |it: &Tensor| -> Result<Vec<f32>> { Ok(it.flatten_all()?.to_vec1()?) };
    let (found, expected) = (numbers(found)?, numbers(expected)?);
    // `f64::max` passes over what is no number, and that is as far apart as can be.
    let far = |number: f64| {
        if number.is_nan() {
            f64::INFINITY
        } else {
            number.abs()
        }
    };
    let pairs = found.iter().zip(&expected);
    let differences = pairs.map(|(a, b)| far(f64::from(*a) - f64::from(*b)));
    let largest = expected.iter().map(|it| far(f64::from(*it)));
    let apart = match found.len() == expected.len() {
        true => differences.fold(0.0, f64::max) / largest.fold(f64::MIN_POSITIVE, f64::max),
        false => f64::INFINITY,
    };
    match apart <= MAX_DIFFERENCE {
        true => Ok(apart),
        // Infinity by infinity is here too.
        false => Err(Error::Data(format!(
            "scores from what was written are {apart:.1e} of the largest one away from those of the network for {}, and {MAX_DIFFERENCE:.0e} \
             is the most: it was not kept",
            counted(PICTURES as u64, "picture")
        ))),
    }
}

/// Pictures with areas and noise, in bytes.
fn drawn(classifier: &Classifier) -> Vec<Vec<u8>> {
    let shape = classifier.about().view.shape;
    let mut random = Random::for_purpose(SEED, "export");
    let picture = |_| {
        let [wide, high, begins] = std::array::from_fn(|_| random.uniform() * 6.0);
        let byte = |at: usize| {
            let (place, channel) = (at / shape.channels, at % shape.channels);
            let (row, column) = (place / shape.width, place % shape.width);
            let along = |at: usize, side: usize| at as f64 / side as f64;
            let wave = (wide * along(column, shape.width)
                + high * along(row, shape.height)
                + begins
                + channel as f64)
                .sin();
            (127.0 + 90.0 * wave + 60.0 * (random.uniform() - 0.5)) as u8
        };
        (0..shape.bytes()).map(byte).collect()
    };
    (0..PICTURES).map(picture).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_that_are_not_those_of_the_network_are_refused_with_how_far_they_are() {
        let tensor = |numbers: [f32; 4]| Tensor::new(&numbers, &Device::Cpu).unwrap();
        let expected = tensor([4.0, -2.0, 0.5, 0.0]);
        let near = check(&tensor([4.0002, -2.0, 0.5, 0.0]), &expected).unwrap();
        assert!((near - 5e-5).abs() < 1e-6, "{near}");
        for wrong in [2.0, f32::NAN, f32::INFINITY] {
            let error = check(&tensor([4.0, -2.0, 0.5, wrong]), &expected).unwrap_err();
            let said = error.to_string();
            assert!(said.contains("of the largest one away"), "{said}");
        }
    }

    #[test]
    fn every_format_has_a_name() {
        for format in [Format::Safetensors, Format::Onnx, Format::Coreml] {
            assert_eq!(format.about().format, format);
        }
    }
}
