//! The app as a whole: its device, its settings, what is running, and what the window has to know at once.

use models::device::FoundDevice;
use serde::Serialize;
use specta::Type;

use crate::{
    host::hub::view::DownloadView,
    store::{
        checks::view::CheckProgressView,
        runs::view::RunView,
        settings::{Settings, Theme},
    },
};

/// What it computes on, and what was done so far.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HomeView {
    /// The device that is used.
    pub(crate) device: DeviceView,
    /// Every device that was found.
    pub(crate) devices: Vec<DeviceView>,
    /// Why the device is used.
    pub(crate) reason: String,
    /// What is odd about devices, engines and settings: whole sentences.
    pub(crate) warnings: Vec<String>,
    /// The engine programs there are, in words: `Anneal 0.1.0, CPU: /usr/bin/anneal`.
    pub(crate) engines: Vec<String>,
    /// All runs, the newest first.
    pub(crate) runs: Vec<RunView>,
}

/// A device of this machine, in words.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeviceView {
    /// `Apple M3 Max`.
    name: String,
    /// `Metal`.
    kind: String,
    /// How a run asks for it: `cuda:1`.
    setting: String,
    /// Memory a model could use there.
    total_bytes: Option<u64>,
    /// What of it is free.
    free_bytes: Option<u64>,
    /// Physical cores, of a processor.
    cores: Option<usize>,
    /// Why it can't be used.
    problem: Option<String>,
    /// What it does by default, each with its reason.
    defaults: Vec<ReasonView>,
}

/// A choice and why.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReasonView {
    pub(crate) name: String,
    pub(crate) value: String,
    pub(crate) why: String,
}

/// What is running. The window asks for it once a second.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StatusView {
    /// The run that is trained.
    pub(crate) going: Option<RunView>,
    /// The runs that wait, in order.
    pub(crate) waiting: Vec<RunView>,
    /// Runs that were running or waiting when the app last ended.
    pub(crate) offered: Vec<RunView>,
    /// The device in one line.
    pub(crate) device: DeviceView,
    /// Why the last run that was to continue did not.
    pub(crate) problem: Option<String>,
    /// How the machine is kept awake, while it is.
    pub(crate) awake: Option<String>,
    /// How far the check of a device is, while one is running.
    pub(crate) checking: Option<CheckProgressView>,
}

/// What the user prefers, and where everything lies.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SettingsView {
    pub(crate) theme: Theme,
    pub(crate) notifications: bool,
    pub(crate) keep_awake: bool,
    pub(crate) pause_on_battery: bool,
    /// 0 is never.
    pub(crate) pause_below_percent: u8,
    pub(crate) device: String,
    /// The folders of the app.
    pub(crate) folders: Vec<FolderView>,
    /// Folders with models that the user added.
    pub(crate) model_folders: Vec<String>,
    /// The app's version, and what it was built for.
    pub(crate) version: String,
    pub(crate) platform: String,
}

/// A folder of the app.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FolderView {
    /// `Runs`.
    pub(crate) name: String,
    pub(crate) path: String,
    /// What is in it.
    pub(crate) bytes: u64,
}

/// Something that the window has to know at once.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum News {
    /// The user wants to close the window while a run is running.
    QuitAsked,
    /// A command was chosen in the menu: `home`, `search`, `settings`.
    Chosen { page: String },
    /// The user chose how the windows look.
    Themed { theme: Theme },
    /// Files are held over the window, or no longer.
    Hovered { over: bool },
    /// Files were dropped on the window.
    Dropped { paths: Vec<String> },
    /// Something about the downloads is new: all of them, in order.
    Downloads { downloads: Vec<DownloadView> },
}

impl From<&FoundDevice> for DeviceView {
    fn from(device: &FoundDevice) -> Self {
        Self {
            name: device.name.clone(),
            kind: device.kind.to_string(),
            setting: device.setting(),
            total_bytes: device.total_bytes,
            free_bytes: device.free_bytes,
            cores: device.physical_cores,
            problem: device.problem.clone(),
            defaults: Vec::new(),
        }
    }
}

impl DeviceView {
    /// The same, with what it does by default.
    pub(crate) fn with_defaults(self, defaults: Vec<ReasonView>) -> Self {
        Self { defaults, ..self }
    }
}

impl SettingsView {
    /// What the user prefers; `folders` are those of the app.
    pub(crate) fn new(settings: &Settings, folders: Vec<FolderView>) -> Self {
        let shown = |path: &std::path::PathBuf| path.display().to_string();
        Self {
            theme: settings.theme,
            notifications: settings.notifications,
            keep_awake: settings.keep_awake,
            pause_on_battery: settings.pause_on_battery,
            pause_below_percent: settings.pause_below_percent,
            device: settings.device.to_string(),
            folders,
            model_folders: settings.model_folders.iter().map(shown).collect(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            platform: format!("{} on {}", std::env::consts::OS, std::env::consts::ARCH),
        }
    }
}
