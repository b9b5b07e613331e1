//! Passes over a batch that a GPU plays again: forward and backward are hundreds of small launches, for which the host takes longer
//! than the GPU. Recorded once as a CUDA graph, they are one.
//!
//! A pass is recorded when its form comes for the second time, so that what happens once is never recorded. From then on, the numbers
//! of a batch are copied to where the recorded pass reads them, and loss and gradients lie where it wrote them. What is decided by
//! them, and the update, are launched step by step as ever: a step that is not taken, a spike and a loss scale work alike.
//! Deliberately absent: dropout, whose masks are drawn by the host, and the update, which is a few launches.

use std::collections::BTreeSet;

use candle_core::{Device, Tensor};

use super::passes;
use crate::{
    Error, Result,
    device::memory::{give_recorded_back, release_for_recording},
    ops::kernels::cuda::graph::{Graph, record, rehearse},
    tape::{FixedPass, Gradients},
};

/// Forms that are kept recorded: their activations share memory, but each keeps its gradients.
const MOST_FORMS: usize = 8;

/// Micro-batches of a step that are recorded together. More would be a graph that takes seconds to make.
const MOST_MICRO_BATCHES: usize = 16;

/// What was recorded in a run.
#[derive(Default)]
pub(crate) struct RecordedPasses {
    /// The one that was played last is the last.
    passes: Vec<RecordedPass>,
    /// Forms that came before.
    seen: BTreeSet<String>,
    /// Nothing is recorded any more, and why.
    given_up: Option<String>,
    is_told: bool,
}

struct RecordedPass {
    form: String,
    inputs: Vec<Tensor>,
    // Tensors of a graph go before it does.
    loss: Tensor,
    gradients: Gradients,
    graph: Graph,
}

impl RecordedPasses {
    /// Loss and gradients of these passes, one for each micro-batch, where they can be recorded. They are good until the next step.
    ///
    /// Errors: those of the passes themselves. Where only the recording fails, nothing is returned, and none is tried again.
    pub(crate) fn play(
        &mut self,
        device: &Device,
        micro_batches: &[Box<dyn FixedPass>],
        loss_scale: f64,
    ) -> Result<Option<(Tensor, Gradients)>> {
        if self.given_up.is_some() || micro_batches.len() > MOST_MICRO_BATCHES {
            return Ok(None);
        }
        let form = form(micro_batches, loss_scale);
        let work = || launched(micro_batches, loss_scale);
        if let Some(at) = self.passes.iter().position(|it| it.form == form) {
            let pass = self.passes.remove(at);
            for (place, new) in pass.inputs.iter().zip(inputs(micro_batches)) {
                place.slice_set(&new, 0, 0)?;
            }
            pass.graph.play()?;
            let result = (pass.loss.clone(), pass.gradients.clone());
            self.passes.push(pass);
            return Ok(Some(result));
        }
        if self.seen.insert(form.clone()) {
            return rehearse(device, work).map(Some);
        }
        if self.passes.len() == MOST_FORMS {
            self.passes.remove(0);
        }
        // What the rehearsal took is free, and a recorded pass takes its memory from elsewhere.
        release_for_recording(device)?;
        match record(device, work) {
            Ok((graph, (loss, gradients))) => {
                self.passes.push(RecordedPass {
                    form,
                    inputs: inputs(micro_batches),
                    loss: loss.clone(),
                    gradients: gradients.clone(),
                    graph,
                });
                Ok(Some((loss, gradients)))
            }
            Err(error) => {
                self.give_up(device, &error);
                // It is computed as ever instead, and says itself what is wrong with it.
                Ok(None)
            }
        }
    }

    /// Forgets all that was recorded, and records nothing any more.
    pub(super) fn give_up(&mut self, device: &Device, why: &Error) {
        self.passes.clear();
        self.given_up.get_or_insert_with(|| why.to_string());
        give_recorded_back(device);
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

/// Loss and gradients of these passes, launch by launch.
pub(crate) fn launched(
    micro_batches: &[Box<dyn FixedPass>],
    loss_scale: f64,
) -> Result<(Tensor, Gradients)> {
    let losses = micro_batches.iter().map(|pass| |tape: &_| pass.loss(tape));
    passes(losses.map(|loss| (0, loss)), loss_scale)
}

/// What decides the operations of these passes.
fn form(micro_batches: &[Box<dyn FixedPass>], loss_scale: f64) -> String {
    let of = |pass: &Box<dyn FixedPass>| {
        let shapes = pass
            .inputs()
            .iter()
            .map(|it| format!("{:?}", it.dims()))
            .collect::<Vec<_>>();
        format!("{} {}", pass.form(), shapes.join(" "))
    };
    let forms: Vec<String> = micro_batches.iter().map(of).collect();
    format!("{} with loss scale {loss_scale}", forms.join(", "))
}

fn inputs(micro_batches: &[Box<dyn FixedPass>]) -> Vec<Tensor> {
    micro_batches.iter().flat_map(|it| it.inputs()).collect()
}
