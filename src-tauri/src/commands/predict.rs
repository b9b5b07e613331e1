//! Pictures: sets of them, and a model that says what they show.

use std::{
    path::{Path, PathBuf},
    sync::atomic::Ordering,
};

use models::{limits, tasks::picture::recognize::holds_pictures};
use tauri::{State, ipc::Channel};

use super::App;
use crate::{
    host::{
        pictures::view::{CheckupView, PicturesView},
        predict::{
            OpenClassifier,
            view::{ClassifierView, PredictionView},
        },
    },
    lock::locked,
    store::picture_files::pictures_in,
    wire::{
        error::{AppError, Result},
        predict::AskedPicture,
    },
};

/// The most pictures that are asked about at once: a page holds all of them.
const MAX_ASKED: usize = 500;
/// The sides of a picture on a page, in pixels: of one that is looked at, and of one among many.
const SIDES: [usize; 2] = [320, 160];
/// So many are few.
const FEW: usize = 24;

/// Whether a file or folder holds pictures to learn from, by the names in it.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn has_pictures(path: String) -> Result<bool> {
    Ok(holds_pictures(Path::new(&path)))
}

/// Some pictures of files, only those of a class or all. Nothing where the files hold something else.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn pictures(
    app: State<'_, App>,
    files: Vec<String>,
    only: Option<String>,
    from: usize,
    count: usize,
) -> Result<Option<PicturesView>> {
    let set = app.host.look_at_pictures(&paths(&files))?;
    Ok(set.map(|set| PicturesView::new(&set, only.as_deref(), from, count)))
}

/// What is wrong with the pictures of files. Nothing where the files hold something else.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn check_pictures(
    app: State<'_, App>,
    files: Vec<String>,
) -> Result<Option<CheckupView>> {
    let set = app.host.look_at_pictures(&paths(&files))?;
    Ok(set.map(|set| CheckupView::new(&set)))
}

/// Opens a run to say what pictures show, in place of the one that is open.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn open_classifier(app: State<'_, App>, name: String) -> Result<ClassifierView> {
    let place = &app.classifier;
    place.stop.store(true, Ordering::SeqCst);
    let mut open = locked(&place.model);
    *open = None;
    let classifier = app.host.open_classifier(&name, None)?;
    let view = ClassifierView::new(&classifier);
    *open = Some(classifier);
    Ok(view)
}

/// Closes the model, which gives its memory back.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn close_classifier(app: State<'_, App>) -> Result<()> {
    app.classifier.stop.store(true, Ordering::SeqCst);
    *locked(&app.classifier.model) = None;
    Ok(())
}

/// Says what the pictures of files and folders show: how many there are, then one after the other. One that can’t be read says why.
/// Returns how many were asked about.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn predict_files(
    app: State<'_, App>,
    files: Vec<String>,
    found: Channel<usize>,
    predicted: Channel<PredictionView>,
) -> Result<usize> {
    let pictures = pictures_in(&paths(&files))?;
    if pictures.is_empty() {
        return Err(AppError::invalid("there is no picture in the folder"));
    }
    let _ = found.send(pictures.len());
    let side = SIDES[usize::from(pictures.len() > FEW)];
    with_classifier(&app, |classifier, stop| {
        let mut asked = 0;
        for path in pictures.iter().take(MAX_ASKED) {
            if stop() {
                break;
            }
            let answer = classifier.predict(AskedPicture::File(path.clone()), side)?;
            let _ = predicted.send(PredictionView::of_file(path, answer));
            asked += 1;
        }
        Ok(asked)
    })
}

/// Says what a picture shows that was pasted, by the bytes of its file as base64.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn predict_pasted(
    app: State<'_, App>,
    name: String,
    base64: String,
) -> Result<PredictionView> {
    if let Some(problem) = limits::PICTURE_FILE.exceeded(base64.len() as u64 / 4 * 3) {
        return Err(AppError::invalid(format!(
            "the picture has a size that {problem}"
        )));
    }
    with_classifier(&app, |classifier, _| {
        let answer = classifier.predict(AskedPicture::Base64(base64), SIDES[0])?;
        Ok(PredictionView::new(name, answer))
    })
}

/// Leaves the pictures that are not looked at yet.
#[tauri::command(async)]
#[specta::specta]
pub(super) fn stop_predicting(app: State<'_, App>) -> Result<()> {
    app.classifier.stop.store(true, Ordering::SeqCst);
    Ok(())
}

fn paths(files: &[String]) -> Vec<PathBuf> {
    files.iter().map(PathBuf::from).collect()
}

/// Has the open model do something, which `stop_predicting` ends.
fn with_classifier<T>(
    app: &App,
    act: impl FnOnce(&mut OpenClassifier, &dyn Fn() -> bool) -> Result<T>,
) -> Result<T> {
    let place = &app.classifier;
    let mut open = locked(&place.model);
    let classifier = open
        .as_mut()
        .ok_or_else(|| AppError::failed("no classifier is open"))?;
    place.stop.store(false, Ordering::SeqCst);
    act(classifier, &|| place.stop.load(Ordering::SeqCst))
}
