//! Convolution in f32: kernels of three that move by one as Winograd has them, all others as products of patches.
//!
//! Work is cut by shapes only, and parts of a sum are added in their order, so that results don't depend on the threads.

mod patches;
mod winograd;

use candle_core::Tensor;

use crate::{
    Result,
    ops::{
        convolution::{Geometry, Shape},
        kernels::cpu::{Numbers, filled, tensor},
    },
};

/// Channels on either side below which the transformations take longer than the products that they save.
const WORTH_WINOGRAD: usize = 16;

/// See [`crate::ops::convolution`]: x [n, h, w, c], W [o, c, k, k], e [o] -> [n, h', w', o].
pub(crate) fn forward(
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    shape: &Shape,
) -> Result<Tensor> {
    let (x, weight) = (Numbers::<f32>::of(x)?, Numbers::<f32>::of(weight)?);
    let bias = bias.map(|it| it.to_dtype(candle_core::DType::F32)?.to_vec1::<f32>());
    let bias = bias.transpose()?;
    let [height, width] = shape.to;
    let y = filled(
        shape.pictures * shape.places() * shape.channels[1],
        |y| match suits_winograd(shape) {
            true => {
                let weight = winograd::Transformed::of(&weight, shape.channels, false);
                winograd::forward(y, &x, &weight, bias.as_deref(), shape);
            }
            false => patches::forward(y, &x, &weight, bias.as_deref(), shape),
        },
    );
    tensor(y, (shape.pictures, height, width, shape.channels[1]))
}

/// The gradient of x [n, h, w, c] from g [n, h', w', o].
pub(crate) fn to_picture(gradient: &Tensor, weight: &Tensor, shape: &Shape) -> Result<Tensor> {
    let (gradient, weight) = (Numbers::<f32>::of(gradient)?, Numbers::<f32>::of(weight)?);
    let [height, width] = shape.from;
    let [channels, out] = shape.channels;
    let dx = filled(shape.pictures * height * width * channels, |dx| {
        if suits_winograd(shape) {
            // Each pixel gets back what it gave: the kernel turned by half, over the gradients.
            let weight = winograd::Transformed::of(&weight, shape.channels, true);
            let back = Shape {
                from: shape.to,
                to: shape.from,
                channels: [out, channels],
                geometry: Geometry {
                    padding: 2 - shape.geometry.padding,
                    ..shape.geometry
                },
                ..*shape
            };
            winograd::forward(dx, &gradient, &weight, None, &back);
        } else {
            patches::to_picture(dx, &gradient, &weight, shape);
        }
    });
    tensor(dx, (shape.pictures, height, width, channels))
}

/// The gradient of W [o, c, k, k] from g [n, h', w', o] and x [n, h, w, c].
pub(crate) fn to_weight(gradient: &Tensor, x: &Tensor, shape: &Shape) -> Result<Tensor> {
    let (gradient, x) = (Numbers::<f32>::of(gradient)?, Numbers::<f32>::of(x)?);
    let dw = match suits_winograd(shape) {
        true => winograd::to_weight(&gradient, &x, shape),
        false => patches::to_weight(&gradient, &x, shape),
    };
    let k = shape.geometry.kernel;
    tensor(dw, (shape.channels[1], shape.channels[0], k, k))
}

fn suits_winograd(shape: &Shape) -> bool {
    let Geometry {
        kernel,
        stride,
        padding,
    } = shape.geometry;
    let narrowest = shape.channels[0].min(shape.channels[1]);
    (kernel, stride) == (3, 1) && padding <= 2 && narrowest >= WORTH_WINOGRAD
}
