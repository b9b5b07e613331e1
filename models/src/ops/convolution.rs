//! Convolution of pictures: y[n, i, j, o] = Σ W[o, c, r, t] x[n, i s + r - p, j s + t - p, c] + e[o].
//!
//! Backward: dW[o, c, r, t] = Σ g[n, i, j, o] x[n, i s + r - p, j s + t - p, c], de = Σ g, and dx takes each g back to where it
//! came from. Saves x when dW is wanted.
//!
//! Letters: n pictures, h and w height and width, c channels in, o channels out, k side of the kernel, s stride, p padding,
//! h' = (h + 2 p - k) / s + 1 and w' alike. Pictures are [n, h, w, c] in memory, so that the channels of a place lie side by
//! side; weights are [o, c, k, k], as in the files of PyTorch.
//!
//! Deliberately absent: groups and dilation, which no architecture here has, and candle's own convolution, whose gradients are
//! slow everywhere and wrong on Metal.

use candle_core::{D, DType, Tensor};

use crate::{
    Error, Result,
    ops::{
        as_rows,
        kernels::{self, Kernel},
        linear::{Term, project, project_back, sum_rows, weight_gradient},
        pool::Windows,
        widen,
    },
    profile,
    tape::Value,
};

/// How a kernel moves over a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Geometry {
    /// The side of the kernel.
    pub kernel: usize,
    /// How far it moves from place to place.
    pub stride: usize,
    /// Zeros around the picture.
    pub padding: usize,
}

impl Geometry {
    /// A kernel that leaves height and width as they are.
    pub const fn same(kernel: usize) -> Self {
        Self {
            kernel,
            stride: 1,
            padding: kernel / 2,
        }
    }

    /// The places along a side of so many pixels: h' of h.
    ///
    /// Errors: [`Error::Data`] where the kernel finds no place.
    pub fn places(self, side: usize) -> Result<usize> {
        let Self {
            kernel,
            stride,
            padding,
        } = self;
        match (side + 2 * padding).checked_sub(kernel) {
            Some(moves) if stride > 0 && kernel > 0 => Ok(moves / stride + 1),
            _ => Err(Error::Data(format!(
                "a kernel of {kernel} with stride {stride} and padding {padding} has no place in a picture of {side} pixels"
            ))),
        }
    }
}

/// x [n, h, w, c], W `weight` [o, c, k, k], e `bias` [o] -> [n, h', w', o].
///
/// The weight may be kept in another dtype than x; it is converted for the products, and its gradient comes back in its own.
pub fn convolution(
    x: &Value,
    weight: &Value,
    bias: Option<&Value>,
    geometry: Geometry,
) -> Result<Value> {
    let _profiled = profile::operation("convolution");
    let tensor = x.tensor().contiguous()?;
    let shape = Shape::of(&tensor, weight.tensor(), geometry)?;
    let numbers = weight.tensor().to_dtype(tensor.dtype())?.contiguous()?;
    let y = forward(&tensor, &numbers, bias.map(Value::tensor), &shape)?;

    let wants_x = x.wants_gradient();
    let saved_x = weight
        .wants_gradient()
        .then(|| (tensor, weight.tensor().dtype()));
    let bias_dtype = bias
        .filter(|bias| bias.wants_gradient())
        .map(|bias| bias.tensor().dtype());
    let backward = move |gradient: Tensor| {
        let gradient = gradient.contiguous()?;
        let dx = match wants_x {
            true => Some(to_picture(&gradient, &numbers, &shape)?),
            false => None,
        };
        let dw = match saved_x {
            Some((x, dtype)) => Some(to_weight(&gradient, &x, &shape)?.to_dtype(dtype)?),
            None => None,
        };
        let de = match bias_dtype {
            Some(dtype) => Some(sum_rows(&as_rows(&gradient)?)?.to_dtype(dtype)?),
            None => None,
        };
        Ok(vec![dx, dw, de])
    };
    let mut inputs = vec![x, weight];
    inputs.extend(bias);
    Ok(Value::record(y, &inputs, backward))
}

/// The sizes of one convolution, by the letters of this file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    pub(crate) pictures: usize,
    /// h and w.
    pub(crate) from: [usize; 2],
    /// h' and w'.
    pub(crate) to: [usize; 2],
    /// c and o.
    pub(crate) channels: [usize; 2],
    pub(crate) geometry: Geometry,
}

impl Shape {
    fn of(x: &Tensor, weight: &Tensor, geometry: Geometry) -> Result<Self> {
        let (pictures, height, width, channels) = x.dims4()?;
        let (out, of_weight, k, k_across) = weight.dims4()?;
        if (of_weight, k, k_across) != (channels, geometry.kernel, geometry.kernel) {
            return Err(Error::Data(format!(
                "a convolution of pictures {:?} with weights {:?} and {geometry:?}",
                x.dims(),
                weight.dims()
            )));
        }
        Ok(Self {
            pictures,
            from: [height, width],
            to: [geometry.places(height)?, geometry.places(width)?],
            channels: [channels, out],
            geometry,
        })
    }

    /// h' w'.
    pub(crate) fn places(&self) -> usize {
        self.to[0] * self.to[1]
    }

    /// k k c: what one number of the output is computed from.
    pub(crate) fn depth(&self) -> usize {
        self.geometry.kernel * self.geometry.kernel * self.channels[0]
    }

    /// Whether each place is computed from itself alone, so that the picture is the matrix.
    pub(crate) fn is_linear(&self) -> bool {
        let one = Geometry {
            kernel: 1,
            stride: 1,
            padding: 0,
        };
        self.geometry == one
    }

    /// The same sizes as windows that move over the picture.
    pub(crate) fn windows(&self) -> Windows {
        Windows {
            pictures: self.pictures,
            from: self.from,
            to: self.to,
            channels: self.channels[0],
            window: self.geometry,
        }
    }

    /// The first picture of each part, and its sizes: as many pictures as have patches of some 256 MiB, with so many numbers of this
    /// dtype in a patch.
    pub(crate) fn parts(
        &self,
        columns: usize,
        dtype: DType,
    ) -> impl Iterator<Item = (usize, Self)> + use<> {
        const BYTES: usize = 256 << 20;
        let of_picture = self.places() * columns * dtype.size_in_bytes();
        let (whole, at_once) = (*self, (BYTES / of_picture.max(1)).max(1));
        (0..self.pictures).step_by(at_once).map(move |first| {
            let pictures = at_once.min(whole.pictures - first);
            (first, Self { pictures, ..whole })
        })
    }

    pub(crate) fn of_output(&self) -> [usize; 4] {
        [self.pictures, self.to[0], self.to[1], self.channels[1]]
    }

    /// For each tap of the kernel along a side, where it stands in the padded picture.
    fn taps(&self, side: usize, x: &Tensor) -> Result<Vec<Tensor>> {
        let tap = |tap: usize| {
            let at = (0..self.to[side]).map(|place| (place * self.geometry.stride + tap) as u32);
            Tensor::from_vec(at.collect::<Vec<_>>(), self.to[side], x.device())
        };
        Ok((0..self.geometry.kernel)
            .map(tap)
            .collect::<Result<_, _>>()?)
    }
}

/// Whether kernels of the processor serve these: those for Metal begin with patches, as the composition does.
fn is_on_cpu(tensors: &[&Tensor]) -> bool {
    const KERNEL: Kernel = Kernel::Convolution;
    !kernels::metal::serves(KERNEL, tensors) && kernels::cpu::serves(KERNEL, tensors)
}

/// x [n, h, w, c], W [o, c, k, k] in the dtype of x, e [o] -> [n, h', w', o].
fn forward(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>, shape: &Shape) -> Result<Tensor> {
    if is_on_cpu(&[x, weight]) {
        return kernels::cpu::convolution::forward(x, weight, bias, shape);
    }
    #[cfg(feature = "cuda")]
    if kernels::cuda::serves(Kernel::Convolution, &[x, weight]) {
        return kernels::cuda::convolution::forward(x, weight, bias, shape);
    }
    let matrix = as_matrix(weight)?;
    let parts = shape.parts(shape.depth(), x.dtype());
    let outputs = parts.map(|(first, shape)| {
        let patches = patches(&x.narrow(0, first, shape.pictures)?, &shape)?;
        project(Kernel::Convolution, &[Term::new(&patches, &matrix)], bias)
    });
    Ok(joined(outputs)?.reshape(&shape.of_output())?)
}

/// The gradient of x [n, h, w, c] from g [n, h', w', o].
fn to_picture(gradient: &Tensor, weight: &Tensor, shape: &Shape) -> Result<Tensor> {
    if is_on_cpu(&[gradient, weight]) {
        return kernels::cpu::convolution::to_picture(gradient, weight, shape);
    }
    #[cfg(feature = "cuda")]
    if kernels::cuda::serves(Kernel::Convolution, &[gradient, weight]) {
        return kernels::cuda::convolution::to_picture(gradient, weight, shape);
    }
    let matrix = as_matrix(weight)?;
    let parts = shape.parts(shape.depth(), gradient.dtype());
    joined(parts.map(|(first, shape)| {
        let rows = as_rows(&gradient.narrow(0, first, shape.pictures)?)?;
        let patches = project_back(Kernel::Convolution, &[Term::new(&rows, &matrix)])?;
        patches_back(&patches, &shape)
    }))
}

/// The gradient of x [n, h, w, c] from that of its patches [n h' w', k k c].
fn patches_back(patches: &Tensor, shape: &Shape) -> Result<Tensor> {
    if shape.is_linear() {
        let [height, width] = shape.from;
        return Ok(patches.reshape((shape.pictures, height, width, shape.channels[0]))?);
    }
    if kernels::metal::serves(Kernel::Convolution, &[patches]) {
        return kernels::metal::convolution::patches_back(patches, shape);
    }
    let [height, width] = shape.from.map(|side| side + 2 * shape.geometry.padding);
    let [channels, _] = shape.channels;
    let (pictures, dtype, device) = (shape.pictures, patches.dtype(), patches.device());
    let patches = patches.reshape((pictures, shape.to[0], shape.to[1], shape.depth()))?;
    let mut sum = Tensor::zeros((pictures, height, width, channels), dtype, device)?;
    let (down, across) = (shape.taps(0, &patches)?, shape.taps(1, &patches)?);
    for (r, down) in down.iter().enumerate() {
        let mut rows = Tensor::zeros((pictures, shape.to[0], width, channels), dtype, device)?;
        for (t, across) in across.iter().enumerate() {
            let first = (r * shape.geometry.kernel + t) * channels;
            let tap = patches.narrow(D::Minus1, first, channels)?.contiguous()?;
            rows = rows.index_add(across, &tap, 2)?;
        }
        sum = sum.index_add(down, &rows, 1)?;
    }
    let padding = shape.geometry.padding;
    let inner = sum.narrow(1, padding, shape.from[0])?;
    Ok(inner.narrow(2, padding, shape.from[1])?.contiguous()?)
}

/// The gradient of W [o, c, k, k] from g [n, h', w', o] and x [n, h, w, c].
fn to_weight(gradient: &Tensor, x: &Tensor, shape: &Shape) -> Result<Tensor> {
    if is_on_cpu(&[gradient, x]) {
        return kernels::cpu::convolution::to_weight(gradient, x, shape);
    }
    #[cfg(feature = "cuda")]
    if kernels::cuda::serves(Kernel::Convolution, &[gradient, x]) {
        return kernels::cuda::convolution::to_weight(gradient, x, shape);
    }
    let mut sum = None;
    for (first, shape) in shape.parts(shape.depth(), x.dtype()) {
        let of_part = |it: &Tensor| it.narrow(0, first, shape.pictures);
        let (rows, patches) = (
            as_rows(&of_part(gradient)?)?,
            patches(&of_part(x)?, &shape)?,
        );
        let dw = weight_gradient(Kernel::Convolution, &rows, &patches, 1.0)?;
        sum = Some(match sum {
            Some(sum) => (widen(&sum)? + widen(&dw)?)?,
            None => dw,
        });
    }
    let dw = sum.ok_or_else(no_pictures)?;
    let k = shape.geometry.kernel;
    let dw = dw.reshape((shape.channels[1], k, k, shape.channels[0]))?;
    Ok(dw.permute((0, 3, 1, 2))?.contiguous()?)
}

/// What each number of the output is computed from: x [n, h, w, c] -> [n h' w', k k c].
fn patches(x: &Tensor, shape: &Shape) -> Result<Tensor> {
    if shape.is_linear() {
        return as_rows(x);
    }
    if kernels::metal::serves(Kernel::Convolution, &[x]) {
        return kernels::metal::convolution::patches(x, shape);
    }
    let padding = shape.geometry.padding;
    let padded = x.pad_with_zeros(1, padding, padding)?;
    let padded = padded.pad_with_zeros(2, padding, padding)?;
    let mut taps = Vec::new();
    for down in shape.taps(0, x)? {
        let rows = padded.index_select(&down, 1)?;
        for across in shape.taps(1, x)? {
            taps.push(rows.index_select(&across, 2)?);
        }
    }
    as_rows(&Tensor::cat(&taps, D::Minus1)?)
}

/// What came of the parts, below each other.
fn joined(parts: impl Iterator<Item = Result<Tensor>>) -> Result<Tensor> {
    let parts: Vec<Tensor> = parts.collect::<Result<_>>()?;
    match parts.as_slice() {
        [] => Err(no_pictures()),
        [whole] => Ok(whole.clone()),
        several => Ok(Tensor::cat(several, 0)?),
    }
}

fn no_pictures() -> Error {
    Error::Data("a convolution of no pictures".to_owned())
}

/// W [o, c, k, k] -> [o, k k c].
fn as_matrix(weight: &Tensor) -> Result<Tensor> {
    Ok(weight
        .permute((0, 2, 3, 1))?
        .contiguous()?
        .flatten_from(1)?)
}

#[cfg(test)]
mod tests {
    use candle_core::DType;

    use super::*;
    use crate::ops::testing::{check_close, check_gradients, check_kernel, normal};

    fn geometry(kernel: usize, stride: usize, padding: usize) -> Geometry {
        Geometry {
            kernel,
            stride,
            padding,
        }
    }

    fn whole(v: &[Value], geometry: Geometry) -> Result<Value> {
        convolution(&v[0], &v[1], v.get(2), geometry)
    }

    #[test]
    fn gradients_match_finite_differences() {
        for (kernel, stride, padding) in [
            (1, 1, 0),
            (1, 2, 0),
            (2, 1, 0),
            (3, 1, 1),
            (3, 2, 1),
            (5, 2, 2),
            (7, 2, 3),
        ] {
            let inputs = [
                normal(1, &[2, 5, 7, 2]),
                normal(2, &[3, 2, kernel, kernel]),
                normal(3, &[3]),
            ];
            let geometry = geometry(kernel, stride, padding);
            check_gradients(&inputs, |_, v| whole(v, geometry));
        }
    }

    #[test]
    fn the_kernels_for_the_cpu_equal_the_composition() {
        for (kernel, stride, padding) in [
            (1, 1, 0),
            (1, 2, 0),
            (2, 1, 0),
            (3, 1, 0),
            (3, 1, 1),
            (3, 1, 2),
            (3, 2, 1),
            (5, 1, 2),
            (7, 2, 3),
        ] {
            for (pictures, [height, width], [c, o]) in [
                (1, [7, 9], [1, 1]),
                (3, [8, 8], [3, 24]),
                (2, [9, 12], [33, 17]),
                (5, [14, 13], [16, 64]),
            ] {
                let inputs = [
                    normal(1, &[pictures, height, width, c]),
                    normal(2, &[o, c, kernel, kernel]),
                    normal(3, &[o]),
                ];
                let geometry = geometry(kernel, stride, padding);
                check_kernel(&inputs, 2e-5, |v| whole(v, geometry));
                check_kernel(&inputs[..2], 2e-5, |v| whole(v, geometry));
            }
        }
        let wide = [normal(1, &[4, 4, 4, 512]), normal(2, &[512, 512, 3, 3])];
        check_kernel(&wide, 2e-5, |v| whole(v, Geometry::same(3)));
    }

    #[test]
    fn it_is_what_candle_computes_forward() {
        let (x, weight) = (normal(1, &[2, 9, 8, 3]), normal(2, &[5, 3, 3, 3]));
        for (stride, padding) in [(1, 1), (2, 1), (2, 0)] {
            let turned = x.permute((0, 3, 1, 2)).unwrap().contiguous().unwrap();
            let expected = turned.conv2d(&weight, padding, stride, 1, 1).unwrap();
            let expected = expected.permute((0, 2, 3, 1)).unwrap();
            let inputs = [x.clone(), weight.clone()].map(Value::constant);
            let y = whole(&inputs, geometry(3, stride, padding)).unwrap();
            check_close("forward", y.tensor(), &expected, 1e-12);
        }
    }

    #[test]
    fn a_frozen_weight_and_a_first_layer_get_no_gradient() {
        let x = Value::constant(normal(1, &[1, 4, 4, 2]).to_dtype(DType::F32).unwrap());
        let weight = Value::constant(normal(2, &[3, 2, 3, 3]));
        let y = whole(&[x, weight], Geometry::same(3)).unwrap();
        assert!(!y.wants_gradient());
        assert_eq!(y.tensor().dims(), [1, 4, 4, 3]);
    }

    #[test]
    fn a_kernel_that_is_too_large_is_refused() {
        let x = Value::constant(normal(1, &[1, 4, 4, 2]));
        let weight = Value::constant(normal(2, &[3, 2, 7, 7]));
        let said = whole(&[x, weight], geometry(7, 1, 0)).err().unwrap();
        assert_eq!(
            said.to_string(),
            "a kernel of 7 with stride 1 and padding 0 has no place in a picture of 4 pixels"
        );
    }
}
