//! The starter: its data, and the examination of what has learned from it.

use std::fs;

use models::{
    data::starter::{StarterData, starter_data},
    device::RequestedDevice,
    tasks::{
        AnyRequest, TaskRequest,
        starter::{self, Examination},
    },
};

use super::Host;
use crate::{
    jobs::engine::Engine,
    store::{in_use::Work, runs::Run},
    wire::{
        engine::{Ask, Reply},
        error::{AppError, Result},
    },
};

impl Host {
    /// Writes the starter's data, and asks for the model that learns from it.
    pub(crate) fn write_starter(
        &self,
        seed: u64,
        device: Option<RequestedDevice>,
    ) -> Result<(StarterData, AnyRequest)> {
        let data = starter_data(seed);
        let folder = self.paths.data.join(format!("starter-{seed}"));
        fs::create_dir_all(&folder).map_err(AppError::file("make the folder", &folder))?;
        let mut request = starter::request(starter::write_data(&data, &folder)?);
        (request.run.seed, request.run.device) = (Some(seed), device);
        Ok((data, request.map(TaskRequest::from)))
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
