//! How far a run is, read from its events.

use std::{
    fs,
    time::{Duration, Instant},
};

use models::{
    checkpoint::{
        keep::Checkpoints,
        whole::{STATE, verify_lengths},
    },
    tasks::AnyPlan,
    train::{
        TrainEvent,
        event::RankFigures,
        sentence::waits_because,
        state::{Progress, read_saved},
        task::Metric,
    },
};
use serde::Serialize;

use super::{
    record::{EVENTS_AT_ONCE, RecordedEvent, Tail},
    runs::Run,
    smooth::{self, Smooth},
    step_times::{self, StepTimes},
};
use crate::wire::error::Result;

/// How often a plan that can't be read is looked for.
const LOOK_BESIDE: Duration = Duration::from_secs(1);

/// How far a run is.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct RunState {
    /// The name of the run's folder, by which it is asked for.
    pub(crate) id: String,
    /// Whether it continues, and if not, why.
    pub(crate) status: RunStatus,
    /// The last step done.
    pub(crate) step: usize,
    /// The step at which it ends.
    pub(crate) steps: usize,
    /// The loss of the first step.
    pub(crate) first_loss: Option<f64>,
    /// The loss of the last step, and through the middle of the latest ones.
    pub(crate) loss: Option<f64>,
    pub(crate) smoothed_loss: Option<f64>,
    /// The loss on held-out data before the first step.
    pub(crate) first_held_out_loss: Option<f64>,
    /// The lowest loss on held-out data, and the step that had it.
    pub(crate) best_loss: Option<f64>,
    pub(crate) best_step: Option<usize>,
    /// What else was last measured on held-out data.
    pub(crate) metrics: Vec<Metric>,
    /// What ended it, when it failed; what it waits for, when it was paused and nobody asked for that.
    pub(crate) problem: Option<String>,
    /// What to try then, if we know.
    pub(crate) hint: Option<String>,
    /// Whether it continues all the same when that is forced.
    pub(crate) force_helps: bool,
    /// When it first started, and when something last happened, in UTC.
    pub(crate) started: Option<String>,
    pub(crate) changed: Option<String>,
    /// Seconds spent in steps and evaluations, in all processes.
    pub(crate) seconds: f64,
    /// The median duration of the latest steps.
    pub(crate) step_millis: Option<f64>,
    /// Seconds until all steps are done, while it is running, as soon as that can be known.
    pub(crate) seconds_left: Option<f64>,
    /// Whether it is much slower than usual, since something else uses this computer.
    pub(crate) busy: bool,
    /// Units a second: in the latest steps of a run that is running or paused, on average over all steps of another.
    pub(crate) units_per_second: Option<f64>,
    /// Memory in use after the last step, and the most at any time, or after any step where nobody counts.
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) peak_memory_bytes: Option<u64>,
    /// Where it last computed, in words.
    pub(crate) device: Option<String>,
    /// Its devices, by their ranks, where it computes on several.
    pub(crate) ranks: Vec<RankFigures>,
    /// How many numbers there are, and how many learn.
    pub(crate) parameters: Option<u64>,
    pub(crate) trainable_parameters: Option<u64>,
    /// Whether something was saved that can be used.
    pub(crate) saved: bool,
    /// What of its files is damaged, each in a sentence.
    pub(crate) damage: Vec<String>,
}

/// What a run is doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
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
    #[default]
    Interrupted,
}

/// A run's state, with the place up to which its events were read: who looks again reads only what is new.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RunProgress {
    run: Run,
    tail: Tail,
    times: StepTimes,
    smooth: Smooth,
    /// Units of all steps, and the seconds these took.
    units: f64,
    step_seconds: f64,
    /// What lies beside the events. Looked at again after the run began, went back or ended, and once in a while as long as
    /// its plan can't be read.
    beside: Option<Beside>,
    /// As the events have it; whether a process trains it is asked when the state is.
    state: RunState,
}

/// What lies in a run's folder beside its events, which may be damaged, or know less than it.
#[derive(Debug, Clone, PartialEq)]
struct Beside {
    /// When that was.
    looked: Instant,
    plan: Option<AnyPlan>,
    /// Why there is no plan.
    problem: Option<String>,
    /// How far the newest whole checkpoint is, and when it was saved.
    saved: Option<(Progress, Option<String>)>,
    damage: Vec<String>,
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
            run: run.clone(),
            tail: Tail::new(run.events_file()),
            times: StepTimes::default(),
            smooth: Smooth::default(),
            units: 0.0,
            step_seconds: 0.0,
            beside: None,
            state: RunState::new(&run.id),
        }
    }

    /// Reads at most so many of the events that happened since, and returns them.
    pub(crate) fn catch_up(&mut self, most: usize) -> Result<Vec<RecordedEvent>> {
        if self.tail.is_cut() {
            *self = Self::new(&self.run);
        }
        let events = self.tail.read(most)?;
        for recorded in &events {
            self.measure(&recorded.event);
            if is_turn(&recorded.event) {
                self.beside = None;
            }
            self.state.apply(recorded);
        }
        let is_time = self
            .beside
            .as_ref()
            .is_none_or(|beside| beside.plan.is_none() && beside.looked.elapsed() > LOOK_BESIDE);
        if is_time && events.len() < most {
            self.beside = Some(Beside::look(&self.run));
        }
        Ok(events)
    }

    /// Takes what steps say of the pace and the loss.
    fn measure(&mut self, event: &TrainEvent) {
        match *event {
            TrainEvent::Started { .. } => self.times = StepTimes::default(),
            TrainEvent::Stepped {
                loss,
                units,
                millis,
                ..
            } => {
                self.times.stepped(millis, units);
                if let Some(loss) = loss {
                    self.smooth.add(loss, smooth::reach(self.state.steps));
                }
                self.units += units as f64;
                self.step_seconds += millis / 1e3;
            }
            _ => {}
        }
    }

    /// Reads all that happened since, and keeps none of it.
    pub(crate) fn catch_up_with_all(&mut self) -> Result<()> {
        while !self.catch_up(EVENTS_AT_ONCE)?.is_empty() {}
        Ok(())
    }

    /// The plan, where it can be known.
    #[cfg(feature = "gui")]
    pub(crate) fn plan(&self) -> Option<AnyPlan> {
        self.beside.as_ref()?.plan.clone()
    }

    /// How far the run is now. One that this app has taken on is not cut off where no process holds it: it is between two of
    /// them, or its disk went away.
    pub(crate) fn state(&self, run: &Run, is_taken_on: bool) -> Result<RunState> {
        let mut state = self.state.clone();
        state.smoothed_loss = self.smooth.value();
        let began = state.changed.is_some();
        if let Some(beside) = &self.beside {
            state.add(beside);
        }
        if !began && state.saved {
            let step = state.step;
            state.damage.push(format!(
                "`events.jsonl` is missing or empty; that step {step} is done says the newest checkpoint"
            ));
        }
        match self.tail.unreadable() {
            0 => {}
            1 => state
                .damage
                .push("1 line of `events.jsonl` can’t be read and is left out".to_owned()),
            count => state.damage.push(format!(
                "{count} lines of `events.jsonl` can’t be read and are left out"
            )),
        }
        let trained = is_taken_on || run.is_locked()?;
        state.status = match (trained, state.status) {
            (true, RunStatus::Paused) => RunStatus::Paused,
            (true, _) => RunStatus::Running,
            // Who held it in memory went away.
            (false, RunStatus::Paused) => RunStatus::Interrupted,
            (false, status) => status,
        };
        self.add_pace(&mut state);
        Ok(state)
    }

    /// Adds how fast the run is, and how long it will take as long as it is running.
    fn add_pace(&self, state: &mut RunState) {
        state.units_per_second = match state.status {
            RunStatus::Running | RunStatus::Paused => self.times.rate(),
            _ => step_times::rate(self.units, self.step_seconds),
        };
        state.step_millis = self.times.millis();
        if state.status == RunStatus::Running {
            let left = state.steps.saturating_sub(state.step);
            state.seconds_left = self.times.seconds_left(left);
            state.busy = state.seconds_left.is_some() && self.times.is_busy();
        }
    }
}

impl Beside {
    fn look(run: &Run) -> Self {
        let mut damage = Vec::new();
        let (plan, problem) = match run.known_plan() {
            Ok(known) => {
                damage.extend(known.damage);
                (Some(known.plan), None)
            }
            Err(error) => (None, Some(error.message)),
        };
        let checkpoints = Checkpoints::new(&run.checkpoints(), 1);
        let mut saved = None;
        for checkpoint in checkpoints.list().unwrap_or_default().into_iter().rev() {
            if let Err(error) = verify_lengths(&checkpoint.path) {
                let step = checkpoint.step;
                damage.push(format!("the checkpoint of step {step} is damaged: {error}"));
            } else if saved.is_none() {
                let written =
                    fs::metadata(checkpoint.path.join(STATE)).and_then(|it| it.modified());
                let at = written.ok().and_then(super::moment);
                saved = read_saved(&checkpoint.path)
                    .ok()
                    .map(|it| (it.progress, at));
            }
        }
        // The process that trains it removes old checkpoints, and one that is half gone is not damaged.
        if run.is_locked().unwrap_or(true) {
            damage.clear();
        }
        Self {
            looked: Instant::now(),
            plan,
            problem,
            saved,
            damage,
        }
    }
}

/// Whether what lies beside the events may be another after this one.
fn is_turn(event: &TrainEvent) -> bool {
    matches!(
        event,
        TrainEvent::Started { .. }
            | TrainEvent::RolledBack { .. }
            | TrainEvent::Stopped { .. }
            | TrainEvent::Failed { .. }
            | TrainEvent::Finished { .. }
    )
}

impl RunState {
    fn new(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            ..Self::default()
        }
    }

    /// Adds what the folder knows and the events don't.
    fn add(&mut self, beside: &Beside) {
        self.damage.extend(beside.damage.iter().cloned());
        if let Some(problem) = &beside.problem {
            self.status = RunStatus::Failed;
            self.problem = Some(problem.clone());
        }
        if let (0, Some(plan)) = (self.steps, &beside.plan) {
            self.steps = plan.run.steps;
        }
        let Some((progress, saved_at)) = &beside.saved else {
            return;
        };
        self.saved = true;
        self.best_loss = self.best_loss.or(progress.best.map(|best| best.loss));
        self.best_step = self.best_step.or(progress.best.map(|best| best.step));
        // Events are written first, so a checkpoint that is ahead of them has outlived them.
        if progress.step > self.step {
            self.step = progress.step;
            self.seconds = self.seconds.max(progress.seconds);
        }
        if self.started.is_none() {
            self.started = saved_at.clone();
            self.changed = self.changed.take().or_else(|| saved_at.clone());
            if self.status == RunStatus::Interrupted && self.steps > 0 && self.step >= self.steps {
                self.status = RunStatus::Finished;
            }
        }
    }

    fn apply(&mut self, RecordedEvent { time, event, .. }: &RecordedEvent) {
        self.step = event.last_step().unwrap_or(self.step);
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
                self.hint = None;
                self.force_helps = false;
                self.started.get_or_insert_with(|| time.clone());
                self.device = Some(device.clone());
                self.ranks.clear();
                self.parameters = Some(*parameters);
                self.trainable_parameters = Some(*trainable_parameters);
            }
            &TrainEvent::Stepped {
                loss,
                millis,
                memory_bytes,
                peak_bytes,
                ..
            } => {
                self.first_loss = self.first_loss.or(loss);
                self.loss = loss.or(self.loss);
                self.seconds += millis / 1e3;
                self.use_memory(memory_bytes, peak_bytes);
            }
            TrainEvent::Ranks { ranks, .. } => self.ranks.clone_from(ranks),
            TrainEvent::Evaluated { .. } => self.evaluated(event),
            TrainEvent::Waiting {
                why, missing_bytes, ..
            } => self.wait(why, *missing_bytes),
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
            TrainEvent::Failed {
                message,
                hint,
                force_helps,
                ..
            } => self.fail(message, hint, *force_helps),
            TrainEvent::Tried { .. }
            | TrainEvent::RolledBack { .. }
            | TrainEvent::MemoryFallback { .. }
            | TrainEvent::Showed(_)
            | TrainEvent::Warned { .. } => {}
        }
    }

    /// Held-out data was looked at.
    fn evaluated(&mut self, event: &TrainEvent) {
        let &TrainEvent::Evaluated {
            step,
            loss,
            ref metrics,
            best,
            millis,
            ..
        } = event
        else {
            return;
        };
        self.seconds += millis / 1e3;
        self.metrics.clone_from(metrics);
        if step == 0 {
            self.first_held_out_loss.get_or_insert(loss);
        }
        if best {
            self.best_loss = Some(loss);
            self.best_step = Some(step);
        }
    }

    /// So much was in use after a step, and so much at most. 0 is unknown.
    fn use_memory(&mut self, memory_bytes: u64, peak_bytes: Option<u64>) {
        if memory_bytes > 0 {
            self.memory_bytes = Some(memory_bytes);
            let peak = peak_bytes.max(Some(memory_bytes));
            self.peak_memory_bytes = self.peak_memory_bytes.max(peak);
        }
    }

    fn fail(&mut self, message: &str, hint: &Option<String>, force_helps: bool) {
        self.status = RunStatus::Failed;
        self.problem = Some(message.to_owned());
        self.hint.clone_from(hint);
        self.force_helps = force_helps;
    }

    fn wait(&mut self, why: &str, missing_bytes: Option<u64>) {
        self.status = RunStatus::Paused;
        self.problem = Some(waits_because(why, missing_bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started() -> TrainEvent {
        TrainEvent::Started {
            step: 0,
            steps: 1_000,
            trainable_parameters: 1,
            parameters: 1,
            device: "CPU".to_owned(),
        }
    }

    fn stepped(step: usize, millis: f64) -> TrainEvent {
        TrainEvent::Stepped {
            step,
            loss: Some(1.0),
            learning_rate: Some(1e-3),
            gradient_norm: Some(1.0),
            units: 8,
            units_per_second: 8e3 / millis,
            millis,
            memory_bytes: 0,
            peak_bytes: None,
        }
    }

    #[test]
    fn a_run_that_is_running_has_a_time_left_and_its_present_rate_and_another_its_mean() {
        let mut progress = RunProgress::new(&Run::at("nowhere".into()));
        let mut after = |events: Vec<TrainEvent>, status| {
            events.iter().for_each(|event| progress.measure(event));
            let step = events.iter().rev().find_map(TrainEvent::step).unwrap();
            let mut state = RunState {
                status,
                step,
                steps: 1_000,
                ..RunState::default()
            };
            progress.add_pace(&mut state);
            (state.seconds_left, state.units_per_second)
        };
        let steps = |from: usize, to, millis| (from..=to).map(|it| stepped(it, millis)).collect();
        let running = RunStatus::Running;
        assert_eq!(after(vec![started()], running), (None, None));
        assert_eq!(after(steps(1, 100, 1_000.0), running).0, Some(900.0));
        // A run that has become slower says so after some steps.
        let slower = (Some(1_680.0), Some(4.0));
        assert_eq!(after(steps(101, 160, 2_000.0), running), slower);
        // And one that is running elsewhere begins anew.
        let elsewhere = vec![started(), stepped(161, 500.0)];
        assert_eq!(after(elsewhere, running).0, None);
        let fast = steps(162, 180, 500.0);
        assert_eq!(after(fast, running), (Some(420.0), Some(16.0)));
        let last = || vec![TrainEvent::Continued { step: 180 }];
        assert_eq!(after(last(), RunStatus::Paused), (None, Some(16.0)));
        // 180 steps of 8 units in 230 seconds.
        let (left, mean) = after(last(), RunStatus::Stopped);
        assert_eq!((left, mean), (None, Some(1_440.0 / 230.0)));
    }
}
