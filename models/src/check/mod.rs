//! The device check: every operation that training or a chat uses, on a device and on the CPU.
//!
//! The reference is the CPU in f32 with every operation composed from candle's kernels, which finite differences check.
//! Each operation runs forward and backward on shapes that are known to break kernels: odd sizes, one row, widths just
//! over 1024, parts of larger tensors, transposed ones, long sequences, large and tiny numbers. It does so in each
//! dtype that a plan may choose for computing, with inputs rounded to it first, so that the reference sees the numbers
//! that the device sees.
//!
//! A device can crash the process or hang, so each process should try one group of operations. [`cases`] lists what a
//! group tries, in order, and so tells at which case a process ended. Deliberately absent: those processes, where the
//! rows are kept, and spans that are empty, which attention can't be asked for.

mod attention;
mod elementwise;
mod linear;
mod loss;
mod measure;
mod memory;
mod model;
mod norms;
mod optimizer;
mod pictures;
mod positions;
mod route;
mod trial;

use std::ops::ControlFlow;

use candle_core::Device;
use serde::{Deserialize, Serialize};

use crate::{
    Error, Result,
    device::dtype::{DeviceClass, Dtype, Role, dtype_rule},
};
use measure::Processor;
use trial::Operation;

/// The operation that trains a small model. It uses many kernels, so it has no name among theirs.
pub const TRAINING: &str = "20 steps of training";

/// The operation that writes with a small model.
pub const GENERATION: &str = "32 tokens of generation";

/// The operation that asks how much memory the device has. Nothing is computed otherwise when it fails.
pub const MEMORY: &str = "memory reads";

/// Makes an operation with all it is tried on.
type Make = fn(DeviceClass, Dtype) -> Result<Operation>;

/// Operations that one process should try.
#[derive(Debug, Clone, Copy)]
pub struct Group {
    /// What a person reads.
    pub name: &'static str,
    operations: &'static [(&'static str, Make)],
}

impl Group {
    /// Its operations, in the order in which they are tried. Those with a kernel have its name in
    /// [`NAMES`](crate::ops::kernels::NAMES).
    pub fn operations(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.operations.iter().map(|(name, _)| *name)
    }
}

/// All groups, in the order in which they are tried: what a failure elsewhere could be caused by comes first.
pub const GROUPS: &[Group] = &[
    group(
        "gates and sums",
        &[
            ("gated", |_, _| elementwise::gates()),
            ("add", |_, _| elementwise::sums()),
            ("scale", |_, _| elementwise::scaling()),
            ("columns", |_, _| elementwise::parts_of_rows()),
            ("reshape", |_, _| elementwise::shapes()),
            ("convert", |_, _| elementwise::conversions()),
            ("dropout", |_, _| elementwise::dropped()),
        ],
    ),
    group(
        "norms",
        &[
            ("rms_norm", |_, _| norms::rms_norm_on_rows()),
            ("layer_norm", |_, _| norms::layer_norm_on_rows()),
            ("residual_norm", |_, _| norms::norms_of_sums()),
        ],
    ),
    group("positions", &[("rope", |_, _| positions::rope_of_heads())]),
    group(
        "linear layers",
        &[
            ("linear", linear::linear_layers),
            ("feed_forward", |_, _| linear::feed_forward_parts()),
        ],
    ),
    group("adapters", &[("lora", linear::adapters)]),
    group(
        "attention",
        &[("attention", |_, dtype| {
            attention::attention_under_masks(dtype)
        })],
    ),
    group(
        "embedding and loss",
        &[
            ("embedding", loss::embeddings),
            ("head_cross_entropy", loss::head_and_loss),
            ("classify", |_, _| loss::few_classes()),
        ],
    ),
    group(
        "pictures",
        &[
            ("convolution", |_, _| pictures::convolutions()),
            ("batch_norm", |_, _| pictures::norms_of_batches()),
            ("pool", |_, _| pictures::pools()),
            ("patches", |_, _| pictures::patches()),
        ],
    ),
    group(
        OPTIMIZER,
        &[
            ("adamw", |_, _| optimizer::adamw_steps()),
            ("adam_atan2", |_, _| optimizer::adam_atan2_steps()),
            ("muon", |_, _| optimizer::muon_steps()),
            ("sgd", |_, _| optimizer::sgd_steps()),
            ("ema", |_, _| optimizer::average()),
            ("gradient_norm", |_, _| optimizer::norm_of_gradients()),
        ],
    ),
    group(
        "training",
        &[
            (MEMORY, |_, _| memory::reads()),
            (TRAINING, |_, dtype| model::training(dtype)),
        ],
    ),
    group(
        "generation",
        &[
            ("next_token", |_, dtype| model::next_token(dtype)),
            (GENERATION, |_, dtype| model::generation(dtype)),
        ],
    ),
];

/// The group whose operations see no narrower dtype: weights that learn and their state are f32 everywhere.
const OPTIMIZER: &str = "optimizer";

const fn group(name: &'static str, operations: &'static [(&'static str, Make)]) -> Group {
    Group { name, operations }
}

/// One operation in one dtype: what one row is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct CheckCase {
    /// The group's name.
    pub group: &'static str,
    /// Its name within the group.
    pub operation: &'static str,
    /// What activations are computed in.
    pub dtype: Dtype,
}

/// How one operation did in one dtype.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckRow {
    /// The group's name.
    pub group: String,
    /// Its name within the group.
    pub operation: String,
    /// What activations were computed in.
    pub dtype: Dtype,
    /// What came out.
    pub verdict: Verdict,
    /// The largest difference over the largest number of the reference: the worst of all shapes, of outputs and
    /// gradients. Nothing when there is no result, or one that is not finite.
    pub error: Option<f64>,
    /// The largest error that rounding explains.
    pub tolerance: f64,
    /// Milliseconds that the largest shape takes on the device, forward and backward: a median.
    pub device_millis: Option<f64>,
    /// The same without the kernel that we have for Metal. Nothing elsewhere, and where there is none.
    #[serde(default)]
    pub composed_millis: Option<f64>,
    /// The same on the CPU in f32, with its own kernels. Nothing when the device is the CPU.
    pub cpu_millis: Option<f64>,
    /// The device's words when it refused, or what was wrong and where. Nothing when all is well.
    #[serde(alias = "words")]
    pub message: Option<String>,
    /// What to do instead. Nothing when all is well, or nobody could try.
    pub fallback: Option<Fallback>,
}

impl CheckRow {
    /// The row of a case whose process ended or hung: in which words that is told, and what works instead.
    pub fn crashed(
        case: &CheckCase,
        message: impl Into<String>,
        fallback: Option<Fallback>,
    ) -> Result<Self> {
        let tolerance = operation_of(case, DeviceClass::Cpu)?.tolerance;
        Ok(Self {
            verdict: Verdict::Crashed,
            message: Some(message.into()),
            fallback,
            ..Self::of(case, tolerance.of(case.dtype))
        })
    }

    /// A row of which nothing is known yet.
    fn of(case: &CheckCase, tolerance: f64) -> Self {
        Self {
            group: case.group.to_owned(),
            operation: case.operation.to_owned(),
            dtype: case.dtype,
            verdict: Verdict::Ok,
            error: None,
            tolerance,
            device_millis: None,
            composed_millis: None,
            cpu_millis: None,
            message: None,
            fallback: None,
        }
    }
}

/// What can come out of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "specta", derive(specta::Type))]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// As exact as rounding allows.
    Ok,
    /// Exact, but clearly slower than the CPU, or than without its kernel.
    Slow,
    /// Further off than rounding explains.
    Inexact,
    /// The device refused.
    Missing,
    /// The process that tried it ended or hung. Only who started that process can know.
    Crashed,
}

impl Verdict {
    /// Whether its results can be believed.
    pub fn is_exact(self) -> bool {
        matches!(self, Self::Ok | Self::Slow)
    }
}

/// What works where an operation does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fallback {
    /// The same without kernels of our own, on the device.
    Composed,
    /// Nothing on this device in this dtype.
    Cpu,
}

/// A failure that is asked for, to see what becomes of it without a broken device.
///
/// It stands for a broken kernel: an operation that has one is well without it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The operation that fails.
    pub operation: String,
    /// How.
    pub kind: FaultKind,
}

/// How an operation can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// One number of each result is off by a quarter of the largest.
    Wrong,
    /// It returns an error, as a device does.
    Missing,
    /// It ends the process.
    Crash,
    /// It never returns.
    Hang,
}

/// The dtypes that a plan may choose for computing on such a device, f32 first. On Metal, bf16 is chosen only after it
/// passed here, so it is tried. f16 on the CPU is slow, and nobody is to wait for it.
pub fn dtypes(class: DeviceClass) -> Vec<Dtype> {
    let allowed = &dtype_rule(class, Role::Compute).allowed;
    let is_tried = |dtype: &Dtype| match (dtype, class) {
        (Dtype::F16, DeviceClass::Cpu | DeviceClass::CpuBf16) => false,
        (Dtype::Bf16, DeviceClass::Metal) => true,
        _ => allowed.iter().any(|it| it.dtype == *dtype),
    };
    let all = [Dtype::F32, Dtype::Bf16, Dtype::F16];
    all.into_iter().filter(is_tried).collect()
}

/// What a group tries on such a device, in this order: one row each.
///
/// Errors: [`Error::Setting`] when there is no such group.
pub fn cases(group: &str, class: DeviceClass) -> Result<Vec<CheckCase>> {
    let Some(group) = GROUPS.iter().find(|it| it.name == group) else {
        let known: Vec<&str> = GROUPS.iter().map(|it| it.name).collect();
        let problem = format!("is `{group}`; there is `{}`", known.join("`, `"));
        return Err(Error::setting("group", problem));
    };
    let case = |operation, dtype| CheckCase {
        group: group.name,
        operation,
        dtype,
    };
    let is_tried =
        |it: &CheckCase| it.dtype == Dtype::F32 || !is_always_f32(it.group, it.operation);
    let of = |operation| dtypes(class).into_iter().map(move |it| case(operation, it));
    Ok(group.operations().flat_map(of).filter(is_tried).collect())
}

/// Tries cases on a device, and tells a row after each. `report` can break, to stop there.
///
/// Errors: a reference that could not be computed. What the device does wrong is in the rows.
pub fn run_cases(
    cases: &[CheckCase],
    device: &Device,
    class: DeviceClass,
    faults: &[Fault],
    report: &mut dyn FnMut(CheckRow) -> ControlFlow<()>,
) -> Result<()> {
    let mut processor = Processor::beside(device);
    for case in cases {
        let operation = operation_of(case, class)?;
        let expected = processor.expected(case, &operation)?;
        let row = measure::row(case, operation, expected, device, fault_of(case, faults))?;
        if report(row).is_break() {
            break;
        }
    }
    Ok(())
}

/// What works instead of a case whose process ended, tried without its kernel.
pub fn fallback(
    case: &CheckCase,
    device: &Device,
    class: DeviceClass,
    faults: &[Fault],
) -> Result<Fallback> {
    let operation = operation_of(case, class)?;
    measure::fallback(case, &operation, device, fault_of(case, faults))
}

/// Fails as a fault asks for, where one is about what has this name.
pub fn act_out(name: &str, faults: &[Fault]) -> Result<()> {
    let fault = faults.iter().find(|fault| fault.operation == name);
    measure::act_out(fault.map(|fault| fault.kind))
}

fn is_always_f32(group: &str, operation: &str) -> bool {
    group == OPTIMIZER || operation == MEMORY
}

fn operation_of(case: &CheckCase, class: DeviceClass) -> Result<Operation> {
    let mut all = GROUPS.iter().flat_map(|group| group.operations);
    match all.find(|(name, _)| *name == case.operation) {
        Some((_, make)) => make(class, case.dtype),
        None => Err(Error::Device(format!(
            "nothing checks `{}`",
            case.operation
        ))),
    }
}

/// How the operation of a case is asked to fail.
fn fault_of(case: &CheckCase, faults: &[Fault]) -> Option<FaultKind> {
    let mut faults = faults.iter();
    let fault = faults.find(|fault| fault.operation == case.operation);
    fault.map(|fault| fault.kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::kernels::{self, metal::tests::stand_in};

    /// What the check says of cases with the kernels for Metal, run by a stand-in.
    fn rows_on_metal(cases: &[CheckCase]) -> Vec<CheckRow> {
        let mut rows = Vec::new();
        let mut add = |row| {
            rows.push(row);
            ControlFlow::Continue(())
        };
        run_cases(cases, &Device::Cpu, DeviceClass::Metal, &[], &mut add).unwrap();
        rows
    }

    #[test]
    fn the_kernels_for_metal_pass_the_check_of_every_operation() {
        if !stand_in::is_there() {
            return;
        }
        let groups = GROUPS.iter();
        let all = groups.flat_map(|it| cases(it.name, DeviceClass::Metal).unwrap());
        // Narrower numbers take the processor long.
        let all: Vec<CheckCase> = all.filter(|it| it.dtype == Dtype::F32).collect();
        let (rows, launches) = stand_in::with(|| rows_on_metal(&all));
        let wrong = rows.iter().filter(|row| !row.verdict.is_exact());
        let wrong: Vec<String> = wrong.map(|row| format!("{row:?}")).collect();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        let unused = kernels::metal::texts().filter(|it| !launches.contains_key(it));
        assert_eq!(unused.count(), 0, "{launches:?}");
    }

    #[test]
    fn a_kernel_that_metal_refuses_is_told_in_its_words_and_avoided() {
        let group = cases("norms", DeviceClass::Metal).unwrap();
        let case = group.iter().find(|it| it.operation == "rms_norm").unwrap();
        let tried = || stand_in::refusing("rms_norm_back", || rows_on_metal(&[*case]));
        let (rows, launches) = stand_in::with(tried);
        let message = "Metal refuses `f32x4_rms_norm_back`: it was asked to";
        assert_eq!(rows[0].verdict, Verdict::Missing);
        assert_eq!(rows[0].message.as_deref(), Some(message));
        assert_eq!(rows[0].fallback, Some(Fallback::Composed));
        assert!(launches.is_empty(), "{launches:?}");
        let checked = crate::device::Checked::from_rows(&rows);
        assert_eq!(checked.composed, ["rms_norm"]);
    }

    /// What an operation computes on the CPU, as bits.
    fn bits(operation: &str) -> Vec<u32> {
        let group = GROUPS
            .iter()
            .find(|it| it.operations().any(|it| it == operation));
        let cases = cases(group.unwrap().name, DeviceClass::Cpu).unwrap();
        let case = cases.iter().find(|it| it.operation == operation).unwrap();
        let checked = operation_of(case, DeviceClass::Cpu).unwrap();
        measure::bits_on_the_cpu(&checked)
    }

    fn avoiding<T>(names: &[&str], work: impl FnOnce() -> T) -> T {
        let names: Vec<String> = names.iter().map(|&it| it.to_owned()).collect();
        let _avoided = kernels::avoid(&names).unwrap();
        work()
    }

    #[test]
    fn avoiding_an_operation_avoids_its_kernel_and_no_other() {
        let mut differ = Vec::new();
        for &name in kernels::NAMES {
            let others = kernels::NAMES.iter().copied().filter(|it| *it != name);
            let others: Vec<&str> = others.collect();
            let (with_kernel, composed) = (bits(name), kernels::without(|| bits(name)));
            assert!(
                avoiding(&[name], || bits(name)) == composed,
                "{name}: its kernel is still used"
            );
            assert!(
                avoiding(&others, || bits(name)) == with_kernel,
                "{name}: another’s name avoids it"
            );
            if with_kernel != composed {
                differ.push(name);
            }
        }
        // The other kernels compute the very same bits, so nothing can be said of them here.
        let expected = [
            "rms_norm",
            "layer_norm",
            "residual_norm",
            "head_cross_entropy",
            "linear",
            "lora",
            "attention",
            "gated",
            "feed_forward",
            "convolution",
            "batch_norm",
            "pool",
        ];
        assert_eq!(differ, expected);
    }
}
