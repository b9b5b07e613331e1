//! Several cards of NVIDIA that train one run, each in a process of its own, connected by NVIDIA’s NCCL.
//!
//! A build has it with the feature `nccl`; the library itself is found when it is first called. Deliberately absent: who the
//! processes are, and how they notice that one is gone: on cards of one machine NCCL waits for it without end.

#[cfg(feature = "nccl")]
mod linked;

use candle_core::Device;

use super::{group::Group, share::Share};
#[cfg(not(feature = "nccl"))]
use crate::Error;
use crate::Result;

/// Says which other rank is gone, in words, once one is: `rank 1 on gpu08 is gone`. Asked many times a second.
pub type Lost = Box<dyn Fn() -> Option<String>>;

/// Why several cards can’t be used here, as a sentence, with what would help; nothing when they can, as far as that can be
/// known without trying.
pub fn problem() -> Option<String> {
    if cfg!(not(target_os = "linux")) {
        return Some("several devices need CUDA and NCCL on Linux; choose one device".to_owned());
    }
    #[cfg(feature = "nccl")]
    return linked::problem();
    #[cfg(not(feature = "nccl"))]
    Some(
        "several devices need CUDA and NCCL, and this build has none; choose one device, or use `anneal-cuda`"
            .to_owned(),
    )
}

/// What all ranks of a group have to have in common: 128 bytes that one of them makes. Who has them can join.
///
/// Errors: [`Error::Device`] where NCCL is missing or gives none.
pub fn identifier() -> Result<Vec<u8>> {
    #[cfg(feature = "nccl")]
    return linked::identifier();
    #[cfg(not(feature = "nccl"))]
    Err(missing())
}

/// The group of all ranks that have this identifier, once all have come. Sums on the stream of the device.
///
/// Errors: [`Error::Device`] where the device is no card of NVIDIA or NCCL refuses, [`Error::Peer`] where a rank is gone or
/// does not come within 2 minutes.
#[cfg_attr(not(feature = "nccl"), expect(unused_variables))]
pub fn join(
    share: Share,
    identifier: &[u8],
    device: &Device,
    lost: Lost,
) -> Result<Box<dyn Group>> {
    #[cfg(feature = "nccl")]
    return linked::join(share, identifier, device, lost);
    #[cfg(not(feature = "nccl"))]
    Err(missing())
}

#[cfg(not(feature = "nccl"))]
fn missing() -> Error {
    Error::Device(problem().unwrap_or_default())
}
