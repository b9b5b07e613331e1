//! What Anneal computes of tiny checkpoints, as one line of JSON each, for `tests/goldens/random_models.py` to compare.
//!
//! ```text
//! cargo run --package anneal-models --example numbers -- FOLDER
//! ```
//!
//! Every folder in FOLDER has an `asked.json`: tokens, targets and a prompt beside a checkpoint, or an optimizer with what it
//! starts from. What is refused has an `error` in place of numbers.

#![allow(clippy::print_stdout, reason = "its numbers are read by a script")]

#[path = "../models/descent.rs"]
mod descent;

use std::{env, fs, path::Path, path::PathBuf};

use candle_core::{DType, Device};
use descent::Descent;
use models::{
    Error, Result,
    arch::decoder::{Decoder, Input},
    checkpoint::{
        folder::{ModelFolder, read_json},
        load::{LoadDtypes, load_decoder},
    },
    ops::cross_entropy::IGNORE,
    tape::{Gradients, Tape},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value as Json, json};

/// What is asked of a checkpoint.
#[derive(Deserialize)]
struct Asked {
    tokens: Vec<Vec<u32>>,
    /// The token to predict at each position; below 0 where there is none.
    targets: Vec<Vec<i64>>,
    prompt: Vec<u32>,
    /// How many tokens are to follow the prompt.
    decoded: usize,
}

fn main() -> Result<()> {
    let folder = env::args_os().nth(1).map(PathBuf::from);
    let folder = folder.ok_or_else(|| Error::Data("name a folder with folders".to_owned()))?;
    let failed = Error::file("list the folders", &folder);
    let entries: std::io::Result<Vec<_>> = fs::read_dir(&folder).and_then(Iterator::collect);
    for entry in entries.map_err(failed)? {
        let mut answer = match answer(&entry.path()) {
            Ok(answer) => answer,
            Err(error) => json!({"error": error.to_string()}),
        };
        answer["name"] = json!(entry.file_name().to_string_lossy());
        println!("{answer}");
    }
    Ok(())
}

fn answer(folder: &Path) -> Result<Json> {
    let asked = read_json(&folder.join("asked.json"), "read what is asked")?;
    match asked.get("rates") {
        Some(_) => Ok(json!({"weights": read::<Descent>(asked)?.weights()?})),
        None => compute(folder, &read(asked)?),
    }
}

fn read<T: DeserializeOwned>(asked: Json) -> Result<T> {
    serde_json::from_value(asked).map_err(|error| Error::Data(error.to_string()))
}

fn compute(folder: &Path, asked: &Asked) -> Result<Json> {
    let folder = ModelFolder::open(folder)?;
    let decoder = load_decoder(&folder, LoadDtypes::F32, true, &Device::Cpu)?;
    let tokens = asked.tokens.concat();
    let input = Input::new(&tokens, asked.tokens.len());
    let targets = asked.targets.concat().into_iter();
    let targets: Vec<u32> = targets
        .map(|target| u32::try_from(target).unwrap_or(IGNORE))
        .collect();
    let count = targets.iter().filter(|target| **target != IGNORE).count() as f64;
    let tape = Tape::new(0);
    let hidden = decoder.hidden(Some(&tape), input, None, false)?;
    let logits = decoder.logits(&hidden.tensor().flatten_to(1)?)?;
    let loss = decoder.loss(Some(&tape), &hidden, &targets, count)?;
    let value = loss.tensor().to_scalar::<f32>()?;
    let mut gradients = Gradients::default();
    tape.backward(&loss, 1.0, &mut gradients)?;
    let mut norms = Map::new();
    for (name, gradient) in gradients.iter() {
        let squares = gradient.to_dtype(DType::F64)?.sqr()?.sum_all()?;
        norms.insert(name.to_owned(), json!(squares.to_scalar::<f64>()?.sqrt()));
    }
    Ok(json!({
        "logits": logits.flatten_all()?.to_vec1::<f32>()?,
        "loss": value,
        "gradient_norms": norms,
        "greedy": greedy(&decoder, asked)?,
    }))
}

/// The best token after the prompt, and after each that follows, with a cache.
fn greedy(decoder: &Decoder, asked: &Asked) -> Result<Vec<u32>> {
    let mut cache = decoder.new_cache();
    let mut next = asked.prompt.clone();
    let mut written = Vec::new();
    for _ in 0..asked.decoded {
        let logits = decoder.next_logits(&next, &mut cache)?;
        next = vec![logits.argmax(0)?.to_scalar()?];
        written.extend(&next);
    }
    Ok(written)
}
