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

use std::{fmt, panic};

pub use candle_core::Device;
pub use checked::Checked;
pub use requested::RequestedDevice;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

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
    /// Major and minor compute capability; only for CUDA. 8.0 and above compute in bf16.
    pub compute_capability: Option<(u32, u32)>,
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
            compute_capability: None,
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
    /// The device.
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
    let others = found
        .iter()
        .filter(|device| device.is_usable() && device.kind == best.kind)
        .count()
        - 1;
    match best.kind {
        DeviceKind::Cpu => "No GPU was found that can be used here.".to_owned(),
        _ if others > 0 => format!(
            "{} is the first of {} {} devices; name another to use it.",
            best.name,
            others + 1,
            best.kind
        ),
        _ => format!(
            "{} is the fastest kind of device here ({}).",
            best.name, best.kind
        ),
    }
}

/// One sentence for each accelerator that is present and better than the chosen device, but can't be used.
fn unused_accelerators(best: &FoundDevice, found: &[FoundDevice]) -> Vec<String> {
    let usable_elsewhere = |device: &FoundDevice| {
        found.iter().any(|other| {
            other.is_usable() && other.kind == device.kind && other.ordinal == device.ordinal
        })
    };
    found
        .iter()
        .filter(|device| device.kind < best.kind && !usable_elsewhere(device))
        .filter_map(|device| {
            let problem = device.problem.as_ref()?;
            Some(format!("{} is not used: {problem}.", device.name))
        })
        .collect()
}

fn why_not(kind: DeviceKind, ordinal: usize, found: &[FoundDevice]) -> String {
    let of_kind = || found.iter().filter(move |device| device.kind == kind);
    if let Some(device) = of_kind().find(|device| device.ordinal == ordinal) {
        let problem = device.problem.as_deref().unwrap_or_default();
        return format!("{} can't be used: {problem}", device.name);
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
        Some(format!("{} can't be used: {problem}", device.name))
    });
    let problems: Vec<String> = problems.collect();
    match problems.is_empty() {
        true => "no GPU was found".to_owned(),
        false => problems.join("; "),
    }
}

fn usable_settings(found: &[FoundDevice]) -> String {
    let mut settings: Vec<String> = found
        .iter()
        .filter(|device| device.is_usable())
        .map(FoundDevice::setting)
        .collect();
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
    if let Some(problem) = &device.problem {
        return Err(Error::Device(format!(
            "could not open {}: {problem}",
            device.name
        )));
    }
    let opened = panic::catch_unwind(|| match device.kind {
        DeviceKind::Metal => Device::new_metal(device.ordinal),
        // A stream of our own: the default is one per thread, which makes a second thread a race on the GPU.
        DeviceKind::Cuda => Device::new_cuda_with_stream(device.ordinal),
        DeviceKind::Rocm | DeviceKind::Cpu => Ok(Device::Cpu),
    });
    let opened = match opened {
        Ok(Ok(opened)) => opened,
        Ok(Err(error)) => {
            return Err(Error::Device(format!(
                "could not open {}: {error}",
                device.name
            )));
        }
        Err(panic) => {
            let message = panic_message(&*panic);
            return Err(Error::Device(format!(
                "could not open {}: {message}",
                device.name
            )));
        }
    };
    memory::prepare(&opened);
    Ok(opened)
}

/// What a caught panic said.
pub fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("it failed without saying why").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usable(kind: DeviceKind, ordinal: usize, name: &str) -> FoundDevice {
        FoundDevice::named(kind, ordinal, name)
    }

    fn unusable(kind: DeviceKind, name: &str, problem: &str) -> FoundDevice {
        FoundDevice {
            problem: Some(problem.to_owned()),
            ..FoundDevice::named(kind, 0, name)
        }
    }

    fn cpu() -> FoundDevice {
        usable(DeviceKind::Cpu, 0, "EPYC")
    }

    /// What is chosen, the reason, and the warnings; or the refusal.
    fn chosen(
        request: &str,
        strict: bool,
        found: &[FoundDevice],
    ) -> Result<(String, String, Vec<String>), String> {
        let device = request.parse().unwrap();
        choose(DeviceRequest { device, strict }, found)
            .map(|choice| (choice.device.setting(), choice.reason, choice.warnings))
            .map_err(|error| error.to_string())
    }

    #[track_caller]
    fn check(request: &str, found: &[FoundDevice], setting: &str, reason: &str, warnings: &[&str]) {
        let warnings = warnings.iter().map(|&warning| warning.to_owned()).collect();
        let expected = Ok((setting.to_owned(), reason.to_owned(), warnings));
        assert_eq!(chosen(request, false, found), expected);
    }

    #[test]
    fn the_best_usable_device_is_taken_with_a_reason() {
        let metal = usable(DeviceKind::Metal, 0, "Apple M3");
        let reason = "Apple M3 is the fastest kind of device here (Metal).";
        check("auto", &[metal, cpu()], "metal", reason, &[]);

        let reason = "No GPU was found that can be used here.";
        check("auto", &[cpu()], "cpu", reason, &[]);

        let (first, second) = (
            usable(DeviceKind::Cuda, 0, "H200"),
            usable(DeviceKind::Cuda, 1, "T4"),
        );
        let reason = "H200 is the first of 2 CUDA devices; name another to use it.";
        check(
            "auto",
            &[second.clone(), cpu(), first.clone()],
            "cuda",
            reason,
            &[],
        );
        check(
            "cuda:1",
            &[first, second, cpu()],
            "cuda:1",
            "T4 (cuda:1) was asked for.",
            &[],
        );
    }

    #[test]
    fn a_gpu_that_cannot_be_used_is_explained() {
        let metal = unusable(
            DeviceKind::Metal,
            "Apple M1",
            "this is macOS 14.7 and too old",
        );
        check(
            "auto",
            &[metal, cpu()],
            "cpu",
            "No GPU was found that can be used here.",
            &["Apple M1 is not used: this is macOS 14.7 and too old."],
        );
        let amd = unusable(DeviceKind::Rocm, "AMD Navi 31", "it would need ROCm");
        check(
            "auto",
            &[amd.clone(), cpu()],
            "cpu",
            "No GPU was found that can be used here.",
            &["AMD Navi 31 is not used: it would need ROCm."],
        );
        // Beside a better card it is no loss.
        let cuda = usable(DeviceKind::Cuda, 0, "H200");
        check(
            "auto",
            &[amd, cuda, cpu()],
            "cuda",
            "H200 is the fastest kind of device here (CUDA).",
            &[],
        );
    }

    #[test]
    fn a_card_that_another_engine_can_use_is_usable() {
        let here = unusable(
            DeviceKind::Cuda,
            "NVIDIA graphics card",
            "this build has no CUDA engine",
        );
        let there = usable(DeviceKind::Cuda, 0, "H200");
        let found = [here, cpu(), there, cpu()];
        check(
            "auto",
            &found,
            "cuda",
            "H200 is the fastest kind of device here (CUDA).",
            &[],
        );
        check("cuda", &found, "cuda", "H200 (cuda) was asked for.", &[]);
    }

    #[test]
    fn the_cpu_can_be_asked_for_beside_a_gpu() {
        let found = [usable(DeviceKind::Metal, 0, "Apple M3"), cpu()];
        check("cpu", &found, "cpu", "EPYC (cpu) was asked for.", &[]);
    }

    #[test]
    fn a_missing_device_is_replaced_with_a_warning_or_refused() {
        check(
            "metal",
            &[cpu()],
            "cpu",
            "metal could not be had: no Metal device was found; Metal exists only on macOS.",
            &[
                "metal was asked for, but no Metal device was found; Metal exists only on macOS. EPYC (cpu) is used \
                 instead.",
            ],
        );
        let two = [
            usable(DeviceKind::Cuda, 0, "H200"),
            usable(DeviceKind::Cuda, 1, "H200"),
            cpu(),
        ];
        check(
            "cuda:3",
            &two,
            "cuda",
            "cuda:3 could not be had: there is no CUDA device 3; there is cuda, cuda:1.",
            &[
                "cuda:3 was asked for, but there is no CUDA device 3; there is cuda, cuda:1. H200 (cuda) is used instead.",
            ],
        );
        assert_eq!(
            chosen("cuda:3", true, &two).unwrap_err(),
            "`device` is cuda:3 and must be obeyed (strict), but there is no CUDA device 3; there is cuda, cuda:1; \
             usable here: cuda, cuda:1, cpu"
        );
        let metal = unusable(
            DeviceKind::Metal,
            "Apple M1",
            "this is macOS 14.7 and too old",
        );
        assert_eq!(
            chosen("metal", true, &[metal, cpu()]).unwrap_err(),
            "`device` is metal and must be obeyed (strict), but Apple M1 can't be used: this is macOS 14.7 and too \
             old; usable here: cpu"
        );
    }

    #[test]
    fn a_strict_auto_takes_what_there_is() {
        assert_eq!(chosen("auto", true, &[cpu()]).unwrap().0, "cpu");
        assert!(chosen("auto", false, &[]).is_err());
    }

    #[test]
    fn a_gpu_is_the_best_there_is_and_never_the_processor_in_silence() {
        let cuda = usable(DeviceKind::Cuda, 0, "H200");
        let reason = "H200 is the fastest kind of device here (CUDA).";
        check("gpu", &[cpu(), cuda], "cuda", reason, &[]);
        check(
            "gpu",
            &[cpu()],
            "cpu",
            "gpu could not be had: no GPU was found.",
            &["gpu was asked for, but no GPU was found. EPYC (cpu) is used instead."],
        );
        let amd = unusable(DeviceKind::Rocm, "AMD Navi 31", "it would need ROCm");
        assert_eq!(
            chosen("gpu", true, &[amd, cpu()]).unwrap_err(),
            "`device` is gpu and must be obeyed (strict), but AMD Navi 31 can't be used: it would need ROCm; usable \
             here: cpu"
        );
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
        assert!(open(cpu()).unwrap().is_cpu());
        // No machine has this card: the driver, or the build, says so.
        let absent = open(usable(DeviceKind::Cuda, 99, "T4"))
            .unwrap_err()
            .to_string();
        assert!(absent.starts_with("could not open T4: "), "{absent}");
        let problem = open(unusable(DeviceKind::Metal, "Apple M1", "macOS is too old"));
        assert_eq!(
            problem.unwrap_err().to_string(),
            "could not open Apple M1: macOS is too old"
        );
    }
}
