//! Requests that wait for the model, and the thread that has it answer them, one after another.
//!
//! The model is in an engine of its own. If that ends in the middle of an answer, the request fails with an explanation, and the
//! next one gets a new engine.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use axum::http::StatusCode;
use tokio::sync::mpsc::{self, Receiver, Sender, error::TrySendError};

use super::{limits, refusal::Refusal};
use crate::{
    host::chat::OpenModel,
    lock::locked,
    wire::{
        completion::{Beginning, Completed, Completion, Drafted, Embedded},
        error::{AppError, Result},
    },
};

/// How often is looked whether a slow client has taken something.
const LOOK: Duration = Duration::from_millis(2);

/// What is wanted of the model.
#[derive(Debug)]
pub(super) enum Work {
    /// Completing something.
    Complete(Box<Completion>),
    /// Making a vector of a text.
    Embed(Beginning),
}

/// What a request hears of its answer. Nothing comes after [`Event::Completed`], [`Event::Embedded`] and [`Event::Failed`].
#[derive(Debug)]
pub(super) enum Event {
    /// A token was written, or text became certain.
    Drafted(Drafted),
    /// It is over.
    Completed(Completed),
    /// A vector was made, which is all of it.
    Embedded(Embedded),
    /// It can't be written.
    Failed(Refusal),
}

/// A request that waits.
struct Job {
    work: Work,
    events: Sender<Event>,
}

/// The requests that wait.
#[derive(Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    answers_one: bool,
    is_closed: bool,
}

/// Opens the model anew.
pub(super) type Open = Box<dyn Fn() -> Result<OpenModel> + Send>;

impl Queue {
    /// Has something done when its turn comes. It ends when nobody listens any more.
    pub(super) fn submit(&self, work: Work) -> Result<Receiver<Event>, Refusal> {
        let mut waiting = locked(&self.waiting);
        waiting.jobs.retain(|job| !job.events.is_closed());
        if waiting.is_closed {
            let error = AppError::failed("the server is being stopped");
            return Err(Refusal::unavailable(&error));
        }
        let most = limits::QUEUE.most;
        if waiting.jobs.len() as u64 >= most {
            let why = format!("{most} requests wait already; send this one again later");
            return Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, why).again_after(5));
        }
        let (events, heard) = mpsc::channel(limits::EVENTS);
        waiting.jobs.push_back(Job { work, events });
        self.changed.notify_one();
        Ok(heard)
    }

    /// How many are being answered, and how many wait.
    pub(super) fn counts(&self) -> (usize, usize) {
        let waiting = locked(&self.waiting);
        let live = waiting.jobs.iter().filter(|job| !job.events.is_closed());
        (usize::from(waiting.answers_one), live.count())
    }

    /// Takes no more, and lets nobody wait.
    pub(super) fn close(&self) {
        let mut waiting = locked(&self.waiting);
        waiting.is_closed = true;
        waiting.jobs.clear();
        self.changed.notify_all();
    }

    /// The next one that somebody still waits for. Nothing once it is closed.
    fn next(&self) -> Option<Job> {
        let mut waiting = locked(&self.waiting);
        waiting.answers_one = false;
        loop {
            if waiting.is_closed {
                return None;
            }
            while let Some(job) = waiting.jobs.pop_front() {
                if !job.events.is_closed() {
                    waiting.answers_one = true;
                    return Some(job);
                }
            }
            let woken = self.changed.wait(waiting);
            waiting = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Answers until it is closed.
    pub(super) fn work(&self, model: OpenModel, open: &Open) {
        let _closing = Closing(self);
        let mut model = Some(model);
        while let Some(job) = self.next() {
            let opened = match model.take() {
                Some(model) => Ok(model),
                None => open(),
            };
            let mut opened = match opened {
                Ok(model) => model,
                Err(error) => {
                    let _ = job
                        .events
                        .try_send(Event::Failed(Refusal::unavailable(&error)));
                    continue;
                }
            };
            answer(job, &mut opened);
            model = match opened.is_alive() {
                true => Some(opened),
                // The next request should not wait for it. Where it can't be opened now, that one tries again.
                false => {
                    drop(opened);
                    open().ok()
                }
            };
        }
    }
}

/// Closes a queue that nobody works at any more, also after a panic, so that nobody waits for ever.
struct Closing<'a>(&'a Queue);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

fn answer(job: Job, model: &mut OpenModel) {
    let Job { work, events } = job;
    let is_given_up = std::cell::Cell::new(false);
    let mut show = |drafted| {
        if !is_given_up.get() && !pass(&events, Event::Drafted(drafted)) {
            is_given_up.set(true);
        }
    };
    let stop = || is_given_up.get() || events.is_closed();
    let done = match work {
        Work::Complete(completion) => model
            .complete(completion, &mut show, &stop)
            .map(Event::Completed),
        Work::Embed(text) => model.embed(text, &stop).map(Event::Embedded),
    };
    let last = match done {
        Ok(event) => event,
        Err(error) if model.is_alive() => Event::Failed(Refusal::failed(&error)),
        Err(error) => Event::Failed(Refusal::unavailable(
            &error.with_hint("the model is being opened again; send the request once more"),
        )),
    };
    if !is_given_up.get() {
        pass(&events, last);
    }
}

/// Passes an event on, and waits a while for a client that is slow. Whether it was taken.
fn pass(events: &Sender<Event>, mut event: Event) -> bool {
    let began = Instant::now();
    loop {
        match events.try_send(event) {
            Ok(()) => return true,
            Err(TrySendError::Closed(_)) => return false,
            Err(TrySendError::Full(_)) if began.elapsed() > limits::STALLED_TIME => return false,
            Err(TrySendError::Full(back)) => event = back,
        }
        thread::sleep(LOOK);
    }
}
