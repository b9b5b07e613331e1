//! Data: what the user added, and what is in it.

use std::{path::PathBuf, sync::atomic::Ordering};

use models::data::{self as rows, DataRequest, encode::Learn};
use tauri::{State, ipc::Channel};

use super::{App, train::STARTER_SEED};
use crate::{
    host::inspect::{
        Counting,
        rows::DataRowsView,
        view::{CountProgressView, CountView, DataRequestView, DataSetView, InspectionView},
    },
    store::{
        data_sets,
        dropped::{self, Dropped},
    },
    wire::error::{AppError, Result},
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

/// What is in data, read in some way, without counting it. It is kept for what is asked next, until it is closed.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn inspect_data(
    app: State<'_, App>,
    id: String,
    request: DataRequestView,
) -> Result<InspectionView> {
    let request = request_of(&app, &id, request)?;
    // Without its columns, data can still say what is wrong with it.
    let columns = rows::columns(&request).unwrap_or_default();
    Ok(match app.host.look_at_data(&request) {
        Ok(looked) => InspectionView::new(&looked, columns),
        Err(error) => InspectionView::refused(error, columns),
    })
}

/// Counts data as a model would; without a model, as a new one. Nothing when another count or its end was asked for since.
#[tauri::command]
#[specta::specta]
pub(super) async fn count_data(
    app: State<'_, App>,
    id: String,
    request: DataRequestView,
    model: Option<String>,
    progress: Channel<CountProgressView>,
) -> Result<Option<CountView>> {
    let request = request_of(&app, &id, request)?;
    let how = Counting {
        model: model.map(PathBuf::from),
        learn: Learn::default(),
        max_length: 0,
    };
    let (host, counts) = (app.host.clone(), app.counts_asked.clone());
    let number = counts.fetch_add(1, Ordering::SeqCst) + 1;
    // It takes as long as it takes: other commands are answered meanwhile.
    let count = move || {
        let looked = host.look_at_data(&request)?;
        let rows = looked.dataset.rows.len();
        let mut watch = |done| {
            let _ = progress.send(CountProgressView { done, rows });
            counts.load(Ordering::SeqCst) == number
        };
        let counted = host.count_data(&looked, how, &mut watch)?;
        Ok(counted.as_deref().map(CountView::from))
    };
    let ended = tauri::async_runtime::spawn_blocking(count).await;
    ended.map_err(|error| AppError::failed(error.to_string()))?
}

/// Some rows that have all the words, those with a problem first; at most 200.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn data_rows(
    app: State<'_, App>,
    id: String,
    request: DataRequestView,
    words: String,
    from: usize,
    count: usize,
) -> Result<DataRowsView> {
    let looked = app.host.look_at_data(&request_of(&app, &id, request)?)?;
    Ok(looked.page(&words, from, count))
}

/// Ends the count that is running, and lets go of what was read for it.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn close_data(app: State<'_, App>) -> Result<()> {
    app.counts_asked.fetch_add(1, Ordering::SeqCst);
    app.host.forget_looked();
    Ok(())
}

/// Writes the starter's conversations, and adds them as data to try things with.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn add_sample_data(app: State<'_, App>) -> Result<DataSetView> {
    Ok(app.host.add_sample_data(STARTER_SEED)?.into())
}

/// What can be done with a file or folder that was dropped.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn look_at_path(path: String) -> Result<Dropped> {
    Ok(dropped::look(&PathBuf::from(path)))
}

/// How the data with an id is to be read.
fn request_of(app: &App, id: &str, request: DataRequestView) -> Result<DataRequest> {
    let set = data_sets::find(&app.host.paths, id)?;
    request.request(set.request.paths)
}
