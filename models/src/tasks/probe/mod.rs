//! Probes: what the hidden states of a language model say about a text, and how much of that its words say by themselves.
//!
//! [`states`] is the folder in which the hidden states of labelled text lie.

pub mod states;
pub mod states_writer;
