//! One row: a device against the reference, in numbers and in time.

use std::{process, thread, time::Duration, time::Instant};

use candle_core::{DType, Device};

use super::{
    CheckCase, CheckRow, Fallback, FaultKind, GENERATION, MEMORY, TRAINING, Verdict,
    trial::{Named, Operation, Run, Setup, Tolerance},
};
use crate::{Error, Result, device::dtype::Dtype, ops::kernels};

/// The share of the largest number that a wrong result is off by, when that is asked for.
const WRONG_BY: f32 = 0.25;

/// What is timed is repeated so often, or until it took so long in all.
const MAX_REPETITIONS: usize = 5;
const TIMEOUT: Duration = Duration::from_millis(300);

/// Slower than the CPU by a clear margin: so many times, and by so many milliseconds, since what is tiny takes longest
/// to start.
const SLOW_TIMES: f64 = 2.0;
const SLOW_MILLIS: f64 = 1.0;

/// A kernel is worse than what it stands for where it takes so many times as long, by so many milliseconds.
const WORSE_TIMES: f64 = 1.25;
const WORSE_MILLIS: f64 = 0.1;

/// What the reference computed: for each trial, the numbers of each result.
type Reference = Vec<Vec<Vec<f32>>>;

/// What the processor says of a case.
pub(super) struct Expected {
    reference: Reference,
    /// How long it takes with its own kernels, where the device is another.
    cpu_millis: Option<f64>,
}

/// What the processor computes and is timed with, one case after the other.
pub(super) struct Processor {
    is_compared: bool,
    /// The name of what was timed last, on what, and how long it took: the same in every dtype of the device.
    timed: Option<(&'static str, String, f64)>,
}

/// The worst of all results.
struct Worst {
    /// Not finite when a result isn't.
    error: f64,
    /// Where, as a sentence without its end.
    place: String,
}

impl Processor {
    /// For cases of this device.
    pub(super) fn beside(device: &Device) -> Self {
        Self {
            is_compared: !device.is_cpu(),
            timed: None,
        }
    }

    /// The reference of a case, and how long the operation takes here.
    pub(super) fn expected(&mut self, case: &CheckCase, operation: &Operation) -> Result<Expected> {
        let reference = kernels::without(|| reference(operation, case.dtype.into()))?;
        let is_timed = self.is_compared && case.operation != MEMORY;
        let cpu_millis = is_timed.then(|| self.millis(case, operation)).transpose()?;
        Ok(Expected {
            reference,
            cpu_millis,
        })
    }

    fn millis(&mut self, case: &CheckCase, operation: &Operation) -> Result<f64> {
        let last = operation.trials.last();
        let what = last.map_or("", |trial| &trial.what);
        if let Some((name, on, millis)) = &self.timed
            && *name == case.operation
            && on == what
        {
            return Ok(*millis);
        }
        let millis = millis(operation, &Setup::device(&Device::Cpu, Dtype::F32))?;
        self.timed = Some((case.operation, what.to_owned(), millis));
        Ok(millis)
    }
}

/// Tries one operation in one dtype.
pub(super) fn row(
    case: &CheckCase,
    operation: Operation,
    expected: Expected,
    device: &Device,
    fault: Option<FaultKind>,
) -> Result<CheckRow> {
    let dtype = DType::from(case.dtype);
    let tolerance = operation.tolerance.of(case.dtype);
    let Expected {
        reference,
        cpu_millis,
    } = expected;
    let place = Setup::device(device, case.dtype);
    let _chosen = kernels::choose(&[], place.narrows_products())?;
    let mut row = CheckRow::of(case, tolerance);
    if let Some(problem) = kernels::problem(case.operation, device, dtype) {
        // What is tried below would be the composition, which is the fallback.
        (row.verdict, row.message) = (Verdict::Missing, Some(problem));
        row.fallback = Some(composed_or_cpu(
            case, &operation, &reference, &place, fault,
        )?);
        return Ok(row);
    }
    let tried = compare(&operation, &reference, &place, fault).and_then(|worst| {
        let millis = match worst.error <= tolerance && case.operation != MEMORY {
            true => Some(millis(&operation, &place)?),
            false => None,
        };
        Ok((worst, millis))
    });
    match tried {
        Err(error) => (row.verdict, row.message) = (Verdict::Missing, Some(error.to_string())),
        Ok((worst, millis)) => {
            row.error = Some(worst.error).filter(|error| error.is_finite());
            row.device_millis = millis;
            if worst.error > tolerance || worst.error.is_nan() {
                (row.verdict, row.message) = (Verdict::Inexact, Some(worst.place));
            }
        }
    }
    if !row.verdict.is_exact() {
        row.fallback = Some(composed_or_cpu(
            case, &operation, &reference, &place, fault,
        )?);
    } else if let (Some(device_millis), Some(cpu_millis)) = (row.device_millis, cpu_millis) {
        row.cpu_millis = Some(cpu_millis);
        // A small model says nothing of speed: a device spends its time on starting one operation after another.
        let says_speed = ![TRAINING, GENERATION].contains(&case.operation);
        if says_speed && is_slow(device_millis, cpu_millis) {
            row.verdict = Verdict::Slow;
        }
        // How long they take nobody has seen before it was measured on a Mac.
        if device.is_metal() && kernels::NAMES.contains(&case.operation) {
            let _avoided = kernels::avoid(&[case.operation.to_owned()])?;
            compare_with_composed(&mut row, device_millis, millis(&operation, &place)?);
        }
    }
    Ok(row)
}

/// Leaves a kernel out that takes longer than what it stands for.
fn compare_with_composed(row: &mut CheckRow, own_millis: f64, composed_millis: f64) {
    row.composed_millis = Some(composed_millis);
    if own_millis > WORSE_TIMES * composed_millis && own_millis > composed_millis + WORSE_MILLIS {
        row.verdict = Verdict::Slow;
        row.fallback = Some(Fallback::Composed);
        row.message = Some(format!(
            "with its kernel it takes {own_millis:.2} ms, and without {composed_millis:.2}"
        ));
    }
}

/// What works instead of an operation that failed.
pub(super) fn fallback(
    case: &CheckCase,
    operation: &Operation,
    device: &Device,
    fault: Option<FaultKind>,
) -> Result<Fallback> {
    let dtype = DType::from(case.dtype);
    let reference = kernels::without(|| reference(operation, dtype))?;
    let place = Setup::device(device, case.dtype);
    composed_or_cpu(case, operation, &reference, &place, fault)
}

/// Tries the same without the operation's kernel, or what is more than one operation without any.
fn composed_or_cpu(
    case: &CheckCase,
    operation: &Operation,
    reference: &Reference,
    place: &Setup,
    fault: Option<FaultKind>,
) -> Result<Fallback> {
    // Composed, the products would be exact and not what was asked for.
    if place.narrows_products() {
        return Ok(Fallback::Cpu);
    }
    let own = kernels::NAMES.contains(&case.operation);
    let tried = match own {
        // A fault is one of the kernel.
        true => {
            let _avoided = kernels::avoid(&[case.operation.to_owned()])?;
            compare(operation, reference, place, None)
        }
        false => kernels::without(|| compare(operation, reference, place, fault)),
    };
    let tolerance = operation.tolerance.of(case.dtype);
    Ok(match tried {
        Ok(worst) if worst.error <= tolerance => Fallback::Composed,
        _ => Fallback::Cpu,
    })
}

fn is_slow(device_millis: f64, cpu_millis: f64) -> bool {
    device_millis > SLOW_TIMES * cpu_millis && device_millis > cpu_millis + SLOW_MILLIS
}

fn reference(operation: &Operation, rounded: DType) -> Result<Reference> {
    let place = Setup::reference(rounded);
    let numbers = |run: &Run| run()?.iter().map(numbers).collect::<Result<_>>();
    let trials = operation.trials.iter();
    trials
        .map(|trial| numbers(&(trial.prepare)(&place)?))
        .collect()
}

/// Runs every trial at a place, and finds the result that is furthest off.
fn compare(
    operation: &Operation,
    reference: &Reference,
    place: &Setup,
    fault: Option<FaultKind>,
) -> Result<Worst> {
    let mut worst = Worst {
        error: 0.0,
        place: String::new(),
    };
    for (trial, expected) in operation.trials.iter().zip(reference) {
        let run = (trial.prepare)(place)?;
        act_out(fault)?;
        let results = run()?;
        // Reading tells of an error in the last work only, this of any before it.
        place.device.synchronize()?;
        for (result, expected) in results.iter().zip(expected) {
            let mut got = numbers(result)?;
            if fault == Some(FaultKind::Wrong) {
                spoil(&mut got, expected);
            }
            let error = relative_error(&got, expected);
            // Nothing is further off than what is no number.
            if error > worst.error || error.is_nan() {
                let (name, what) = (&result.name, &trial.what);
                let place = match error.is_finite() {
                    true => format!("{name} is off by {error:.1e} on {what}"),
                    false => format!("{name} has numbers that are not finite on {what}"),
                };
                worst = Worst { error, place };
            }
            if !error.is_finite() {
                return Ok(worst);
            }
        }
    }
    Ok(worst)
}

/// Fails as asked.
pub(super) fn act_out(fault: Option<FaultKind>) -> Result<()> {
    match fault {
        None | Some(FaultKind::Wrong) => Ok(()),
        Some(FaultKind::Missing) => {
            let message = "the device refused, because a fault was asked for";
            Err(Error::Device(message.to_owned()))
        }
        Some(FaultKind::Crash) => process::abort(),
        Some(FaultKind::Hang) => loop {
            thread::sleep(Duration::from_secs(60));
        },
    }
}

fn spoil(got: &mut [f32], expected: &[f32]) {
    if let Some(first) = got.first_mut() {
        *first += WRONG_BY * largest(expected) as f32;
    }
}

/// The largest difference over the largest number expected. Infinite when a number is not finite that should be, or
/// is missing.
fn relative_error(got: &[f32], expected: &[f32]) -> f64 {
    if got.len() != expected.len() {
        return f64::INFINITY;
    }
    let mut difference = 0f64;
    for (&got, &expected) in got.iter().zip(expected) {
        if expected.is_finite() {
            if !got.is_finite() {
                return f64::INFINITY;
            }
            difference = difference.max((f64::from(got) - f64::from(expected)).abs());
        }
    }
    match difference {
        0.0 => 0.0,
        _ => difference / largest(expected),
    }
}

/// The largest finite number, without its sign.
fn largest(numbers: &[f32]) -> f64 {
    let finite = numbers.iter().filter(|number| number.is_finite());
    finite.fold(0.0, |largest, number| largest.max(f64::from(number.abs())))
}

fn numbers(result: &Named) -> Result<Vec<f32>> {
    let tensor = result.tensor.to_device(&Device::Cpu)?;
    Ok(tensor
        .to_dtype(DType::F32)?
        .flatten_all()?
        .to_vec1::<f32>()?)
}

/// The median time of the last trial, in milliseconds, after one that is not counted.
fn millis(operation: &Operation, place: &Setup) -> Result<f64> {
    let Some(trial) = operation.trials.last() else {
        return Ok(0.0);
    };
    let run = (trial.prepare)(place)?;
    run()?;
    place.device.synchronize()?;
    let started = Instant::now();
    let mut millis = Vec::new();
    while millis.is_empty() || (millis.len() < MAX_REPETITIONS && started.elapsed() < TIMEOUT) {
        let started = Instant::now();
        run()?;
        place.device.synchronize()?;
        millis.push(started.elapsed().as_secs_f64() * 1e3);
    }
    millis.sort_by(f64::total_cmp);
    Ok(millis[millis.len() / 2])
}

impl Tolerance {
    /// The largest error in a dtype.
    ///
    /// In f32 one hundred-thousandth, which is some hundred roundings, since an exponential or a division passes on
    /// many. The error of a sum grows with the root of its terms, so sums of more than 1024 may be off by more. In the
    /// narrower dtypes ten roundings: sums are f32 there too, and what is rounded are outputs and the few tensors between.
    pub(super) fn of(self, dtype: Dtype) -> f64 {
        let terms = match self {
            Self::Exactly(tolerance) => return tolerance,
            Self::Terms(terms) => terms as f64,
        };
        match dtype {
            Dtype::F32 => 1e-5 * (terms / 1024.0).sqrt().max(1.0),
            Dtype::Bf16 => 10.0 / 256.0,
            Dtype::F16 => 10.0 / 2048.0,
        }
    }
}

/// What an operation computes on the CPU in f32, as bits. Without the largest trial, to be quick.
#[cfg(test)]
pub(super) fn bits_on_the_cpu(operation: &Operation) -> Vec<u32> {
    let place = Setup::device(&Device::Cpu, Dtype::F32);
    let [trials @ .., _] = operation.trials.as_slice() else {
        return Vec::new();
    };
    let results = trials
        .iter()
        .flat_map(|it| (it.prepare)(&place).unwrap()().unwrap());
    let numbers = results.flat_map(|it| numbers(&it).unwrap());
    numbers.map(f32::to_bits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_the_largest_difference_over_the_largest_number() {
        assert_eq!(relative_error(&[1.0, -4.0], &[1.5, -4.0]), 0.125);
        assert_eq!(relative_error(&[0.0], &[0.0]), 0.0);
        assert_eq!(relative_error(&[1.0], &[0.0]), f64::INFINITY);
        assert_eq!(relative_error(&[], &[1.0]), f64::INFINITY);
    }

    #[test]
    fn a_number_that_is_not_finite_is_an_error_unless_the_reference_has_it_too() {
        for bad in [f32::NAN, f32::INFINITY] {
            assert_eq!(relative_error(&[bad, 1.0], &[2.0, 1.0]), f64::INFINITY);
            assert_eq!(relative_error(&[bad, 1.0], &[bad, 1.0]), 0.0);
        }
    }

    #[test]
    fn a_kernel_that_takes_clearly_longer_than_its_composition_is_left_out() {
        let case = CheckCase {
            group: "norms",
            operation: "rms_norm",
            dtype: Dtype::F32,
        };
        let measured = |own: f64, composed: f64| {
            let mut row = CheckRow::of(&case, 1e-5);
            compare_with_composed(&mut row, own, composed);
            row
        };
        let worse = measured(3.0, 2.0);
        assert_eq!(
            (worse.verdict, worse.fallback),
            (Verdict::Slow, Some(Fallback::Composed))
        );
        let message = "with its kernel it takes 3.00 ms, and without 2.00";
        assert_eq!(worse.message.as_deref(), Some(message));
        let checked = crate::device::Checked::from_rows(&[worse]);
        assert_eq!(checked.composed, ["rms_norm"]);
        for (own, composed) in [(1.0, 2.0), (2.2, 2.0), (0.05, 0.01)] {
            let row = measured(own, composed);
            assert_eq!((row.verdict, row.fallback), (Verdict::Ok, None));
            assert_eq!(row.composed_millis, Some(composed));
        }
    }

    #[test]
    fn slow_is_clearly_slower_and_long_enough_to_matter() {
        assert!(is_slow(10.0, 4.0));
        assert!(!is_slow(7.0, 4.0) && !is_slow(0.9, 0.1));
    }

    #[test]
    fn longer_sums_and_narrower_numbers_may_be_further_off() {
        let of = |terms, dtype| Tolerance::Terms(terms).of(dtype);
        assert_eq!(of(10, Dtype::F32), 1e-5);
        assert_eq!(of(4096, Dtype::F32), 2e-5);
        assert!(of(10, Dtype::Bf16) > of(10, Dtype::F16));
        assert_eq!(Tolerance::Exactly(0.5).of(Dtype::F16), 0.5);
    }
}
