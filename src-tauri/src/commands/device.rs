//! The device check.

use std::sync::atomic::Ordering;

use models::device::RequestedDevice;
use tauri::State;

use super::App;
use crate::{
    host::check::CheckNews,
    lock::locked,
    store::checks::{
        self,
        view::{CheckProgressView, CheckView},
    },
    wire::error::Result,
};

/// What the last check of a device found, unless the app or the system changed since.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn last_check(app: State<'_, App>, device: String) -> Result<Option<CheckView>> {
    let found = app.host.devices.found();
    let device = app
        .host
        .choose_device(Some(read(&device)?), true, &found)?
        .device;
    let report = checks::find(&app.host.paths, &device);
    Ok(report.as_ref().map(CheckView::from))
}

/// Checks a device; its progress is in the status. It waits for no run: what runs says so in its times alone. A check that
/// nobody asked for ends at once.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn check_device(app: State<'_, App>, device: String) -> Result<CheckView> {
    let number = app.checks_asked.fetch_add(1, Ordering::SeqCst) + 1;
    let _turn = locked(&app.check_turn);
    let stop = || app.checks_asked.load(Ordering::SeqCst) != number;
    let asked = read(&device)?;
    let mut teller = Teller::new(&app, device);
    let report = app
        .host
        .check(Some(asked), &[], &mut |news| teller.hear(&news), &stop)?;
    Ok(CheckView::from(&report))
}

/// Ends the check that is running. Nothing of it is kept.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn stop_check(app: State<'_, App>) -> Result<()> {
    app.checks_asked.fetch_add(1, Ordering::SeqCst);
    Ok(())
}

/// Keeps how far a check is where the status finds it, until it is dropped.
pub(crate) struct Teller<'a> {
    app: &'a App,
    progress: CheckProgressView,
}

impl<'a> Teller<'a> {
    pub(crate) fn new(app: &'a App, device: String) -> Self {
        let progress = CheckProgressView {
            device,
            done: 0,
            cases: 0,
            last: String::new(),
        };
        *locked(&app.checking) = Some(progress.clone());
        Self { app, progress }
    }

    pub(crate) fn hear(&mut self, news: &CheckNews<'_>) {
        match news {
            CheckNews::Begun { cases } => self.progress.cases = *cases,
            CheckNews::Tried(row) => {
                self.progress.done += 1;
                self.progress.last = format!("{} in {}", row.operation, row.dtype);
            }
        }
        *locked(&self.app.checking) = Some(self.progress.clone());
    }
}

impl Drop for Teller<'_> {
    fn drop(&mut self) {
        *locked(&self.app.checking) = None;
    }
}

/// The device that a page names.
fn read(device: &str) -> Result<RequestedDevice> {
    Ok(device.parse()?)
}
