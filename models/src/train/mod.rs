//! Training: what was asked, what it means, and what happens.
//!
//! The loop is one straight function. It knows no kind of learning: a [`Task`] supplies batches, loss, evaluation and what is
//! to be seen, and everything that goes in or comes out passes the plan and the observer.

pub mod defaults;
pub mod estimate;
pub mod event;
pub mod exhibit;
pub mod fields;
pub mod fit;
pub mod forecast;
pub mod group;
pub mod kind;
mod look;
pub mod loss_scale;
pub mod memory_fallback;
pub mod nccl;
pub mod plan;
pub mod profile;
#[cfg(feature = "cuda")]
pub(crate) mod recorded;
mod rejected_step;
pub mod request;
pub mod resolve;
mod saving;
pub mod sentence;
pub mod share;
pub mod spike;
pub mod state;
mod step;
pub mod task;
pub mod tree;
mod unused_memory;

use std::time::Instant;

pub use event::{Observer, TrainEvent};
pub use kind::{Kind, RunPlace};
pub use plan::{Facts, Problem, Problems, Reason, Resolved, RunPlan, TrainPlan};
pub use request::{RunRequest, TrainRequest};
pub use resolve::resolve;
pub use state::TrainState;
pub use task::{Measuring, Task};

use crate::{Error, Result, checkpoint::keep::Checkpoints, ops::kernels};
use look::{look, sample};
use rejected_step::{message_for_taken, roll_back};
use saving::Saver;
use step::{Attempt, Learned, one_step, step};
use unused_memory::{memory_of, yield_memory};

/// How a call of [`train`] ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The plan is done.
    Finished,
    /// The observer asked to stop; the run was saved.
    Stopped,
}

/// Trains until the plan is done or the observer asks to stop.
///
/// `state` is that of a new run, or was restored from the newest of `checkpoints`: the run continues from it exactly.
/// The observer hears of everything; what was saved is on disk before it is told.
pub fn train<T: Task>(
    plan: &RunPlan,
    task: &mut T,
    state: &mut TrainState,
    checkpoints: &Checkpoints,
    observer: &mut dyn Observer,
) -> Result<Outcome> {
    let trained = train_to_end(plan, task, state, checkpoints, observer);
    match &mut state.together {
        Some(together) => together.end(trained),
        None => trained,
    }
}

fn train_to_end<T: Task>(
    plan: &RunPlan,
    task: &mut T,
    state: &mut TrainState,
    checkpoints: &Checkpoints,
    observer: &mut dyn Observer,
) -> Result<Outcome> {
    let _chosen = plan.choose_kernels()?;
    let started = Instant::now();
    let mut saver = Saver::new(plan, checkpoints);
    observer.event(started_event(plan, task, state));
    let mut is_new = checkpoints.newest()?.is_none();
    if let Some(together) = &mut state.together {
        together.begin(task.parameters(), state.progress.step)?;
        is_new = together.of_first(|| Ok(usize::from(is_new)))? == 1;
    }
    let mut shown = (!is_new).then_some(state.progress.step);
    if is_new {
        // There must always be a state to go back to. It knows how good it is, and what it showed before it learned.
        look(task, state, &mut saver, &mut shown, observer)?;
    }

    while state.progress.is_unmeasured || state.progress.step < plan.steps {
        let mut control = state.control(observer)?;
        if control.pause && !control.stop {
            control = saver.pause(task, state, observer)?;
        }
        if let Some(scarce) = observer.scarce_memory() {
            yield_memory(task, state, &mut saver, scarce, observer)?;
            // That takes long. Several ranks hear of it in their next exchange.
            control.stop |= state.together.is_none() && observer.should_stop();
        }
        if control.stop {
            return stop(task, state, &mut saver, shown, observer);
        }
        if state.progress.is_unmeasured {
            look(task, state, &mut saver, &mut shown, observer)?;
            continue;
        }

        // One step of learning.
        let step_started = Instant::now();
        let learned = kernels::metal::in_pool(|| step(plan, task, state, &mut saver, observer));
        let learned = match learned {
            // Who asks to stop or to pause is answered above.
            Err(Error::Interrupted) => continue,
            attempt => match attempt? {
                Attempt::Learned(learned) => learned,
                Attempt::RanOut(error) => return Err(error),
                Attempt::Rejected(rejected_step) => {
                    roll_back(plan, task, state, checkpoints, rejected_step, observer)?;
                    continue;
                }
            },
        };
        let seconds = step_started.elapsed().as_secs_f64();
        state.progress.step += 1;
        state.progress.units += learned.size.units as u64;
        state.progress.seconds += seconds;
        tell_step(plan, task, state, &learned, seconds, observer);
        tell_ranks(task, state, seconds * 1e3, observer)?;

        look(task, state, &mut saver, &mut shown, observer)?;
    }

    observer.event(finished(state, started));
    Ok(Outcome::Finished)
}

/// Saves the run, and has the model show itself unless it did so at this step.
fn stop<T: Task>(
    task: &mut T,
    state: &mut TrainState,
    saver: &mut Saver,
    shown: Option<usize>,
    observer: &mut dyn Observer,
) -> Result<Outcome> {
    saver.save_if_new(task, state, observer)?;
    let step = state.progress.step;
    if shown != Some(step) && state.share.is_first() {
        sample(saver.plan, task, state, observer)?;
    }
    observer.event(TrainEvent::Stopped { step });
    Ok(Outcome::Stopped)
}

/// Takes a few steps to see how long they take, in milliseconds each. Saves nothing and measures nothing else.
/// [`forecast::trial`] measures more.
pub fn try_steps<T: Task>(
    plan: &RunPlan,
    task: &mut T,
    state: &mut TrainState,
    steps: usize,
    stop: &dyn Fn() -> bool,
) -> Result<Vec<f64>> {
    let _chosen = plan.choose_kernels()?;
    let mut millis = Vec::new();
    for _ in 0..steps {
        if stop() {
            break;
        }
        let started = Instant::now();
        one_step(plan, task, state, stop)?;
        millis.push(started.elapsed().as_secs_f64() * 1e3);
    }
    Ok(millis)
}

fn started_event<T: Task>(plan: &RunPlan, task: &T, state: &TrainState) -> TrainEvent {
    TrainEvent::Started {
        step: state.progress.step,
        steps: plan.steps,
        trainable_parameters: task.parameters().trainable_count() as u64,
        parameters: task.parameters().count() as u64,
        device: plan.device.to_string(),
    }
}

fn finished(state: &TrainState, started: Instant) -> TrainEvent {
    let best = state.progress.best;
    TrainEvent::Finished {
        step: state.progress.step,
        best_loss: best.map(|best| best.loss),
        best_step: best.map(|best| best.step),
        seconds: started.elapsed().as_secs_f64(),
    }
}

/// So often it is told how all ranks stand, in steps.
const STEPS_PER_LOOK_AT_RANKS: usize = 10;

/// Says once in a while how all ranks stand, where there are several.
fn tell_ranks<T: Task>(
    task: &T,
    state: &mut TrainState,
    step_millis: f64,
    observer: &mut dyn Observer,
) -> Result<()> {
    let step = state.progress.step;
    let Some(together) = &mut state.together else {
        return Ok(());
    };
    if step == 1 || step.is_multiple_of(STEPS_PER_LOOK_AT_RANKS) {
        let ranks = together.figures(memory_of(task))?;
        observer.event(TrainEvent::Ranks { step, ranks });
    }
    if step == STEPS_PER_LOOK_AT_RANKS {
        let numbers = task.parameters().trainable_count();
        if let Some(message) = together.slow_link(numbers, step_millis) {
            observer.event(TrainEvent::Warned { message });
        }
    }
    Ok(())
}

fn tell_step<T: Task>(
    plan: &RunPlan,
    task: &T,
    state: &mut TrainState,
    learned: &Learned,
    seconds: f64,
    observer: &mut dyn Observer,
) {
    let memory = memory_of(task);
    observer.event(TrainEvent::Stepped {
        step: state.progress.step,
        loss: learned.loss,
        learning_rate: learned.learning_rate,
        gradient_norm: learned.gradient_norm,
        units: learned.size.units,
        units_per_second: learned.size.units as f64 / seconds.max(1e-9),
        millis: seconds * 1e3,
        memory_bytes: memory.map_or(0, |memory| memory.used_bytes),
        peak_bytes: memory.and_then(|memory| memory.peak_bytes),
    });
    #[cfg(feature = "cuda")]
    if let Some(message) = state.recorded.notice() {
        observer.event(TrainEvent::Warned { message });
    }
    if let Some(spike) = learned.spike {
        let message = message_for_taken(spike, plan, state);
        observer.event(TrainEvent::Warned { message });
    }
}
