//! Probes, for the window. Its twin for the terminal is `cli/probe.rs`.

use std::path::{Path, PathBuf};

use models::tasks::probe::labelled::{self, LabelledRequest};
use tauri::State;

use super::App;
use crate::{
    host::probe::view::{LabelledView, ProbeFoldersView, ProbeReportView, TextPairView},
    wire::error::Result,
};

/// What a study found, whose probes are in a folder. Of its texts those that it speaks of, where the folder of the states is known.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn probe_report(folder: String, states: Option<String>) -> Result<ProbeReportView> {
    ProbeReportView::open(Path::new(&folder), states.as_deref().map(Path::new))
}

/// Where the probes of a run are, and the states that they were learned from.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn probe_folders(app: State<'_, App>, run: String) -> Result<ProbeFoldersView> {
    Ok(ProbeFoldersView::new(
        &app.host.probes(&run)?,
        app.host.states_of(&run)?.as_deref(),
    ))
}

/// How labelled data is read, and which labels it has. Columns that are not named are found.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn labelled_data(
    files: Vec<PathBuf>,
    text_column: Option<String>,
    label_column: Option<String>,
    group_column: Option<String>,
) -> Result<LabelledView> {
    let request = LabelledRequest {
        paths: files,
        text_column,
        label_column,
        group_column,
        encoding: None,
    };
    Ok(labelled::read(&request)?.into())
}

/// What probes say of two texts. Without a model, the one that they belong to is found by its weights.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn compare_texts(
    app: State<'_, App>,
    probes: PathBuf,
    model: Option<String>,
    texts: [String; 2],
) -> Result<Vec<TextPairView>> {
    app.host.compare_texts(probes, model, texts)
}
