//! A look at the model from outside, once in a while: held-out data is measured, the model shows itself, and the run is saved.
//!
//! Deliberately absent: how often that is (the plan), and what is measured and shown (the task).

use std::time::{Duration, Instant};

use super::{
    Measuring, Observer, RunPlan, Task, TrainEvent, TrainState, event::Showed, saving::Saver,
    state::Best,
};
use crate::{Error, Result, ops::kernels::metal::in_pool};

/// An evaluation that takes no longer than this is done before a run stops.
const SHORT_EVALUATION: Duration = Duration::from_secs(2);

/// Once in a while, looks at the model from outside, and saves it. What was stopped in between is still to be done.
pub(super) fn look<T: Task>(
    task: &mut T,
    state: &mut TrainState,
    saver: &mut Saver,
    shown: &mut Option<usize>,
    observer: &mut dyn Observer,
) -> Result<()> {
    let (plan, step) = (saver.plan, state.progress.step);
    let is_best = match plan.evaluates_after(step) {
        true => in_pool(|| evaluate(plan, task, state, observer)),
        false => Ok(false),
    };
    state.progress.is_unmeasured = matches!(is_best, Err(Error::Interrupted));
    if state.progress.is_unmeasured {
        return Ok(());
    }
    let is_best = is_best?;
    if plan.samples_after(step) && state.share.is_first() && *shown != Some(step) {
        sample(plan, task, state, observer)?;
        *shown = Some(step);
    }
    match plan.saves_after(step, is_best) {
        true => saver.save(task, state, observer),
        false => Ok(()),
    }
}

/// Measures held-out data. Returns whether it was the best so far.
///
/// Errors: [`Error::Interrupted`] when it takes long, and the observer asks to stop or to pause.
fn evaluate<T: Task>(
    plan: &RunPlan,
    task: &mut T,
    state: &mut TrainState,
    observer: &mut dyn Observer,
) -> Result<bool> {
    let started = Instant::now();
    let is_alone = state.together.is_none();
    let goes_on = || {
        let is_asked = observer.should_stop() || observer.should_pause();
        !is_alone || !is_asked || started.elapsed() < SHORT_EVALUATION
    };
    let mut together = state.together.take();
    let mut measuring = Measuring::with(&goes_on, together.as_mut());
    let measured = with_average(task, state, |task| {
        task.evaluate(plan.evaluate.batches, &mut measuring)
    });
    let is_last = state.progress.step == plan.steps;
    let examined = match measured {
        Ok(Some(_)) if is_last => with_average(task, state, |it| Ok(it.examine(&mut measuring))),
        _ => Ok(Ok(Vec::new())),
    };
    state.together = together;
    let Some(mut evaluation) = measured? else {
        return Ok(false);
    };
    let (step, loss) = (state.progress.step, evaluation.loss);
    let score = task.judged_by().and_then(|name| evaluation.score(name));
    let score = score.filter(|it| it.is_finite());
    let what = "the last step could not be examined";
    evaluation.metrics.extend(match is_alone {
        true => or_warned(examined?, what, observer)?,
        // The other ranks wait for what one can't find.
        false => examined??,
    });
    evaluation.metrics.retain(|metric| metric.value.is_finite());
    if !loss.is_finite() {
        let message = format!("the loss on held-out data is not a number after step {step}");
        observer.event(TrainEvent::Warned { message });
        return Ok(false);
    }
    let found = Best { step, loss, score };
    let best = state
        .progress
        .best
        .is_none_or(|best| found.is_better_than(&best));
    if best {
        state.progress.best = Some(found);
    }
    observer.event(TrainEvent::Evaluated {
        step,
        loss,
        metrics: evaluation.metrics,
        targets: evaluation.targets,
        best,
        millis: started.elapsed().as_secs_f64() * 1e3,
    });
    Ok(best)
}

/// What was found, or nothing and a warning that it could not be. Only what nothing can go on after is an error.
fn or_warned<R>(found: Result<Vec<R>>, what: &str, observer: &mut dyn Observer) -> Result<Vec<R>> {
    found.or_else(|error| {
        let ends = error.is_out_of_memory() || error.is_failure_of_the_device();
        if ends || matches!(error, Error::Interrupted) {
            return Err(error);
        }
        let message = format!("{what}: {error}");
        observer.event(TrainEvent::Warned { message });
        Ok(Vec::new())
    })
}

/// Runs `look` with the averaged weights in place, if the plan keeps an average, and puts the others back.
fn with_average<T: Task, R>(
    task: &mut T,
    state: &mut TrainState,
    look: impl FnOnce(&mut T) -> Result<R>,
) -> Result<R> {
    let Some(ema) = &mut state.ema else {
        return look(task);
    };
    ema.swap(task.parameters())?;
    let seen = look(task);
    ema.swap(task.parameters())?;
    seen
}

/// Has the model show itself, if the plan wants it to. That it could not is said, and no reason to end a run.
pub(super) fn sample<T: Task>(
    plan: &RunPlan,
    task: &mut T,
    state: &mut TrainState,
    observer: &mut dyn Observer,
) -> Result<()> {
    if plan.sample.every == 0 {
        return Ok(());
    }
    let step = state.progress.step;
    let shown = with_average(task, state, |task| Ok(task.show()))?;
    let what = format!("nothing was shown after step {step}");
    let exhibits = or_warned(shown, &what, observer)?;
    if !exhibits.is_empty() {
        observer.event(TrainEvent::Showed(Showed { step, exhibits }));
    }
    Ok(())
}
