//! Pooling of pictures: the largest number of each window, and the mean of all places.
//!
//! Backward of the first: the gradient goes to the number that was chosen, the first of equal ones, as in PyTorch. What lies
//! outside of the picture is never chosen. Saves which one it was. Of the second: dx = g / (h w) everywhere. Saves nothing.
//!
//! Letters: as in [`super::convolution`].

use candle_core::{DType, Tensor};

use crate::{
    Error, Result,
    ops::{
        convolution::Geometry,
        kernels::{self, Kernel},
        widen,
    },
    profile,
    tape::Value,
};

/// The most places of a window, whose numbers are kept in a byte.
const MAX_PLACES: usize = 256;

/// The largest number of each window of each channel: [n, h, w, c] -> [n, h', w', c].
///
/// Errors: [`Error::Data`] where a window has no place, has more than 256, or lies outside of the picture as a whole.
pub fn max_pool(x: &Value, window: Geometry) -> Result<Value> {
    let _profiled = profile::operation("max pool");
    let tensor = x.tensor().contiguous()?;
    let (pictures, height, width, channels) = tensor.dims4()?;
    let Geometry {
        kernel, padding, ..
    } = window;
    if kernel * kernel > MAX_PLACES || padding >= kernel {
        return Err(Error::Data(format!(
            "a window of {kernel} with padding {padding}, which may have at most {MAX_PLACES} places and less padding than \
             its side"
        )));
    }
    let shape = Windows {
        pictures,
        from: [height, width],
        to: [window.places(height)?, window.places(width)?],
        channels,
        window,
    };
    let (y, chosen) = largest(&tensor, &shape)?;
    Ok(Value::record(y, &[x], move |gradient: Tensor| {
        let dx = largest_back(&gradient.contiguous()?, &chosen, &shape)?;
        Ok(vec![Some(dx)])
    }))
}

/// The mean of all places of each channel: [n, h, w, c] -> [n, c].
pub fn mean_pool(x: &Value) -> Result<Value> {
    let _profiled = profile::operation("mean pool");
    let (pictures, height, width, channels) = x.tensor().dims4()?;
    let dtype = x.tensor().dtype();
    let places = height * width;
    let flat = x.tensor().reshape((pictures, places, channels))?;
    let y = widen(&flat)?.mean(1)?.to_dtype(dtype)?;
    Ok(Value::record(y, &[x], move |gradient: Tensor| {
        let share = widen(&gradient)?.affine(1.0 / places as f64, 0.0)?;
        let share = share.to_dtype(dtype)?.reshape((pictures, 1, 1, channels))?;
        let all = share.broadcast_as((pictures, height, width, channels))?;
        Ok(vec![Some(all.contiguous()?)])
    }))
}

/// The sizes of pooling.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Windows {
    pub(crate) pictures: usize,
    /// h and w.
    pub(crate) from: [usize; 2],
    /// h' and w'.
    pub(crate) to: [usize; 2],
    pub(crate) channels: usize,
    pub(crate) window: Geometry,
}

impl Windows {
    /// n, h, w and c.
    pub(crate) fn of_input(&self) -> [usize; 4] {
        let [height, width] = self.from;
        [self.pictures, height, width, self.channels]
    }

    /// n, h', w' and c.
    pub(crate) fn of_output(&self) -> [usize; 4] {
        let [down, across] = self.to;
        [self.pictures, down, across, self.channels]
    }

    /// The places of a window: for each, its row and its column in each window, in the picture with its padding.
    fn taps(&self, x: &Tensor) -> Result<Vec<[Tensor; 2]>> {
        let tap = |side: usize, tap: usize| {
            let at = (0..self.to[side]).map(|place| (place * self.window.stride + tap) as u32);
            Tensor::from_vec(at.collect::<Vec<_>>(), self.to[side], x.device())
        };
        let mut taps = Vec::new();
        for r in 0..self.window.kernel {
            for t in 0..self.window.kernel {
                taps.push([tap(0, r)?, tap(1, t)?]);
            }
        }
        Ok(taps)
    }
}

/// The largest numbers, and the tap of the window where each was: [n, h', w', c], the latter u8, or u32 on Metal.
fn largest(x: &Tensor, shape: &Windows) -> Result<(Tensor, Tensor)> {
    if kernels::metal::serves(Kernel::Pool, &[x]) {
        return kernels::metal::pool::largest(x, shape);
    }
    if kernels::cpu::serves(Kernel::Pool, &[x]) {
        return kernels::cpu::pool::largest(x, shape);
    }
    #[cfg(feature = "cuda")]
    if kernels::cuda::pool::serves(x)? {
        return kernels::cuda::pool::largest(x, shape);
    }
    let padding = shape.window.padding;
    // As low as its numbers go, and finite.
    let outside = if x.dtype() == DType::F16 { -6e4 } else { -3e38 };
    // Zeros around, and the lowest number where they are.
    let mask = Tensor::ones((1, shape.from[0], shape.from[1], 1), x.dtype(), x.device())?;
    let padded = |x: &Tensor| -> Result<Tensor> {
        let x = x.pad_with_zeros(1, padding, padding)?;
        Ok(x.pad_with_zeros(2, padding, padding)?)
    };
    let low = padded(&mask)?.affine(-outside, outside)?;
    let x = padded(x)?.broadcast_add(&low)?;
    let mut best: Option<(Tensor, Tensor)> = None;
    for (tap, [down, across]) in shape.taps(&x)?.iter().enumerate() {
        let here = x.index_select(down, 1)?.index_select(across, 2)?;
        let number = Tensor::full(tap as u8, here.shape(), here.device())?;
        best = Some(match best {
            None => (here, number),
            Some((most, chosen)) => {
                let larger = here.gt(&most)?;
                let chosen = larger.where_cond(&number, &chosen)?;
                (larger.where_cond(&here, &most)?, chosen)
            }
        });
    }
    best.ok_or_else(|| Error::Data("a window without places".to_owned()))
}

/// The gradient of x [n, h, w, c] from g [n, h', w', c].
fn largest_back(gradient: &Tensor, chosen: &Tensor, shape: &Windows) -> Result<Tensor> {
    if kernels::metal::serves(Kernel::Pool, &[gradient]) {
        return kernels::metal::pool::largest_back(gradient, chosen, shape);
    }
    if kernels::cpu::serves(Kernel::Pool, &[gradient]) {
        return kernels::cpu::pool::largest_back(gradient, chosen, shape);
    }
    #[cfg(feature = "cuda")]
    if kernels::cuda::pool::serves(gradient)? {
        return kernels::cuda::pool::largest_back(gradient, chosen, shape);
    }
    let padding = shape.window.padding;
    let [height, width] = shape.from.map(|side| side + 2 * padding);
    let (dtype, device) = (gradient.dtype(), gradient.device());
    let mut sum = Tensor::zeros(
        (shape.pictures, height, width, shape.channels),
        dtype,
        device,
    )?;
    for (tap, [down, across]) in shape.taps(gradient)?.iter().enumerate() {
        let part = (chosen.eq(tap as u8)?.to_dtype(dtype)? * gradient)?;
        let rows = Tensor::zeros(
            (shape.pictures, shape.to[0], width, shape.channels),
            dtype,
            device,
        )?;
        sum = sum.index_add(down, &rows.index_add(across, &part, 2)?, 1)?;
    }
    let inner = sum.narrow(1, padding, shape.from[0])?;
    Ok(inner.narrow(2, padding, shape.from[1])?.contiguous()?)
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;
    use crate::{
        ops::testing::{check_gradients, check_kernel, normal},
        tape::{Gradients, Tape},
    };

    fn window(kernel: usize, stride: usize, padding: usize) -> Geometry {
        Geometry {
            kernel,
            stride,
            padding,
        }
    }

    const WINDOWS: [[usize; 3]; 5] = [[2, 2, 0], [3, 2, 1], [3, 1, 1], [3, 3, 0], [3, 2, 0]];

    #[test]
    fn gradients_match_finite_differences() {
        let inputs = [normal(1, &[2, 6, 5, 3])];
        for [kernel, stride, padding] in WINDOWS {
            check_gradients(&inputs, |_, v| {
                max_pool(&v[0], window(kernel, stride, padding))
            });
        }
        check_gradients(&inputs, |_, v| mean_pool(&v[0]));
    }

    #[test]
    fn the_kernels_for_the_cpu_equal_the_composition() {
        for [kernel, stride, padding] in WINDOWS {
            for shape in [[3, 7, 9, 5], [4, 32, 32, 24]] {
                let window = window(kernel, stride, padding);
                check_kernel(&[normal(1, &shape)], 1e-6, |v| max_pool(&v[0], window));
            }
        }
    }

    #[test]
    fn of_equal_numbers_the_first_gets_the_gradient() {
        for wide in [true, false] {
            let numbers = [1f32, 2.0, 2.0, 2.0, -1.0, -1.0, -1.0, -1.0];
            let x = Tensor::new(&numbers, &Device::Cpu).unwrap();
            let x = x.reshape((2, 2, 2, 1)).unwrap();
            let dtype = if wide { DType::F64 } else { DType::F32 };
            let tape = Tape::new(1);
            let x = tape.input(x.to_dtype(dtype).unwrap());
            let y = max_pool(&x, window(2, 2, 0)).unwrap();
            let seed = y.tensor().ones_like().unwrap();
            let gradients = tape.backward_to(&y, seed, &[&x], &mut Gradients::default());
            let gradient = gradients.unwrap().remove(0).unwrap();
            let gradient = gradient.flatten_all().unwrap().to_dtype(DType::F32);
            let expected = [0f32, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0];
            assert_eq!(gradient.unwrap().to_vec1::<f32>().unwrap(), expected);
        }
    }

    #[test]
    fn a_window_that_could_lie_outside_is_refused() {
        let x = Value::constant(normal(1, &[1, 4, 4, 1]));
        let said = max_pool(&x, window(2, 2, 2)).err().unwrap().to_string();
        assert!(said.starts_with("a window of 2 with padding 2"), "{said}");
    }
}
