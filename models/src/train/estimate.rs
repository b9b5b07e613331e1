//! What a run will take, from shapes alone: before a model is loaded, and without computing anything.
//!
//! Bytes are those that are alive at once in the worst moment of a step. What they are depends on what learns, so each kind
//! of learning counts its own ([`Kind::estimate`](super::kind::Kind::estimate)); here is what is the same for all.
//!
//! Deliberately absent: measuring. For certainty, take a few real steps and let [`super::forecast`] fit them.

use serde::{Deserialize, Serialize};

use crate::device::RequestedDevice;

/// What a process needs before there is a model: the program, its libraries, most of it those of the window, and a few megabytes of
/// data. On a GPU it lies elsewhere. Both kinds of builds were measured by themselves.
const PROCESS_BYTES: u64 = if cfg!(debug_assertions) {
    80_000_000
} else {
    90_000_000
};
/// What CUDA takes of a card beside tensors and the context that was there when its free memory was asked for: kernels, cuBLAS's
/// workspace, blocks of the pool that are half full. Measured on an H200: 0.55 GB.
const CUDA_BYTES: u64 = 450_000_000;
/// Allocations leave holes; so much is lost of what is in use.
const SLACK: f64 = 0.08;

/// What a run will take.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// How many parameters there are.
    pub parameters: u64,
    /// How many of them are trained.
    pub trainable_parameters: u64,
    /// Everything that takes memory, in the order in which a person reads it.
    pub parts: Vec<MemoryPart>,
    /// Multiplications and additions of the whole run, each counted as one.
    pub operations: f64,
}

/// Something that takes memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryPart {
    /// What it is, in words.
    pub name: String,
    /// What it is for.
    pub group: MemoryGroup,
    /// How much, in the worst moment of a step.
    pub bytes: u64,
}

/// What memory is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryGroup {
    /// The model as it was before training.
    Weights,
    /// What training adds for each trained parameter: gradients, the optimizer's moments, an adapter.
    Training,
    /// What a batch takes on its way forward and back.
    Activations,
    /// The program, and what lies unused.
    Rest,
}

impl MemoryPart {
    /// So many bytes of something.
    pub fn new(group: MemoryGroup, name: &str, bytes: u64) -> Self {
        Self {
            name: name.to_owned(),
            group,
            bytes,
        }
    }
}

impl Estimate {
    /// All bytes in the worst moment of the run.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).sum()
    }

    /// The bytes of one group.
    pub fn group(&self, group: MemoryGroup) -> u64 {
        let parts = self.parts.iter().filter(|part| part.group == group);
        parts.map(|part| part.bytes).sum()
    }

    /// The bytes of one part, or 0.
    pub fn part(&self, name: &str) -> u64 {
        let part = self.parts.iter().find(|part| part.name == name);
        part.map_or(0, |part| part.bytes)
    }
}

/// The program itself, and what lies unused between tensors of so many bytes.
pub fn program_bytes(device: RequestedDevice, used_bytes: u64) -> u64 {
    let process_bytes = match device {
        RequestedDevice::Cuda(_) => CUDA_BYTES,
        _ => PROCESS_BYTES,
    };
    process_bytes + (used_bytes as f64 * SLACK) as u64
}
