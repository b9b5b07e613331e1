//! Every kernel, in every storage, against a reference in f64.

use crate::{
    device::{Bound, Gpu},
    kernels::{self, STORAGES},
    references,
    storage::{Storage, wide},
};

/// One comparison.
pub struct Outcome {
    pub storage: &'static str,
    pub what: String,
    /// The largest difference over the largest number of the reference.
    pub error: f64,
    /// What rounding explains.
    pub tolerance: f64,
    /// What went wrong besides numbers.
    pub problem: Option<String>,
}

impl Outcome {
    /// Whether it is as it should be.
    pub fn is_right(&self) -> bool {
        self.problem.is_none() && self.error <= self.tolerance
    }
}

/// The text of a kernel, for a storage.
pub type Source<'a> = &'a dyn Fn(&str, &str) -> String;

/// A text as it is committed.
pub fn committed(kernel: &str, storage: &str) -> String {
    kernels::find(kernel).source(storage)
}

/// Compares the kernels of families whose name begins so, in all storages.
pub fn all(gpu: &Gpu, family: &str, source: Source) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for storage in STORAGES {
        for (_, compare) in references::FAMILIES
            .iter()
            .filter(|it| it.0.starts_with(family))
        {
            let mut check = Check {
                gpu,
                source,
                storage: Storage(storage),
                outcomes: Vec::new(),
            };
            compare(&mut check);
            outcomes.append(&mut check.outcomes);
        }
    }
    outcomes
}

/// What is bound, in the order of the slots.
pub(crate) enum Data<'a> {
    /// In the storage of the kernel.
    Numbers(&'a [f64]),
    /// So many zeros of that storage, to be written.
    Empty(usize),
    /// f32.
    Wide(&'a [f64]),
    /// So many zeros in f32, to be written.
    EmptyWide(usize),
    Whole(&'a [u32]),
    /// So many zeros of that kind, to be written.
    EmptyWhole(usize),
}

/// One field of the values that are handed over.
#[derive(Clone, Copy)]
pub(crate) enum Field {
    U(usize),
    F(f64),
}

/// Compares in one storage, and notes what came of it.
pub(crate) struct Check<'a> {
    gpu: &'a Gpu,
    source: Source<'a>,
    pub(crate) storage: Storage,
    outcomes: Vec<Outcome>,
}

impl Check<'_> {
    /// Runs a kernel, and returns the bytes of what is bound at each slot.
    ///
    /// Where it wrote behind a buffer, that is noted, and nothing returned.
    pub(crate) fn run(
        &mut self,
        kernel: &str,
        data: &[Data],
        fields: &[Field],
        groups: [usize; 2],
    ) -> Option<Vec<Vec<u8>>> {
        let mut bound: Vec<Bound> = data
            .iter()
            .map(|it| self.gpu.buffer(&self.bytes(it)))
            .collect();
        let values: Vec<u8> = fields
            .iter()
            .flat_map(|field| match *field {
                Field::U(it) => (it as u32).to_le_bytes(),
                Field::F(it) => (it as f32).to_le_bytes(),
            })
            .collect();
        bound.push(self.gpu.values(&values));
        let pipeline = self.gpu.pipeline(&(self.source)(kernel, self.storage.0));
        let groups = groups.map(|it| it as u32);
        let result = self
            .gpu
            .dispatch(&pipeline, &bound, groups, 1)
            .and_then(|_| {
                let read = bound[..data.len()].iter().map(|it| self.gpu.read(it));
                read.collect::<Result<Vec<_>, _>>()
            });
        match result {
            Ok(bytes) => Some(bytes),
            Err(problem) => {
                self.note(kernel.to_owned(), f64::INFINITY, 0.0, Some(problem));
                None
            }
        }
    }

    fn bytes(&self, data: &Data) -> Vec<u8> {
        match data {
            Data::Numbers(it) => self.storage.encode(it),
            Data::Empty(count) => self.storage.encode(&vec![0.0; *count]),
            Data::Wide(it) => it
                .iter()
                .flat_map(|it| (*it as f32).to_le_bytes())
                .collect(),
            Data::Whole(it) => it.iter().flat_map(|it| it.to_le_bytes()).collect(),
            Data::EmptyWide(count) | Data::EmptyWhole(count) => vec![0; count * 4],
        }
    }

    /// Compares numbers in the storage of the kernel.
    pub(crate) fn same(&mut self, what: &str, got: &[u8], want: &[f64]) {
        let got = self.storage.decode(got);
        self.compare(what, &got, want, self.storage.rounding());
    }

    /// Compares f32, which sums, losses and moments are in every storage.
    pub(crate) fn same_wide(&mut self, what: &str, got: &[u8], want: &[f64]) {
        self.compare(what, &wide(got), want, 2e-6);
    }

    pub(crate) fn compare(&mut self, what: &str, got: &[f64], want: &[f64], tolerance: f64) {
        let largest = want.iter().fold(1e-30, |most: f64, it| it.abs().max(most));
        let far = got
            .iter()
            .zip(want)
            .fold(0.0, |most: f64, (a, b)| match a.is_finite() {
                true => (a - b).abs().max(most),
                false => f64::INFINITY,
            });
        let problem =
            (got.len() != want.len()).then(|| format!("{} numbers, not {}", got.len(), want.len()));
        self.note(what.to_owned(), far / largest, tolerance, problem);
    }

    fn note(&mut self, what: String, error: f64, tolerance: f64, problem: Option<String>) {
        self.outcomes.push(Outcome {
            storage: self.storage.0,
            what,
            error,
            tolerance,
            problem,
        });
    }
}
