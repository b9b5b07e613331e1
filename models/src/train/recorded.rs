//! Forward and backward passes that a GPU replays: they are hundreds of small launches, which take the host longer than the GPU.
//! Recorded once as a CUDA graph, they are one launch.
//!
//! A pass is recorded when its form occurs for the second time, so that one-off passes are never recorded. From then on, each
//! batch is copied to where the recorded pass reads it, and loss and gradients lie where it wrote them. Decisions that depend on
//! them, and the update, are launched step by step as before, so skipped steps, spikes and loss scales work as without a
//! recording. Masks of dropout are found from a seed that lies on the GPU, as the batch does. Deliberately absent: the update, which
//! is a few launches.

use std::collections::BTreeSet;

use candle_core::{Device, Tensor};

use super::{Task, TrainState, step::passes, unused_memory::device_of};
use crate::{
    Error, Result,
    device::memory::{give_recorded_back, release_for_recording},
    ops::kernels::{
        self,
        cuda::graph::{Graph, record, rehearse},
    },
    profile,
    random::stable_hash,
    tape::{DropoutSeed, FixedPass, Gradients, Left},
};

/// Forms that are kept recorded: their activations share memory, but each keeps its gradients. Others are launched.
const MAX_FORMS: usize = 8;

/// Forms that are remembered to have come once.
const MAX_SEEN: usize = 512;

/// Micro-batches of a step that are recorded together. More would be a graph that takes seconds to make.
const MAX_MICRO_BATCHES: usize = 16;

/// What was recorded in a run.
#[derive(Default)]
pub(crate) struct RecordedPasses {
    passes: Vec<RecordedPass>,
    /// Forms that came before, as hashes.
    seen: BTreeSet<u64>,
    /// What losses were multiplied with in all of them.
    loss_scale: f64,
    /// Memory ran out once: the next time is the last.
    has_run_out: bool,
    /// Nothing is recorded any more, and why.
    given_up: Option<String>,
    is_told: bool,
    /// Where they were recorded.
    device: Option<Device>,
}

struct RecordedPass {
    form: String,
    inputs: Vec<Tensor>,
    // Tensors of a graph go before it does.
    played: Played,
    graph: Graph,
}

/// What passes came to.
#[derive(Debug, Clone)]
pub(crate) struct Played {
    /// The sum of their losses.
    pub(crate) loss: Tensor,
    pub(crate) gradients: Gradients,
    /// What each of them left beside its loss.
    pub(crate) left: Vec<Left>,
}

impl Drop for RecordedPasses {
    fn drop(&mut self) {
        if let Some(device) = self.device.take() {
            self.forget(&device);
        }
    }
}

impl RecordedPasses {
    /// Whether a step of so many micro-batches may be recorded.
    pub(super) fn takes(&self, micro_batches: usize) -> bool {
        self.given_up.is_none() && micro_batches <= MAX_MICRO_BATCHES
    }

    /// What these passes come to, one for each micro-batch with the seed of its dropout, where they can be recorded. It is good until
    /// the next step. Where others wait for the gradients, these say which are complete before the end.
    ///
    /// Errors: those of the passes themselves. Where only the recording fails, nothing is returned, and none is tried again.
    pub(crate) fn play(
        &mut self,
        device: &Device,
        micro_batches: &[Box<dyn FixedPass + '_>],
        dropout_seeds: &[u64],
        (loss_scale, others_wait): (f64, bool),
    ) -> Result<Option<Played>> {
        if !self.takes(micro_batches.len()) {
            return Ok(None);
        }
        if self.loss_scale != loss_scale {
            // The old scale seldom comes again.
            self.forget(device);
            self.loss_scale = loss_scale;
        }
        let form = form(micro_batches);
        let seeds = placed(dropout_seeds, device)?;
        let inputs = || inputs(micro_batches).into_iter().chain([seeds.clone()]);
        if let Some(pass) = self.passes.iter().find(|it| it.form == form) {
            for (place, new) in pass.inputs.iter().zip(inputs()) {
                // What is the same in all passes lies there already.
                if place.id() != new.id() {
                    place.slice_set(&new, 0, 0)?;
                }
            }
            pass.graph.play()?;
            return Ok(Some(pass.played.clone()));
        }
        if self.passes.len() == MAX_FORMS {
            return Ok(None);
        }
        let work = || launched(micro_batches, &seeds, (loss_scale, others_wait));
        if self.seen.len() == MAX_SEEN {
            self.seen.clear();
        }
        if self.seen.insert(stable_hash(0, form.as_bytes())) {
            return rehearse(device, work).map(Some);
        }
        self.device = Some(device.clone());
        // What the rehearsal took is free, and a recorded pass takes its memory from elsewhere.
        release_for_recording(device)?;
        match record(device, work) {
            Ok((graph, played)) => {
                self.passes.push(RecordedPass {
                    form,
                    inputs: inputs().collect(),
                    played: played.clone(),
                    graph,
                });
                Ok(Some(played))
            }
            Err(error) => {
                self.failed(device, &error);
                // It is computed as ever instead, and says itself what is wrong with it.
                Ok(None)
            }
        }
    }

    /// Forgets all that was recorded. Nothing is recorded any more, unless memory ran out for the first time.
    pub(super) fn failed(&mut self, device: &Device, why: &Error) {
        self.forget(device);
        if why.is_out_of_memory() && !self.has_run_out {
            self.has_run_out = true;
        } else {
            self.given_up.get_or_insert_with(|| why.to_string());
        }
    }

    /// Gives the memory of what was recorded back. It is recorded again when it comes again.
    pub(super) fn forget(&mut self, device: &Device) {
        if !self.passes.is_empty() {
            self.passes.clear();
            give_recorded_back(device);
        }
    }

    /// A sentence for the person, once, where steps could not be recorded.
    pub(crate) fn notice(&mut self) -> Option<String> {
        let why = self.given_up.as_ref().filter(|_| !self.is_told)?;
        self.is_told = true;
        Some(format!(
            "steps are not recorded on the GPU, and take longer where they are small: {why}"
        ))
    }
}

/// Loss and gradients of a step whose passes can be recorded on this device. Each batch comes with the seed of its dropout.
pub(super) fn pass<T: Task>(
    task: &mut T,
    state: &mut TrainState,
    batches: &[(u64, &T::Batch)],
    targets: f64,
    loss_scale: f64,
) -> Result<Option<(Tensor, Gradients)>> {
    // Operations of a recorded pass can't be told apart, and those that our kernels don't compute may decide something on the way.
    if profile::is_on() || !kernels::all_enabled() {
        return Ok(None);
    }
    let Some(device) = device_of(task).filter(Device::is_cuda) else {
        return Ok(None);
    };
    if !state.recorded.takes(batches.len()) {
        return Ok(None);
    }
    let how = (loss_scale, state.together.is_some());
    let played = {
        let passes = batches
            .iter()
            .map(|(_, batch)| task.fixed_pass(batch, targets));
        let seeds: Vec<u64> = batches.iter().map(|it| it.0).collect();
        match passes.collect::<Result<Option<Vec<_>>>>()? {
            Some(passes) => state.recorded.play(&device, &passes, &seeds, how),
            None => return Ok(None),
        }
    };
    if let Err(error) = &played {
        state.recorded.failed(&device, error);
    }
    let Some(Played {
        loss,
        gradients,
        left,
    }) = played?
    else {
        return Ok(None);
    };
    for ((_, batch), left) in batches.iter().zip(left) {
        task.passed(batch, left)?;
    }
    Ok(Some((loss, gradients)))
}

/// What these passes come to, launch by launch. `seeds` are those of their dropout, as [`placed`] puts them on a device.
pub(crate) fn launched(
    micro_batches: &[Box<dyn FixedPass + '_>],
    seeds: &Tensor,
    (loss_scale, others_wait): (f64, bool),
) -> Result<Played> {
    let seed = |at| Ok(DropoutSeed::placed_at(seeds.get(at)?));
    let seeds: Vec<_> = (0..micro_batches.len()).map(seed).collect::<Result<_>>()?;
    let losses = micro_batches.iter().map(|pass| |tape: &_| pass.loss(tape));
    let passed = passes(seeds.into_iter().zip(losses), loss_scale, others_wait);
    // Also after an error: nothing that was computed here stays with a pass.
    let left = micro_batches.iter().map(|it| it.take_left()).collect();
    let (loss, gradients) = passed?;
    Ok(Played {
        loss,
        gradients,
        left,
    })
}

/// Seeds on a device: a row for each, of its lower half and its upper.
pub(crate) fn placed(seeds: &[u64], device: &Device) -> Result<Tensor> {
    let halves = seeds.iter().flat_map(|it| [*it as u32, (it >> 32) as u32]);
    Ok(Tensor::from_vec(
        halves.collect::<Vec<_>>(),
        (seeds.len(), 2),
        device,
    )?)
}

/// What decides the operations of these passes.
fn form(micro_batches: &[Box<dyn FixedPass + '_>]) -> String {
    let of = |pass: &Box<dyn FixedPass + '_>| {
        let shapes = pass
            .inputs()
            .iter()
            .map(|it| format!("{:?}", it.dims()))
            .collect::<Vec<_>>();
        format!("{} {}", pass.form(), shapes.join(" "))
    };
    let forms: Vec<String> = micro_batches.iter().map(of).collect();
    forms.join(", ")
}

fn inputs(micro_batches: &[Box<dyn FixedPass + '_>]) -> Vec<Tensor> {
    micro_batches.iter().flat_map(|it| it.inputs()).collect()
}
