//! Linear layers of one input with their low-rank adapters: candle's products, of which the widening ones of the adapters are added
//! to what is there already, in one pass.
//!
//! The adapters are put side by side in the dtype of x by one launch, forward, and kept so for the way back: A of all layers below
//! each other is one matrix, by which z of all layers is one thin product, and so are dA and, with dropout, the adapters' share of dx.
//! Saves x, z times the scale, and the adapters.

use std::{cell::RefCell, rc::Rc};

use candle_core::{DType, Tensor};

use super::{
    broken, in_dtype,
    launch::{Launch, MAX_GROUPS},
    output, side_by_side,
};
use crate::{
    Result,
    ops::{
        as_rows,
        dropout::left_of,
        kernels::Kernel,
        linear::{Term, project, project_back, weight_gradient},
        lora::{AdaptedLinear, go_together},
        rows_like,
        sum::sum,
        weight::Matrix,
    },
    tape::Value,
};

const KERNEL: Kernel = Kernel::Lora;

/// Rows that a group of threads takes.
const GROUP_ROWS: usize = 4;

/// Tensors that are put side by side by a launch.
const SLOTS: usize = 8;

/// Whether layers with this input are computed here.
pub(crate) fn serves(x: &Tensor) -> bool {
    let rows = x.elem_count() / x.dims().last().copied().unwrap_or(1).max(1);
    super::serves(KERNEL, &[x]) && rows <= GROUP_ROWS * MAX_GROUPS
}

/// See [`linears_with_adapters`](crate::ops::lora::linears_with_adapters).
pub(crate) fn linears_with_adapters(x: &Value, layers: &[AdaptedLinear]) -> Result<Vec<Value>> {
    match go_together(x, layers) && 2 * layers.len() <= SLOTS {
        true => together(x, layers),
        false => {
            let each = layers.chunks(1).map(|layer| together(x, layer));
            Ok(each.collect::<Result<Vec<_>>>()?.concat())
        }
    }
}

/// One layer, as its products need it. i: numbers that go in, o: that come out, r: its rank.
struct Layer {
    weight: Matrix,
    /// A [r, i] and B [o, r], in the dtype of x.
    a: Tensor,
    b: Tensor,
    /// z times the scale [n, r].
    scaled: Tensor,
    /// Its first column in z of all layers.
    start: usize,
    scale: f64,
    /// Those of A and B themselves.
    dtypes: [DType; 2],
}

/// What the ways back of all layers write together. That of the first layer comes last.
struct Back {
    /// The gradient of z [n, R], R being all ranks: where it is added to dx anyway, in its place.
    dz: Tensor,
    /// Otherwise its parts, the last layer's first.
    parts: Vec<Tensor>,
    dx: Option<Tensor>,
}

fn together(x: &Value, layers: &[AdaptedLinear]) -> Result<Vec<Value>> {
    let rows = side_by_side(&as_rows(x.tensor())?)?;
    let dropout = layers.first().and_then(|it| it.adapter.dropout.clone());
    let (a, here) = join(&rows, layers)?;
    let z = project(
        KERNEL,
        &[Term::new(&left_of(&rows, dropout.as_ref())?, &a)],
        None,
    )?;
    let mut outputs = Vec::new();
    for (layer, given) in here.iter().zip(layers) {
        let bias = given.bias.as_ref().map(Value::tensor);
        let y = layer.weight.project(KERNEL, &rows, &[], bias)?;
        let own = z.narrow(1, layer.start, layer.a.dim(0)?)?;
        layer.add("add_low_rank", [&own, &layer.b, &y, &layer.scaled])?;
        outputs.push(rows_like(&y, x.tensor())?);
    }

    let (like, wants_x) = (x.tensor().clone(), x.wants_gradient());
    let back = Rc::new(RefCell::new(None));
    let record = |(index, (layer, y)): (usize, (Layer, Tensor))| {
        let (rows, a, back, like) = (rows.clone(), a.clone(), back.clone(), like.clone());
        let (dropout, dtypes) = (dropout.clone(), layer.dtypes);
        let ranks: Vec<usize> = layers.iter().map(|it| it.rank()).collect::<Result<_>>()?;
        let backward = move |gradient: Tensor| {
            let gradient = as_rows(&gradient)?;
            let back: &RefCell<Option<Back>> = &back;
            let adds = wants_x && dropout.is_none();
            let db = layer.back(&gradient, &a, [wants_x, adds], &mut back.borrow_mut())?;
            let db = in_dtype(&db, dtypes[1])?;
            if index > 0 {
                return Ok(vec![Some(db)]);
            }
            let back = back.borrow_mut().take();
            let Back { dz, mut parts, dx } = back.ok_or_else(|| broken("a way back twice"))?;
            parts.reverse();
            let dz = match parts.as_slice() {
                [] => dz,
                [only] => only.clone(),
                several => Tensor::cat(several, 1)?,
            };
            let da = weight_gradient(KERNEL, &dz, &left_of(&rows, dropout.as_ref())?, 1.0)?;
            let da = in_dtype(&da, dtypes[0])?;
            let dx = match (dx, &dropout) {
                (Some(dx), Some(dropout)) => {
                    let through = project_back(KERNEL, &[Term::new(&dz, &a)])?;
                    Some(sum(KERNEL, &dx, &dropout.apply(&through)?)?)
                }
                (dx, _) => dx,
            };
            let dx = dx.map(|it| rows_like(&it, &like)).transpose()?;
            let mut gradients = vec![dx, Some(db)];
            let mut start = 0;
            for rank in ranks {
                gradients.push(Some(da.narrow(0, start, rank)?));
                start += rank;
            }
            Ok(gradients)
        };
        let mut inputs = vec![&layers[index].adapter.b];
        if index == 0 {
            inputs.insert(0, x);
            inputs.extend(layers.iter().map(|it| &it.adapter.a));
        }
        Ok(Value::record(y, &inputs, backward))
    };
    let here = here.into_iter().zip(outputs);
    here.enumerate().map(record).collect()
}

/// A of all layers [R, i], and each layer with its part, in the dtype of x [n, i].
fn join(rows: &Tensor, layers: &[AdaptedLinear]) -> Result<(Tensor, Vec<Layer>)> {
    let parts = |of: fn(&AdaptedLinear) -> &Value| {
        let parts = layers
            .iter()
            .map(move |it| in_dtype(of(it).tensor(), DType::F32));
        parts.map(|it| side_by_side(&it?))
    };
    let parts = parts(|it| &it.adapter.a).chain(parts(|it| &it.adapter.b));
    let parts: Vec<Tensor> = parts.collect::<Result<_>>()?;
    let counts: Vec<usize> = parts.iter().map(Tensor::elem_count).collect();
    let ends = counts.iter().scan(0, |end, count| {
        *end += count;
        Some(*end)
    });
    let ends: Vec<usize> = ends.collect();
    let starts: Vec<usize> = ends
        .iter()
        .zip(&counts)
        .map(|(end, count)| end - count)
        .collect();
    let all = output(ends.last().copied().unwrap_or(0), rows.dtype(), rows)?;
    gather(&parts, [&counts, &starts], &all)?;

    let (n, i) = rows.dims2()?;
    let part = |at: usize| -> Result<Tensor> {
        let numbers = all.narrow(0, starts[at], counts[at])?;
        Ok(numbers.reshape(parts[at].shape())?)
    };
    let (mut made, mut start) = (Vec::new(), 0);
    for (at, layer) in layers.iter().enumerate() {
        let (a, b) = (part(at)?, part(layers.len() + at)?);
        let rank = a.dim(0)?;
        made.push(Layer {
            weight: layer.weight.matrix(),
            scaled: output((n, rank), rows.dtype(), rows)?,
            a,
            b,
            start,
            scale: layer.adapter.scale,
            dtypes: [&layer.adapter.a, &layer.adapter.b].map(|it| it.tensor().dtype()),
        });
        start += rank;
    }
    Ok((all.narrow(0, 0, start * i)?.reshape((start, i))?, made))
}

/// Writes tensors in f32 into one, each from its start on.
fn gather(parts: &[Tensor], [counts, starts]: [&[usize]; 2], all: &Tensor) -> Result<()> {
    // In the place of what is missing, of which nothing is read.
    let mut slots: Vec<&Tensor> = parts.iter().collect();
    slots.resize(SLOTS, &parts[0]);
    let filled = |of: &[usize]| {
        let mut filled = of.to_vec();
        filled.resize(SLOTS, 0);
        filled
    };
    let largest = counts.iter().copied().max().unwrap_or_default();
    Launch::of("gather", all.dtype(), &[counts, starts].concat())?
        .tensors(&slots)?
        .tensors(&[all])?
        .whole(&filled(counts))?
        .whole(&filled(starts))?
        .for_tensors(largest, parts.len())
}

impl Layer {
    /// Adds scale · z Bᵀ of z [n, r] and B [o, r] to y [n, o] in place, or scale · z A of A [r, i] on the way back, and writes
    /// scale · z. The rows of z and of what is written may be parts of longer ones.
    fn add(&self, name: &str, [z, factor, y, scaled]: [&Tensor; 4]) -> Result<()> {
        let ((rows, rank), (_, width)) = (z.dims2()?, y.dims2()?);
        let apart = [z.stride()[0], scaled.stride()[0]];
        Launch::of(name, y.dtype(), &[&[rank, width][..], &apart].concat())?
            .strided(&[z])
            .tensors(&[factor, y])?
            .strided(&[scaled])
            .whole(&[rows, width, rank])?
            .numbers(&[self.scale])
            .whole(&apart)?
            .for_columns(width, rows.div_ceil(GROUP_ROWS))
    }

    /// The gradient of B from that of y [n, o], which also goes into what all layers write. A of all layers is [R, i].
    fn back(
        &self,
        gradient: &Tensor,
        a: &Tensor,
        [wants_x, adds]: [bool; 2],
        back: &mut Option<Back>,
    ) -> Result<Tensor> {
        let mut made = match back.take() {
            Some(made) => made,
            None => Back {
                dz: output((gradient.dim(0)?, a.dim(0)?), gradient.dtype(), gradient)?,
                parts: Vec::new(),
                dx: None,
            },
        };
        let db = weight_gradient(KERNEL, gradient, &self.scaled, 1.0)?;
        let dz = project_back(KERNEL, &[Term::new(gradient, &self.b)])?;
        let through_weight = match wants_x {
            true => Some(self.weight.project_back(KERNEL, gradient, &[])?),
            false => None,
        };
        match &through_weight {
            Some(dx) if adds => {
                let own = made.dz.narrow(1, self.start, dz.dim(1)?)?;
                self.add("add_low_rank_back", [&dz, &self.a, dx, &own])?;
            }
            _ => made.parts.push(dz.affine(self.scale, 0.0)?),
        }
        made.dx = match (made.dx.take(), through_weight) {
            (Some(dx), Some(more)) => Some(sum(KERNEL, &dx, &more)?),
            (before, more) => before.or(more),
        };
        *back = Some(made);
        Ok(db)
    }
}
