//! What `models` does, feature by feature.

mod batches;
mod data;
mod decoder;
mod golden;
mod language;
mod plan;
mod tokens;
mod train;
