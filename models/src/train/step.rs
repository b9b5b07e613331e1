//! One step of learning: the passes of its micro-batches, and the update of the weights.
//!
//! Deliberately absent: when steps are taken and what is done between them, which is the loop ([`train`](super::train)), and what a
//! loss is, which a [`Task`] knows.

use std::{cell::RefCell, time::Instant};

use candle_core::{DType, Tensor};

#[cfg(feature = "cuda")]
use super::recorded;
use super::{
    Observer, RunPlan, Task, TrainState,
    loss_scale::LossScale,
    rejected_step::{RejectedStep, goes_back},
    saving::Saver,
    spike::Spike,
    task::{BatchSize, OwnStep},
    unused_memory::{device_of, give_back, release_unused},
};
use crate::{
    Error, Result,
    device::memory::note_peak,
    optim::{Prepared, clip, ema::Ema, schedule::Schedule},
    profile::{self, Place},
    random::stable_hash,
    tape::{DropoutSeed, Gradients, Tape, Value},
};

/// So many bytes of gradients are added up over ranks at once. Fewer take longer for each byte; of more, the last come later.
const BYTES_AT_ONCE: usize = 48 << 20;

/// What one step did.
#[derive(Default)]
pub(super) struct Learned {
    pub(super) loss: Option<f64>,
    pub(super) gradient_norm: Option<f64>,
    pub(super) learning_rate: Option<f64>,
    pub(super) size: BatchSize,
    /// Whether the gradient was out of proportion, and the step was taken all the same.
    pub(super) spike: Option<Spike>,
    /// How long the passes forward and backward took.
    pub(super) pass_seconds: f64,
}

/// What came of a step.
pub(super) enum Attempt {
    /// It was taken.
    Learned(Learned),
    /// Why it was not taken. No weight was changed.
    Rejected(RejectedStep),
    /// Memory ran out before a weight was changed.
    RanOut(Error),
}

/// What all micro-batches of a step said.
struct Pass {
    loss: f64,
    /// What the update needs, gradients among it, which are multiplied with the loss scale.
    prepared: Prepared,
    gradient_norm: f64,
    /// How long it took.
    seconds: f64,
}

/// A step of the task’s own, or one of gradients.
pub(super) fn step<T: Task>(
    plan: &RunPlan,
    task: &mut T,
    state: &mut TrainState,
    saver: &mut Saver,
    observer: &mut dyn Observer,
) -> Result<Attempt> {
    let is_alone = state.together.is_none();
    let goes_on = || !is_alone || !(observer.should_stop() || observer.should_pause());
    match task.own_step(state.progress.step, &goes_on)? {
        Some(OwnStep { units }) => Ok(Attempt::Learned(Learned {
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
        Attempt::RanOut(error) => error,
        attempt => return Ok(attempt),
    };
    if device_of(task).is_none_or(|device| device.is_metal()) {
        // A command buffer may have failed long ago, in an update: only what is on disk is known to be good.
        return Err(Error::OutOfMemory(ran_out(error)));
    }
    give_back(task, state, ran_out(error), observer)?;
    let error = match learn_or_put_back(plan, task, state)? {
        Attempt::RanOut(error) => error,
        attempt => return Ok(attempt),
    };
    release_unused(task, state)?;
    saver.save_if_new(task, state, observer)?;
    Err(Error::OutOfMemory(ran_out(error)))
}

/// A step. Where memory ran out before a weight was changed, the same rows come next again.
fn learn_or_put_back<T: Task>(
    plan: &RunPlan,
    task: &mut T,
    state: &mut TrainState,
) -> Result<Attempt> {
    let position = task.state();
    match learn(plan, task, state) {
        // In the update: some weights have changed, and only what is on disk is known to be good.
        Err(error @ Error::OutOfMemory(_)) => Err(error),
        Err(error) if error.is_out_of_memory() => {
            task.undo_losses()?;
            task.restore(&position)?;
            Ok(Attempt::RanOut(error))
        }
        learned => learned,
    }
}

/// A step that is only measured: of the task’s own, or one of gradients.
pub(super) fn one_step<T: Task>(
    plan: &RunPlan,
    task: &mut T,
    state: &mut TrainState,
    stop: &dyn Fn() -> bool,
) -> Result<()> {
    // What belongs to no place of a profile is what is done around the passes.
    let _profiled = profile::at(Place::Update);
    if task.own_step(state.progress.step, &|| !stop())?.is_none() {
        // A step that could not be taken took its time all the same.
        let _ = learn(plan, task, state)?;
    }
    state.progress.step += 1;
    Ok(())
}

/// One update of the weights, from `accumulate` micro-batches. Changes no weight when a number is not finite, or the
/// gradient is a spike for which the run can go back.
fn learn<T: Task>(plan: &RunPlan, task: &mut T, state: &mut TrainState) -> Result<Attempt> {
    let profiled = profile::at(Place::Data);
    let batches: Vec<T::Batch> = (0..plan.batch.accumulate)
        .map(|_| task.next_batch())
        .collect::<Result<_>>()?;
    drop(profiled);
    learn_from(plan, task, state, &batches)
}

/// One update of the weights from these micro-batches.
pub(super) fn learn_from<T: Task>(
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
            return Ok(Attempt::Rejected(RejectedStep::NotFinite("loss")));
        }
        if pass.gradient_norm.is_finite() {
            break (pass, loss_scale);
        }
        task.undo_losses()?;
        // With a lower scale the same batches are learned from again: none is lost.
        let lower = state.progress.loss_scale.as_mut();
        if !lower.is_some_and(LossScale::overflowed) {
            return Ok(Attempt::Rejected(RejectedStep::NotFinite("gradient")));
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
        return Ok(Attempt::Rejected(RejectedStep::Spike(spike)));
    }

    let learning_rate = schedule(plan).at(step) * state.progress.rate_factor;
    let factor = clip::clip_scale(gradient_norm, plan.clip_norm) / loss_scale;
    update(task, state, &prepared, learning_rate, factor)?;
    state.progress.norms.add(gradient_norm);
    if let Some(loss_scale) = &mut state.progress.loss_scale {
        loss_scale.went_well();
    }
    Ok(Attempt::Learned(Learned {
        loss: Some(loss),
        gradient_norm: Some(gradient_norm),
        learning_rate: Some(learning_rate),
        size,
        spike,
        pass_seconds: seconds,
    }))
}

/// Changes the weights, and what follows them.
fn update<T: Task>(
    task: &mut T,
    state: &mut TrainState,
    prepared: &Prepared,
    learning_rate: f64,
    factor: f64,
) -> Result<()> {
    let _profiled = profile::at(Place::Update);
    let step = state.progress.step;
    let profiled = profile::operation("optimizer");
    let optimizer = &mut state.optimizer;
    let stepped = optimizer.step_prepared(prepared, learning_rate, factor);
    let stepped = stepped.map_err(|error| in_update(step, error));
    let owners = optimizer.owners();
    match &mut state.together {
        // Each weight comes from the rank that changed it.
        Some(together) if owners.are_several() => {
            let weights = task.parameters().trainable();
            let weights = weights.map(|it| (it.tensor(), owners.of(it.name())));
            together.spread(stepped.map(|()| weights.collect()))?;
        }
        _ => stepped?,
    }
    drop(profiled);
    follow(task, state.ema.as_mut(), step).map_err(|error| in_update(step, error))
}

/// What follows the weights once they have changed.
fn follow<T: Task>(task: &mut T, ema: Option<&mut Ema>, step: usize) -> Result<()> {
    task.stepped(step + 1)?;
    let Some(ema) = ema else {
        return Ok(());
    };
    let _profiled = profile::operation("moving average");
    ema.update(task.parameters())
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
        Some(together) => together.add_up(own, state.progress.step)?,
        None => own?,
    };
    // A device is still computing: what can be prepared for the update is.
    let _update = profile::at(Place::Update);
    let _norm = profile::operation("norm of the gradients");
    let prepared = state.optimizer.prepare(task.parameters(), &gradients)?;
    let found = clip::loss_and_norm(&loss, &gradients)?;
    if let Some(together) = &mut state.together {
        together.wait()?;
    }
    let (loss, norm) = found.read()?;
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
        let own = numbered.filter(|(index, _)| share.has(*index));
        own.map(|(index, batch)| {
            let pass = format!("dropout of step {step}, micro-batch {index}");
            (stable_hash(plan.seed, pass.as_bytes()), batch)
        })
    };
    #[cfg(feature = "cuda")]
    {
        let batches: Vec<_> = own().collect();
        if let Some(recorded) = recorded::pass(task, state, &batches, targets, loss_scale)? {
            return Ok(recorded);
        }
    }
    let task = RefCell::new(task);
    let losses = own().map(|(dropout_seed, batch)| {
        let loss = |tape: &Tape| task.borrow_mut().loss(tape, batch, targets);
        (dropout_seed, loss)
    });
    passes(losses, loss_scale, state.together.is_some())
}

/// The sum of some losses, and their gradients. Each comes with the seed of its dropout. Where others wait for the gradients, they
/// note which are complete before the end.
pub(super) fn passes<S: Into<DropoutSeed>, L: FnOnce(&Tape) -> Result<Value>>(
    losses: impl Iterator<Item = (S, L)>,
    loss_scale: f64,
    others_wait: bool,
) -> Result<(Tensor, Gradients)> {
    let mut gradients = Gradients::default();
    let mut sum = Vec::new();
    let mut losses = losses.peekable();
    while let Some((dropout_seed, loss)) = losses.next() {
        let tape = Tape::new(dropout_seed).with_loss_scale(loss_scale);
        let forward = profile::at(Place::Forward);
        let loss = loss(&tape)?;
        drop(forward);
        sum.push(loss.tensor().to_dtype(DType::F32)?);
        note_peak(loss.tensor().device());
        if others_wait && losses.peek().is_none() {
            gradients.note_complete(BYTES_AT_ONCE);
        }
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
