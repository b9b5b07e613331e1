//! Linear layers of one input with their adapters, in few launches: what all of them need of the input is one product, and products
//! add to each other in place.
//!
//! With A of all layers below each other, z = x Aᵀ is one thin product, of which each layer has its columns, and so are
//! dA = dzᵀ x and the adapters' share of dx. A and B are converted to the dtype of x once, forward, in one launch. With dropout, which
//! is the same for all of them, they see what it leaves of x; that is found again on the way back.

use std::{cell::RefCell, rc::Rc};

use candle_core::{DType, Tensor};

use crate::{
    Result,
    ops::{
        as_rows,
        dropout::left_of,
        kernels::{
            Kernel,
            cuda::{
                Launch, Pieces, broken,
                linear::{Operand, Size, multiply, plain, transposed, with_bias},
                output, serves as serves_tensors, side,
            },
        },
        lora::{AdaptedLinear, go_together},
        rows_like,
        weight::Matrix,
    },
    tape::Value,
};

/// Layers that are computed together at most.
pub(crate) const MAX_LAYERS: usize = Pieces::MAX / 2;

/// Whether these layers are computed here: by weights that are numbers, and with one dropout for all of them, or none.
pub(crate) fn serves(x: &Value, layers: &[AdaptedLinear]) -> bool {
    let is_served = |layer: &AdaptedLinear| {
        let adapter = &layer.adapter;
        let parts = [adapter.a.tensor(), adapter.b.tensor()];
        matches!(layer.weight.matrix(), Matrix::Dense(weight) if weight.device().is_cuda())
            && parts
                .iter()
                .all(|it| it.dtype() == DType::F32 && it.device().is_cuda() && it.is_contiguous())
            && layer
                .bias
                .as_ref()
                .is_none_or(|bias| !bias.wants_gradient())
            && layer
                .weight
                .value()
                .is_none_or(|weight| !weight.wants_gradient())
    };
    go_together(x, layers)
        && serves_tensors(Kernel::Lora, &[x.tensor()])
        && matches!(x.tensor().dtype(), DType::BF16 | DType::F16)
        && layers.len() <= MAX_LAYERS
        && layers.iter().all(is_served)
}

/// One layer, as its products need it. i: numbers that go in, o: that come out, r: its rank.
struct Layer {
    /// [o, i].
    weight: Tensor,
    /// B [o, r], in the dtype of x.
    b: Tensor,
    /// z [n, r]: columns of the one of all layers.
    z: Tensor,
    /// Its first of those columns.
    start: usize,
    scale: f64,
}

/// What the ways back of all layers write together. That of the first layer comes last.
struct Back {
    /// The gradient of z [n, R], R being all ranks.
    dz: Tensor,
    /// That of x [n, i] as far as it goes through the weights.
    dx: Option<Tensor>,
    /// The gradients of B, which are computed at the end.
    later: Vec<Later>,
}

/// The gradient of a B [o, r], and what it is computed from: that of y [n, o], and z [n, r].
struct Later {
    scale: f64,
    gradient: Tensor,
    z: Tensor,
    db: Tensor,
}

impl Later {
    fn compute(&self) -> Result<()> {
        let Self {
            scale,
            gradient,
            z,
            db,
        } = self;
        product(*scale, transposed(gradient), plain(z), 0.0, db)
    }
}

/// See [`linears_with_adapters`](crate::ops::lora::linears_with_adapters).
pub(crate) fn linears_with_adapters(x: &Value, layers: &[AdaptedLinear]) -> Result<Vec<Value>> {
    let rows = as_rows(x.tensor())?.contiguous()?;
    let dropout = layers.first().and_then(|it| it.adapter.dropout.clone());
    let (a, layers_here) = prepare(&rows, &left_of(&rows, dropout.as_ref())?, layers)?;
    let mut outputs = forward(&rows, &layers_here)?;
    for (y, given) in outputs.iter_mut().zip(layers) {
        let bias = given.bias.as_ref().map(Value::tensor);
        *y = rows_like(&with_bias(y.clone(), bias)?, x.tensor())?;
    }

    let back = Rc::new(RefCell::new(None));
    let (like, wants_x) = (x.tensor().clone(), x.wants_gradient());
    let record = |(index, (layer, y)): (usize, (Layer, Tensor))| {
        let (rows, a, back, like) = (rows.clone(), a.clone(), back.clone(), like.clone());
        let dropout = dropout.clone();
        let ranks: Vec<usize> = layers.iter().map(|it| it.rank()).collect::<Result<_>>()?;
        let backward = move |gradient: Tensor| {
            let gradient = as_rows(&gradient)?.contiguous()?;
            let back: &RefCell<Option<Back>> = &back;
            let mut back = back.borrow_mut();
            let db = layer.back(&gradient, &rows, a.dim(0)?, wants_x, &mut back)?;
            if index > 0 {
                return Ok(vec![Some(db)]);
            }
            let Back { dz, dx, later } = back.take().ok_or_else(|| broken("a way back twice"))?;
            let da = output(a.shape(), DType::F32, &rows)?;
            let seen = left_of(&rows, dropout.as_ref())?;
            // Nothing on the way back waits for gradients of weights.
            let mut kept = vec![&seen, &dz, &da];
            kept.extend(later.iter().flat_map(|it| [&it.gradient, &it.z, &it.db]));
            side::beside(&kept, || {
                later.iter().try_for_each(Later::compute)?;
                product(1.0, transposed(&dz), plain(&seen), 0.0, &da)
            })?;
            match (&dx, &dropout) {
                (Some(dx), Some(dropout)) => {
                    let through_adapters = output(dx.shape(), dx.dtype(), dx)?;
                    product(1.0, plain(&dz), plain(&a), 0.0, &through_adapters)?;
                    dropout.add_to(dx, &through_adapters)?;
                }
                (Some(dx), None) => product(1.0, plain(&dz), plain(&a), 1.0, dx)?,
                (None, _) => {}
            }
            let dx = dx.map(|dx| rows_like(&dx, &like)).transpose()?;
            let mut gradients = vec![dx, Some(db)];
            let mut start = 0;
            for rank in ranks {
                gradients.push(Some(da.narrow(0, start, rank)?));
                start += rank;
            }
            Ok(gradients)
        };
        let own = &layers[index].adapter.b;
        let mut inputs = vec![own];
        if index == 0 {
            inputs.insert(0, x);
            inputs.extend(layers.iter().map(|it| &it.adapter.a));
        }
        Ok(Value::record(y, &inputs, backward))
    };
    let layers_here = layers_here.into_iter().zip(outputs);
    layers_here.enumerate().map(record).collect()
}

/// What comes out of each layer, [n, o], without its bias.
fn forward(rows: &Tensor, layers: &[Layer]) -> Result<Vec<Tensor>> {
    let mut outputs = Vec::new();
    for layer in layers {
        let (o, _) = layer.weight.dims2()?;
        outputs.push(output((rows.dim(0)?, o), rows.dtype(), rows)?);
    }
    // Keys and values are often narrow: together they take as long as one of them.
    let widths = outputs.iter().map(|y| y.dim(1));
    let widths: Vec<usize> = widths.collect::<std::result::Result<_, _>>()?;
    let (narrow, wide): (Vec<_>, Vec<_>) = layers
        .iter()
        .zip(&outputs)
        .partition(|(_, y)| y.dim(1).is_ok_and(|width| width < widths[0]));
    if !narrow.is_empty() {
        let used = narrow
            .iter()
            .flat_map(|(layer, y)| [&layer.weight, &layer.b, &layer.z, *y]);
        let kept: Vec<&Tensor> = used.chain([rows]).collect();
        side::beside(&kept, || {
            let mut layers = narrow.iter();
            layers.try_for_each(|(layer, y)| layer.forward(rows, y))
        })?;
    }
    wide.iter()
        .try_for_each(|(layer, y)| layer.forward(rows, y))?;
    side::join()?;
    Ok(outputs)
}

/// A of all layers [R, i] in the dtype of x, and each layer with its part of z, which is computed from what adapters see of x.
fn prepare(rows: &Tensor, seen: &Tensor, layers: &[AdaptedLinear]) -> Result<(Tensor, Vec<Layer>)> {
    let (n, i) = rows.dims2()?;
    let ranks: Vec<usize> = layers.iter().map(|it| it.rank()).collect::<Result<_>>()?;
    let all: usize = ranks.iter().sum();
    let a = output((all, i), rows.dtype(), rows)?;
    let z = output((n, all), rows.dtype(), rows)?;
    let (mut start, mut made, mut pieces) = (0, Vec::new(), Pieces::default());
    for (layer, rank) in layers.iter().zip(ranks) {
        let (from_a, from_b) = (layer.adapter.a.tensor(), layer.adapter.b.tensor());
        let b = output(from_b.shape(), rows.dtype(), rows)?;
        pieces.add(from_a, &a.narrow(0, start, rank)?)?;
        pieces.add(from_b, &b)?;
        let Matrix::Dense(weight) = layer.weight.matrix() else {
            return Err(broken("a weight in blocks"));
        };
        made.push(Layer {
            weight: weight.to_dtype(rows.dtype())?.contiguous()?,
            b,
            z: z.narrow(1, start, rank)?,
            start,
            scale: layer.adapter.scale,
        });
        start += rank;
    }
    Launch::of("convert_pieces", rows)?.pieces(pieces)?;
    product(1.0, plain(seen), transposed(&a), 0.0, &z)?;
    Ok((a, made))
}

impl Layer {
    /// y = x Wᵀ + s z Bᵀ.
    fn forward(&self, rows: &Tensor, y: &Tensor) -> Result<()> {
        product(1.0, plain(rows), transposed(&self.weight), 0.0, y)?;
        product(self.scale, plain(&self.z), transposed(&self.b), 1.0, y)
    }

    /// The gradient of B from that of y [n, o], which also goes into what all layers write.
    fn back(
        &self,
        gradient: &Tensor,
        rows: &Tensor,
        ranks: usize,
        wants_x: bool,
        back: &mut Option<Back>,
    ) -> Result<Tensor> {
        let (n, i) = rows.dims2()?;
        let is_first = back.is_none();
        let dx = || output((n, i), rows.dtype(), rows);
        let mut made = match back.take() {
            Some(made) => made,
            None => Back {
                dz: output((n, ranks), rows.dtype(), rows)?,
                dx: wants_x.then(dx).transpose()?,
                later: Vec::new(),
            },
        };
        let db = output(self.b.shape(), DType::F32, rows)?;
        made.later.push(Later {
            scale: self.scale,
            gradient: gradient.clone(),
            z: self.z.clone(),
            db: db.clone(),
        });
        let dz = made.dz.narrow(1, self.start, self.b.dim(1)?)?;
        product(self.scale, plain(gradient), plain(&self.b), 0.0, &dz)?;
        if let Some(dx) = &made.dx {
            let kept = if is_first { 0.0 } else { 1.0 };
            product(1.0, plain(gradient), plain(&self.weight), kept, dx)?;
        }
        *back = Some(made);
        Ok(db)
    }
}

/// out = factor · a b + kept · out, of matrices whose rows may lie apart.
fn product(factor: f64, a: Operand, b: Operand, kept: f64, out: &Tensor) -> Result<()> {
    let (m, n) = out.dims2()?;
    let k = a.numbers.dim(if a.transposed { 0 } else { 1 })?;
    let size = Size { batch: 1, m, n, k };
    multiply(size, factor, a, b, kept, out)
}
