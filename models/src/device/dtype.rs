//! Which number formats compute, store and accumulate on which device, and why.
//!
//! One table, `dtypes.json`, read by the plan, the Device page and the guide. A format that a device can't serve safely
//! is lowered with a reason, or refused when the user asked for strictness.

use std::{fmt, str::FromStr, sync::LazyLock};

use candle_core::DType;
use serde::{Deserialize, Serialize};

use super::{DeviceKind, FoundDevice};
use crate::{Error, Result, embedded::table};

/// A format for the numbers of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", try_from = "String")]
pub enum Dtype {
    /// 32 bits: 8 of exponent, 23 of fraction.
    F32,
    /// 16 bits: the range of f32 with 7 bits of fraction.
    Bf16,
    /// 16 bits: 5 of exponent, 10 of fraction. The largest number is 65,504.
    F16,
}

/// What people call the formats: our name, and those of PyTorch, Lightning and Accelerate. With `mixed`, only products are
/// computed in the format, as they are here anyway.
const NAMES: [(Dtype, &str); 3] = [
    (Dtype::F32, "f32 fp32 float32 float 32 32-true"),
    (Dtype::Bf16, "bf16 bfloat16 bf16-mixed bf16-true"),
    (
        Dtype::F16,
        "f16 fp16 float16 half 16 16-mixed 16-true fp16-mixed",
    ),
];

impl Dtype {
    /// Bytes of one number.
    pub fn bytes(self) -> usize {
        DType::from(self).size_in_bytes()
    }

    /// Whether this is only what products round to, and tensors stay f32: bf16 on a processor.
    pub fn narrows_products(self, on_cpu: bool) -> bool {
        on_cpu && self == Self::Bf16
    }

    /// What tensors are kept in where this is computed in.
    pub fn kept_in(self, on_cpu: bool) -> Self {
        match self.narrows_products(on_cpu) {
            true => Self::F32,
            false => self,
        }
    }
}

impl From<Dtype> for DType {
    fn from(dtype: Dtype) -> Self {
        match dtype {
            Dtype::F32 => Self::F32,
            Dtype::Bf16 => Self::BF16,
            Dtype::F16 => Self::F16,
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(DType::from(*self).as_str())
    }
}

impl FromStr for Dtype {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let name = text.trim().to_ascii_lowercase();
        let name = name.strip_prefix("torch.").unwrap_or(&name);
        let is_one_of = |names: &str| names.split(' ').any(|it| it == name);
        let found = NAMES.iter().find(|(_, names)| is_one_of(names));
        found.map(|(dtype, _)| *dtype).ok_or_else(|| {
            let problem = format!("is `{text}`; it can be f32, bf16 or f16");
            Error::setting("dtype", problem)
        })
    }
}

impl TryFrom<String> for Dtype {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

/// What numbers are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Activations, and what matrices are multiplied in.
    Compute,
    /// Weights that are not trained, as they lie in memory.
    Storage,
    /// Sums: losses, softmax, norms, gradients of weights.
    Accumulate,
    /// Weights that are trained, and the optimizer's state.
    Master,
}

impl Role {
    /// All roles, in the order in which they are shown.
    pub const ALL: [Self; 4] = [Self::Compute, Self::Storage, Self::Accumulate, Self::Master];

    /// What it is, for a person.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Compute => "computing",
            Self::Storage => "frozen weights",
            Self::Accumulate => "sums",
            Self::Master => "trained weights and optimizer state",
        }
    }

    /// The setting that asks for it in a run file, or the section where there is none.
    pub fn field(self) -> &'static str {
        match self {
            Self::Compute => "dtype.compute",
            Self::Storage => "dtype.storage",
            Self::Accumulate | Self::Master => "dtype",
        }
    }
}

/// Devices as far as number formats differ between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceClass {
    /// A CPU without products of bf16, whoever made it.
    Cpu,
    /// A CPU that multiplies bf16.
    CpuBf16,
    /// An Apple GPU whose bf16 has not been compared with the CPU yet.
    Metal,
    /// An Apple GPU that has passed the device check in bf16.
    MetalChecked,
    /// An NVIDIA GPU before compute capability 8.0.
    CudaBefore80,
    /// An NVIDIA GPU from compute capability 8.0 (Ampere, 2020).
    Cuda80,
}

impl DeviceClass {
    /// All classes, in the order in which they are shown.
    pub const ALL: [Self; 6] = [
        Self::Cpu,
        Self::CpuBf16,
        Self::Metal,
        Self::MetalChecked,
        Self::CudaBefore80,
        Self::Cuda80,
    ];

    /// The class of a device. `bf16_checked` says whether the device check has passed bf16 on it; it counts on Metal.
    pub fn of(device: &FoundDevice, bf16_checked: bool) -> Self {
        match device.kind {
            DeviceKind::Metal if bf16_checked => Self::MetalChecked,
            DeviceKind::Metal => Self::Metal,
            DeviceKind::Cuda if device.compute_capability >= Some((8, 0)) => Self::Cuda80,
            DeviceKind::Cuda => Self::CudaBefore80,
            DeviceKind::Cpu if device.multiplies_bf16 => Self::CpuBf16,
            DeviceKind::Rocm | DeviceKind::Cpu => Self::Cpu,
        }
    }
}

impl fmt::Display for DeviceClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cpu => "CPU",
            Self::CpuBf16 => "CPU with products of bf16",
            Self::Metal => "Metal, not checked in bf16",
            Self::MetalChecked => "Metal, checked in bf16",
            Self::CudaBefore80 => "CUDA before compute capability 8.0",
            Self::Cuda80 => "CUDA from compute capability 8.0",
        })
    }
}

/// A format with the reason why it is, or isn't, used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DtypeReason {
    /// What the reason is about.
    pub dtype: Dtype,
    /// One sentence for the user.
    pub reason: String,
}

/// One line of the table: the formats for one role on some classes of device.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DtypeRule {
    /// Those that the line is for.
    pub classes: Vec<DeviceClass>,
    /// What the numbers are for.
    pub role: Role,
    /// Safe formats, the default first. Never empty.
    pub allowed: Vec<DtypeReason>,
    /// The others, with what speaks against them. With `allowed`, every format occurs once.
    pub refused: Vec<DtypeReason>,
}

static RULES: LazyLock<Vec<DtypeRule>> =
    LazyLock::new(|| table("dtypes.json", include_str!("dtypes.json")));

/// The formats for a role on a device.
pub fn dtype_rule(class: DeviceClass, role: Role) -> &'static DtypeRule {
    let mut rules = RULES.iter();
    let rule = rules.find(|it| it.role == role && it.classes.contains(&class));
    // A test reads a rule for every role on every class.
    rule.unwrap_or_else(|| unreachable!("dtypes.json has no {role:?} on {class}"))
}

const NOTHING_IS_RIGHT: &str = "Of what is left, f32 loses the fewest digits.";

/// The format that will be used, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChosenDtype {
    /// What tensors of the role will be in.
    pub dtype: Dtype,
    /// Why, as a sentence.
    pub reason: String,
    /// What was asked for, when it is not what will be used. The reason then says why; show it as a warning.
    pub lowered_from: Option<Dtype>,
}

/// Picks the format for a role: the one asked for where it is safe, else the device's default.
///
/// `found_wrong` are the formats that the device check found wrong on this very device. The next one that is safe takes
/// their place, f32 at last, and never f16: whether that is safe depends on the model, so it is for those who ask.
///
/// Errors: [`Error::Setting`] when the one asked for isn't safe there and `strict` is set.
pub fn choose_dtype(
    class: DeviceClass,
    role: Role,
    requested: Option<Dtype>,
    found_wrong: &[Dtype],
    strict: bool,
) -> Result<ChosenDtype> {
    let rule = dtype_rule(class, role);
    let is_wrong = |dtype| found_wrong.contains(&dtype);
    let usual = rule.allowed[0].dtype;
    let is_right = |it: &&DtypeReason| it.dtype != Dtype::F16 && !is_wrong(it.dtype);
    let right = rule.allowed.iter().find(is_right);
    let (default, why) = right.map_or((Dtype::F32, NOTHING_IS_RIGHT), |it| {
        (it.dtype, it.reason.as_str())
    });
    let wrong = |dtype| format!("The device check found {dtype} wrong here.");
    let chosen = |dtype, reason| ChosenDtype {
        dtype,
        reason,
        lowered_from: None,
    };
    let Some(requested) = requested else {
        return Ok(match is_wrong(usual) {
            true => chosen(default, format!("{} {why}", wrong(usual))),
            false => chosen(default, why.to_owned()),
        });
    };
    let is_allowed = rule.allowed.iter().any(|it| it.dtype == requested);
    if is_allowed && !is_wrong(requested) {
        return Ok(chosen(requested, format!("{requested} was asked for.")));
    }
    let against = rule.refused.iter().find(|it| it.dtype == requested);
    let against = against.map_or_else(|| wrong(requested), |it| it.reason.clone());
    if strict {
        let problem = format!(
            "is {requested} and must be obeyed (strict), but on {class} only {default} is safe. {against}"
        );
        return Err(Error::setting(role.field(), problem));
    }
    let reason = format!("{requested} was asked for and {default} is used. {against}");
    Ok(ChosenDtype {
        lowered_from: Some(requested),
        ..chosen(default, reason)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(
        class: DeviceClass,
        role: Role,
        requested: Option<Dtype>,
        expected: Dtype,
        lowered: bool,
    ) {
        let chosen = choose_dtype(class, role, requested, &[], false).unwrap();
        assert_eq!(chosen.dtype, expected);
        assert_eq!(chosen.lowered_from, requested.filter(|_| lowered));
        let strict = choose_dtype(class, role, requested, &[], true);
        assert_eq!(strict.is_err(), lowered, "{strict:?}");
    }

    #[test]
    fn each_device_computes_in_its_safe_format_and_others_are_lowered_or_refused() {
        let (f32, bf16, f16) = (Dtype::F32, Dtype::Bf16, Dtype::F16);
        for (class, role, requested, expected, lowered) in [
            (DeviceClass::Cpu, Role::Compute, None, f32, false),
            (DeviceClass::Metal, Role::Compute, None, f32, false),
            (DeviceClass::MetalChecked, Role::Compute, None, bf16, false),
            (DeviceClass::CudaBefore80, Role::Compute, None, f32, false),
            (DeviceClass::Cuda80, Role::Compute, None, bf16, false),
            (DeviceClass::Cpu, Role::Compute, Some(bf16), f32, true),
            (DeviceClass::CpuBf16, Role::Compute, None, f32, false),
            (DeviceClass::CpuBf16, Role::Compute, Some(bf16), bf16, false),
            (DeviceClass::Metal, Role::Compute, Some(bf16), f32, true),
            (DeviceClass::Cpu, Role::Storage, Some(f16), f32, true),
            (DeviceClass::Cuda80, Role::Accumulate, Some(bf16), f32, true),
            (DeviceClass::Cuda80, Role::Master, Some(bf16), f32, true),
            (DeviceClass::Cpu, Role::Storage, Some(bf16), bf16, false),
            (DeviceClass::Cuda80, Role::Compute, Some(f32), f32, false),
        ] {
            check(class, role, requested, expected, lowered);
        }
    }

    #[test]
    fn f16_is_used_everywhere_when_it_is_asked_for_and_never_by_itself() {
        for class in DeviceClass::ALL {
            check(class, Role::Compute, Some(Dtype::F16), Dtype::F16, false);
            let others = [Dtype::F32, Dtype::Bf16];
            let chosen = choose_dtype(class, Role::Compute, None, &others, false).unwrap();
            assert_eq!(chosen.dtype, Dtype::F32, "{class}");
        }
    }

    #[test]
    fn a_format_found_wrong_gives_way_to_the_next_and_f32_is_the_last() {
        let choose = |requested, found_wrong: &[Dtype]| {
            let role = Role::Compute;
            choose_dtype(DeviceClass::Cuda80, role, requested, found_wrong, false).unwrap()
        };
        assert_eq!(choose(None, &[Dtype::Bf16]).dtype, Dtype::F32);
        let lowered = choose(Some(Dtype::F32), &[Dtype::F32]);
        assert_eq!(
            (lowered.dtype, lowered.lowered_from),
            (Dtype::Bf16, Some(Dtype::F32))
        );
        let last = choose(None, &[Dtype::F32, Dtype::Bf16]);
        assert_eq!(last.dtype, Dtype::F32);
        assert_eq!(
            last.reason,
            "The device check found bf16 wrong here. Of what is left, f32 loses the fewest digits."
        );
    }

    #[test]
    fn a_lowered_format_says_why() {
        let bf16 =
            |class, strict| choose_dtype(class, Role::Compute, Some(Dtype::Bf16), &[], strict);
        assert_eq!(
            bf16(DeviceClass::Cpu, false).unwrap().reason,
            "bf16 was asked for and f32 is used. Only processors with products of bf16 gain by it; on others they are \
             slower than those of f32."
        );
        assert_eq!(
            bf16(DeviceClass::Metal, true).unwrap_err().to_string(),
            "`dtype.compute` is bf16 and must be obeyed (strict), but on Metal, not checked in bf16 only f32 is \
             safe. The device check has not passed bf16 on this GPU."
        );
    }

    #[test]
    fn every_format_is_allowed_or_refused_exactly_once() {
        for class in DeviceClass::ALL {
            for role in Role::ALL {
                let rule = dtype_rule(class, role);
                for dtype in [Dtype::F32, Dtype::Bf16, Dtype::F16] {
                    let all = rule.allowed.iter().chain(&rule.refused);
                    let named = all.filter(|row| row.dtype == dtype);
                    assert_eq!(named.count(), 1, "{class}, {role:?}, {dtype}");
                }
            }
        }
    }

    #[test]
    fn bf16_needs_compute_capability_8_a_passed_check_or_products_of_the_processor() {
        let cuda = |major, minor| FoundDevice {
            compute_capability: Some((major, minor)),
            ..FoundDevice::named(DeviceKind::Cuda, 0, "NVIDIA")
        };
        let unknown = FoundDevice::named(DeviceKind::Cuda, 0, "NVIDIA");
        let metal = FoundDevice::named(DeviceKind::Metal, 0, "Apple M3");
        let cpu = |multiplies_bf16| FoundDevice {
            multiplies_bf16,
            ..FoundDevice::named(DeviceKind::Cpu, 0, "a processor")
        };
        for (device, bf16_checked, expected) in [
            (&cuda(7, 5), true, DeviceClass::CudaBefore80),
            (&cuda(8, 0), false, DeviceClass::Cuda80),
            (&cuda(9, 0), false, DeviceClass::Cuda80),
            (&unknown, true, DeviceClass::CudaBefore80),
            (&metal, false, DeviceClass::Metal),
            (&metal, true, DeviceClass::MetalChecked),
            (&cpu(false), true, DeviceClass::Cpu),
            (&cpu(true), false, DeviceClass::CpuBf16),
        ] {
            assert_eq!(DeviceClass::of(device, bf16_checked), expected);
        }
    }

    #[test]
    fn the_names_of_other_tools_are_understood() {
        for (text, dtype) in [
            ("fp32", Dtype::F32),
            ("bfloat16", Dtype::Bf16),
            ("float16", Dtype::F16),
            ("half", Dtype::F16),
            ("16-mixed", Dtype::F16),
            ("BF16-mixed", Dtype::Bf16),
            ("torch.float32", Dtype::F32),
        ] {
            assert_eq!(text.parse::<Dtype>().unwrap(), dtype);
            assert_eq!(serde_json::from_value::<Dtype>(text.into()).unwrap(), dtype);
        }
        assert_eq!(serde_json::to_value(Dtype::Bf16).unwrap(), "bf16");
        let unknown = "int8".parse::<Dtype>().unwrap_err().to_string();
        assert!(unknown.contains("int8"), "{unknown}");
    }
}
