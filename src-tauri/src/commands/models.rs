//! Models on this machine.

use std::{
    fs,
    path::{Path, PathBuf},
};

use tauri::State;

use super::App;
use crate::{
    store::models::{self, ModelPlace, StoredModel, view::ModelView},
    wire::error::{AppError, Result},
};

/// All models, by name.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn models(app: State<'_, App>) -> Result<Vec<ModelView>> {
    let found = models::list(&app.host.paths, &app.host.settings());
    Ok(found.into_iter().map(ModelView::from).collect())
}

/// Adds a model, or a folder of models, where it lies: nothing is copied.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn import_model(app: State<'_, App>, path: String) -> Result<()> {
    let path = std::path::absolute(&path).map_err(AppError::file("find the folder", &path))?;
    if models::models_in(&path).is_empty() {
        let message = format!("there is no model: `{}`", path.display());
        return Err(AppError::invalid(message).with_hint(
            "a model is a folder with config.json and safetensors weights, or a GGUF file",
        ));
    }
    let mut folders = app.host.settings().model_folders;
    if !folders.contains(&path) {
        folders.push(path);
    }
    set_folders(&app, &folders)
}

/// Takes a folder that was added out of the list. Its files stay.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn forget_model(app: State<'_, App>, path: String) -> Result<()> {
    let path = PathBuf::from(path);
    let mut folders = app.host.settings().model_folders;
    folders.retain(|folder| !path.starts_with(folder));
    set_folders(&app, &folders)
}

/// Deletes a model in the app's own folder. Returns the bytes that are free now.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn delete_model(app: State<'_, App>, path: String) -> Result<u64> {
    let model = find(&app, &path)?;
    if model.place != ModelPlace::Own {
        return Err(AppError::invalid(format!(
            "the model lies outside of the app’s own folder, so it is not deleted here: `{path}`"
        )));
    }
    // A link in the app's folder leads to files of somebody else.
    let real = |path: &Path| fs::canonicalize(path).map_err(AppError::file("find the model", path));
    if !real(&model.path)?.starts_with(real(&app.host.paths.models)?) {
        return Err(AppError::invalid(format!(
            "the model is a link to another folder, so it is not deleted here: `{path}`"
        )));
    }
    let bytes = models::model_bytes(&model.path);
    let deleted = match model.path.is_file() {
        true => fs::remove_file(&model.path),
        false => fs::remove_dir_all(&model.path),
    };
    deleted.map_err(AppError::file("delete the model", &model.path))?;
    Ok(bytes)
}

/// A model of the list, by its folder.
fn find(app: &App, path: &str) -> Result<StoredModel> {
    let models = models::list(&app.host.paths, &app.host.settings());
    let found = models
        .into_iter()
        .find(|model| model.path == Path::new(path));
    found.ok_or_else(|| AppError::invalid(format!("the model is not there any more: `{path}`")))
}

/// A list in one line is JSON, which YAML reads too.
fn set_folders(app: &App, folders: &[PathBuf]) -> Result<()> {
    let text =
        serde_json::to_string(folders).map_err(|error| AppError::failed(error.to_string()))?;
    app.host.set("model_folders", &text)
}
