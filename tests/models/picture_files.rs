//! Files of pictures are decoded, and pictures scaled, as Pillow does it.

use std::collections::HashMap;

use candle_core::{Device, Tensor};
use image::{ExtendedColorType, ImageFormat};
use models::tasks::picture::{
    decode::{self, Alpha},
    pixels::{Picture, Shape},
    resize::{Filter, fit_within, resize},
};

use crate::hostile::repository;

const GOLDEN: &str = "tests/goldens/pictures/golden.safetensors";

fn golden() -> HashMap<String, Tensor> {
    candle_core::safetensors::load(repository(GOLDEN), &Device::Cpu).unwrap()
}

fn bytes_of(tensor: &Tensor) -> Vec<u8> {
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

fn picture_of(tensor: &Tensor) -> Picture {
    let (height, width, channels) = tensor.dims3().unwrap();
    Picture {
        shape: Shape::new(height, width, channels),
        pixels: bytes_of(tensor),
    }
}

/// Pillow's results: see `tests/goldens/pictures.py`.
#[test]
fn pictures_are_scaled_to_the_bytes_that_pillow_makes() {
    let golden = golden();
    let mut compared = 0;
    for (name, tensor) in &golden {
        let Some((case, "from")) = name.rsplit_once('.') else {
            continue;
        };
        let from = picture_of(tensor);
        for (name, filter) in [("bilinear", Filter::Bilinear), ("bicubic", Filter::Bicubic)] {
            let expected = picture_of(&golden[&format!("{case}.{name}")]);
            let Shape { height, width, .. } = expected.shape;
            let found = match case.strip_prefix("fit.") {
                Some(rest) => {
                    let short = rest.split('.').next_back().unwrap().parse().unwrap();
                    fit_within(&from, short, height, filter)
                }
                None => resize(&from, height, width, filter),
            };
            assert_eq!(found, expected, "{case} {name}");
            compared += 1;
        }
    }
    assert_eq!(compared, 26);
}

#[test]
fn files_are_decoded_to_the_pixels_that_pillow_finds() {
    let golden = golden();
    let mut compared = 0;
    for (name, file) in &golden {
        let Some((case, "file")) = name.rsplit_once('.') else {
            continue;
        };
        let (file, expected) = (
            bytes_of(file),
            picture_of(&golden[&format!("{case}.pixels")]),
        );
        let found =
            decode::decode(&file, Alpha::Dropped).unwrap_or_else(|error| panic!("{case} {error}"));
        assert_eq!(decode::shape(&file).unwrap(), found.shape, "{case}");
        let found = found.with_channels(expected.shape.channels);
        assert_eq!(found.shape, expected.shape, "{case}");
        let apart = found
            .pixels
            .iter()
            .zip(&expected.pixels)
            .map(|(a, b)| a.abs_diff(*b))
            .max();
        // Decoders of JPEG round their cosines and spread their colours in ways of their own.
        let most = if case.starts_with("jpeg") { 4 } else { 0 };
        assert!(apart <= Some(most), "{case}: {apart:?} apart");
        compared += 1;
    }
    assert_eq!(compared, 36);
}

#[test]
fn what_can_be_seen_through_stands_on_white() {
    let mut file = std::io::Cursor::new(Vec::new());
    let pixels = [200, 100, 0, 0, 200, 100, 0, 255, 200, 100, 0, 51];
    image::write_buffer_with_format(
        &mut file,
        &pixels,
        3,
        1,
        ExtendedColorType::Rgba8,
        ImageFormat::Png,
    )
    .unwrap();
    let file = file.into_inner();
    let on_white = decode::decode(&file, Alpha::OnWhite).unwrap();
    assert_eq!(on_white.pixels, [255, 255, 255, 200, 100, 0, 244, 224, 204]);
    let dropped = decode::decode(&file, Alpha::Dropped).unwrap();
    assert_eq!(dropped.pixels, [200, 100, 0].repeat(3));
}

#[test]
fn what_is_no_whole_picture_is_refused_with_the_reason() {
    let golden = golden();
    let jpeg = bytes_of(&golden["jpeg.baseline.file"]);
    let png = bytes_of(&golden["decode.png-colour.file"]);
    let heic = [&[0, 0, 0, 24], &b"ftypheic\0\0\0\0mif1heic"[..]].concat();
    let mut large = png.clone();
    // The width and the height of a PNG stand behind its first 16 bytes, and a sum behind its header.
    large[16..24].copy_from_slice(&[0, 0, 0x40, 0, 0, 0, 0x40, 0]);
    let sum = crc32(&large[12..29]);
    large[29..33].copy_from_slice(&sum.to_be_bytes());
    for (bytes, words) in [
        (&jpeg[..jpeg.len() - 2], "the end of the JPEG is missing"),
        (&jpeg[..jpeg.len() / 2], "the end of the JPEG is missing"),
        (&png[..png.len() / 2], "can’t be decoded"),
        (&heic, "is HEIC, which can’t be read here; convert it"),
        (
            &large,
            "has 16384 x 16384 pixels, which is 268,435,456, and 100,000,000 pixels are the most",
        ),
        (b"", "is empty"),
        (
            b"some words that are no picture",
            "is no picture that can be read",
        ),
        (b"%PDF-1.7 and more of it", "is no picture that can be read"),
    ] {
        let error = decode::decode(bytes, Alpha::OnWhite).unwrap_err();
        assert!(error.contains(words), "`{words}` is not in: {error}");
    }
}

/// The sum of a part of a PNG.
fn crc32(bytes: &[u8]) -> u32 {
    let mut sum = flate2::Crc::new();
    sum.update(bytes);
    sum.sum()
}
