//! Several texts that are written at once: a step reads a part of one prompt, and then one token of every text that is being written, so
//! that weights are read once for all of these.
//!
//! Each text has a cache of its own, which it leaves to the next one that begins alike. What the others do changes nothing of what is
//! written on a processor, but for what a cache still holds: what was read in other parts can differ in its last digits.
//!
//! Deliberately absent: who waits for a slot, and in which order.

use std::ops::ControlFlow;

use candle_core::Tensor;

use super::{
    Answer, Ended, Wanted, Written,
    json::JsonTokens,
    writing::{Unread, Writing, in_common},
};
use crate::{
    Error, Result,
    arch::{
        kv_cache::{KvCache, KvCaches},
        network::Network,
    },
    data::tokenizer::Tokenizer,
    ops::{
        kept::CacheType,
        kernels::{self, cpu::linear::FEW_ROWS, metal::in_pool},
    },
};

/// Tokens of a prompt that are read in one pass, between which others write.
const PROMPT_PART_TOKENS: usize = 256;

/// A model that writes several texts.
pub struct Slots {
    network: Network,
    avoid_kernels: Vec<String>,
    slots: Vec<Slot>,
    /// One for each slot.
    caches: KvCaches,
    /// How many texts were begun.
    begun: u64,
    json: JsonTokens,
}

#[derive(Default)]
struct Slot {
    text: Option<Text>,
    /// The number of the text that was begun here last.
    last: u64,
}

/// A text that is being written.
struct Text {
    name: u64,
    prompt: Vec<u32>,
    unread: Unread,
    writing: Writing,
    /// The token that was drawn and not read.
    drawn: Option<u32>,
}

/// What is heard of a text.
#[derive(Debug)]
pub enum Heard<'a> {
    /// A token was written, or text became certain.
    Written(Written<'a>),
    /// It is over.
    Ended(Answer),
    /// It can’t be written.
    Failed(Error),
}

impl Slots {
    /// As many as products of few rows take at once.
    pub const MOST: usize = FEW_ROWS;

    /// So many slots that are free, without the kernels of these operations.
    pub fn new(
        network: Network,
        count: usize,
        kept: CacheType,
        avoid_kernels: Vec<String>,
    ) -> Self {
        let cache = |_| {
            let mut cache = network.new_cache();
            cache.keep(network.cache_type(kept));
            cache
        };
        Self {
            slots: (0..count).map(|_| Slot::default()).collect(),
            caches: KvCaches::new((0..count).map(cache).collect()),
            avoid_kernels,
            begun: 0,
            json: JsonTokens::default(),
            network,
        }
    }

    /// Whether nothing is being written.
    pub fn is_idle(&self) -> bool {
        self.slots.iter().all(|slot| slot.text.is_none())
    }

    /// Begins a text, which is called so from now on. Errors when its prompt has no tokens or too many, or when no slot is free.
    pub fn begin(
        &mut self,
        name: u64,
        tokenizer: &Tokenizer,
        prompt: Vec<u32>,
        wanted: &Wanted,
    ) -> Result<()> {
        let context = self.network.context();
        let mut writing = Writing::new(tokenizer, &mut self.json, wanted, context)?;
        let network = &self.network;
        let count = self.slots.len();
        let slots = self.slots.iter_mut().zip(self.caches.iter_mut());
        let free = slots.filter(|(slot, _)| slot.text.is_none());
        // One that would be continued, where there is one: most of what it holds is of use. Otherwise the one that was left first.
        let chosen = free.max_by_key(|(slot, cache)| {
            let common = in_common(network, cache, &prompt);
            let is_continued = common > 0 && 2 * common >= cache.read().len();
            (
                if is_continued { common } else { 0 },
                std::cmp::Reverse(slot.last),
            )
        });
        let Some((slot, cache)) = chosen else {
            let problem = format!("{count} texts are being written already, which is the most");
            return Err(Error::Data(problem));
        };
        let unread = writing.prepare(network, cache, &prompt, PROMPT_PART_TOKENS)?;
        self.begun += 1;
        slot.last = self.begun;
        slot.text = Some(Text {
            name,
            prompt,
            unread,
            writing,
            drawn: None,
        });
        Ok(())
    }

    /// Stops writing a text, if it is not over. Nothing more is heard of it.
    pub fn leave(&mut self, name: u64) {
        for slot in &mut self.slots {
            if slot.text.as_ref().is_some_and(|text| text.name == name) {
                slot.text = None;
            }
        }
    }

    /// Reads a part of the prompt that came first, and one token of each text that is being written. `hear` is told of which text
    /// something is heard.
    pub fn step(&mut self, tokenizer: &Tokenizer, hear: &mut dyn FnMut(u64, Heard)) -> Result<()> {
        let _avoided = kernels::avoid(&self.avoid_kernels)?;
        let network = &self.network;
        let slots = self.slots.iter_mut().zip(self.caches.iter_mut());
        let reading = slots.filter(|(slot, _)| slot.is_reading());
        if let Some((slot, cache)) = reading.min_by_key(|(slot, _)| slot.last) {
            slot.read(network, cache, tokenizer, hear);
        }
        let drawn: Vec<Option<u32>> = self.slots.iter().map(Slot::drawn).collect();
        if drawn.iter().all(Option::is_none) {
            return Ok(());
        }
        let caches = &mut self.caches;
        let read = in_pool(|| network.next_logits_each(&drawn, caches));
        let each = self.slots.iter_mut().zip(self.caches.iter_mut());
        match read {
            Ok(logits) => {
                for ((slot, cache), logits) in each.zip(logits) {
                    if let Some(logits) = logits {
                        slot.draw(cache, tokenizer, &logits, hear);
                    }
                }
            }
            // Nobody knows whose it is.
            Err(error) => {
                let problem = error.to_string();
                for (slot, cache) in each.filter(|(slot, _)| slot.drawn().is_some()) {
                    slot.fail(cache, Error::Data(problem.clone()), hear);
                }
            }
        }
        Ok(())
    }
}

impl Slot {
    fn is_reading(&self) -> bool {
        let text = self.text.as_ref();
        text.is_some_and(|text| text.unread.first < text.prompt.len())
    }

    /// The token that was drawn and not read.
    fn drawn(&self) -> Option<u32> {
        self.text.as_ref()?.drawn
    }

    /// Reads a part of the prompt, and draws a token after the last.
    fn read(
        &mut self,
        network: &Network,
        cache: &mut KvCache,
        tokenizer: &Tokenizer,
        hear: &mut dyn FnMut(u64, Heard),
    ) {
        let Some(text) = &mut self.text else {
            return;
        };
        let Unread { first, at_once } = text.unread;
        let end = text.prompt.len().min(first + at_once);
        match in_pool(|| network.next_logits(&text.prompt[first..end], cache)) {
            Ok(logits) => {
                text.unread.first = end;
                if end == text.prompt.len() {
                    self.draw(cache, tokenizer, &logits, hear);
                }
            }
            Err(error) => self.fail(cache, error, hear),
        }
    }

    /// Draws the next token by scores [v], or ends the text.
    fn draw(
        &mut self,
        cache: &KvCache,
        tokenizer: &Tokenizer,
        logits: &Tensor,
        hear: &mut dyn FnMut(u64, Heard),
    ) {
        let Some(mut text) = self.text.take() else {
            return;
        };
        let (name, held) = (text.name, cache.read().len());
        let mut show = |written: Written| {
            hear(name, Heard::Written(written));
            ControlFlow::Continue(())
        };
        let drawn = text.writing.draw(tokenizer, logits, held, &mut show);
        let ended = match drawn {
            Ok(ControlFlow::Continue(token)) if !text.writing.is_full() => {
                text.drawn = Some(token);
                self.text = Some(text);
                return;
            }
            Ok(ControlFlow::Continue(_)) => text.writing.finish(Ended::MaxTokens, &mut show),
            Ok(ControlFlow::Break(ended)) => text.writing.finish(ended, &mut show),
            Err(error) => Err(error),
        };
        hear(name, ended.map_or_else(Heard::Failed, Heard::Ended));
    }

    /// Ends the text without an answer. What was read of it may be there in some layers only.
    fn fail(&mut self, cache: &mut KvCache, error: Error, hear: &mut dyn FnMut(u64, Heard)) {
        cache.truncate(0);
        if let Some(text) = self.text.take() {
            hear(text.name, Heard::Failed(error));
        }
    }
}
