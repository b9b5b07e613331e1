//! The program as its users meet it: the real binary, in a home of its own.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can't go on has failed"
)]

mod app;
mod cli;
mod hub;
mod hub_faults;
mod hub_server;
mod store;
mod train;
