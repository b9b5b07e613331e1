//! The app as a whole: what it computes on, what is running, what it offers, and how it is left.

pub(crate) mod view;

use models::device::{
    FoundDevice,
    defaults::device_defaults,
    dtype::{DeviceClass, Role, dtype_rule},
};
use tauri::{AppHandle, Manager, Runtime, State, ipc::Channel};

use super::{App, Leaving};
use crate::{
    jobs::engine,
    lock::locked,
    store::{checks, run_state::RunStatus},
    wire::error::Result,
};
use view::{DeviceView, HomeView, News, ReasonView, StatusView};

/// What it computes on, and what was done so far.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn home(app: State<'_, App>) -> Result<HomeView> {
    if app.queue.going().is_none() {
        app.host.devices.look_again();
    }
    let found = app.host.devices.found();
    let choice = app.host.choose_device(None, false, &found)?;
    let mut warnings = choice.warnings.clone();
    warnings.extend(app.host.devices.problems());
    warnings.extend(app.warnings.iter().cloned());
    let report = checks::find(&app.host.paths, &choice.device);
    if let Some(report) = report.filter(|report| !report.is_ready()) {
        warnings.push(format!("{}.", report.verdict()));
    }
    Ok(HomeView {
        device: DeviceView::from(&choice.device),
        devices: found.iter().map(with_defaults).collect(),
        reason: choice.reason,
        warnings,
        engines: engine::programs(),
        runs: app.views(),
    })
}

/// What is running.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn status(app: State<'_, App>) -> Result<StatusView> {
    let choice = app
        .host
        .choose_device(None, false, &app.host.devices.found())?;
    let going = app.queue.going().and_then(|run| app.view(&run).ok());
    let waiting = app.queue.waiting();
    let offered = app.queue.offered();
    let offered = offered.iter().filter_map(|id| {
        let run = app.run(id).ok()?;
        // What was finished meanwhile, perhaps from the terminal, is no offer.
        let known = app.state(&run).ok()?;
        let open = !matches!(known.0.status, RunStatus::Finished | RunStatus::Running);
        open.then(|| app.show(&run, known))
    });
    let offered = offered.collect();
    Ok(StatusView {
        going,
        waiting: waiting
            .iter()
            .filter_map(|run| app.view(run).ok())
            .collect(),
        offered,
        device: DeviceView::from(&choice.device),
        awake: locked(&app.awake).clone(),
        checking: locked(&app.checking).clone(),
        problem: app.queue.problem(),
    })
}

/// Says that the page is there, and hears from now on what the window has to know at once.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn listen(app: State<'_, App>, news: Channel<News>) -> Result<()> {
    *locked(&app.window) = Some(news);
    Ok(())
}

/// Closes the window. What happens to the run that is running was asked before.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn leave<R: Runtime>(
    handle: AppHandle<R>,
    app: State<'_, App>,
    how: Leaving,
) -> Result<()> {
    *locked(&app.leaving) = Some(how);
    match (how, handle.get_webview_window("main")) {
        (Leaving::Background, Some(window)) => {
            // Nobody could end a pause without a window.
            app.queue.go_on();
            let _ = window.hide();
        }
        (_, window) => {
            // The run is saved on the way out, which nobody has to watch.
            let _ = window.map(|window| window.hide());
            handle.exit(0);
        }
    }
    Ok(())
}

/// Continues with the runs that were running or waiting when the app last ended.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn resume_offered(app: State<'_, App>) -> Result<()> {
    for id in app.queue.take_offered() {
        if let Ok(run) = app.run(&id) {
            app.queue.add(run, false);
        }
    }
    Ok(())
}

/// Leaves those runs as they are.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn forget_offered(app: State<'_, App>) -> Result<()> {
    app.queue.take_offered();
    Ok(())
}

fn with_defaults(device: &FoundDevice) -> DeviceView {
    let defaults = device_defaults(device.kind).rows();
    let reasons = defaults.map(|(name, value, why)| ReasonView {
        name: name.to_owned(),
        value,
        why: why.to_owned(),
    });
    // Whether bf16 has passed a check on this device is not known here, so the careful answer is shown.
    let rule = dtype_rule(DeviceClass::of(device, false), Role::Compute);
    let formats = rule.allowed.iter().map(|format| ReasonView {
        name: "computes in".to_owned(),
        value: format.dtype.to_string(),
        why: format.reason.to_owned(),
    });
    DeviceView::from(device).with_defaults(formats.chain(reasons).collect())
}
