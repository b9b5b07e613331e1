//! What `models` does, feature by feature.

mod decoder;
mod golden;
mod plan;
mod train;
