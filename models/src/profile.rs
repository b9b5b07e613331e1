//! Where the time and the memory of a step go: operations say when they begin, and one recorder of this thread listens.
//!
//! Without a recorder, which is how a run trains, an operation pays for one look at a flag of its thread. With one, each
//! operation of a GPU waits until the one before it is done: what is found is the time of each alone, and their sum is more
//! than a step takes.
//!
//! Deliberately absent: which steps are taken, which is `train/profile.rs`.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    marker::PhantomData,
    time::Instant,
};

use candle_core::{Device, Tensor};
use serde::{Deserialize, Serialize};

/// Operations that mostly give the same numbers another shape: what they move is not known from their sizes.
const VIEWS: [&str; 3] = ["narrow", "reshape", "transpose"];

/// What is counted as time between operations.
const BETWEEN: &str = "between operations";

/// Where in a step an operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// Making the batch.
    Data,
    /// From the batch to the loss.
    Forward,
    /// From the loss to the gradients.
    Backward,
    /// Forward once more, on the way back, for what was not kept.
    Again,
    /// From the gradients to the weights.
    Update,
}

impl Place {
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::Again => "forward again",
            Self::Update => "update",
        }
    }
}

/// One operation, as it happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// What it is called.
    pub operation: String,
    /// Where it is.
    pub place: Place,
    /// When it began, in microseconds after the recording did.
    pub start_micros: f64,
    /// How long it took.
    pub micros: f64,
    /// Of it, what no operation within it took.
    pub own_micros: f64,
    /// How much more memory was in use after it than before it, without what operations within it took. Nothing where that was
    /// not recorded.
    pub own_bytes: Option<i64>,
    /// Bytes of what it read and wrote, each once.
    pub moved_bytes: u64,
    /// Multiplications and additions of its products, each counted as one.
    pub operations: f64,
}

/// When the most memory was in use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Peak {
    /// How much.
    pub bytes: u64,
    /// The operation that had it.
    pub operation: String,
    /// Where it is.
    pub place: Place,
}

/// What a recorder heard.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recording {
    /// In the order in which they ended.
    pub spans: Vec<Span>,
    /// Nothing where memory was not recorded.
    pub peak: Option<Peak>,
}

/// What a GPU did once: a kernel that ran, or a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Activity {
    /// What it is called: a kernel by its own name.
    pub name: String,
    /// When it began, by a clock of the GPU.
    pub start_nanos: u64,
    /// When it ended, by the same clock.
    pub end_nanos: u64,
}

/// What a GPU did in a step, without a recorder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GpuTime {
    /// How long it did anything. For the rest of the step it waited for the host.
    pub busy_millis: f64,
    /// Kernels and copies by name, those that take most first.
    pub kernels: Vec<KernelTime>,
}

/// All launches of one kernel in a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KernelTime {
    /// Its own name.
    pub name: String,
    /// How often it ran in a step.
    pub launches: f64,
    /// What all of them took. Kernels may run beside each other, so together they can take longer than the GPU was busy.
    pub millis: f64,
}

impl GpuTime {
    /// What was done in so many steps, of one of them.
    pub fn of(mut activities: Vec<Activity>, steps: usize) -> Self {
        let steps = steps.max(1) as f64;
        let millis = |nanos: u64| nanos as f64 / 1e6 / steps;
        activities.sort_by_key(|it| it.start_nanos);
        let (mut busy_nanos, mut until) = (0, 0);
        let mut kernels: BTreeMap<&str, (usize, u64)> = BTreeMap::new();
        for Activity {
            name,
            start_nanos,
            end_nanos,
        } in &activities
        {
            // What runs beside another is busy time once.
            busy_nanos += end_nanos.saturating_sub(until.max(*start_nanos));
            until = until.max(*end_nanos);
            let (launches, nanos) = kernels.entry(name).or_default();
            *launches += 1;
            *nanos += end_nanos.saturating_sub(*start_nanos);
        }
        let kernels = kernels.into_iter();
        let mut kernels: Vec<KernelTime> = kernels
            .map(|(name, (launches, nanos))| KernelTime {
                name: name.to_owned(),
                launches: launches as f64 / steps,
                millis: millis(nanos),
            })
            .collect();
        kernels.sort_by(|a, b| b.millis.total_cmp(&a.millis));
        Self {
            busy_millis: millis(busy_nanos),
            kernels,
        }
    }

    /// The share of the time that the GPU was busy. Of all kernels together it can be more than 1, where some run beside others.
    pub fn share(&self, kernel: &KernelTime) -> f64 {
        kernel.millis / self.busy_millis.max(f64::MIN_POSITIVE)
    }

    /// Kernels that are told one by one.
    const TOLD: usize = 24;

    /// Those that take most, and what the others come to, if there are any.
    pub fn told(&self) -> (&[KernelTime], Option<KernelTime>) {
        let (told, rest) = self.kernels.split_at(self.kernels.len().min(Self::TOLD));
        let others = (!rest.is_empty()).then(|| KernelTime {
            name: format!("{} more", rest.len()),
            launches: rest.iter().map(|it| it.launches).sum(),
            millis: rest.iter().map(|it| it.millis).sum(),
        });
        (told, others)
    }
}

/// What a device could do at best.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ceilings {
    /// Multiplications and additions of matrix products, each counted as one.
    pub operations_per_second: f64,
    /// What it reads and writes of its memory.
    pub bytes_per_second: f64,
}

/// How a device says how much memory is in use. It takes time, so it is asked in steps whose time is not counted.
pub type InUse = fn(&Device) -> Option<u64>;

thread_local! {
    static IS_ON: Cell<bool> = const { Cell::new(false) };
    static RECORDER: RefCell<Option<Recorder>> = const { RefCell::new(None) };
}

struct Recorder {
    device: Device,
    in_use: Option<InUse>,
    started: Instant,
    open: Vec<Open>,
    recording: Recording,
}

/// An operation that has begun.
struct Open {
    name: &'static str,
    place: Place,
    start_micros: f64,
    within_micros: f64,
    bytes_before: Option<u64>,
    within_bytes: i64,
    moved_bytes: u64,
    operations: f64,
    operations_back: f64,
}

/// An operation, until it is dropped.
#[must_use = "it ends when it is dropped"]
pub(crate) struct Scope {
    is_open: bool,
    /// It belongs to the thread that made it.
    thread: PhantomData<*const ()>,
}

/// What the way back has to know of a recorded operation.
pub(crate) struct Made {
    name: &'static str,
    moved_bytes: u64,
    operations_back: f64,
}

/// Has a recorder listen to what `work` does on this thread. With `in_use`, memory is recorded, and times say little.
pub fn record<R>(
    device: &Device,
    in_use: Option<InUse>,
    work: impl FnOnce() -> R,
) -> (R, Recording) {
    /// Nobody listens after a panic either.
    struct Off;
    impl Drop for Off {
        fn drop(&mut self) {
            IS_ON.set(false);
            RECORDER.take();
        }
    }
    let off = Off;
    RECORDER.replace(Some(Recorder {
        device: device.clone(),
        in_use,
        started: Instant::now(),
        open: Vec::new(),
        recording: Recording::default(),
    }));
    IS_ON.set(true);
    let result = work();
    let recorder = RECORDER.take();
    drop(off);
    let recording = recorder.map(|it| it.recording);
    (result, recording.unwrap_or_default())
}

/// Whether somebody listens.
pub(crate) fn is_on() -> bool {
    IS_ON.get()
}

/// Begins an operation, where the one around it is.
pub(crate) fn operation(name: &'static str) -> Scope {
    begin(name, None)
}

/// Begins a place. What no operation takes is between them.
pub(crate) fn at(place: Place) -> Scope {
    begin(BETWEEN, Some(place))
}

/// Begins the way back through an operation. Its gradients are of the sizes of what it read and wrote, which it reads again.
pub(crate) fn back_through(made: Option<&Made>) -> Scope {
    let name = made.map_or(BETWEEN, |it| it.name);
    let scope = begin(name, Some(Place::Backward));
    if let Some(made) = made {
        with_open(|open| {
            open.moved_bytes = 2 * made.moved_bytes;
            open.operations = made.operations_back;
        });
    }
    scope
}

/// Notes what the operation that is under way has read and written.
pub(crate) fn made<'a>(output: &Tensor, inputs: impl Iterator<Item = &'a Tensor>) -> Option<Made> {
    let bytes = |tensor: &Tensor| (tensor.elem_count() * tensor.dtype().size_in_bytes()) as u64;
    let mut made = None;
    with_open(|open| {
        let moved_bytes = match VIEWS.contains(&open.name) {
            true => 0,
            false => bytes(output) + inputs.map(bytes).sum::<u64>(),
        };
        open.moved_bytes += moved_bytes;
        made = Some(Made {
            name: open.name,
            moved_bytes,
            operations_back: open.operations_back,
        });
    });
    made
}

/// Notes a product of matrices [m, k] and [k, n] in the operation that is under way.
pub(crate) fn multiplied(m: usize, k: usize, n: usize) {
    with_open(|open| open.operations += 2.0 * m as f64 * k as f64 * n as f64);
}

/// Notes the multiplications and additions of products that are within a kernel of the operation that is under way, and of those on
/// its way back.
pub(crate) fn computed(operations: impl FnOnce() -> [f64; 2]) {
    with_open(|open| {
        let [forward, back] = operations();
        open.operations += forward;
        open.operations_back += back;
    });
}

fn with_open(note: impl FnOnce(&mut Open)) {
    if !is_on() {
        return;
    }
    RECORDER.with_borrow_mut(|recorder| {
        if let Some(open) = recorder.as_mut().and_then(|it| it.open.last_mut()) {
            note(open);
        }
    });
}

fn begin(name: &'static str, place: Option<Place>) -> Scope {
    let is_open = is_on();
    if is_open {
        RECORDER.with_borrow_mut(|recorder| {
            if let Some(recorder) = recorder {
                recorder.begin(name, place);
            }
        });
    }
    Scope {
        is_open,
        thread: PhantomData,
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        if self.is_open {
            RECORDER.with_borrow_mut(|recorder| {
                if let Some(recorder) = recorder {
                    recorder.end();
                }
            });
        }
    }
}

impl Recorder {
    fn begin(&mut self, name: &'static str, place: Option<Place>) {
        let around = self.open.last().map(|it| it.place);
        let place = place.or(around).unwrap_or(Place::Forward);
        let (start_micros, bytes_before) = self.now(name, place);
        self.open.push(Open {
            name,
            place,
            start_micros,
            within_micros: 0.0,
            bytes_before,
            within_bytes: 0,
            moved_bytes: 0,
            operations: 0.0,
            operations_back: 0.0,
        });
    }

    fn end(&mut self) {
        let Some(&Open { name, place, .. }) = self.open.last() else {
            return;
        };
        let (end_micros, bytes_after) = self.now(name, place);
        let Some(open) = self.open.pop() else {
            return;
        };
        let micros = end_micros - open.start_micros;
        let more = open.bytes_before.zip(bytes_after);
        let bytes = more.map(|(before, after)| after as i64 - before as i64);
        self.recording.spans.push(Span {
            operation: name.to_owned(),
            place,
            start_micros: open.start_micros,
            micros,
            own_micros: micros - open.within_micros,
            own_bytes: bytes.map(|bytes| bytes - open.within_bytes),
            moved_bytes: open.moved_bytes,
            operations: open.operations,
        });
        if let Some(around) = self.open.last_mut() {
            around.within_micros += micros;
            around.within_bytes += bytes.unwrap_or_default();
        }
    }

    /// The time, and the memory in use, after the device has done all its work.
    fn now(&mut self, name: &'static str, place: Place) -> (f64, Option<u64>) {
        // What went wrong before comes out where numbers are read.
        let _later = self.device.synchronize();
        let bytes = self.in_use.and_then(|in_use| in_use(&self.device));
        let most = self.recording.peak.as_ref().map(|it| it.bytes);
        if let Some(bytes) = bytes.filter(|bytes| most.is_none_or(|most| *bytes > most)) {
            self.recording.peak = Some(Peak {
                bytes,
                operation: name.to_owned(),
                place,
            });
        }
        (self.started.elapsed().as_secs_f64() * 1e6, bytes)
    }
}

#[cfg(test)]
mod tests {
    use candle_core::DType;

    use super::*;

    #[test]
    fn an_operation_within_another_is_counted_once() {
        let (_, Recording { spans, peak }) = record(&Device::Cpu, None, || {
            let _forward = at(Place::Forward);
            let outer = operation("outer");
            drop(operation("inner"));
            let x = Tensor::zeros(3, DType::F32, &Device::Cpu).unwrap();
            made(&x, [&x].into_iter());
            multiplied(2, 3, 4);
            drop(outer);
        });
        let [inner, outer, forward] = &spans[..] else {
            panic!("{spans:?}");
        };
        assert_eq!(
            (inner.operation.as_str(), inner.place),
            ("inner", Place::Forward)
        );
        assert_eq!((outer.moved_bytes, outer.operations), (24, 48.0));
        assert_eq!(forward.operation, "between operations");
        let own: f64 = spans.iter().map(|it| it.own_micros).sum();
        assert!((own - forward.micros).abs() < 1e-6);
        assert_eq!((peak, outer.own_bytes), (None, None));
    }

    #[test]
    fn memory_is_that_of_the_operation_that_took_it() {
        thread_local! {
            static IN_USE: Cell<u64> = const { Cell::new(100) };
        }
        let in_use: InUse = |_| Some(IN_USE.get());
        let (_, Recording { spans, peak }) = record(&Device::Cpu, Some(in_use), || {
            let _outer = operation("outer");
            {
                let _inner = operation("inner");
                IN_USE.set(150);
            }
            IN_USE.set(140);
        });
        let bytes: Vec<_> = spans.iter().map(|it| it.own_bytes).collect();
        assert_eq!(bytes, [Some(50), Some(-10)]);
        let peak = peak.unwrap();
        assert_eq!((peak.bytes, peak.operation.as_str()), (150, "inner"));
    }

    #[test]
    fn a_gpu_is_busy_once_where_kernels_run_beside_each_other() {
        let activity = |name: &str, start_micros: u64, end_micros: u64| Activity {
            name: name.to_owned(),
            start_nanos: start_micros * 1000,
            end_nanos: end_micros * 1000,
        };
        // Of two steps. The first two overlap, the third lies within the second, and then nothing runs for a while.
        let done = [
            activity("sum", 1_000, 3_000),
            activity("product", 2_000, 8_000),
            activity("sum", 4_000, 5_000),
            activity("product", 20_000, 21_000),
        ];
        let time = GpuTime::of(done.to_vec(), 2);
        assert_eq!(time.busy_millis, (7.0 + 1.0) / 2.0);
        let expected = [("product", 1.0, 3.5), ("sum", 1.0, 1.5)];
        let kernels = time.kernels.iter();
        let found: Vec<_> = kernels
            .map(|it| (it.name.as_str(), it.launches, it.millis))
            .collect();
        assert_eq!(found, expected);
        assert_eq!(time.told(), (&time.kernels[..], None));
        let many = (0..30).map(|at| activity(&format!("kernel {at}"), at * 10, at * 10 + 1));
        let time = GpuTime::of(many.collect(), 1);
        let (told, others) = time.told();
        let others = others.unwrap();
        assert_eq!(told.len(), 24);
        assert_eq!((others.name.as_str(), others.launches), ("6 more", 6.0));
    }

    #[test]
    fn nobody_listens_before_or_after() {
        drop(operation("before"));
        let (_, recording) = record(&Device::Cpu, None, || ());
        assert_eq!(recording, Recording::default());
        assert!(!is_on());
    }
}
