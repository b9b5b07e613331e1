//! Anneal: train models on your own machine and talk to them.
//!
//! The program is two thin shells over one [`host::Host`]. This file only picks the shell.

#[cfg(feature = "gui")]
mod app;
mod cli;
#[cfg(feature = "gui")]
mod commands;
mod host;
mod hub;
mod jobs;
mod lock;
mod power;
mod store;
mod wire;

use std::process::ExitCode;

/// Tests have allocations fail.
#[cfg(debug_assertions)]
#[global_allocator]
static ALLOCATOR: jobs::fault::FailingAllocator = jobs::fault::FailingAllocator;

fn main() -> ExitCode {
    cli::main()
}
