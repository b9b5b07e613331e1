//! Kernels for Metal on a machine that has none.
//!
//! They are written in WGSL, in `models/src/ops/kernels/metal/wgsl`. Here naga translates them to MSL, which is committed beside
//! them and is all that the app ships; a Vulkan driver runs the same WGSL, and what comes out is compared with references in
//! f64; clang reads the MSL once more. Deliberately absent: a Mac. That its compiler takes the text, and how fast it is
//! there, the app's own device check finds at the first start.

pub mod bench;
pub mod check;
pub mod clang;
pub mod device;
pub mod kernels;
pub mod mutations;
mod references;
pub mod serve;
mod storage;
pub mod translate;

#[cfg(test)]
mod tests;
