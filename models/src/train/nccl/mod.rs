//! Several cards of NVIDIA that train one run, each in a process of its own, connected by NVIDIA’s NCCL.
//!
//! Every build for CUDA on Linux has it; the library is found when it is first asked for. Deliberately absent: who the
//! processes are, and how they notice that one is gone: on cards of one machine NCCL waits for it without end.

#[cfg(all(feature = "cuda", target_os = "linux"))]
mod cards;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod functions;

use std::path::PathBuf;

use candle_core::Device;

use super::{group::Group, share::Share};
#[cfg(not(all(feature = "cuda", target_os = "linux")))]
use crate::Error;
use crate::Result;

/// Says which other rank is gone, in words, once one is: `rank 1 on gpu08 is gone`. Asked many times a second.
pub type Lost = Box<dyn Fn() -> Option<String>>;

/// Why several cards can’t be used here, as a sentence, with what would help; nothing when they can, as far as that can be
/// known without trying. The library is looked for once, in these folders and then where the system keeps libraries.
#[cfg_attr(
    not(all(feature = "cuda", target_os = "linux")),
    expect(unused_variables)
)]
pub fn problem(folders: &[PathBuf]) -> Option<String> {
    if cfg!(not(target_os = "linux")) {
        return Some("several devices need CUDA and NCCL on Linux; choose one device".to_owned());
    }
    #[cfg(all(feature = "cuda", target_os = "linux"))]
    return functions::problem(folders);
    #[cfg(not(all(feature = "cuda", target_os = "linux")))]
    Some(
        "several devices need CUDA and NCCL, and this build has none; choose one device, or use `anneal-cuda`"
            .to_owned(),
    )
}

/// The version of the library: `2.28.9`.
///
/// Errors: [`Error::Device`] where NCCL is missing.
pub fn version() -> Result<String> {
    #[cfg(all(feature = "cuda", target_os = "linux"))]
    return functions::version();
    #[cfg(not(all(feature = "cuda", target_os = "linux")))]
    Err(missing())
}

/// What no other card has: its number in the world, in hexadecimal digits.
///
/// Errors: [`Error::Device`] where the device is no card of NVIDIA or does not answer.
#[cfg_attr(
    not(all(feature = "cuda", target_os = "linux")),
    expect(unused_variables)
)]
pub fn card(device: &Device) -> Result<String> {
    #[cfg(all(feature = "cuda", target_os = "linux"))]
    return cards::number(device);
    #[cfg(not(all(feature = "cuda", target_os = "linux")))]
    Err(missing())
}

/// What all ranks of a group have to have in common: 128 bytes that one of them makes. Who has them can join.
///
/// Errors: [`Error::Device`] where NCCL is missing or gives none.
pub fn identifier() -> Result<Vec<u8>> {
    #[cfg(all(feature = "cuda", target_os = "linux"))]
    return functions::identifier();
    #[cfg(not(all(feature = "cuda", target_os = "linux")))]
    Err(missing())
}

/// The group of all ranks that have this identifier, once all have come. It sums on a stream of its own.
///
/// Errors: [`Error::Device`] where the device is no card of NVIDIA or NCCL refuses, [`Error::Peer`] where a rank is gone or
/// does not come within 2 minutes.
#[cfg_attr(
    not(all(feature = "cuda", target_os = "linux")),
    expect(unused_variables)
)]
pub fn join(
    share: Share,
    identifier: &[u8],
    device: &Device,
    lost: Lost,
) -> Result<Box<dyn Group>> {
    #[cfg(all(feature = "cuda", target_os = "linux"))]
    return cards::join(share, identifier, device, lost);
    #[cfg(not(all(feature = "cuda", target_os = "linux")))]
    Err(missing())
}

#[cfg(not(all(feature = "cuda", target_os = "linux")))]
fn missing() -> Error {
    Error::Device(problem(&[]).unwrap_or_default())
}
