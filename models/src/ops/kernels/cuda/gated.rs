//! The gate of a feed-forward part, in one pass each way. The gate of two tensors saves them.

use candle_core::Tensor;

use crate::{
    Result,
    ops::{
        feed_forward::Along,
        gated::Activation,
        kernels::cuda::{Launch, PACK, in_packs, output},
    },
    tape::Value,
};

/// See [`gated`](crate::ops::gated::gated).
pub(crate) fn gated(gate: &Value, up: &Value, activation: Activation) -> Result<Value> {
    let (a, c) = (gate.tensor().contiguous()?, up.tensor().contiguous()?);
    let count = a.elem_count();
    let activation = activation.number();
    let like = |x: &Tensor| output(x.shape(), x.dtype(), x);
    let launch = move |name: &str, tensors: &[&Tensor]| {
        let packs = count.is_multiple_of(PACK) && in_packs(tensors)?;
        let (name, threads) = match packs {
            true => (format!("{name}_packs"), count / PACK),
            false => (name.to_owned(), count),
        };
        Launch::of(&name, tensors[0])?
            .tensors(tensors)?
            .count(count)
            .whole(&[activation])
            .for_each(threads)
    };
    let y = like(&a)?;
    launch("gated", &[&a, &c, &y])?;
    Ok(Value::record(y, &[gate, up], move |gradient: Tensor| {
        let (da, dc) = (like(&a)?, like(&c)?);
        launch("gated_back", &[&a, &c, &gradient.contiguous()?, &da, &dc])?;
        Ok(vec![Some(da), Some(dc)])
    }))
}

/// See [`halves`](crate::ops::gated::halves).
pub(crate) fn halves(both: &Tensor, activation: Activation, along: Along) -> Result<Tensor> {
    let both = both.contiguous()?;
    let lines = Lines::of(&both, along)?;
    let y = output(lines.shape, both.dtype(), &both)?;
    lines.launch("halves", &[&both], &[Some(&y)], activation)?;
    Ok(y)
}

/// See [`halves_back`](crate::ops::gated::halves_back).
pub(crate) fn halves_back(
    both: &Tensor,
    gradient: &Tensor,
    activation: Activation,
    along: Along,
) -> Result<(Tensor, Tensor)> {
    let lines = Lines::of(both, along)?;
    let y = output(lines.shape, both.dtype(), both)?;
    let d_both = lines.back(both, gradient, Some(&y), activation)?;
    Ok((y, d_both))
}

/// See [`halves_gradient`](crate::ops::gated::halves_gradient).
pub(crate) fn halves_gradient(
    both: &Tensor,
    gradient: &Tensor,
    activation: Activation,
) -> Result<Tensor> {
    Lines::of(both, Along::Last)?.back(both, gradient, None, activation)
}

/// Lines of two halves, one after the other.
struct Lines {
    /// The shape of all halves.
    shape: (usize, usize),
    /// Numbers of a half.
    inner: usize,
}

impl Lines {
    fn of(both: &Tensor, along: Along) -> Result<Self> {
        let (first, second) = both.dims2()?;
        Ok(match along {
            Along::First => Self {
                shape: (first / 2, second),
                inner: first / 2 * second,
            },
            Along::Last => Self {
                shape: (first, second / 2),
                inner: second / 2,
            },
        })
    }

    /// The gradients of both halves, and y where it is wanted once more.
    fn back(
        &self,
        both: &Tensor,
        gradient: &Tensor,
        y: Option<&Tensor>,
        activation: Activation,
    ) -> Result<Tensor> {
        let (both, gradient) = (both.contiguous()?, gradient.contiguous()?);
        let d_both = output(both.shape(), both.dtype(), &both)?;
        let written = [y, Some(&d_both)];
        self.launch("halves_back", &[&both, &gradient], &written, activation)?;
        Ok(d_both)
    }

    /// What is written may be left out where the kernel allows it.
    fn launch(
        &self,
        name: &str,
        read: &[&Tensor],
        written: &[Option<&Tensor>],
        activation: Activation,
    ) -> Result<()> {
        let (count, inner) = (self.shape.0 * self.shape.1, self.inner);
        let all = read
            .iter()
            .copied()
            .chain(written.iter().copied().flatten());
        let packs = inner.is_multiple_of(PACK) && in_packs(&all.collect::<Vec<_>>())?;
        let (name, threads) = match packs {
            true => (name.to_owned(), count / PACK),
            false => (format!("{name}_single"), count),
        };
        let mut launch = Launch::of(&name, read[0])?.tensors(read)?;
        for tensor in written {
            launch = launch.perhaps(*tensor)?;
        }
        launch
            .counts(&[count, inner])
            .whole(&[activation.number()])
            .for_each(threads)
    }
}
