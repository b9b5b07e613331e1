//! The special tokens that a new tokenizer gets, and how conversations are written with them.

use super::{
    template::CHAT_ML,
    tokenizer::{END_OF_TEXT, TURN_END, TURN_START, Tokenizer},
};

/// A way to mark turns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Marks {
    /// ChatML: one mark before a turn, which the speaker's name follows, and one after it.
    #[default]
    ChatMl,
    /// A pair of marks for each speaker and one between turns, as the chats of Tiny Recursive Models have them.
    Pairs,
}

/// Conversations in pairs of marks. A turn with the result of a tool is written as the user's: it has no marks of its own.
const PAIRS: &str = "{% for message in messages %}{% if not loop.first %}<|sep|>{% endif %}\
    {% if message['role'] == 'assistant' %}<|assistant|>\
    {% generation %}{{ message['content'] + '<|endassistant|>' }}{% endgeneration %}\
    {% elif message['role'] == 'system' %}{{ '<|system|>' + message['content'] + '<|endsystem|>' }}\
    {% else %}{{ '<|user|>' + message['content'] + '<|enduser|>' }}{% endif %}{% endfor %}\
    {% if add_generation_prompt %}<|sep|><|assistant|>{% else %}<|endoftext|>{% endif %}";

impl Marks {
    /// The special tokens, the one that ends texts first.
    pub fn tokens(self) -> &'static [&'static str] {
        match self {
            Self::ChatMl => &[END_OF_TEXT, TURN_START, TURN_END],
            Self::Pairs => &[
                END_OF_TEXT,
                "<|pad|>",
                "<|startoftext|>",
                "<|sep|>",
                "<|user|>",
                "<|enduser|>",
                "<|assistant|>",
                "<|endassistant|>",
                "<|system|>",
                "<|endsystem|>",
            ],
        }
    }

    /// What fills up short rows.
    pub fn pad(self) -> &'static str {
        match self {
            Self::ChatMl => END_OF_TEXT,
            Self::Pairs => "<|pad|>",
        }
    }

    /// What ends the assistant's turn.
    pub fn turn_end(self) -> &'static str {
        match self {
            Self::ChatMl => TURN_END,
            Self::Pairs => "<|endassistant|>",
        }
    }

    /// How a conversation is written.
    pub fn template(self) -> &'static str {
        match self {
            Self::ChatMl => CHAT_ML,
            Self::Pairs => PAIRS,
        }
    }

    /// The smallest vocabulary that can be trained: every byte, and the special tokens.
    pub fn smallest_vocabulary(self) -> usize {
        256 + self.tokens().len()
    }

    /// Those whose tokens a vocabulary has.
    pub fn of(tokenizer: &Tokenizer) -> Option<Self> {
        let has = |marks: &Self| {
            let mut turns = marks.tokens().iter().filter(|it| **it != END_OF_TEXT);
            turns.all(|it| tokenizer.token_id(it).is_some())
        };
        [Self::ChatMl, Self::Pairs].into_iter().find(has)
    }
}
