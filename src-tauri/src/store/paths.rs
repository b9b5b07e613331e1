//! Where things are kept: the platform's folders, or one folder that the user names.

use std::path::{Path, PathBuf};

use directories::ProjectDirs;

use crate::wire::error::{AppError, Result};

/// The app's folders. They are made when something is first put into them.
#[derive(Debug, Clone)]
pub(crate) struct Paths {
    /// One folder per run.
    pub(crate) runs: PathBuf,
    /// One folder per model, in the layout of the Hugging Face Hub.
    pub(crate) models: PathBuf,
    /// Data the app made itself.
    pub(crate) data: PathBuf,
    /// Pixels of the pictures that were last looked at.
    pub(crate) pictures: PathBuf,
    /// The list of the data that the user added.
    pub(crate) data_sets: PathBuf,
    /// One file per conversation.
    pub(crate) conversations: PathBuf,
    /// The runs that are running and wait.
    pub(crate) waiting: PathBuf,
    /// Where the window was.
    pub(crate) window: PathBuf,
    /// Held while the window's process lives.
    pub(crate) app_lock: PathBuf,
    /// What the user prefers.
    pub(crate) settings: PathBuf,
    /// What was typed in earlier chats.
    pub(crate) chat_history: PathBuf,
    /// What is being fetched from the Hub.
    pub(crate) downloads: PathBuf,
    /// One file per benchmark.
    pub(crate) benchmarks: PathBuf,
    /// What the device checks found.
    pub(crate) checks: PathBuf,
    /// What engines wrote while a device was checked.
    pub(crate) check_log: PathBuf,
    /// One folder per device, with a file for each who computes on it.
    pub(crate) in_use: PathBuf,
    /// What runs gave up when memory ran out.
    pub(crate) memory_fallbacks: PathBuf,
    /// The token for the Hub, where the system has no keychain.
    pub(crate) hub_token: PathBuf,
    /// Whether these are the folders that the platform has for an application, and no others.
    pub(crate) are_of_system: bool,
}

impl Paths {
    /// All in `home`, or in the folders the platform has for an application.
    pub(crate) fn new(home: Option<&Path>) -> Result<Self> {
        if let Some(home) = home {
            let home = std::path::absolute(home).map_err(AppError::file("use the home", home))?;
            return Ok(Self::under(&home, &home, false));
        }
        let folders = ProjectDirs::from("", "", "Anneal").ok_or_else(|| {
            AppError::failed("could not find your home folder")
                .with_hint("name a folder with --home or ANNEAL_HOME")
        })?;
        Ok(Self::under(folders.data_dir(), folders.config_dir(), true))
    }

    fn under(data: &Path, config: &Path, are_of_system: bool) -> Self {
        Self {
            runs: data.join("runs"),
            models: data.join("models"),
            data: data.join("data"),
            pictures: data.join("pictures"),
            data_sets: data.join("data.json"),
            conversations: data.join("conversations"),
            waiting: data.join("waiting.json"),
            window: data.join("window.json"),
            app_lock: data.join("app.lock"),
            settings: config.join("settings.yaml"),
            chat_history: data.join("chat-history.txt"),
            downloads: data.join("downloads.json"),
            benchmarks: data.join("benchmarks"),
            checks: data.join("checks.json"),
            check_log: data.join("check-log.txt"),
            in_use: data.join("in-use"),
            memory_fallbacks: data.join("reliefs.json"),
            hub_token: config.join("hub-token"),
            are_of_system,
        }
    }
}
