//! Answers questions about adapters, batches, chat templates and tokenizers, for comparison with other programs.
//!
//! Each line of the input is a question in JSON, each line of the output its answer, or `{"error": …}`. The scripts
//! `random_*.py` and `learning.py` in `tests/goldens` ask.

use std::{
    collections::HashMap,
    error::Error,
    fs,
    io::{BufRead, Write},
    path::{Path, PathBuf},
};

use candle_core::Device;
use models::{
    arch::decoder::Input,
    checkpoint::{
        adapter::{load_adapter, save_adapter},
        folder::ModelFolder,
        load::{LoadDtypes, load_decoder},
    },
    data::{
        row::Message,
        template::{ChatTemplate, Rendered},
        tokenizer::Tokenizer,
    },
    tasks::{AnyPlan, TaskPlan, language::Language},
    train::{Kind, RunPlace, TrainPlan, task::Task},
};
use serde::Deserialize;
use serde_json::{Value as Json, json};

/// What a line of the input can ask.
#[derive(Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
enum Question {
    /// The text of a conversation, or the prompt for its next turn.
    Render {
        folder: PathBuf,
        messages: Vec<Message>,
        prompt: bool,
    },
    /// The texts that are learned of a conversation, and which of their characters.
    Learned {
        folder: PathBuf,
        messages: Vec<Message>,
    },
    /// The tokens of a text, what they say again, and what they say one by one.
    Encode {
        folder: PathBuf,
        text: String,
        special: bool,
    },
    /// The logits of a model with an adapter, moved a little and saved where `save` names a folder.
    Adapter {
        base: PathBuf,
        adapter: PathBuf,
        tokens: Vec<Vec<u32>>,
        save: Option<PathBuf>,
    },
    /// The first batches that a run with this plan learns from.
    Batches { plan: PathBuf, count: usize },
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut tokenizers = HashMap::new();
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let answered = serde_json::from_str(&line?)
            .map_err(Into::into)
            .and_then(|question| answer(question, &mut tokenizers));
        let answer = answered.unwrap_or_else(|error| json!({"error": error.to_string()}));
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}

fn answer(
    question: Question,
    tokenizers: &mut HashMap<PathBuf, Tokenizer>,
) -> Result<Json, Box<dyn Error>> {
    let mut tokenizer = |folder: PathBuf| -> models::Result<Tokenizer> {
        if let Some(known) = tokenizers.get(&folder) {
            return Ok(known.clone());
        }
        let loaded = Tokenizer::load(&folder)?;
        Ok(tokenizers.entry(folder).or_insert(loaded).clone())
    };
    Ok(match question {
        Question::Render {
            folder,
            messages,
            prompt,
        } => {
            let template = ChatTemplate::of(&tokenizer(folder)?)?;
            json!({"text": match prompt {
                true => template.prompt(&messages)?,
                false => template.text(&messages)?,
            }})
        }
        Question::Learned { folder, messages } => {
            let rows = ChatTemplate::of(&tokenizer(folder)?)?.render(&messages)?;
            json!({"rows": rows.iter().map(in_characters).collect::<Vec<_>>()})
        }
        Question::Encode {
            folder,
            text,
            special,
        } => {
            let tokenizer = tokenizer(folder)?;
            let tokens = tokenizer.encode(&text, special)?;
            let mut stream = tokenizer.stream_decoder();
            let pieces: models::Result<Vec<String>> =
                tokens.iter().map(|&token| stream.push(token)).collect();
            json!({
                "decoded": tokenizer.decode(&tokens, false)?,
                "streamed": pieces?.concat() + &stream.finish()?,
                "tokens": tokens,
            })
        }
        Question::Adapter {
            base,
            adapter,
            tokens,
            save,
        } => adapter_logits(&base, &adapter, &tokens, save.as_deref())?,
        Question::Batches { plan, count } => batches(&plan, count)?,
    })
}

fn batches(plan: &Path, count: usize) -> Result<Json, Box<dyn Error>> {
    let AnyPlan { run, task } = serde_saphyr::from_str(&fs::read_to_string(plan)?)?;
    let TaskPlan::Language(task) = task else {
        return Err("the plan is not about language".into());
    };
    let mut task = Language::open(&TrainPlan { run, task }, &RunPlace::bare(&Device::Cpu))?;
    let next = || -> models::Result<Json> {
        let batch = task.next_batch()?;
        Ok(json!({
            "tokens": batch.tokens,
            "targets": batch.targets,
            "positions": batch.positions,
            "documents": batch.documents,
            "row_length": batch.row_length,
        }))
    };
    let batches: models::Result<Vec<Json>> = std::iter::repeat_with(next).take(count).collect();
    Ok(json!({"batches": batches?}))
}

fn in_characters(row: &Rendered) -> Json {
    let place = |at: usize| row.text[..at].chars().count();
    let learned: Vec<_> = row
        .learned
        .iter()
        .map(|it| [place(it.start), place(it.end)])
        .collect();
    json!({"text": row.text, "learned": learned})
}

fn adapter_logits(
    base: &Path,
    adapter: &Path,
    tokens: &[Vec<u32>],
    save: Option<&Path>,
) -> Result<Json, Box<dyn Error>> {
    let folder = ModelFolder::open(base)?;
    let mut decoder = load_decoder(&folder, LoadDtypes::F32, false, &Device::Cpu)?;
    let config = load_adapter(&mut decoder, adapter)?;
    if let Some(folder) = save {
        for parameter in decoder.parameters().trainable() {
            parameter.assign(&parameter.tensor().affine(1.25, 0.01)?)?;
        }
        save_adapter(&decoder, &config, &base.to_string_lossy(), folder)?;
    }
    let all = tokens.concat();
    let hidden = decoder.hidden(None, Input::new(&all, tokens.len()), None, false)?;
    let logits = decoder.logits(&hidden.tensor().flatten_to(1)?)?;
    let logits = logits.reshape((tokens.len(), (), decoder.config().vocab_size))?;
    Ok(json!({"logits": logits.to_vec3::<f32>()?}))
}
