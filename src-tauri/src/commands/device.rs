//! The device check.

use std::sync::atomic::Ordering;

use models::device::RequestedDevice;
use tauri::{State, ipc::Channel};

use super::{Answer, App};
use crate::{
    host::check::CheckNews,
    store::checks,
    wire::{
        error::Result,
        view::{CheckProgressView, CheckView},
    },
};

/// What the last check of a device found, unless the app or the system changed since.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn last_check(app: State<'_, App>, device: String) -> Answer<Option<CheckView>> {
    let found = app.host.devices();
    let device = app
        .host
        .choose_device(Some(read(&device)?), true, &found)?
        .device;
    let report = checks::find(&app.host.paths, &device);
    Ok(report.as_ref().map(CheckView::from))
}

/// Checks a device, and tells how far it is. It waits for no run: what runs says so in its times alone.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn check_device(
    app: State<'_, App>,
    device: String,
    progress: Channel<CheckProgressView>,
) -> Answer<CheckView> {
    app.stop_check.store(false, Ordering::SeqCst);
    let (mut done, mut all) = (0, 0);
    let mut tell = |news: CheckNews<'_>| {
        let last = match news {
            CheckNews::Begun { cases } => {
                all = cases as u32;
                String::new()
            }
            CheckNews::Tried(row) => {
                done += 1;
                format!("{} in {}", row.operation, row.dtype)
            }
        };
        let _ = progress.send(CheckProgressView {
            done,
            cases: all,
            last,
        });
    };
    let stop = || app.stop_check.load(Ordering::SeqCst);
    let report = app
        .host
        .check(Some(read(&device)?), None, &mut tell, &stop)?;
    Ok(CheckView::from(&report))
}

/// Ends the check that goes on. Nothing of it is kept.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn stop_check(app: State<'_, App>) -> Answer<()> {
    app.stop_check.store(true, Ordering::SeqCst);
    Ok(())
}

/// The device that a page names.
fn read(device: &str) -> Result<RequestedDevice> {
    Ok(device.parse()?)
}
