//! Runs: the list, one and what happens in it, and what can be done with them.

use std::{
    fs,
    io::{Read, Seek, SeekFrom},
    sync::atomic::Ordering,
    thread,
};

use tauri::{State, ipc::Channel};

use super::App;
use crate::{
    jobs::follow,
    store::{
        models::folder_bytes,
        run_file,
        runs::{
            Run,
            view::{EventsView, FileView, RunNews, RunView},
        },
        yaml::{self, PlanLine},
    },
    wire::error::{AppError, Result},
};

/// How much of the end of a log is shown.
const LOG_BYTES: u64 = 64_000;

/// All runs, the newest first.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn runs(app: State<'_, App>) -> Result<Vec<RunView>> {
    Ok(app.views())
}

/// The run with this id, as it stands now.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn run(app: State<'_, App>, id: String) -> Result<RunView> {
    app.view(&app.run(&id)?)
}

/// Everything that happened in a run, to be compared with another.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn run_events(app: State<'_, App>, id: String) -> Result<EventsView> {
    Ok(EventsView::new(0, app.run(&id)?.events()?))
}

/// Tells what happened in a run after the event with a number, and then what happens, until `unfollow_run`. Whoever followed
/// before hears no more. Returns the number of this follower.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn follow_run(
    app: State<'_, App>,
    id: String,
    after: u64,
    news: Channel<RunNews>,
) -> Result<u32> {
    let run = app.run(&id)?;
    let plan = run.plan().ok();
    let follower = app.follower.clone();
    let goes_on = app.queue.whether_goes_on(&id);
    let number = follower.fetch_add(1, Ordering::SeqCst).wrapping_add(1);
    thread::spawn(move || {
        let gone = std::cell::Cell::new(false);
        let mut last = after;
        let mut report = |events, state| {
            let events = EventsView::new(last, events);
            last = events.last();
            // The place in the queue is part of what the window asks for every second.
            let run = RunView::new(state, plan.as_ref(), None);
            gone.set(news.send(RunNews { run, events }).is_err());
        };
        let hears = || !gone.get() && follower.load(Ordering::SeqCst) == number;
        follow::follow(&run, after, &mut report, &hears, &goes_on);
    });
    Ok(number)
}

/// Tells a follower no more. A newer one hears on.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn unfollow_run(app: State<'_, App>, follower: u32) -> Result<()> {
    let next = follower.wrapping_add(1);
    let order = Ordering::SeqCst;
    // Another number is that of a newer follower.
    let _ = app.follower.compare_exchange(follower, next, order, order);
    Ok(())
}

/// The plan of a run, with the reasons that stand beside its values.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn run_plan(app: State<'_, App>, id: String) -> Result<Vec<PlanLine>> {
    Ok(yaml::plan_lines(&app.run(&id)?.plan_text()?))
}

/// The plan of a run as the fields of the form, for another like it.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn run_settings(
    app: State<'_, App>,
    id: String,
) -> Result<std::collections::BTreeMap<String, String>> {
    let run = app.run(&id)?;
    let known = run.known_plan()?;
    let request = match known.damage {
        None => run_file::read(&run.plan_file())?,
        Some(_) => run_file::request_of(&known.plan)?,
    };
    run_file::fields(&request)
}

/// The files of a run.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn run_files(app: State<'_, App>, id: String) -> Result<Vec<FileView>> {
    let run = app.run(&id)?;
    let size = |path| fs::metadata(path).map_or(0, |file| file.len());
    let known = [
        ("run.yaml", "the plan, with its reasons", run.plan_file()),
        (
            "events.jsonl",
            "what happened, by number",
            run.events_file(),
        ),
        (
            "sources.json",
            "what it learns from and starts from, by sum",
            run.sources_file(),
        ),
        ("log.txt", "what the engine wrote beside it", run.log_file()),
    ];
    let known = known
        .into_iter()
        .filter(|(_, _, path)| path.exists())
        .map(|(name, what, path)| FileView {
            name: name.to_owned(),
            bytes: size(path),
            what: what.to_owned(),
        });
    let checkpoints = run.checkpoint_folders().into_iter().map(|folder| {
        let used = if folder.is_used {
            ", the one that is used"
        } else {
            ""
        };
        FileView {
            name: format!("checkpoints/{}", folder.name),
            bytes: folder.bytes,
            what: format!("a checkpoint: {}{used}", folder.kept_for),
        }
    });
    Ok(known.chain(checkpoints).collect())
}

/// The end of what a run's engine wrote beside its events.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn run_log(app: State<'_, App>, id: String) -> Result<String> {
    let run = app.run(&id)?;
    let mut end = Vec::new();
    // A run without a log has written nothing.
    if let Ok(mut file) = fs::File::open(run.log_file()) {
        let length = file.metadata().map_or(0, |file| file.len());
        let from = SeekFrom::Start(length.saturating_sub(LOG_BYTES));
        let _ = file.seek(from).and_then(|_| file.read_to_end(&mut end));
    }
    Ok(String::from_utf8_lossy(&end).into_owned())
}

/// Has the run that is running saved, to wait in memory.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn pause_run(app: State<'_, App>, id: String) -> Result<()> {
    app.queue.pause(&id);
    Ok(())
}

/// Has a run saved and stopped, or takes it out of those that wait.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn stop_run(app: State<'_, App>, id: String) -> Result<()> {
    app.queue.stop(&id);
    Ok(())
}

/// Continues with a run, from its last checkpoint or after its pause, when no other is in the way. With `force` it continues
/// although data, model or settings are not what they were.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn resume_run(app: State<'_, App>, id: String, force: bool) -> Result<()> {
    app.queue.add(app.run(&id)?, force);
    Ok(())
}

/// Has a run end at a later step, and continues with it.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn extend_run(app: State<'_, App>, id: String, steps: u32) -> Result<()> {
    let run = app.run(&id)?;
    run.extend(steps as usize)?;
    app.forget(&id);
    app.queue.add(run, false);
    Ok(())
}

/// Has the runs that wait continue in this order.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn order_runs(app: State<'_, App>, ids: Vec<String>) -> Result<()> {
    app.queue.order(&ids);
    Ok(())
}

/// Gives a run another name. Returns its new id.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn rename_run(app: State<'_, App>, id: String, name: String) -> Result<String> {
    if name.trim().is_empty() {
        return Err(AppError::invalid("a run needs a name").with_field("name"));
    }
    let run = idle(&app, &id)?;
    let renamed = run.rename(&app.host.paths, name.trim())?;
    app.forget(&id);
    Ok(renamed.id)
}

/// Deletes a run with everything it learned. Returns the bytes that are free now.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn delete_run(app: State<'_, App>, id: String) -> Result<u64> {
    let run = idle(&app, &id)?;
    let bytes = folder_bytes(&run.folder);
    run.delete()?;
    app.forget(&id);
    Ok(bytes)
}

/// A run that neither is running nor waits.
fn idle(app: &App, id: &str) -> Result<Run> {
    let going = app.queue.going().is_some_and(|run| run.id == id);
    if going || app.queue.place(id).is_some() {
        return Err(AppError::invalid(
            "the run is running or waiting; stop it first",
        ));
    }
    app.run(id)
}
