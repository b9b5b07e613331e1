//! Requests that wait for the model, and the thread that has it answer them, as many at once as there are slots.
//!
//! The model is in an engine of its own. If that ends in the middle of answers, their requests fail with an explanation, and the
//! next ones get a new engine.

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
        completion::{Completed, Drafted, Embedded, RequestEvent, Requested},
        error::{AppError, Result},
    },
};

/// How often is looked for requests that came, clients that left, and slow ones that have taken something.
const LOOK: Duration = Duration::from_millis(2);

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

impl Event {
    /// What is passed on of what the engine says; nothing of a request that was left.
    fn of(event: RequestEvent) -> Option<Self> {
        Some(match event {
            RequestEvent::Drafted(drafted) => Self::Drafted(drafted),
            RequestEvent::Completed(completed) => Self::Completed(completed),
            RequestEvent::Embedded(embedded) => Self::Embedded(embedded),
            RequestEvent::Failed(error) => Self::Failed(Refusal::failed(&error)),
            RequestEvent::Left => return None,
        })
    }
}

/// A request that waits.
struct Job {
    wanted: Requested,
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
    /// How many are being answered.
    answering: usize,
    is_closed: bool,
}

impl Waiting {
    fn next(&mut self) -> Option<Job> {
        while let Some(job) = self.jobs.pop_front() {
            if !job.events.is_closed() {
                self.answering += 1;
                return Some(job);
            }
        }
        None
    }
}

/// Opens the model anew.
pub(super) type Open = Box<dyn Fn() -> Result<OpenModel> + Send>;

impl Queue {
    /// Has something done when its turn comes. It ends when nobody listens any more.
    pub(super) fn submit(&self, wanted: Requested) -> Result<Receiver<Event>, Refusal> {
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
        waiting.jobs.push_back(Job { wanted, events });
        self.changed.notify_one();
        Ok(heard)
    }

    /// How many are being answered, and how many wait.
    pub(super) fn counts(&self) -> (usize, usize) {
        let waiting = locked(&self.waiting);
        let live = waiting.jobs.iter().filter(|job| !job.events.is_closed());
        (waiting.answering, live.count())
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
        waiting.answering = 0;
        loop {
            if waiting.is_closed {
                return None;
            }
            if let Some(job) = waiting.next() {
                return Some(job);
            }
            let woken = self.changed.wait(waiting);
            waiting = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The same beside so many that are being answered, of which there may be `slots`, if there is one now.
    fn next_beside(&self, answering: usize, slots: usize) -> Option<Job> {
        let mut waiting = locked(&self.waiting);
        waiting.answering = answering;
        match answering < slots {
            true => waiting.next(),
            false => None,
        }
    }

    fn is_closed(&self) -> bool {
        locked(&self.waiting).is_closed
    }

    /// Answers until it is closed, so many at once.
    pub(super) fn work(&self, model: OpenModel, slots: usize, open: &Open) {
        let _closing = Closing(self);
        let mut model = Some(model);
        let mut begun = 0;
        while let Some(job) = self.next() {
            let opened = match model.take() {
                Some(model) => Ok(model),
                None => open(),
            };
            match opened {
                Ok(mut opened) => {
                    let answered = self.answer(job, slots, &mut begun, &mut opened);
                    model = match answered {
                        Ok(()) => Some(opened),
                        // The next request should not wait for it. Where it can't be opened now, that one tries again.
                        Err(_) => {
                            drop(opened);
                            open().ok()
                        }
                    };
                }
                Err(error) => {
                    let failed = Event::Failed(Refusal::unavailable(&error));
                    let _ = job.events.try_send(failed);
                }
            }
        }
    }

    /// Answers a request, and others that come meanwhile. What goes wrong with the engine is told to all of them. `begun` counts the
    /// requests of a server, so that nothing of an earlier one is taken for an answer to this.
    fn answer(
        &self,
        first: Job,
        slots: usize,
        begun: &mut u64,
        model: &mut OpenModel,
    ) -> Result<()> {
        let _computes = model.computes();
        let mut running = Vec::new();
        let answered = self.answer_all(first, slots, begun, model, &mut running);
        if let Err(error) = &answered {
            let hint = "the model is being opened again; send the request once more";
            let refusal = Refusal::unavailable(&error.clone().with_hint(hint));
            for request in running.iter_mut().filter(|it| !it.is_over) {
                request.hear(Event::Failed(refusal.clone()));
            }
            // The next engine waits for no client.
            thread::spawn(move || {
                while !running.is_empty() {
                    running.iter_mut().for_each(Running::pass_on);
                    running.retain(|it| !it.is_done());
                    thread::sleep(LOOK);
                }
            });
        }
        answered
    }

    fn answer_all(
        &self,
        first: Job,
        slots: usize,
        begun: &mut u64,
        model: &mut OpenModel,
        running: &mut Vec<Running>,
    ) -> Result<()> {
        let mut next = Some(first);
        loop {
            if let Some(Job { wanted, events }) = next.take() {
                *begun += 1;
                running.push(Running::new(*begun, events));
                model.begin(*begun, wanted)?;
            }
            if let Some((number, event)) = model.hear(LOOK)? {
                let mut running = running.iter_mut();
                if let Some(request) = running.find(|it| it.number == number) {
                    match Event::of(event) {
                        Some(event) => request.hear(event),
                        None => request.is_over = true,
                    }
                }
            }
            for request in running.iter_mut() {
                request.pass_on();
                // It has its place until the engine says that it has left: it may be in the middle of a long text.
                if request.is_given_up && !request.is_over && !request.is_left {
                    request.is_left = true;
                    model.leave(request.number)?;
                }
            }
            running.retain(|it| !it.is_done());
            let answering = running.iter().filter(|it| !it.is_over).count();
            if self.is_closed() {
                return Ok(());
            }
            next = self.next_beside(answering, slots);
            if running.is_empty() && next.is_none() {
                return Ok(());
            }
        }
    }
}

/// A request that is being answered.
struct Running {
    number: u64,
    events: Sender<Event>,
    /// What its client has no room for yet.
    unheard: VecDeque<Event>,
    /// Since when its client has taken nothing.
    stalled: Option<Instant>,
    /// Whether its last event was heard.
    is_over: bool,
    /// Whether nobody listens any more, or too slowly.
    is_given_up: bool,
    /// Whether the engine was told so.
    is_left: bool,
}

impl Running {
    fn new(number: u64, events: Sender<Event>) -> Self {
        Self {
            number,
            events,
            unheard: VecDeque::new(),
            stalled: None,
            is_over: false,
            is_given_up: false,
            is_left: false,
        }
    }

    /// Whether nothing more is to be heard or passed on.
    fn is_done(&self) -> bool {
        self.is_over && (self.is_given_up || self.unheard.is_empty())
    }

    fn hear(&mut self, event: Event) {
        self.is_over |= !matches!(event, Event::Drafted(_));
        self.unheard.push_back(event);
    }

    /// Passes on what the client has room for.
    fn pass_on(&mut self) {
        self.is_given_up |= self.events.is_closed();
        while let Some(event) = self.unheard.pop_front() {
            match self.events.try_send(event) {
                Ok(()) => self.stalled = None,
                Err(TrySendError::Closed(_)) => self.is_given_up = true,
                Err(TrySendError::Full(event)) => {
                    self.unheard.push_front(event);
                    let since = *self.stalled.get_or_insert_with(Instant::now);
                    self.is_given_up |= since.elapsed() > limits::STALLED_TIME;
                    return;
                }
            }
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
