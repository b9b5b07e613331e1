//! A run before it starts: what it would be, what it would cost, and its file.

use std::{collections::BTreeMap, path::PathBuf, sync::atomic::Ordering};

use models::{
    checkpoint::save::replace_file,
    tasks::{AnyPlan, AnyRequest, AnyResolved},
};
use tauri::State;

use super::App;
use crate::{
    host::{
        plan::view::{EstimateView, MeasureView, PlanView},
        trial::view::ProfileView,
    },
    store::{naming, run_file, runs},
    wire::error::{AppError, Result},
};

/// What the form has in its fields: values as in a run file, by field.
type Filled = BTreeMap<String, String>;

/// Where the starter's randomness starts.
pub(super) const STARTER_SEED: u64 = 42;

/// What a run would be. What is wrong with it is part of the answer.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn plan_run(app: State<'_, App>, filled: Filled) -> Result<PlanView> {
    let resolved = match resolve(&app, &filled) {
        Ok(resolved) => resolved,
        Err(error) => return Ok(PlanView::refused(error)),
    };
    let estimate = app.estimate(&resolved).ok();
    Ok(PlanView::new(&resolved, estimate))
}

/// Takes a few real steps, and says how long they took and how much memory.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn try_run(app: State<'_, App>, filled: Filled) -> Result<MeasureView> {
    let tried = app.trial(&filled, |plan, stop| app.host.try_steps(plan, stop))?;
    Ok(tried.found.into())
}

/// Takes a few real steps, and says where they spend their time and memory.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn profile_run(app: State<'_, App>, filled: Filled) -> Result<ProfileView> {
    let profiled = app.trial(&filled, |plan, stop| app.host.profile(plan, stop))?;
    Ok(profiled.into())
}

/// Ends the steps that are tried.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn stop_trial(app: State<'_, App>) -> Result<()> {
    app.stop_trial.store(true, Ordering::SeqCst);
    Ok(())
}

/// Starts a run, or has it wait. Returns its id. A run that does not fit starts only with `force`.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn start_run(app: State<'_, App>, filled: Filled, force: bool) -> Result<String> {
    let resolved = resolve(&app, &filled)?;
    if let Some(fit) = resolved.misfit().filter(|_| !force) {
        return Err(AppError::invalid(fit.refusal()));
    }
    app.start(&resolved)
}

/// Makes the starter's data and starts its run. Returns the run's id.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn start_starter(app: State<'_, App>) -> Result<String> {
    let (_, request) = app.host.write_starter(STARTER_SEED, None)?;
    let resolved = app.host.plan(request)?;
    if let Some(fit) = resolved.misfit() {
        let hint = "close other programs, or what else is open here";
        return Err(AppError::invalid(fit.refusal()).with_hint(hint));
    }
    app.start(&resolved)
}

/// What the fields of the form are for a run file.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn read_run_file(path: String) -> Result<Filled> {
    let request = run_file::read(&PathBuf::from(path))?;
    run_file::fields(&request)
}

/// Writes the form as a run file, with everything that was chosen and why.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn write_run_file(app: State<'_, App>, path: String, filled: Filled) -> Result<()> {
    let text = run_file::write(&resolve(&app, &filled)?)?;
    let path = app.picked(&path)?;
    Ok(replace_file(&path, text.as_bytes())?)
}

fn resolve(app: &App, filled: &Filled) -> Result<AnyResolved> {
    let changes: Vec<String> = filled
        .iter()
        .filter(|(_, value)| !value.trim().is_empty())
        .map(|(field, value)| format!("{field}={value}"))
        .collect();
    let request = run_file::set(AnyRequest::default(), &changes).map_err(|mut error| {
        // On the command line it is a flag; here it is the field that was filled in.
        if let Some(field) = &error.field {
            let flag = format!(
                "`--set {field}={}`",
                filled.get(&**field).map_or("", |it| it)
            );
            error.message = error.message.replacen(&flag, &format!("`{field}`"), 1);
        }
        error
    })?;
    app.host.plan(request)
}

impl App {
    /// Takes a few steps of the run that the form describes. It is an error when they were stopped.
    fn trial<R>(
        &self,
        filled: &Filled,
        take: impl FnOnce(&AnyPlan, &dyn Fn() -> bool) -> Result<Option<R>>,
    ) -> Result<R> {
        self.stop_trial.store(false, Ordering::SeqCst);
        let plan = resolve(self, filled)?.plan;
        let taken = take(&plan, &|| self.stop_trial.load(Ordering::SeqCst))?;
        taken.ok_or_else(|| AppError::failed("the trial was stopped before it knew anything"))
    }

    fn start(&self, resolved: &AnyResolved) -> Result<String> {
        // Steps that are tried would share the device with it.
        self.stop_trial.store(true, Ordering::SeqCst);
        let mut resolved = resolved.clone();
        let runs = runs::list(&self.host.paths);
        let states = runs.iter().filter_map(|run| self.state(run).ok());
        let plans = states.filter_map(|(_, plan)| plan);
        let names: Vec<String> = plans.map(|plan| plan.run.name).collect();
        let name = &mut resolved.plan.run.name;
        *name = naming::numbered(name, |name| names.iter().any(|it| it == name));
        let run = runs::create(&self.host.paths, &resolved)?;
        self.host.forget_data();
        let id = run.id.clone();
        self.queue.add(run, false);
        Ok(id)
    }

    /// What a run would take, at the rate of the latest run on the same device.
    fn estimate(&self, resolved: &AnyResolved) -> Result<EstimateView> {
        let plan = &resolved.plan;
        let shapeless = || AppError::failed("the shape of the model is not known");
        let estimate = resolved.estimate.clone().ok_or_else(shapeless)?;
        let free_bytes = resolved.fit.as_ref().map(|fit| fit.free_bytes);
        let rate = runs::list(&self.host.paths).iter().rev().find_map(|run| {
            let (state, earlier) = self.state(run).ok()?;
            let (seconds, earlier) = (state.step_millis? / 1e3, earlier?);
            if earlier.run.device != plan.run.device {
                return None;
            }
            let whole = earlier.estimate().ok()?;
            let rate = whole.operations / earlier.run.steps.max(1) as f64 / seconds;
            Some((earlier.run.name, rate))
        });
        Ok(EstimateView::new(&estimate, free_bytes, rate))
    }
}
