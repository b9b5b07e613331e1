//! Hidden states that are captured, inside an engine.

use std::{ops::ControlFlow, path::Path};

use models::tasks::probe::capture::Capture;

use crate::wire::{engine::Reply, error::Result};

/// What writes the states, as it stands in their folder.
pub(super) const WRITTEN_BY: &str = concat!("anneal ", env!("CARGO_PKG_VERSION"));

/// Says what a capture will do, and captures into a folder, if there is one. `flow` says whether it should end.
pub(super) fn capture(
    capture: &Capture,
    warnings: &[String],
    states: Option<&Path>,
    send: &mut dyn FnMut(Reply),
    flow: &dyn Fn() -> ControlFlow<()>,
) -> Result<()> {
    send(Reply::CapturePlanned {
        plan: Box::new(capture.planned().clone()),
        warnings: warnings.to_vec(),
    });
    let Some(states) = states else { return Ok(()) };
    let mut watch = |progress| {
        send(Reply::Captured { progress });
        flow()
    };
    let complete = capture.run(states, &mut watch)?;
    send(Reply::CaptureEnded { complete });
    Ok(())
}
