//! Larger and smaller pictures, in the same whole numbers as Pillow's `Image.resize`, so that a network sees what it was trained on.
//!
//! Output i of m from n has its centre at c = (i + 1/2) n/m. With f = max(n/m, 1) and the reach S of the filter, it is a weighed sum
//! over the inputs x with |x + 1/2 - c| < S f. Weights are whole numbers of 22 bits; rows are made first and rounded to bytes, then
//! columns. The rule is that of `src/libImaging/Resample.c`; `tests/goldens/pictures.py` has Pillow 12 make what the tests compare.
//! Pillow 13 begins with the columns for some sizes, which moves some bytes by 1.
//!
//! Deliberately absent: filters that networks are not trained with, and numbers that are no bytes.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::pixels::{Picture, Shape};

/// Bits behind the point of a weight.
const BITS: u32 = 32 - 8 - 2;
/// Bicubic: how far the curve swings below nothing.
const A: f64 = -0.5;

/// How a pixel between pixels is weighed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Filter {
    /// A tent: the nearer a pixel, the more it counts, in proportion.
    #[default]
    Bilinear,
    /// A cubic curve, which keeps edges sharper.
    Bicubic,
}

/// How a picture of any shape becomes a square.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CropMode {
    /// It is scaled as it is, and the middle is cut out.
    #[default]
    Center,
    /// All of it is scaled to the square, whatever becomes of its shape.
    Squash,
}

impl Filter {
    fn reach(self) -> f64 {
        match self {
            Self::Bilinear => 1.0,
            Self::Bicubic => 2.0,
        }
    }

    fn weight(self, at: f64) -> f64 {
        let x = at.abs();
        match self {
            Self::Bilinear if x < 1.0 => 1.0 - x,
            Self::Bicubic if x < 1.0 => ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0,
            Self::Bicubic if x < 2.0 => (((x - 5.0) * x + 8.0) * x - 4.0) * A,
            _ => 0.0,
        }
    }
}

/// A part of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// The first row.
    pub top: usize,
    /// The first column.
    pub left: usize,
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
}

impl Region {
    /// All of a picture.
    pub fn all(shape: Shape) -> Self {
        Self {
            top: 0,
            left: 0,
            height: shape.height,
            width: shape.width,
        }
    }

    /// The middle of a picture, as torchvision's `center_crop` has it.
    pub fn centre(shape: Shape, height: usize, width: usize) -> Self {
        let (height, width) = (height.min(shape.height), width.min(shape.width));
        Self {
            top: half(shape.height - height),
            left: half(shape.width - width),
            height,
            width,
        }
    }
}

/// Python's `round(difference / 2)`, in which a half goes to the even number.
fn half(difference: usize) -> usize {
    let below = difference / 2;
    below + (difference % 2) * (below % 2)
}

/// The inputs of one output: the first, and the weight of each.
struct Taps {
    first: usize,
    weights: Vec<i32>,
}

/// The inputs of each of `outputs` from so many `inputs`.
fn taps(filter: Filter, inputs: usize, outputs: usize) -> Vec<Taps> {
    let scale = inputs as f64 / outputs as f64;
    let stretch = scale.max(1.0);
    let (reach, shrink) = (filter.reach() * stretch, 1.0 / stretch);
    let one = |output: usize| {
        let centre = (output as f64 + 0.5) * scale;
        // A float below 0 becomes 0.
        let first = (centre - reach + 0.5) as usize;
        let end = ((centre + reach + 0.5) as usize).min(inputs);
        let weight = |input: usize| filter.weight((input as f64 - centre + 0.5) * shrink);
        let weights: Vec<f64> = (first..end).map(weight).collect();
        let sum: f64 = weights.iter().sum();
        let whole = |weight: &f64| {
            let weight = weight / sum * f64::from(1 << BITS);
            (if weight < 0.0 {
                weight - 0.5
            } else {
                weight + 0.5
            }) as i32
        };
        Taps {
            first,
            weights: weights.iter().map(whole).collect(),
        }
    };
    (0..outputs).map(one).collect()
}

/// A byte from a sum that has begun with a half.
fn rounded(sum: i32) -> u8 {
    (sum >> BITS).clamp(0, 255) as u8
}

/// A part of a picture in another size, written to `out`, [height, width, channels] of `to`, which has the channels of the picture.
pub fn resize_into(
    pixels: &[u8],
    shape: Shape,
    region: Region,
    to: Shape,
    filter: Filter,
    out: &mut [u8],
) {
    let channels = shape.channels;
    let line = shape.width * channels;
    let row = |at: usize| {
        let start = (region.top + at) * line + region.left * channels;
        &pixels[start..start + region.width * channels]
    };
    let (narrow, is_narrowed) = (to.width * channels, region.width != to.width);
    let mut rows: Vec<u8> = Vec::new();
    if is_narrowed {
        let taps = taps(filter, region.width, to.width);
        rows = vec![0; region.height * narrow];
        let lines = rows.par_chunks_exact_mut(narrow.max(1)).enumerate();
        lines.for_each(|(at, out)| match channels {
            3 => sum_row::<3>(row(at), &taps, out),
            _ => sum_row::<1>(row(at), &taps, out),
        });
    }
    let row = |at: usize| match is_narrowed {
        true => &rows[at * narrow..(at + 1) * narrow],
        false => row(at),
    };
    let lines = out.par_chunks_exact_mut(narrow.max(1)).enumerate();
    if region.height == to.height {
        return lines.for_each(|(at, out)| out.copy_from_slice(row(at)));
    }
    let taps = taps(filter, region.height, to.height);
    lines.for_each(|(at, out)| {
        let mut sums = vec![1 << (BITS - 1); narrow];
        let Taps { first, weights } = &taps[at];
        for (input, weight) in weights.iter().enumerate() {
            for (sum, value) in sums.iter_mut().zip(row(first + input)) {
                *sum += weight * i32::from(*value);
            }
        }
        for (out, sum) in out.iter_mut().zip(sums) {
            *out = rounded(sum);
        }
    });
}

/// A row of pixels of `C` channels.
fn sum_row<const C: usize>(row: &[u8], taps: &[Taps], out: &mut [u8]) {
    let pixels = row.as_chunks::<C>().0;
    for (out, Taps { first, weights }) in out.as_chunks_mut::<C>().0.iter_mut().zip(taps) {
        let mut sums = [1 << (BITS - 1); C];
        for (pixel, weight) in pixels[*first..].iter().zip(weights) {
            for (sum, value) in sums.iter_mut().zip(pixel) {
                *sum += weight * i32::from(*value);
            }
        }
        *out = sums.map(rounded);
    }
}

/// A picture in another size. Neither may be without pixels.
pub fn resize(picture: &Picture, height: usize, width: usize, filter: Filter) -> Picture {
    let shape = Shape::new(height, width, picture.shape.channels);
    let mut pixels = vec![0; shape.bytes()];
    let all = Region::all(picture.shape);
    resize_into(
        &picture.pixels,
        picture.shape,
        all,
        shape,
        filter,
        &mut pixels,
    );
    Picture { shape, pixels }
}

/// A part of a picture.
pub fn crop(picture: &Picture, region: Region) -> Picture {
    let channels = picture.shape.channels;
    let rows = (region.top..region.top + region.height).map(|row| {
        let start = (row * picture.shape.width + region.left) * channels;
        &picture.pixels[start..start + region.width * channels]
    });
    Picture {
        shape: Shape::new(region.height, region.width, channels),
        pixels: rows.collect::<Vec<_>>().concat(),
    }
}

/// A square picture: its short side becomes `side` long, and the middle of the other is kept.
pub fn fit(picture: &Picture, side: usize, filter: Filter) -> Picture {
    fit_within(picture, side, side, filter)
}

impl CropMode {
    /// A square picture of `side` by `side`, where the short side is `short` long before the middle is cut out.
    pub fn square(self, picture: &Picture, short: usize, side: usize, filter: Filter) -> Picture {
        match self {
            Self::Center => fit_within(picture, short, side, filter),
            Self::Squash => resize(picture, side, side, filter),
        }
    }
}

/// A square picture as the evaluation of published networks makes it: its short side becomes `short` long, and the middle of `side`
/// by `side` is kept. `short` may not be less than `side`.
pub fn fit_within(picture: &Picture, short: usize, side: usize, filter: Filter) -> Picture {
    let Shape { height, width, .. } = picture.shape;
    let long = |length: usize, other: usize| length * short / other;
    let (height, width) = match height <= width {
        true => (short, long(width, height)),
        false => (long(height, width), short),
    };
    let scaled = resize(picture, height, width, filter);
    crop(&scaled, Region::centre(scaled.shape, side, side))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_half_goes_to_the_even_number() {
        // Python: [round(x / 2) for x in range(8)].
        assert_eq!([0, 1, 2, 3, 4, 5, 6, 7].map(half), [0, 0, 1, 2, 2, 2, 3, 4]);
    }

    #[test]
    fn the_short_side_fits_and_the_middle_is_kept() {
        let shape = Shape::new(10, 30, 1);
        let pixels = (0..300).map(|at| (at % 30 * 8) as u8).collect();
        let picture = Picture { shape, pixels };
        let same = fit(&picture, 10, Filter::Bilinear);
        assert_eq!(same.shape, Shape::square(10, 1));
        assert_eq!((same.pixels[0], same.pixels[9]), (80, 152));
        let smaller = fit_within(&picture, 5, 4, Filter::Bicubic);
        assert_eq!(smaller.shape, Shape::square(4, 1));
    }
}
