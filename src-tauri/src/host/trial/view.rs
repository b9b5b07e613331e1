//! What the window shows of steps that were profiled.

use models::profile::{GpuTime, KernelTime};
use serde::Serialize;
use specta::Type;
use specta_typescript::Number;

use super::{Profiled, Tried};

/// Where a step spends its time and memory.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProfileView {
    /// Steps that were recorded.
    steps: usize,
    /// A step as a run takes it, the median.
    #[specta(type = Number)]
    step_millis: f64,
    /// Whether operations waited for each other while they were recorded, as those of a GPU do: then they take longer in all.
    waited: bool,
    /// When the most memory was in use, where the device says how much is.
    peak: Option<PeakView>,
    /// What the device does at most, where it could be measured.
    best: Option<CeilingsView>,
    /// Operations by name and place, those that take most first.
    parts: Vec<ProfilePartView>,
    /// What an NVIDIA GPU did, where it is known.
    gpu: Option<GpuTimeView>,
    /// Why it isn’t, on such a GPU.
    gpu_unknown: Option<String>,
    /// Who else used the device meanwhile, in a sentence.
    warning: Option<String>,
}

/// What a GPU did in a step as a run takes it.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
struct GpuTimeView {
    #[specta(type = Number)]
    busy_millis: f64,
    /// Those that take most first.
    kernels: Vec<KernelTimeView>,
    /// All others together, if there are any.
    others: Option<KernelTimeView>,
}

/// All launches of one kernel in a step.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
struct KernelTimeView {
    name: String,
    #[specta(type = Number)]
    launches: f64,
    #[specta(type = Number)]
    millis: f64,
    /// Of the time that the GPU is busy. Together they may be more than all of it, where some run beside others.
    #[specta(type = Number)]
    share: f64,
}

/// When the most memory was in use.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
struct PeakView {
    bytes: u64,
    operation: String,
    /// Its name.
    place: &'static str,
}

/// What a device does at most.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
struct CeilingsView {
    #[specta(type = Number)]
    operations_per_second: f64,
    #[specta(type = Number)]
    bytes_per_second: f64,
}

/// All operations of one name in one place of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Type)]
#[serde(rename_all = "camelCase")]
struct ProfilePartView {
    operation: String,
    /// Its name.
    place: &'static str,
    /// Whether so little is to be said of them that they are told with others.
    is_small: bool,
    calls: usize,
    #[specta(type = Number)]
    millis: f64,
    /// Of a recorded step.
    #[specta(type = Number)]
    share: f64,
    /// How much more memory is in use after them than before; below 0, less.
    kept_bytes: Option<i64>,
    /// What they read and write; nothing where it is not known.
    moved_bytes: Option<u64>,
    /// The time that their products or bytes take at least, as a share of what they took.
    #[specta(type = Option<Number>)]
    share_of_best: Option<f64>,
}

impl GpuTimeView {
    fn new(gpu: &GpuTime) -> Self {
        let view = |kernel: &KernelTime| KernelTimeView {
            name: kernel.name.clone(),
            launches: kernel.launches,
            millis: kernel.millis,
            share: gpu.share(kernel),
        };
        let (told, others) = gpu.told();
        Self {
            busy_millis: gpu.busy_millis,
            kernels: told.iter().map(view).collect(),
            others: others.as_ref().map(view),
        }
    }
}

impl From<Tried<Profiled>> for ProfileView {
    fn from(tried: Tried<Profiled>) -> Self {
        let Profiled { profile, ceilings } = tried.found;
        let waited = profile.waited();
        let parts = profile.parts.into_iter();
        Self {
            waited,
            steps: profile.steps,
            step_millis: profile.step_millis,
            peak: profile.peak.map(|peak| PeakView {
                bytes: peak.bytes,
                operation: peak.operation,
                place: peak.place.name(),
            }),
            parts: parts
                .map(|part| ProfilePartView {
                    share_of_best: ceilings.and_then(|it| part.share_of_best(&it)),
                    is_small: part.is_small(),
                    operation: part.operation,
                    place: part.place.name(),
                    calls: part.calls,
                    millis: part.millis,
                    share: part.share,
                    kept_bytes: part.kept_bytes,
                    moved_bytes: (part.moved_bytes > 0).then_some(part.moved_bytes),
                })
                .collect(),
            best: ceilings.map(|it| CeilingsView {
                operations_per_second: it.operations_per_second,
                bytes_per_second: it.bytes_per_second,
            }),
            gpu: profile.gpu.map(|it| GpuTimeView::new(&it)),
            gpu_unknown: profile.gpu_unknown,
            warning: tried.warning,
        }
    }
}
