//! Probes: what the hidden states of a language model say about a text, and how much of that its words say by themselves.
//!
//! [`labelled`] reads texts with labels, [`capture`] runs a model over them, and [`states`] is the folder in which their hidden
//! states lie, which [`hdf5_folder`] and [`npz`] exchange with other programs. [`torch_probes`] brings probes that were learned elsewhere.
//!
//! [`study`] learns from that folder, [`report`] is what it found, and [`folder`] keeps the probes. [`apply`] asks them about other
//! texts, of which [`label_figures`] keeps how often they are right, and [`live`] about what a model is writing. A
//! probe’s [`direction`] leads a model towards its label; [`steer`] does that, and [`control_vector`] writes it for other programs. What they are made of: solvers
//! ([`lbfgs`], [`newton`], [`mean_difference`], [`adamw`]) over [`features`], figures ([`ranking`], [`calibration`], [`classes`]), and
//! how sure those are ([`bootstrap`], and where texts are few [`cross_validation`]). [`task`] does all of that in the steps of a run. Deliberately absent: gradients from a tape, since
//! a probe is one small problem with an exact answer.

pub mod adamw;
pub mod apply;
mod baselines;
pub mod bootstrap;
pub mod calibration;
pub mod capture;
pub mod capture_prompt;
pub mod classes;
pub mod control_vector;
pub mod course;
pub mod cross_validation;
pub mod direction;
pub mod examples;
pub mod features;
pub mod fields;
pub mod fitting;
pub mod folder;
pub mod hdf5;
pub mod hdf5_folder;
pub mod hidden;
pub mod kind;
pub mod label_figures;
pub mod labelled;
pub mod lbfgs;
pub mod live;
mod loss;
pub mod mean_difference;
pub mod newton;
pub mod npz;
mod pass_states;
pub mod precondition;
pub mod ranking;
pub mod report;
pub mod request;
mod resolve;
pub mod scale;
pub mod split;
pub mod states;
pub mod states_identity;
pub mod states_writer;
pub mod steer;
pub mod study;
pub mod task;
pub mod torch_probes;
mod verdict;
pub mod words;

pub use kind::Probe;
