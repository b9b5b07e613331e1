//! What `models` does, feature by feature.

mod plan;
