//! What the app does beside its window, twice a second: it shows progress on its icon, notifies when a run has ended,
//! keeps the machine awake, and quits when it is in the background with nothing left to do.

use std::{thread, time::Duration};

use tauri::{
    AppHandle, Manager,
    window::{ProgressBarState, ProgressBarStatus},
};

use super::{notify::notify, single};
use crate::{
    commands::{App, Leaving, home::view::News},
    host::hub::view::DownloadView,
    hub::downloads::Told,
    lock::locked,
    power::awake::Awake,
    store::{
        run_state::{RunState, RunStatus},
        runs::Run,
    },
};

const LOOK: Duration = Duration::from_millis(500);
/// In the background, the app leaves so many looks after its last run: a notification takes a moment to be shown.
const LOOKS_BEFORE_LEAVING: usize = 6;

/// Starts to watch, on a thread of its own that lives as long as the app.
pub(super) fn start(handle: AppHandle) {
    thread::spawn(move || {
        let mut watch = Watch::default();
        loop {
            thread::sleep(LOOK);
            watch.look(&handle);
        }
    });
}

/// Tells the window of its downloads, on a thread of its own, until the app ends.
pub(super) fn tell_downloads(handle: AppHandle) {
    thread::spawn(move || {
        let (app, mut told) = (handle.state::<App>(), Told::default());
        while let Some(downloads) = app.downloads.next(&mut told) {
            let downloads = downloads.into_iter().map(DownloadView::from).collect();
            app.send(News::Downloads { downloads });
        }
    });
}

/// Brings the window back.
pub(super) fn show(handle: &AppHandle) {
    *locked(&handle.state::<App>().leaving) = None;
    if let Some(window) = handle.get_webview_window("main") {
        let _ = window.show();
        let _ = window.unminimize();
        let _ = window.set_focus();
    }
}

/// What a run is doing, and how much of it is done, in percent.
type Progress = Option<(RunStatus, usize)>;

#[derive(Default)]
struct Watch {
    going: Option<Run>,
    awake: Option<Awake>,
    /// Whether keeping awake was tried for the run that is running.
    tried: bool,
    /// What the icon shows.
    progress: Progress,
    /// How often in a row there was nothing left to do in the background.
    idle_looks: usize,
}

impl Watch {
    fn look(&mut self, handle: &AppHandle) {
        let app = handle.state::<App>();
        if single::was_asked(&app.host.paths) {
            show(handle);
        }
        let going = app.queue.going();
        let state = going.as_ref().and_then(|run| Some(app.state(run).ok()?.0));
        if self.going != going {
            if let Some(run) = self.going.take() {
                self.ended(&run, handle);
            }
            self.going = going;
        }
        self.keep_awake(state.as_ref(), &app);
        self.show_progress(state.as_ref(), handle);
        let leaves = *locked(&app.leaving) == Some(Leaving::Background);
        let is_idle =
            !app.queue.is_busy() && app.queue.waiting().is_empty() && !app.downloads.is_moving();
        self.idle_looks = if leaves && is_idle {
            self.idle_looks + 1
        } else {
            0
        };
        if self.idle_looks > LOOKS_BEFORE_LEAVING {
            handle.exit(0);
        }
    }

    /// Says that a run ended, to a user who does not look.
    fn ended(&self, run: &Run, handle: &AppHandle) {
        let app = handle.state::<App>();
        let window = handle.get_webview_window("main");
        let looks = window.is_some_and(|window| window.is_focused().unwrap_or_default());
        let Ok((state, plan)) = app.state(run) else {
            return;
        };
        if looks || !app.host.settings().notifications {
            return;
        }
        let message = match state.status {
            RunStatus::Finished => match state.best_loss {
                Some(loss) => format!("Finished. Best held-out loss {loss:.3}."),
                None => "Finished.".to_owned(),
            },
            RunStatus::Failed => state.problem.unwrap_or_else(|| "Failed.".to_owned()),
            RunStatus::Interrupted => {
                "Its engine ended without a word. It can be resumed.".to_owned()
            }
            RunStatus::Running | RunStatus::Paused | RunStatus::Stopped => return,
        };
        let name = plan.map_or_else(|| run.id.clone(), |plan| plan.run.name);
        notify(&name, &message);
    }

    fn keep_awake(&mut self, state: Option<&RunState>, app: &App) {
        let computes = state.is_some_and(|state| state.status == RunStatus::Running);
        if !computes || !app.host.settings().keep_awake {
            self.awake = None;
            self.tried = false;
        } else if !self.tried {
            self.tried = true;
            self.awake = Awake::hold();
        }
        if self.awake.as_mut().is_some_and(|awake| !awake.holds()) {
            self.awake = None;
        }
        let message = self.awake.as_ref().map(|_| "kept awake while it trains");
        *locked(&app.awake) = message.map(str::to_owned);
    }

    /// Shows how far a run is on the app's icon. The window's thread is asked only for what is new.
    fn show_progress(&mut self, state: Option<&RunState>, handle: &AppHandle) {
        let now = state.map(|state| (state.status, state.step * 100 / state.steps.max(1)));
        if self.progress == now {
            return;
        }
        self.progress = now;
        let status = match now {
            None => ProgressBarStatus::None,
            Some((RunStatus::Paused, _)) => ProgressBarStatus::Paused,
            Some(_) => ProgressBarStatus::Normal,
        };
        if let Some(window) = handle.get_webview_window("main") {
            let _ = window.set_progress_bar(ProgressBarState {
                status: Some(status),
                progress: now.map(|(_, share)| share as u64),
            });
        }
    }
}
