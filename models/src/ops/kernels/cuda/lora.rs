//! Linear layers of one input with their adapters, in few launches: thin products of all of them are one launch (`thin`), and products
//! add to each other in place.
//!
//! With A of all layers below each other, z = x Aᵀ is one thin product, of which each layer has its columns, and so are
//! dA = dzᵀ x and the adapters' share of dx. A and Bᵀ are converted to the dtype of x once, forward, in one launch. With dropout, which
//! is the same for all of them, they see what it leaves of x; that is found again on the way back.

use std::iter;

use candle_core::{DType, Tensor};

use crate::{
    Result,
    ops::{
        as_rows,
        dropout::{Dropout, left_of},
        kernels::{
            Kernel,
            cuda::{
                broken,
                linear::{plain, product, transposed, with_bias},
                output, serves as serves_tensors, side,
                thin::{self, Gradient, Thin},
            },
        },
        linear::one_below_the_other,
        lora::{AdaptedLinear, go_together},
        rows_like,
        weight::Matrix,
    },
    tape::Value,
};

/// Whether these layers are computed here: by weights that are numbers, and with one dropout for all of them, or none.
pub(crate) fn serves(x: &Value, layers: &[AdaptedLinear]) -> bool {
    let is_served = |layer: &AdaptedLinear| {
        let adapter = &layer.adapter;
        let parts = [adapter.a.tensor(), adapter.b.tensor()];
        matches!(layer.weight.matrix(), Matrix::Dense(_))
            && parts
                .iter()
                .all(|it| it.dtype() == DType::F32 && it.device().is_cuda() && it.is_contiguous())
            && layer
                .bias
                .as_ref()
                .is_none_or(|bias| !bias.wants_gradient())
            && !layer.weight.values().iter().any(Value::wants_gradient)
    };
    go_together(x, layers)
        && serves_tensors(Kernel::Lora, &[x.tensor()])
        && matches!(x.tensor().dtype(), DType::BF16 | DType::F16)
        && layers.iter().all(is_served)
}

/// Layers of one input, as their products need them. n: rows, i: numbers that go in, R: all ranks, each made a multiple of eight.
struct Group {
    /// x [n, i].
    rows: Tensor,
    /// A of all layers [R, i], in the dtype of x.
    a: Tensor,
    /// z [n, R].
    z: Tensor,
    layers: Vec<Layer>,
    dropout: Option<Dropout>,
}

/// One of them. o: numbers that come out, r: its rank.
struct Layer {
    /// W [o, i].
    weight: Tensor,
    /// Bᵀ, with rows of zeros below, in the dtype of x.
    b: Tensor,
    /// Its columns of z begin here.
    start: usize,
    /// r.
    rank: usize,
    scale: f64,
}

/// See [`linears_with_adapters`](crate::ops::lora::linears_with_adapters).
pub(crate) fn linears_with_adapters(x: &Value, layers: &[AdaptedLinear]) -> Result<Vec<Value>> {
    let group = Group::new(x, layers)?;
    let mut outputs = group.forward()?;
    for (y, given) in outputs.iter_mut().zip(layers) {
        let bias = given.bias.as_ref().map(Value::tensor);
        *y = rows_like(&with_bias(y.clone(), bias)?, x.tensor())?;
    }

    let (like, wants_x) = (x.tensor().clone(), x.wants_gradient());
    let back = move |gradients: Vec<Tensor>| {
        let rows = gradients.iter().map(|it| Ok(as_rows(it)?.contiguous()?));
        let rows: Vec<Tensor> = rows.collect::<Result<_>>()?;
        drop(gradients);
        let weights = rows.iter().zip(group.layers.iter().map(|it| &it.weight));
        let through_weights = wants_x.then(|| group.through(weights)).transpose()?;
        group.back(&rows, through_weights, &like)
    };
    Ok(Value::record_together(outputs, &inputs(x, layers), back))
}

/// See [`joined_linears_with_adapters`](crate::ops::lora::joined_linears_with_adapters).
pub(crate) fn joined_linears_with_adapters(
    x: &Value,
    layers: &[AdaptedLinear],
    below: &Tensor,
) -> Result<Value> {
    let group = Group::new(x, layers)?;
    let (n, all) = (group.rows.dim(0)?, below.dim(0)?);
    let y = output((n, all), below.dtype(), below)?;
    product(1.0, plain(&group.rows), transposed(below), 0.0, &y)?;
    group.add_adapters(&group.parts_of(&y)?)?;
    let bias = one_below_the_other(layers.iter().filter_map(|it| it.bias.as_ref()))?;
    let y = rows_like(&with_bias(y, bias.as_ref())?, x.tensor())?;

    let (like, wants_x) = (x.tensor().clone(), x.wants_gradient());
    let below = below.clone();
    let back = move |gradient: Tensor| {
        let gradient = as_rows(&gradient)?;
        let weights = iter::once((&gradient, &below));
        let through_weights = wants_x.then(|| group.through(weights)).transpose()?;
        group.back(&group.parts_of(&gradient)?, through_weights, &like)
    };
    Ok(Value::record(y, &inputs(x, layers), back))
}

/// What layers of one input learn from.
fn inputs<'a>(x: &'a Value, layers: &'a [AdaptedLinear]) -> Vec<&'a Value> {
    let parts = layers.iter().map(|it| [&it.adapter.a, &it.adapter.b]);
    iter::once(x).chain(parts.flatten()).collect()
}

impl Group {
    /// With z computed.
    fn new(x: &Value, given: &[AdaptedLinear]) -> Result<Self> {
        let rows = as_rows(x.tensor())?.contiguous()?;
        let (n, i) = rows.dims2()?;
        let (mut layers, mut all) = (Vec::new(), 0);
        for it in given {
            let (o, rank) = it.adapter.b.tensor().dims2()?;
            let Matrix::Dense(weight) = it.weight.matrix() else {
                return Err(broken("a weight in blocks"));
            };
            layers.push(Layer {
                weight: weight.get()?.to_dtype(rows.dtype())?.contiguous()?,
                b: output((thin::padded(rank), o), rows.dtype(), &rows)?,
                start: all,
                rank,
                scale: it.adapter.scale,
            });
            all += thin::padded(rank);
        }
        let group = Self {
            a: output((all, i), rows.dtype(), &rows)?,
            z: output((n, all), rows.dtype(), &rows)?,
            rows,
            layers,
            dropout: given.first().and_then(|it| it.adapter.dropout.clone()),
        };
        let seen = left_of(&group.rows, group.dropout.as_ref())?;
        let parts = group.layers.iter().map(|it| it.of_a(&group.a));
        let parts: Vec<Tensor> = parts.collect::<Result<_>>()?;
        let mut adapters = Vec::new();
        for ((layer, a), it) in group.layers.iter().zip(&parts).zip(given) {
            adapters.push(thin::Adapter {
                a: [it.adapter.a.tensor(), a],
                b: [it.adapter.b.tensor(), &layer.b],
                z: layer.of(&group.z)?,
            });
        }
        thin::start(&seen, &adapters, [&group.a, &group.z])?;
        Ok(group)
    }

    /// What comes out of each layer, [n, o], without its bias: y = x Wᵀ + s z Bᵀ.
    fn forward(&self) -> Result<Vec<Tensor>> {
        let of_layer = |it: &Layer| {
            let shape = (self.rows.dim(0)?, it.weight.dim(0)?);
            output(shape, self.rows.dtype(), &self.rows)
        };
        let outputs: Vec<Tensor> = self.layers.iter().map(of_layer).collect::<Result<_>>()?;
        let project = |layer: &Layer, y: &Tensor| {
            product(1.0, plain(&self.rows), transposed(&layer.weight), 0.0, y)
        };
        // Keys and values are often narrow: together they take as long as one of them.
        let first = outputs.first().map_or(Ok(0), |y| y.dim(1))?;
        let (narrow, wide): (Vec<_>, Vec<_>) = self
            .layers
            .iter()
            .zip(&outputs)
            .partition(|(_, y)| y.dim(1).is_ok_and(|width| width < first));
        if !narrow.is_empty() {
            let used = narrow.iter().flat_map(|(layer, y)| [&layer.weight, *y]);
            let kept: Vec<&Tensor> = used.chain([&self.rows]).collect();
            side::beside(&kept, || {
                narrow.iter().try_for_each(|(layer, y)| project(layer, y))
            })?;
        }
        wide.iter().try_for_each(|(layer, y)| project(layer, y))?;
        if !narrow.is_empty() {
            side::join()?;
        }
        self.add_adapters(&outputs)?;
        Ok(outputs)
    }

    /// Adds s z Bᵀ to what comes out of each layer.
    fn add_adapters(&self, outputs: &[Tensor]) -> Result<()> {
        let with = self.layers.iter().zip(outputs);
        let with = with.map(|(layer, y)| layer.through_b(y, &self.z));
        thin::up(&with.collect::<Result<Vec<_>>>()?, true)
    }

    /// The columns of each layer [n, o], of those of all beside each other.
    fn parts_of(&self, all: &Tensor) -> Result<Vec<Tensor>> {
        let mut start = 0;
        let part = |layer: &Layer| {
            let columns = layer.weight.dim(0)?;
            start += columns;
            Ok(all.narrow(1, start - columns, columns)?)
        };
        self.layers.iter().map(part).collect()
    }

    /// The gradients of x, if somebody wants it, like x, and of A and B of each layer, from those of what came out of each, [n, o].
    /// As far as it goes through the weights, the gradient of x is there, [n, i].
    fn back(
        &self,
        returned: &[Tensor],
        through_weights: Option<Tensor>,
        like: &Tensor,
    ) -> Result<Vec<Option<Tensor>>> {
        let dz = output(self.z.shape(), self.rows.dtype(), &self.rows)?;
        let with = self.layers.iter().zip(returned);
        let with = with.map(|(layer, gradient)| layer.through_b(gradient, &dz));
        thin::down(&with.collect::<Result<Vec<_>>>()?)?;
        let gradients = self.adapters_back(returned, &dz)?;
        match (&through_weights, &self.dropout) {
            (Some(dx), Some(dropout)) => {
                let through_adapters = output(dx.shape(), dx.dtype(), dx)?;
                thin::up(&[self.through_a(through_adapters.clone(), &dz)], false)?;
                dropout.add_to(dx, &through_adapters)?;
            }
            (Some(dx), None) => thin::up(&[self.through_a(dx.clone(), &dz)], true)?,
            (None, _) => {}
        }
        let dx = through_weights.map(|dx| rows_like(&dx, like)).transpose()?;
        Ok([vec![dx], gradients.into_iter().map(Some).collect()].concat())
    }

    /// The gradient of x as far as it goes through weights, Σ g W, from gradients g [n, o] and W [o, i].
    fn through<'a>(
        &self,
        weights: impl Iterator<Item = (&'a Tensor, &'a Tensor)>,
    ) -> Result<Tensor> {
        let dx = output(self.rows.shape(), self.rows.dtype(), &self.rows)?;
        for (index, (gradient, weight)) in weights.enumerate() {
            let kept = if index == 0 { 0.0 } else { 1.0 };
            product(1.0, plain(gradient), plain(weight), kept, &dx)?;
        }
        Ok(dx)
    }

    /// The gradients of A and B of each layer, for which nothing on the way back waits.
    fn adapters_back(&self, returned: &[Tensor], dz: &Tensor) -> Result<Vec<Tensor>> {
        let seen = left_of(&self.rows, self.dropout.as_ref())?;
        let da = output(self.a.shape(), DType::F32, &self.rows)?;
        let mut gradients = Vec::new();
        let mut products = vec![Gradient {
            wide: seen.clone(),
            thin: dz.clone(),
            to: da.clone(),
            turned: false,
            scale: 1.0,
        }];
        for (layer, gradient) in self.layers.iter().zip(returned) {
            let db = output((gradient.dim(1)?, layer.rank), DType::F32, &self.rows)?;
            products.push(Gradient {
                wide: gradient.clone(),
                thin: layer.of(&self.z)?,
                to: db.clone(),
                turned: true,
                scale: layer.scale,
            });
            gradients.extend([da.narrow(0, layer.start, layer.rank)?, db]);
        }
        let read = products.iter().flat_map(|it| [&it.wide, &it.thin, &it.to]);
        let kept: Vec<&Tensor> = read.collect();
        side::beside(&kept, || thin::gradients(&products))?;
        Ok(gradients)
    }

    /// A between numbers like x and numbers like z.
    fn through_a(&self, wide: Tensor, thin: &Tensor) -> Thin {
        Thin {
            wide,
            thin: thin.clone(),
            matrix: self.a.clone(),
            scale: 1.0,
        }
    }
}

impl Layer {
    /// How many columns of z are its own.
    fn columns(&self) -> usize {
        thin::padded(self.rank)
    }

    /// Its columns of z, or of the gradient of z.
    fn of(&self, z: &Tensor) -> Result<Tensor> {
        Ok(z.narrow(1, self.start, self.columns())?)
    }

    /// Its rows of A of all layers.
    fn of_a(&self, a: &Tensor) -> Result<Tensor> {
        Ok(a.narrow(0, self.start, self.columns())?)
    }

    /// B between numbers like y and its numbers of z.
    fn through_b(&self, wide: &Tensor, z: &Tensor) -> Result<Thin> {
        Ok(Thin {
            wide: wide.clone(),
            thin: self.of(z)?,
            matrix: self.b.clone(),
            scale: self.scale,
        })
    }
}
