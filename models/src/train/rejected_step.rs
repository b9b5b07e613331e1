//! What a run does when a step can't be taken, or had better not be: it goes back, and on at half the learning rate.

use super::{
    TrainState,
    event::{Observer, TrainEvent},
    plan::RunPlan,
    saving::when_the_disk_can,
    spike::Spike,
    task::Task,
};
use crate::{
    Error, Result,
    checkpoint::{
        keep::{Checkpoint, Checkpoints},
        save::put_aside,
    },
};

/// How often a run goes back: for numbers that are not finite, after which it fails, and as often for spikes, after
/// which it only warns.
const MAX_ROLLBACKS: usize = 3;

/// Why a step was not taken.
pub(super) enum RejectedStep {
    /// The loss or a gradient, by its name, is not finite.
    NotFinite(&'static str),
    /// The gradient is out of all proportion.
    Spike(Spike),
}

/// Whether a spike in the next step is a reason to go back: not if the run went back for this very step before, since
/// then its batch is odd and not the state, nor if it did so often enough. It must not do so for ever.
pub(super) fn goes_back(state: &TrainState) -> bool {
    let spikes = &state.progress.spikes;
    spikes.len() < MAX_ROLLBACKS && !spikes.contains(&(state.progress.step + 1))
}

/// Goes back to the newest checkpoint, to resume from there at half the learning rate.
///
/// The attempt is remembered on disk, so that starting the run again does not begin to count anew. Spikes are counted
/// apart: they never end a run.
pub(super) fn roll_back<T: Task>(
    plan: &RunPlan,
    task: &mut T,
    state: &mut TrainState,
    checkpoints: &Checkpoints,
    rejected_step: RejectedStep,
    observer: &mut dyn Observer,
) -> Result<()> {
    let mut after = state.progress.clone();
    let step = after.step + 1;
    let mut report = |message| observer.event(TrainEvent::Warned { message });
    let (good, why) = match rejected_step {
        RejectedStep::NotFinite(what) => {
            let find =
                |state: &TrainState| last_good(state, checkpoints, what, &mut report).map(Some);
            let good = state.of_first(checkpoints, find)?;
            let missing = || Error::Peer("rank 0 has no checkpoint to go back to".to_owned());
            let good = good.ok_or_else(missing)?;
            after.rollbacks += 1;
            after.rolled_back_to = Some(good.step);
            (good, format!("the {what} was not finite"))
        }
        RejectedStep::Spike(spike) => {
            after.spikes.push(step);
            after.rolled_back_to = None;
            let find = |_: &TrainState| checkpoints.newest_before(usize::MAX, &mut report);
            let Some(newest) = state.of_first(checkpoints, find)? else {
                // Somebody removed them all. A spike is no reason to end, so this batch is left out.
                state.progress.spikes = after.spikes;
                return Ok(());
            };
            (newest, spike.to_string())
        }
    };
    state.restore(task, &good.path)?;
    state.progress.rollbacks = after.rollbacks;
    state.progress.rolled_back_to = after.rolled_back_to;
    state.progress.spikes = after.spikes;
    state.progress.rate_factor = after.rate_factor / 2.0;
    if state.share.is_first() {
        let mut write = || state.write_progress(&good.path);
        when_the_disk_can(step, 0, &good.path, observer, &mut write)?;
    }
    observer.event(TrainEvent::RolledBack {
        step,
        to_step: good.step,
        why,
        learning_rate: plan.learning_rate * state.progress.rate_factor,
    });
    Ok(())
}

/// The newest checkpoint. If no step could be taken since the run last went back, it is no good itself: it is removed,
/// and the one before it is gone back to.
fn last_good(
    state: &TrainState,
    checkpoints: &Checkpoints,
    what: &'static str,
    report: &mut dyn FnMut(String),
) -> Result<Checkpoint> {
    let progress = &state.progress;
    let mut newest = checkpoints.newest_before(usize::MAX, report)?;
    let Some(good) = newest.take_if(|_| progress.rollbacks < MAX_ROLLBACKS) else {
        return Err(Error::NotFinite {
            what,
            step: progress.step + 1,
            rollbacks: progress.rollbacks,
            saved: newest.map_or("never".to_owned(), |it| format!("step {}", it.step)),
        });
    };
    if progress.rolled_back_to == Some(progress.step)
        && let Some(before) = checkpoints.newest_before(good.step, report)?
    {
        // Nothing is deleted that somebody may want to look at.
        put_aside(&good.path)?;
        return Ok(before);
    }
    Ok(good)
}

/// What is said of a spike whose step was taken: the last one done.
pub(super) fn message_for_taken(spike: Spike, plan: &RunPlan, state: &TrainState) -> String {
    let step = state.progress.step;
    let why = match state.progress.spikes.contains(&step) {
        true => "also after going back, so its batch is odd and not the model",
        false => "and the run went back for others often enough",
    };
    let clipped = match plan.clip_norm > 0.0 {
        true => format!(", clipped to {} as always", plan.clip_norm),
        false => String::new(),
    };
    format!("{spike}, in step {step}, {why}; the step was taken{clipped}")
}
