//! The menu bar. Its commands, their words and their keys are a table that the window's pages have too: what is chosen is
//! told to the window by its id.
//!
//! Deliberately absent: what a command does, which the pages know.

use std::{collections::BTreeMap, sync::LazyLock};

use models::embedded::table;
use serde::Deserialize;
use tauri::{
    AppHandle, Result, Wry,
    menu::{AboutMetadata, Menu, MenuItem, PredefinedMenuItem, Submenu},
};

/// The commands of each menu, from `commands.json` of the pages. What else a menu has is the system's.
static COMMANDS: LazyLock<BTreeMap<String, Vec<Command>>> = LazyLock::new(|| {
    table(
        "commands.json",
        include_str!("../../../ui/src/commands.json"),
    )
});

/// A command of the window.
#[derive(Debug, Deserialize)]
struct Command {
    /// What the window is told: `new-run`.
    id: String,
    /// What is shown.
    text: String,
    /// The key: `CmdOrCtrl+N`.
    key: Option<String>,
}

/// The menu bar.
pub(super) fn menu(handle: &AppHandle) -> Result<Menu<Wry>> {
    let line = || PredefinedMenuItem::separator(handle);
    let about = || {
        let about = AboutMetadata {
            comments: Some("Train models on your own machine and use them.".to_owned()),
            license: Some(env!("CARGO_PKG_LICENSE").to_owned()),
            ..AboutMetadata::default()
        };
        PredefinedMenuItem::about(handle, Some("About Anneal"), Some(about))
    };

    let app = Submenu::new(handle, "Anneal", true)?;
    app.append(&about()?)?;
    app.append(&line()?)?;
    append(handle, &app, "Anneal")?;
    app.append(&line()?)?;
    if cfg!(target_os = "macos") {
        app.append(&PredefinedMenuItem::services(handle, None)?)?;
        app.append(&line()?)?;
        app.append(&PredefinedMenuItem::hide(handle, None)?)?;
        app.append(&PredefinedMenuItem::hide_others(handle, None)?)?;
        app.append(&PredefinedMenuItem::show_all(handle, None)?)?;
        app.append(&line()?)?;
    }
    append(handle, &app, "Quit")?;

    let file = Submenu::new(handle, "File", true)?;
    append(handle, &file, "File")?;
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

    let [view, go, run] = ["View", "Go", "Run"].map(|name| {
        let menu = Submenu::new(handle, name, true)?;
        append(handle, &menu, name)?;
        Ok::<_, tauri::Error>(menu)
    });

    let window = Submenu::new(handle, "Window", true)?;
    window.append(&PredefinedMenuItem::minimize(handle, None)?)?;
    window.append(&PredefinedMenuItem::maximize(handle, None)?)?;
    if cfg!(target_os = "macos") {
        window.append(&PredefinedMenuItem::fullscreen(handle, None)?)?;
    }

    let help = Submenu::new(handle, "Help", true)?;
    append(handle, &help, "Help")?;
    if !cfg!(target_os = "macos") {
        help.append(&line()?)?;
        help.append(&about()?)?;
    }
    Menu::with_items(
        handle,
        &[&app, &file, &edit, &view?, &go?, &run?, &window, &help],
    )
}

/// Appends the commands of a menu.
fn append(handle: &AppHandle, menu: &Submenu<Wry>, name: &str) -> Result<()> {
    for Command { id, text, key } in COMMANDS.get(name).into_iter().flatten() {
        menu.append(&MenuItem::with_id(handle, id, text, true, key.as_ref())?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_menu_has_its_commands() {
        for name in ["Anneal", "Quit", "File", "View", "Go", "Run", "Help"] {
            let commands = COMMANDS.get(name).expect("it is in the table");
            assert!(!commands.is_empty(), "{name}");
        }
    }
}
