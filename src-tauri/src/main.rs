//! Anneal.

mod store;
mod wire;

fn main() {}
