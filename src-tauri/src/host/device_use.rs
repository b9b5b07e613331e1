//! Says who computes on a device, in the words of requests.

use std::path::PathBuf;

use models::device::RequestedDevice;

use super::Host;
use crate::store::in_use::{self, InUse, Work};

impl Host {
    /// Lets everybody know that something is computed on a device, for as long as the answer lives. Where that can't be written,
    /// nobody knows, which is no reason not to compute.
    pub(super) fn use_device(&self, device: RequestedDevice, work: Work) -> Option<InUse> {
        InUse::begin(&self.in_use_folder(device), work).ok()
    }

    /// Where it stands who computes on the device that a request means.
    pub(super) fn in_use_folder(&self, device: RequestedDevice) -> PathBuf {
        let found = match device {
            RequestedDevice::Auto | RequestedDevice::Gpu => self
                .choose_device(Some(device), false, &self.devices.found())
                .ok(),
            _ => None,
        };
        let device = found.map_or(device, |choice| choice.device.requested());
        in_use::folder(&self.paths, device)
    }
}
