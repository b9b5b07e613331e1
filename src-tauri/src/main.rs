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
mod power;
mod store;
mod wire;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
