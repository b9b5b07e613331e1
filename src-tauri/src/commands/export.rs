//! What was trained, for other programs.

use std::path::Path;

use models::{Error, tasks::language::export::Stage};
use tauri::{State, ipc::Channel};

use super::App;
use crate::{
    host::export::{
        How, Place, ollama,
        view::{ExportStageView, ExportView, OfferView},
    },
    lock::locked,
    wire::error::Result,
};

/// The ways in which a run or a model can be written.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn exports(app: State<'_, App>, model: String) -> Result<Vec<OfferView>> {
    let offers = app.host.exports(&model)?;
    Ok(offers.into_iter().map(OfferView::from).collect())
}

/// Writes a run or a model where the user chose, or without a path among the models of LM Studio, and says how it was compared. What
/// another program would compute otherwise is written only with `force`, and nothing is compared without `compares`.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn export_model(
    app: State<'_, App>,
    model: String,
    format: String,
    path: Option<String>,
    force: bool,
    compares: bool,
    progress: Channel<ExportStageView>,
) -> Result<ExportView> {
    let place = match path {
        Some(path) => Place::At(app.picked(&path)?),
        None => Place::LmStudio,
    };
    locked(&app.stopped_exports).remove(&model);
    let mut stage = |stage| {
        if stage != Stage::Read {
            drop(progress.send(ExportStageView::from(stage)));
        }
        match locked(&app.stopped_exports).contains(&model) {
            true => Err(Error::Interrupted),
            false => Ok(()),
        }
    };
    let written = app
        .host
        .export(&model, &format, place, How { force, compares }, &mut stage)?;
    Ok(ExportView::from(written))
}

/// Adds a file that was exported to Ollama, and returns what Ollama calls it.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn add_to_ollama(path: String) -> Result<String> {
    ollama::add(Path::new(&path))
}

/// Ends what is being written of a run or a model. Nothing is left of it.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn stop_export(app: State<'_, App>, model: String) -> Result<()> {
    locked(&app.stopped_exports).insert(model);
    Ok(())
}
