//! Everything between a file on disk and a batch of token rows.
pub mod tokenizer;
