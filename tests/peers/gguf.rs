//! Answers for `peer_gguf.py`: what a GGUF file's tokenizer and decoder make of texts.
//!
//! ```text
//! gguf MODEL.gguf TEXTS.json LOGITS.f32 [--written=CACHE]
//! ```
//!
//! `TEXTS.json` is a list of texts. Their tokens go to the output as one line of JSON; of the first text, in windows of 512
//! tokens, the logits at every place are written into a file of f32. With `--written` tokens are read one after the other, as when an
//! answer is written, with keys and values kept as CACHE says: auto, full, f16 or q8.

#![allow(clippy::print_stdout, missing_docs)]

use std::{
    error::Error,
    fs,
    io::{BufWriter, Write},
    path::Path,
    time::Instant,
};

use candle_core::{Device, Tensor};
use models::{
    arch::decoder::Input,
    checkpoint::{
        folder::ModelFolder,
        load::{LoadDtypes, load_decoder},
    },
    data::tokenizer::Tokenizer,
    ops::kept::CacheType,
};
use serde_json::{from_value, json};

/// The tokens of a window.
const WINDOW: usize = 512;
/// The tokens that are looked at, at most.
const MAX: usize = 2048;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (words, written) = match words.as_slice() {
        [words @ .., last] if last.starts_with("--") => (words, last.strip_prefix("--written=")),
        words => (words, None),
    };
    let written: Option<CacheType> = written.map(|it| from_value(json!(it))).transpose()?;
    let [model, texts, logits] = words else {
        return Err("usage: gguf MODEL.gguf TEXTS.json LOGITS.f32 [--written=CACHE]".into());
    };
    let model = Path::new(model);
    let texts: Vec<String> = serde_json::from_slice(&fs::read(texts)?)?;
    let tokenizer = Tokenizer::load(model)?;
    let tokens = texts.iter().map(|text| tokenizer.encode(text, false));
    let tokens: Vec<Vec<u32>> = tokens.collect::<models::Result<_>>()?;
    let decoded = tokens.iter().map(|it| tokenizer.decode(it, true));
    let decoded: Vec<String> = decoded.collect::<models::Result<_>>()?;
    let begins = tokenizer.encode("", true)?;
    let decoder = load_decoder(
        &ModelFolder::open(model)?,
        LoadDtypes::F32,
        false,
        &Device::Cpu,
    )?;
    let mut out = BufWriter::new(fs::File::create(logits)?);
    let first = tokens
        .first()
        .map_or(&[][..], |it| &it[..it.len().min(MAX)]);
    let start = Instant::now();
    for part in first.chunks(WINDOW) {
        let scores = if let Some(written) = written {
            let mut cache = decoder.new_cache();
            cache.keep(decoder.cache_type(written));
            let scores = part
                .iter()
                .map(|token| decoder.next_logits(&[*token], &mut cache));
            Tensor::stack(&scores.collect::<models::Result<Vec<_>>>()?, 0)?
        } else {
            let hidden = decoder.hidden(None, Input::new(part, 1), None, false)?;
            decoder.logits(&hidden.tensor().flatten_to(1)?)?
        };
        for number in scores.flatten_all()?.to_vec1::<f32>()? {
            out.write_all(&number.to_le_bytes())?;
        }
    }
    out.flush()?;
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{}",
        json!({"tokens": tokens, "decoded": decoded, "begins": begins, "stop": tokenizer.special.stop, "seconds": seconds})
    );
    Ok(())
}
