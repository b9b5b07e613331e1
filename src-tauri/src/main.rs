//! Anneal: train models on your own machine and talk to them.
//!
//! The program is two thin shells over one [`host::Host`]. This file only picks the shell.

mod cli;
mod host;
mod store;
mod wire;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
