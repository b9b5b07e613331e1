//! Where a step of a run, or of other work, spends its time and memory: a few real steps, with and without a recorder.
//!
//! Times come from steps in which only times are recorded, memory from one in which memory is. Steps without a recorder say
//! what a step takes; on a GPU that is less than the operations of a profiled one, which wait for each other.
//!
//! Deliberately absent: what a device could do at best, which a benchmark says.

use std::{collections::BTreeMap, time::Instant};

use candle_core::Device;
use serde::{Deserialize, Serialize};

use super::{
    Task, TrainState, plan::TrainPlan, spike::median, step::one_step, tree,
    unused_memory::device_of,
};
use crate::{
    Result,
    device::memory::bytes_in_use,
    profile::{Ceilings, GpuTime, Peak, Place, Recording, Span, record},
};

/// Steps that are measured at least, and at most where they are short.
const STEPS: usize = 3;
const MAX_STEPS: usize = 10;
/// Short steps are repeated for so long.
const ENOUGH_SECONDS: f64 = 2.0;
/// Steps before those: memory is taken, kernels are made, and a GPU records a pass when it comes for the second time.
const WARM_UPS: usize = 3;

/// Where a step spends its time and memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Steps that were recorded, besides those that were not.
    pub steps: usize,
    /// A step without a recorder, the median.
    pub step_millis: f64,
    /// A step with one, the median.
    pub profiled_millis: f64,
    /// Operations by name and place, those that take most first.
    pub parts: Vec<ProfilePart>,
    /// When the most memory was in use, where the device says how much is.
    pub peak: Option<Peak>,
    /// The last recorded step, operation by operation.
    pub spans: Vec<Span>,
    /// What an NVIDIA GPU did in a step without a recorder, kernel by kernel.
    pub gpu: Option<GpuTime>,
    /// Why that isn't known, on such a GPU.
    pub gpu_unknown: Option<String>,
}

/// All operations of one name in one place of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProfilePart {
    /// What it is called.
    pub operation: String,
    /// Where it is.
    pub place: Place,
    /// How often it happens in a step.
    pub calls: usize,
    /// What all of them take, on average, without operations within them.
    pub millis: f64,
    /// The share of a profiled step.
    pub share: f64,
    /// How much more memory is in use after them than before: what was kept, or, below 0, given back. Nothing where it is not known.
    pub kept_bytes: Option<i64>,
    /// Bytes of what they read and write, each once. 0 where that is not known.
    pub moved_bytes: u64,
    /// Multiplications and additions of their products, each counted as one.
    pub operations: f64,
}

impl Profile {
    /// How much longer a recorded step takes than others where operations have to wait for each other.
    const WAITING: f64 = 1.1;

    /// Whether operations waited for each other while they were recorded, as those of a GPU do.
    pub fn waited(&self) -> bool {
        self.profiled_millis > Self::WAITING * self.step_millis
    }
}

impl ProfilePart {
    /// Operations with less than this share of a step are small,
    const SMALL_SHARE: f64 = 0.002;
    /// if they also keep or give back less than this.
    const SMALL_BYTES: u64 = 1 << 20;

    /// Whether so little is to be said of them that they are told with others.
    pub fn is_small(&self) -> bool {
        let kept = self.kept_bytes.unwrap_or_default().unsigned_abs();
        self.share < Self::SMALL_SHARE && kept < Self::SMALL_BYTES
    }

    /// How near these operations come to the best that the device could do: the time that their products or their bytes would
    /// take at least, as a share of what they took. More than 1 where they read what caches hold. Nothing where neither is known.
    pub fn share_of_best(&self, ceilings: &Ceilings) -> Option<f64> {
        let products = self.operations / ceilings.operations_per_second;
        let memory = self.moved_bytes as f64 / ceilings.bytes_per_second;
        let least_seconds = products.max(memory);
        (least_seconds > 0.0 && self.millis > 0.0).then(|| least_seconds * 1e3 / self.millis)
    }
}

/// Takes a few steps of a run and says where they spend their time and memory. Nothing when it was stopped.
pub fn profile<T: Task, P: tree::Part>(
    whole_plan: &TrainPlan<P>,
    task: &mut T,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Profile>> {
    let plan = &whole_plan.run;
    let _chosen = plan.choose_kernels()?;
    let mut state = TrainState::new(whole_plan, task)?;
    let device = device_of(task).unwrap_or(Device::Cpu);
    profile_steps(
        &device,
        &mut || one_step(plan, task, &mut state, stop),
        stop,
    )
}

/// Takes a few steps of any work on a device and says where they spend their time and memory. Nothing when it was stopped.
pub fn profile_steps(
    device: &Device,
    step: &mut dyn FnMut() -> Result<()>,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Profile>> {
    for _ in 0..WARM_UPS {
        if stop() {
            return Ok(None);
        }
        step()?;
    }
    let mut plain = Vec::new();
    let mut profiled = Vec::new();
    let mut recordings = Vec::new();
    let started = Instant::now();
    // In turn, so that both meet the device in the same state.
    while plain.len() < MAX_STEPS {
        let is_enough = started.elapsed().as_secs_f64() > ENOUGH_SECONDS;
        if stop() || (plain.len() >= STEPS && is_enough) {
            break;
        }
        plain.push(timed(device, step)?);
        let (millis, recording) = record(device, None, || timed(device, step));
        profiled.push(millis?);
        recordings.push(recording);
    }
    if stop() {
        return Ok(None);
    }
    let (memory, in_use) = record(device, Some(bytes_in_use), &mut *step);
    memory?;
    // What fails here, such as memory that listening takes as well, costs names and no more.
    let (gpu, gpu_unknown) = match gpu_time(device, step) {
        None => (None, None),
        Some(Ok(time)) => (Some(time), None),
        Some(Err(why)) => (None, Some(why)),
    };
    if stop() {
        return Ok(None);
    }
    let steps = recordings.len();
    let parts = parts(&recordings, &in_use);
    let last = recordings.pop().unwrap_or_default();
    Ok(Some(Profile {
        steps,
        step_millis: median(plain),
        profiled_millis: median(profiled),
        parts,
        peak: in_use.peak,
        spans: last.spans,
        gpu,
        gpu_unknown,
    }))
}

/// What an NVIDIA GPU does in a step, or why that can't be known.
#[cfg(feature = "cuda")]
fn gpu_time(
    device: &Device,
    step: &mut dyn FnMut() -> Result<()>,
) -> Option<std::result::Result<GpuTime, String>> {
    use crate::ops::kernels::cuda::activity;

    device.is_cuda().then(|| {
        let heard = activity::listen(device, || (0..STEPS).try_for_each(|_| step()))?;
        Ok(GpuTime::of(heard, STEPS))
    })
}

#[cfg(not(feature = "cuda"))]
fn gpu_time(
    _device: &Device,
    _step: &mut dyn FnMut() -> Result<()>,
) -> Option<std::result::Result<GpuTime, String>> {
    None
}

fn timed(device: &Device, work: &mut dyn FnMut() -> Result<()>) -> Result<f64> {
    let started = Instant::now();
    work()?;
    device.synchronize()?;
    Ok(started.elapsed().as_secs_f64() * 1e3)
}

/// The operations of some steps together, and what they kept in another.
fn parts(recordings: &[Recording], in_use: &Recording) -> Vec<ProfilePart> {
    let steps = recordings.len().max(1);
    let mut parts: BTreeMap<(Place, &str), ProfilePart> = BTreeMap::new();
    for span in recordings.iter().flat_map(|it| &it.spans) {
        let part = part_of(&mut parts, span);
        part.calls += 1;
        part.millis += span.own_micros / 1e3 / steps as f64;
        part.moved_bytes += span.moved_bytes;
        part.operations += span.operations / steps as f64;
    }
    for part in parts.values_mut() {
        part.calls = part.calls.div_ceil(steps);
        part.moved_bytes /= steps as u64;
    }
    for span in &in_use.spans {
        let part = part_of(&mut parts, span);
        if let Some(bytes) = span.own_bytes {
            *part.kept_bytes.get_or_insert_default() += bytes;
        }
    }
    let all: f64 = parts.values().map(|part| part.millis).sum();
    let mut parts: Vec<ProfilePart> = parts.into_values().collect();
    for part in &mut parts {
        part.share = part.millis / all.max(f64::MIN_POSITIVE);
    }
    parts.sort_by(|a, b| b.millis.total_cmp(&a.millis));
    parts
}

fn part_of<'a, 's>(
    parts: &'a mut BTreeMap<(Place, &'s str), ProfilePart>,
    span: &'s Span,
) -> &'a mut ProfilePart {
    let key = (span.place, span.operation.as_str());
    parts.entry(key).or_insert_with(|| ProfilePart {
        operation: span.operation.clone(),
        place: span.place,
        calls: 0,
        millis: 0.0,
        share: 0.0,
        kept_bytes: None,
        moved_bytes: 0,
        operations: 0.0,
    })
}
