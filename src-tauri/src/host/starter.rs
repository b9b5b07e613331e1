//! The starter: its data, and the examination of what has learned from it.

use std::{fs, path::PathBuf};

use models::{
    data::starter::{StarterData, starter_data},
    device::RequestedDevice,
    tasks::{
        AnyRequest, TaskRequest,
        starter::{self, Examination},
    },
};

use super::Host;
#[cfg(feature = "gui")]
use crate::store::data_sets::{self, DataSet};
use crate::{
    jobs::engine::Engine,
    store::{in_use::Work, runs::Run},
    wire::{
        engine::{Ask, Reply},
        error::{AppError, Result},
    },
};

/// What the sample is called.
#[cfg(feature = "gui")]
const SAMPLE: &str = "Sample conversations";

impl Host {
    /// Writes the starter's data, and asks for the model that learns from it.
    pub(crate) fn write_starter(
        &self,
        seed: u64,
        device: Option<RequestedDevice>,
    ) -> Result<(StarterData, AnyRequest)> {
        let (data, file) = self.write_conversations(seed)?;
        let mut request = starter::request(file);
        (request.run.seed, request.run.device) = (Some(seed), device);
        Ok((data, request.map(TaskRequest::from)))
    }

    /// Writes the starter's data, and adds its conversations as data to try things with.
    #[cfg(feature = "gui")]
    pub(crate) fn add_sample_data(&self, seed: u64) -> Result<DataSet> {
        let (_, file) = self.write_conversations(seed)?;
        data_sets::add_files(&self.paths, SAMPLE.to_owned(), vec![file])
    }

    fn write_conversations(&self, seed: u64) -> Result<(StarterData, PathBuf)> {
        let data = starter_data(seed);
        let folder = self.paths.data.join(format!("starter-{seed}"));
        fs::create_dir_all(&folder).map_err(AppError::file("make the folder", &folder))?;
        let file = starter::write_data(&data, &folder)?;
        Ok((data, file))
    }

    /// Asks what a starter run has learned every question that was kept aside.
    pub(crate) fn examine_starter(
        &self,
        run: &Run,
        data: &StarterData,
        device: Option<RequestedDevice>,
        progress: &mut dyn FnMut(usize),
        stop: &dyn Fn() -> bool,
    ) -> Result<Examination> {
        let device = device.unwrap_or_else(|| self.settings().device);
        let ask = Ask::Examine {
            folder: run.best_checkpoint()?,
            device,
            questions: data.held_out.clone(),
        };
        let mut hear = |reply| match reply {
            Reply::Examined { count } => {
                progress(count);
                None
            }
            Reply::Passed { examination } => Some(examination),
            _ => None,
        };
        let mut engine = Engine::start(self.kind_of(device), None)?;
        let _in_use = self.use_device(device, Work::Examination);
        let examination = engine.ask_for(&ask, &mut hear, stop)?;
        examination
            .ok_or_else(|| AppError::failed("the engine ended the examination without a word"))
    }
}
