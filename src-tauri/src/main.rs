//! Anneal: train models on your own machine and talk to them.
//!
//! The program is two thin shells over one [`host::Host`]. This file only picks the shell.

#[cfg(feature = "gui")]
mod app;
mod cli;
#[cfg(feature = "gui")]
mod commands;
mod host;
mod jobs;
#[cfg(feature = "gui")]
mod power;
mod store;
mod wire;

use std::process::ExitCode;

fn main() -> ExitCode {
    keep_memory();
    cli::main()
}

/// Has the allocator keep what it was given for the next tensor. Without this, glibc maps and unmaps every larger one
/// anew, and a step of training spends much of its time in page faults.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn keep_memory() {
    const BYTES: libc::c_int = 1 << 30;
    // SAFETY: both calls only set a number in the allocator, before any other thread exists.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, BYTES);
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn keep_memory() {}
