//! The benchmark: every case in an engine of its own, on each device, in each dtype that passed the device check.

use std::{
    slice, thread,
    time::{Duration, Instant},
};

use models::{
    bench::{BANDWIDTH, BenchCase, BenchRow, MATMUL, Size, WORKLOADS, cases},
    check,
    device::{
        Checked, DeviceKind, FoundDevice, RequestedDevice,
        dtype::{DeviceClass, Dtype},
    },
};

use super::{Host, trial::Profiled};
use crate::{
    jobs::engine::Engine,
    power::supply::Power,
    store::{
        benchmarks::{self, BenchReport, FORMAT, MeasuredDevice, words_of},
        checks,
        in_use::{self, Work},
        runs::{self, Run},
    },
    wire::{
        engine::{Ask, Reply},
        error::{AppError, Result},
    },
};

/// How long a case is measured when nothing else is asked for.
pub(crate) const SECONDS: f64 = 5.0;
/// A case that says nothing for so long beyond its time hangs. A large model takes a while to be made.
const TIMEOUT: Duration = Duration::from_secs(300);
/// How often is looked whether a run that is running has ended.
const LOOK: Duration = Duration::from_millis(300);

/// What is asked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct BenchRequest {
    /// The devices, in order. None means all that can be used.
    pub(crate) devices: Vec<RequestedDevice>,
    /// How large the models are. Nothing means what suits the best of the devices.
    pub(crate) size: Option<Size>,
    /// How long a case is measured.
    pub(crate) seconds: Option<f64>,
    /// The workloads besides those that others are compared with. None means all.
    pub(crate) only: Vec<String>,
}

/// How far a benchmark is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum BenchNews<'a> {
    /// It waits for a run to end.
    Waits { run: Run },
    /// It waits for something else on a device to end.
    WaitsFor { work: Work, device: &'a FoundDevice },
    /// A device was not checked yet, and is.
    Checks { device: &'a FoundDevice },
    /// So many cases will be measured.
    Begun { cases: usize },
    /// One is being measured.
    Measures {
        device: &'a FoundDevice,
        case: &'a BenchCase,
    },
    /// One was.
    Measured {
        device: &'a FoundDevice,
        row: &'a BenchRow,
    },
}

impl Host {
    /// Measures devices, keeps what was found, and returns it.
    ///
    /// It waits until no run is running and nothing else is computed on its devices, in this process or another. A benchmark that
    /// `stop` ends is kept as far as it came, unless it has nothing.
    pub(crate) fn bench(
        &self,
        request: &BenchRequest,
        on_news: &mut dyn FnMut(BenchNews<'_>),
        stop: &dyn Fn() -> bool,
    ) -> Result<BenchReport> {
        refuse_unknown(&request.only)?;
        let mut waits = |run: &Run| on_news(BenchNews::Waits { run: run.clone() });
        wait_while(&|| self.run_that_goes_on(), &mut waits, stop);
        let devices = self.devices_to_measure(&request.devices)?;
        for device in &devices {
            let folder = self.in_use_folder(device.requested());
            let mut waits = |&work: &Work| on_news(BenchNews::WaitsFor { work, device });
            wait_while(&|| in_use::now(&folder).first().copied(), &mut waits, stop);
        }
        let (start, power) = (Instant::now(), Power::now());
        let size = request.size.unwrap_or_else(|| size_for(&devices));
        let mut warnings = Vec::new();
        let mut plans = Vec::new();
        for device in devices {
            match self.checked_for(&device, on_news, stop)? {
                Checked {
                    training_failed: Some(failed),
                    ..
                } => warnings.push(format!("{} was not measured: {failed}.", device.name)),
                checked => plans.push(Plan::new(device, size, &request.only, checked)),
            }
        }
        // The first case is measured once more at the end.
        on_news(BenchNews::Begun {
            cases: plans.iter().map(|plan| plan.cases.len() + 1).sum(),
        });
        let seconds = request.seconds.unwrap_or(SECONDS);
        let mut measured = Vec::new();
        for plan in plans {
            let device = plan.device.clone();
            let in_use = self.use_device(device.requested(), Work::Benchmark);
            measured.push(self.measure_device(plan, seconds, on_news, stop)?);
            let others = in_use.map_or_else(Vec::new, |in_use| in_use.others());
            warnings.extend(in_use::warning(&others, &device.name));
        }
        measured.retain(|it| !it.rows.is_empty());
        if stop() {
            warnings.push("Stopped before the end.".to_owned());
        }
        if measured.is_empty() {
            let why = warnings.first().cloned();
            let why = why.unwrap_or_else(|| "no device can be measured".to_owned());
            return Err(AppError::failed(format!("nothing was measured: {why}")));
        }
        let mut report = BenchReport {
            format: FORMAT,
            time: crate::store::now(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            system: checks::system(),
            size,
            seconds: start.elapsed().as_secs_f64(),
            power: power.or(Power::now()),
            warnings,
            imported: false,
            devices: measured,
        };
        // What was measured is worth more than its file.
        if let Err(error) = benchmarks::keep(&self.paths, &report) {
            let sentence = format!("It was not kept: {}.", error.message);
            report.warnings.push(sentence);
        }
        Ok(report)
    }

    /// How a benchmark compares with the one before it on this machine: whole sentences.
    pub(crate) fn since_last(&self, report: &BenchReport) -> Vec<String> {
        benchmarks::since_last(report, &benchmarks::list(&self.paths))
    }

    fn run_that_goes_on(&self) -> Option<Run> {
        let runs = runs::list(&self.paths).into_iter();
        let mut going = runs.filter(|run| run.is_locked().unwrap_or(false));
        going.next()
    }

    fn devices_to_measure(&self, asked: &[RequestedDevice]) -> Result<Vec<FoundDevice>> {
        let found = self.devices.found();
        let mut devices: Vec<FoundDevice> = match asked {
            [] => found.into_iter().filter(FoundDevice::is_usable).collect(),
            asked => asked
                .iter()
                .map(|&device| Ok(self.choose_device(Some(device), true, &found)?.device))
                .collect::<Result<_>>()?,
        };
        // Several engines may see the same device.
        let mut seen = Vec::new();
        devices.retain(|device| {
            let is_new = !seen.contains(&device.setting());
            seen.push(device.setting());
            is_new
        });
        Ok(devices)
    }

    /// What is known of a device, which is checked if it never was.
    fn checked_for(
        &self,
        device: &FoundDevice,
        on_news: &mut dyn FnMut(BenchNews<'_>),
        stop: &dyn Fn() -> bool,
    ) -> Result<Checked> {
        if let Some(report) = checks::find(&self.paths, device) {
            return Ok(report.checked());
        }
        on_news(BenchNews::Checks { device });
        let report = self.check(Some(device.requested()), &[], &mut |_| {}, stop)?;
        Ok(report.checked())
    }

    fn measure_device(
        &self,
        plan: Plan,
        seconds: f64,
        on_news: &mut dyn FnMut(BenchNews<'_>),
        stop: &dyn Fn() -> bool,
    ) -> Result<MeasuredDevice> {
        let device = &plan.device;
        let mut rows = Vec::new();
        for case in &plan.cases {
            if stop() {
                break;
            }
            on_news(BenchNews::Measures { device, case });
            let row = self.measure_case(&plan, case, seconds, stop)?;
            if stop() && row.measured.is_none() {
                break;
            }
            on_news(BenchNews::Measured { device, row: &row });
            rows.push(row);
        }
        let mut sustained = None;
        let first = rows.first().filter(|row| row.case.workload == MATMUL);
        if let (Some(case), Some(first), false) = (plan.cases.first(), first, stop()) {
            on_news(BenchNews::Measures { device, case });
            let again = self.measure_case(&plan, case, seconds, stop)?;
            let rates = again.per_second().zip(first.per_second());
            sustained = rates.map(|(again, first)| again / first);
            on_news(BenchNews::Measured {
                device,
                row: &again,
            });
        }
        Ok(MeasuredDevice {
            device: plan.device,
            sustained,
            rows,
        })
    }

    /// Profiles what is usual of a workload on a device. Returns the case with where it spends its time and memory, or nothing when it
    /// was stopped.
    pub(crate) fn profile_workload(
        &self,
        name: &str,
        size: Option<Size>,
        device: Option<RequestedDevice>,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<(BenchCase, Profiled)>> {
        refuse_unknown(&[name.to_owned()])?;
        let device = self
            .choose_device(device, true, &self.devices.found())?
            .device;
        let size = size.unwrap_or_else(|| size_for(slice::from_ref(&device)));
        let checked = self.checked_for(&device, &mut |_| {}, stop)?;
        let plan = Plan::new(device, size, &[name.to_owned()], checked);
        // As for advice: the last of what is computed in is the narrowest, the last of rows the most.
        let mut cases = plan.cases.into_iter().rev();
        let Some(case) = cases.find(|case| case.workload == name) else {
            return Err(AppError::failed(format!(
                "`{name}` is not for {}",
                plan.device.name
            )));
        };
        crate::store::make_folder_of(&self.paths.check_log)?;
        let mut engine = Engine::start(plan.device.kind, Some(&self.paths.check_log))?;
        engine.limit(TIMEOUT);
        let ask = Ask::ProfileCase {
            case: case.clone(),
            device: plan.device.requested(),
            avoid_kernels: plan.checked.composed,
        };
        let _in_use = self.use_device(plan.device.requested(), Work::Benchmark);
        let profiled = engine.ask_for(&ask, &mut Profiled::heard, stop)?;
        match profiled {
            None if !stop() => Err(AppError::failed("the engine said nothing of the case")),
            profiled => Ok(profiled.map(|it| (case, it))),
        }
    }

    /// Measures a case in an engine of its own. One that ends its engine is a row too.
    fn measure_case(
        &self,
        plan: &Plan,
        case: &BenchCase,
        seconds: f64,
        stop: &dyn Fn() -> bool,
    ) -> Result<BenchRow> {
        let log = &self.paths.check_log;
        crate::store::make_folder_of(log)?;
        let mut engine = match Engine::start(plan.device.kind, Some(log)) {
            Ok(engine) => engine,
            Err(error) => return Ok(BenchRow::not_measured(case.clone(), error.message)),
        };
        engine.limit(TIMEOUT + Duration::from_secs_f64(seconds));
        let ask = Ask::Bench {
            case: case.clone(),
            device: plan.device.requested(),
            avoid_kernels: plan.checked.composed.clone(),
            seconds,
        };
        let mut hear = |reply| match reply {
            Reply::Measured { row } => Some(*row),
            _ => None,
        };
        let why = match engine.ask_for(&ask, &mut hear, stop) {
            Ok(Some(row)) => return Ok(row),
            Ok(None) => "the engine said nothing".to_owned(),
            Err(error) => error.message,
        };
        Ok(BenchRow::not_measured(case.clone(), why))
    }
}

/// Waits while there is something to wait for, and says once of each what it is.
fn wait_while<T: PartialEq>(
    now: &dyn Fn() -> Option<T>,
    waits: &mut dyn FnMut(&T),
    stop: &dyn Fn() -> bool,
) {
    let mut waits_for = None;
    while let Some(there) = now().filter(|_| !stop()) {
        if waits_for.as_ref() != Some(&there) {
            waits(&there);
            waits_for = Some(there);
        }
        thread::sleep(LOOK);
    }
}

/// What is measured on one device.
struct Plan {
    device: FoundDevice,
    checked: Checked,
    cases: Vec<BenchCase>,
}

impl Plan {
    fn new(device: FoundDevice, size: Size, only: &[String], checked: Checked) -> Self {
        let mut dtypes = check::dtypes(DeviceClass::of(&device, false));
        // On Metal, bf16 counts as refused until all of it passed.
        let needs_check = |dtype| dtype == Dtype::Bf16 && device.kind == DeviceKind::Metal;
        // Nothing recommends f16: it is right for some models only.
        dtypes.retain(|&dtype| {
            dtype != Dtype::F16
                && !checked.refused_dtypes.contains(&dtype)
                && (checked.bf16 || !needs_check(dtype))
        });
        let mut cases = cases(size, device.kind, &dtypes);
        let ceilings = [MATMUL, BANDWIDTH];
        cases.retain(|case| {
            let name = &case.workload;
            only.is_empty() || only.contains(name) || ceilings.contains(&name.as_str())
        });
        Self {
            device,
            checked,
            cases,
        }
    }
}

/// What keeps the best of the devices busy, and is done by the others in a time that a person waits.
fn size_for(devices: &[FoundDevice]) -> Size {
    match devices.iter().all(|device| device.kind == DeviceKind::Cpu) {
        true => Size::Small,
        false => Size::Medium,
    }
}

fn refuse_unknown(names: &[String]) -> Result<()> {
    let known: Vec<&str> = WORKLOADS.iter().map(|it| it.name).collect();
    match names.iter().find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => Err(AppError::invalid(format!(
            "there is no workload `{name}`; there is {}",
            known.join(", ")
        ))),
    }
}

/// What is measured, as a progress bar names it.
pub(crate) fn words_of_case(case: &BenchCase) -> String {
    words_of(&BenchRow::not_measured(case.clone(), ""))
}
