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
pub mod plan;
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
pub mod task;
pub mod tree;

use std::{cell::RefCell, time::Instant};

pub use event::{Observer, TrainEvent};
pub use kind::{Kind, Place};
pub use plan::{Facts, Problem, Problems, Reason, Resolved, RunPlan, TrainPlan};
pub use request::{RunRequest, TrainRequest};
pub use resolve::resolve;
pub use state::TrainState;
pub use task::Task;

use candle_core::{DType, Device, Tensor};

use crate::{
    Error, Result,
    checkpoint::keep::Checkpoints,
    device::{
        memory::{Memory, memory, note_peak, release},
        pressure::Scarce,
    },
    ops::kernels,
    optim::{Prepared, clip, schedule::Schedule},
    random::stable_hash,
    tape::{Gradients, Tape, Value},
};
use look::{look, sample};
use loss_scale::LossScale;
use rejected_step::{RejectedStep, goes_back, message_for_taken, roll_back};
use saving::Saver;
use spike::Spike;
use task::{BatchSize, OwnStep};
use tree::Part;

/// How a call of [`train`] ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The plan is done.
    Finished,
    /// The observer asked to stop; the run was saved.
    Stopped,
}

/// What one step did.
#[derive(Default)]
struct Learned {
    loss: Option<f64>,
    gradient_norm: Option<f64>,
    learning_rate: Option<f64>,
    size: BatchSize,
    /// Whether the gradient was out of proportion, and the step was taken all the same.
    spike: Option<Spike>,
    /// How long the passes forward and backward took.
    pass_seconds: f64,
}

/// A step, or why it was not taken. Then no weight was changed.
type Attempt = std::result::Result<Learned, RejectedStep>;

/// What all micro-batches of a step said.
struct Pass {
    loss: f64,
    /// What the update needs, gradients among it, which are multiplied with the loss scale.
    prepared: Prepared,
    gradient_norm: f64,
    /// How long it took.
    seconds: f64,
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
    let _avoided = kernels::avoid(&plan.avoid_kernels)?;
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
        let mut wishes = state.wishes(observer)?;
        if wishes.pause && !wishes.stop {
            wishes = saver.pause(task, state, observer)?;
        }
        if let Some(scarce) = observer.scarce_memory() {
            yield_memory(task, state, &mut saver, scarce, observer)?;
            // That takes long. Several ranks hear of it in their next exchange.
            wishes.stop |= state.together.is_none() && observer.should_stop();
        }
        if wishes.stop {
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
            learned => match learned? {
                Ok(learned) => learned,
                Err(rejected_step) => {
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
pub fn try_steps<T: Task, P: Part>(
    whole_plan: &TrainPlan<P>,
    task: &mut T,
    steps: usize,
    stop: &dyn Fn() -> bool,
) -> Result<Vec<f64>> {
    let plan = &whole_plan.run;
    let _avoided = kernels::avoid(&plan.avoid_kernels)?;
    let mut state = TrainState::new(whole_plan, task)?;
    let mut millis = Vec::new();
    for _ in 0..steps {
        if stop() {
            break;
        }
        let started = Instant::now();
        // A step that could not be taken took its time all the same.
        let _ = learn(plan, task, &mut state)?;
        state.progress.step += 1;
        millis.push(started.elapsed().as_secs_f64() * 1e3);
    }
    Ok(millis)
}

/// A step of the task’s own, or one of gradients.
fn step<T: Task>(
    plan: &RunPlan,
    task: &mut T,
    state: &mut TrainState,
    saver: &mut Saver,
    observer: &mut dyn Observer,
) -> Result<Attempt> {
    let is_alone = state.together.is_none();
    let goes_on = || !is_alone || !(observer.should_stop() || observer.should_pause());
    match task.own_step(state.progress.step, &goes_on)? {
        Some(OwnStep { units }) => Ok(Ok(Learned {
            size: BatchSize { targets: 0, units },
            ..Learned::default()
        })),
        None => learn_with_memory(plan, task, state, saver, observer),
    }
}

/// A step. If memory runs out in it, once more after unused memory was given back; if it runs out again, the run is saved
/// where it stands, and the error says so.
fn learn_with_memory<T: Task>(
    plan: &RunPlan,
    task: &mut T,
    state: &mut TrainState,
    saver: &mut Saver,
    observer: &mut dyn Observer,
) -> Result<Attempt> {
    let step = state.progress.step;
    let ran_out = |error: Error| format!("memory ran out in step {}: {error}", step + 1);
    let error = match learn_or_put_back(plan, task, state)? {
        Ok(attempt) => return Ok(attempt),
        Err(error) => error,
    };
    if device_of(task).is_none_or(|device| device.is_metal()) {
        // A command buffer may have failed long ago, in an update: only what is on disk is known to be good.
        return Err(Error::OutOfMemory(ran_out(error)));
    }
    give_back(task, state, ran_out(error), observer)?;
    let error = match learn_or_put_back(plan, task, state)? {
        Ok(attempt) => return Ok(attempt),
        Err(error) => error,
    };
    release_unused(task, state)?;
    saver.save_if_new(task, state, observer)?;
    Err(Error::OutOfMemory(ran_out(error)))
}

/// A step, or the error by which memory ran out before a weight was changed. Then the same rows come next again.
fn learn_or_put_back<T: Task>(
    plan: &RunPlan,
    task: &mut T,
    state: &mut TrainState,
) -> Result<std::result::Result<Attempt, Error>> {
    let position = task.state();
    match learn(plan, task, state) {
        // In the update: some weights have changed, and only what is on disk is known to be good.
        Err(error @ Error::OutOfMemory(_)) => Err(error),
        Err(error) if error.is_out_of_memory() => {
            task.undo_losses()?;
            task.restore(&position)?;
            Ok(Err(error))
        }
        learned => Ok(Ok(learned?)),
    }
}

/// Gives unused memory back where memory is scarce. An error where that was not enough, so that somebody gives up more.
fn yield_memory<T: Task>(
    task: &mut T,
    state: &mut TrainState,
    saver: &mut Saver,
    Scarce {
        message,
        is_lasting,
    }: Scarce,
    observer: &mut dyn Observer,
) -> Result<()> {
    // What comes next may be the end of this process, which should cost nothing.
    saver.save_if_new(task, state, observer)?;
    let (step, plan) = (state.progress.step, saver.plan);
    let message = format!("memory is scarce after step {step}: {message}");
    // A card has memory of its own. And a run that has given up all it can continues as long as it is let.
    let on_card = device_of(task).is_some_and(|device| device.is_cuda());
    let helps = !on_card && (plan.batch.rows > 1 || !plan.gradient_checkpointing);
    match is_lasting && helps {
        true => Err(Error::OutOfMemory(message)),
        false => give_back(task, state, message, observer),
    }
}

/// Gives memory that no tensor holds back to the system, and says why.
fn give_back<T: Task>(
    task: &T,
    state: &mut TrainState,
    why: String,
    observer: &mut dyn Observer,
) -> Result<()> {
    release_unused(task, state)?;
    let step = state.progress.step;
    observer.event(TrainEvent::MemoryFallback {
        step: step + 1,
        to_step: step,
        why,
        how: "unused memory was given back".to_owned(),
    });
    Ok(())
}

#[cfg_attr(not(feature = "cuda"), expect(unused_variables))]
fn release_unused<T: Task>(task: &T, state: &mut TrainState) -> Result<()> {
    let Some(device) = device_of(task) else {
        return Ok(());
    };
    #[cfg(feature = "cuda")]
    state.recorded.forget(&device);
    release(&device)
}

/// One update of the weights, from `accumulate` micro-batches. Changes no weight when a number is not finite, or the
/// gradient is a spike for which the run can go back.
fn learn<T: Task>(plan: &RunPlan, task: &mut T, state: &mut TrainState) -> Result<Attempt> {
    let batches: Vec<T::Batch> = (0..plan.batch.accumulate)
        .map(|_| task.next_batch())
        .collect::<Result<_>>()?;
    learn_from(plan, task, state, &batches)
}

/// One update of the weights from these micro-batches.
fn learn_from<T: Task>(
    plan: &RunPlan,
    task: &mut T,
    state: &mut TrainState,
    batches: &[T::Batch],
) -> Result<Attempt> {
    let step = state.progress.step;
    let size =
        batches
            .iter()
            .map(|batch| task.size(batch))
            .fold(BatchSize::default(), |sum, size| BatchSize {
                targets: sum.targets + size.targets,
                units: sum.units + size.units,
            });

    let (pass, loss_scale) = loop {
        let loss_scale = state.progress.loss_scale.map_or(1.0, |it| it.factor);
        let pass = pass(plan, task, state, batches, size, loss_scale)?;
        if !pass.loss.is_finite() {
            task.undo_losses()?;
            return Ok(Err(RejectedStep::NotFinite("loss")));
        }
        if pass.gradient_norm.is_finite() {
            break (pass, loss_scale);
        }
        task.undo_losses()?;
        // With a lower scale the same batches are learned from again: none is lost.
        let lower = state.progress.loss_scale.as_mut();
        if !lower.is_some_and(LossScale::overflowed) {
            return Ok(Err(RejectedStep::NotFinite("gradient")));
        }
    };
    let Pass {
        loss,
        prepared,
        gradient_norm,
        seconds,
    } = pass;
    let spike = state.progress.norms.spike(gradient_norm, plan.clip_norm);
    if let Some(spike) = spike.filter(|_| goes_back(state)) {
        task.undo_losses()?;
        return Ok(Err(RejectedStep::Spike(spike)));
    }

    let learning_rate = schedule(plan).at(step) * state.progress.rate_factor;
    let factor = clip::clip_scale(gradient_norm, plan.clip_norm) / loss_scale;
    state
        .optimizer
        .step_prepared(&prepared, learning_rate, factor)
        .map_err(|error| in_update(step, error))?;
    task.stepped(step + 1)
        .map_err(|error| in_update(step, error))?;
    if let Some(ema) = &mut state.ema {
        ema.update(task.parameters())
            .map_err(|error| in_update(step, error))?;
    }
    state.progress.norms.add(gradient_norm);
    if let Some(loss_scale) = &mut state.progress.loss_scale {
        loss_scale.went_well();
    }
    Ok(Ok(Learned {
        loss: Some(loss),
        gradient_norm: Some(gradient_norm),
        learning_rate: Some(learning_rate),
        size,
        spike,
        pass_seconds: seconds,
    }))
}

/// Names memory that ran out where some weights may have changed already.
fn in_update(step: usize, error: Error) -> Error {
    match error.is_out_of_memory() {
        true => Error::OutOfMemory(format!(
            "memory ran out in the update of step {}: {error}",
            step + 1
        )),
        false => error,
    }
}

/// The way forward and back through all micro-batches of a step. The gradients are multiplied with `loss_scale`.
fn pass<T: Task>(
    plan: &RunPlan,
    task: &mut T,
    state: &mut TrainState,
    batches: &[T::Batch],
    size: BatchSize,
    loss_scale: f64,
) -> Result<Pass> {
    let started = Instant::now();
    let own = own_passes(plan, task, state, batches, size, loss_scale);
    let (loss, gradients) = match &mut state.together {
        Some(together) => together.add_up(own)?,
        None => own?,
    };
    // A device is still computing: what can be prepared for the update is.
    let prepared = state.optimizer.prepare(task.parameters(), &gradients)?;
    let (loss, norm) = clip::loss_and_norm(&loss, &gradients)?;
    if let Some(together) = &mut state.together {
        together.note_norm(norm);
    }
    // They are read after all that was computed before them, so this is the time of the passes on every device.
    let seconds = started.elapsed().as_secs_f64();
    Ok(Pass {
        loss,
        prepared,
        gradient_norm: norm / loss_scale,
        seconds,
    })
}

/// The loss and the gradients of the micro-batches that are this rank’s: all of them on one device.
fn own_passes<T: Task>(
    plan: &RunPlan,
    task: &mut T,
    state: &mut TrainState,
    batches: &[T::Batch],
    size: BatchSize,
    loss_scale: f64,
) -> Result<(Tensor, Gradients)> {
    let (step, share) = (state.progress.step, state.share);
    let targets = size.targets.max(1) as f64;
    task.begin_losses()?;
    let own = || {
        let numbered = batches.iter().enumerate();
        numbered.filter(|(index, _)| share.has(*index))
    };
    #[cfg(feature = "cuda")]
    {
        let batches: Vec<_> = own().map(|(_, batch)| batch).collect();
        if let Some(recorded) = recorded::pass(task, state, &batches, targets, loss_scale)? {
            return Ok(recorded);
        }
    }
    let task = RefCell::new(task);
    let losses = own().map(|(index, batch)| {
        let pass = format!("dropout of step {step}, micro-batch {index}");
        let loss = |tape: &Tape| task.borrow_mut().loss(tape, batch, targets);
        (stable_hash(plan.seed, pass.as_bytes()), loss)
    });
    passes(losses, loss_scale)
}

/// The sum of some losses, and their gradients. Each comes with the seed of its dropout.
fn passes<L: FnOnce(&Tape) -> Result<Value>>(
    losses: impl Iterator<Item = (u64, L)>,
    loss_scale: f64,
) -> Result<(Tensor, Gradients)> {
    let mut gradients = Gradients::default();
    let mut sum = Vec::new();
    for (dropout_seed, loss) in losses {
        let tape = Tape::new(dropout_seed).with_loss_scale(loss_scale);
        let loss = loss(&tape)?;
        sum.push(loss.tensor().to_dtype(DType::F32)?);
        note_peak(loss.tensor().device());
        tape.backward(&loss, loss_scale, &mut gradients)?;
    }
    Ok((Tensor::stack(&sum, 0)?.sum_all()?, gradients))
}

fn schedule(plan: &RunPlan) -> Schedule {
    Schedule {
        peak: plan.learning_rate,
        kind: plan.schedule.kind,
        warmup_steps: plan.schedule.warmup_steps,
        steps: plan.steps,
        start_ratio: plan.schedule.start_ratio,
        min_ratio: plan.schedule.min_ratio,
    }
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

/// Memory on the device of the weights, unless the system doesn't say.
fn memory_of<T: Task>(task: &T) -> Option<Memory> {
    device_of(task).and_then(|device| memory(&device).ok())
}

/// Where the weights that learn lie.
fn device_of<T: Task>(task: &T) -> Option<Device> {
    let weight = task.parameters().trainable().next()?;
    Some(weight.tensor().device().clone())
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
