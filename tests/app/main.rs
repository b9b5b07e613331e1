//! The program as its users meet it: the real binary, in a home of its own.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that can’t continue has failed"
)]

mod app;
mod bench;
#[cfg(target_os = "linux")]
mod breaking;
mod check;
mod cli;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod disks;
mod earlier;
mod export;
mod hub;
mod hub_faults;
mod hub_server;
#[cfg(target_os = "linux")]
mod hub_speed;
mod predict;
mod probe;
mod profile;
#[cfg(target_os = "linux")]
mod ranks;
mod red_or_blue;
#[cfg(target_os = "linux")]
mod soak;
mod solve;
mod store;
mod train;
