//! What `models` does, feature by feature.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test stops at what it did not expect, and says what it skips"
)]

mod batches;
mod capture;
#[cfg(feature = "chat-only")]
mod chat_only;
mod check;
mod checkpoint;
mod checkpoints_hostile;
mod columns;
mod config;
mod data;
mod decoder;
mod descent;
mod exchange;
mod exports;
mod fields;
mod first_rows;
mod fit;
mod fuzz;
mod gguf_files;
mod golden;
mod hostile;
mod kind;
mod language;
mod language_export_ends;
mod language_exports;
mod memory_fallback;
mod optimizers;
mod packed;
mod parquet_files;
mod picture_cifar;
mod picture_data;
mod picture_exports;
mod picture_files;
mod picture_nets;
mod picture_published;
mod picture_run;
mod picture_seen;
mod picture_sets;
mod picture_vit;
mod pictures_hostile;
mod plan;
mod probe;
mod probe_apply;
mod probe_import;
mod probe_live;
mod probe_run;
mod probe_speed;
mod probe_steer;
mod probe_study;
mod probes_hostile;
mod puzzles;
mod puzzles_data;
mod puzzles_hostile;
mod quantized;
mod share;
mod slots;
mod solve;
mod solve_tasks;
mod spikes;
mod states_exchange;
mod template;
mod tokens;
mod train;
mod trm;
mod trm_causal;
mod trm_pieces;

/// Counts what the readers of `hostile.rs` take.
#[global_allocator]
static ALLOCATOR: fuzz::memory::Counting<std::alloc::System> =
    fuzz::memory::Counting(std::alloc::System);
