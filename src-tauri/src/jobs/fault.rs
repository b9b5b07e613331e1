//! Faults on purpose, for tests: in test builds only, and only in an engine whose environment asks for one.
//!
//! `ANNEAL_FAULT` is a list such as `nan@7,abort@12`. Each fault happens once: where `ANNEAL_FAULT_ONCE` names a folder, a
//! file in it says which have happened, so that the engine which continues is spared. What a test can do from outside, such as
//! killing a process, is not here.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    env, fs,
    path::{Path, PathBuf},
    process, ptr,
    sync::atomic::{AtomicI64, Ordering},
    thread,
    time::Duration,
};

use models::{
    Error, Result,
    optim::{DecayScope, OwnRules},
    parameters::Parameters,
    tape::{FixedPass, Left, Tape, Value},
    train::{
        Measuring,
        exhibit::Exhibit,
        group::Together,
        task::{BatchSize, Evaluation, Metric, OwnStep, OwnTrial, Task},
    },
};
use serde_json::Value as Json;

/// An allocation of so many bytes is one of a tensor.
const LARGE_BYTES: usize = 16 << 10;
/// For how long the disk takes nothing.
const DISK_FULL: Duration = Duration::from_secs(3);
/// What CUDA says.
const NO_MEMORY: &str = "DriverError(CUDA_ERROR_OUT_OF_MEMORY, \"out of memory\")";

/// What CUDA says of a kernel that was lost.
const LOST: &str = "DriverError(CUDA_ERROR_LAUNCH_FAILED, \"unspecified launch failure\")";

/// How many more large allocations succeed. Negative is all of them.
static ALLOCATIONS_LEFT: AtomicI64 = AtomicI64::new(-1);

/// The system's allocator, which fails when it is told to.
pub(crate) struct FailingAllocator;

// SAFETY: everything is passed on to the system's allocator, or fails as an allocator may.
unsafe impl GlobalAlloc for FailingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let is_large = layout.size() >= LARGE_BYTES;
        if is_large
            && ALLOCATIONS_LEFT.load(Ordering::Relaxed) >= 0
            && ALLOCATIONS_LEFT.fetch_sub(1, Ordering::Relaxed) == 0
        {
            return ptr::null_mut();
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// The faults that are asked for.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// Name and number of each.
    asked: Vec<(String, u64)>,
    /// Where it is noted which have happened.
    once: Option<PathBuf>,
}

impl Faults {
    /// Those that the environment asks for and that have not happened yet.
    pub(super) fn of_environment() -> Self {
        let words = env::var("ANNEAL_FAULT").unwrap_or_default();
        let once = env::var_os("ANNEAL_FAULT_ONCE").map(PathBuf::from);
        let asked = words.split(',').filter_map(|fault| {
            let (name, number) = fault.split_once('@')?;
            Some((name.to_owned(), number.parse().ok()?))
        });
        Self {
            asked: asked.collect(),
            once,
        }
    }

    /// Lets faults happen that need no moment of the run.
    pub(super) fn begin(&self) {
        if let Some(number) = self.next("alloc") {
            ALLOCATIONS_LEFT.store(number as i64, Ordering::Relaxed);
            self.note("alloc", number);
        }
        if let Some(bytes) = self.next("disk") {
            self.note("disk", bytes);
            limit_files(Some(bytes));
            thread::spawn(|| {
                thread::sleep(DISK_FULL);
                limit_files(None);
            });
        }
    }

    /// What happens after a step.
    pub(super) fn after_step(&self, step: usize) {
        if self.happens("abort", step as u64) {
            process::abort();
        }
        if self.happens("hang", step as u64) {
            loop {
                thread::sleep(Duration::from_secs(1));
            }
        }
    }

    /// Whether a fault with this number happens now. It does so once.
    fn happens(&self, name: &str, number: u64) -> bool {
        let happens = self.next(name) == Some(number);
        if happens {
            self.note(name, number);
        }
        happens
    }

    /// The number of a fault that has not happened yet.
    fn next(&self, name: &str) -> Option<u64> {
        let mut asked = self.asked.iter().filter(|(it, _)| it == name);
        let is_new = |number: &u64| !self.mark(name, *number).is_some_and(|path| path.exists());
        asked
            .find(|(_, number)| is_new(number))
            .map(|&(_, number)| number)
    }

    fn note(&self, name: &str, number: u64) {
        if let Some(path) = self.mark(name, number) {
            let _ = fs::write(path, "");
        }
    }

    fn mark(&self, name: &str, number: u64) -> Option<PathBuf> {
        self.once
            .as_ref()
            .map(|folder| folder.join(format!("{name}@{number}")))
    }
}

/// Has files grow to so many bytes and no further, as on a full disk.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn limit_files(bytes: Option<u64>) {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the calls read and write one struct of numbers, and leave a signal without effect.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit);
        limit.rlim_cur = bytes.unwrap_or(limit.rlim_max);
        libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit);
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn limit_files(_: Option<u64>) {}

/// A task whose losses fail when they are told to.
pub(super) struct Faulty<T> {
    task: T,
    faults: Faults,
    /// Rows of a batch.
    rows: usize,
    /// How many losses there were in this process.
    losses: u64,
}

impl<T: Task> Faulty<T> {
    pub(super) fn new(task: T, rows: usize) -> Self {
        Self {
            task,
            faults: Faults::of_environment(),
            rows,
            losses: 0,
        }
    }
}

// What is not passed on would be lost without a word.
#[deny(clippy::missing_trait_methods)]
impl<T: Task> Task for Faulty<T> {
    type Batch = T::Batch;

    fn parameters(&self) -> &Parameters {
        self.task.parameters()
    }

    fn own_rules(&self) -> OwnRules {
        self.task.own_rules()
    }

    fn decays(&self) -> DecayScope {
        self.task.decays()
    }

    fn own_step(&mut self, done: usize, goes_on: &dyn Fn() -> bool) -> Result<Option<OwnStep>> {
        self.task.own_step(done, goes_on)
    }

    fn own_trial(&mut self, stop: &dyn Fn() -> bool) -> Result<Option<OwnTrial>> {
        self.task.own_trial(stop)
    }

    fn next_batch(&mut self) -> Result<T::Batch> {
        self.task.next_batch()
    }

    fn size(&self, batch: &T::Batch) -> BatchSize {
        self.task.size(batch)
    }

    fn begin_losses(&mut self) -> Result<()> {
        self.task.begin_losses()
    }

    fn undo_losses(&mut self) -> Result<()> {
        self.task.undo_losses()
    }

    fn gather(&mut self, together: &mut Together) -> Result<()> {
        self.task.gather(together)
    }

    fn stepped(&mut self, done: usize) -> Result<()> {
        self.task.stepped(done)
    }

    /// Faults happen in losses that are launched.
    fn fixed_pass<'a>(
        &'a self,
        batch: &'a T::Batch,
        targets: f64,
    ) -> Result<Option<Box<dyn FixedPass + 'a>>> {
        match self.faults.asked.is_empty() {
            true => self.task.fixed_pass(batch, targets),
            false => Ok(None),
        }
    }

    fn passed(&mut self, batch: &T::Batch, left: Left) -> Result<()> {
        self.task.passed(batch, left)
    }

    fn loss(&mut self, tape: &Tape, batch: &T::Batch, targets: f64) -> Result<Value> {
        self.losses += 1;
        let number = self.losses;
        let out_of_memory = || Error::Device(NO_MEMORY.to_owned());
        if self.faults.happens("oom", number) {
            return Err(out_of_memory());
        }
        if self.faults.happens("lost", number) {
            return Err(Error::Device(LOST.to_owned()));
        }
        // A device too small for more rows than this, however often it is tried.
        let mut most = self
            .faults
            .asked
            .iter()
            .filter(|(name, _)| name == "most_rows");
        if most.any(|&(_, rows)| self.rows as u64 > rows) {
            return Err(out_of_memory());
        }
        let targets = match self.faults.happens("nan", number) {
            true => f64::NAN,
            false => targets,
        };
        self.task.loss(tape, batch, targets)
    }

    fn evaluate(
        &mut self,
        batches: usize,
        measuring: &mut Measuring,
    ) -> Result<Option<Evaluation>> {
        self.task.evaluate(batches, measuring)
    }

    fn judged_by(&self) -> Option<&'static str> {
        self.task.judged_by()
    }

    fn examine(&mut self, measuring: &mut Measuring) -> Result<Vec<Metric>> {
        self.task.examine(measuring)
    }

    fn show(&mut self) -> Result<Vec<Exhibit>> {
        self.task.show()
    }

    fn state(&self) -> Json {
        self.task.state()
    }

    fn restore(&mut self, state: &Json) -> Result<()> {
        self.task.restore(state)
    }

    fn save(&self, folder: &Path) -> Result<()> {
        self.task.save(folder)
    }

    fn load(&mut self, folder: &Path) -> Result<()> {
        self.task.load(folder)
    }

    fn full_batch(&mut self, rows: usize, length: usize) -> Result<T::Batch> {
        self.task.full_batch(rows, length)
    }

    fn row_length(&mut self, rows: usize) -> (usize, f64) {
        self.task.row_length(rows)
    }

    fn held_out_batches(&self) -> usize {
        self.task.held_out_batches()
    }
}
