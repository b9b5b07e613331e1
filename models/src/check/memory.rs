//! Whether the device says how much memory it has, and whether that can be true.

use candle_core::{DType, Device, Tensor};

use super::trial::{Named, Operation, StepTrial};
use crate::{Error, Result, device::memory};

/// What is held while the device is asked.
const HELD_BYTES: usize = 16 << 20;

pub(super) fn reads() -> Result<Operation> {
    let trial = StepTrial::of(format!("{HELD_BYTES} bytes that are held"), |place| {
        let (device, is_reference) = (place.device.clone(), place.is_reference);
        Ok(Box::new(move || {
            if !is_reference {
                ask(&device)?;
            }
            // One number stands for an answer that can be true.
            let answer = Tensor::new(&[1f32], &Device::Cpu)?;
            Ok(vec![Named::new("the answer", &answer)])
        }))
    });
    Operation::within(0.0, trial)
}

fn ask(device: &Device) -> Result<()> {
    let held = Tensor::ones(HELD_BYTES / 4, DType::F32, device)?;
    device.synchronize()?;
    let memory = memory::memory(device)?;
    drop(held);
    let (total, available, used) = (
        memory.total_bytes,
        memory.available_bytes,
        memory.used_bytes,
    );
    if available > total || used > total || used < HELD_BYTES as u64 {
        return Err(Error::Device(format!(
            "the device says that of {total} bytes {available} are free and {used} in use, while {HELD_BYTES} are held"
        )));
    }
    Ok(())
}
