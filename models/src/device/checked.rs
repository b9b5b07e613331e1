//! What a plan must know of a device check. The check itself is [`crate::check`], which stands on the operations.

use serde::{Deserialize, Serialize};

use super::dtype::Dtype;

/// What is known of a device since it was checked. The default is a device that was never checked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Checked {
    /// Whether all of bf16 was tried and passed. It counts on Metal.
    pub bf16: bool,
    /// The dtypes in which something does not work on the device, with or without kernels of our own.
    pub refused_dtypes: Vec<Dtype>,
    /// The operations that work only without their kernels, by the names of those.
    pub composed: Vec<String>,
    /// What went wrong, when nothing can be trained on the device in any dtype that was tried.
    pub training_failed: Option<String>,
}
