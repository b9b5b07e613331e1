//! Training a run, inside an engine.

use std::{
    cell::RefCell,
    collections::VecDeque,
    fs,
    path::Path,
    process, thread,
    time::{Duration, Instant},
};

use models::{
    bench,
    checkpoint::keep::{Checkpoint, Checkpoints},
    device::{
        self, Choice,
        memory::reset_peak,
        pressure::{PressureWatch, Scarce},
    },
    profile::Ceilings,
    tasks::AnyPlan,
    train::{
        self, Kind, Observer, RunPlan, Task, TrainEvent, TrainPlan, TrainState,
        forecast::{self, Forecast},
        group::Together,
        kind::RunPlace,
        profile::{self, Profile},
        share::Share,
        state::{read_saved, save_piece},
        tree::Part,
    },
    with_kind,
};

#[cfg(debug_assertions)]
use super::fault::{Faults, Faulty};
use super::{bench::place as bench_place, choose, pace::Pace, several, watchdog::Watchdog};
use crate::{
    power::supply::Power,
    ranks::meet::Meeting,
    store::{
        plan_changes,
        record::{Record, RecordedEvent},
        runs::{Run, RunLock},
        sources,
    },
    wire::error::{AppError, Code, Result},
};

/// How often events that can't be written are tried again.
const DISK_LOOK: Duration = Duration::from_millis(500);
/// A checkpoint that is larger is not written for a trial: a piece of it says how long it would take.
const MAX_SAVED_BYTES: u64 = 2 << 30;

/// What the app wants of the run.
#[derive(Clone, Copy)]
pub(super) struct RunControl<'a> {
    pub(super) pause: &'a dyn Fn() -> bool,
    pub(super) why_pause: &'a dyn Fn() -> Option<String>,
    pub(super) stop: &'a dyn Fn() -> bool,
    /// To continue although data, model or settings are not what they were.
    pub(super) force: bool,
}

/// Trains a run from its newest checkpoint, if it has one, until it is done or asked to stop.
///
/// Every event is on disk before it is shown.
pub(super) fn train(
    run: &Run,
    show: &mut dyn FnMut(RecordedEvent),
    control: RunControl,
) -> Result<()> {
    let lock = run.lock()?;
    let record = Record::open(&run.events_file())?;
    let mut observer = Recorder {
        writer: RefCell::new(Writer {
            run,
            lock: Some(lock),
            record,
            show,
            unwritten: VecDeque::new(),
            step: run.state().map_or(0, |state| state.step),
            problem: None,
        }),
        control,
        watchdog: Watchdog::new(),
        pressure: PressureWatch::default(),
        pace: Pace::new(),
        #[cfg(debug_assertions)]
        faults: Faults::of_environment(),
    };
    let trained = train_locked(run, &mut observer);
    match &trained {
        // Whoever started this engine may know a way on.
        Err(error) if [Code::OutOfMemory, Code::LostRank].contains(&error.code) => {}
        Err(error) => {
            let step = observer.writer.get_mut().step;
            observer.event(error.failure(step));
        }
        Ok(()) => {}
    }
    trained.and(observer.write_the_rest())
}

/// Takes a few steps of a run and keeps nothing: what is saved to see how long that takes goes into `folder` and away
/// again. Returns what the run will take, or nothing when it was stopped.
pub(super) fn try_steps(
    AnyPlan { run, task }: AnyPlan,
    folder: &Path,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Forecast>> {
    with_kind!(TaskPlan, task, K, task => try_steps_of::<K>(&TrainPlan { run, task }, folder, stop))
}

fn try_steps_of<K: Kind>(
    plan: &TrainPlan<K::Plan>,
    folder: &Path,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Forecast>> {
    let started = Instant::now();
    let device = device::open(&choose(plan.run.device, plan.run.strict)?)?;
    let place = RunPlace {
        device: &device,
        learned_from: None,
        folder,
    };
    let mut task = K::open(plan, &place)?;
    let opening_seconds = started.elapsed().as_secs_f64();
    let shape = K::read_shape(&plan.task)?;
    let needed = |rows, length| {
        let mut plan = plan.clone();
        (plan.run.batch.rows, plan.run.batch.length) = (rows, length);
        K::estimate(&plan, &shape).bytes()
    };
    let mut save = |state: &mut TrainState, task: &K::Task| {
        let seconds = save_seconds(&plan.run, state, task, folder);
        let _left_over = fs::remove_dir_all(folder);
        Ok(seconds)
    };
    let trial = forecast::trial(plan, &mut task, &needed, opening_seconds, &mut save, stop)?;
    Ok(trial.and_then(|trial| Forecast::new(&plan.run, &needed, &trial)))
}

/// Takes a few steps of a run and keeps nothing. Returns where they spent their time and memory, and what the device could do at
/// best, or nothing when it was stopped.
pub(super) fn profile_steps(
    AnyPlan { run, task }: AnyPlan,
    folder: &Path,
    stop: &dyn Fn() -> bool,
) -> Result<Option<(Profile, Option<Ceilings>)>> {
    let place = bench_place(run.device, run.strict, run.avoid_kernels.clone())?;
    let dtype = run.dtype.compute;
    let profile = with_kind!(TaskPlan, task, K, task => {
        let plan = TrainPlan { run, task };
        let place = RunPlace {
            device: &place.device,
            learned_from: None,
            folder,
        };
        let mut task = K::open(&plan, &place)?;
        profile::profile(&plan, &mut task, stop)?
    });
    Ok(profile.map(|profile| (profile, bench::ceilings(&place, dtype, stop))))
}

/// How long a save takes. Nothing where the disk does not take it; the run will say so.
fn save_seconds(
    plan: &RunPlan,
    state: &mut TrainState,
    task: &impl Task,
    folder: &Path,
) -> Option<f64> {
    let bytes = plan.checkpoint_bytes(task.parameters().trainable_count() as u64);
    let started = Instant::now();
    if bytes <= MAX_SAVED_BYTES {
        state.save(task, folder).ok()?;
        return Some(started.elapsed().as_secs_f64());
    }
    let written = save_piece(task, folder, MAX_SAVED_BYTES / 8).ok()?;
    Some(started.elapsed().as_secs_f64() * bytes as f64 / written as f64)
}

fn train_locked(run: &Run, observer: &mut Recorder) -> Result<()> {
    if let Some(message) = run.mend_plan()? {
        observer.event(TrainEvent::Warned { message });
    }
    let whole = run.plan()?;
    let force = observer.control.force;
    let plan = &whole.run;
    let newest = newest(&checkpoints(run, plan), observer)?;
    let last_event = observer.writer.get_mut().record.last_event();
    let had_fallback = matches!(last_event, Some(TrainEvent::MemoryFallback { .. }));
    let mut reported = Vec::new();
    if let Some(newest) = &newest {
        let saved = read_saved(&newest.path)?;
        let changes = plan_changes::check(&saved, &whole, force, had_fallback)?;
        reported.extend(changes);
    }
    reported.extend(sources::check(run, &whole, force)?);
    let mut meeting = several::meet(run, &whole, newest.as_ref().map(|it| it.step), force)?;
    let chosen = choose(plan.device, plan.strict).and_then(|choice| {
        if newest.is_some() {
            stay_on_device(plan, &choice)?;
        }
        Ok(choice)
    });
    let choice = match &meeting {
        Some(meeting) => meeting.or_said(chosen)?,
        None => chosen?,
    };
    let unused = meeting.as_ref().and_then(Meeting::warning);
    let warnings = choice.warnings.iter().cloned().chain(unused);
    for message in reported.into_iter().chain(warnings) {
        observer.event(TrainEvent::Warned { message });
    }
    train_on(
        whole,
        newest,
        (&choice, meeting.as_mut()),
        &run.folder,
        force,
        observer,
    )
}

/// Trains a plan from a checkpoint, if there is one, on this device, alone or with the ranks of a meeting.
pub(super) fn train_on(
    AnyPlan { run, task }: AnyPlan,
    newest: Option<Checkpoint>,
    (choice, mut meeting): (&Choice, Option<&mut Meeting>),
    folder: &Path,
    force: bool,
    observer: &mut dyn Observer,
) -> Result<()> {
    let opened = device::open(choice).map_err(AppError::from);
    let device = match &meeting {
        Some(meeting) => meeting.or_said(opened)?,
        None => opened?,
    };
    let together = match &mut meeting {
        Some(meeting) => Some(meeting.connect(&device, &choice.device.name)?),
        None => None,
    };
    // What was learned means nothing with a tokenizer made from other data.
    let learned_from = newest
        .as_ref()
        .filter(|_| force)
        .map(|it| it.path.as_path());
    let place = RunPlace {
        device: &device,
        learned_from,
        folder,
    };
    let checkpoints = checkpoints(&Run::at(folder.to_owned()), &run);
    with_kind!(TaskPlan, task, K, task => {
        let plan = TrainPlan { run, task };
        let open = || {
            let task = K::open(&plan, &place)?;
            // A model that is read is mapped, and its pages count as resident though the system can take them back at any time.
            // The peak of a run is what it needs while it learns.
            reset_peak(&device);
            #[cfg(debug_assertions)]
            let task = {
                Faults::of_environment().begin();
                Faulty::new(task, plan.run.batch.rows)
            };
            Ok(task)
        };
        let ranks = (together, meeting.as_deref());
        train_task(&plan, open, (newest.clone(), force), &checkpoints, ranks, observer)
    })
}

fn checkpoints(run: &Run, plan: &RunPlan) -> Checkpoints {
    Checkpoints::new(&run.checkpoints(), plan.save.keep_last).keep_every(plan.save.keep_every)
}

/// Trains a task from its newest checkpoint, if it has one.
fn train_task<P: Part, T: Task>(
    plan: &TrainPlan<P>,
    open: impl FnOnce() -> Result<T>,
    (newest, force): (Option<Checkpoint>, bool),
    checkpoints: &Checkpoints,
    (mut together, meeting): (Option<Together>, Option<&Meeting>),
    observer: &mut dyn Observer,
) -> Result<()> {
    let share = together.as_ref().map_or(Share::ALL, Together::share);
    let prepare = || {
        let mut task = open()?;
        let state = prepare((plan, share), &mut task, newest, force, observer)?;
        Ok((task, state))
    };
    let (mut task, mut state) = several::in_turn(together.as_mut(), prepare)?;
    if let Some(together) = together {
        state.join(together);
    }
    match train::train(&plan.run, &mut task, &mut state, checkpoints, observer) {
        // A process whose device was lost can't get it back; the next one continues.
        Err(error) if error.is_failure_of_the_device() => give_up(&error),
        Err(models::Error::Peer(sentence)) => Err(several::ended(sentence, meeting, checkpoints)),
        Err(error) => Err(error.into()),
        Ok(_) => Ok(()),
    }
}

/// The state to begin with: that of a checkpoint, if there is one.
fn prepare<P: Part, T: Task>(
    (plan, share): (&TrainPlan<P>, Share),
    task: &mut T,
    newest: Option<Checkpoint>,
    force: bool,
    observer: &mut dyn Observer,
) -> Result<TrainState> {
    let mut state = TrainState::of_rank(plan, task, share)?;
    let Some(newest) = newest else {
        return Ok(state);
    };
    match state.restore(task, &newest.path) {
        Err(models::Error::Data(_)) if force => {
            state.restore_on_other_data(task, &newest.path)?;
            let message = "the data is read from its beginning".to_owned();
            observer.event(TrainEvent::Warned { message });
        }
        Err(error @ models::Error::Data(_)) => {
            return Err(AppError::from(error).unless_forced());
        }
        restored => restored?,
    }
    Ok(state)
}

/// An error where a run that has begun would continue on another device, which nobody has allowed.
fn stay_on_device(plan: &RunPlan, choice: &Choice) -> Result<()> {
    if plan.narrows_products() && !choice.device.multiplies_bf16 {
        let message = "the run computes in bf16, and this processor has no products of bf16";
        let hint =
            "continue it where it began, or set `dtype.compute` to f32 in the run’s `run.yaml`";
        return Err(AppError::failed(message).with_hint(hint));
    }
    if choice.device.requested() == plan.device || plan.memory_fallback.cpu {
        return Ok(());
    }
    let (device, other) = (plan.device, &choice.device.name);
    let message = format!("the run was trained on {device}, which can’t be used now");
    let hint = format!(
        "bring it back, or change `device` or `memory_fallback.cpu` in the run’s `run.yaml` to continue with {other}"
    );
    Err(AppError::failed(message).with_hint(hint))
}

/// Ends the engine, with the reason as the last words of its log.
#[expect(clippy::print_stderr, reason = "an engine’s standard error is its log")]
fn give_up(error: &models::Error) -> ! {
    eprintln!("{error}");
    process::abort();
}

/// The checkpoint to resume from. Damaged ones that are newer are told of.
fn newest(checkpoints: &Checkpoints, observer: &mut Recorder) -> Result<Option<Checkpoint>> {
    let mut damaged = 0;
    let mut report = |message| {
        damaged += 1;
        observer.event(TrainEvent::Warned { message });
    };
    let newest = checkpoints.newest_before(usize::MAX, &mut report)?;
    if newest.is_none() && damaged > 0 {
        let message = "no checkpoint is whole, so the run begins anew".to_owned();
        observer.event(TrainEvent::Warned { message });
    }
    Ok(newest)
}

/// Writes what happens to disk, then shows it.
struct Recorder<'a> {
    writer: RefCell<Writer<'a>>,
    control: RunControl<'a>,
    watchdog: Watchdog,
    pressure: PressureWatch,
    pace: Pace,
    #[cfg(debug_assertions)]
    faults: Faults,
}

/// The way of events to disk. What can't be written now waits in memory, and the run with it: nobody would know how it continued.
struct Writer<'a> {
    run: &'a Run,
    /// The run, for as long as this lives.
    lock: Option<RunLock>,
    record: Record,
    show: &'a mut dyn FnMut(RecordedEvent),
    unwritten: VecDeque<TrainEvent>,
    /// The last step done.
    step: usize,
    /// Why the first of them could not be written.
    problem: Option<AppError>,
}

impl Writer<'_> {
    /// Whether everything is written.
    fn write(&mut self) -> bool {
        while let Some(event) = self.unwritten.front() {
            match self.record.append(event.clone()) {
                Ok(recorded) => {
                    if self.record.came_back() {
                        // A lock on a disk that went away is none on the one that came back.
                        self.lock = None;
                        self.lock = self.run.lock().ok();
                    }
                    self.unwritten.pop_front();
                    self.problem = None;
                    (self.show)(recorded);
                }
                Err(error) => {
                    if self.problem.is_none() {
                        (self.show)(RecordedEvent::unwritten(self.step, &error));
                    }
                    self.problem = Some(error);
                    return false;
                }
            }
        }
        true
    }
}

impl Recorder<'_> {
    /// Waits until the disk takes what is left to be told. An error when somebody asks to stop meanwhile.
    fn write_the_rest(&self) -> Result<()> {
        while !self.writer.borrow_mut().write() {
            if self.should_stop() {
                return self.writer.borrow_mut().problem.take().map_or(Ok(()), Err);
            }
            thread::sleep(DISK_LOOK);
        }
        Ok(())
    }
}

impl Observer for Recorder<'_> {
    fn event(&mut self, event: TrainEvent) {
        self.watchdog.touch();
        let slower = match event {
            // Steps of other kinds may each be of another.
            TrainEvent::Stepped {
                millis,
                units,
                learning_rate: Some(_),
                ..
            } => self.pace.stepped(millis / units.max(1) as f64),
            _ => None,
        };
        #[cfg(debug_assertions)]
        let has_stepped = matches!(event, TrainEvent::Stepped { .. });
        let writer = self.writer.get_mut();
        writer.step = event.last_step().unwrap_or(writer.step);
        writer.unwritten.push_back(event);
        if let Some(times) = slower {
            let why = match Power::now().describe() {
                Some(power) => format!("the machine is {power}"),
                None => "the machine is hot, saves power, or does something else too".to_owned(),
            };
            let message = format!("steps take {times:.1} times as long as at their best: {why}");
            writer.unwritten.push_back(TrainEvent::Warned { message });
        }
        writer.write();
        #[cfg(debug_assertions)]
        if has_stepped {
            self.faults.after_step(self.writer.get_mut().step);
        }
    }

    fn should_stop(&self) -> bool {
        self.watchdog.touch();
        (self.control.stop)()
    }

    fn should_pause(&self) -> bool {
        self.watchdog.touch();
        let is_written = self.writer.borrow_mut().write();
        !is_written || (self.control.pause)()
    }

    fn why_pause(&self) -> Option<String> {
        (self.control.why_pause)()
    }

    fn scarce_memory(&mut self) -> Option<Scarce> {
        self.pressure.look()
    }
}

#[cfg(test)]
mod tests;
