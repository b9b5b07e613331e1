//! Runs one after the other: one is running, the rest wait in an order that the user can change.
//!
//! What happens in a run is in its events on disk, so the queue only tells which run is running and which are waiting.
//! That too is on disk, so that the app can offer to continue them after it was closed or crashed.

use std::{
    collections::VecDeque,
    path::PathBuf,
    sync::{
        Arc, Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use models::train::TrainEvent;

use super::engine::Control;
use crate::{
    lock::locked,
    store::{
        record::{Record, RecordedEvent},
        runs::Run,
        waiting,
    },
    wire::error::{AppError, Result},
};

/// How often whoever waits for a turn looks.
const TURN_LOOK: Duration = Duration::from_millis(100);

/// The runs that are running and wait.
pub(crate) struct Queue {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    line: Mutex<Line>,
    changed: Condvar,
    /// Where it stands who is running and who waits.
    file: PathBuf,
}

#[derive(Default)]
struct Line {
    going: Option<Going>,
    waiting: VecDeque<Waiting>,
    /// Whoever needs the machine for themselves, once this many of the runs that wait have continued. 0 is theirs as soon as
    /// no run is running.
    turn: Option<usize>,
    /// The ids of runs that were running or waiting when the app last ended, and that nobody has decided about.
    offered: Vec<String>,
    /// Why the last run that was to continue did not.
    problem: Option<String>,
    closed: bool,
}

struct Waiting {
    run: Run,
    /// To continue although data, model or settings are not what they were.
    force: bool,
}

struct Going {
    run: Run,
    state: Arc<GoingState>,
}

/// The machine without a run, until it is dropped.
pub(crate) struct Reservation {
    shared: Arc<Shared>,
}

/// What the user wants of the run that is running, and what is known of it.
#[derive(Default)]
struct GoingState {
    pause: AtomicBool,
    stop: AtomicBool,
    /// Whether its engine has begun with it.
    begun: AtomicBool,
    /// Whether the last thing said of it is that it is over.
    over: AtomicBool,
    /// Why the disk takes nothing that is said of it.
    unwritten: Mutex<Option<String>>,
}

impl GoingState {
    fn control(&self) -> Control {
        if self.stop.load(Ordering::SeqCst) {
            Control::Stop
        } else if self.pause.load(Ordering::SeqCst) {
            Control::Pause(None)
        } else {
            Control::Continue
        }
    }
}

impl Queue {
    /// The queue that stands in `file`. `train` trains one run until it is over: whether data, model or settings may have
    /// changed, who hears its events, and what is wished of it.
    pub(crate) fn new(
        file: PathBuf,
        train: impl Fn(&Run, bool, &mut dyn FnMut(&RecordedEvent), &dyn Fn() -> Control) -> Result<()>
        + Send
        + 'static,
    ) -> Self {
        let shared = Arc::new(Shared {
            line: Mutex::new(Line {
                offered: waiting::read(&file),
                ..Line::default()
            }),
            changed: Condvar::new(),
            file,
        });
        let thread = {
            let shared = shared.clone();
            thread::spawn(move || {
                while let Some((Waiting { run, force }, state)) = shared.next() {
                    let mut heard = |recorded: &RecordedEvent| {
                        if matches!(recorded.event, TrainEvent::Started { .. }) {
                            state.begun.store(true, Ordering::SeqCst);
                        }
                        let is_last = matches!(
                            recorded.event,
                            TrainEvent::Finished { .. }
                                | TrainEvent::Stopped { .. }
                                | TrainEvent::Failed { .. }
                        );
                        state.over.store(is_last, Ordering::SeqCst);
                        *locked(&state.unwritten) = why_unwritten(recorded);
                    };
                    let trained = train(&run, force, &mut heard, &|| state.control());
                    let begun = state.begun.load(Ordering::SeqCst);
                    let problem = trained.err().and_then(|error| reported(&run, error, begun));
                    let mut line = shared.line();
                    line.problem = problem;
                    line.going = None;
                    // Closing stops the run that is running; then it is one to be offered again.
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

    /// Has a run trained after those that wait already. A run that is running or waits stays where it is, and no longer pauses;
    /// one whose engine is just leaving continues next. With `force` it continues although data, model or settings are not what they
    /// were.
    pub(crate) fn add(&self, run: Run, force: bool) {
        let mut line = self.shared.line();
        line.problem = None;
        line.offered.retain(|id| *id != run.id);
        let Line { going, waiting, .. } = &mut *line;
        let going = going.as_ref().filter(|going| going.run.id == run.id);
        match (waiting.iter_mut().find(|it| it.run.id == run.id), going) {
            (Some(waits), _) => waits.force |= force,
            (None, Some(going)) if going.is_over() => waiting.push_front(Waiting { run, force }),
            (None, Some(going)) => going.state.pause.store(false, Ordering::SeqCst),
            (None, None) => waiting.push_back(Waiting { run, force }),
        }
        self.shared.remember(&line);
        self.shared.changed.notify_all();
    }

    /// The runs that were running or waiting when the app last ended.
    pub(crate) fn offered(&self) -> Vec<String> {
        self.shared.line().offered.clone()
    }

    /// Decides about those: they are offered no more.
    pub(crate) fn take_offered(&self) -> Vec<String> {
        let mut line = self.shared.line();
        let offered = std::mem::take(&mut line.offered);
        self.shared.remember(&line);
        offered
    }

    /// Why the last run that was to continue did not, or why the one that is running can't say why it waits.
    pub(crate) fn problem(&self) -> Option<String> {
        let line = self.shared.line();
        let going = line.going.as_ref();
        let unwritten = going.and_then(|going| locked(&going.state.unwritten).clone());
        unwritten.or_else(|| line.problem.clone())
    }

    /// Ends a pause, if there is one.
    pub(crate) fn go_on(&self) {
        if let Some(going) = &self.shared.line().going {
            going.state.pause.store(false, Ordering::SeqCst);
        }
    }

    /// Has the run that is running saved, to wait in memory. It keeps its place.
    pub(crate) fn pause(&self, id: &str) {
        let line = self.shared.line();
        if let Some(going) = line.going.as_ref().filter(|going| going.run.id == id) {
            going.state.pause.store(true, Ordering::SeqCst);
        }
    }

    /// Has a run saved and stopped, or takes it out of those that wait.
    pub(crate) fn stop(&self, id: &str) {
        let mut line = self.shared.line();
        if let Some(at) = line.waiting.iter().position(|waiting| waiting.run.id == id) {
            line.waiting.remove(at);
            line.turn = line.turn.map(|ahead| ahead - usize::from(at < ahead));
        }
        self.shared.remember(&line);
        if let Some(going) = line.going.as_ref().filter(|going| going.run.id == id) {
            going.state.stop.store(true, Ordering::SeqCst);
        }
    }

    /// Has the runs that wait continue in this order. Those that are not named follow.
    pub(crate) fn order(&self, ids: &[String]) {
        let mut line = self.shared.line();
        let place = |waiting: &Waiting| ids.iter().position(|id| *id == waiting.run.id);
        line.waiting
            .make_contiguous()
            .sort_by_key(|waiting| place(waiting).unwrap_or(usize::MAX));
        self.shared.remember(&line);
    }

    /// Waits until the runs that are there now are over, and starts none until the turn is dropped. `waits` is told each run
    /// that is running meanwhile. Nothing when `stop` ends it, or somebody else has the turn.
    pub(crate) fn turn(
        &self,
        waits: &mut dyn FnMut(&Run),
        stop: &dyn Fn() -> bool,
    ) -> Option<Reservation> {
        {
            let mut line = self.shared.line();
            if line.turn.is_some() || line.closed {
                return None;
            }
            line.turn = Some(line.waiting.len());
        }
        let turn = Reservation {
            shared: self.shared.clone(),
        };
        let mut waits_for = None;
        loop {
            let going = {
                let line = self.shared.line();
                match (&line.going, line.turn) {
                    (None, Some(0)) => return Some(turn),
                    (going, _) => going.as_ref().map(|going| going.run.clone()),
                }
            };
            if stop() || self.shared.line().closed {
                return None;
            }
            if let Some(run) = going.filter(|run| waits_for.as_ref() != Some(run)) {
                waits(&run);
                waits_for = Some(run);
            }
            thread::sleep(TURN_LOOK);
        }
    }

    /// Has the run that is running saved and stopped, waits for that, and starts no other.
    pub(crate) fn close(&self) {
        {
            let mut line = self.shared.line();
            line.closed = true;
            if let Some(going) = &line.going {
                going.state.stop.store(true, Ordering::SeqCst);
            }
            self.shared.changed.notify_all();
        }
        let thread = self.thread.lock().map(|mut thread| thread.take());
        if let Ok(Some(thread)) = thread {
            let _ = thread.join();
        }
    }

    /// Whether somebody has or waits for the machine without a run.
    pub(crate) fn has_turn(&self) -> bool {
        self.shared.line().turn.is_some()
    }

    /// Whether a run is running, or somebody has or waits for the machine without one.
    pub(crate) fn is_busy(&self) -> bool {
        let line = self.shared.line();
        line.going.is_some() || line.turn.is_some()
    }

    /// The run that is running, paused or not.
    pub(crate) fn going(&self) -> Option<Run> {
        let line = self.shared.line();
        line.going.as_ref().map(|going| going.run.clone())
    }

    /// Asks whether a run is running, again and again and from anywhere.
    pub(crate) fn whether_goes_on(&self, id: &str) -> impl Fn() -> bool + Send + use<> {
        let (shared, id) = (self.shared.clone(), id.to_owned());
        move || {
            let line = shared.line();
            line.going.as_ref().is_some_and(|going| going.run.id == id)
        }
    }

    /// The runs that wait, in order.
    pub(crate) fn waiting(&self) -> Vec<Run> {
        let line = self.shared.line();
        line.waiting
            .iter()
            .map(|waiting| waiting.run.clone())
            .collect()
    }

    /// The place of a run among those that wait, from 1.
    pub(crate) fn place(&self, id: &str) -> Option<usize> {
        let line = self.shared.line();
        line.waiting
            .iter()
            .position(|waiting| waiting.run.id == id)
            .map(|at| at + 1)
    }
}

impl Going {
    /// Whether it is stopping, or is over and only its engine is still leaving.
    fn is_over(&self) -> bool {
        self.state.stop.load(Ordering::SeqCst) || self.state.over.load(Ordering::SeqCst)
    }
}

/// Why the disk takes no events, if that is what an event says.
fn why_unwritten(recorded: &RecordedEvent) -> Option<String> {
    match &recorded.event {
        TrainEvent::Waiting { why, .. } if recorded.number == 0 => {
            Some(format!("the run waits for its disk: {why}"))
        }
        _ => None,
    }
}

/// Writes into a run's events why it did not continue, unless its engine did so. Returns what could not be written there.
///
/// A run that had begun stays interrupted: it can continue. One that had not has failed.
fn reported(run: &Run, error: AppError, begun: bool) -> Option<String> {
    let Ok(_lock) = run.lock() else {
        return Some(error.message);
    };
    let last = run.events().ok().and_then(|mut events| events.pop());
    let step = run.state().map_or(0, |state| state.step);
    let event = match last.map(|last| last.event) {
        Some(TrainEvent::Failed { .. }) => return None,
        _ if begun => TrainEvent::Warned {
            message: error.message.clone(),
        },
        _ => error.failure(step),
    };
    let written = Record::open(&run.events_file()).and_then(|mut record| record.append(event));
    written.is_err().then_some(error.message)
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.close();
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shared.line().turn = None;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn line(&self) -> MutexGuard<'_, Line> {
        locked(&self.line)
    }

    /// Writes down who is running and who waits. When that fails, nothing will be offered; the runs themselves are safe.
    fn remember(&self, line: &Line) {
        let going = line.going.iter().map(|going| going.run.id.clone());
        let waiting = line.waiting.iter().map(|waiting| waiting.run.id.clone());
        let ids: Vec<String> = going
            .chain(waiting)
            .chain(line.offered.iter().cloned())
            .collect();
        let _ = waiting::write(&self.file, &ids);
    }

    /// Waits for the next run; none when the queue is closed.
    fn next(&self) -> Option<(Waiting, Arc<GoingState>)> {
        let mut line = self.line();
        loop {
            if line.closed {
                return None;
            }
            let is_free = line.turn != Some(0);
            if let Some(waiting) = line.waiting.pop_front_if(|_| is_free) {
                line.turn = line.turn.map(|ahead| ahead - 1);
                let state = Arc::new(GoingState::default());
                line.going = Some(Going {
                    run: waiting.run.clone(),
                    state: state.clone(),
                });
                return Some((waiting, state));
            }
            line = self
                .changed
                .wait(line)
                .unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }
}
