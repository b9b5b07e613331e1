//! Hidden states that are captured and probes that are applied, inside an engine.

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use models::{
    checkpoint::{load::LoadDtypes, save::name_of},
    tasks::{
        language::model::LanguageModel,
        probe::{
            apply::{Apply, ApplyRequest},
            capture::Capture,
            folder::Probes,
            states::{ModelIdentity, UNKNOWN},
        },
    },
};

use crate::wire::{
    engine::Reply,
    error::{AppError, Code, Result},
};

/// Says what a capture will do, and captures into a folder, if there is one. `flow` says whether it should end.
pub(super) fn capture(
    (model, capture): (&LanguageModel, &Capture),
    warnings: &[String],
    states: Option<&Path>,
    send: &mut dyn FnMut(Reply),
    flow: &dyn Fn() -> ControlFlow<()>,
) -> Result<()> {
    send(Reply::CapturePlanned {
        plan: Box::new(capture.planned().clone()),
        warnings: warnings.to_vec(),
    });
    let Some(states) = states else { return Ok(()) };
    let mut watch = |progress| {
        send(Reply::Captured { progress });
        flow()
    };
    let rows = capture.run(model, states, usize::MAX, &mut watch)?;
    let complete = rows == capture.planned().about.rows;
    send(Reply::CaptureEnded { complete });
    Ok(())
}

/// A model, and the adapter on it, by their weights.
pub(super) type Identity = (ModelIdentity, Option<ModelIdentity>);

/// Says what probes are applied to, and applies them. `flow` says whether it should end.
pub(super) fn apply(
    model: &LanguageModel,
    probes: &Probes,
    request: &ApplyRequest,
    warnings: Vec<String>,
    send: &mut dyn FnMut(Reply),
    flow: &dyn Fn() -> ControlFlow<()>,
) -> Result<()> {
    let apply = Apply::plan(model, probes, request)?;
    send(Reply::ApplyPlanned {
        plan: Box::new(apply.planned().clone()),
        warnings,
    });
    let mut tell = |texts| {
        send(Reply::Applied { texts });
        flow()
    };
    Ok(apply.run(&mut tell)?)
}

/// Opens folders of probes for a model. Those of another one are refused, or with `force` a warning.
pub(super) fn open(
    folders: &[PathBuf],
    (model, adapter): &Identity,
    dtypes: LoadDtypes,
    force: bool,
) -> Result<(Vec<Probes>, Vec<String>)> {
    let (mut opened, mut warnings) = (Vec::new(), Vec::new());
    for folder in folders {
        let probes = Probes::open(folder)?;
        let name = name_of(folder);
        match (probes.check_model(model, adapter.as_ref()), force) {
            (Ok(()), _) => {}
            (Err(problem), true) => warnings.push(format!(
                "`{name}`: {problem}. They are applied anyway, since you asked for it: don’t believe their scores"
            )),
            (Err(problem), false) => {
                let refusal = AppError {
                    code: Code::NeedsForce,
                    ..AppError::from(problem)
                };
                return Err(refusal
                    .with_hint("open the model that they were learned from")
                    .unless_forced());
            }
        }
        let (learned, here) = (&probes.about.states.compute_dtype, dtypes.compute.as_str());
        if learned == UNKNOWN {
            warnings.push(format!(
                "`{name}` does not say what the states that it was learned from were computed in, and here it is {here}; scores may differ in \
                 the last digits"
            ));
        } else if learned != here {
            warnings.push(format!(
                "`{name}` was learned from states that were computed in {learned}, and here it is {here}; scores differ in the last digits"
            ));
        }
        opened.push(probes);
    }
    Ok((opened, warnings))
}
