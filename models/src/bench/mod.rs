//! The benchmark: how fast a device does what training and talking need, and what follows from it.
//!
//! A [`Workload`] is something that is timed; each kind of learning brings its own in a file of its own and adds them
//! to [`WORKLOADS`]. A [`BenchCase`] is one workload in one size, dtype and variation. [`measure`] times one case and should
//! run in a process of its own, so that its peak memory is its own and a crash ends nothing else.
//!
//! Seeds and shapes are fixed, so that two machines, or one machine in two months, do the same work. Deliberately
//! absent: where results are kept, and how devices and processes are chosen.

pub mod advice;
mod clock;
pub mod compare;
mod learning;
mod loader;
mod pictures;
pub mod published;
mod roofline;
mod size;
mod writing;

use candle_core::Device;
use serde::{Deserialize, Serialize};

pub use clock::{Clock, Measured, StepWork};
pub use roofline::ceilings;
pub use size::Size;

use crate::{
    Error, Result,
    device::{Choice, DeviceKind, dtype::Dtype, memory::memory},
    ops::kernels::{self, Computing},
    train::profile::{Profile, profile_steps},
};

/// Multiplies matrices. Its rate is what other workloads could reach where they compute.
pub const MATMUL: &str = "matmul";

/// Reads and writes memory. Its rate is what other workloads could reach where they read.
pub const BANDWIDTH: &str = "bandwidth";

/// Something that is timed.
pub struct Workload {
    /// As in a report: `lora_step`.
    pub name: &'static str,
    /// What a person reads: `LoRA step`.
    pub title: &'static str,
    /// What it is, in a sentence.
    pub about: &'static str,
    /// What of it is counted each second.
    pub unit: Unit,
    /// The workload that takes what this one makes, if it computes nothing itself. Then it has no dtype.
    pub feeds: Option<&'static str>,
    /// Whether its rates decide which device, dtype and batch are advised. Of those that do, the first decides the batch.
    pub advises: bool,
    /// What of it there is on such a device, for a number of rows that suits it.
    variations: fn(DeviceKind) -> Vec<Variation>,
    prepare: fn(&BenchCase, &BenchDevice) -> Result<Work>,
}

/// All workloads, in the order in which they are measured: those that others are compared with come first.
pub const WORKLOADS: &[&Workload] = &[
    &roofline::MATRICES,
    &roofline::MEMORY,
    &learning::LORA,
    &learning::FULL,
    &learning::SCRATCH,
    &writing::PROMPT,
    &writing::GENERATION,
    &loader::BATCHES,
    &pictures::STEP,
    &pictures::LOADER,
];

/// What is counted each second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "specta", derive(specta::Type))]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Tokens that are learned from, read or written.
    Tokens,
    /// Multiplications and additions, each counted as one.
    Operations,
    /// Bytes of memory, read or written.
    Bytes,
    /// Batches that are made and brought to the device.
    Batches,
    /// Pictures that are learned from, or made into batches.
    Pictures,
}

/// What differs between cases of one workload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Variation {
    /// Rows in a batch, where there are batches.
    pub rows: Option<usize>,
    /// Threads that prepare batches, where batches are prepared.
    pub workers: Option<usize>,
}

/// One thing to measure.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BenchCase {
    /// The workload's name.
    pub workload: String,
    /// How large the model is.
    pub size: Size,
    /// What is computed in. Nothing where nothing is computed.
    pub dtype: Option<Dtype>,
    /// Rows and workers.
    #[serde(flatten)]
    pub variation: Variation,
}

/// What came of a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BenchRow {
    /// What was measured.
    #[serde(flatten)]
    pub case: BenchCase,
    /// What a person reads: `SmolLM2-135M's shape, 4 rows of 256 tokens`.
    pub config: String,
    /// What is counted each second.
    pub unit: Unit,
    /// What it took. Nothing when it could not be measured.
    pub measured: Option<Measured>,
    /// Why it could not be measured.
    pub problem: Option<String>,
}

/// Where a case is measured.
pub struct BenchDevice {
    /// The open device on which models are made and timed.
    pub device: Device,
    /// What was chosen, for plans.
    pub choice: Choice,
    /// The operations whose kernels are wrong there.
    pub avoid_kernels: Vec<String>,
}

/// A case that is ready to be timed.
struct Work {
    /// What one step does.
    step: StepWork,
    /// What a person reads: `4 rows of 256 tokens`.
    config: String,
    /// Takes one, at the end of which the device may still be computing.
    take: Box<dyn FnMut() -> Result<()>>,
}

impl BenchCase {
    /// The workload, if this version knows it.
    pub fn workload(&self) -> Option<&'static Workload> {
        WORKLOADS
            .iter()
            .copied()
            .find(|it| it.name == self.workload)
    }

    /// What a person reads: `LoRA step`. A workload of another version has its name alone.
    pub fn title(&self) -> &str {
        self.workload().map_or(&self.workload, |it| it.title)
    }

    /// What is computed in, as a type.
    fn compute(&self) -> Dtype {
        self.dtype.unwrap_or(Dtype::F32)
    }

    /// What tensors are kept in.
    fn tensors(&self, place: &BenchDevice) -> Dtype {
        self.compute().kept_in(place.device.is_cpu())
    }

    /// Has this thread compute as the case says, until what is returned is dropped.
    fn choose_kernels(&self, place: &BenchDevice) -> Result<Computing> {
        kernels::choose(
            &place.avoid_kernels,
            self.compute().narrows_products(place.device.is_cpu()),
        )
    }

    /// The rows of its batches.
    fn rows(&self) -> usize {
        self.variation.rows.unwrap_or(1)
    }
}

impl BenchRow {
    /// A case that could not be measured.
    pub fn not_measured(case: BenchCase, problem: impl Into<String>) -> Self {
        let unit = case.workload().map_or(Unit::Tokens, |it| it.unit);
        Self {
            case,
            config: String::new(),
            unit,
            measured: None,
            problem: Some(problem.into()),
        }
    }

    /// What of the unit was done each second, in a median step.
    pub fn per_second(&self) -> Option<f64> {
        self.measured.as_ref().map(Measured::per_second)
    }
}

/// What is measured on such a device in these dtypes, in order.
pub fn cases(size: Size, kind: DeviceKind, dtypes: &[Dtype]) -> Vec<BenchCase> {
    let mut cases = Vec::new();
    for workload in WORKLOADS {
        let dtypes: Vec<Option<Dtype>> = match workload.feeds {
            Some(_) => vec![None],
            None => dtypes.iter().copied().map(Some).collect(),
        };
        for dtype in dtypes {
            for variation in (workload.variations)(kind) {
                cases.push(BenchCase {
                    workload: workload.name.to_owned(),
                    size,
                    dtype,
                    variation,
                });
            }
        }
    }
    cases
}

/// Measures a case for so many seconds, or until `stop` says so. What goes wrong is in the row.
pub fn measure(
    case: BenchCase,
    place: &BenchDevice,
    seconds: f64,
    stop: &dyn Fn() -> bool,
) -> BenchRow {
    let measured = (|| {
        let _chosen = case.choose_kernels(place)?;
        let (unit, mut work) = prepare(&case, place)?;
        place.device.synchronize()?;
        let clock = Clock::start(seconds, stop);
        let mut millis = Vec::new();
        while !clock.is_over() {
            millis.push(clock::time(|| work.take_whole(&place.device))?);
        }
        let peak_bytes = memory(&place.device)?.peak_bytes;
        let measured = Measured::new(&millis, work.step, peak_bytes)?;
        Ok::<_, Error>((measured, work.config, unit))
    })();
    match measured {
        Ok((measured, config, unit)) => BenchRow {
            case,
            config,
            unit,
            measured: Some(measured),
            problem: None,
        },
        Err(error) => BenchRow::not_measured(case, error.to_string()),
    }
}

/// Takes a few steps of a case and says where they spend their time and memory. Nothing when `stop` says so.
///
/// Errors: [`Error::Data`] where this version does not know the workload, or what went wrong in it.
pub fn profile(
    case: &BenchCase,
    place: &BenchDevice,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Profile>> {
    let _chosen = case.choose_kernels(place)?;
    let (_, mut work) = prepare(case, place)?;
    profile_steps(&place.device, &mut || work.take_whole(&place.device), stop)
}

/// A case that is ready to be timed, and what of it is counted.
fn prepare(case: &BenchCase, place: &BenchDevice) -> Result<(Unit, Work)> {
    let unknown = || Error::Data(format!("this version does not know `{}`", case.workload));
    let workload = case.workload().ok_or_else(unknown)?;
    Ok((workload.unit, (workload.prepare)(case, place)?))
}

impl Work {
    /// Takes a step, after which the device has done all its work.
    fn take_whole(&mut self, device: &Device) -> Result<()> {
        (self.take)()?;
        Ok(device.synchronize()?)
    }
}

/// The only variation of a workload that has none.
fn just_one(_: DeviceKind) -> Vec<Variation> {
    vec![Variation::default()]
}

#[cfg(test)]
mod tests;
