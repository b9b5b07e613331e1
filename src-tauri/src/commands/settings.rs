//! What the user prefers, and where everything lies.

use tauri::{AppHandle, Manager, Runtime, State, Theme as WindowTheme};

use super::{
    App,
    home::view::{FolderView, SettingsView},
};
use crate::{
    store::{models::folder_bytes, settings::Theme},
    wire::error::{AppError, Result},
};

/// The settings that the window may change.
const CHANGEABLE: [&str; 6] = [
    "theme",
    "notifications",
    "keep_awake",
    "pause_on_battery",
    "pause_below_percent",
    "device",
];

/// What the user prefers, and where everything lies.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn settings(app: State<'_, App>) -> Result<SettingsView> {
    let paths = &app.host.paths;
    let mut folders = vec![
        ("Runs", paths.runs.clone()),
        ("Models", paths.models.clone()),
        ("Data made here", paths.data.clone()),
        ("Conversations", paths.conversations.clone()),
    ];
    folders.extend(
        app.host
            .hub
            .cache()
            .ok()
            .map(|cache| ("Cache of the Hugging Face Hub", cache.root().to_owned())),
    );
    let folders = folders.into_iter().map(|(name, path)| FolderView {
        name: name.to_owned(),
        bytes: folder_bytes(&path),
        path: path.display().to_string(),
    });
    Ok(SettingsView::new(&app.host.settings(), folders.collect()))
}

/// Changes one of them. The value is written as in the settings' file.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn set_setting<R: Runtime>(
    handle: AppHandle<R>,
    app: State<'_, App>,
    name: String,
    value: String,
) -> Result<()> {
    if !CHANGEABLE.contains(&name.as_str()) {
        return Err(AppError::invalid(format!(
            "there is no setting `{name}` here"
        )));
    }
    app.host.set(&name, &value)?;
    show_theme(&handle, app.host.settings().theme);
    Ok(())
}

/// Has the window's frame look as its page does.
pub(crate) fn show_theme<R: Runtime>(handle: &AppHandle<R>, theme: Theme) {
    if let Some(window) = handle.get_webview_window("main") {
        let _ = window.set_theme(match theme {
            Theme::System => None,
            Theme::Light => Some(WindowTheme::Light),
            Theme::Dark => Some(WindowTheme::Dark),
        });
    }
}
