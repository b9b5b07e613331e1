//! A network that learned pictures, written for other programs.

#[cfg(feature = "gui")]
pub(crate) mod view;

use std::path::{self, Path, PathBuf};

use models::{
    checkpoint::save::name_of,
    tasks::{
        TaskPlan,
        picture::{
            classifier::CLASSIFIER,
            export::{self, Exported, Format},
        },
    },
};

use super::Host;
use crate::{
    store::runs::{Named, Run, find_or_checkpoint},
    wire::error::{AppError, Result},
};

impl Host {
    /// Writes what a name means for other programs: a run that learned pictures, or the folder of a checkpoint. Without a path it is
    /// called after the run, and lies where the program works.
    pub(crate) fn export_pictures(
        &self,
        name: &str,
        format: Format,
        out: Option<PathBuf>,
    ) -> Result<Exported> {
        let (checkpoint, called) = self.pictures_checkpoint(name)?;
        let out = out.unwrap_or_else(|| {
            let about = format.about();
            PathBuf::from(match about.ending {
                Some(ending) => format!("{called}.{ending}"),
                None => format!("{called}-{}", about.name),
            })
        });
        Ok(export::export(&checkpoint, format, &out)?)
    }

    /// The checkpoint with a network for pictures that a name means, and what it is called.
    fn pictures_checkpoint(&self, name: &str) -> Result<(PathBuf, String)> {
        let called = ["network for pictures", "pictures"];
        let run = match find_or_checkpoint(&self.paths, name, CLASSIFIER, called)? {
            Named::Checkpoint(folder) => {
                let whole = path::absolute(&folder)
                    .map_err(AppError::file("find the checkpoint", &folder))?;
                return Ok((folder, name_of(&whole)));
            }
            Named::Run(run) => run,
        };
        let checkpoint = run.best_checkpoint()?;
        match checkpoint.join(CLASSIFIER).is_file() {
            true => Ok((checkpoint, run.id)),
            false => Err(other_kind(&run, &checkpoint)),
        }
    }
}

/// What a run is told that learned something else than pictures.
fn other_kind(run: &Run, checkpoint: &Path) -> AppError {
    let error = AppError::invalid(format!(
        "`{}` learned no pictures, and only networks for pictures are written in these formats",
        run.id
    ));
    match run.plan().map(|plan| plan.task) {
        Ok(TaskPlan::Language(_)) => error.with_hint(format!(
            "transformers and peft read its checkpoints as they are: {}",
            checkpoint.display()
        )),
        Ok(TaskPlan::Puzzle(_)) => error.with_hint(format!(
            "`anneal runs export {} step_1` writes its weights for PyTorch",
            run.id
        )),
        Ok(TaskPlan::Probe(_)) => error.with_hint(format!(
            "`anneal probe export {} --gguf FILE` writes the direction of a probe",
            run.id
        )),
        Ok(TaskPlan::Picture(_)) => AppError::failed(format!(
            "the checkpoint does not say what its network is: `{}`",
            checkpoint.display()
        )),
        Err(_) => error,
    }
}
