//! Runs one after the other: one goes on, the rest wait in order.
//!
//! What happens in a run is in its events on disk, so the queue tells nobody anything but who goes on and who waits.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

use crate::{host::Host, store::runs::Run};

/// The runs that go on and wait.
pub(crate) struct Queue {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Shared {
    line: Mutex<Line>,
    changed: Condvar,
}

#[derive(Default)]
struct Line {
    going: Option<Going>,
    waiting: VecDeque<Run>,
    closed: bool,
}

struct Going {
    id: String,
    stop: Arc<AtomicBool>,
}

impl Queue {
    pub(crate) fn new(host: Arc<Host>) -> Self {
        let shared = Arc::new(Shared::default());
        let thread = {
            let shared = shared.clone();
            thread::spawn(move || {
                while let Some((run, stop)) = shared.next() {
                    let stop = || stop.load(Ordering::SeqCst);
                    // How it ends stands in its events; an engine that was killed leaves it interrupted.
                    let _ = host.train(&run, &mut |_| {}, &mut |_| {}, &stop);
                    shared.line().going = None;
                }
            })
        };
        Self {
            shared,
            thread: Mutex::new(Some(thread)),
        }
    }

    /// Has a run trained after those that wait already. A run that goes on or waits stays where it is.
    pub(crate) fn add(&self, run: Run) {
        let mut line = self.shared.line();
        let known = line.going.as_ref().is_some_and(|going| going.id == run.id)
            || line.waiting.iter().any(|waiting| waiting.id == run.id);
        if !known {
            line.waiting.push_back(run);
            self.shared.changed.notify_all();
        }
    }

    /// Has a run saved and stopped, or takes it out of those that wait.
    pub(crate) fn stop(&self, id: &str) {
        let mut line = self.shared.line();
        line.waiting.retain(|run| run.id != id);
        if let Some(going) = line.going.as_ref().filter(|going| going.id == id) {
            going.stop.store(true, Ordering::SeqCst);
        }
    }

    /// Has the run that goes on saved and stopped, waits for that, and starts no other.
    pub(crate) fn close(&self) {
        {
            let mut line = self.shared.line();
            line.closed = true;
            if let Some(going) = &line.going {
                going.stop.store(true, Ordering::SeqCst);
            }
            self.shared.changed.notify_all();
        }
        let thread = self.thread.lock().map(|mut thread| thread.take());
        if let Ok(Some(thread)) = thread {
            let _ = thread.join();
        }
    }

    /// Whether a run waits for another.
    pub(crate) fn waits(&self, id: &str) -> bool {
        self.shared.line().waiting.iter().any(|run| run.id == id)
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

    /// Waits for the next run; none when the queue is closed.
    fn next(&self) -> Option<(Run, Arc<AtomicBool>)> {
        let mut line = self.line();
        loop {
            if line.closed {
                return None;
            }
            if let Some(run) = line.waiting.pop_front() {
                let stop = Arc::new(AtomicBool::new(false));
                line.going = Some(Going {
                    id: run.id.clone(),
                    stop: stop.clone(),
                });
                return Some((run, stop));
            }
            line = self
                .changed
                .wait(line)
                .unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }
}
