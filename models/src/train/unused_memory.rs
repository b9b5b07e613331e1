//! Memory that a run gives back while it learns, and what it knows of its device's.

use candle_core::Device;

use super::{Observer, Task, TrainEvent, TrainState, saving::Saver};
use crate::{
    Error, Result,
    device::{
        memory::{Memory, memory, release},
        pressure::Scarce,
    },
};

/// Gives unused memory back where memory is scarce. An error where that was not enough, so that somebody gives up more.
pub(super) fn yield_memory<T: Task>(
    task: &mut T,
    state: &mut TrainState,
    saver: &mut Saver,
    Scarce {
        message,
        is_lasting,
    }: Scarce,
    observer: &mut dyn Observer,
) -> Result<()> {
    // What comes next may be the end of this process, which should cost nothing. Several ranks save together, and only this one asks.
    if state.together.is_none() {
        saver.save_if_new(task, state, observer)?;
    }
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
pub(super) fn give_back<T: Task>(
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
pub(super) fn release_unused<T: Task>(task: &T, state: &mut TrainState) -> Result<()> {
    let Some(device) = device_of(task) else {
        return Ok(());
    };
    #[cfg(feature = "cuda")]
    state.recorded.forget(&device);
    release(&device)
}

/// Memory on the device of the weights, unless the system doesn't say.
pub(super) fn memory_of<T: Task>(task: &T) -> Option<Memory> {
    device_of(task).and_then(|device| memory(&device).ok())
}

/// Where the weights that learn lie.
pub(super) fn device_of<T: Task>(task: &T) -> Option<Device> {
    let weight = task.parameters().trainable().next()?;
    Some(weight.tensor().device().clone())
}
