//! The menu bar, with the shortcuts that every platform has. What is chosen is told to the window by its id.

use tauri::{
    AppHandle, Result, Wry,
    menu::{AboutMetadata, Menu, MenuItem, PredefinedMenuItem, Submenu},
};

/// The pages of the Go menu: the id, what is shown, and the key.
const PAGES: [(&str, &str, &str); 9] = [
    ("home", "Home", "CmdOrCtrl+1"),
    ("models", "Models", "CmdOrCtrl+2"),
    ("data", "Data", "CmdOrCtrl+3"),
    ("train", "Train", "CmdOrCtrl+4"),
    ("runs", "Runs", "CmdOrCtrl+5"),
    ("chat", "Chat", "CmdOrCtrl+6"),
    ("device", "Device", "CmdOrCtrl+7"),
    ("bench", "Benchmark", "CmdOrCtrl+8"),
    ("search", "Go to Anything…", "CmdOrCtrl+K"),
];

/// The menu bar.
pub(super) fn menu(handle: &AppHandle) -> Result<Menu<Wry>> {
    let item = |id, text, key| MenuItem::with_id(handle, id, text, true, Some(key));
    let line = || PredefinedMenuItem::separator(handle);
    let about = AboutMetadata {
        comments: Some("Train models on your own machine and talk to them.".to_owned()),
        license: Some(env!("CARGO_PKG_LICENSE").to_owned()),
        ..AboutMetadata::default()
    };

    let app = Submenu::new(handle, "Anneal", true)?;
    app.append(&PredefinedMenuItem::about(
        handle,
        Some("About Anneal"),
        Some(about),
    )?)?;
    app.append(&line()?)?;
    app.append(&item("settings", "Settings…", "CmdOrCtrl+,")?)?;
    app.append(&line()?)?;
    if cfg!(target_os = "macos") {
        app.append(&PredefinedMenuItem::services(handle, None)?)?;
        app.append(&line()?)?;
        app.append(&PredefinedMenuItem::hide(handle, None)?)?;
        app.append(&PredefinedMenuItem::hide_others(handle, None)?)?;
        app.append(&PredefinedMenuItem::show_all(handle, None)?)?;
        app.append(&line()?)?;
    }
    app.append(&item("quit", "Quit Anneal", "CmdOrCtrl+Q")?)?;

    let file = Submenu::new(handle, "File", true)?;
    file.append(&item("new-run", "New Run", "CmdOrCtrl+N")?)?;
    file.append(&item("open-run", "Open Run File…", "CmdOrCtrl+O")?)?;
    file.append(&item("add-data", "Add Data…", "CmdOrCtrl+Shift+O")?)?;
    file.append(&line()?)?;
    file.append(&PredefinedMenuItem::close_window(handle, None)?)?;

    let edit = Submenu::new(handle, "Edit", true)?;
    if cfg!(target_os = "macos") {
        // Elsewhere the web view does not take these from a menu.
        edit.append(&PredefinedMenuItem::undo(handle, None)?)?;
        edit.append(&PredefinedMenuItem::redo(handle, None)?)?;
        edit.append(&line()?)?;
    }
    edit.append(&PredefinedMenuItem::cut(handle, None)?)?;
    edit.append(&PredefinedMenuItem::copy(handle, None)?)?;
    edit.append(&PredefinedMenuItem::paste(handle, None)?)?;
    edit.append(&PredefinedMenuItem::select_all(handle, None)?)?;

    let go = Submenu::new(handle, "Go", true)?;
    for (id, text, key) in PAGES {
        go.append(&item(id, text, key)?)?;
    }

    let window = Submenu::new(handle, "Window", true)?;
    window.append(&PredefinedMenuItem::minimize(handle, None)?)?;
    window.append(&PredefinedMenuItem::maximize(handle, None)?)?;
    if cfg!(target_os = "macos") {
        window.append(&PredefinedMenuItem::fullscreen(handle, None)?)?;
    }
    Menu::with_items(handle, &[&app, &file, &edit, &go, &window])
}
