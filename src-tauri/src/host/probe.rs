//! Hidden states that are captured in an engine.

use std::path::PathBuf;

use models::{
    device::RequestedDevice,
    tasks::probe::capture::{CapturePlan, CaptureProgress, CaptureRequest},
};

use super::{Host, chat::refuse_what_does_not_fit, hub};
use crate::{
    jobs::engine::Engine,
    store::in_use::{InUse, Work},
    wire::{
        engine::{Ask, Reply},
        error::{AppError, Result},
    },
};

/// A capture that is asked for.
pub(crate) struct CaptureOrder {
    /// What to capture.
    pub(crate) request: CaptureRequest,
    /// The model, as a person names it.
    pub(crate) model: String,
    /// Where it computes.
    pub(crate) device: Option<RequestedDevice>,
    /// Where the states go. Without it, the capture is only planned.
    pub(crate) states: Option<PathBuf>,
    /// Whether it is opened also where it does not fit into memory.
    pub(crate) force: bool,
}

/// What is heard of a capture.
pub(crate) enum CaptureNews {
    /// What it will do, and what a person should know about where it computes.
    Planned(Box<CapturePlan>, Vec<String>),
    /// How far it is.
    Progress(CaptureProgress),
}

impl Host {
    /// Captures hidden states of a model over labelled text. `show` hears the plan before anything starts, then how far it is;
    /// `stop` ends it, and the same order continues. Returns whether all states are there.
    pub(crate) fn capture(
        &self,
        order: CaptureOrder,
        show: &mut dyn FnMut(CaptureNews),
        stop: &dyn Fn() -> bool,
    ) -> Result<bool> {
        let folder = self.model_folder(&order.model)?;
        let (place, choice, checked) = self.place_to_open(order.device)?;
        let mut engine = Engine::start(place.kind, None)?;
        if let Some(needed) = hub::talk_bytes_in(&folder, &choice).filter(|_| !order.force) {
            refuse_what_does_not_fit(needed, engine.devices(), place.used)?;
        }
        // An engine has its own working folder only by chance.
        let absolute = |path: PathBuf| {
            std::path::absolute(&path).map_err(AppError::file("find the folder", &path))
        };
        let only_planned = order.states.is_none();
        let ask = Ask::Capture {
            folder: absolute(folder)?,
            device: place.device,
            checked,
            request: Box::new(order.request),
            states: order.states.map(absolute).transpose()?,
        };
        let _in_use = InUse::begin(&place.in_use, Work::Answer);
        let mut hear = |reply| match reply {
            Reply::CapturePlanned { plan, warnings } => {
                show(CaptureNews::Planned(plan, warnings));
                only_planned.then_some(false)
            }
            Reply::Captured { progress } => {
                show(CaptureNews::Progress(progress));
                None
            }
            Reply::CaptureEnded { complete } => Some(complete),
            _ => None,
        };
        let ended = engine.ask_for(&ask, &mut hear, stop)?;
        ended.ok_or_else(|| AppError::failed("the engine ended without a word"))
    }
}
