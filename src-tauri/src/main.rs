//! Anneal: train models on your own machine and chat with them.
//!
//! The program is two thin shells over one [`host::Host`]. This file only picks the shell.

// What only the window uses is no mistake in a program without it. One with it finds what nobody uses.
#![cfg_attr(not(feature = "gui"), allow(dead_code))]

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
mod ranks;
mod serve;
mod store;
#[cfg(test)]
mod tests;
mod wire;

#[cfg(test)]
#[path = "../../tests/models/fuzz/mod.rs"]
mod fuzz;

use std::process::ExitCode;

/// Tests have allocations fail.
#[cfg(all(debug_assertions, not(test)))]
#[global_allocator]
static ALLOCATOR: jobs::fault::FailingAllocator = jobs::fault::FailingAllocator;

/// Counts what readers take.
#[cfg(all(debug_assertions, test))]
#[global_allocator]
static ALLOCATOR: fuzz::memory::Counting<jobs::fault::FailingAllocator> =
    fuzz::memory::Counting(jobs::fault::FailingAllocator);

fn main() -> ExitCode {
    cli::main()
}
