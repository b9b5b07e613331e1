//! Probes, for the window. Its twin for the terminal is `cli/probe.rs`.

use std::path::{Path, PathBuf};

use models::tasks::probe::{
    folder::AboutProbes,
    labelled::{self, LabelledRequest},
};
use tauri::State;

use super::App;
use crate::{
    host::{
        chat::view::{LeadView, LiveProbeView, ProbesView, SteerView, WatchView},
        probe::view::{LabelledView, ProbeFolderView, ProbeFoldersView, TextPairView},
    },
    lock::locked,
    store::runs::Run,
    wire::error::{AppError, Result},
};

/// What is known of the probes in a folder. Of the texts of a study those that it speaks of, where the folder of the states is known.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn probe_report(folder: String, states: Option<String>) -> Result<ProbeFolderView> {
    ProbeFolderView::open(Path::new(&folder), states.as_deref().map(Path::new))
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

/// Leads the model at a place along directions of probes from now on, or without any not any more. Those of another model only with
/// `force`.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn steer_model(
    app: State<'_, App>,
    place: u32,
    by: Vec<SteerView>,
    force: bool,
) -> Result<LeadView> {
    let place = app.place(place)?;
    let mut open = locked(&place.model);
    let model = open
        .as_mut()
        .ok_or_else(|| AppError::failed("no model is open"))?;
    let by = by.into_iter().map(SteerView::asked).collect();
    Ok(model.steer(by, force)?.into())
}
