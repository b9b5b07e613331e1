//! Where the machine's power comes from, how much is left, whether a low-power mode is on, and whether the machine is hot. Devices are
//! slower in that mode and in that heat, which figures have to mention.

#[cfg(any(target_os = "linux", test))]
use std::path::Path;

use serde::{Deserialize, Serialize};

/// What feeds the machine now. Nothing where the system does not say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Power {
    /// Whether it runs on its battery.
    pub(crate) on_battery: Option<bool>,
    /// Whether the user or the system asked for less power and speed.
    pub(crate) low_power_mode: Option<bool>,
    /// Whether it slows itself down because it is hot. Only macOS says so.
    #[serde(default)]
    pub(crate) is_hot: Option<bool>,
    /// How full the battery is: the mean of several. Figures are kept without it.
    #[serde(skip)]
    pub(crate) percent: Option<u8>,
}

impl Power {
    /// Asks the system.
    pub(crate) fn now() -> Self {
        now()
    }

    /// What holds if it held at one of two moments.
    pub(crate) fn or(self, other: Self) -> Self {
        let either = |one: Option<bool>, other: Option<bool>| match (one, other) {
            (Some(one), Some(other)) => Some(one || other),
            (one, other) => one.or(other),
        };
        Self {
            on_battery: either(self.on_battery, other.on_battery),
            low_power_mode: either(self.low_power_mode, other.low_power_mode),
            is_hot: either(self.is_hot, other.is_hot),
            percent: self.percent,
        }
    }

    /// What a person should know of it: `on battery, in low-power mode, hot`. Nothing when it is as it should be.
    pub(crate) fn describe(self) -> Option<String> {
        let known = [
            (self.on_battery, "on battery"),
            (self.low_power_mode, "in low-power mode"),
            (self.is_hot, "hot"),
        ];
        let words: Vec<&str> = known
            .iter()
            .filter(|(is_so, _)| *is_so == Some(true))
            .map(|&(_, words)| words)
            .collect();
        (!words.is_empty()).then(|| words.join(", "))
    }
}

#[cfg(target_os = "linux")]
fn now() -> Power {
    let supplies = Path::new("/sys/class/power_supply");
    read_files(supplies, Path::new("/sys/firmware/acpi/platform_profile"))
}

/// The kernel has a folder for each battery and each plug (Documentation/ABI/testing/sysfs-class-power).
#[cfg(any(target_os = "linux", test))]
fn read_files(supplies: &Path, profile: &Path) -> Power {
    let profile = std::fs::read_to_string(profile).ok();
    let folders = std::fs::read_dir(supplies).into_iter().flatten().flatten();
    let mut on_battery = None;
    let mut percents = Vec::new();
    for folder in folders.map(|entry| entry.path()) {
        let read = |file: &str| {
            let text = std::fs::read_to_string(folder.join(file));
            text.map(|text| text.trim().to_owned()).ok()
        };
        let is = |file: &str, word: &str| read(file).as_deref() == Some(word);
        // A mouse has a battery too, which says nothing of the machine.
        if is("type", "Battery") && !is("scope", "Device") {
            on_battery = Some(on_battery == Some(true) || is("status", "Discharging"));
            percents.extend(read("capacity").and_then(|text| text.parse::<u8>().ok()));
        }
    }
    Power {
        on_battery,
        low_power_mode: profile.map(|text| text.trim() == "low-power"),
        is_hot: None,
        percent: mean(&percents),
    }
}

#[cfg(any(target_os = "linux", target_os = "macos", test))]
fn mean(percents: &[u8]) -> Option<u8> {
    let sum: usize = percents.iter().copied().map(usize::from).sum();
    sum.checked_div(percents.len())
        .and_then(|mean| u8::try_from(mean).ok())
}

#[cfg(target_os = "macos")]
fn now() -> Power {
    Power {
        is_hot: is_hot(),
        ..read_pmset(pmset(&["-g", "batt"]).as_deref(), pmset(&["-g"]).as_deref())
    }
}

/// Whether the system lowers clocks: its state is serious or critical.
#[cfg(all(target_os = "macos", feature = "gui"))]
fn is_hot() -> Option<bool> {
    use objc2_foundation::{NSProcessInfo, NSProcessInfoThermalState as State};
    let state = NSProcessInfo::processInfo().thermalState();
    Some(state == State::Serious || state == State::Critical)
}

#[cfg(all(target_os = "macos", not(feature = "gui")))]
fn is_hot() -> Option<bool> {
    None
}

#[cfg(target_os = "macos")]
fn pmset(words: &[&str]) -> Option<String> {
    let output = std::process::Command::new("/usr/bin/pmset")
        .args(words)
        .output();
    let text = output.ok().filter(|output| output.status.success());
    text.map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// What `pmset` says of the battery and of the settings in use. The battery has a line for each that is inside, and others for
/// those of a mouse or a socket.
#[cfg(any(target_os = "macos", test))]
fn read_pmset(battery: Option<&str>, settings: Option<&str>) -> Power {
    let is_set = |line: &str| {
        let (name, value) = line.trim().split_once(char::is_whitespace)?;
        // Macs that have a mode of high power too name it otherwise: 1 is low there, 2 high.
        ["lowpowermode", "powermode"]
            .contains(&name)
            .then(|| value.trim() == "1")
    };
    let percent = |line: &str| {
        let rest = line.trim().strip_prefix("-InternalBattery")?;
        rest.split_once('%')?
            .0
            .rsplit(char::is_whitespace)
            .next()?
            .parse::<u8>()
            .ok()
    };
    let percents: Option<Vec<u8>> = battery.map(|text| text.lines().filter_map(percent).collect());
    Power {
        on_battery: battery.map(|text| text.contains("'Battery Power'")),
        low_power_mode: settings.and_then(|text| text.lines().find_map(is_set)),
        is_hot: None,
        percent: percents.and_then(|percents| mean(&percents)),
    }
}

#[cfg(windows)]
fn now() -> Power {
    let Some(status) = system_power() else {
        return Power::default();
    };
    Power {
        on_battery: match status.ACLineStatus {
            0 => Some(true),
            1 => Some(false),
            _ => None,
        },
        low_power_mode: Some(status.SystemStatusFlag == 1),
        is_hot: None,
        // 255 is for a machine that does not know.
        percent: Some(status.BatteryLifePercent).filter(|&percent| percent <= 100),
    }
}

#[cfg(windows)]
fn system_power() -> Option<windows_sys::Win32::System::Power::SYSTEM_POWER_STATUS> {
    use windows_sys::Win32::System::Power::{GetSystemPowerStatus, SYSTEM_POWER_STATUS};
    // SAFETY: the structure is plain numbers, and the call fills it.
    let (asked, status) = unsafe {
        let mut status: SYSTEM_POWER_STATUS = std::mem::zeroed();
        (GetSystemPowerStatus(&mut status), status)
    };
    (asked != 0).then_some(status)
}

#[cfg(not(any(target_os = "macos", target_os = "linux", windows)))]
fn now() -> Power {
    Power::default()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_battery_that_empties_is_noticed_and_that_of_a_mouse_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let profile = folder.path().join("profile");
        let supply = |name: &str, files: &[(&str, &str)]| {
            let path = folder.path().join("supplies").join(name);
            fs::create_dir_all(&path).unwrap();
            for (file, text) in files {
                fs::write(path.join(file), format!("{text}\n")).unwrap();
            }
        };
        let supplies = folder.path().join("supplies");
        let read = || read_files(&supplies, &profile);
        let percent = || read().percent;
        assert_eq!(read(), Power::default());

        supply(
            "mouse",
            &[
                ("type", "Battery"),
                ("scope", "Device"),
                ("status", "Discharging"),
                ("capacity", "3"),
            ],
        );
        assert_eq!((read().on_battery, percent()), (None, None));

        supply("AC", &[("type", "Mains"), ("online", "0")]);
        supply(
            "BAT0",
            &[
                ("type", "Battery"),
                ("status", "Charging"),
                ("capacity", "80"),
            ],
        );
        assert_eq!((read().on_battery, percent()), (Some(false), Some(80)));
        assert_eq!(read().describe(), None);

        // One that does not say how full it is is left out, and of several the mean is told.
        supply("BAT1", &[("type", "Battery"), ("status", "Discharging")]);
        assert_eq!(percent(), Some(80));
        supply("BAT1", &[("capacity", "31")]);
        assert_eq!(percent(), Some(55));
        fs::write(&profile, "low-power\n").unwrap();
        assert_eq!(read().describe().unwrap(), "on battery, in low-power mode");
    }

    #[test]
    fn what_pmset_says_is_understood() {
        let settings = "System-wide power settings:\nCurrently in use:\n standby              1\n lowpowermode         1\n";
        let battery =
            "Now drawing from 'Battery Power'\n -InternalBattery-0 (id=1)\t80%; discharging;\n";
        let plugged = "Now drawing from 'AC Power'\n";
        let other = "Now drawing from 'AC Power'\n -Mouse (id=2)\t9%; discharging present: true\n \
                     -InternalBattery-0 (id=1)\t100%; charged; 0:00 remaining present: true\n";
        for (battery, settings, on_battery, low_power_mode, percent) in [
            (
                Some(battery),
                Some(settings),
                Some(true),
                Some(true),
                Some(80),
            ),
            (
                Some(plugged),
                Some(" lowpowermode 0\n"),
                Some(false),
                Some(false),
                None,
            ),
            (None, Some(" powermode 1\n"), None, Some(true), None),
            (None, Some(" powermode 2\n"), None, Some(false), None),
            (Some(other), None, Some(false), None, Some(100)),
            (None, None, None, None, None),
        ] {
            let expected = Power {
                on_battery,
                low_power_mode,
                percent,
                is_hot: None,
            };
            assert_eq!(read_pmset(battery, settings), expected);
        }
        let plugged = read_pmset(Some(plugged), Some(" lowpowermode 0\n"));
        let both = plugged.or(read_pmset(Some(battery), Some(settings)));
        assert_eq!(both.describe().unwrap(), "on battery, in low-power mode");
        let hot = Power {
            is_hot: Some(true),
            ..plugged
        };
        assert_eq!(plugged.or(hot).describe().unwrap(), "hot");
    }
}
