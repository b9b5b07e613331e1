//! Where the machine's power comes from, and whether it saves it. A device is slower then, which its figures have to say.

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
        }
    }

    /// What a person should know of it: `on battery, in low-power mode`. Nothing when it is as it should be.
    pub(crate) fn words(self) -> Option<String> {
        let known = [
            (self.on_battery, "on battery"),
            (self.low_power_mode, "in low-power mode"),
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
    read_files(
        Path::new("/sys/class/power_supply"),
        Path::new("/sys/firmware/acpi/platform_profile"),
    )
}

/// The kernel has a folder for each battery and each plug (Documentation/ABI/testing/sysfs-class-power).
#[cfg(any(target_os = "linux", test))]
fn read_files(supplies: &Path, profile: &Path) -> Power {
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    let folders = std::fs::read_dir(supplies).into_iter().flatten().flatten();
    let mut on_battery = None;
    for folder in folders.map(|entry| entry.path()) {
        let is = |file: &str, word: &str| {
            read(&folder.join(file)).is_some_and(|text| text.trim() == word)
        };
        // A mouse has a battery too, which says nothing of the machine.
        if is("type", "Battery") && !is("scope", "Device") {
            on_battery = Some(on_battery == Some(true) || is("status", "Discharging"));
        }
    }
    let profile = read(profile);
    Power {
        on_battery,
        low_power_mode: profile.map(|text| text.trim() == "low-power"),
    }
}

#[cfg(target_os = "macos")]
fn now() -> Power {
    let said = |words: &[&str]| {
        let output = std::process::Command::new("/usr/bin/pmset")
            .args(words)
            .output();
        let text = output.ok().filter(|output| output.status.success());
        text.map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    read_pmset(said(&["-g", "batt"]).as_deref(), said(&["-g"]).as_deref())
}

/// What `pmset` says of the battery and of the settings in use.
#[cfg(any(target_os = "macos", test))]
fn read_pmset(battery: Option<&str>, settings: Option<&str>) -> Power {
    let is_set = |line: &str| {
        let (name, value) = line.trim().split_once(char::is_whitespace)?;
        // Macs that have a mode of high power too name it otherwise: 1 is low there, 2 high.
        ["lowpowermode", "powermode"]
            .contains(&name)
            .then(|| value.trim() == "1")
    };
    Power {
        on_battery: battery.map(|text| text.contains("'Battery Power'")),
        low_power_mode: settings.and_then(|text| text.lines().find_map(is_set)),
    }
}

#[cfg(windows)]
fn now() -> Power {
    use windows_sys::Win32::System::Power::{GetSystemPowerStatus, SYSTEM_POWER_STATUS};
    // SAFETY: the structure is plain numbers, and the call fills it.
    let (asked, status) = unsafe {
        let mut status: SYSTEM_POWER_STATUS = std::mem::zeroed();
        (GetSystemPowerStatus(&mut status), status)
    };
    if asked == 0 {
        return Power::default();
    }
    Power {
        on_battery: match status.ACLineStatus {
            0 => Some(true),
            1 => Some(false),
            _ => None,
        },
        low_power_mode: Some(status.SystemStatusFlag == 1),
    }
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
        let read = || read_files(&folder.path().join("supplies"), &profile);
        assert_eq!(read(), Power::default());

        supply(
            "mouse",
            &[
                ("type", "Battery"),
                ("scope", "Device"),
                ("status", "Discharging"),
            ],
        );
        assert_eq!(read().on_battery, None);

        supply("AC", &[("type", "Mains"), ("online", "0")]);
        supply("BAT0", &[("type", "Battery"), ("status", "Charging")]);
        assert_eq!(read().on_battery, Some(false));
        assert_eq!(read().words(), None);

        supply("BAT1", &[("type", "Battery"), ("status", "Discharging")]);
        fs::write(&profile, "low-power\n").unwrap();
        assert_eq!(read().words().unwrap(), "on battery, in low-power mode");
    }

    #[test]
    fn what_pmset_says_is_understood() {
        let settings = "System-wide power settings:\nCurrently in use:\n standby              1\n lowpowermode         1\n";
        let battery =
            "Now drawing from 'Battery Power'\n -InternalBattery-0 (id=1)\t80%; discharging;\n";
        let power = read_pmset(Some(battery), Some(settings));
        assert_eq!(
            (power.on_battery, power.low_power_mode),
            (Some(true), Some(true))
        );
        let plugged = read_pmset(
            Some("Now drawing from 'AC Power'\n"),
            Some(" lowpowermode 0\n"),
        );
        assert_eq!(
            (plugged.on_battery, plugged.low_power_mode),
            (Some(false), Some(false))
        );
        assert_eq!(
            read_pmset(None, Some(" powermode 1\n")).low_power_mode,
            Some(true)
        );
        assert_eq!(
            read_pmset(None, Some(" powermode 2\n")).low_power_mode,
            Some(false)
        );
        assert_eq!(read_pmset(None, None), Power::default());
        assert_eq!(plugged.or(power), power);
    }
}
