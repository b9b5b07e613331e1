//! Puzzles: grids that a Tiny Recursive Model fills in.
//!
//! - [`halting`]: how long puzzles are thought about, and what is learned from a step

pub mod halting;
