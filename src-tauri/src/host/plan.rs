//! What a request would mean, without starting it: reads all it names, and decides the rest.
//!
//! Deliberately absent: what has to be read for it, and what is chosen, which its kind of learning knows.

#[cfg(feature = "gui")]
pub(crate) mod view;

use std::{any::Any, path, sync::Arc};

use models::{
    figures::counted,
    tasks::{AnyRequest, AnyResolved, TaskPlan},
    train::{Facts, Kind, Resolved, TrainRequest, resolve},
    with_kind,
};

use super::{Host, locked};
use crate::{
    ranks::{self, meet::refuse},
    store::{
        self,
        memory_fallbacks::{self, KnownFallback},
    },
    wire::error::{AppError, Result},
};

/// Data that was read and counted for a plan. A form asks again after each change, mostly for the same data.
pub(super) type ReadData = Arc<dyn Any + Send + Sync>;

impl Host {
    /// What a request would mean, without starting it.
    pub(crate) fn plan(&self, AnyRequest { run, task }: AnyRequest) -> Result<AnyResolved> {
        with_kind!(TaskRequest, task, K, task => {
            let resolved = self.plan_of::<K>(TrainRequest { run, task })?;
            Ok(resolved.map(TaskPlan::from))
        })
    }

    fn plan_of<K: Kind>(&self, mut request: TrainRequest<K::Request>) -> Result<Resolved<K::Plan>> {
        self.find_model::<K>(&mut request)
            .map_err(|error| error.with_field("model"))?;
        K::find_files(&mut request.task)?;
        let strict = request.run.strict.unwrap_or_default();
        let found = self.devices.found();
        let device = self.choose_device(request.run.device, strict, &found)?;
        let devices = request.run.devices.unwrap_or(1);
        let launched = ranks::of_environment()?.is_some();
        refuse(devices, &device.device, &found, !launched)?;
        let checked = self.checked(&device.device);
        let read = self
            .read_data::<K>(&request)
            .map_err(|error| match error.field {
                None => error.with_field("data.files"),
                Some(_) => error,
            })?;
        let facts = Facts {
            task: K::facts(&request, read.as_deref())?,
            device,
            checked,
        };
        let mut resolved = resolve::<K>(&request, &facts)?;
        let subject = K::subject(&resolved.plan.task);
        if let Some(known) =
            memory_fallbacks::find(&self.paths.memory_fallbacks, &resolved.plan.run, &subject)
        {
            resolved = start_where_memory_sufficed::<K>(&request, &facts, resolved, &known)?;
        }
        K::check(&resolved.plan.task)?;
        if let Some(read) = read {
            let warnings = K::warnings(&resolved.plan, &read)?;
            resolved.warnings.extend(warnings);
        }
        Ok(resolved)
    }

    /// Finds the model that a request starts from. What is there, but is no model as the program lists them, may be one to its kind,
    /// which reads it to say so.
    fn find_model<K: Kind>(&self, request: &mut TrainRequest<K::Request>) -> Result<()> {
        let Some(model) = K::model(&mut request.task) else {
            return Ok(());
        };
        let unlisted = match store::models::find(&self.paths, &self.settings(), model) {
            Ok(found) => {
                *model = found;
                return Ok(());
            }
            Err(error) if !model.exists() => return self.find_learned::<K>(request).ok_or(error),
            Err(error) => error,
        };
        *model = path::absolute(&*model).map_err(AppError::file("find the model", &*model))?;
        match K::facts(request, None) {
            Ok(_) => Ok(()),
            // It lacks what the kind looked for, which says less.
            Err(models::Error::File { .. }) => Err(unlisted),
            Err(error) => Err(error.into()),
        }
    }

    /// Starts from what a run has learned, where the model is called as a run is, and is one that its kind can start from.
    fn find_learned<K: Kind>(&self, request: &mut TrainRequest<K::Request>) -> Option<()> {
        let model = K::model(&mut request.task)?;
        let run = store::runs::exact(&self.paths, model.to_str()?).ok()?;
        *model = run.best_checkpoint().ok()?;
        K::facts(request, None).ok().map(|_| ())
    }

    /// Forgets the data that was planned with; a text of millions of rows is not kept for nothing.
    pub(crate) fn forget_data(&self) {
        *locked(&self.read_data) = None;
        self.forget_looked();
    }

    fn read_data<K: Kind>(
        &self,
        request: &TrainRequest<K::Request>,
    ) -> Result<Option<Arc<K::Read>>> {
        let mut kept = locked(&self.read_data);
        let known = kept
            .clone()
            .and_then(|kept| kept.downcast::<K::Read>().ok());
        let read = K::read(request, known.as_ref())?;
        if let Some(read) = &read {
            *kept = Some(read.clone());
        }
        Ok(read)
    }
}

/// The plan that gives up at once what a run of the same model had to give up on this machine, unless it was asked for.
fn start_where_memory_sufficed<K: Kind>(
    request: &TrainRequest<K::Request>,
    facts: &Facts<K::Facts>,
    resolved: Resolved<K::Plan>,
    known: &KnownFallback,
) -> Result<Resolved<K::Plan>> {
    let (mut asked, mut plan) = (request.clone(), resolved.plan.run.clone());
    let mut changed = Vec::new();
    if request.run.batch.rows.is_none() && plan.batch.rows > known.rows {
        plan.limit_rows(known.rows);
        asked.run.batch.rows = Some(plan.batch.rows);
        asked.run.batch.accumulate = Some(plan.batch.accumulate);
        asked.run.evaluate.batches = Some(plan.evaluate.batches);
        changed.extend(["batch.rows", "batch.accumulate", "evaluate.batches"]);
    }
    if request.run.gradient_checkpointing.is_none()
        && known.gradient_checkpointing
        && !plan.gradient_checkpointing
    {
        asked.run.gradient_checkpointing = Some(true);
        changed.push("gradient_checkpointing");
    }
    if changed.is_empty() {
        return Ok(resolved);
    }
    let mut resolved = resolve::<K>(&asked, facts)?;
    let (rows, day) = (counted(known.failed_rows as u64, "row"), &known.day);
    let reasons = resolved.reasons.iter_mut();
    for reason in reasons.filter(|it| changed.contains(&it.field.as_str())) {
        reason.why = format!("Memory ran out with {rows} at once on {day}.");
        reason.automatic = true;
    }
    Ok(resolved)
}
