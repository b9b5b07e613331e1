//! What a picture is: rows of pixels of a byte for each channel.
//!
//! Deliberately absent: how pictures come from files ([`super::decode`]), and other numbers than bytes ([`super::augment`]).

use serde::{Deserialize, Serialize};

use super::resize::{Filter, resize};
use crate::{random::stable_hash, train::exhibit::packed};

/// Pillow's weights of red, green and blue in grey, of 65,536 (ITU-R 601-2).
const GREY: [u32; 3] = [19_595, 38_470, 7_471];

/// The size of a picture, in the order in which its bytes lie: [height, width, channels].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Shape {
    /// Rows.
    pub height: usize,
    /// Pixels of a row.
    pub width: usize,
    /// Bytes of a pixel: 1 for grey, 3 for red, green and blue.
    pub channels: usize,
}

impl Shape {
    /// A picture of so many rows, columns and channels.
    pub const fn new(height: usize, width: usize, channels: usize) -> Self {
        Self {
            height,
            width,
            channels,
        }
    }

    /// A square one.
    pub const fn square(side: usize, channels: usize) -> Self {
        Self::new(side, side, channels)
    }

    /// How many bytes it has.
    pub const fn bytes(&self) -> usize {
        self.height * self.width * self.channels
    }

    /// As a person reads it: `28 x 28, grey`.
    pub fn title(&self) -> String {
        let kind = if self.channels == 1 { "grey" } else { "colour" };
        format!("{} x {}, {kind}", self.width, self.height)
    }
}

/// A decoded picture: one byte for each channel of each pixel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    /// Its size.
    pub shape: Shape,
    /// Its bytes, [height, width, channels].
    #[serde(with = "packed")]
    pub pixels: Vec<u8>,
}

impl Picture {
    /// The same with so many channels: grey in all three, or what is bright of three as Pillow's `convert("L")` has it.
    pub fn with_channels(self, channels: usize) -> Self {
        let pixels = match (self.shape.channels, channels) {
            (1, 3) => self.pixels.iter().flat_map(|grey| [*grey; 3]).collect(),
            (3, 1) => self.pixels.as_chunks().0.iter().map(grey).collect(),
            _ => return self,
        };
        let shape = Shape {
            channels,
            ..self.shape
        };
        Self { shape, pixels }
    }

    /// The same, scaled down so that its longer side has at most so many pixels.
    pub fn at_most(self, side: usize) -> Self {
        let Shape { height, width, .. } = self.shape;
        let longest = height.max(width);
        if longest <= side {
            return self;
        }
        let scaled = |it: usize| (it * side / longest).max(1);
        resize(&self, scaled(height), scaled(width), Filter::Bilinear)
    }

    /// Red, green and blue of each pixel, row by row.
    pub fn colours(self) -> Vec<u8> {
        self.with_channels(3).pixels
    }

    /// What is the same for equal pictures: see [`identity`].
    pub fn identity(&self) -> u64 {
        identity(&self.pixels, self.shape)
    }
}

/// How bright a pixel is.
pub fn grey(pixel: &[u8; 3]) -> u8 {
    let weighed = pixel.iter().zip(GREY).map(|(it, by)| u32::from(*it) * by);
    ((weighed.sum::<u32>() + 0x8000) >> 16) as u8
}

/// What is the same for equal pictures, whatever file they come from. A picture in colour that shows grey alone is the grey one.
pub fn identity(pixels: &[u8], shape: Shape) -> u64 {
    let size = (shape.height as u64) << 32 | shape.width as u64;
    if shape.channels == 3 {
        let colours = pixels.as_chunks::<3>().0;
        if colours.iter().all(|[r, g, b]| r == g && g == b) {
            let greys: Vec<u8> = colours.iter().map(|it| it[0]).collect();
            return stable_hash(size, &greys);
        }
    }
    stable_hash(size, pixels)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn colours(pixels: &[[u8; 3]]) -> Picture {
        Picture {
            shape: Shape::new(1, pixels.len(), 3),
            pixels: pixels.concat(),
        }
    }

    #[test]
    fn channels_become_what_pillow_makes_of_them() {
        let picture = colours(&[[255, 0, 0], [0, 255, 0], [0, 0, 255], [10, 20, 30]]);
        // `Image.convert("L")` of Pillow 13.0.0.
        assert_eq!(picture.with_channels(1).pixels, [76, 150, 29, 18]);
        let grey = Picture {
            shape: Shape::new(1, 2, 1),
            pixels: vec![3, 9],
        };
        assert_eq!(grey.with_channels(3).pixels, [3, 3, 3, 9, 9, 9]);
    }

    #[test]
    fn equal_pictures_are_known_as_equal_and_others_as_others() {
        let grey = colours(&[[5; 3], [7; 3]]);
        assert_eq!(grey.identity(), grey.clone().with_channels(1).identity());
        assert_ne!(grey.identity(), colours(&[[7; 3], [5; 3]]).identity());
        assert_ne!(
            identity(&[1; 12], Shape::new(3, 4, 1)),
            identity(&[1; 12], Shape::new(4, 3, 1))
        );
    }
}
