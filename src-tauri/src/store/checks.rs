//! What the device checks found, the last of each device, for this version of the app on this version of the system.

#[cfg(feature = "gui")]
pub(crate) mod view;

use models::{
    check::{CheckRow, Fallback},
    device::{
        Checked, FoundDevice,
        defaults::{Limit, limits},
    },
};
use serde::{Deserialize, Serialize};

use super::{paths::Paths, read_list, write_json};
use crate::wire::error::Result;

/// Where the verdict stands in a row of words.
pub(crate) const VERDICT: usize = 2;

/// What a check found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct CheckReport {
    /// The app's version.
    pub(crate) version: String,
    /// The system and its version: `macOS 15.1`.
    pub(crate) system: String,
    /// What was checked, as it was found then.
    pub(crate) device: FoundDevice,
    /// When it ended, in UTC.
    pub(crate) time: String,
    /// How long it took.
    pub(crate) seconds: f64,
    /// What is not about numbers.
    pub(crate) steps: Vec<Step>,
    /// Every operation that was tried, in each dtype.
    pub(crate) rows: Vec<CheckRow>,
    /// Who else used the device meanwhile, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) warning: Option<String>,
}

/// Something a run needs besides right numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "gui", derive(specta::Type))]
pub(crate) struct Step {
    /// `The engine starts`.
    pub(crate) name: String,
    /// Why it does not work. Nothing when it does.
    pub(crate) problem: Option<String>,
}

impl CheckReport {
    /// What it means for a plan.
    pub(crate) fn checked(&self) -> Checked {
        Checked::from_rows(&self.rows)
    }

    /// What came out, in one line.
    pub(crate) fn verdict(&self) -> String {
        let device = format!("{} ({})", self.device.name, self.device.kind);
        let problem = self
            .steps
            .iter()
            .find_map(|step| Some((&step.name, step.problem.as_ref()?)));
        if let Some((name, problem)) = problem {
            return format!("Not ready: {}: {problem}", name.to_lowercase());
        }
        match self.checked().training_failed {
            Some(failed) => format!("Not ready to train on {device}: {failed}. Runs use the CPU"),
            None => format!("Ready to train on {device}"),
        }
    }

    /// Whether runs may use the device.
    pub(crate) fn is_ready(&self) -> bool {
        self.steps.iter().all(|step| step.problem.is_none())
            && self.checked().training_failed.is_none()
    }

    /// What its times are worth, and what plans do with it: whole sentences.
    pub(crate) fn consequences(&self) -> Vec<String> {
        let checked = self.checked();
        let mut sentences: Vec<String> = self.warning.iter().cloned().collect();
        if !checked.composed.is_empty() {
            let names = checked.composed.join(", ");
            sentences.push(format!(
                "Runs compute {names} without special kernels, which failed here or took longer."
            ));
        }
        for dtype in &checked.refused_dtypes {
            sentences.push(format!("Nothing is computed in {dtype} on this device."));
        }
        sentences
    }

    /// What can't be done on the device, or not yet.
    pub(crate) fn limits(&self) -> Vec<Limit> {
        limits(&self.device, self.checked().bf16)
    }

    /// A row in words: operation, dtype, verdict, error, the times, and what is done instead.
    pub(crate) fn cells(&self, row: &CheckRow) -> Vec<String> {
        let millis = |millis: Option<f64>| millis.map_or(String::new(), |it| format!("{it:.2} ms"));
        let verdict = serde_json::to_value(row.verdict).unwrap_or_default();
        let error = row.error.map_or(String::new(), |error| {
            format!("{error:.1e} of {:.1e}", row.tolerance)
        });
        let instead = row.fallback.map(instead);
        let message = [instead, row.message.as_deref()]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(": ");
        vec![
            row.operation.clone(),
            row.dtype.to_string(),
            verdict.as_str().unwrap_or_default().to_owned(),
            error,
            millis(row.device_millis),
            row.composed_millis
                .map_or(String::new(), |it| format!("composed {it:.2} ms")),
            row.cpu_millis
                .map_or(String::new(), |it| format!("CPU {it:.2} ms")),
            message,
        ]
    }

    /// Everything as Markdown, to paste where help is asked for: no names, paths or numbers of a machine.
    pub(crate) fn text(&self) -> String {
        let Self {
            version,
            system,
            device,
            seconds,
            ..
        } = self;
        let mut text = format!(
            "Anneal {version} on {system}\n{} ({}), checked in {seconds:.0} s\n\n",
            device.name, device.kind
        );
        for step in &self.steps {
            let answer = if step.problem.is_none() { "yes" } else { "no" };
            text += &format!("- {}: {answer}\n", step.name);
        }
        text += "\n| Operation | Dtype | Verdict | Error | Device | Without its kernel | CPU | |\n|---|---|---|---|---|---|---|---|\n";
        for row in &self.rows {
            // A compiler's words have lines.
            let cells = self.cells(row).join(" | ").replace('\n', " ");
            text += &format!("| {cells} |\n");
        }
        text += "\n";
        if let Some(warning) = &self.warning {
            text += &format!("- {warning}\n");
        }
        for Limit { what, why } in self.limits() {
            text += &format!("- {what}: {why}\n");
        }
        text + &format!("\n{}\n", self.verdict())
    }

    /// Whether it speaks of a device as it is now.
    fn is_about(&self, device: &FoundDevice) -> bool {
        let is_same = self.device.kind == device.kind
            && self.device.ordinal == device.ordinal
            && self.device.name == device.name;
        is_same && self.version == env!("CARGO_PKG_VERSION") && self.system == system()
    }
}

/// What runs do instead of an operation that is not exact.
pub(crate) fn instead(fallback: Fallback) -> &'static str {
    match fallback {
        Fallback::Composed => "done without its kernel",
        Fallback::Cpu => "not done on this device",
    }
}

/// What the last check of a device found, unless the app or the system changed since.
pub(crate) fn find(paths: &Paths, device: &FoundDevice) -> Option<CheckReport> {
    let reports: Vec<CheckReport> = read_list(&paths.checks, "list of checks").ok()?;
    reports.into_iter().find(|report| report.is_about(device))
}

/// Keeps what a check found, in place of an earlier one of the same device.
pub(crate) fn keep(paths: &Paths, report: &CheckReport) -> Result<()> {
    // A list that can't be read holds nothing that another check would not find.
    let mut reports: Vec<CheckReport> =
        read_list(&paths.checks, "list of checks").unwrap_or_default();
    reports.retain(|it| {
        (it.device.kind, it.device.ordinal) != (report.device.kind, report.device.ordinal)
    });
    reports.push(report.clone());
    write_json(&paths.checks, &reports)
}

/// The system and its version: `macOS 15.1`.
pub(crate) fn system() -> String {
    let name = sysinfo::System::name().unwrap_or_else(|_| std::env::consts::OS.to_owned());
    match sysinfo::System::os_version() {
        Ok(version) => format!("{name} {version}"),
        Err(_) => name,
    }
}
