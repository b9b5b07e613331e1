//! Work that takes a while and may take its process down: training, generating, examining.
//!
//! - [`engine`]: the app's side. It starts an engine process, asks it, and hears what it says
//! - [`worker`]: the engine's side: `anneal worker`
//! - [`queue`]: the app's runs, one after the other
//! - [`follow`]: what happens in a run, at a pace that an eye can see
//! - [`pace`]: whether a machine has become slower than it was
//! - `several`: a run that several engines train together
//! - `watchdog`: ends an engine whose run hangs
//! - `fault`: faults on purpose, in test builds
//! - [`train`], [`chat`], [`solve`], [`predict`], [`check`], [`bench`]: what an engine does when it is asked to
//!
//! The app itself never trains or generates, so that running out of memory, a broken driver or a mistake of ours ends an
//! engine and not the app, and memory is free when the engine has left.

mod bench;
pub(crate) mod chat;
mod check;
pub(crate) mod engine;
#[cfg(debug_assertions)]
pub(crate) mod fault;
#[cfg(feature = "gui")]
pub(crate) mod follow;
mod pace;
mod predict;
mod probe;
#[cfg(feature = "gui")]
pub(crate) mod queue;
mod several;
mod solve;
mod train;
mod watchdog;
pub(crate) mod worker;

use std::any::Any;

use models::device::{
    self, Checked, Choice, DeviceKind, DeviceRequest, RequestedDevice,
    dtype::{DeviceClass, Dtype, Role, choose_dtype},
};

use crate::wire::error::{AppError, Result};

/// What is said of a panic: what it said itself is in the log.
fn mistake(panic: &(dyn Any + Send)) -> AppError {
    let what = models::panic_message(panic);
    AppError::failed(format!("the engine made a mistake: {what}"))
        .with_hint("this is a bug of Anneal; the log has the place")
}

/// The device for a request, among those that this engine sees.
fn choose(device: RequestedDevice, strict: bool) -> Result<Choice> {
    let request = DeviceRequest { device, strict };
    Ok(device::choose(request, &device::detect::detect())?)
}

/// The format in which a model is safest to compute on a device, by what is known of that.
fn safest_dtype(device: &Choice, checked: &Checked) -> Result<Dtype> {
    chosen_dtype(device, checked, Role::Compute)
}

/// The format that is safest for a role on a device, without what its check found wrong.
fn chosen_dtype(device: &Choice, checked: &Checked, role: Role) -> Result<Dtype> {
    let class = DeviceClass::of(&device.device, checked.bf16);
    let chosen = choose_dtype(class, role, None, &checked.refused_dtypes, false)?;
    let on_cpu = device.device.kind == DeviceKind::Cpu && role == Role::Compute;
    Ok(chosen.dtype.kept_in(on_cpu))
}
