//! What the kernels for pictures share: their code and their sizes.

use super::{
    PictureShape,
    code::{Code, compiled},
};
use crate::ops::{convolution::Shape, pool::Windows};

pub(super) const PICTURES: Code = compiled!("pictures");

impl From<&Shape> for PictureShape {
    fn from(shape: &Shape) -> Self {
        let sizes = [
            shape.pictures,
            shape.from[0],
            shape.from[1],
            shape.to[0],
            shape.to[1],
            shape.channels[0],
            shape.channels[1],
            shape.geometry.kernel,
            shape.geometry.stride,
            shape.geometry.padding,
        ];
        Self(sizes.map(|it| it as i32))
    }
}

impl From<&Windows> for PictureShape {
    fn from(windows: &Windows) -> Self {
        Self::from(&Shape {
            pictures: windows.pictures,
            from: windows.from,
            to: windows.to,
            channels: [windows.channels; 2],
            geometry: windows.window,
        })
    }
}
