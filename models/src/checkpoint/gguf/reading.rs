//! The keys that a GGUF file has of its architecture, each asked for by its name without it.

use std::collections::BTreeSet;

use serde_json::{Map, Value as Json, json};

use crate::{
    Error, Result,
    gguf::{Gguf, Value},
};

/// Keys of an architecture that change nothing, or say again what tensors say.
const HARMLESS: &[&str] = &["attention.causal", "vocab_size", "rope.scaling.finetuned"];

/// The keys of the architecture of a file.
pub(super) struct Keys<'a> {
    pub(super) file: &'a Gguf,
    architecture: &'a str,
    /// Those that were asked for.
    read: BTreeSet<String>,
}

impl<'a> Keys<'a> {
    pub(super) fn new(file: &'a Gguf, architecture: &'a str) -> Self {
        Self {
            file,
            architecture,
            read: BTreeSet::new(),
        }
    }

    fn key(&mut self, name: &str) -> String {
        self.read.insert(name.to_owned());
        format!("{}.{name}", self.architecture)
    }

    pub(super) fn get(&mut self, name: &str) -> Option<&Value> {
        let key = self.key(name);
        self.file.get(&key)
    }

    pub(super) fn whole(&mut self, name: &str) -> Result<u64> {
        let key = self.key(name);
        self.file.whole(&key)
    }

    pub(super) fn whole_or(&mut self, name: &str, otherwise: u64) -> Result<u64> {
        match self.get(name).is_some() {
            true => self.whole(name),
            false => Ok(otherwise),
        }
    }

    pub(super) fn number(&mut self, name: &str) -> Option<f64> {
        self.get(name).and_then(Value::as_f64).map(shortened)
    }

    pub(super) fn has(&self, tensor: &str) -> bool {
        self.file.tensors.contains_key(tensor)
    }

    /// How many blocks there are, each of which has a tensor at least.
    pub(super) fn blocks(&mut self) -> Result<u64> {
        let (blocks, tensors) = (self.whole("block_count")?, self.file.tensors.len());
        if blocks > tensors as u64 {
            return self.refuse(format!(
                "the file says that it has {blocks} blocks, and has {tensors} tensors"
            ));
        }
        Ok(blocks)
    }

    /// How many tokens are known.
    pub(super) fn vocabulary(&self) -> Result<u64> {
        let table = self.file.tensors.get("token_embd.weight");
        match table.map(|it| it.shape.as_slice()) {
            Some(&[vocabulary, _]) => Ok(vocabulary as u64),
            _ => self.refuse("the file has no `token_embd.weight`, so it is no whole model"),
        }
    }

    pub(super) fn refuse<T>(&self, problem: impl Into<String>) -> Result<T> {
        Err(Error::format(&self.file.path, problem))
    }

    /// Refuses what was not asked for and may change what a model computes.
    pub(super) fn check_all_read(&self) -> Result<()> {
        let prefix = format!("{}.", self.architecture);
        let own = self.file.keys.iter();
        let own = own.filter_map(|(key, value)| Some((key.strip_prefix(&prefix)?, value)));
        let is_off = |value: &Value| value.as_u64() == Some(0) || value.as_bool() == Some(false);
        let mut unknown = own.filter(|(key, value)| {
            !self.read.contains(*key) && !HARMLESS.contains(key) && !is_off(value)
        });
        match unknown.next() {
            None => Ok(()),
            Some((key, _)) => self.refuse(format!(
                "its key `{prefix}{key}` is not known here, and may change what the model computes"
            )),
        }
    }

    /// The tokens that begin and end a text.
    pub(super) fn tokens(&mut self, config: &mut Map<String, Json>) {
        for (field, key) in [("bos_token_id", "bos"), ("eos_token_id", "eos")] {
            let token = self.file.get(&format!("tokenizer.ggml.{key}_token_id"));
            if let Some(token) = token.and_then(Value::as_u64) {
                config.insert(field.to_owned(), json!(token));
            }
        }
    }
}

/// The number of the fewest digits that is this one in f32: what a person wrote before it was kept in 32 bits.
pub(super) fn shortened(number: f64) -> f64 {
    let narrow = number as f32;
    match f64::from(narrow) == number {
        true => narrow.to_string().parse().unwrap_or(number),
        false => number,
    }
}
