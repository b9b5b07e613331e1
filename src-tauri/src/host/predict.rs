//! A model that says what pictures show, which is open in an engine.

#[cfg(feature = "gui")]
pub(crate) mod view;

use std::path::PathBuf;

use models::{
    device::RequestedDevice,
    tasks::picture::classifier::{About, CLASSIFIER},
};

use super::{Host, uses::by_uses};
use crate::{
    jobs::engine::Engine,
    store::{
        in_use::{InUse, Work},
        runs::{Named, find_or_checkpoint},
    },
    wire::{
        engine::{Ask, Reply},
        error::{AppError, Result},
        predict::{AskedPicture, PictureAnswer},
    },
};

/// What this is among the uses of a run.
const USE: &str = "predict";

/// A classifier that is open to be asked.
pub(crate) struct OpenClassifier {
    engine: Engine,
    /// What it is.
    pub(crate) about: About,
    /// Its weights, counted.
    pub(crate) weights: usize,
    /// What a person should know about where it computes.
    pub(crate) warnings: Vec<String>,
    /// Where it stands who computes on its device.
    in_use: PathBuf,
}

impl Host {
    /// Opens what a name means to say what pictures show: a run that learned pictures, its folder, or the folder of a checkpoint.
    pub(crate) fn open_classifier(
        &self,
        name: &str,
        device: Option<RequestedDevice>,
    ) -> Result<OpenClassifier> {
        let folder = self.classifier_folder(name)?;
        let (place, _, checked) = self.place_to_open(device)?;
        let mut engine = Engine::start(place.kind, None)?;
        let mut hear = |reply| match reply {
            Reply::ClassifierOpened {
                about,
                weights,
                warnings,
            } => Some((*about, weights, warnings)),
            _ => None,
        };
        let ask = Ask::OpenClassifier {
            folder,
            device: place.device,
            checked,
        };
        let opened = engine.ask_for(&ask, &mut hear, &|| false)?;
        let opened = opened.ok_or_else(|| AppError::failed("the engine opened nothing"));
        let (about, weights, warnings) = opened?;
        Ok(OpenClassifier {
            engine,
            about,
            weights,
            warnings,
            in_use: place.in_use,
        })
    }

    /// The folder with the classifier that a name means.
    fn classifier_folder(&self, name: &str) -> Result<PathBuf> {
        let called = ["classifier", "pictures"];
        let run = match find_or_checkpoint(&self.paths, name, CLASSIFIER, called)? {
            Named::Checkpoint(folder) => return Ok(folder),
            Named::Run(run) => run,
        };
        if let Ok(plan) = run.plan() {
            check_uses(&run.id, plan.task.uses())?;
        }
        let folder = run.best_checkpoint()?;
        match folder.join(CLASSIFIER).is_file() {
            true => Ok(folder),
            false => Err(AppError::failed(format!(
                "the checkpoint does not say what its network is: `{}`",
                folder.display()
            ))
            .with_hint(format!(
                "`{CLASSIFIER}` is missing in it; resume the run for a few steps, and what it saves then can be opened"
            ))),
        }
    }
}

/// Whether what a run learned says what pictures show.
fn check_uses(run: &str, uses: &[&str]) -> Result<()> {
    if uses.contains(&USE) {
        return Ok(());
    }
    Err(AppError::invalid(format!(
        "`{run}` learned no pictures, so it can’t say what one shows"
    ))
    .with_hint(by_uses(run, uses)))
}

/// What a classifier is, for a person: `ResNet-18, 64 × 64 pixels`.
pub(crate) fn title(about: &About) -> String {
    let [height, width] = about.net.sides;
    let grey = match about.net.channels {
        1 => ", grey",
        _ => "",
    };
    let name = about.net.architecture.title();
    format!("{name}, {width} × {height} pixels{grey}")
}

impl OpenClassifier {
    /// Says what a picture shows. What is returned of it has sides of at most `side`, or of as many pixels as the model sees.
    pub(crate) fn predict(&mut self, picture: AskedPicture, side: usize) -> Result<PictureAnswer> {
        let _in_use = InUse::begin(&self.in_use, Work::Answer);
        let mut hear = |reply| match reply {
            Reply::Predicted { answer } => Some(answer),
            _ => None,
        };
        let ask = Ask::Predict { picture, side };
        let answer = self.engine.ask_for(&ask, &mut hear, &|| false)?;
        answer.ok_or_else(|| AppError::failed("the engine ended without a word"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_another_kind_is_refused_with_what_can_be_done_with_it() {
        assert!(check_uses("moths", &["predict", "export"]).is_ok());
        for (uses, hint) in [
            (&["chat"][..], "chat with it in `anneal chat moths`"),
            (
                &["solve"],
                "have it solve a puzzle with `anneal solve moths --held-out 1`",
            ),
            (&[], "see what it measured with `anneal runs show moths`"),
        ] {
            let refused = check_uses("moths", uses).unwrap_err();
            assert_eq!(
                refused.message,
                "`moths` learned no pictures, so it can’t say what one shows"
            );
            assert_eq!(refused.hint.as_deref(), Some(hint));
        }
    }
}
