//! Where it is computed and in what, as far as the device check lets it.

use super::Resolver;
use crate::{
    device::{
        Checked, Choice, DeviceKind, FoundDevice, RequestedDevice,
        dtype::{DeviceClass, Dtype, Role, choose_dtype, dtype_rule},
    },
    ops::kernels,
    train::{kind::Kind, plan::*},
};

impl<K: Kind> Resolver<'_, K> {
    /// The facts with the CPU in place of a device on which nothing can be trained; nothing when there is no need.
    pub(super) fn device_that_trains(&mut self) -> Option<Facts<K::Facts>> {
        let facts = self.facts;
        let message = facts.checked.training_failed.as_ref()?;
        let (name, setting) = (&facts.device.device.name, facts.device.device.setting());
        let found = format!("the device check could not train on {name} ({message})");
        if self.request.run.strict.unwrap_or_default() {
            let way_out = match facts.device.device.kind {
                DeviceKind::Cpu => "turn `strict` off",
                _ => "set it to `cpu`",
            };
            self.problem(
                "device",
                format!("is {setting} and must be obeyed (strict), but {found}; {way_out}"),
            );
            return None;
        }
        if facts.device.device.kind == DeviceKind::Cpu {
            let warning = format!("{found}, and there is no other device");
            self.warnings.push(warning);
            return None;
        }
        let mut warnings = facts.device.warnings.clone();
        warnings.push(format!("{found}; the CPU is used instead"));
        Some(Facts {
            device: Choice {
                device: FoundDevice::named(DeviceKind::Cpu, 0, "the processor"),
                reason: found,
                warnings,
            },
            checked: Checked::default(),
            ..facts.clone()
        })
    }

    /// The formats of numbers, from the device's table.
    pub(super) fn dtype(&mut self, strict: bool) -> DtypePlan {
        let asked = &self.request.run.dtype;
        let (compute, storage) = (asked.compute, asked.storage);
        let compute = self.one_dtype(Role::Compute, compute, strict);
        let class = DeviceClass::of(&self.facts.device.device, self.facts.checked.bf16);
        // What is no device's default is stored as it is computed with.
        let mut stored = dtype_rule(class, Role::Storage).allowed.iter();
        let is_unusual =
            compute == Dtype::F16 || (compute, class) == (Dtype::Bf16, DeviceClass::CpuBf16);
        let follows = is_unusual && storage.is_none();
        let storage = match stored.find(|it| it.dtype == compute && follows) {
            Some(same) => self.take(Role::Storage.field(), &storage, || {
                Chosen::new(same.dtype, same.reason.as_str())
            }),
            None => self.one_dtype(Role::Storage, storage, strict),
        };
        DtypePlan { compute, storage }
    }

    fn one_dtype(&mut self, role: Role, asked: Option<Dtype>, strict: bool) -> Dtype {
        let checked = &self.facts.checked;
        let class = DeviceClass::of(&self.facts.device.device, checked.bf16);
        let usual = dtype_rule(class, role).allowed[0].dtype;
        let falls = asked.is_none() && checked.refused_dtypes.contains(&usual);
        match choose_dtype(class, role, asked, &checked.refused_dtypes, strict) {
            // Storage follows what is computed in, so one of the two says it.
            Ok(chosen) if strict && falls && role == Role::Compute => {
                let problem = format!(
                    "is not set, and the device check found {usual}, the default here, wrong; set it to {}, or turn \
                     `strict` off",
                    chosen.dtype
                );
                self.problem(role.field(), problem);
                chosen.dtype
            }
            Ok(chosen) => {
                let (field, lowered) = (role.field(), chosen.lowered_from.is_some());
                if lowered {
                    self.warnings.push(format!("`{field}`: {}", chosen.reason));
                }
                let asked = asked.filter(|_| !lowered);
                self.take(field, &asked, || Chosen::new(chosen.dtype, chosen.reason))
            }
            Err(error) => {
                self.error(error);
                asked.unwrap_or(Dtype::F32)
            }
        }
    }

    /// What may be given up when memory runs out.
    pub(super) fn memory_fallback(&mut self, strict: bool) -> MemoryFallbackPlan {
        let (request, has_asked) = (&self.request.run, self.request.run.dtype.compute.is_some());
        let narrower_dtype = self.take(
            "memory_fallback.narrower_dtype",
            &request.memory_fallback.narrower_dtype,
            || match (strict, has_asked) {
                (true, _) => Chosen::new(false, "settings must be obeyed (strict)"),
                (_, true) => Chosen::new(false, "the format was asked for"),
                _ => Chosen::new(true, "a run that is less exact is better than none"),
            },
        );
        let cpu = self.take("memory_fallback.cpu", &request.memory_fallback.cpu, || {
            Chosen::new(
                false,
                "a processor may need days for what a GPU does in an hour",
            )
        });
        MemoryFallbackPlan {
            narrower_dtype,
            cpu,
        }
    }

    /// The operations that do without their kernels: those asked for, and those that the check found wrong.
    pub(super) fn avoid_kernels(&mut self, strict: bool) -> Vec<String> {
        let asked = self.request.run.avoid_kernels.clone().unwrap_or_default();
        let is_known = |it: &&String| kernels::NAMES.contains(&it.as_str());
        for operation in asked.iter().filter(|it| !is_known(it)) {
            self.problem("avoid_kernels", kernels::unknown(operation));
        }
        let composed = &self.facts.checked.composed;
        let found = composed.iter().filter(|it| !asked.contains(it));
        let found: Vec<&str> = found.map(String::as_str).collect();
        let (names, device) = (found.join("`, `"), &self.facts.device.device.name);
        let either = |name: &&&str| found.contains(name) || asked.iter().any(|it| it == **name);
        let all = kernels::NAMES.iter().filter(either);
        let all: Vec<String> = all.map(|&name| name.to_owned()).collect();
        if all.is_empty() {
            return all;
        }
        if found.is_empty() {
            return self.take("avoid_kernels", &Some(all), || Chosen::new(Vec::new(), ""));
        }
        if strict {
            let problem = format!(
                "lacks `{names}`, whose kernels the device check found wrong on {device}; name them, or turn `strict` off"
            );
            self.problem("avoid_kernels", problem);
            return all;
        }
        self.warnings.push(format!(
            "`{names}`: the device check found the kernels wrong on {device}; simpler steps are used, which take longer"
        ));
        self.take("avoid_kernels", &None, || {
            Chosen::new(all, "the device check found these kernels wrong")
        })
    }

    /// The device that was found, which may be another than the one asked for.
    pub(super) fn device(&mut self) -> RequestedDevice {
        let found = &self.facts.device;
        self.warnings.extend(found.warnings.iter().cloned());
        let setting = found.device.setting();
        let asked = self.request.run.device.unwrap_or_default();
        self.note(
            "device",
            &setting,
            &found.reason,
            asked.to_string() != setting,
        );
        setting.parse().unwrap_or(RequestedDevice::Cpu)
    }
}
