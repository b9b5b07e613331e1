//! `anneal device`: what there is to train on.

use std::path::Path;

use console::style;
use models::{
    device::{
        FoundDevice, RequestedDevice,
        dtype::{DeviceClass, Role, dtype_rule},
    },
    figures::bytes,
};
use serde_json::json;

use super::{Ended, terminal::Terminal};
use crate::{
    host::Host,
    wire::error::{AppError, Result},
};

/// Show the devices of this machine, which one is used, and why.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Ask for a device: auto, cpu, metal, cuda, or cuda:1 for the second one.
    #[arg(long, value_name = "DEVICE")]
    device: Option<RequestedDevice>,
    /// Fail instead of falling back to another device.
    #[arg(long)]
    strict: bool,
    /// Use this device from now on, unless a run says otherwise.
    #[arg(long = "use", value_name = "DEVICE", conflicts_with = "device")]
    prefer: Option<RequestedDevice>,
}

impl Arguments {
    /// Opens the app although its settings can’t be read, if they are to be changed.
    pub(super) fn open_all_the_same(
        &self,
        home: Option<&Path>,
        error: AppError,
    ) -> Result<(Host, Vec<String>)> {
        match self.prefer {
            Some(device) => Host::open_with_device(home, device),
            None => Err(error),
        }
    }
}

pub(super) fn run(arguments: Arguments, host: &Host, terminal: &Terminal) -> Result<Ended> {
    if let Some(device) = arguments.prefer {
        host.set("device", &device.to_string())?;
        terminal.note(format_args!("{device} is used from now on"));
    }
    let found = host.devices.found();
    for problem in host.devices.problems() {
        terminal.warn(problem);
    }
    let asked = arguments.device.or(arguments.prefer);
    let chosen = host.choose_device(asked, arguments.strict, &found)?;
    if terminal.json {
        terminal.json(&json!({"found": found, "chosen": chosen}))?;
        return Ok(Ended::Done);
    }
    for device in &found {
        let mark = match *device == chosen.device {
            true => style("●").green(),
            false => style("○").dim(),
        };
        let (name, setting) = (style(&device.name).bold(), style(device.setting()).dim());
        terminal.line(format_args!("{mark} {name}  {setting}"));
        for line in details(device) {
            terminal.line(format_args!("  {line}"));
        }
    }
    terminal.line("");
    let used = chosen.device.setting();
    terminal.line(format_args!("Used: {used}. {}", chosen.reason));
    for warning in &chosen.warnings {
        terminal.warn(warning);
    }
    // Whether bf16 has passed the device check is not known here, so the careful answer is shown.
    let rule = dtype_rule(DeviceClass::of(&chosen.device, false), Role::Compute);
    for allowed in &rule.allowed {
        let (dtype, reason) = (allowed.dtype, &allowed.reason);
        terminal.line(format_args!("Computes in {dtype}: {reason}"));
    }
    for refused in &rule.refused {
        terminal.line(format_args!("Not in {}: {}", refused.dtype, refused.reason));
    }
    Ok(Ended::Done)
}

/// What is known about a device, a line each.
fn details(device: &FoundDevice) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(problem) = &device.problem {
        lines.push(format!("can’t be used: {problem}"));
    }
    match (device.total_bytes, device.free_bytes) {
        (Some(total), Some(free)) => {
            lines.push(format!("memory: {}, {} free", bytes(total), bytes(free)));
        }
        (Some(total), None) => lines.push(format!("memory: {}", bytes(total))),
        _ => {}
    }
    if let Some(cores) = device.physical_cores {
        lines.push(format!("cores: {cores}"));
    }
    if let Some((major, minor)) = device.compute_capability {
        lines.push(format!("compute capability: {major}.{minor}"));
    }
    if let Some(version) = &device.cudnn_version {
        lines.push(format!("cuDNN: {version}"));
    }
    lines
}
