//! A picture seen otherwise, and as the numbers that a network takes: [height, width, channels], of which each channel was brought to
//! mean 0 and deviation 1.
//!
//! What is drawn for a picture follows from the seed, the epoch and its row alone: order, threads and a restart change nothing. Each
//! thing that can be done has draws of its own, so that one more moves none of the others. What is done, in this order:
//!
//! 1. a part is cut out: of any area and ratio ([`Augmentation::random_resized_crop`], as torchvision's), or as large as the result,
//!    after a border was put around ([`Augmentation::pad`])
//! 2. it is mirrored ([`Augmentation::flip`])
//! 3. brightness, contrast and saturation are changed ([`Augmentation::jitter`], as torchvision's `ColorJitter` on numbers)
//! 4. it is normalised, and a square of it becomes 0 ([`Augmentation::cutout`])
//!
//! Deliberately absent: what mixes several pictures, which is done with a batch.

use serde::{Deserialize, Serialize};

use super::{
    pixels::Shape,
    resize::{Filter, Region, resize_into},
};
use crate::random::{Random, stable_hash};

/// The names of what is drawn.
const CROP: u64 = 1;
const FLIP: u64 = 2;
const JITTER: u64 = 3;
const CUTOUT: u64 = 4;
/// The epoch of what is drawn once for a row.
const ONCE: u64 = u64::MAX;
/// How often a part with its area and ratio is looked for.
const TRIES: usize = 10;
/// The ratios of a part's sides, between which its logarithm is drawn.
const RATIOS: (f64, f64) = (3.0 / 4.0, 4.0 / 3.0);
/// How much red, green and blue count in grey, for torchvision.
const GREY: [f32; 3] = [0.2989, 0.587, 0.114];

/// What is put around a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Border {
    /// What is on the other side of the edge, without the edge itself.
    #[default]
    Reflect,
    /// Black, the byte 0, before it is normalised.
    Zeros,
}

/// Whether a picture is mirrored, left to right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Flip {
    /// Never: digits, letters and signs of hands mean another thing then.
    #[default]
    None,
    /// One in two, drawn in each epoch.
    Random,
    /// One in two, drawn once, and the others in every second epoch: each is seen both ways in any two.
    Alternating,
}

/// How pictures are changed while a network learns from them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Augmentation {
    /// So many pixels are put around, and a part is cut out from anywhere.
    pub pad: usize,
    /// What they are.
    pub border: Border,
    /// Mirrored.
    pub flip: Flip,
    /// The side of the square that is blotted out, 0 for none.
    pub cutout: usize,
    /// The smallest and the largest area of a part that is scaled to the size of the result, of the whole: `(0.08, 1)`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub random_resized_crop: Option<(f64, f64)>,
    /// By how much brightness, contrast and saturation change at most: factors are between 1 - `jitter` and 1 + `jitter`.
    pub jitter: f64,
}

/// A stream of draws for one purpose.
fn drawn(seed: u64, what: u64, epoch: u64, row: usize) -> Random {
    let mut key = [0; 24];
    key[..8].copy_from_slice(&what.to_le_bytes());
    key[8..16].copy_from_slice(&epoch.to_le_bytes());
    key[16..].copy_from_slice(&(row as u64).to_le_bytes());
    Random::new(stable_hash(stable_hash(seed, b"augment"), &key))
}

/// A part of a picture that may reach over its edges.
struct Window {
    top: isize,
    left: isize,
    is_mirrored: bool,
    border: Border,
}

/// The numbers of bytes: for each channel one of 256.
struct Table([[f32; 256]; 3]);

impl Table {
    fn new(mean: &[f32], std: &[f32]) -> Self {
        let number = |channel: usize, byte: usize| {
            let (mean, std) = (of(mean, channel, 0.0), of(std, channel, 1.0));
            (byte as f32 / 255.0 - mean) / std
        };
        Self(std::array::from_fn(|channel| {
            std::array::from_fn(|byte| number(channel, byte))
        }))
    }
}

/// That of a channel; what is one for all stands once.
fn of(values: &[f32], channel: usize, otherwise: f32) -> f32 {
    let value = values.get(channel).or(values.last());
    value.copied().unwrap_or(otherwise)
}

/// Writes a picture as it is, as it is measured: [height, width, channels] of `to`.
///
/// A larger one gives its middle; one that is smaller is scaled. Grey becomes three equal channels where `to` has three. `mean` and `std`
/// have a number for each channel, of values from 0 to 1. `out` has to be as long as `to` needs.
pub fn write_plain(
    picture: &[u8],
    shape: Shape,
    to: Shape,
    mean: &[f32],
    std: &[f32],
    out: &mut [f32],
) {
    write_shifted(picture, shape, to, (0, 0), false, mean, std, out);
}

/// The same seen from so many pixels below and to the right of the middle, mirrored or not: a view to measure with. What is beyond the
/// edge is reflected.
#[expect(
    clippy::too_many_arguments,
    reason = "they are what a picture and its view are"
)]
pub fn write_shifted(
    picture: &[u8],
    shape: Shape,
    to: Shape,
    (down, right): (isize, isize),
    is_mirrored: bool,
    mean: &[f32],
    std: &[f32],
    out: &mut [f32],
) {
    let table = Table::new(mean, std);
    let mut scaled = Vec::new();
    let (picture, shape) = large_enough(picture, shape, to, 0, &mut scaled);
    let middle = Region::centre(shape, to.height, to.width);
    let window = Window {
        top: middle.top as isize + down,
        left: middle.left as isize + right,
        is_mirrored,
        border: Border::Reflect,
    };
    cut(
        picture,
        shape,
        &window,
        to,
        |channel, byte| table.0[channel][usize::from(byte)],
        out,
    );
}

/// A picture from which `to` can be cut with this border: it, or a larger one in `scaled`.
fn large_enough<'a>(
    picture: &'a [u8],
    shape: Shape,
    to: Shape,
    pad: usize,
    scaled: &'a mut Vec<u8>,
) -> (&'a [u8], Shape) {
    if shape.height + 2 * pad >= to.height && shape.width + 2 * pad >= to.width {
        return (picture, shape);
    }
    let size = Shape::new(to.height, to.width, shape.channels);
    scaled.resize(size.bytes(), 0);
    resize_into(
        picture,
        shape,
        Region::all(shape),
        size,
        Filter::Bilinear,
        scaled,
    );
    (scaled, size)
}

/// Where a place beyond the edges is found, of so many. None is the border.
fn place(at: isize, count: usize, border: Border) -> Option<usize> {
    if let Ok(inside) = usize::try_from(at)
        && inside < count
    {
        return Some(inside);
    }
    match border {
        Border::Zeros => None,
        Border::Reflect if count == 1 => Some(0),
        Border::Reflect => {
            let period = 2 * (count - 1);
            let at = at.rem_euclid(period as isize) as usize;
            Some(at.min(period - at))
        }
    }
}

/// Cuts `to` out of a picture, each byte through `number`.
fn cut(
    picture: &[u8],
    shape: Shape,
    window: &Window,
    to: Shape,
    number: impl Fn(usize, u8) -> f32,
    out: &mut [f32],
) {
    match (shape.channels, to.channels) {
        (3, _) => cut_channels::<3, 3>(picture, shape, window, to, number, out),
        (_, 3) => cut_channels::<1, 3>(picture, shape, window, to, number, out),
        _ => cut_channels::<1, 1>(picture, shape, window, to, number, out),
    }
}

/// The same of `FROM` channels to `TO`, for which the compiler makes a loop each.
fn cut_channels<const FROM: usize, const TO: usize>(
    picture: &[u8],
    shape: Shape,
    window: &Window,
    to: Shape,
    number: impl Fn(usize, u8) -> f32,
    out: &mut [f32],
) {
    let column = |at: usize| {
        let at = if window.is_mirrored {
            to.width - 1 - at
        } else {
            at
        };
        place(window.left + at as isize, shape.width, window.border)
    };
    let columns: Vec<Option<usize>> = (0..to.width).map(column).collect();
    let black: [f32; TO] = std::array::from_fn(|channel| number(channel, 0));
    let pixels = picture.as_chunks::<FROM>().0;
    let rows = out
        .as_chunks_mut::<TO>()
        .0
        .chunks_exact_mut(to.width.max(1));
    for (at, out) in rows.take(to.height).enumerate() {
        let Some(row) = place(window.top + at as isize, shape.height, window.border) else {
            out.fill(black);
            continue;
        };
        let line = &pixels[row * shape.width..(row + 1) * shape.width];
        for (out, column) in out.iter_mut().zip(&columns) {
            *out = match column {
                // Grey has one channel for all.
                Some(column) => std::array::from_fn(|channel| {
                    number(channel, line[*column][channel.min(FROM - 1)])
                }),
                None => black,
            };
        }
    }
}

impl Augmentation {
    /// Writes the picture of a row as it is seen in an epoch: [height, width, channels] of `to`. See [`write_plain`] for the rest.
    ///
    /// What is drawn follows from `seed`, `epoch` and `row` alone.
    #[expect(
        clippy::too_many_arguments,
        reason = "they are what a picture and its place in a run are"
    )]
    pub fn write(
        &self,
        picture: &[u8],
        shape: Shape,
        to: Shape,
        mean: &[f32],
        std: &[f32],
        seed: u64,
        epoch: usize,
        row: usize,
        out: &mut [f32],
    ) {
        let draws = |what: u64| drawn(seed, what, epoch as u64, row);
        let is_mirrored = self.is_mirrored(seed, epoch, row);
        let mut scaled = Vec::new();
        let (picture, shape, window) = match self.random_resized_crop {
            Some(area) => {
                let region = part(shape, area, &mut draws(CROP));
                let size = Shape::new(to.height, to.width, shape.channels);
                scaled.resize(size.bytes(), 0);
                resize_into(picture, shape, region, size, Filter::Bilinear, &mut scaled);
                (scaled.as_slice(), size, self.window((0, 0), is_mirrored))
            }
            None => {
                let (picture, shape) = large_enough(picture, shape, to, self.pad, &mut scaled);
                let mut random = draws(CROP);
                let mut offset = |size: usize, to: usize| {
                    random.below(size + 2 * self.pad - to + 1) as isize - self.pad as isize
                };
                let place = (
                    offset(shape.height, to.height),
                    offset(shape.width, to.width),
                );
                (picture, shape, self.window(place, is_mirrored))
            }
        };
        if self.jitter > 0.0 {
            cut(
                picture,
                shape,
                &window,
                to,
                |_, byte| f32::from(byte) / 255.0,
                out,
            );
            jitter(out, to.channels, self.jitter, &mut draws(JITTER));
            for pixel in out.chunks_exact_mut(to.channels) {
                for (channel, value) in pixel.iter_mut().enumerate() {
                    *value = (*value - of(mean, channel, 0.0)) / of(std, channel, 1.0);
                }
            }
        } else {
            let table = Table::new(mean, std);
            let number = |channel: usize, byte: u8| table.0[channel][usize::from(byte)];
            cut(picture, shape, &window, to, number, out);
        }
        if self.cutout > 0 {
            blot(out, to, self.cutout, &mut draws(CUTOUT));
        }
    }

    fn window(&self, (top, left): (isize, isize), is_mirrored: bool) -> Window {
        Window {
            top,
            left,
            is_mirrored,
            border: self.border,
        }
    }

    fn is_mirrored(&self, seed: u64, epoch: usize, row: usize) -> bool {
        let is_one_in_two = |epoch: u64| drawn(seed, FLIP, epoch, row).bits() >> 63 == 1;
        match self.flip {
            Flip::None => false,
            Flip::Random => is_one_in_two(epoch as u64),
            Flip::Alternating => is_one_in_two(ONCE) ^ (epoch % 2 == 1),
        }
    }
}

/// A part of a picture with an area and a ratio of its sides that were drawn. Where ten draws don't fit, the largest in the middle
/// whose ratio does.
fn part(shape: Shape, (least, most): (f64, f64), random: &mut Random) -> Region {
    let (height, width) = (shape.height as f64, shape.width as f64);
    let (narrow, wide) = RATIOS;
    for _ in 0..TRIES {
        let area = height * width * (least + (most - least) * random.uniform());
        let ratio = (narrow.ln() + (wide / narrow).ln() * random.uniform()).exp();
        let columns = (area * ratio).sqrt().round_ties_even() as usize;
        let rows = (area / ratio).sqrt().round_ties_even() as usize;
        if (1..=shape.width).contains(&columns) && (1..=shape.height).contains(&rows) {
            return Region {
                top: random.below(shape.height - rows + 1),
                left: random.below(shape.width - columns + 1),
                height: rows,
                width: columns,
            };
        }
    }
    let (rows, columns) = match width / height {
        it if it < narrow => ((width / narrow).round_ties_even(), width),
        it if it > wide => (height, (height * wide).round_ties_even()),
        _ => (height, width),
    };
    let (rows, columns) = (
        (rows as usize).clamp(1, shape.height),
        (columns as usize).clamp(1, shape.width),
    );
    Region {
        top: (shape.height - rows) / 2,
        left: (shape.width - columns) / 2,
        height: rows,
        width: columns,
    }
}

/// Changes brightness, contrast and saturation of values from 0 to 1, in an order that is drawn.
fn jitter(values: &mut [f32], channels: usize, most: f64, random: &mut Random) {
    let mut order = [0, 1, 2];
    random.shuffle(&mut order);
    let least = (1.0 - most).max(0.0);
    let factors: [f32; 3] =
        std::array::from_fn(|_| (least + (1.0 + most - least) * random.uniform()) as f32);
    let grey = |pixel: &[f32]| match pixel {
        [red, green, blue] => GREY[0] * red + GREY[1] * green + GREY[2] * blue,
        _ => pixel[0],
    };
    for which in order {
        let factor = factors[which];
        let mean = match which {
            // Summed in f64, in order: the same on every machine.
            1 => {
                let pixels = values.chunks_exact(channels);
                let count = pixels.len() as f64;
                (pixels.map(|it| f64::from(grey(it))).sum::<f64>() / count) as f32
            }
            _ => 0.0,
        };
        for pixel in values.chunks_exact_mut(channels) {
            let towards = if which == 2 { grey(pixel) } else { mean };
            for value in pixel {
                *value = (factor * *value + (1.0 - factor) * towards).clamp(0.0, 1.0);
            }
        }
    }
}

/// Makes a square of this side 0, whose middle is anywhere in the picture. What reaches over the edge is cut off.
fn blot(out: &mut [f32], to: Shape, side: usize, random: &mut Random) {
    let mut reach = |count: usize| {
        let start = random.below(count) as isize - (side / 2) as isize;
        let end = (start + side as isize).clamp(0, count as isize) as usize;
        start.max(0) as usize..end
    };
    let (rows, columns) = (reach(to.height), reach(to.width));
    for row in rows {
        let line = row * to.width;
        out[(line + columns.start) * to.channels..(line + columns.end) * to.channels].fill(0.0);
    }
}
