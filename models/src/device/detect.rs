//! What devices this machine has, and for each that can't be used, why.
//!
//! Detection must never end the program: a driver that panics becomes a sentence. It starts nothing and caches
//! nothing, so ask once and keep the answer.
//!
//! Deliberately absent: GPUs this build has no engine for on Windows, which can't be listed without their drivers.

use std::{fs, path::Path};

use sysinfo::{CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};

use super::{DeviceKind, FoundDevice, memory, requested::NEEDS_ROCM};

/// The first macOS that candle's Metal works on: it uses residency sets, and panics where there are none.
const FIRST_MACOS_FOR_METAL: u32 = 15;

const NVIDIA: &str = "0x10de";
const AMD: &str = "0x1002";

/// Lists the devices of this machine in order of preference, the usable and the others. The CPU is always there.
pub fn detect() -> Vec<FoundDevice> {
    let mut found = metal_devices();
    found.extend(cuda_devices());
    if cfg!(target_os = "linux") {
        found.extend(unusable_cards(Path::new("/"), cfg!(feature = "cuda")));
    }
    found.push(cpu());
    found
}

fn cpu() -> FoundDevice {
    let system = System::new_with_specifics(
        RefreshKind::nothing()
            .with_cpu(CpuRefreshKind::nothing())
            .with_memory(MemoryRefreshKind::nothing().with_ram()),
    );
    let brand = system.as_ref().ok().and_then(|system| {
        let brand = system.cpus().first()?.brand().trim().to_owned();
        (!brand.is_empty()).then_some(brand)
    });
    let memory = memory::host().ok();
    // Linux on ARM gives the processor no name.
    let name = brand.unwrap_or_else(|| format!("{} processor", std::env::consts::ARCH));
    FoundDevice {
        total_bytes: memory.map(|memory| memory.total_bytes),
        free_bytes: memory.map(|memory| memory.available_bytes),
        physical_cores: System::physical_core_count().ok(),
        #[cfg(target_arch = "x86_64")]
        multiplies_bf16: is_x86_feature_detected!("avx512bf16"),
        ..FoundDevice::named(DeviceKind::Cpu, 0, name)
    }
}

#[cfg(not(target_os = "macos"))]
fn metal_devices() -> Vec<FoundDevice> {
    Vec::new()
}

/// Apple silicon names its GPU after the whole chip, so a build without Metal can still name it.
#[cfg(all(target_os = "macos", not(feature = "metal")))]
fn metal_devices() -> Vec<FoundDevice> {
    let cpu = cpu();
    if !cpu.name.starts_with("Apple") {
        return Vec::new();
    }
    vec![FoundDevice {
        kind: DeviceKind::Metal,
        physical_cores: None,
        problem: Some("this build has no Metal engine".to_owned()),
        ..cpu
    }]
}

#[cfg(all(target_os = "macos", feature = "metal"))]
fn metal_devices() -> Vec<FoundDevice> {
    use objc2_metal::{MTLCopyAllDevices, MTLDevice, MTLGPUFamily};

    let macos = System::os_version().ok();
    let devices = MTLCopyAllDevices().to_vec();
    devices
        .iter()
        .enumerate()
        .map(|(ordinal, device)| {
            let name = device.name().to_string();
            let total = device.recommendedMaxWorkingSetSize();
            let is_apple = device.supportsFamily(MTLGPUFamily::Apple7);
            FoundDevice {
                total_bytes: Some(total),
                free_bytes: Some(total.saturating_sub(device.currentAllocatedSize() as u64)),
                problem: metal_problem(macos.as_deref(), is_apple),
                ..FoundDevice::named(DeviceKind::Metal, ordinal, name)
            }
        })
        .collect()
}

/// Why a Metal device can't be used on this version of macOS, if so.
#[cfg_attr(
    not(any(test, all(target_os = "macos", feature = "metal"))),
    expect(dead_code, reason = "tested everywhere, used on macOS")
)]
fn metal_problem(macos: Option<&str>, is_apple: bool) -> Option<String> {
    let major = macos.and_then(|version| version.split('.').next()?.parse::<u32>().ok());
    match (macos, major) {
        (Some(version), Some(major)) if major < FIRST_MACOS_FOR_METAL => Some(format!(
            "this is macOS {version} and the Metal engine needs macOS {FIRST_MACOS_FOR_METAL} or newer; update macOS"
        )),
        (_, None) => Some(format!(
            "the version of macOS could not be read, and the Metal engine needs {FIRST_MACOS_FOR_METAL} or newer"
        )),
        // The matrix kernels use instructions that came with the M1; GPUs in Intel Macs and virtual ones lack them.
        _ if !is_apple => Some("the Metal engine needs the GPU of Apple silicon".to_owned()),
        _ => None,
    }
}

#[cfg(not(feature = "cuda"))]
fn cuda_devices() -> Vec<FoundDevice> {
    Vec::new()
}

/// A missing card or driver is an empty list here; [`unusable_cards`] then explains a card that is there.
#[cfg(feature = "cuda")]
fn cuda_devices() -> Vec<FoundDevice> {
    use candle_core::cuda_backend::cudarc::driver::CudaContext;

    let count = std::panic::catch_unwind(CudaContext::device_count);
    let count = count.ok().and_then(Result::ok).unwrap_or(0);
    (0..usize::try_from(count).unwrap_or(0))
        .map(cuda_device)
        .collect()
}

#[cfg(feature = "cuda")]
fn cuda_device(ordinal: usize) -> FoundDevice {
    use candle_core::cuda_backend::cudarc::driver::{CudaContext, DriverError};

    let asked = std::panic::catch_unwind(|| -> Result<FoundDevice, DriverError> {
        let context = CudaContext::new(ordinal)?;
        let (free, total) = context.mem_get_info()?;
        let (major, minor) = context.compute_capability()?;
        Ok(FoundDevice {
            total_bytes: Some(total as u64),
            free_bytes: Some(free as u64),
            compute_capability: Some((major.unsigned_abs(), minor.unsigned_abs())),
            cudnn_version: crate::library::cudnn().map(|it| it.version.clone()),
            ..FoundDevice::named(DeviceKind::Cuda, ordinal, context.name()?)
        })
    });
    let message = match asked {
        Ok(Ok(device)) => return device,
        Ok(Err(error)) => error.to_string(),
        Err(panic) => crate::panic_message(&*panic),
    };
    FoundDevice {
        problem: Some(format!("its driver answered: {message}")),
        ..FoundDevice::named(DeviceKind::Cuda, ordinal, format!("NVIDIA card {ordinal}"))
    }
}

/// The cards in a Linux machine that this program can't use: those of AMD, and those of NVIDIA when there is no CUDA
/// in the build or no driver.
///
/// `root` is the folder that holds `sys` and `proc`: `/`, or a made-up one in tests.
fn unusable_cards(root: &Path, built_with_cuda: bool) -> Vec<FoundDevice> {
    let driver = root.join("proc/driver/nvidia/version").exists();
    let mut found: Vec<FoundDevice> = Vec::new();
    for card in cards(root) {
        let (kind, problem) = match (card.vendor.as_str(), built_with_cuda, driver) {
            (AMD, _, _) => (DeviceKind::Rocm, NEEDS_ROCM),
            (NVIDIA, false, true) => (DeviceKind::Cuda, "this build has no CUDA engine"),
            (NVIDIA, false, false) => (
                DeviceKind::Cuda,
                "this build has no CUDA engine, and NVIDIA’s driver is not installed",
            ),
            (NVIDIA, true, false) => (
                DeviceKind::Cuda,
                "NVIDIA’s driver is not installed; install it and start again",
            ),
            // With engine and driver the card has been found by asking the driver; other makers have no engine.
            _ => continue,
        };
        let ordinal = found.iter().filter(|device| device.kind == kind).count();
        found.push(FoundDevice {
            problem: Some(problem.to_owned()),
            ..FoundDevice::named(kind, ordinal, card.name(root))
        });
    }
    found
}

/// A graphics card as Linux lists it, its ids as written there: `0x1002`.
struct Card {
    vendor: String,
    device: String,
}

impl Card {
    /// Its name from the machine's list of PCI ids, or the ids themselves.
    fn name(&self, root: &Path) -> String {
        let maker = if self.vendor == AMD { "AMD" } else { "NVIDIA" };
        let (vendor, device) = (without_0x(&self.vendor), without_0x(&self.device));
        let list = ["usr/share/hwdata/pci.ids", "usr/share/misc/pci.ids"]
            .iter()
            .find_map(|path| fs::read(root.join(path)).ok())
            .unwrap_or_default();
        match pci_name(&String::from_utf8_lossy(&list), vendor, device) {
            Some(name) => format!("{maker} {name}"),
            None => format!("{maker} graphics card (PCI {vendor}:{device})"),
        }
    }
}

fn without_0x(id: &str) -> &str {
    id.strip_prefix("0x").unwrap_or(id)
}

/// The graphics cards under `sys/class/drm`, in order of their names there. `card0-HDMI-A-1` is a socket, not a card.
fn cards(root: &Path) -> Vec<Card> {
    let Ok(entries) = fs::read_dir(root.join("sys/class/drm")) else {
        return Vec::new();
    };
    let mut folders: Vec<_> = entries
        .flatten()
        .filter(|entry| {
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix("card"));
            number.is_some_and(|number| number.parse::<u32>().is_ok())
        })
        .map(|entry| entry.path().join("device"))
        .collect();
    folders.sort();
    let read = |path| Some(fs::read_to_string(path).ok()?.trim().to_owned());
    folders
        .iter()
        .filter_map(|folder| {
            Some(Card {
                vendor: read(folder.join("vendor"))?,
                device: read(folder.join("device"))?,
            })
        })
        .collect()
}

/// Looks up a card in a list in the format of <https://pci-ids.ucw.cz>: a line `1002  Maker`, then one line
/// `<tab>744c  Name` for each of its devices. The ids are hexadecimal without `0x`.
fn pci_name<'a>(list: &'a str, vendor: &str, device: &str) -> Option<&'a str> {
    list.lines()
        .skip_while(|line| !line.starts_with(vendor))
        .skip(1)
        .take_while(|line| line.starts_with('\t') || line.starts_with('#'))
        .find_map(|line| line.strip_prefix('\t')?.strip_prefix(device))
        .map(str::trim)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A machine with the given card, its name, vendor and device, and perhaps NVIDIA's driver.
    fn machine([name, vendor, device]: [&str; 3], driver: bool) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("sys/class/drm").join(name).join("device");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("vendor"), format!("{vendor}\n")).unwrap();
        fs::write(folder.join("device"), format!("{device}\n")).unwrap();
        if driver {
            fs::create_dir_all(root.path().join("proc/driver/nvidia")).unwrap();
            fs::write(root.path().join("proc/driver/nvidia/version"), "NVRM").unwrap();
        }
        root
    }

    #[test]
    fn a_card_without_an_engine_or_driver_is_named_and_explained() {
        let (amd, nvidia) = (["card0", AMD, "0x744c"], ["card1", NVIDIA, "0x2336"]);
        let rocm = "Rocm AMD graphics card (PCI 1002:744c): it would need an engine built for AMD’s ROCm, which candle has \
                    no release of";
        let is_a_socket = ["card0-HDMI-A-1", AMD, "0x744c"];
        for (card, built_with_cuda, driver, expected) in [
            (amd, false, false, rocm),
            (is_a_socket, false, false, ""),
            (
                nvidia,
                false,
                true,
                "Cuda NVIDIA graphics card (PCI 10de:2336): this build has no CUDA engine",
            ),
            (
                nvidia,
                false,
                false,
                "Cuda NVIDIA graphics card (PCI 10de:2336): this build has no CUDA engine, and NVIDIA’s driver is not \
                 installed",
            ),
            (
                nvidia,
                true,
                false,
                "Cuda NVIDIA graphics card (PCI 10de:2336): NVIDIA’s driver is not installed; install it and start again",
            ),
            // Asking the driver has found it.
            (nvidia, true, true, ""),
            // Another maker's.
            (["card0", "0x8086", "0x46a6"], false, false, ""),
        ] {
            let found = unusable_cards(machine(card, driver).path(), built_with_cuda);
            let said = found.iter().map(|it| {
                let problem = it.problem.as_deref().unwrap();
                format!("{:?} {}: {problem}", it.kind, it.name)
            });
            assert_eq!(said.collect::<String>(), expected);
        }
        assert_eq!(unusable_cards(Path::new("/none"), false), []);
    }

    #[test]
    fn a_card_gets_its_name_from_the_machines_list() {
        let root = machine(["card0", AMD, "0x744c"], false);
        let list = root.path().join("usr/share/misc");
        fs::create_dir_all(&list).unwrap();
        let text = "# List\n1001  Other\n\t744c  Wrong\n1002  AMD/ATI\n\t7448  Pro\n\t744c  Navi 31 [Radeon RX 7900]\n\t\t1002 0001  Board\n1003  X\n";
        fs::write(list.join("pci.ids"), text).unwrap();
        assert_eq!(
            unusable_cards(root.path(), false)[0].name,
            "AMD Navi 31 [Radeon RX 7900]"
        );
    }

    #[test]
    fn metal_needs_macos_15_and_an_apple_gpu() {
        assert_eq!(metal_problem(Some("15.0"), true), None);
        assert_eq!(metal_problem(Some("26.1.2"), true), None);
        assert_eq!(
            metal_problem(Some("14.7.1"), true).unwrap(),
            "this is macOS 14.7.1 and the Metal engine needs macOS 15 or newer; update macOS"
        );
        let says = |macos, is_apple, words| metal_problem(macos, is_apple).unwrap().contains(words);
        assert!(says(Some("15.2"), false, "Apple silicon"));
        assert!(says(None, true, "could not be read"));
    }

    #[test]
    fn the_cpu_is_always_found_with_its_name_and_memory() {
        let found = detect();
        let cpu = found.last().unwrap();
        assert_eq!(cpu.kind, DeviceKind::Cpu);
        assert!(cpu.is_usable() && !cpu.name.is_empty());
        assert!(cpu.total_bytes.unwrap() >= cpu.free_bytes.unwrap());
        // Not every system counts them.
        assert!(cpu.physical_cores.is_none_or(|cores| cores > 0));
    }
}
