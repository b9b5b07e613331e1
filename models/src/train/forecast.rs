//! What a run will take, from a few real steps: a trial takes them, and a forecast is fitted to what they took.
//!
//! Memory and time of a pass are a fixed part and a part for each unit, found from two sizes of a batch, the small one
//! first. Where the plan's own size was tried, the forecast is what that took; where it would not have fit, it is what
//! follows from the small one. Evaluations, samples and saves are measured once and counted as often as they are due.
//!
//! Of several devices each is taken to compute its part as the one does that is tried.
//!
//! Deliberately absent: what happens between steps when a device gets hot or is shared, and what several take to add up gradients,
//! which is measured when they are connected.

use std::time::Instant;

use candle_core::Device;
use serde::{Deserialize, Serialize};

use super::{
    Measuring, Task, TrainState,
    plan::{RunPlan, TrainPlan},
    share::Share,
    step::{Attempt, learn_from},
    task::OwnTrial,
    tree::Part,
    unused_memory::{device_of, memory_of},
};
use crate::{
    Error, Result,
    device::memory::{release, reset_peak},
    figures::{self, duration},
};

/// Steps at each size after those that warm up, and at most so many where they are short.
const STEPS: usize = 2;
const MAX_STEPS: usize = 10;
/// Short steps are repeated for so long.
const ENOUGH_SECONDS: f64 = 1.0;
/// The share of what is free that a trial may take: what is beyond is not tried.
const MAX_TRIED: f64 = 0.95;

/// What a trial measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Reading the data and the model.
    pub opening_seconds: f64,
    /// The most memory in use after the model was opened, where it is known.
    pub peak_bytes: Option<u64>,
    /// Steps of each size, the smaller first.
    pub sizes: Vec<TriedSize>,
    /// Units in a batch of the run on average, with padding.
    pub mean_units: f64,
    /// The longest row of the run.
    pub row_length: usize,
    /// One batch of held-out data, in milliseconds, and how many an evaluation has.
    pub evaluation: Option<(f64, usize)>,
    /// All samples, in milliseconds.
    pub sample_millis: Option<f64>,
    /// A save, in milliseconds.
    pub save_millis: Option<f64>,
    /// What its own steps take, where it has such: then nothing else was tried.
    #[serde(default)]
    pub own: Option<OwnTrial>,
}

/// Steps of one size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TriedSize {
    /// Rows in a batch.
    pub rows: usize,
    /// Units in each.
    pub length: usize,
    /// Steps that were measured.
    pub steps: usize,
    /// Forward and backward of one batch, on average.
    pub pass_millis: f64,
    /// What comes after the passes: the norm of the gradients and the update.
    pub update_millis: f64,
    /// How much longer the steps took that came before those.
    pub warm_up_millis: f64,
    /// The most memory in use since the trial of this size began, where it is known.
    pub peak_bytes: Option<u64>,
}

/// What a run will take.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Forecast {
    /// Steps that were measured.
    pub steps_tried: usize,
    /// Whether the plan's own size was tried, rather than only a smaller one.
    pub whole: bool,
    /// The most memory in use.
    pub peak_bytes: Option<u64>,
    /// What is in use whatever a batch has.
    pub fixed_bytes: Option<u64>,
    /// What each unit of a batch adds.
    pub bytes_per_unit: Option<f64>,
    /// What a pass takes whatever a batch has.
    pub fixed_millis: f64,
    /// What each unit adds to a pass.
    pub millis_per_unit: f64,
    /// A step, on average.
    pub step_millis: f64,
    /// The whole run, after it was opened.
    pub seconds: f64,
    /// Of it, evaluations, samples and saves.
    pub evaluation_seconds: f64,
    /// Reading the data and the model, before that.
    pub opening_seconds: f64,
}

/// What a plan with so many rows at once of so many units is estimated to take, in bytes.
pub type Needed<'a> = &'a dyn Fn(usize, usize) -> u64;

/// Takes a few steps of two sizes, an evaluation, a sample and a save. `save` says how long that took, and keeps nothing.
pub fn trial<T: Task, P: Part>(
    whole_plan: &TrainPlan<P>,
    task: &mut T,
    needed: Needed,
    opening_seconds: f64,
    save: &mut dyn FnMut(&mut TrainState, &T) -> Result<Option<f64>>,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Trial>> {
    let plan = &whole_plan.run;
    let _chosen = plan.choose_kernels()?;
    match task.own_trial(stop) {
        Ok(None) => {}
        Ok(own) => {
            return Ok(Some(Trial {
                opening_seconds,
                peak_bytes: memory_of(task).and_then(|memory| memory.peak_bytes),
                own,
                ..Trial::default()
            }));
        }
        Err(Error::Interrupted) => return Ok(None),
        Err(problem) => return Err(problem),
    }
    let mut state = state_of_one(whole_plan, task)?;
    // What was mapped to read a model is not counted: the system takes it back when it needs it.
    let mut peak_bytes = None;
    let (length, mean_units) = task.row_length(plan.batch.rows);
    let rows = plan.batch.rows;
    let small = match rows {
        1 => (1, length.div_ceil(2)),
        _ => (1, length),
    };
    let mut sizes = Vec::new();
    for size in [small, (rows, length)] {
        let fits = sizes.last().is_none_or(|last: &TriedSize| {
            let free = memory_of(task).map(|memory| memory.available_bytes + memory.used_bytes);
            let more = more_bytes(needed, last, size);
            let needed = last.peak_bytes.map(|peak| peak as f64 + more);
            needed
                .zip(free)
                .is_none_or(|(needed, free)| needed <= MAX_TRIED * free as f64)
        });
        if !fits {
            break;
        }
        let Some(size) = try_size(plan, task, &mut state, size, stop)? else {
            return Ok(None);
        };
        peak_bytes = peak_bytes.max(size.peak_bytes);
        sizes.push(size);
    }
    let evaluation = try_evaluation(plan, task)?;
    let sample_millis = match plan.sample.every {
        0 => None,
        _ => Some(timed(|| task.show())?),
    };
    let save_millis = save(&mut state, task)?.map(|seconds| seconds * 1e3);
    peak_bytes = peak_bytes.max(memory_of(task).and_then(|memory| memory.peak_bytes));
    Ok((!stop()).then_some(Trial {
        opening_seconds,
        peak_bytes,
        sizes,
        mean_units,
        row_length: length,
        evaluation,
        sample_millis,
        save_millis,
        own: None,
    }))
}

/// The state of a run, or of several devices that of one which computes all batches and keeps what it would.
fn state_of_one<T: Task, P: Part>(whole_plan: &TrainPlan<P>, task: &T) -> Result<TrainState> {
    let share = Share {
        rank: 0,
        world: whole_plan.run.devices,
    };
    let mut state = TrainState::of_rank(whole_plan, task, share)?;
    state.share = Share::ALL;
    Ok(state)
}

/// Steps of batches of so many rows and units, with a second batch where the plan has several for one update: it finds
/// the gradients of the first.
fn try_size<T: Task>(
    plan: &RunPlan,
    task: &mut T,
    state: &mut TrainState,
    (rows, length): (usize, usize),
    stop: &dyn Fn() -> bool,
) -> Result<Option<TriedSize>> {
    let count = plan.batch.accumulate.min(2);
    let device = device_of(task);
    if let Some(device) = &device {
        #[cfg(feature = "cuda")]
        state.recorded.forget(device);
        reset_peak(device);
    }
    let (mut pass, mut update, mut first) = (0.0, 0.0, 0.0);
    let mut steps = 0;
    // A GPU records the second of a form, and plays it from then on.
    let warm_ups = match device.as_ref().is_some_and(Device::is_cuda) {
        true => 2,
        false => 1,
    };
    for at in 0..warm_ups + MAX_STEPS {
        if stop() || (steps >= STEPS && pass + update > ENOUGH_SECONDS) {
            break;
        }
        let batches: Vec<T::Batch> = (0..count)
            .map(|_| task.full_batch(rows, length))
            .collect::<Result<_>>()?;
        let started = Instant::now();
        let attempt = learn_from(plan, task, state, &batches)?;
        if let Some(device) = &device {
            device.synchronize()?;
        }
        let seconds = started.elapsed().as_secs_f64();
        state.progress.step += 1;
        // The first takes memory and makes kernels.
        if at < warm_ups {
            first += seconds;
            continue;
        }
        steps += 1;
        // A step that could not be taken took its time all the same.
        let passes = match attempt {
            Attempt::Learned(learned) => learned.pass_seconds,
            Attempt::Rejected(_) | Attempt::RanOut(_) => seconds,
        };
        pass += passes;
        update += seconds - passes;
    }
    if steps == 0 || stop() {
        return Ok(None);
    }
    let peak_bytes = memory_of(task).and_then(|memory| memory.peak_bytes);
    if let Some(device) = &device {
        release(device)?;
    }
    Ok(Some(TriedSize {
        rows,
        length,
        steps,
        pass_millis: pass * 1e3 / (steps * count) as f64,
        update_millis: update * 1e3 / steps as f64,
        warm_up_millis: (first - warm_ups as f64 * (pass + update) / steps as f64).max(0.0) * 1e3,
        peak_bytes,
    }))
}

/// The milliseconds of a batch of held-out data, and how many an evaluation has. The first batch warms up.
fn try_evaluation<T: Task>(plan: &RunPlan, task: &mut T) -> Result<Option<(f64, usize)>> {
    let all = task.held_out_batches();
    let count = match plan.evaluate.batches {
        0 => all,
        most => most.min(all),
    };
    if plan.evaluate.every == 0 || count == 0 {
        return Ok(None);
    }
    let mut measuring = Measuring::alone(&|| true);
    task.evaluate(1, &mut measuring)?;
    let tried = count.min(STEPS);
    let millis = timed(|| task.evaluate(tried, &mut measuring))?;
    Ok(Some((millis / tried as f64, count)))
}

fn timed<R>(work: impl FnOnce() -> Result<R>) -> Result<f64> {
    let started = Instant::now();
    work()?;
    Ok(started.elapsed().as_secs_f64() * 1e3)
}

/// How much more a batch of so many rows and units takes than the one that was tried, by the estimate of each.
fn more_bytes(needed: Needed, tried: &TriedSize, (rows, length): (usize, usize)) -> f64 {
    needed(rows, length) as f64 - needed(tried.rows, tried.length) as f64
}

impl TriedSize {
    /// Units in a batch.
    pub fn units(&self) -> usize {
        self.rows * self.length
    }
}

impl Forecast {
    /// What follows from a trial of a plan. Nothing when nothing was tried.
    pub fn new(plan: &RunPlan, needed: Needed, trial: &Trial) -> Option<Self> {
        if let Some(own) = trial.own {
            return Some(Self {
                steps_tried: own.steps,
                whole: true,
                peak_bytes: trial.peak_bytes,
                step_millis: own.seconds * 1e3 / plan.steps.max(1) as f64,
                seconds: own.seconds,
                opening_seconds: trial.opening_seconds,
                ..Self::default()
            });
        }
        let last = trial.sizes.last()?;
        let most_units = plan.batch.rows * trial.row_length;
        let whole = last.units() == most_units;
        let (fixed_bytes, bytes_per_unit) = match memory_line(plan, needed, trial) {
            Some((fixed, slope)) => (Some(fixed as u64), Some(slope)),
            None => (None, None),
        };
        let at_most = fixed_bytes
            .zip(bytes_per_unit)
            .map(|(fixed, slope)| (fixed as f64 + slope * most_units as f64) as u64);
        let passes = trial.sizes.iter();
        let passes: Vec<_> = passes.map(|it| (it.units(), it.pass_millis)).collect();
        let (fixed_millis, millis_per_unit) = line(&passes);
        let pass_millis = fixed_millis + millis_per_unit * trial.mean_units;
        let passes = plan.batch.accumulate.div_ceil(plan.devices.max(1));
        let step_millis = passes as f64 * pass_millis + last.update_millis;
        let evaluation_seconds = evaluation_millis(plan, trial) / 1e3;
        // A run warms up as its trial did, at both sizes together.
        let warm_up_millis: f64 = trial.sizes.iter().map(|it| it.warm_up_millis).sum();
        let steps_millis = step_millis * plan.steps as f64 + warm_up_millis;
        Some(Self {
            steps_tried: trial.sizes.iter().map(|size| size.steps).sum(),
            whole,
            peak_bytes: trial.peak_bytes.max(at_most),
            fixed_bytes,
            bytes_per_unit,
            fixed_millis,
            millis_per_unit,
            step_millis,
            seconds: steps_millis / 1e3 + evaluation_seconds,
            evaluation_seconds,
            opening_seconds: trial.opening_seconds,
        })
    }
}

/// What a run takes: `about 12 min 40 s and 9.6 GB of memory, of 21.4 GB free`.
pub fn words_for_cost(seconds: f64, peak_bytes: Option<u64>, free_bytes: Option<u64>) -> String {
    let free = free_bytes.map_or(String::new(), |free| {
        format!(", of {} free", figures::bytes(free))
    });
    let memory = peak_bytes.map(|peak| format!(" and {} of memory{free}", figures::bytes(peak)));
    format!("about {}{}", duration(seconds), memory.unwrap_or_default())
}

/// Milliseconds of all evaluations, samples and saves: once before the first step, when they are due, and at the end.
fn evaluation_millis(plan: &RunPlan, trial: &Trial) -> f64 {
    let count = |is_due: &dyn Fn(usize) -> bool| (0..=plan.steps).filter(|&it| is_due(it)).count();
    let evaluations = count(&|step| plan.evaluates_after(step));
    let samples = count(&|step| plan.samples_after(step));
    // While a run goes well, each evaluation is the best so far.
    let is_best = |step| trial.evaluation.is_some() && plan.evaluates_after(step);
    let saves = count(&|step| plan.saves_after(step, is_best(step)));
    let (evaluation, batches) = trial.evaluation.unwrap_or_default();
    let batches = batches.div_ceil(plan.devices.max(1));
    evaluations as f64 * evaluation * batches as f64
        + samples as f64 * trial.sample_millis.unwrap_or_default()
        + saves as f64 * trial.save_millis.unwrap_or_default()
}

/// Fixed bytes and bytes a unit. Of one size, the estimate says how much a unit adds.
fn memory_line(plan: &RunPlan, needed: Needed, trial: &Trial) -> Option<(f64, f64)> {
    let peaks = trial.sizes.iter();
    let peaks = peaks.map(|it| Some((it.units(), it.peak_bytes? as f64)));
    let peaks = peaks.collect::<Option<Vec<_>>>()?;
    let [(units, peak)] = peaks.as_slice() else {
        return (!peaks.is_empty()).then(|| line(&peaks));
    };
    let most = (plan.batch.rows, trial.row_length);
    let more = more_bytes(needed, trial.sizes.first()?, most);
    let slope = more / (most.0 * most.1).saturating_sub(*units).max(1) as f64;
    Some((peak - slope * *units as f64, slope))
}

/// The line through the first and the last point, as its value at 0 and its slope, which is never below 0. Through one
/// point, the line from 0.
fn line(points: &[(usize, f64)]) -> (f64, f64) {
    match (points.first(), points.last()) {
        (Some(&(low, from)), Some(&(high, to))) if high > low => {
            let slope = ((to - from) / (high - low) as f64).max(0.0);
            // What was tried at the larger size is kept exactly.
            (to - slope * high as f64, slope)
        }
        (Some(&(units, value)), _) => (0.0, value / units.max(1) as f64),
        _ => (0.0, 0.0),
    }
}
