//! What the window and the terminal share: everything the app can do, without saying how it is shown.

use std::path::Path;

use models::device::{self, Choice, DeviceRequest, FoundDevice, RequestedDevice};

use crate::{
    store::{
        paths::Paths,
        runs::{self, Run},
        settings::Settings,
    },
    wire::error::Result,
};

/// The app, opened on its folders.
#[derive(Debug)]
pub(crate) struct Host {
    /// Where everything is kept.
    pub(crate) paths: Paths,
    /// What the user prefers.
    pub(crate) settings: Settings,
}

impl Host {
    /// Opens the app in `home`, or in the system's folders. Also returns what is odd about the settings.
    pub(crate) fn open(home: Option<&Path>) -> Result<(Self, Vec<String>)> {
        let paths = Paths::new(home)?;
        let (settings, warnings) = Settings::read(&paths.settings)?;
        Ok((Self { paths, settings }, warnings))
    }

    /// The devices of this machine, the usable and the others.
    pub(crate) fn devices(&self) -> Vec<FoundDevice> {
        device::detect::detect()
    }

    /// The device for a request; one that names none gets what the user prefers.
    pub(crate) fn choose_device(
        &self,
        asked: Option<RequestedDevice>,
        strict: bool,
        found: &[FoundDevice],
    ) -> Result<Choice> {
        let device = asked.unwrap_or(self.settings.device);
        Ok(device::choose(DeviceRequest { device, strict }, found)?)
    }

    /// Uses a device from now on, unless a run says otherwise.
    pub(crate) fn prefer_device(&self, device: RequestedDevice) -> Result<()> {
        Settings::set(&self.paths.settings, "device", &device.to_string())
    }

    /// All runs, the newest last.
    pub(crate) fn runs(&self) -> Vec<Run> {
        runs::list(&self.paths)
    }

    /// The run with this id, or the only one whose id has these words in it.
    pub(crate) fn find_run(&self, words: &str) -> Result<Run> {
        runs::find(&self.paths, words)
    }
}
