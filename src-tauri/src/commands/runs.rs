//! Runs: the first page, a run and what happens in it, and starting, stopping and continuing.

use std::collections::hash_map::Entry;

use tauri::State;

use super::{Answer, App, locked};
use crate::{
    store::runs::{Run, RunProgress},
    wire::{
        error::AppError,
        view::{EventsView, HomeView, RunView},
    },
};

/// Where the starter's randomness starts.
const STARTER_SEED: u64 = 42;

/// The first page.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn home(app: State<'_, App>) -> Answer<HomeView> {
    let found = app.host.devices();
    let choice = app.host.choose_device(None, false, &found)?;
    let mut notes = vec![choice.reason.clone()];
    let others = choice.warnings.iter().chain(app.host.engine_problems());
    notes.extend(others.chain(&app.warnings).cloned());
    let runs = app.host.runs();
    // A run that can't be read is left out of the list; its folder stays.
    let views = runs.iter().rev().filter_map(|run| view(&app, run).ok());
    Ok(HomeView::new(
        &choice.device,
        &found,
        notes,
        views.collect(),
    ))
}

/// Makes the starter's data and starts its run. Returns the run's id.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn start_starter(app: State<'_, App>) -> Answer<String> {
    let (_, request) = app.host.write_starter(STARTER_SEED, None)?;
    let run = app.host.create_run(&app.host.plan(request)?)?;
    let id = run.id.clone();
    app.queue.add(run);
    Ok(id)
}

/// A run.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn run(app: State<'_, App>, id: String) -> Answer<RunView> {
    Ok(view(&app, &app.host.find_stored_run(&id)?)?)
}

/// What happened in a run after the event with a number; 0 is all.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn run_events(app: State<'_, App>, id: String, after: u32) -> Answer<EventsView> {
    let run = app.host.find_stored_run(&id)?;
    Ok(EventsView::new(after, run.events_after(u64::from(after))?))
}

/// Has a run saved and stopped, or takes it out of those that wait.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn stop_run(app: State<'_, App>, id: String) -> Answer<()> {
    app.queue.stop(&id);
    Ok(())
}

/// Continues a run from its last checkpoint, when no other is in the way.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn resume_run(app: State<'_, App>, id: String) -> Answer<()> {
    app.queue.add(app.host.find_stored_run(&id)?);
    Ok(())
}

/// What the list shows of a run. Its plan never changes, and of its events only the new ones are read.
fn view(app: &App, run: &Run) -> Result<RunView, AppError> {
    let waits = app.queue.waits(&run.id);
    let mut known = locked(&app.known);
    let (plan, progress) = match known.entry(run.id.clone()) {
        Entry::Occupied(entry) => entry.into_mut(),
        Entry::Vacant(entry) => entry.insert((run.plan()?, RunProgress::new(run))),
    };
    progress.catch_up(run)?;
    Ok(RunView::new(progress.state(run)?, plan, waits))
}
