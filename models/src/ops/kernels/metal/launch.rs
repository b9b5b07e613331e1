//! A launch as data: which kernel in which storage, with which tensors and values, over how many groups of threads.

use candle_core::{DType, Device, Tensor};

use super::{Binding, STORAGES, Text, broken, msl, storage};
use crate::Result;

/// What a tensor of vectors begins at a multiple of.
const VECTOR_BYTES: usize = 16;

/// Numbers of a vector.
const LANES: usize = 4;

/// The most groups along a dimension. Kernels go on with what is left, so that fewer are enough.
pub(super) const MAX_GROUPS: usize = 65_535;

/// The kernel of this name.
pub(super) fn text(name: &str) -> Result<&'static Text> {
    let found = msl::TEXTS.iter().find(|it| it.name == name);
    found.ok_or_else(|| broken(format!("there is no kernel `{name}` for Metal")))
}

/// A kernel with its arguments, in the order of its slots.
pub(super) struct Launch {
    text: &'static Text,
    /// The first of the two storages of the dtype.
    storage: usize,
    /// Whether rows are whole vectors.
    in_vectors: bool,
    /// By slot, without the values.
    tensors: Vec<Tensor>,
    values: Vec<u8>,
}

/// All that a device has to be told.
#[cfg_attr(
    not(any(test, all(target_os = "macos", feature = "metal"))),
    expect(dead_code, reason = "tested everywhere, used on macOS")
)]
pub(super) struct Dispatch<'a> {
    pub(super) text: &'static Text,
    /// Its place among [`STORAGES`].
    pub(super) storage: usize,
    /// By slot, without the values. Each begins where its first number lies.
    pub(super) tensors: &'a [Tensor],
    pub(super) values: &'a [u8],
    /// Along x and y.
    pub(super) groups: [usize; 2],
}

impl Launch {
    /// The kernel `name` for numbers of this dtype, in rows of these widths.
    pub(super) fn of(name: &str, dtype: DType, widths: &[usize]) -> Result<Self> {
        let no_storage = || broken(format!("`{name}` for Metal got {}", dtype.as_str()));
        Ok(Self {
            text: text(name)?,
            storage: storage(dtype).ok_or_else(no_storage)?,
            in_vectors: widths.iter().all(|width| width.is_multiple_of(LANES)),
            tensors: Vec::new(),
            values: Vec::new(),
        })
    }

    /// The next slots, of contiguous tensors.
    pub(super) fn tensors(self, tensors: &[&Tensor]) -> Result<Self> {
        match tensors.iter().all(|it| it.is_contiguous()) {
            true => Ok(self.strided(tensors)),
            false => {
                let problem = format!("`{}` got a tensor with strides", self.text.name);
                Err(broken(problem))
            }
        }
    }

    /// The next slots, of tensors whose strides are among the values and, for vectors, among the widths.
    pub(super) fn strided(mut self, tensors: &[&Tensor]) -> Self {
        self.tensors.extend(tensors.iter().map(|it| (*it).clone()));
        self
    }

    /// The next values, as whole numbers.
    pub(super) fn whole(mut self, numbers: &[usize]) -> Result<Self> {
        for &number in numbers {
            let number = u32::try_from(number)
                .map_err(|_| broken(format!("`{}` can’t count to {number}", self.text.name)))?;
            self.values.extend(number.to_le_bytes());
        }
        Ok(self)
    }

    /// The next values, as f32.
    pub(super) fn numbers(mut self, numbers: &[f64]) -> Self {
        let bytes = numbers.iter().flat_map(|it| (*it as f32).to_le_bytes());
        self.values.extend(bytes);
        self
    }

    /// A group for each row.
    pub(super) fn for_rows(self, rows: usize) -> Result<()> {
        self.groups([rows, 1])
    }

    /// A thread for each of so many numbers, or for each vector of them.
    pub(super) fn for_each(self, count: usize) -> Result<()> {
        let groups = self.groups_of(count);
        self.groups([groups, 1])
    }

    /// A thread for each of so many lines, however many numbers they have.
    pub(super) fn for_lines(self, count: usize) -> Result<()> {
        let groups = count.div_ceil(self.text.threads);
        self.groups([groups, 1])
    }

    /// Groups of threads of which `across` have a column each, or a vector of columns, in each part of the rows.
    pub(super) fn for_channels(self, width: usize, across: usize, parts: usize) -> Result<()> {
        let groups = width.div_ceil(self.lanes() * across);
        self.groups([groups, parts])
    }

    /// A thread for each column, or for each vector of columns, in each part of the rows.
    pub(super) fn for_columns(self, width: usize, parts: usize) -> Result<()> {
        let groups = self.groups_of(width);
        match groups.max(parts) <= MAX_GROUPS {
            true => self.groups([groups, parts]),
            // Here a group has its own place, and goes on with no other.
            false => Err(broken(format!(
                "`{}` can’t take {width} columns in {parts} parts",
                self.text.name
            ))),
        }
    }

    /// A thread for each of the numbers of some tensors, the largest of which has so many, or for each vector of them.
    pub(super) fn for_tensors(self, largest: usize, tensors: usize) -> Result<()> {
        let groups = self.groups_of(largest);
        self.groups([groups, tensors])
    }

    fn groups_of(&self, count: usize) -> usize {
        count.div_ceil(self.lanes() * self.text.threads)
    }

    /// Numbers that a thread takes at a time.
    fn lanes(&self) -> usize {
        let begins = |it: &Tensor| offset_bytes(it).is_multiple_of(VECTOR_BYTES);
        match self.in_vectors && self.tensors.iter().all(begins) {
            true => LANES,
            false => 1,
        }
    }

    /// So many groups along x and y.
    pub(super) fn groups(mut self, groups: [usize; 2]) -> Result<()> {
        if groups.contains(&0) {
            return Ok(());
        }
        let buffers = |it: &&Binding| matches!(it, Binding::Read | Binding::Write);
        let wanted = self.text.bindings.iter().filter(buffers).count();
        let size = self.text.bindings.iter().find_map(|it| match it {
            Binding::Values(size) => Some(*size),
            _ => None,
        });
        let size = size.unwrap_or_default();
        let storage = self.storage + usize::from(self.lanes() == 1);
        if wanted != self.tensors.len() || size < self.values.len() {
            return Err(broken(format!(
                "`{}_{}` takes {wanted} tensors with {size} bytes of values, and got {} with {}",
                STORAGES[storage],
                self.text.name,
                self.tensors.len(),
                self.values.len()
            )));
        }
        self.values.resize(size, 0);
        dispatch(&Dispatch {
            text: self.text,
            storage,
            tensors: &self.tensors,
            values: &self.values,
            groups: groups.map(|it| it.min(MAX_GROUPS)),
        })
    }
}

/// Where the first number of a tensor lies in its buffer.
pub(super) fn offset_bytes(tensor: &Tensor) -> usize {
    tensor.layout().start_offset() * tensor.dtype().size_in_bytes()
}

/// Has a device compile a kernel.
///
/// Errors: its compiler's words.
#[cfg(all(not(test), target_os = "macos", feature = "metal"))]
pub(super) fn prepare(device: &Device, text: &'static Text, storage: usize) -> Result<()> {
    super::device::pipeline(device, text, storage).map(drop)
}

#[cfg(all(not(test), target_os = "macos", feature = "metal"))]
fn dispatch(dispatch: &Dispatch) -> Result<()> {
    super::device::run(dispatch)
}

#[cfg(test)]
pub(super) fn prepare(_: &Device, text: &'static Text, storage: usize) -> Result<()> {
    super::tests::stand_in::prepare(text, storage)
}

#[cfg(test)]
fn dispatch(dispatch: &Dispatch) -> Result<()> {
    super::tests::stand_in::run(dispatch)
}

/// Other programs have no texts: see [`super::IS_BUILT`].
#[cfg(not(any(test, all(target_os = "macos", feature = "metal"))))]
pub(super) fn prepare(_: &Device, text: &'static Text, storage: usize) -> Result<()> {
    let (name, storage) = (text.name, STORAGES[storage]);
    Err(broken(format!("`{storage}_{name}` needs Metal")))
}

#[cfg(not(any(test, all(target_os = "macos", feature = "metal"))))]
fn dispatch(dispatch: &Dispatch) -> Result<()> {
    match dispatch.tensors.first() {
        Some(first) => prepare(first.device(), dispatch.text, dispatch.storage),
        None => Ok(()),
    }
}
