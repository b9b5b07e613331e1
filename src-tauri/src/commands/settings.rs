//! What the user prefers, and where everything lies.

use tauri::{
    AppHandle, Manager, Runtime, State, Theme as WindowTheme, WebviewUrl, WebviewWindow,
    WebviewWindowBuilder, window::Color,
};

use super::{
    App,
    home::view::{FolderView, News, SettingsView},
};
use crate::{
    store::{models::folder_bytes, settings::Theme},
    wire::error::{AppError, Result},
};

/// The label of their window.
const SETTINGS: &str = "settings";

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
    let theme = app.host.settings().theme;
    show_theme(&handle, theme);
    app.send(News::Themed { theme });
    Ok(())
}

/// Shows the settings, in a window of their own.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn open_settings<R: Runtime>(handle: AppHandle<R>, app: State<'_, App>) -> Result<()> {
    if let Some(window) = handle.get_webview_window(SETTINGS) {
        let _ = window.show();
        let _ = window.set_focus();
        return Ok(());
    }
    let page = WebviewUrl::App("index.html?window=settings".into());
    let window = WebviewWindowBuilder::new(&handle, SETTINGS, page)
        .title("Settings")
        .inner_size(760.0, 640.0)
        .min_inner_size(620.0, 400.0)
        .build()
        .map_err(|error| AppError::failed(format!("could not open the settings: {error}")))?;
    if !cfg!(target_os = "macos") {
        let _ = window.remove_menu();
    }
    show_theme(&handle, app.host.settings().theme);
    Ok(())
}

/// Has the frames of the windows look as their pages do.
pub(crate) fn show_theme<R: Runtime>(handle: &AppHandle<R>, theme: Theme) {
    for window in handle.webview_windows().values() {
        let _ = window.set_theme(match theme {
            Theme::System => None,
            Theme::Light => Some(WindowTheme::Light),
            Theme::Dark => Some(WindowTheme::Dark),
        });
        paint_frame(window);
    }
}

/// Gives what lies behind the page the page's colour: a window is seen before its page, and a menu bar may lie on it.
pub(crate) fn paint_frame<R: Runtime>(window: &WebviewWindow<R>) {
    let _ = window.set_background_color(Some(match window.theme() {
        Ok(WindowTheme::Dark) => Color(0x1a, 0x19, 0x18, 0xff),
        _ => Color(0xf6, 0xf5, 0xf3, 0xff),
    }));
}
