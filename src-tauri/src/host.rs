//! What the window and the terminal share: everything the app can do, without saying how it is shown.

pub(crate) mod bench;
pub(crate) mod chat;
pub(crate) mod check;
mod crew;
mod device_use;
pub(crate) mod devices;
pub(crate) mod export;
pub(crate) mod hub;
pub(crate) mod inspect;
pub(crate) mod pictures;
pub(crate) mod plan;
pub(crate) mod predict;
pub(crate) mod probe;
pub(crate) mod puzzles;
pub(crate) mod solve;
mod starter;
mod train;
pub(crate) mod trial;
pub(crate) mod uses;

use std::{
    path::Path,
    sync::{Arc, Mutex},
};

use models::device::{self, Choice, DeviceKind, DeviceRequest, FoundDevice, RequestedDevice};

use crate::{
    hub::Hub,
    lock::locked,
    store::{paths::Paths, settings::Settings},
    wire::error::Result,
};
use devices::Devices;

/// The app, opened on its folders.
pub(crate) struct Host {
    /// Where everything is kept.
    pub(crate) paths: Paths,
    /// What the user prefers.
    settings: Mutex<Settings>,
    /// The devices of this machine.
    pub(crate) devices: Devices,
    /// The Hugging Face Hub.
    pub(crate) hub: Arc<Hub>,
    /// The data that was last planned with.
    read_data: Mutex<Option<plan::ReadData>>,
    /// The data that a page looks at.
    looked: Mutex<Option<Arc<inspect::Looked>>>,
    /// The puzzles that a page looks at.
    read_puzzles: Mutex<Option<puzzles::ReadPuzzles>>,
    /// The pictures that a page looks at.
    read_pictures: Mutex<Option<pictures::ReadPictures>>,
}

/// The field of the settings that names the device of a run that does not.
const DEVICE: &str = "device";

impl Host {
    /// Opens the app in `home`, or in the system's folders. Also returns what is odd about the settings.
    pub(crate) fn open(home: Option<&Path>) -> Result<(Self, Vec<String>)> {
        let paths = Paths::new(home)?;
        let (settings, warnings) = Settings::read(&paths.settings)?;
        let host = Self {
            hub: Hub::new(&paths).into(),
            settings: Mutex::new(settings),
            devices: Devices::default(),
            read_data: Mutex::default(),
            looked: Mutex::default(),
            read_puzzles: Mutex::default(),
            read_pictures: Mutex::default(),
            paths,
        };
        Ok((host, warnings))
    }

    /// Opens the app to use a device from now on, also where the settings can't be read.
    pub(crate) fn open_with_device(
        home: Option<&Path>,
        device: RequestedDevice,
    ) -> Result<(Self, Vec<String>)> {
        let path = Paths::new(home)?.settings;
        let aside = Settings::repair(&path, DEVICE, &device.to_string())?;
        let (host, mut warnings) = Self::open(home)?;
        warnings.extend(aside.map(|aside| {
            let aside = aside.display();
            format!("the settings could not be read, and are begun anew; the old ones are kept: `{aside}`")
        }));
        Ok((host, warnings))
    }

    /// What the user prefers.
    pub(crate) fn settings(&self) -> Settings {
        locked(&self.settings).clone()
    }

    /// Changes what the user prefers; the value is written as in the file.
    pub(crate) fn set(&self, field: &str, value: &str) -> Result<()> {
        let mut settings = locked(&self.settings);
        Settings::set(&self.paths.settings, field, value)?;
        *settings = Settings::read(&self.paths.settings)?.0;
        Ok(())
    }

    /// The device for a request; one that names none gets what the user prefers.
    pub(crate) fn choose_device(
        &self,
        asked: Option<RequestedDevice>,
        strict: bool,
        found: &[FoundDevice],
    ) -> Result<Choice> {
        let device = asked.unwrap_or_else(|| self.settings().device);
        Ok(device::choose(DeviceRequest { device, strict }, found)?)
    }

    /// The kind of device that a request will most likely mean: it decides which engine is started.
    fn kind_of(&self, device: RequestedDevice) -> DeviceKind {
        match device {
            RequestedDevice::Cuda(_) => DeviceKind::Cuda,
            RequestedDevice::Auto | RequestedDevice::Gpu => self
                .choose_device(Some(device), false, &self.devices.found())
                .map_or(DeviceKind::Cpu, |choice| choice.device.kind),
            _ => DeviceKind::Cpu,
        }
    }
}
