//! Probes: what the hidden states of a language model say about a text, and how much of that its words say by themselves.
//!
//! [`labelled`] reads texts with labels, [`capture`] runs a model over them, and [`states`] is the folder in which their hidden
//! states lie, which [`hdf5_folder`] and [`npz`] exchange with other programs.

pub mod capture;
pub mod capture_prompt;
pub mod hdf5;
pub mod hdf5_folder;
pub mod labelled;
pub mod npz;
pub mod states;
pub mod states_identity;
pub mod states_writer;
