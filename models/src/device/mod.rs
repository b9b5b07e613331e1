//! The device a model is trained and used on: Metal, CUDA or the CPU.
//!
//! [`detect`](detect::detect) lists what the machine has, [`choose`] picks one and says why, and [`open`] makes it
//! ready. Nothing here changes a request silently: a device that can't be had is replaced with a warning, or refused
//! when the user asked for strictness.
//!
//! Deliberately absent: deciding how much of its memory a run may take, and any operation; [`crate::check`] compares a
//! device's arithmetic with the CPU's.

mod checked;
pub mod defaults;
pub mod detect;
pub mod dtype;
pub mod memory;
pub mod pressure;
mod requested;
mod threads;

use std::{fmt, panic};

pub use candle_core::Device;
pub use checked::Checked;
pub use requested::RequestedDevice;
use serde::{Deserialize, Serialize};
pub use threads::compute_on_this_thread;

use crate::{Error, Result, panic_message};

/// The kinds of device, in the order in which they are preferred.
///
/// Metal exists only on macOS and CUDA nowhere else than on Linux and Windows, so one order serves all platforms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceKind {
    /// An Apple GPU.
    Metal,
    /// An NVIDIA GPU.
    Cuda,
    /// An AMD GPU. It is named and explained, but no engine can use it yet.
    Rocm,
    /// The processor. Always usable.
    Cpu,
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Metal => "Metal",
            Self::Cuda => "CUDA",
            Self::Rocm => "ROCm",
            Self::Cpu => "CPU",
        })
    }
}

/// A device that was found, whether it can be used or not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FoundDevice {
    /// What kind of device it is.
    pub kind: DeviceKind,
    /// Its number among the devices of its kind, from 0.
    pub ordinal: usize,
    /// The name its maker gave it: `Apple M3 Pro`.
    pub name: String,
    /// All memory a model could use there, if known. On Apple silicon the share of main memory a GPU should stay in.
    pub total_bytes: Option<u64>,
    /// What of it is free now, if known.
    pub free_bytes: Option<u64>,
    /// Physical cores; only for a processor.
    pub physical_cores: Option<usize>,
    /// Whether it multiplies numbers of bf16 at once, as Intel’s AMX and AVX-512 BF16 do; only for a processor.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub multiplies_bf16: bool,
    /// Major and minor compute capability; only for CUDA. 8.0 and above compute in bf16.
    pub compute_capability: Option<(u32, u32)>,
    /// The version of NVIDIA's cuDNN that its engine found; only for CUDA.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cudnn_version: Option<String>,
    /// Why it can't be used, as the end of a sentence, with what would help; nothing when it can.
    pub problem: Option<String>,
}

impl FoundDevice {
    /// A usable device of which no more is known.
    pub fn named(kind: DeviceKind, ordinal: usize, name: impl Into<String>) -> Self {
        Self {
            kind,
            ordinal,
            name: name.into(),
            total_bytes: None,
            free_bytes: None,
            physical_cores: None,
            multiplies_bf16: false,
            compute_capability: None,
            cudnn_version: None,
            problem: None,
        }
    }

    /// Whether a model can be trained on it by this build.
    pub fn is_usable(&self) -> bool {
        self.problem.is_none()
    }

    /// What asks for exactly this device. No build can use ROCm, so the processor is asked for there.
    pub fn requested(&self) -> RequestedDevice {
        match self.kind {
            DeviceKind::Metal => RequestedDevice::Metal,
            DeviceKind::Cuda => RequestedDevice::Cuda(self.ordinal),
            DeviceKind::Rocm | DeviceKind::Cpu => RequestedDevice::Cpu,
        }
    }

    /// How a user asks for exactly this device: `cuda:1`.
    pub fn setting(&self) -> String {
        match self.kind {
            DeviceKind::Rocm => format!("rocm:{}", self.ordinal),
            _ => self.requested().to_string(),
        }
    }
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceRequest {
    /// Which device.
    pub device: RequestedDevice,
    /// Refuse, instead of falling back, when it can't be had. `auto` can always be had, `gpu` where there is one.
    pub strict: bool,
}

/// The device that will be used, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// One of those that were found on this machine.
    pub device: FoundDevice,
    /// Why this one, as a sentence.
    pub reason: String,
    /// What the user asked for or has, and does not get; each a sentence.
    pub warnings: Vec<String>,
}

/// Picks the device for a request among those found, in the order Metal, CUDA, CPU.
///
/// `found` may join the lists of several engines: a device is usable if one of them can use it.
///
/// Errors: [`Error::Device`] when the named device can't be had and the request is strict, or nothing is usable.
pub fn choose(request: DeviceRequest, found: &[FoundDevice]) -> Result<Choice> {
    let best = found
        .iter()
        .filter(|device| device.is_usable())
        .min_by_key(|device| (device.kind, device.ordinal))
        .ok_or_else(|| Error::Device("no device was found, not even a CPU".to_owned()))?;

    let is_missing = request.device == RequestedDevice::Gpu && best.kind == DeviceKind::Cpu;
    let named = request.device.kind();
    if named.is_none() && !is_missing {
        return Ok(Choice {
            device: best.clone(),
            reason: reason_for_best(best, found),
            warnings: unused_accelerators(best, found),
        });
    }

    let is_named =
        |device: &&FoundDevice| named == Some((device.kind, device.ordinal)) && device.is_usable();
    if let Some(device) = found.iter().find(is_named) {
        return Ok(Choice {
            device: device.clone(),
            reason: format!("{} ({}) was asked for.", device.name, device.setting()),
            warnings: Vec::new(),
        });
    }

    let problem = match named {
        Some((kind, ordinal)) => why_not(kind, ordinal, found),
        None => why_no_gpu(found),
    };
    if request.strict {
        return Err(Error::Device(format!(
            "`device` is {} and must be obeyed (strict), but {problem}; usable here: {}",
            request.device,
            usable_settings(found)
        )));
    }
    Ok(Choice {
        device: best.clone(),
        reason: format!("{} could not be had: {problem}.", request.device),
        warnings: vec![format!(
            "{} was asked for, but {problem}. {} ({}) is used instead.",
            request.device,
            best.name,
            best.setting()
        )],
    })
}

fn reason_for_best(best: &FoundDevice, found: &[FoundDevice]) -> String {
    let FoundDevice { kind, name, .. } = best;
    let is_alike = |device: &&FoundDevice| device.is_usable() && device.kind == *kind;
    match (kind, found.iter().filter(is_alike).count()) {
        (DeviceKind::Cpu, _) => "No GPU was found that can be used here.".to_owned(),
        (_, 1) => format!("{name} is the fastest kind of device here ({kind})."),
        (_, count) => {
            format!("{name} is the first of {count} {kind} devices; name another to use it.")
        }
    }
}

/// One sentence for each accelerator that is present and better than the chosen device, but can't be used.
fn unused_accelerators(best: &FoundDevice, found: &[FoundDevice]) -> Vec<String> {
    let place = |it: &FoundDevice| (it.kind, it.ordinal);
    let usable = || found.iter().filter(|it| it.is_usable()).map(place);
    let unused = found.iter().filter(|it| it.kind < best.kind);
    let unused = unused.filter(|it| usable().all(|other| other != place(it)));
    let sentence = |it: &FoundDevice| {
        let problem = it.problem.as_ref()?;
        Some(format!("{} is not used: {problem}.", it.name))
    };
    unused.filter_map(sentence).collect()
}

fn why_not(kind: DeviceKind, ordinal: usize, found: &[FoundDevice]) -> String {
    let of_kind = || found.iter().filter(move |device| device.kind == kind);
    if let Some(device) = of_kind().find(|device| device.ordinal == ordinal) {
        let problem = device.problem.as_deref().unwrap_or_default();
        return format!("{} can’t be used: {problem}", device.name);
    }
    let known: Vec<String> = of_kind().map(FoundDevice::setting).collect();
    match (kind, known.is_empty()) {
        (_, false) => format!(
            "there is no {kind} device {ordinal}; there is {}",
            known.join(", ")
        ),
        (DeviceKind::Metal, true) => {
            "no Metal device was found; Metal exists only on macOS".to_owned()
        }
        (DeviceKind::Cuda, true) if !cfg!(feature = "cuda") => {
            "no NVIDIA card was found and this build has no CUDA engine".to_owned()
        }
        (_, true) => format!("no {kind} device was found"),
    }
}

fn why_no_gpu(found: &[FoundDevice]) -> String {
    let problems = found.iter().filter_map(|device| {
        let problem = device.problem.as_ref()?;
        Some(format!("{} can’t be used: {problem}", device.name))
    });
    let problems: Vec<String> = problems.collect();
    match problems.is_empty() {
        true => "no GPU was found".to_owned(),
        false => problems.join("; "),
    }
}

fn usable_settings(found: &[FoundDevice]) -> String {
    let usable = found.iter().filter(|device| device.is_usable());
    let mut settings: Vec<String> = usable.map(FoundDevice::setting).collect();
    settings.dedup();
    settings.join(", ")
}

/// Makes the chosen device ready.
///
/// Call it once per process and clone what it returns: two Metal devices made from the same GPU have two queues with
/// no order between them, and two CUDA devices don't share their memory pool. All work on it belongs on one thread.
///
/// Errors: [`Error::Device`] with the driver's words. A driver or library that panics is such an error too.
pub fn open(choice: &Choice) -> Result<Device> {
    let device = &choice.device;
    let failed = |why: &str| Error::Device(format!("could not open {}: {why}", device.name));
    if let Some(problem) = &device.problem {
        return Err(failed(problem));
    }
    let opened = panic::catch_unwind(|| match device.kind {
        DeviceKind::Metal => Device::new_metal(device.ordinal),
        // A stream of our own: the default is one per thread, which makes a second thread a race on the GPU.
        DeviceKind::Cuda => Device::new_cuda_with_stream(device.ordinal),
        DeviceKind::Rocm | DeviceKind::Cpu => Ok(Device::Cpu),
    });
    let opened = match opened {
        Ok(opened) => opened.map_err(|error| failed(&error.to_string()))?,
        Err(panic) => return Err(failed(&panic_message(&*panic))),
    };
    memory::prepare(&opened);
    Ok(opened)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is asked of which devices, and what comes of it.
    #[derive(Deserialize)]
    struct Case {
        what: String,
        request: RequestedDevice,
        #[serde(default)]
        strict: bool,
        found: Vec<FoundDevice>,
        /// How the chosen device is asked for; nothing when the request is refused.
        chosen: Option<String>,
        reason: String,
        #[serde(default)]
        warnings: Vec<String>,
    }

    #[test]
    fn a_device_is_chosen_replaced_or_refused_with_a_reason() {
        let cases: Vec<Case> = serde_json::from_str(include_str!("choices.json")).unwrap();
        for case in cases {
            let request = DeviceRequest {
                device: case.request,
                strict: case.strict,
            };
            let what = &case.what;
            match choose(request, &case.found) {
                Ok(choice) => {
                    assert_eq!(Some(choice.device.setting()), case.chosen, "{what}");
                    assert_eq!(choice.reason, case.reason, "{what}");
                    assert_eq!(choice.warnings, case.warnings, "{what}");
                }
                Err(error) => {
                    assert_eq!(None, case.chosen, "{what}: {error}");
                    assert_eq!(error.to_string(), case.reason, "{what}");
                }
            }
        }
    }

    #[test]
    fn opening_never_ends_the_program() {
        let open = |device| {
            open(&Choice {
                device,
                reason: String::new(),
                warnings: Vec::new(),
            })
        };
        let cpu = FoundDevice::named(DeviceKind::Cpu, 0, "EPYC");
        assert!(open(cpu).unwrap().is_cpu());
        // No machine has this card: the driver, or the build, says so.
        let absent = open(FoundDevice::named(DeviceKind::Cuda, 99, "T4"));
        let absent = absent.unwrap_err().to_string();
        assert!(absent.starts_with("could not open T4: "), "{absent}");
        let unusable = open(FoundDevice {
            problem: Some("macOS is too old".to_owned()),
            ..FoundDevice::named(DeviceKind::Metal, 0, "Apple M1")
        });
        assert_eq!(
            unusable.unwrap_err().to_string(),
            "could not open Apple M1: macOS is too old"
        );
    }
}
