//! Anneal.

fn main() {}
