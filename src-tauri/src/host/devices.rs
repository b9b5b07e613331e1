//! The devices of this machine, as the engines see them.

use std::{sync::Mutex, time::Instant};

use models::device::FoundDevice;

use crate::{jobs::engine, lock::locked};

/// How old the answer of the engines may be for who wants to know what is free.
#[cfg(feature = "gui")]
const SEEN_FOR: std::time::Duration = std::time::Duration::from_secs(30);

/// What the engines saw when they were last asked, and why one could not be.
#[derive(Default)]
pub(crate) struct Devices {
    seen: Mutex<Option<DeviceSnapshot>>,
}

/// What the engines saw, and when.
#[derive(Debug, Clone)]
struct DeviceSnapshot {
    devices: Vec<FoundDevice>,
    problems: Vec<String>,
    at: Instant,
}

impl Devices {
    /// Devices that are made up for a test.
    #[cfg(all(test, unix, feature = "gui"))]
    pub(crate) fn of_test(devices: Vec<FoundDevice>) -> Self {
        let seen = DeviceSnapshot {
            devices,
            problems: Vec::new(),
            at: Instant::now(),
        };
        Self {
            seen: Mutex::new(Some(seen)),
        }
    }

    /// All of them, the usable and the others.
    pub(crate) fn found(&self) -> Vec<FoundDevice> {
        self.seen().devices
    }

    /// What is wrong with engines that could not be asked for their devices.
    pub(crate) fn problems(&self) -> Vec<String> {
        self.seen().problems
    }

    /// Has the engines asked again, if that was a while ago. Not while a run is running: asking a card takes memory of it.
    #[cfg(feature = "gui")]
    pub(crate) fn look_again(&self) {
        let mut seen = locked(&self.seen);
        if seen
            .as_ref()
            .is_some_and(|seen| seen.at.elapsed() > SEEN_FOR)
        {
            *seen = None;
        }
    }

    fn seen(&self) -> DeviceSnapshot {
        let mut seen = locked(&self.seen);
        if let Some(seen) = seen.as_ref() {
            return seen.clone();
        }
        let (devices, problems) = engine::devices();
        let at = Instant::now();
        seen.insert(DeviceSnapshot {
            devices,
            problems,
            at,
        })
        .clone()
    }
}
