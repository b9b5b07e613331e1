//! Several texts that are written at once: a step reads a part of one prompt, and one token of every text that is being written, so
//! that weights are read once for all of them.
//!
//! Each text has a cache of its own, which it leaves to the next one that begins alike. What is written of a text on a processor does
//! not depend on the others. Deliberately absent: who waits for a slot, and in which order.

use std::ops::ControlFlow;

use candle_core::Tensor;

use super::{
    Answer, Ended, Wanted, Written,
    writing::{Unread, Writing, in_common},
};
use crate::{
    Error, Result,
    arch::{kv_cache::KvCache, network::Network},
    data::tokenizer::Tokenizer,
    ops::{
        kept::CacheType,
        kernels::{self, metal::in_pool},
    },
};

/// Tokens of a prompt that are read in one pass, between which others write.
const PROMPT_PART_TOKENS: usize = 256;

/// A model that writes several texts.
pub struct Slots {
    network: Network,
    avoid_kernels: Vec<String>,
    slots: Vec<Slot>,
    /// How many texts were begun.
    begun: u64,
}

struct Slot {
    cache: KvCache,
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
    /// A token was written, a part of its prompt read, or text became certain.
    Written(Written<'a>),
    /// It is over.
    Ended(Answer),
    /// It can’t be written.
    Failed(Error),
}

impl Slots {
    /// So many slots that are free, without the kernels of these operations.
    pub fn new(
        network: Network,
        count: usize,
        kept: CacheType,
        avoid_kernels: Vec<String>,
    ) -> Self {
        let slot = |_| {
            let mut cache = network.new_cache();
            cache.keep(network.cache_type(kept));
            Slot {
                cache,
                text: None,
                last: 0,
            }
        };
        Self {
            slots: (0..count).map(slot).collect(),
            avoid_kernels,
            begun: 0,
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
        let mut writing = Writing::new(tokenizer, wanted, self.network.context())?;
        let network = &self.network;
        let count = self.slots.len();
        let free = self.slots.iter_mut().filter(|slot| slot.text.is_none());
        // One that would be continued, where there is one: most of what it holds is of use. Otherwise the one that was left first.
        let chosen = free.max_by_key(|slot| {
            let common = in_common(network, &slot.cache, &prompt);
            let is_continued = common > 0 && 2 * common >= slot.cache.read().len();
            (
                if is_continued { common } else { 0 },
                std::cmp::Reverse(slot.last),
            )
        });
        let Some(slot) = chosen else {
            let problem = format!("{count} texts are being written already, which is the most");
            return Err(Error::Data(problem));
        };
        let unread = writing.prepare(network, &mut slot.cache, &prompt, PROMPT_PART_TOKENS)?;
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
        let reading = self.slots.iter_mut().filter(|slot| slot.is_reading());
        if let Some(slot) = reading.min_by_key(|slot| slot.last) {
            slot.read(network, tokenizer, hear);
        }
        let writing = self.slots.iter_mut().filter(|slot| slot.drawn().is_some());
        let mut writing: Vec<&mut Slot> = writing.collect();
        let tokens: Vec<u32> = writing.iter().filter_map(|slot| slot.drawn()).collect();
        if tokens.is_empty() {
            return Ok(());
        }
        let caches = writing.iter_mut().map(|slot| &mut slot.cache);
        let mut caches: Vec<&mut KvCache> = caches.collect();
        match in_pool(|| network.next_logits_each(&tokens, &mut caches)) {
            Ok(logits) => {
                for (slot, logits) in writing.into_iter().zip(logits) {
                    slot.draw(tokenizer, &logits, hear);
                }
            }
            // Nobody knows whose it is.
            Err(error) => {
                let problem = error.to_string();
                for slot in writing {
                    slot.fail(Error::Data(problem.clone()), hear);
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
    fn read(&mut self, network: &Network, tokenizer: &Tokenizer, hear: &mut dyn FnMut(u64, Heard)) {
        let Some(text) = &mut self.text else {
            return;
        };
        let Unread { first, at_once } = text.unread;
        let end = text.prompt.len().min(first + at_once);
        let cache = &mut self.cache;
        match in_pool(|| network.next_logits(&text.prompt[first..end], cache)) {
            Ok(logits) => {
                text.unread.first = end;
                hear(text.name, Heard::Written(Written::rest("")));
                if end == text.prompt.len() {
                    self.draw(tokenizer, &logits, hear);
                }
            }
            Err(error) => self.fail(error, hear),
        }
    }

    /// Draws the next token by scores [v], or ends the text.
    fn draw(&mut self, tokenizer: &Tokenizer, logits: &Tensor, hear: &mut dyn FnMut(u64, Heard)) {
        let Some(mut text) = self.text.take() else {
            return;
        };
        let (name, held) = (text.name, self.cache.read().len());
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
    fn fail(&mut self, error: Error, hear: &mut dyn FnMut(u64, Heard)) {
        self.cache.truncate(0);
        if let Some(text) = self.text.take() {
            hear(text.name, Heard::Failed(error));
        }
    }
}
