//! The device check that nobody asks for: once for each device, each version of the app and each version of the system.

use std::{sync::atomic::Ordering, thread, time::Duration};

use models::device::FoundDevice;
use tauri::{AppHandle, Manager};

use crate::{
    commands::{App, device::Teller},
    lock::locked,
    store::checks,
};

/// The window opens first, and whoever starts a run at once is not disturbed.
const AFTER_START: Duration = Duration::from_secs(3);
/// How often is looked whether what is running has ended.
const LOOK: Duration = Duration::from_secs(1);

/// Checks the devices that were never checked, on a thread of its own.
pub(super) fn start(handle: AppHandle) {
    thread::spawn(move || {
        thread::sleep(AFTER_START);
        let app = handle.state::<App>();
        let devices = app.host.devices.found();
        for device in devices.iter().filter(|device| device.is_usable()) {
            check(&app, device);
        }
    });
}

/// Checks a device when nothing else is running. What begins meanwhile ends the check, which then begins anew; a user who ends
/// it has ended it for now, and one who asks for a check has the next turn.
fn check(app: &App, device: &FoundDevice) {
    loop {
        while app.queue.is_busy() {
            thread::sleep(LOOK);
        }
        let turn = locked(&app.check_turn);
        if checks::find(&app.host.paths, device).is_some() {
            return;
        }
        let asked_before = app.checks_asked.load(Ordering::SeqCst);
        let is_unwanted = || app.checks_asked.load(Ordering::SeqCst) != asked_before;
        let stop = || is_unwanted() || app.queue.is_busy();
        let mut teller = Teller::new(app, device.setting());
        let checked = app.host.check(
            Some(device.requested()),
            &[],
            &mut |news| teller.hear(&news),
            &stop,
        );
        // One that was not stopped and has no result would have none the next time.
        if checked.is_ok() || is_unwanted() || !stop() {
            return;
        }
        drop(teller);
        drop(turn);
    }
}
