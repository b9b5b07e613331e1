//! What others have published of the speed of tools: theirs, not measured by us.
//!
//! Each stands as its source has it, with the work and the hardware that the source names. None is the work that is
//! measured here, so they give an idea of an order of magnitude and no more.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::embedded::table;

/// A figure from the documentation of another tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// The name of the program that was measured: `MLX LM`.
    pub tool: String,
    /// Which of our workloads it is nearest to.
    pub workload: String,
    /// The work, as the source describes it.
    pub work: String,
    /// The hardware, as the source names it.
    pub hardware: String,
    /// Tokens a second.
    pub tokens_per_second: f64,
    /// When it was published: `2024-09`.
    pub date: String,
    /// Where.
    pub source: String,
}

/// All of them, by workload.
pub static PUBLISHED: LazyLock<Vec<Published>> =
    LazyLock::new(|| table("published.json", include_str!("published.json")));
