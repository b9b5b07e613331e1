//! The kinds of learning: what each must say so that the one loop of `train` can train it.

pub mod language;
pub mod starter;
