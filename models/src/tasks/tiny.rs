//! The smallest run of each kind of learning, to see whether a device can train it: a loader, a forward pass, a step.
//!
//! It is planned, opened and stepped as every run is. What it learns from is made up by its kind, and means nothing.

use std::{fs, path::Path, time::Instant};

use candle_core::Device;

use crate::{
    Error, Result,
    device::{Checked, Choice},
    train::{Facts, Kind, Measuring, RunPlace, Task, TrainRequest, TrainState, resolve, try_steps},
};

/// Batches that are taken: the first is made when it is asked for, the next may be made ahead of it.
const BATCHES: usize = 2;
/// Steps that are taken.
const STEPS: usize = 2;

/// Where the smallest run of a kind is tried.
pub struct TinyPlace<'a> {
    /// What was chosen.
    pub choice: &'a Choice,
    /// The same, opened.
    pub device: &'a Device,
    /// What is known of it.
    pub checked: &'a Checked,
    /// An empty folder for the data.
    pub folder: &'a Path,
}

/// Tries the smallest run of a kind: milliseconds from data in files to the last step. Nothing where the kind has none.
///
/// Errors: [`Error::Device`], which says in which part of the run it was.
pub fn try_tiny<K: Kind>(place: &TinyPlace) -> Result<Option<f64>> {
    let Some(tiny) = K::TINY else {
        return Ok(None);
    };
    let started = Instant::now();
    let (plan, mut task) = part("data", || {
        let mut request: TrainRequest<K::Request> =
            serde_json::from_str(tiny.request).map_err(|error| Error::Data(error.to_string()))?;
        let data = place.folder.join("data");
        fs::create_dir_all(&data).map_err(Error::file("make the folder", &data))?;
        for (name, bytes) in (tiny.files)() {
            let path = data.join(name);
            fs::write(&path, bytes).map_err(Error::file("write made-up data", &path))?;
        }
        K::files(&mut request.task).push(data);
        request.run.device = Some(place.choice.device.requested());
        request.run.steps = Some(STEPS);
        let read = K::read(&request, None)?;
        let facts = Facts {
            task: K::facts(&request, read.as_deref())?,
            device: place.choice.clone(),
            checked: place.checked.clone(),
        };
        let plan = resolve::<K>(&request, &facts)?.plan;
        let place = RunPlace {
            device: place.device,
            learned_from: None,
            folder: place.folder,
        };
        let task = K::open(&plan, &place)?;
        Ok((plan, task))
    })?;
    part("loader", || {
        for _ in 0..BATCHES {
            task.next_batch()?;
        }
        Ok(place.device.synchronize()?)
    })?;
    part("forward pass", || is_finite(&mut task))?;
    part("training step", || {
        let mut state = TrainState::new(&plan, &task)?;
        try_steps(&plan.run, &mut task, &mut state, STEPS, &|| false)?;
        is_finite(&mut task)
    })?;
    Ok(Some(started.elapsed().as_secs_f64() * 1e3))
}

/// Whether the loss on what is kept aside is a number.
fn is_finite<T: Task>(task: &mut T) -> Result<()> {
    match task.evaluate(1, &mut Measuring::alone(&|| true))? {
        Some(found) if !found.loss.is_finite() => Err(Error::Device(format!(
            "the loss is {}, and has to be a number",
            found.loss
        ))),
        _ => Ok(()),
    }
}

/// Does a part of the run. An error says which it was.
fn part<T>(name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    work().map_err(|error| Error::Device(format!("{name} failed: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        device::{DeviceKind, FoundDevice, choose},
        tasks::{KINDS, TaskRequest},
    };

    #[test]
    fn every_kind_that_needs_no_model_is_tried_on_the_processor() {
        let found = [FoundDevice::named(DeviceKind::Cpu, 0, "a processor")];
        let tried = KINDS.iter().filter(|name| {
            let folder = tempfile::tempdir().unwrap();
            let place = TinyPlace {
                choice: &choose(Default::default(), &found).unwrap(),
                device: &Device::Cpu,
                checked: &Checked::default(),
                folder: folder.path(),
            };
            TaskRequest::named(name)
                .unwrap()
                .try_tiny(&place)
                .unwrap()
                .is_some()
        });
        let tried: Vec<&str> = tried.copied().collect();
        assert_eq!(tried, ["language", "puzzle", "picture"]);
    }
}
