//! Training a run, inside an engine.

use models::{
    checkpoint::keep::Checkpoints,
    device,
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

/// Trains a run from its newest checkpoint, if it has one, until it is done or asked to stop.
///
/// Every event is on disk before it is shown.
pub(super) fn train(
    run: &Run,
    show: &mut dyn FnMut(RecordedEvent),
    stop: &dyn Fn() -> bool,
) -> Result<()> {
    let _lock = run.lock()?;
    let mut observer = Recorder {
        record: Record::open(&run.events_file())?,
        show,
        stop,
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

fn train_locked(run: &Run, observer: &mut Recorder) -> Result<()> {
    let plan = run.plan()?;
    let choice = choose(plan.device, plan.strict)?;
    for warning in &choice.warnings {
        let message = warning.clone();
        observer.event(TrainEvent::Warned { message });
    }
    let device = device::open(&choice)?;
    let data = &plan.data;
    let text = Text::open(
        &data.source(),
        data.held_out,
        tokenizer_of(&plan)?,
        plan.seed,
    )?;
    let mut task = LanguageTask::new(&plan, text, &device)?;
    let mut state = TrainState::new(&plan, &task)?;
    let checkpoints = Checkpoints::new(&run.checkpoints(), plan.save.keep_last);
    if let Some(newest) = checkpoints.newest()? {
        state.restore(&mut task, &newest.path)?;
    }
    train::train(&plan, &mut task, &mut state, &checkpoints, observer)?;
    Ok(())
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
    stop: &'a dyn Fn() -> bool,
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
        self.problem.is_some() || (self.stop)()
    }
}
