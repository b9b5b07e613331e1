//! The plan of a run: from its file, or from the newest checkpoint that has it, where the file is damaged.
//!
//! A damaged file is left as it is until the run continues: somebody may want to repair it.

use models::{
    checkpoint::{
        keep::Checkpoints,
        save::{name_of, put_aside, replace_file},
    },
    tasks::{AnyPlan, AnyResolved},
    train::state::read_saved,
};

use super::{limits, run_file, runs::Run};
use crate::wire::error::{AppError, Result};

/// A plan, and where it comes from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KnownPlan {
    pub(crate) plan: AnyPlan,
    /// What is wrong with its file, in a sentence.
    pub(crate) damage: Option<String>,
}

impl Run {
    /// Reads the plan.
    pub(crate) fn plan(&self) -> Result<AnyPlan> {
        Ok(self.known_plan()?.plan)
    }

    /// Reads the plan, and says what is wrong with its file.
    pub(crate) fn known_plan(&self) -> Result<KnownPlan> {
        let path = self.plan_file();
        let problem = match run_file::read_plan(&path) {
            Ok(plan) => {
                let damage = None;
                return Ok(KnownPlan { plan, damage });
            }
            Err(_) if !path.exists() => "`run.yaml` is missing".to_owned(),
            Err(error) => format!("`run.yaml` is damaged ({})", error.message),
        };
        // A plan is as whole as the file that says so, also where the weights beside it are not.
        let checkpoints = Checkpoints::new(&self.checkpoints(), 1).list()?;
        let saved = checkpoints.iter().rev().find_map(|checkpoint| {
            let plan = read_saved(&checkpoint.path).ok()?.plan?;
            let plan = serde_json::from_value(plan).ok()?;
            Some((checkpoint.step, plan))
        });
        match saved {
            Some((step, plan)) => Ok(KnownPlan {
                plan,
                damage: Some(format!(
                    "{problem}, so the plan is the one that was saved with step {step}"
                )),
            }),
            None => Err(
                AppError::failed(format!("{problem}, and no checkpoint has the plan"))
                    .with_hint("put the file back from a copy, or start a new run"),
            ),
        }
    }

    /// The text of the plan's file, or the one it would have.
    pub(crate) fn plan_text(&self) -> Result<String> {
        let known = self.known_plan()?;
        match known.damage {
            None => {
                let path = self.plan_file();
                limits::read_text(limits::YAML_FILE, &path, "read the plan")
            }
            Some(_) => text_of(known.plan),
        }
    }

    /// Writes the plan's file anew where it is damaged. The damaged one gets another name. Returns a sentence about it.
    pub(crate) fn mend_plan(&self) -> Result<Option<String>> {
        let known = self.known_plan()?;
        let Some(damage) = known.damage else {
            return Ok(None);
        };
        let path = self.plan_file();
        let mut sentence = format!("{damage}; the file was written anew");
        if path.exists() {
            let aside = name_of(&put_aside(&path)?);
            sentence += &format!(", and the damaged one is `{aside}` now");
        }
        replace_file(&path, text_of(known.plan)?.as_bytes())?;
        Ok(Some(sentence))
    }
}

/// A plan as a file, without reasons: those are not saved with a checkpoint.
fn text_of(plan: AnyPlan) -> Result<String> {
    run_file::write(&AnyResolved {
        plan,
        reasons: Vec::new(),
        warnings: Vec::new(),
        estimate: None,
        fit: None,
    })
}
