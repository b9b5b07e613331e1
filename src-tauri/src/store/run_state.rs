//! How far a run is, read from its events.

use ::models::train::TrainEvent;
use serde::Serialize;

use super::{
    record::{RecordedEvent, Tail},
    runs::Run,
};
use crate::wire::error::Result;

/// How many of the latest steps the mean duration of a step is about.
const STEPS_AVERAGED: f64 = 50.0;

/// How many events are in memory at once where only the state after them is wanted.
const EVENTS_AT_ONCE: usize = 5_000;

/// How far a run is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct RunState {
    /// The run.
    pub(crate) id: String,
    /// Whether it goes on, and if not, why.
    pub(crate) status: RunStatus,
    /// The last step done.
    pub(crate) step: usize,
    /// The step at which it ends.
    pub(crate) steps: usize,
    /// The loss of the first step.
    pub(crate) first_loss: Option<f64>,
    /// The loss of the last step.
    pub(crate) loss: Option<f64>,
    /// The lowest loss on held-out data.
    pub(crate) best_loss: Option<f64>,
    /// What ended it, when it failed; what it waits for, when it was paused and nobody asked for that.
    pub(crate) problem: Option<String>,
    /// When it first started, and when something last happened, in UTC.
    pub(crate) started: Option<String>,
    pub(crate) changed: Option<String>,
    /// Seconds spent in steps and evaluations, in all processes.
    pub(crate) seconds: f64,
    /// The mean duration of the latest steps.
    pub(crate) step_millis: Option<f64>,
    /// Tokens a second in the last step.
    pub(crate) tokens_per_second: Option<f64>,
    /// Memory in use after the last step, and the most after any.
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) peak_memory_bytes: Option<u64>,
    /// Where it last computed, in words.
    pub(crate) device: Option<String>,
    /// How many numbers there are, and how many learn.
    pub(crate) parameters: Option<u64>,
    pub(crate) trainable_parameters: Option<u64>,
    /// Whether something was saved that can be talked to.
    pub(crate) saved: bool,
}

/// What a run is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "gui", derive(specta::Type))]
#[serde(rename_all = "snake_case")]
pub(crate) enum RunStatus {
    /// A process is training it.
    Running,
    /// A process holds it in memory and waits.
    Paused,
    /// All steps are done.
    Finished,
    /// It was asked to stop and saved.
    Stopped,
    /// It ended with an error.
    Failed,
    /// Its process went away without a word: a crash, a power cut.
    Interrupted,
}

/// A run's state, with the place up to which its events were read: who looks again reads only what is new.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RunProgress {
    tail: Tail,
    /// Steps since the run last started. The first is slow, and says nothing of those to come.
    steps_here: usize,
    /// As the events have it; whether a process trains it is asked when the state is.
    state: RunState,
}

impl RunStatus {
    /// The word for it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Finished => "finished",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
        }
    }
}

impl RunProgress {
    /// Nothing is read yet.
    pub(crate) fn new(run: &Run) -> Self {
        Self {
            tail: Tail::new(run.events_file()),
            steps_here: 0,
            state: RunState::new(&run.id),
        }
    }

    /// Reads at most so many of the events that happened since, and returns them.
    pub(crate) fn catch_up(&mut self, most: usize) -> Result<Vec<RecordedEvent>> {
        let events = self.tail.read(most)?;
        for recorded in &events {
            self.steps_here = match recorded.event {
                TrainEvent::Started { .. } => 0,
                TrainEvent::Stepped { .. } => self.steps_here + 1,
                _ => self.steps_here,
            };
            self.state.apply(recorded, self.steps_here);
        }
        Ok(events)
    }

    /// Reads all that happened since, and keeps none of it.
    pub(crate) fn catch_up_with_all(&mut self) -> Result<()> {
        while !self.catch_up(EVENTS_AT_ONCE)?.is_empty() {}
        Ok(())
    }

    /// The number of the last event that was read.
    #[cfg(feature = "gui")]
    pub(crate) fn last_number(&self) -> u64 {
        self.tail.last_number()
    }

    /// How far the run is now.
    pub(crate) fn state(&self, run: &Run) -> Result<RunState> {
        let mut state = self.state.clone();
        let trained = run.is_locked()?;
        state.status = match (trained, state.status) {
            (true, RunStatus::Paused) => RunStatus::Paused,
            (true, _) => RunStatus::Running,
            // Who held it in memory went away.
            (false, RunStatus::Paused) => RunStatus::Interrupted,
            (false, status) => status,
        };
        Ok(state)
    }
}

impl RunState {
    fn new(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            status: RunStatus::Interrupted,
            step: 0,
            steps: 0,
            first_loss: None,
            loss: None,
            best_loss: None,
            problem: None,
            started: None,
            changed: None,
            seconds: 0.0,
            step_millis: None,
            tokens_per_second: None,
            memory_bytes: None,
            peak_memory_bytes: None,
            device: None,
            parameters: None,
            trainable_parameters: None,
            saved: false,
        }
    }

    /// Seconds until all steps are done, at the rate of the latest.
    pub(crate) fn seconds_left(&self) -> Option<f64> {
        let left = self.steps.saturating_sub(self.step) as f64;
        self.step_millis.map(|millis| left * millis / 1e3)
    }

    fn apply(&mut self, RecordedEvent { time, event, .. }: &RecordedEvent, steps_here: usize) {
        self.step = event.step().unwrap_or(self.step);
        self.changed = Some(time.clone());
        match event {
            TrainEvent::Started {
                steps,
                trainable_parameters,
                parameters,
                device,
                ..
            } => {
                self.steps = *steps;
                self.status = RunStatus::Interrupted;
                self.problem = None;
                self.started.get_or_insert_with(|| time.clone());
                self.device = Some(device.clone());
                self.parameters = Some(*parameters);
                self.trainable_parameters = Some(*trainable_parameters);
                // Another process may be on another machine's terms: its first steps say.
                self.step_millis = None;
            }
            &TrainEvent::Stepped {
                loss,
                tokens_per_second,
                millis,
                memory_bytes,
                ..
            } => {
                self.first_loss.get_or_insert(loss);
                self.loss = Some(loss);
                self.seconds += millis / 1e3;
                let weight = 1.0 / (steps_here as f64 - 1.0).clamp(1.0, STEPS_AVERAGED);
                let mean = |past| past + weight * (millis - past);
                self.step_millis = Some(self.step_millis.map_or(millis, mean));
                self.tokens_per_second = Some(tokens_per_second);
                if memory_bytes > 0 {
                    self.memory_bytes = Some(memory_bytes);
                    self.peak_memory_bytes = self.peak_memory_bytes.max(Some(memory_bytes));
                }
            }
            &TrainEvent::Evaluated {
                loss, best, millis, ..
            } => {
                self.seconds += millis / 1e3;
                if best {
                    self.best_loss = Some(loss);
                }
            }
            TrainEvent::RolledBack { to_step, .. } | TrainEvent::Relieved { to_step, .. } => {
                self.step = *to_step;
            }
            TrainEvent::Waiting {
                why, missing_bytes, ..
            } => {
                let missing = missing_bytes
                    .map(|bytes| format!("; {} MB are missing", bytes.div_ceil(1_000_000)));
                self.status = RunStatus::Paused;
                self.problem = Some(format!("{why}{}", missing.unwrap_or_default()));
            }
            TrainEvent::Saved { .. } => self.saved = true,
            TrainEvent::Paused { why, .. } => {
                self.status = RunStatus::Paused;
                self.problem.clone_from(why);
            }
            TrainEvent::Continued { .. } => {
                self.status = RunStatus::Interrupted;
                self.problem = None;
            }
            TrainEvent::Stopped { .. } => self.status = RunStatus::Stopped,
            TrainEvent::Finished { .. } => self.status = RunStatus::Finished,
            TrainEvent::Failed { message, .. } => {
                self.status = RunStatus::Failed;
                self.problem = Some(message.clone());
            }
            TrainEvent::Sampled { .. } | TrainEvent::Warned { .. } => {}
        }
    }
}
