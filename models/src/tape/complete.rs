//! Gradients that are complete while the way back goes on, for whoever begins to use them meanwhile: ranks that add them up.

use std::collections::{BTreeMap, BTreeSet};

use candle_core::{DType, Tensor};

use super::{Gradients, Moment, Step};
use crate::Result;

/// A gradient of fewer bytes than this part of those that are told of at once is not told of: small ones are added up faster side by
/// side, at the end.
const SMALL: usize = 64;

/// Gradients that no later operation of a pass changes.
#[derive(Debug, Clone)]
pub struct Complete {
    /// Of which parameters. Each is contiguous, in f32, in memory that nothing else uses.
    pub names: Vec<String>,
    /// When the last of them was.
    pub since: Moment,
}

/// Finds what is complete on the way back through one pass.
pub(super) struct Completion {
    /// The parameters that an operation is the first to use, by its place: after the way back through it nothing is added to
    /// their gradients.
    after: BTreeMap<usize, Vec<String>>,
    /// Those which are complete, and nobody was told.
    waiting: Vec<String>,
    bytes: usize,
    bytes_at_once: usize,
    found: Vec<Complete>,
}

impl Completion {
    /// For a pass of these operations. `parameters` are the slots of the parameters.
    pub(super) fn of(
        bytes_at_once: usize,
        steps: &[Step],
        parameters: &BTreeMap<String, usize>,
    ) -> Self {
        let names: BTreeMap<usize, &String> =
            parameters.iter().map(|(name, at)| (*at, name)).collect();
        let mut seen = BTreeSet::new();
        let mut after = BTreeMap::<usize, Vec<String>>::new();
        for (place, step) in steps.iter().enumerate() {
            let inputs = step.inputs.iter().flatten();
            let inputs = inputs.filter_map(|slot| names.get(slot).copied());
            for name in inputs.chain(&step.inside) {
                if seen.insert(name) {
                    after.entry(place).or_default().push(name.clone());
                }
            }
        }
        Self {
            after,
            waiting: Vec::new(),
            bytes: 0,
            bytes_at_once,
            found: Vec::new(),
        }
    }

    /// Notes that the way back through the operation at this place is over. Gradients that are complete then move from where they
    /// were `collected` to the others, once there are enough.
    pub(super) fn passed(
        &mut self,
        place: usize,
        parameters: &BTreeMap<String, usize>,
        collected: &mut [Option<Tensor>],
        gradients: &mut Gradients,
    ) -> Result<()> {
        let Some(names) = self.after.remove(&place) else {
            return Ok(());
        };
        for name in names {
            let slot = parameters.get(&name);
            let own = slot.and_then(|slot| collected[*slot].as_ref());
            let gradient = own.or_else(|| gradients.get(&name));
            let bytes = gradient.map_or(0, |it| it.elem_count() * it.dtype().size_in_bytes());
            if bytes * SMALL >= self.bytes_at_once {
                self.bytes += bytes;
                self.waiting.push(name);
            }
        }
        if self.bytes < self.bytes_at_once {
            return Ok(());
        }
        self.bytes = 0;
        #[cfg(feature = "cuda")]
        crate::ops::kernels::cuda::side::join()?;
        let mut names = std::mem::take(&mut self.waiting);
        for name in &names {
            let slot = parameters.get(name);
            if let Some(gradient) = slot.and_then(|slot| collected[*slot].take()) {
                gradients.add(name, gradient)?;
            }
        }
        names.retain(|name| gradients.get(name).is_some());
        // What is still on its way back, was told before, or waits for the end, may lie in the same memory.
        let on_its_way = collected.iter().flatten();
        let others = gradients
            .iter()
            .filter(|it| !names.iter().any(|name| name == it.0));
        let others = on_its_way.chain(others.map(|it| it.1));
        let mut used: BTreeSet<_> = others.map(Extent::of).collect();
        for name in &names {
            own_memory(gradients, name, &mut used)?;
        }
        if let Some(last) = names.last().and_then(|name| gradients.get(name)) {
            let since = Moment::now(last)?;
            self.found.push(Complete { names, since });
        }
        Ok(())
    }

    /// What was complete before the end, told of so many bytes at once.
    pub(super) fn found(self) -> (usize, Vec<Complete>) {
        (self.bytes_at_once, self.found)
    }
}

impl Gradients {
    /// Gives each gradient memory of its own, as contiguous numbers in f32, so that it can be written to.
    pub fn separate(&mut self) -> Result<()> {
        let complete = self.complete.iter().flat_map(|it| &it.1);
        let complete: BTreeSet<&String> = complete.flat_map(|it| &it.names).collect();
        let (complete, rest): (Vec<_>, Vec<_>) = self
            .by_name
            .keys()
            .cloned()
            .partition(|name| complete.contains(name));
        let mut used = BTreeSet::new();
        for name in complete.iter().chain(&rest) {
            own_memory(self, name, &mut used)?;
        }
        Ok(())
    }
}

/// Gives a gradient other memory where some of its is `used`, as contiguous numbers in f32. It is used from here on.
fn own_memory(gradients: &mut Gradients, name: &str, used: &mut BTreeSet<Extent>) -> Result<()> {
    let Some(gradient) = gradients.by_name.get_mut(name) else {
        return Ok(());
    };
    *gradient = gradient.to_dtype(DType::F32)?.contiguous()?;
    if Extent::of(gradient).overlaps_any(used) {
        *gradient = gradient.force_contiguous()?;
    }
    used.insert(Extent::of(gradient));
    Ok(())
}

/// The part of some memory in which a tensor is.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Extent {
    storage: usize,
    start: usize,
    end: usize,
}

impl Extent {
    fn of(tensor: &Tensor) -> Self {
        let (storage, layout) = tensor.storage_and_layout();
        let (start, end) = layout.contiguous_offsets().unwrap_or((0, usize::MAX));
        Self {
            storage: std::ptr::from_ref(&*storage).addr(),
            start,
            end,
        }
    }

    fn overlaps_any(&self, others: &BTreeSet<Self>) -> bool {
        let from = |storage| Self {
            storage,
            start: 0,
            end: 0,
        };
        let mut of_storage = others.range(from(self.storage)..from(self.storage + 1));
        of_storage.any(|other| self.start < other.end && other.start < self.end)
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;
    use crate::{
        ops::elementwise::add,
        tape::{Tape, Value},
    };

    const NUMBERS: usize = 4;
    const BYTES: usize = NUMBERS * 4;

    fn ones() -> Tensor {
        Tensor::ones(NUMBERS, DType::F32, &Device::Cpu).unwrap()
    }

    /// x + w, and w again where a tape keeps nothing: a is used first and last, d inside of a segment.
    fn loss(tape: &Tape) -> Value {
        let weight = |tape: &Tape, name: &str| tape.parameter(name, ones());
        let mut x = add(&Value::constant(ones()), &weight(tape, "a")).unwrap();
        x = add(&x, &weight(tape, "b")).unwrap();
        x = add(&x, &weight(tape, "c")).unwrap();
        let segment = move |tape: &Tape, x: &Value| add(x, &weight(tape, "d"));
        x = tape.checkpoint(&x, segment).unwrap();
        add(&x, &weight(tape, "a")).unwrap()
    }

    fn gradients(bytes_at_once: Option<usize>) -> Gradients {
        let mut gradients = Gradients::default();
        if let Some(bytes) = bytes_at_once {
            gradients.note_complete(bytes);
        }
        let tape = Tape::new(0);
        let loss = loss(&tape);
        tape.backward(&loss, 1.0, &mut gradients).unwrap();
        gradients
    }

    fn told(bytes_at_once: usize) -> Vec<Vec<String>> {
        let complete = gradients(Some(bytes_at_once)).take_complete();
        complete.into_iter().map(|it| it.names).collect()
    }

    #[test]
    fn a_gradient_is_complete_after_the_first_use_of_its_weight() {
        assert_eq!(told(1), [["d"], ["c"], ["b"], ["a"]]);
        assert_eq!(told(2 * BYTES), [["d", "c"], ["b", "a"]]);
        assert!(told(9 * BYTES).is_empty());
        // Small ones don’t count, however many they are.
        assert!(told((SMALL + 1) * BYTES).is_empty());
    }

    #[test]
    fn what_is_complete_has_the_numbers_of_any_pass_in_memory_of_its_own() {
        let expected = gradients(None);
        let mut early = gradients(Some(1));
        early.separate().unwrap();
        let mut seen = BTreeSet::new();
        for ((name, expected), (other, gradient)) in expected.iter().zip(early.iter()) {
            let numbers = |it: &Tensor| it.to_vec1::<f32>().unwrap();
            assert_eq!((name, numbers(expected)), (other, numbers(gradient)));
            // All are the gradient of the sum, which is one tensor.
            assert!(!Extent::of(gradient).overlaps_any(&seen), "{name}");
            seen.insert(Extent::of(gradient));
        }
        assert_eq!(seen.len(), 4);
    }
}
