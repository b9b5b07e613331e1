//! Work that is recorded once and played again as a whole: a CUDA graph.
//!
//! Starting a graph costs the host as much as a few launches, however many are in it. It repeats what was recorded with
//! the same addresses: inputs must be where they were then, and outputs appear where they did, until the next replay.
//! Deliberately absent: what is worth recording (`train`).

use candle_core::{
    CudaDevice, Device,
    cuda::{
        WrapErr,
        cudarc::driver::{
            CudaGraph,
            sys::{CUgraphInstantiate_flags as Flags, CUstreamCaptureMode as Mode},
        },
    },
};

use super::{broken, side};
use crate::Result;

/// Recorded work.
pub(crate) struct Graph(CudaGraph);

/// Work that is done again and again, and played from the third time on.
pub(crate) enum Repeated<T> {
    /// It was not done yet.
    New,
    /// It was launched once, so that its kernels are loaded.
    Rehearsed,
    /// What came of it lies where it did. Tensors of a graph go before it does.
    Recorded(T, Graph),
    /// It can’t be recorded, and is launched each time.
    Launched,
}

impl<T: Clone> Repeated<T> {
    /// Does this work, which has to be the same each time. What came of it is good until the next time.
    pub(crate) fn go(&mut self, device: &Device, mut work: impl FnMut() -> Result<T>) -> Result<T> {
        let (next, result) = match std::mem::replace(self, Self::Launched) {
            Self::New => (Self::Rehearsed, rehearse(device, work)?),
            Self::Rehearsed => match record(device, &mut work) {
                Ok((graph, result)) => (Self::Recorded(result.clone(), graph), result),
                Err(_) => (Self::Launched, work()?),
            },
            Self::Recorded(result, graph) => match graph.play() {
                Ok(()) => (Self::Recorded(result.clone(), graph), result),
                // There may be no room for what it takes.
                Err(_) => {
                    drop(result);
                    drop(graph);
                    (Self::Launched, work()?)
                }
            },
            Self::Launched => (Self::Launched, work()?),
        };
        *self = next;
        Ok(result)
    }
}

/// Runs work as [`record`] will: small constants that it uploads stay on the device, where a recording finds them. It must
/// upload nothing else.
pub(crate) fn rehearse<T>(device: &Device, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let device = cuda(device)?;
    let _kept = device.enable_cuda_graph_htod_cache();
    with_side(device, work)
}

/// Records work that was rehearsed, and plays it for the first time. Its result, tensors among it, is that of every play.
///
/// Errors where the work does what can’t be recorded: it waits for a number, uploads, or frees what was there before.
pub(crate) fn record<T>(device: &Device, work: impl FnOnce() -> Result<T>) -> Result<(Graph, T)> {
    let device = cuda(device)?;
    let _kept = device.enable_cuda_graph_htod_cache();
    let stream = device.cuda_stream();
    stream
        .begin_capture(Mode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
        .w()?;
    let result = with_side(device, work);
    // What the last play left behind is taken again at the next.
    let flags = Flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    let graph = stream.end_capture(flags);
    if graph.is_err() {
        // Perhaps it only told of an error from before, and the recording goes on. Where it has ended, this does nothing.
        let _has_ended = stream.end_capture(flags);
        let _is_told = stream.context().check_err();
    }
    let result = result?;
    let started = graph
        .w()
        .map_err(Into::into)
        .and_then(|graph| graph.ok_or_else(|| broken("nothing was recorded")))
        .and_then(|graph| {
            graph.launch().w()?;
            Ok(graph)
        });
    match started {
        Ok(graph) => Ok((Graph(graph), result)),
        Err(error) => {
            // Its tensors were never there, so that there is nothing to free.
            std::mem::forget(result);
            Err(error)
        }
    }
}

impl Graph {
    /// Does the recorded work again.
    pub(crate) fn play(&self) -> Result<()> {
        Ok(self.0.launch().w()?)
    }
}

/// Work of which a part may run beside the rest: see [`side`].
fn with_side<T>(device: &CudaDevice, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let _open = side::open(device)?;
    let result = work()?;
    side::join()?;
    Ok(result)
}

fn cuda(device: &Device) -> Result<&CudaDevice> {
    match device {
        Device::Cuda(device) => Ok(device),
        _ => Err(broken("a graph for CUDA was asked for elsewhere")),
    }
}
