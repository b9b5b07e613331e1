//! Saving a run, and waiting: for a user who paused it, or for a disk that can't take what is to be saved.
//!
//! What was saved before stands until the new checkpoint is whole. Deliberately absent: what a checkpoint holds, which is the
//! state's, and which ones are kept, which is the folder's.

use std::{
    io::{Error as IoError, ErrorKind},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use super::{
    Observer, RunPlan, Task, TrainEvent, TrainState, group::GroupControl, unused_memory::device_of,
};
use crate::{
    Error, Result,
    checkpoint::{keep::Checkpoints, save::free_bytes},
    figures,
};

/// How often a run that waits asks whether to continue.
const PAUSE_LOOK: Duration = Duration::from_millis(50);
/// How often a run that waits for the disk tries again.
const DISK_LOOK: Duration = Duration::from_secs(2);
/// A checkpoint may be so much larger than the one before it: numbers written in words, folders, blocks half full.
const SLACK_BYTES: u64 = 1 << 20;

/// What a run is saved with.
pub(super) struct Saver<'a> {
    pub(super) plan: &'a RunPlan,
    pub(super) checkpoints: &'a Checkpoints,
    /// The size of the last checkpoint, once there is one.
    last_bytes: Option<u64>,
}

impl<'a> Saver<'a> {
    pub(super) fn new(plan: &'a RunPlan, checkpoints: &'a Checkpoints) -> Self {
        Self {
            plan,
            checkpoints,
            last_bytes: None,
        }
    }

    /// Saves, and waits until the observer asks to continue or to stop. What waits is on disk, so a pause can't lose anything.
    pub(super) fn pause<T: Task>(
        &mut self,
        task: &mut T,
        state: &mut TrainState,
        observer: &mut dyn Observer,
    ) -> Result<GroupControl> {
        self.save_if_new(task, state, observer)?;
        let step = state.progress.step;
        let why = observer.why_pause();
        observer.event(TrainEvent::Paused { step, why });
        let mut control = state.control(observer)?;
        while control.pause && !control.stop {
            thread::sleep(PAUSE_LOOK);
            control = state.control(observer)?;
        }
        if !control.stop {
            observer.event(TrainEvent::Continued { step });
        }
        Ok(control)
    }

    /// Saves, unless this very step was saved a moment ago.
    pub(super) fn save_if_new<T: Task>(
        &mut self,
        task: &mut T,
        state: &mut TrainState,
        observer: &mut dyn Observer,
    ) -> Result<()> {
        if !state.gather_for_saving(task)? {
            return Ok(());
        }
        let step = state.progress.step;
        let mut look = || self.checkpoints.newest();
        let newest = when_the_disk_can(step, 0, &self.checkpoints.path(step), observer, &mut look)?;
        match newest.map(|it| it.step) == Some(step) {
            true => Ok(()),
            false => self.write(task, state, observer),
        }
    }

    /// Saves. A disk that can't take it is waited for; the error comes back only when the observer asks to stop meanwhile.
    pub(super) fn save<T: Task>(
        &mut self,
        task: &mut T,
        state: &mut TrainState,
        observer: &mut dyn Observer,
    ) -> Result<()> {
        match state.gather_for_saving(task)? {
            true => self.write(task, state, observer),
            false => Ok(()),
        }
    }

    fn write<T: Task>(
        &mut self,
        task: &mut T,
        state: &mut TrainState,
        observer: &mut dyn Observer,
    ) -> Result<()> {
        let step = state.progress.step;
        if let Some(device) = device_of(task) {
            // What failed on the device since the last look comes out here, before it is saved as if it were good.
            device.synchronize()?;
        }
        let path = self.checkpoints.path(step);
        let numbers = task.parameters().trainable_count() as u64;
        let needed_bytes = self
            .last_bytes
            .unwrap_or_else(|| self.plan.checkpoint_bytes(numbers));
        let mut attempt = || {
            has_room(&path, needed_bytes)?;
            state.save(task, &path)
        };
        let bytes = when_the_disk_can(step, needed_bytes, &path, observer, &mut attempt)?;
        state.saved();
        // Before the first step, an optimizer keeps nothing yet.
        self.last_bytes = Some(bytes).filter(|_| step > 0);
        observer.event(TrainEvent::Saved {
            step,
            path: path.clone(),
            bytes,
        });
        let best = state.progress.best.map(|best| best.step);
        // An old checkpoint that could not be removed takes room, and harms nothing else.
        if let Err(error) = self
            .checkpoints
            .prune(best.filter(|_| self.plan.save.keep_best))
        {
            let message = error.to_string();
            observer.event(TrainEvent::Warned { message });
        }
        if let Some(missing_bytes) = missing_bytes(&path, bytes).filter(|_| step < self.plan.steps)
        {
            let message = format!(
                "the next checkpoint needs {}, and {} of them are missing on this disk",
                figures::bytes(bytes),
                figures::bytes(missing_bytes)
            );
            observer.event(TrainEvent::Warned { message });
        }
        Ok(())
    }
}

/// Does what needs the disk, again and again until the disk can take it. The error comes back when it is about something
/// else, or when the observer asks to stop.
pub(super) fn when_the_disk_can<R>(
    step: usize,
    needed_bytes: u64,
    path: &Path,
    observer: &mut dyn Observer,
    attempt: &mut dyn FnMut() -> Result<R>,
) -> Result<R> {
    let mut waits = false;
    loop {
        let error = match attempt() {
            Err(error) if error.is_about_the_disk() || is_gone(path) => error,
            done => {
                if waits && done.is_ok() {
                    observer.event(TrainEvent::Continued { step });
                }
                return done;
            }
        };
        if !waits {
            waits = true;
            observer.event(TrainEvent::Waiting {
                step,
                why: error.to_string(),
                missing_bytes: missing_bytes(path, needed_bytes),
            });
        }
        let tried = Instant::now();
        while tried.elapsed() < DISK_LOOK {
            if observer.should_stop() {
                return Err(error);
            }
            thread::sleep(PAUSE_LOOK);
        }
    }
}

/// An error if a checkpoint of this size does not fit beside those that are there, or if they are there no more.
fn has_room(path: &Path, needed_bytes: u64) -> Result<()> {
    // Another folder in its place, on another disk, would be no run.
    let kind = if is_gone(path) {
        ErrorKind::NotFound
    } else if missing_bytes(path, needed_bytes).is_some() {
        ErrorKind::StorageFull
    } else {
        return Ok(());
    };
    Err(Error::file("save the run", path)(IoError::from(kind)))
}

/// Whether the folder of a checkpoint's run is not there, as when its disk was unplugged.
fn is_gone(path: &Path) -> bool {
    let run = path.parent().and_then(Path::parent);
    run.is_some_and(|run| !run.as_os_str().is_empty() && !run.exists())
}

/// How much more room a checkpoint of this size needs. Nothing when there is enough, or the system does not say.
fn missing_bytes(path: &Path, needed_bytes: u64) -> Option<u64> {
    let free = free_bytes(path)?;
    (needed_bytes + SLACK_BYTES)
        .checked_sub(free)
        .filter(|&missing| missing > 0)
}
