//! Training: what was asked, what it means, and what happens.

pub mod event;
pub mod plan;
pub mod preset;
pub mod request;
pub mod resolve;

pub use event::{Observer, TrainEvent};
pub use plan::{Facts, Problem, Problems, Reason, Resolved, TrainPlan};
pub use request::TrainRequest;
pub use resolve::resolve;
