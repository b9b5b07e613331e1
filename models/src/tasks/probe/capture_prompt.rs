//! A labelled text as the tokens that a model reads, and which of them its states are kept of.
//!
//! Text and suffix are tokenized in one string, since a tokenizer may join the last letters of one with the first of the other.
//! Which tokens are the text's own is told by their places in that string; what a template, a suffix or the tokenizer puts around
//! it is none of them. A token that reaches over the edge of the text counts as its own.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::{
    labelled::LabelledText,
    states::{Position, PromptRule},
};
use crate::{
    Error, Result,
    data::{
        row::{Message, Role},
        template::ChatTemplate,
        tokenizer::{Located, Tokenizer},
    },
    figures::count,
    tasks::language::model::LanguageModel,
};

/// Where the text stands in a pattern.
const TEXT: &str = "{text}";
/// A text that no template contains, to find what a template puts around one.
const MARK: &str = "aZq7-text";

/// Patterns by name, for those that many probes were trained with.
pub const PATTERNS: [(&str, &str); 2] = [
    ("none", "{text}"),
    (
        "cognitive-action",
        "{text}\n\nThe cognitive action being demonstrated here is",
    ),
];

/// How a text should be shown to the model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PromptRequest {
    /// A name of [`PATTERNS`], a text with `{text}` in it, or what is put directly after the text. Absent, the text alone.
    pub suffix: Option<String>,
    /// Show it as a user's turn in the model's chat template, up to where the answer would begin.
    pub chat: bool,
}

/// A text as tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prompted {
    /// What the model reads.
    pub tokens: Vec<u32>,
    /// The places in `tokens` whose states are kept or averaged, rising; at least one.
    pub picked: Vec<u32>,
}

/// Shows texts to one model by one rule.
pub struct Prompter<'a> {
    tokenizer: &'a Tokenizer,
    template: &'a ChatTemplate,
    rule: &'a PromptRule,
    position: Position,
    /// The most tokens that the model reads.
    context: usize,
    /// What stands before and after the text in a prompt, in bytes.
    around: (usize, usize),
    /// The tokens that the tokenizer puts before and after one. A template has them in its text.
    frame: (Vec<u32>, Vec<u32>),
}

impl PromptRequest {
    /// The rule for a model.
    ///
    /// Errors: [`Error::Setting`] when the pattern has the text more than once.
    pub fn rule(&self, template: &ChatTemplate) -> Result<PromptRule> {
        let suffix = self.suffix.as_deref().unwrap_or_default();
        let named = PATTERNS.iter().find(|(name, _)| *name == suffix);
        let pattern = match (named, suffix.matches(TEXT).count()) {
            (Some((_, pattern)), _) => (*pattern).to_owned(),
            (None, 0) => format!("{TEXT}{suffix}"),
            (None, 1) => suffix.to_owned(),
            (None, times) => {
                let problem = format!("has {TEXT} {times} times, and a text is shown once");
                return Err(Error::setting("suffix", problem));
            }
        };
        Ok(PromptRule {
            pattern,
            template: self.chat.then(|| template.source.clone()),
        })
    }
}

impl<'a> Prompter<'a> {
    /// For a model and a rule.
    pub fn new(model: &'a LanguageModel, rule: &'a PromptRule, position: Position) -> Result<Self> {
        let mut prompter = Self {
            tokenizer: &model.tokenizer,
            template: &model.template,
            rule,
            position,
            context: model.network.context(),
            around: (0, 0),
            frame: match rule.template {
                Some(_) => Default::default(),
                None => model.tokenizer.frame()?,
            },
        };
        let marked = prompter.shown(MARK)?;
        let start = marked.find(MARK).ok_or_else(|| {
            let problem =
                "the chat template changes the text of a turn, so its tokens can’t be found";
            Error::Data(problem.to_owned())
        })?;
        prompter.around = (start, marked.len() - start - MARK.len());
        Ok(prompter)
    }

    /// The tokens of a text, or why there are none.
    pub fn prompted(&self, row: &LabelledText) -> Result<Prompted, String> {
        let prompted = match self.position {
            Position::Answer => self.answered(row),
            _ => self.asked(row),
        };
        let prompted = prompted.map_err(|error| error.to_string())?;
        let tokens = prompted.tokens.len();
        if tokens > self.context {
            return Err(format!(
                "has {} tokens as the model reads it, and {} are the most",
                count(tokens as u64),
                count(self.context as u64)
            ));
        }
        match (prompted.picked.is_empty(), self.position) {
            (false, _) => Ok(prompted),
            (true, Position::Answer) => Err("has no answer to average over".to_owned()),
            (true, Position::Marked) => Err("has no marked part".to_owned()),
            (true, _) => Err("has no token of its own".to_owned()),
        }
    }

    /// What stands after a text in its prompt.
    pub fn after(&self) -> Result<String> {
        let mut marked = self.shown(MARK)?;
        let (_, after) = self.around;
        Ok(marked.split_off(marked.len() - after))
    }

    /// Each token of a prompt as text, for a person.
    pub fn pieces(&self, prompted: &Prompted) -> Result<Vec<String>> {
        let tokens = prompted.tokens.iter();
        tokens.map(|token| self.piece(*token)).collect()
    }

    /// A token as text, for a person.
    pub fn piece(&self, token: u32) -> Result<String> {
        self.tokenizer.decode(&[token], true)
    }

    /// A text as the model is shown it.
    fn shown(&self, text: &str) -> Result<String> {
        let shown = self.rule.pattern.replacen(TEXT, text, 1);
        match self.rule.template {
            Some(_) => self.template.prompt(&[Message::new(Role::User, shown)]),
            None => Ok(shown),
        }
    }

    fn asked(&self, row: &LabelledText) -> Result<Prompted> {
        let shown = self.shown(&row.text)?;
        let located = self.tokenizer.encode_located(&shown)?;
        let (first, last) = &self.frame;
        let tokens = [first, &located.tokens, last].map(Vec::as_slice).concat();
        let offset = first.len();
        let (before, after) = self.around;
        let own = before..shown.len().saturating_sub(after).max(before);
        let picked = match self.position {
            Position::Last => tokens
                .len()
                .checked_sub(1)
                .into_iter()
                .map(|it| it as u32)
                .collect(),
            Position::Marked => {
                let parts = row.marked.iter();
                let parts = parts.map(|(start, end)| before + start..before + end);
                inside(&located, &parts.collect::<Vec<_>>(), offset)
            }
            _ => inside(&located, &[own], offset),
        };
        Ok(Prompted { tokens, picked })
    }

    /// A question with its answer, of which the answer's tokens are picked.
    fn answered(&self, row: &LabelledText) -> Result<Prompted> {
        let Some(answer) = &row.answer else {
            return Ok(Prompted::default());
        };
        let shown = self.rule.pattern.replacen(TEXT, &row.text, 1);
        let messages = [
            Message::new(Role::User, shown),
            Message::new(Role::Assistant, answer),
        ];
        let Some(rendered) = self.template.render(&messages)?.pop() else {
            return Ok(Prompted::default());
        };
        let located = self.tokenizer.encode_located(&rendered.text)?;
        let words = rendered.learned.iter().find_map(|part| {
            let start = rendered.text.get(part.clone())?.find(answer.trim())?;
            Some(part.start + start..part.start + start + answer.trim().len())
        });
        let picked = inside(&located, words.as_slice(), 0);
        Ok(Prompted {
            tokens: located.tokens,
            picked,
        })
    }
}

/// The places of the tokens that stand in one of these parts of the text, even with one letter.
fn inside(located: &Located, parts: &[Range<usize>], offset: usize) -> Vec<u32> {
    let is_inside = |(start, end): (usize, usize)| {
        let mut parts = parts.iter();
        parts.any(|part| start < part.end && end > part.start)
    };
    let places = (offset as u32..).zip(&located.spans);
    let inside = places.filter(|(_, span)| is_inside(**span));
    inside.map(|(place, _)| place).collect()
}
