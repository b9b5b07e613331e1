//! Runs one after the other: one goes on, the rest wait in an order that the user can change.
//!
//! What happens in a run is in its events on disk, so the queue tells nobody anything but who goes on and who waits.
//! That too is on disk, so that the app can offer to go on after it ended, however it ended.

use std::{
    collections::VecDeque,
    path::PathBuf,
    sync::{
        Arc, Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

use super::engine::Wish;
use crate::{
    host::Host,
    store::{runs::Run, waiting},
};

/// The runs that go on and wait.
pub(crate) struct Queue {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    line: Mutex<Line>,
    changed: Condvar,
    /// Where it stands who goes on and who waits.
    file: PathBuf,
}

#[derive(Default)]
struct Line {
    going: Option<Going>,
    waiting: VecDeque<Run>,
    closed: bool,
}

struct Going {
    run: Run,
    wishes: Arc<Wishes>,
}

#[derive(Default)]
struct Wishes {
    pause: AtomicBool,
    stop: AtomicBool,
}

impl Wishes {
    fn wish(&self) -> Wish {
        if self.stop.load(Ordering::SeqCst) {
            Wish::Stop
        } else if self.pause.load(Ordering::SeqCst) {
            Wish::Pause
        } else {
            Wish::GoOn
        }
    }
}

impl Queue {
    pub(crate) fn new(host: Arc<Host>) -> Self {
        let shared = Arc::new(Shared {
            line: Mutex::default(),
            changed: Condvar::new(),
            file: host.paths.waiting.clone(),
        });
        let thread = {
            let shared = shared.clone();
            thread::spawn(move || {
                while let Some((run, wishes)) = shared.next() {
                    // How it ends stands in its events; an engine that was killed leaves it interrupted.
                    let _ = host.train(&run, &mut |_| {}, &mut |_| {}, &|| wishes.wish());
                    let mut line = shared.line();
                    line.going = None;
                    // Closing stops the run that goes on; then it is one to be offered again.
                    if !line.closed {
                        shared.remember(&line);
                    }
                }
            })
        };
        Self {
            shared,
            thread: Mutex::new(Some(thread)),
        }
    }

    /// Has a run trained after those that wait already. A run that goes on or waits stays where it is, and no longer pauses.
    pub(crate) fn add(&self, run: Run) {
        let mut line = self.shared.line();
        if let Some(going) = line.going.as_ref().filter(|going| going.run.id == run.id) {
            going.wishes.pause.store(false, Ordering::SeqCst);
        } else if !line.waiting.iter().any(|waiting| waiting.id == run.id) {
            line.waiting.push_back(run);
            self.shared.remember(&line);
            self.shared.changed.notify_all();
        }
    }

    /// Has the run that goes on saved, to wait in memory. It keeps its place.
    pub(crate) fn pause(&self, id: &str) {
        let line = self.shared.line();
        if let Some(going) = line.going.as_ref().filter(|going| going.run.id == id) {
            going.wishes.pause.store(true, Ordering::SeqCst);
        }
    }

    /// Has a run saved and stopped, or takes it out of those that wait.
    pub(crate) fn stop(&self, id: &str) {
        let mut line = self.shared.line();
        line.waiting.retain(|run| run.id != id);
        self.shared.remember(&line);
        if let Some(going) = line.going.as_ref().filter(|going| going.run.id == id) {
            going.wishes.stop.store(true, Ordering::SeqCst);
        }
    }

    /// Has the runs that wait go on in this order. Those that are not named follow.
    pub(crate) fn order(&self, ids: &[String]) {
        let mut line = self.shared.line();
        let place = |run: &Run| ids.iter().position(|id| *id == run.id);
        line.waiting
            .make_contiguous()
            .sort_by_key(|run| place(run).unwrap_or(usize::MAX));
        self.shared.remember(&line);
    }

    /// Has the run that goes on saved and stopped, waits for that, and starts no other.
    pub(crate) fn close(&self) {
        {
            let mut line = self.shared.line();
            line.closed = true;
            if let Some(going) = &line.going {
                going.wishes.stop.store(true, Ordering::SeqCst);
            }
            self.shared.changed.notify_all();
        }
        let thread = self.thread.lock().map(|mut thread| thread.take());
        if let Ok(Some(thread)) = thread {
            let _ = thread.join();
        }
    }

    /// The run that goes on, paused or not.
    pub(crate) fn going(&self) -> Option<Run> {
        let line = self.shared.line();
        line.going.as_ref().map(|going| going.run.clone())
    }

    /// The runs that wait, in order.
    pub(crate) fn waiting(&self) -> Vec<Run> {
        self.shared.line().waiting.iter().cloned().collect()
    }

    /// The place of a run among those that wait, from 1.
    pub(crate) fn place(&self, id: &str) -> Option<usize> {
        let line = self.shared.line();
        line.waiting
            .iter()
            .position(|run| run.id == id)
            .map(|at| at + 1)
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    /// The line is whole at any time, also after a thread panicked while it held it.
    fn line(&self) -> MutexGuard<'_, Line> {
        self.line
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Writes down who goes on and who waits. When that fails, nothing will be offered; the runs themselves are safe.
    fn remember(&self, line: &Line) {
        let going = line.going.iter().map(|going| going.run.id.clone());
        let waiting = line.waiting.iter().map(|run| run.id.clone());
        let ids: Vec<String> = going.chain(waiting).collect();
        let _ = waiting::write(&self.file, &ids);
    }

    /// Waits for the next run; none when the queue is closed.
    fn next(&self) -> Option<(Run, Arc<Wishes>)> {
        let mut line = self.line();
        loop {
            if line.closed {
                return None;
            }
            if let Some(run) = line.waiting.pop_front() {
                let wishes = Arc::new(Wishes::default());
                line.going = Some(Going {
                    run: run.clone(),
                    wishes: wishes.clone(),
                });
                return Some((run, wishes));
            }
            line = self
                .changed
                .wait(line)
                .unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }
}
