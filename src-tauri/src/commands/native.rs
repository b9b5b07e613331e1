//! What only the system can do: its file dialogs, its file manager, its browser.

use std::path::PathBuf;

use models::tasks::picture::decode::ENDINGS;
use tauri::{AppHandle, Runtime, State};
use tauri_plugin_dialog::DialogExt;

use super::App;
use crate::{
    lock::locked,
    wire::error::{AppError, Result},
};

/// What the user is asked to choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, specta::Type)]
#[serde(rename_all = "snake_case")]
pub(super) enum Pick {
    /// A file with data.
    Data,
    /// Any folder.
    Folder,
    /// A file with a network of another program.
    Network,
    /// A run file to open.
    RunFile,
    /// Where a network is to be written for another program: a file, or a folder that is made.
    NewNetwork,
    /// Where a run file is to be written.
    NewRunFile,
    /// Where a conversation is to be written.
    NewConversation,
    /// A benchmark that was exported.
    Benchmark,
    /// Where a benchmark is to be written.
    NewBenchmark,
    /// Where a picture is to be written.
    NewPicture,
}

/// Asks for a file or folder with the system's dialog. Nothing when the user thinks better of it.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn pick<R: Runtime>(
    handle: AppHandle<R>,
    app: State<'_, App>,
    what: Pick,
    name: Option<String>,
) -> Result<Option<String>> {
    let mut dialog = handle.dialog().file();
    if let Some(name) = name {
        dialog = dialog.set_file_name(name);
    }
    let picked = match what {
        Pick::Data => dialog
            .add_filter(
                "Data",
                &["jsonl", "json", "csv", "tsv", "parquet", "txt", "md"],
            )
            .add_filter("All files", &["*"])
            .blocking_pick_file(),
        Pick::Folder => dialog.blocking_pick_folder(),
        Pick::Network => dialog
            .add_filter("PyTorch", &["pth", "pt", "bin"])
            .add_filter("All files", &["*"])
            .blocking_pick_file(),
        // Its name says what it is.
        Pick::NewNetwork => dialog.blocking_save_file(),
        Pick::RunFile => dialog
            .add_filter("Run files", &["yaml", "yml"])
            .blocking_pick_file(),
        Pick::NewRunFile => dialog
            .add_filter("Run files", &["yaml"])
            .blocking_save_file(),
        Pick::Benchmark => dialog
            .add_filter("Benchmarks", &["json", "csv"])
            .blocking_pick_file(),
        Pick::NewBenchmark => dialog
            .add_filter("JSON, CSV or Markdown", &["json", "csv", "md"])
            .blocking_save_file(),
        Pick::NewPicture => dialog.add_filter("PNG", &["png"]).blocking_save_file(),
        Pick::NewConversation => dialog.add_filter("Markdown", &["md"]).blocking_save_file(),
    };
    let path = picked.and_then(|path| path.into_path().ok());
    locked(&app.picked).extend(path.clone());
    Ok(path.map(|path| path.display().to_string()))
}

/// Asks for files of pictures with the system's dialog. None when the user thinks better of it.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn pick_pictures<R: Runtime>(handle: AppHandle<R>) -> Result<Vec<String>> {
    let dialog = handle.dialog().file().add_filter("Pictures", &ENDINGS);
    let picked = dialog.blocking_pick_files().unwrap_or_default();
    let paths = picked.into_iter().filter_map(|path| path.into_path().ok());
    Ok(paths.map(|path| path.display().to_string()).collect())
}

/// Shows a file or folder in the system's file manager. Nothing is ever opened by it, which could start a program.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn reveal(path: String) -> Result<()> {
    let path = PathBuf::from(path);
    let shown = opener::reveal(&path);
    shown.map_err(|error| AppError::failed(format!("could not show `{}`: {error}", path.display())))
}

/// Opens a page of the web in the system's browser.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn open_link(url: String) -> Result<()> {
    if let Some(problem) = problem_of_link(&url) {
        return Err(AppError::invalid(format!("{problem}: `{url}`")));
    }
    let opened = opener::open_browser(&url);
    opened.map_err(|error| AppError::failed(format!("could not open `{url}`: {error}")))
}

/// Has the menu bar show these of its commands as ones that can't be chosen now, and all others as ones that can.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn disable_commands<R: Runtime>(handle: AppHandle<R>, ids: Vec<String>) -> Result<()> {
    let menus = handle
        .menu()
        .map_or_else(|| Ok(Vec::new()), |bar| bar.items());
    let disabled = menus.and_then(|menus| {
        for menu in menus.iter().filter_map(|it| it.as_submenu()) {
            for item in menu.items()? {
                // What is the system's own has another type.
                if let Some(command) = item.as_menuitem() {
                    command.set_enabled(!ids.iter().any(|id| command.id() == id))?;
                }
            }
        }
        Ok(())
    });
    disabled.map_err(|error| AppError::failed(format!("could not change the menu bar: {error}")))
}

/// The longest address that is opened. What a page could be made to send away by it has no room.
const MAX_ADDRESS_BYTES: usize = 2000;

/// Why an address that a model or a page of the Hub wrote is not opened.
fn problem_of_link(url: &str) -> Option<&'static str> {
    let Some(rest) = ["https://", "http://"]
        .iter()
        .find_map(|it| url.strip_prefix(it))
    else {
        return Some("not a page of the web");
    };
    let host = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    match () {
        () if host.is_empty() => Some("the address has no host"),
        () if host.contains('@') => {
            Some("the address has a name before its host, which hides where it leads")
        }
        () if url.contains(|it: char| it.is_control() || it.is_whitespace()) => {
            Some("the address has signs that no address has")
        }
        () if url.len() > MAX_ADDRESS_BYTES => Some("the address is too long"),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::problem_of_link;

    #[test]
    fn only_a_plain_page_of_the_web_is_opened() {
        for fine in ["https://huggingface.co/a?b=c@d#e", "http://example.org"] {
            assert_eq!(problem_of_link(fine), None, "{fine}");
        }
        let long = format!("https://example.org/{}", "a".repeat(2000));
        for wrong in [
            "file:///etc/passwd",
            "javascript:alert(1)",
            "smb://host/share",
            "--new-window",
            "https://",
            "https:///etc/passwd",
            "https://huggingface.co@example.org/",
            "https://example.org/a b",
            "https://example.org/\u{0}",
            "https://example.org/\r\nHost: other",
            &long,
        ] {
            assert!(problem_of_link(wrong).is_some(), "{wrong:?}");
        }
    }
}
