//! Files of pictures to pixels: JPEG, PNG, GIF (the first picture), WebP, BMP, TIFF and the PNM family, told by their first bytes.
//!
//! A picture is turned as its camera says (EXIF). Of 16 bits the high byte counts. What can be seen through stands on white, or loses
//! its transparency alone as Pillow's `convert("RGB")` has it. How large a picture is, is looked at before any of it is decoded, and
//! the panics of a decoder are errors.
//!
//! Deliberately absent: profiles of colours, which Pillow leaves out as well, and HEIC and AVIF, for which there is no decoder in Rust.

use std::{io::Cursor, sync::Mutex};

use image::{DynamicImage, ImageDecoder, ImageError, ImageFormat, ImageReader, Limits};
use serde::{Deserialize, Serialize};

use super::pixels::{Picture, Shape};
use crate::{caught, figures::count, limits};

/// The ends of names of pictures. Those that can't be decoded are among them, so that they are missed by name.
pub const ENDINGS: [&str; 16] = [
    "jpg", "jpeg", "jpe", "jfif", "png", "gif", "bmp", "webp", "tif", "tiff", "ppm", "pgm", "pbm",
    "heic", "heif", "avif",
];
/// Pictures of more pixels than this are decoded one after another: sixteen of the largest at once would need 5 GB.
const LARGE_PIXELS: u64 = 25_000_000;
/// Kinds of files that begin with the length of a box: its brand, and what to say of it.
const BOXED: [(&[u8; 4], &str); 8] = [
    (b"heic", "HEIC"),
    (b"heix", "HEIC"),
    (b"heim", "HEIC"),
    (b"hevc", "HEIC"),
    (b"mif1", "HEIC"),
    (b"msf1", "HEIC"),
    (b"avif", "AVIF"),
    (b"avis", "AVIF"),
];

/// The picture that is decoded alone.
static LARGE: Mutex<()> = Mutex::new(());

/// Whether a file is a picture by its name.
pub fn is_picture(name: &str) -> bool {
    let ending = name.rsplit_once('.').map(|it| it.1.to_lowercase());
    ending.is_some_and(|it| ENDINGS.contains(&it.as_str()))
}

/// What becomes of pixels that can be seen through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Alpha {
    /// They stand on white, as a viewer shows them.
    #[default]
    OnWhite,
    /// They are seen whole, with the colours that were hidden: what Pillow does.
    Dropped,
}

/// The size of a picture as it will be decoded, of which only the beginning is looked at.
///
/// The error says why it can't be read, as the end of a sentence about it.
pub fn shape(bytes: &[u8]) -> Result<Shape, String> {
    let shape = |bytes: &[u8]| {
        let mut decoder = opened(bytes)?;
        let (width, height) = decoder.dimensions();
        let (width, height) = (width as usize, height as usize);
        let turns = decoder.orientation().map_err(said)?;
        let channels = if decoder.color_type().has_color() {
            3
        } else {
            1
        };
        use image::metadata::Orientation::{Rotate90, Rotate90FlipH, Rotate270, Rotate270FlipH};
        Ok(match turns {
            Rotate90 | Rotate270 | Rotate90FlipH | Rotate270FlipH => {
                Shape::new(width, height, channels)
            }
            _ => Shape::new(height, width, channels),
        })
    };
    caught(|| shape(bytes)).unwrap_or_else(|panic| Err(broken(&panic)))
}

/// The picture in the bytes of a file, grey or in colour as it is there.
///
/// The error says why it can't be read, as the end of a sentence about it.
pub fn decode(bytes: &[u8], alpha: Alpha) -> Result<Picture, String> {
    let decoded = caught(|| {
        let mut decoder = opened(bytes)?;
        let (width, height) = decoder.dimensions();
        let is_large = u64::from(width) * u64::from(height) > LARGE_PIXELS;
        // A decoder that has panicked has left nothing behind.
        let turn = is_large.then(|| LARGE.lock().unwrap_or_else(|it| it.into_inner()));
        let turns = decoder.orientation().map_err(said)?;
        let mut picture = DynamicImage::from_decoder(decoder).map_err(said)?;
        drop(turn);
        picture.apply_orientation(turns);
        Ok(picture)
    });
    let picture = decoded.unwrap_or_else(|panic| Err(broken(&panic)))?;
    let (height, width) = (picture.height() as usize, picture.width() as usize);
    let (channels, pixels) = bytes_of(picture, alpha)?;
    Ok(Picture {
        shape: Shape::new(height, width, channels),
        pixels,
    })
}

/// A decoder of a picture that is not too large.
fn opened(bytes: &[u8]) -> Result<impl ImageDecoder, String> {
    if let Some(problem) = limits::PICTURE_FILE.exceeded(bytes.len() as u64) {
        return Err(format!("has a size that {problem}"));
    }
    if let (Some(b"ftyp"), Some(brand)) = (bytes.get(4..8), bytes.get(8..12))
        && let Some((_, name)) = BOXED.iter().find(|(it, _)| *it == brand)
    {
        return Err(format!(
            "is {name}, which can’t be read here; convert it to JPEG or PNG: on a Mac with `sips -s format jpeg`, elsewhere with \
             `heif-convert` or `magick`"
        ));
    }
    if bytes.is_empty() {
        return Err("is empty".to_owned());
    }
    let unknown = "is no picture that can be read: it begins like none of JPEG, PNG, GIF, WebP, BMP, TIFF and PNM";
    let format = image::guess_format(bytes).map_err(|_| unknown.to_owned())?;
    // Decoders make grey of what is missing.
    if format == ImageFormat::Jpeg && !has_end(bytes) {
        return Err(
            "is cut off: the end of the JPEG is missing; copy or download it again".to_owned(),
        );
    }
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    let mut most = Limits::default();
    most.max_alloc = Some(limits::PICTURE_MEMORY.most);
    reader.limits(most.clone());
    let mut decoder = reader.into_decoder().map_err(|error| match error {
        ImageError::Unsupported(_) if !format.reading_enabled() => unknown.to_owned(),
        error => said(error),
    })?;
    let (width, height) = decoder.dimensions();
    let pixels = u64::from(width) * u64::from(height);
    if pixels == 0 {
        return Err(format!("has {width} x {height} pixels, which is none"));
    }
    if let Some(problem) = limits::PICTURE_PIXELS.exceeded(pixels) {
        return Err(format!("has {width} x {height} pixels, which {problem}"));
    }
    // A progressive JPEG is held whole as numbers of two bytes before the first pixel of it is made.
    // Of a GIF, the colour of each pixel is held as its place in the table; of a WebP, each pixel with its alpha beside the result.
    let held = match format {
        ImageFormat::Jpeg if is_progressive(bytes) => pixels * 6,
        ImageFormat::Gif => pixels,
        ImageFormat::WebP => pixels * 4,
        _ => 0,
    };
    let needed = decoder.total_bytes().saturating_add(held);
    if let Some(problem) = limits::PICTURE_MEMORY.exceeded(needed) {
        return Err(format!(
            "has {width} x {height} pixels and needs {} bytes to be decoded, which {problem}",
            count(needed)
        ));
    }
    if format == ImageFormat::Gif {
        // The first picture of a GIF can have another size than the whole, and is held beside it then. It takes five bytes for a pixel,
        // and the decoder counts the four of its colours.
        let left = limits::PICTURE_MEMORY.most - decoder.total_bytes();
        most.max_alloc = Some(left / 5 * 4);
        decoder.set_limits(most).map_err(said)?;
    }
    Ok(decoder)
}

/// What a decoder said.
fn said(error: ImageError) -> String {
    format!("can’t be decoded: {error}")
}

fn broken(panic: &str) -> String {
    format!("is damaged, and its decoder gave up: {panic}")
}

/// The markers of a JPEG in order. What follows each is passed over by its length, and the pixels behind that as what they are.
fn markers(bytes: &[u8]) -> impl Iterator<Item = u8> + '_ {
    let mut at = 2;
    std::iter::from_fn(move || {
        // Of pixels, a stuffed 0 and the marks of restarts are parts, and FF may fill.
        let is_marker = |it: &[u8]| it[0] == 0xff && !matches!(it[1], 0 | 1 | 0xd0..=0xd8 | 0xff);
        at += bytes.get(at..)?.windows(2).position(is_marker)?;
        let marker = bytes[at + 1];
        at += 2;
        if marker == 0xd9 {
            at = bytes.len();
        } else {
            let length = bytes.get(at..at + 2)?;
            at += usize::from(u16::from_be_bytes([length[0], length[1]]));
        }
        Some(marker)
    })
}

/// Whether a JPEG has the mark of its end behind its pixels.
fn has_end(bytes: &[u8]) -> bool {
    markers(bytes).any(|it| it == 0xd9)
}

fn is_progressive(bytes: &[u8]) -> bool {
    markers(bytes)
        .take_while(|it| *it != 0xda)
        .any(|it| it == 0xc2)
}

/// The bytes of a picture, and how many channels they have.
fn bytes_of(picture: DynamicImage, alpha: Alpha) -> Result<(usize, Vec<u8>), String> {
    use DynamicImage::{
        ImageLuma8, ImageLuma16, ImageLumaA8, ImageLumaA16, ImageRgb8, ImageRgb16, ImageRgba8,
        ImageRgba16,
    };
    Ok(match picture {
        ImageLuma8(it) => (1, it.into_raw()),
        ImageRgb8(it) => (3, it.into_raw()),
        ImageLumaA8(it) => (1, opaque::<1, 2>(&it, alpha)),
        ImageRgba8(it) => (3, opaque::<3, 4>(&it, alpha)),
        ImageLuma16(it) => (1, high(&it)),
        ImageRgb16(it) => (3, high(&it)),
        ImageLumaA16(it) => (1, opaque::<1, 2>(&high(&it), alpha)),
        ImageRgba16(it) => (3, opaque::<3, 4>(&high(&it), alpha)),
        _ => return Err("has fractions for colours; save it with 8 or 16 bits".to_owned()),
    })
}

/// The high byte of each number.
fn high(numbers: &[u16]) -> Vec<u8> {
    numbers.iter().map(|it| (it >> 8) as u8).collect()
}

/// Pixels of `C` channels from those with one more, which says how much of them is seen.
fn opaque<const C: usize, const WITH: usize>(pixels: &[u8], alpha: Alpha) -> Vec<u8> {
    let on_white = |value: u8, seen: u8| {
        let (value, seen) = (u32::from(value), u32::from(seen));
        ((value * seen + 255 * (255 - seen) + 127) / 255) as u8
    };
    let pixels = pixels.as_chunks::<WITH>().0.iter();
    let opaque = pixels.flat_map(|pixel| {
        std::array::from_fn::<u8, C, _>(|at| match alpha {
            Alpha::OnWhite => on_white(pixel[at], pixel[C]),
            Alpha::Dropped => pixel[at],
        })
    });
    opaque.collect()
}
