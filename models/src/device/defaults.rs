//! What a run uses on each kind of device when nothing is asked for, and why.
//!
//! One table, read by the plan, the Device page and the guide. Number formats have their own, in
//! [`dtype`](super::dtype).

use serde::Serialize;

use super::{
    DeviceKind, FoundDevice,
    dtype::{DeviceClass, Role, dtype_rule},
};

/// What is used when nothing is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DefaultChoice<T> {
    /// The default itself, as a run file would give it.
    pub value: T,
    /// Why, as a sentence.
    pub reason: &'static str,
}

const fn because<T>(value: T, reason: &'static str) -> DefaultChoice<T> {
    DefaultChoice { value, reason }
}

/// The defaults of one kind of device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceDefaults {
    /// Rows in one micro-batch.
    pub batch_rows: DefaultChoice<usize>,
    /// Whether activations are computed a second time in the backward pass instead of being kept.
    pub gradient_checkpointing: DefaultChoice<bool>,
    /// How many devices one run uses.
    pub devices: DefaultChoice<usize>,
}

impl DeviceDefaults {
    /// Each setting as a person reads it: its name, its value, and why.
    pub fn rows(&self) -> [(&'static str, String, &'static str); 3] {
        let (rows, gradient_checkpointing, devices) =
            (self.batch_rows, self.gradient_checkpointing, self.devices);
        let switch = if gradient_checkpointing.value {
            "on"
        } else {
            "off"
        };
        [
            ("batch rows", rows.value.to_string(), rows.reason),
            (
                "gradient checkpointing",
                switch.to_owned(),
                gradient_checkpointing.reason,
            ),
            ("devices", devices.value.to_string(), devices.reason),
        ]
    }
}

/// The defaults of a kind of device.
pub const fn device_defaults(kind: DeviceKind) -> DeviceDefaults {
    let (batch_rows, devices) = match kind {
        DeviceKind::Rocm | DeviceKind::Cpu => (
            because(
                4,
                "Four rows keep a few cores busy; more rows would only make each step longer.",
            ),
            "A machine has one CPU device; its cores share the work.",
        ),
        DeviceKind::Metal => (
            because(8, GPU_ROWS),
            "A Mac has one GPU, and Metal has no way to share a run between several.",
        ),
        DeviceKind::Cuda => (
            because(16, GPU_ROWS),
            "More of them share a run where they are asked for.",
        ),
    };
    DeviceDefaults {
        batch_rows,
        gradient_checkpointing: because(
            false,
            "It costs a third more time; turn it on when a run does not fit in memory.",
        ),
        devices: because(1, devices),
    }
}

const GPU_ROWS: &str = "A GPU needs more rows at once than a processor to be busy.";

/// Something that can't be done on a device, or not yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "specta", derive(specta::Type))]
pub struct Limit {
    /// `No run on several devices`.
    pub what: String,
    /// Why, as a sentence.
    pub why: &'static str,
}

/// What can't be done on a device, from the tables that its defaults come from. `bf16_checked` says whether the device
/// check has passed bf16 on it.
pub fn limits(device: &FoundDevice, bf16_checked: bool) -> Vec<Limit> {
    let class = DeviceClass::of(device, bf16_checked);
    let refused = dtype_rule(class, Role::Compute).refused.iter();
    let mut limits: Vec<Limit> = refused
        .map(|refused| Limit {
            what: format!("No computing in {}", refused.dtype),
            why: &refused.reason,
        })
        .collect();
    let defaults = device_defaults(device.kind);
    if defaults.devices.value == 1 {
        limits.push(Limit {
            what: "No run on several devices".to_owned(),
            why: defaults.devices.reason,
        });
    }
    limits
}

/// The page of the guide that shows this table and that of the number formats.
pub fn markdown() -> String {
    let mut page = String::from(
        "# Devices\n\n<!-- Generated from models/src/device/defaults.rs and dtypes.json. Edit those. -->\n\n\
         What Anneal uses on each device when you don’t ask for something else, and why. `anneal train --plan` shows \
         the same reasons for your run.\n\n## Number formats\n",
    );
    for class in DeviceClass::ALL {
        page += &format!("\n### {class}\n\n| for | format | why |\n|---|---|---|\n");
        for role in Role::ALL {
            let rule = dtype_rule(class, role);
            let [default, others @ ..] = rule.allowed.as_slice() else {
                continue;
            };
            page += &format!(
                "| {} | **{}** | {} |\n",
                role.describe(),
                default.dtype,
                default.reason
            );
            for other in others {
                page += &format!("| | or {} | {} |\n", other.dtype, other.reason);
            }
            for refused in &rule.refused {
                page += &format!("| | not {} | {} |\n", refused.dtype, refused.reason);
            }
        }
    }
    page += "\n## Settings\n";
    for kind in [DeviceKind::Metal, DeviceKind::Cuda, DeviceKind::Cpu] {
        page += &format!("\n### {kind}\n\n| setting | default | why |\n|---|---|---|\n");
        for (setting, value, reason) in device_defaults(kind).rows() {
            page += &format!("| {setting} | {value} | {reason} |\n");
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use std::{env, fs, path::Path};

    use super::*;

    #[test]
    fn the_guide_shows_the_table_as_it_is() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/devices.md");
        if env::var_os("ANNEAL_WRITE_DOCS").is_some() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, markdown()).unwrap();
        }
        let committed = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == markdown(),
            "docs/guide/devices.md is not what the tables say; set ANNEAL_WRITE_DOCS=1 and run this test again"
        );
    }

    #[test]
    fn what_a_device_can_not_do_is_in_the_words_of_the_tables() {
        let metal = FoundDevice::named(DeviceKind::Metal, 0, "Apple M3");
        let said =
            |bf16| -> Vec<String> { limits(&metal, bf16).into_iter().map(|it| it.what).collect() };
        assert!(said(false).contains(&"No computing in bf16".to_owned()));
        assert!(!said(true).contains(&"No computing in bf16".to_owned()));
        let several = limits(&metal, true).pop().unwrap();
        assert_eq!(several.what, "No run on several devices");
        assert!(several.why.contains("Metal has no way"), "{}", several.why);
    }
}
