//! Probes, for the window. Its twin for the terminal is `cli/probe.rs`.

use std::path::Path;

use crate::{host::probe::view::ProbeReportView, wire::error::Result};

/// What a study found, whose probes are in a folder. Of its texts those that it speaks of, where the folder of the states is known.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn probe_report(folder: String, states: Option<String>) -> Result<ProbeReportView> {
    ProbeReportView::open(Path::new(&folder), states.as_deref().map(Path::new))
}
