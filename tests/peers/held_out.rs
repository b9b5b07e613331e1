//! The first held-out rows of a run, for `peer_export_loss.py`: those that an export is compared on.
//!
//! ```text
//! held_out FOLDER DATA.jsonl
//! ```
//!
//! `FOLDER` has the tokenizer; a share of 0.05, the seed 42 and 256 tokens a row are those that a run has by default or was given. Prints
//! a list of rows, each with its tokens and which of them are learned.

#![allow(clippy::print_stdout, missing_docs)]

use std::{error::Error, path::Path};

use models::{
    data::{DataRequest, encode::Learn},
    tasks::language::text::{Text, TokenizerFrom},
};
use serde_json::json;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [folder, data] = words.as_slice() else {
        return Err("usage: held_out FOLDER DATA.jsonl".into());
    };
    let request = DataRequest {
        paths: vec![data.into()],
        ..DataRequest::default()
    };
    let text = Text::open(&request, 0.05, TokenizerFrom::Folder(Path::new(folder)), 42)?;
    let mut left = 2048;
    let rows = text.encode(&text.held_out, Learn::Assistant, 256).rows;
    let rows = rows.into_iter().take_while(|row| {
        left -= row.tokens.len() as i64;
        left >= 0
    });
    let rows: Vec<_> = rows.map(|it| json!([it.tokens, it.learned])).collect();
    println!("{}", json!(rows));
    Ok(())
}
