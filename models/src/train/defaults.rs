//! What every run starts with where neither its request nor its kind of learning says more.

use super::request::ScheduleKind;

/// AdamW's memory of gradients, as in PyTorch.
pub const BETA1: f64 = 0.9;
/// AdamW's epsilon, as in PyTorch.
pub const EPSILON: f64 = 1e-8;
/// SGD's momentum.
pub const MOMENTUM: f64 = 0.9;
/// Muon's momentum, as its author has it.
pub const MUON_MOMENTUM: f64 = 0.95;
/// Muon's learning rate, as its author has it.
pub const MUON_LEARNING_RATE: f64 = 0.02;
/// How often Muon brings singular values nearer to 1, as its author has it.
pub const MUON_STEPS: usize = 5;
/// The gradient norm above which a step is scaled down.
pub const CLIP_NORM: f64 = 1.0;
/// Where the learning rate ends, as a share of the highest.
pub const MIN_RATIO: f64 = 0.1;
/// How the learning rate falls.
pub const SCHEDULE: ScheduleKind = ScheduleKind::Cosine;
/// Where randomness starts.
pub const SEED: u64 = 42;
