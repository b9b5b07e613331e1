//! What was trained, for other programs.

use tauri::{State, ipc::Channel};

use super::App;
use crate::{
    host::export::view::{ExportStageView, ExportView, OfferView},
    wire::error::Result,
};

/// The ways in which a run or a model can be written.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn exports(app: State<'_, App>, model: String) -> Result<Vec<OfferView>> {
    let offers = app.host.exports(&model)?;
    Ok(offers.into_iter().map(OfferView::from).collect())
}

/// Writes a run or a model where the user chose, and says how it was compared. What another program would compute otherwise is written
/// only with `force`.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn export_model(
    app: State<'_, App>,
    model: String,
    format: String,
    path: String,
    force: bool,
    progress: Channel<ExportStageView>,
) -> Result<ExportView> {
    let path = app.picked(&path)?;
    let mut stage = |stage| drop(progress.send(ExportStageView::from(stage)));
    let written = app
        .host
        .export(&model, &format, Some(path), force, &mut stage)?;
    Ok(ExportView::from(written))
}
