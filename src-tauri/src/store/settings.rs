//! What the user prefers, in a file that a person can read and change.
//!
//! The file is made when something is first set. Setting changes one line and keeps all others, so comments and
//! fields of a newer version survive.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use models::device::RequestedDevice;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

use super::{limits, yaml};
use crate::{
    power::watch::PauseRules,
    wire::error::{AppError, Result},
};

/// The first version of the file.
const TEMPLATE: &str = "\
# Settings of Anneal. Every line can be changed by hand; a line that is removed takes its default.

# Where models are trained when a run does not say: auto, cpu, metal, cuda, or cuda:1 for the second one.
device: auto

# More folders with models in the layout of the Hugging Face Hub.
model_folders: []

# How the window looks: system, light or dark.
theme: system

# Whether the system tells you that a run ended while you look at something else.
notifications: true

# Whether the machine stays awake while a run is running.
keep_awake: true

# Whether a run waits while the machine runs on its battery.
pause_on_battery: false

# How full the battery has to be for a run to continue without mains power, in percent. 0 lets it continue to the end.
pause_below_percent: 0
";

/// How the window looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "gui", derive(specta::Type))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Theme {
    /// As the system does.
    System,
    /// Dark words on light ground.
    Light,
    /// Light words on dark ground.
    Dark,
}

/// What the user prefers.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Settings {
    /// The device of a run that does not name one.
    pub(crate) device: RequestedDevice,
    /// More folders with models.
    pub(crate) model_folders: Vec<PathBuf>,
    /// How the window looks.
    pub(crate) theme: Theme,
    /// Whether the system tells that a run ended while the window is not looked at.
    pub(crate) notifications: bool,
    /// Whether the machine stays awake while a run is running.
    pub(crate) keep_awake: bool,
    /// Whether a run waits while the machine runs on its battery.
    pub(crate) pause_on_battery: bool,
    /// Without mains power, a run waits below so many percent of the battery. 0 is never.
    #[serde(deserialize_with = "percent")]
    pub(crate) pause_below_percent: u8,
    /// Fields that this version does not know.
    #[serde(flatten)]
    unknown: BTreeMap<String, serde_json::Value>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            device: RequestedDevice::Auto,
            model_folders: Vec::new(),
            theme: Theme::System,
            notifications: true,
            keep_awake: true,
            pause_on_battery: false,
            pause_below_percent: 0,
            unknown: BTreeMap::new(),
        }
    }
}

impl Settings {
    /// When a run is to wait for the machine's power.
    pub(crate) fn pause_rules(&self) -> PauseRules {
        PauseRules {
            on_battery: self.pause_on_battery,
            below_percent: self.pause_below_percent,
        }
    }

    /// Reads the file, if there is one. Also returns a sentence for each field that is not known.
    pub(crate) fn read(path: &Path) -> Result<(Self, Vec<String>)> {
        if !path.exists() {
            return Ok((Self::default(), Vec::new()));
        }
        let text = limits::read_text(limits::YAML_FILE, path, "read the settings")?;
        let settings: Self = yaml::parse(&text, path).map_err(|error| {
            error.with_hint("mend it by hand, or with `anneal device --use auto`")
        })?;
        let warnings = settings.unknown.keys().map(|field| {
            let is_field = |line: &str| line.trim_start().starts_with(&format!("{field}:"));
            let line = text.lines().position(is_field).unwrap_or_default() + 1;
            let path = path.display();
            format!("`{field}` in line {line} of the settings is not known and changes nothing: `{path}`")
        });
        let warnings = warnings.collect();
        Ok((settings, warnings))
    }

    /// Writes one field, and leaves everything else in the file as it is.
    pub(crate) fn set(path: &Path, field: &str, value: &str) -> Result<()> {
        let text = match path.exists() {
            true => limits::read_text(limits::YAML_FILE, path, "read the settings")?,
            false => TEMPLATE.to_owned(),
        };
        let line = format!("{field}: {value}");
        let begin = format!("{field}:");
        let mut found = false;
        // A value that continues in the lines below is replaced with them.
        let mut inside = false;
        let mut lines = Vec::new();
        for old in text.lines() {
            if old.starts_with(&begin) {
                found = true;
                lines.push(line.as_str());
            } else if !(inside && old.starts_with([' ', '-'])) {
                lines.push(old);
            }
            inside = old.starts_with(&begin) || (inside && old.starts_with([' ', '-']));
        }
        if !found {
            lines.push(&line);
        }
        let text = lines.join("\n") + "\n";
        yaml::parse::<Self>(&text, path)?;
        super::write_file(path, text.as_bytes())
    }

    /// Writes one field, also where the file can't be read: if another value of the field does not mend it, it is put aside,
    /// and a new one made. Returns where the old one is then.
    pub(crate) fn repair(path: &Path, field: &str, value: &str) -> Result<Option<PathBuf>> {
        let Err(error) = Self::set(path, field, value) else {
            return Ok(None);
        };
        // A file that is fine did not keep the field from being written.
        if Self::read(path).is_ok() {
            return Err(error);
        }
        let aside = |number: u32| path.with_extension(format!("broken-{number}.yaml"));
        let free = (1..).map(aside).find(|aside| !aside.exists());
        let aside = free.unwrap_or_else(|| aside(0));
        fs::rename(path, &aside).map_err(AppError::file("put the settings aside", path))?;
        Self::set(path, field, value)?;
        Ok(Some(aside))
    }
}

fn percent<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<u8, D::Error> {
    let percent = i64::deserialize(from)?;
    let fits = u8::try_from(percent).ok().filter(|&it| it <= 100);
    fits.ok_or_else(|| D::Error::custom(format!("{percent} is not a percentage from 0 to 100")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_file_everything_has_its_default() {
        let home = tempfile::tempdir().unwrap();
        let (settings, warnings) = Settings::read(&home.path().join("settings.yaml")).unwrap();
        assert_eq!(settings, Settings::default());
        assert!(warnings.is_empty());
    }

    #[test]
    fn setting_a_field_keeps_comments_and_unknown_fields() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("config/settings.yaml");
        Settings::set(&path, "device", "cpu").unwrap();
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            TEMPLATE.replace("device: auto", "device: cpu")
        );

        fs::write(&path, "# Mine.\nnews: [1]\ndevice: cpu\n").unwrap();
        Settings::set(&path, "device", "metal").unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, "# Mine.\nnews: [1]\ndevice: metal\n");
        let (settings, warnings) = Settings::read(&path).unwrap();
        assert_eq!(settings.device, RequestedDevice::Metal);
        assert!(
            warnings[0].starts_with("`news` in line 2 of the settings is not known"),
            "{warnings:?}"
        );
    }

    #[test]
    fn a_file_that_cannot_be_read_is_mended_or_put_aside() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("settings.yaml");
        let files = || fs::read_dir(home.path()).unwrap().count();
        // Only the value is wrong, so all else stays.
        fs::write(&path, "# Mine.\ndevice: moon\ntheme: dark\n").unwrap();
        assert_eq!(Settings::repair(&path, "device", "cpu").unwrap(), None);
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, "# Mine.\ndevice: cpu\ntheme: dark\n");
        for broken in [&b"theme: [dark\n"[..], b"\xff\xfe", b"theme: sunny\n"] {
            let before = files();
            fs::write(&path, broken).unwrap();
            let aside = Settings::repair(&path, "device", "cpu").unwrap().unwrap();
            assert_eq!(fs::read(aside).unwrap(), broken);
            assert_eq!(files(), before + 1, "nothing put aside earlier is lost");
            let (settings, warnings) = Settings::read(&path).unwrap();
            assert_eq!(settings.device, RequestedDevice::Cpu);
            assert!(warnings.is_empty());
        }
        // A value that is wrong by itself is no reason to put anything aside.
        assert!(Settings::repair(&path, "device", "moon").is_err());
        assert_eq!(files(), 4);
    }

    #[test]
    fn setting_a_list_replaces_all_its_lines() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("settings.yaml");
        fs::write(
            &path,
            "model_folders:\n  - /a\n  # Large.\n  - /b\ndevice: cpu\n",
        )
        .unwrap();
        Settings::set(&path, "model_folders", "[/c]").unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, "model_folders: [/c]\ndevice: cpu\n");
    }

    #[test]
    fn a_wrong_value_is_named_with_its_line() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("settings.yaml");
        fs::write(&path, "device: cpu\nmodel_folders: 7\n").unwrap();
        let error = Settings::read(&path).unwrap_err();
        assert!(
            error.message.starts_with("`model_folders` in line 2: "),
            "{}",
            error.message
        );
    }

    #[test]
    fn a_share_of_the_battery_is_a_percentage() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("settings.yaml");
        Settings::set(&path, "pause_below_percent", "20").unwrap();
        assert_eq!(Settings::read(&path).unwrap().0.pause_below_percent, 20);
        for wrong in ["101", "-1", "half"] {
            let error = Settings::set(&path, "pause_below_percent", wrong).unwrap_err();
            let begin = "`pause_below_percent` in line 22: ";
            assert!(error.message.starts_with(begin), "{}", error.message);
        }
        assert_eq!(Settings::read(&path).unwrap().0.pause_below_percent, 20);
    }
}
