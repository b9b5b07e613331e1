//! Data: what the user added, and what is in it.

use std::path::PathBuf;

use models::data::{self as rows, encode::Learn};
use tauri::State;

use super::App;
use crate::{
    host::inspect::view::{DataRequestView, DataSetView, InspectionView},
    store::data_sets,
    wire::error::Result,
};

/// All data that was added, the newest first.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn data_sets(app: State<'_, App>) -> Result<Vec<DataSetView>> {
    let sets = data_sets::list(&app.host.paths)?;
    Ok(sets.into_iter().map(DataSetView::from).collect())
}

/// Adds a file or folder.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn add_data(app: State<'_, App>, path: String) -> Result<DataSetView> {
    Ok(data_sets::add(&app.host.paths, &PathBuf::from(path))?.into())
}

/// Adds a text that was pasted.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn add_data_text(app: State<'_, App>, text: String) -> Result<DataSetView> {
    Ok(data_sets::add_text(&app.host.paths, &text)?.into())
}

/// Changes how data is read.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn change_data(
    app: State<'_, App>,
    id: String,
    request: DataRequestView,
) -> Result<DataSetView> {
    let request = request.request(Vec::new())?;
    Ok(data_sets::change(&app.host.paths, &id, request)?.into())
}

/// Takes data out of the list. Its files stay.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn remove_data(app: State<'_, App>, id: String) -> Result<()> {
    data_sets::remove(&app.host.paths, &id)
}

/// What is in data, read in some way, and counted as a model would; without a model, as a new one.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn inspect_data(
    app: State<'_, App>,
    id: String,
    request: DataRequestView,
    model: Option<String>,
) -> Result<InspectionView> {
    let set = data_sets::find(&app.host.paths, &id)?;
    let request = request.request(set.request.paths)?;
    // Without its columns, data can still say what is wrong with it.
    let columns = rows::columns(&request).unwrap_or_default();
    let model = model.map(PathBuf::from);
    let inspected = app
        .host
        .inspect_data(&request, model.as_deref(), Learn::default(), 0);
    Ok(match inspected {
        Ok(inspection) => InspectionView::new(inspection, columns),
        Err(error) => InspectionView::refused(error, columns),
    })
}
