//! Kernels that go over many tensors in one launch: the steps of optimizers, the norm of gradients, and copies.
//!
//! A model has hundreds of weights, most of them small: a launch for each would take the host longer than the GPU. A table on the
//! GPU says where each of them lies; a block of threads finds its part in it.

use candle_core::{DType, Tensor};

use crate::{
    Result,
    ops::{
        kernels::cuda::{Launch, PACK, address, broken, in_packs, losses::sum, output},
        weight::MOST,
    },
};

/// Numbers of a tensor that a block takes, as in `kernels.cu`.
const CHUNK: usize = 4096;
const THREADS: usize = 256;

/// Where tensors lie, in the GPU’s memory, and how many blocks go over them.
struct Table {
    entries: Tensor,
    count: usize,
    blocks: usize,
}

impl Table {
    /// Each entry has contiguous tensors, which go by the numbers of the first, or nothing where one is missing.
    fn new<const N: usize>(entries: &[[Option<&Tensor>; N]]) -> Result<Self> {
        let first = entries.first().and_then(|it| it[0]);
        let device = first
            .ok_or_else(|| broken("a kernel over no tensors"))?
            .device();
        let (mut bytes, mut blocks) = (Vec::new(), 0);
        for entry in entries {
            for tensor in entry {
                let address = tensor.map(address).transpose()?.unwrap_or(0);
                bytes.extend(address.to_le_bytes());
            }
            let count = entry[0].map_or(0, Tensor::elem_count);
            bytes.extend((count as u64).to_le_bytes());
            bytes.extend((blocks as u64).to_le_bytes());
            blocks += count.div_ceil(CHUNK);
        }
        let length = bytes.len();
        Ok(Self {
            entries: Tensor::from_vec(bytes, length, device)?,
            count: entries.len(),
            blocks,
        })
    }

    fn launch(&self, name: &str, like: &Tensor) -> Result<Launch> {
        Ok(Launch::of(name, like)?
            .tensors(&[&self.entries])?
            .whole(&[self.count]))
    }
}

/// A step of AdamW: changes weights, first and second moments in place. Entries: weight, first moment, second moment, gradient.
///
/// `factors` are those of the formula, in the kernel's order: gradient scale, β₁, 1 - β₁, β₂, 1 - β₂, ε, 1 - η λ,
/// η / (1 - β₁ᵗ), 1 / √(1 - β₂ᵗ).
pub(crate) fn adamw(entries: &[[Option<&Tensor>; 4]], factors: [f64; 9]) -> Result<()> {
    step("adamw", entries, &factors)
}

/// A step of AdamW with moments in 8 bits, in place. Entries: weight, gradient, codes of the first moment and the scale of each block
/// of 256, and those of the second.
///
/// `tables` [4, 256] are the values of the codes of first moments and the middles between them, and those of second ones.
pub(crate) fn adamw_8bit(
    entries: &[[Option<&Tensor>; 6]],
    tables: &Tensor,
    factors: [f64; 9],
) -> Result<()> {
    let Some(first) = entries.first().and_then(|it| it[0]) else {
        return Ok(());
    };
    let table = Table::new(entries)?;
    table
        .launch("adamw_8bit", first)?
        .tensors(&[tables])?
        .numbers(&factors)
        .launch(table.blocks, THREADS)
}

/// A step of SGD: changes weights and velocities in place. Entries: weight, velocity, gradient.
///
/// `factors` are those of the formula, in the kernel's order: gradient scale, λ, μ, η, and 1 for Nesterov's momentum.
pub(crate) fn sgd(entries: &[[Option<&Tensor>; 3]], factors: [f64; 5]) -> Result<()> {
    step("sgd", entries, &factors)
}

fn step<const N: usize>(
    name: &str,
    entries: &[[Option<&Tensor>; N]],
    factors: &[f64],
) -> Result<()> {
    let Some(first) = entries.first().and_then(|it| it[0]) else {
        return Ok(());
    };
    let table = Table::new(entries)?;
    table
        .launch(name, first)?
        .numbers(factors)
        .launch(table.blocks, THREADS)
}

/// Tensors of f32 that are copied into others that are as long.
#[cfg(target_os = "linux")]
pub(crate) struct Copies {
    table: Table,
    like: Tensor,
}

#[cfg(target_os = "linux")]
impl Copies {
    /// Entries: from, to.
    pub(crate) fn new(entries: &[[&Tensor; 2]]) -> Result<Self> {
        let first = entries.first().ok_or_else(|| broken("nothing to copy"))?;
        let all: Vec<_> = entries.iter().map(|it| it.map(Some)).collect();
        Ok(Self {
            table: Table::new(&all)?,
            like: first[0].clone(),
        })
    }

    pub(crate) fn launch(&self) -> Result<()> {
        let launch = self.table.launch("copy_many", &self.like)?;
        launch.launch(self.table.blocks, THREADS)
    }
}

/// Where up to [`MOST`] tensors lie, and where each of them ends in what they become together, as in `kernels.cu`.
#[repr(C)]
pub(super) struct Eight {
    from: [u64; MOST],
    ends: [u64; MOST],
}

impl Eight {
    /// Tensors with what each has: numbers, or columns.
    fn of<'a>(tensors: impl Iterator<Item = (&'a Tensor, usize)>) -> Result<(Self, usize)> {
        let mut eight = Self {
            from: [0; MOST],
            ends: [u64::MAX; MOST],
        };
        let mut end = 0;
        let places = eight.from.iter_mut().zip(&mut eight.ends);
        for ((tensor, length), (from, place)) in tensors.zip(places) {
            end += length;
            (*from, *place) = (address(tensor)?, end as u64);
        }
        Ok((eight, end))
    }
}

/// Whether these become one tensor in one launch: a pack is of one of them.
fn fit(tensors: &[Tensor], lengths: impl Iterator<Item = usize>) -> bool {
    let first = tensors.first().map(Tensor::dtype);
    let fits = |it: &Tensor| {
        it.device().is_cuda()
            && Some(it.dtype()) == first
            && it.is_contiguous()
            && in_packs(&[it]).unwrap_or(false)
    };
    let in_packs = lengths.into_iter().all(|it| it.is_multiple_of(PACK));
    (1..=MOST).contains(&tensors.len()) && in_packs && tensors.iter().all(fits)
}

/// The numbers of tensors in f32, one after the other, in another dtype, where one launch does it.
pub(crate) fn convert(tensors: &[Tensor], dtype: DType) -> Result<Option<Tensor>> {
    let lengths = || tensors.iter().map(Tensor::elem_count);
    let first = tensors.first().filter(|it| it.dtype() == DType::F32);
    let Some(first) = first.filter(|_| fit(tensors, lengths())) else {
        return Ok(None);
    };
    let (eight, count) = Eight::of(tensors.iter().zip(lengths()))?;
    let numbers = output(count, dtype, first)?;
    Launch::of("convert_eight", &numbers)?
        .eight(eight)
        .tensors(&[&numbers])?
        .count(count)
        .for_each(count.div_ceil(PACK))?;
    Ok(Some(numbers))
}

/// Tensors that differ along one dimension only, beside each other along it, where one launch does it.
pub(crate) fn join(tensors: &[Tensor], along: usize) -> Result<Option<Tensor>> {
    let widths = || tensors.iter().map(|it| it.dims()[along..].iter().product());
    let Some(first) = tensors.first().filter(|_| fit(tensors, widths())) else {
        return Ok(None);
    };
    let (eight, width) = Eight::of(tensors.iter().zip(widths()))?;
    let mut dims = first.dims().to_vec();
    dims[along] = tensors.iter().map(|it| it.dims()[along]).sum();
    let all = output(dims, first.dtype(), first)?;
    Launch::of("join_eight", &all)?
        .eight(eight)
        .tensors(&[&all])?
        .count(all.elem_count())
        .whole(&[width])
        .for_each(all.elem_count().div_ceil(PACK))?;
    Ok(Some(all))
}

/// Σ x² over all numbers of tensors: a single number.
pub(crate) fn squared_sum(tensors: &[Tensor]) -> Result<Tensor> {
    let entries: Vec<[Option<&Tensor>; 1]> = tensors.iter().map(|it| [Some(it)]).collect();
    let table = Table::new(&entries)?;
    let sums = output(table.blocks, DType::F32, &tensors[0])?;
    table
        .launch("squares", &tensors[0])?
        .tensors(&[&sums])?
        .launch(table.blocks, THREADS)?;
    sum(&sums, None)
}
