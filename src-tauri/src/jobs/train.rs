//! Training a run, inside an engine.

use models::{
    checkpoint::keep::Checkpoints,
    device::{self, Device, memory::memory},
    tasks::language::{
        LanguageTask,
        text::{Text, TokenizerFrom},
    },
    train::{self, Observer, TrainEvent, TrainPlan, TrainState},
};

use super::choose;
use crate::{
    store::{
        record::{Record, RecordedEvent},
        runs::Run,
    },
    wire::error::{AppError, Result},
};

/// Steps of a trial. The first is slower: memory is taken and kernels are made.
const STEPS_TRIED: usize = 4;

/// What the app wants of the run.
#[derive(Clone, Copy)]
pub(super) struct Wishes<'a> {
    pub(super) pause: &'a dyn Fn() -> bool,
    pub(super) stop: &'a dyn Fn() -> bool,
}

/// Trains a run from its newest checkpoint, if it has one, until it is done or asked to stop.
///
/// Every event is on disk before it is shown.
pub(super) fn train(run: &Run, show: &mut dyn FnMut(RecordedEvent), wishes: Wishes) -> Result<()> {
    let _lock = run.lock()?;
    let mut observer = Recorder {
        record: Record::open(&run.events_file())?,
        show,
        wishes,
        step: run.state().map_or(0, |state| state.step),
        problem: None,
    };
    let trained = train_locked(run, &mut observer);
    if let Err(error) = &trained {
        observer.event(TrainEvent::Failed {
            step: observer.step,
            message: error.message.clone(),
            hint: error.hint.clone(),
        });
    }
    trained.and(observer.problem.map_or(Ok(()), Err))
}

/// Takes a few steps of a run and keeps nothing. Returns the milliseconds of each, and the most memory in use.
pub(super) fn try_steps(
    plan: &TrainPlan,
    stop: &dyn Fn() -> bool,
) -> Result<(Vec<f64>, Option<u64>)> {
    let device = device::open(&choose(plan.device, plan.strict)?)?;
    let mut task = open_task(plan, &device)?;
    let millis = train::try_steps(plan, &mut task, STEPS_TRIED, stop)?;
    let peak_bytes = memory(&device)?.peak_bytes;
    Ok((millis, peak_bytes))
}

fn train_locked(run: &Run, observer: &mut Recorder) -> Result<()> {
    let plan = run.plan()?;
    let choice = choose(plan.device, plan.strict)?;
    for warning in &choice.warnings {
        let message = warning.clone();
        observer.event(TrainEvent::Warned { message });
    }
    let device = device::open(&choice)?;
    let mut task = open_task(&plan, &device)?;
    let mut state = TrainState::new(&plan, &task)?;
    let checkpoints = Checkpoints::new(&run.checkpoints(), plan.save.keep_last);
    if let Some(newest) = checkpoints.newest()? {
        state.restore(&mut task, &newest.path)?;
    }
    train::train(&plan, &mut task, &mut state, &checkpoints, observer)?;
    Ok(())
}

fn open_task(plan: &TrainPlan, device: &Device) -> Result<LanguageTask> {
    let data = &plan.data;
    let text = Text::open(
        &data.source(),
        data.held_out,
        tokenizer_of(plan)?,
        plan.seed,
    )?;
    Ok(LanguageTask::new(plan, text, device)?)
}

fn tokenizer_of(plan: &TrainPlan) -> Result<TokenizerFrom<'_>> {
    match (&plan.model, &plan.scratch) {
        (Some(model), _) => Ok(TokenizerFrom::Folder(model)),
        (None, Some(scratch)) => Ok(TokenizerFrom::of(&scratch.tokenizer, scratch.vocab_size)),
        (None, None) => Err(AppError::failed(
            "the plan names neither `model` nor `scratch`",
        )),
    }
}

/// Writes what happens to disk, then shows it.
struct Recorder<'a> {
    record: Record,
    show: &'a mut dyn FnMut(RecordedEvent),
    wishes: Wishes<'a>,
    /// The last step done.
    step: usize,
    /// Why an event could not be written. Then the run stops, since nobody would know how it went on.
    problem: Option<AppError>,
}

impl Observer for Recorder<'_> {
    fn event(&mut self, event: TrainEvent) {
        self.step = event.step().unwrap_or(self.step);
        match self.record.append(event) {
            Ok(recorded) => (self.show)(recorded),
            Err(error) => {
                self.problem.get_or_insert(error);
            }
        }
    }

    fn should_stop(&self) -> bool {
        self.problem.is_some() || (self.wishes.stop)()
    }

    fn should_pause(&self) -> bool {
        (self.wishes.pause)()
    }
}
