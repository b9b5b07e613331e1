//! What `models` does, feature by feature.

mod decoder;
mod golden;
mod language;
mod plan;
mod train;
