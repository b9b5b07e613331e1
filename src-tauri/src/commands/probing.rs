//! Probes that are asked of what a model writes.

use std::path::{Path, PathBuf};

use models::tasks::probe::folder::AboutProbes;
use tauri::State;

use super::App;
use crate::{
    host::chat::view::{LiveProbeView, ProbesView, WatchView},
    lock::locked,
    store::runs::Run,
    wire::error::{AppError, Result},
};

/// The probes of runs that belong to a model.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn probes_for(app: State<'_, App>, name: String) -> Result<Vec<ProbesView>> {
    let found = app.host.probes_for(&name)?;
    let view = |(run, folder, about): &(Run, PathBuf, AboutProbes)| {
        ProbesView::new(folder, Some(&run.id), about)
    };
    Ok(found.iter().map(view).collect())
}

/// The probes in a folder.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn probes_in_folder(folder: String) -> Result<ProbesView> {
    let folder = Path::new(&folder);
    Ok(ProbesView::new(folder, None, &AboutProbes::read(folder)?))
}

/// Has probes of these folders score each token of the model at a place from now on, or without folders nobody. Those of another model
/// only with `force`.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn watch_probes(
    app: State<'_, App>,
    place: u32,
    folders: Vec<String>,
    force: bool,
) -> Result<WatchView> {
    let place = app.place(place)?;
    let mut open = locked(&place.model);
    let model = open
        .as_mut()
        .ok_or_else(|| AppError::failed("no model is open"))?;
    let paths = folders.iter().map(PathBuf::from).collect();
    let (probes, warnings) = model.watch(paths, force)?;
    Ok(WatchView {
        probes: probes
            .iter()
            .map(|it| LiveProbeView::new(it, &folders))
            .collect(),
        warnings,
    })
}
