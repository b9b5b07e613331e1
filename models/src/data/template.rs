//! Conversations to text, in the words the model knows, and which of those words are the assistant's.
//!
//! Templates are the checkpoint's own Jinja, rendered with the bytes transformers gives. Which part of a rendered text
//! an assistant's turn is, is found in one of two ways: from the template's own `{% generation %}` blocks, or by
//! rendering the conversation up to the turn and up to its end.
//!
//! Known limits: the date that some templates write is fixed, since a run must not depend on the day it was started; and
//! words that spell a special token become one, as in transformers.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::{
    jinja::{Failure, Template},
    marks::Marks,
    row::{Message, Role},
    tokenizer::Tokenizer,
};
use crate::{Error, Result, limits, on_a_deep_stack};

/// ChatML: the template of a model that has none.
pub const CHAT_ML: &str = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' }}\
    {% if message['role'] == 'assistant' %}{% generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}\
    {% else %}{{ message['content'] + '<|im_end|>' }}{% endif %}{{ '\\n' }}{% endfor %}\
    {% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

/// Where a template came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TemplateOrigin {
    /// `chat_template.jinja` of the checkpoint.
    File,
    /// `tokenizer_config.json` of the checkpoint.
    TokenizerConfig,
    /// None there: [`CHAT_ML`].
    ChatMl,
    /// None there, but the vocabulary has the marks of another way to write conversations.
    Marks,
}

/// A chat template, ready to render.
#[derive(Debug)]
pub struct ChatTemplate {
    /// The Jinja text.
    pub source: String,
    /// Where it came from.
    pub origin: TemplateOrigin,
    /// A sentence for the user about where it came from.
    pub reason: String,
    /// How a turn of the assistant ends.
    pub turn_end: TurnEnd,
    /// The tokenizer's own end token, spelled out; empty when it has none.
    end: String,
    plain: Template,
    /// The same with marks around the `{% generation %}` blocks, when the template has any.
    marked: Option<Template>,
    /// What asks the assistant for its turn, at the end of a prompt; empty when a template writes nothing there.
    ask: String,
}

/// A conversation as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// The text, special tokens spelled out.
    pub text: String,
    /// The bytes of the text that are the assistant's, in order: its words and the end of its turn.
    pub learned: Vec<Range<usize>>,
}

/// How a chat knows that the assistant's turn is over, besides the tokenizer's own stop tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnEnd {
    /// The special token that ends a turn.
    pub token: Option<u32>,
    /// The ordinary words that end a turn, when no special token does.
    pub text: Option<String>,
}

/// Marks that are put around generation blocks: private-use characters no text has in this order.
const MARK_START: &str = "\u{F0000}\u{FFFFD}\u{F0001}";
const MARK_END: &str = "\u{F0001}\u{FFFFD}\u{F0000}";

impl ChatTemplate {
    /// The template of a checkpoint, found as transformers does: `chat_template.jinja` before
    /// `tokenizer_config.json`; of a named list, the one called `default`. Without one: that of the marks in the vocabulary, or ChatML.
    pub fn of(tokenizer: &Tokenizer) -> Result<Self> {
        let named = tokenizer.templates()?;
        let default = named.iter().find(|(name, _)| name == "default");
        let (source, origin, reason) = match (tokenizer.template_file(), default.or(named.first()))
        {
            (Some(source), _) => {
                let reason = "from `chat_template.jinja`".to_owned();
                (source, TemplateOrigin::File, reason)
            }
            (None, Some((name, source))) => {
                let reason = match name.is_empty() {
                    true => "from `tokenizer_config.json`".to_owned(),
                    false => format!(
                        "`{name}`, one of {} in `tokenizer_config.json`",
                        named.len()
                    ),
                };
                (source.as_str(), TemplateOrigin::TokenizerConfig, reason)
            }
            _ => match Marks::of(tokenizer) {
                Some(marks @ Marks::Pairs) => {
                    let reason = "pairs of marks, which its vocabulary has".to_owned();
                    (marks.template(), TemplateOrigin::Marks, reason)
                }
                known => {
                    let spelled = match known.is_some() {
                        true => "",
                        false => {
                            ", whose marks its vocabulary lacks: they are spelled in ordinary tokens"
                        }
                    };
                    let reason = format!("ChatML (default){spelled}");
                    (CHAT_ML, TemplateOrigin::ChatMl, reason)
                }
            },
        };
        Self::compile_safely(source, tokenizer, origin, &reason)
    }

    /// A template from its text.
    pub fn from_source(source: &str, tokenizer: &Tokenizer) -> Result<Self> {
        Self::compile_safely(source, tokenizer, TemplateOrigin::File, "given")
    }

    /// Compiles a template of which nothing is known: it may be large, and nested as deep as it is long.
    fn compile_safely(
        source: &str,
        tokenizer: &Tokenizer,
        origin: TemplateOrigin,
        reason: &str,
    ) -> Result<Self> {
        let wrong = |problem: &str| {
            Error::Data(format!(
                "the chat template ({reason}) is not valid: {problem}"
            ))
        };
        if let Some(problem) = limits::TEMPLATE.exceeded(source.len() as u64) {
            return Err(wrong(&format!("its length {problem}")));
        }
        on_a_deep_stack(|| Self::compile(source, tokenizer, origin, reason))
            .map_err(|panic| wrong(&panic))?
    }

    fn compile(
        source: &str,
        tokenizer: &Tokenizer,
        origin: TemplateOrigin,
        reason: &str,
    ) -> Result<Self> {
        let special = tokenizer.named_tokens()?;
        let build = |source: &str| {
            Template::compile(source, special.clone()).map_err(|problem| {
                Error::Data(format!(
                    "the chat template ({reason}) is not valid: {problem}"
                ))
            })
        };
        let mut template = Self {
            plain: build(with_blocks(source, false).as_deref().unwrap_or(source))?,
            marked: with_blocks(source, true)
                .map(|source| build(&source))
                .transpose()?,
            ask: String::new(),
            source: source.to_owned(),
            origin,
            reason: reason.to_owned(),
            turn_end: TurnEnd::default(),
            end: special
                .get("eos_token")
                .and_then(|it| it.as_str())
                .unwrap_or_default()
                .to_owned(),
        };
        template.ask = template.find_ask();
        template.turn_end = template.find_turn_end(tokenizer)?;
        Ok(template)
    }

    /// The Jinja text without the `{% generation %}` blocks, which few programs know.
    pub fn without_generation_blocks(&self) -> String {
        with_blocks(&self.source, false).unwrap_or_else(|| self.source.clone())
    }

    /// The text of a conversation.
    pub fn text(&self, messages: &[Message]) -> Result<String> {
        self.rendered(&self.plain, messages, false)
    }

    /// The text that asks the model for the next turn.
    pub fn prompt(&self, messages: &[Message]) -> Result<String> {
        self.rendered(&self.plain, messages, true)
    }

    /// The text of a conversation as it is learned, and which parts of it are the assistant's.
    ///
    /// Several texts come back when the template shows earlier turns otherwise than it shows them while they are
    /// written (templates that drop the thoughts of past turns do): then each turn of the assistant is learned in
    /// a text of its own that ends with it, exactly as the model will see it.
    pub fn render(&self, messages: &[Message]) -> Result<Vec<Rendered>> {
        let text = self.rendered(&self.plain, messages, false)?;
        if let Some(learned) = self.generation_blocks(messages, &text)? {
            return Ok(vec![Rendered { text, learned }]);
        }
        let turns: Vec<usize> = (0..messages.len())
            .filter(|&at| messages[at].role == Role::Assistant)
            .collect();
        let apart = turns
            .iter()
            .map(|&at| self.one_turn(messages, at))
            .collect::<Result<Vec<_>>>()?;
        let mut learned = Vec::new();
        for turn in &apart {
            // Some templates end a text, but no turn within it, with the tokenizer's own end token.
            let body = turn
                .text
                .strip_suffix(self.end.as_str())
                .unwrap_or(&turn.text);
            match text.starts_with(&turn.text) {
                true => learned.extend(turn.learned.clone()),
                false if text.starts_with(body) => {
                    learned.extend(turn.learned.iter().map(|part| part.start..body.len()));
                }
                false => return Ok(apart),
            }
        }
        Ok(vec![Rendered { text, learned }])
    }

    fn rendered(&self, template: &Template, messages: &[Message], ask: bool) -> Result<String> {
        template.render(messages, ask).map_err(|failure| {
            let problem = match failure {
                Failure::Refused(words) => format!("refuses the conversation: {words}"),
                Failure::Failed(problem) => format!("can’t show the conversation: {problem}"),
            };
            Error::Data(format!("the chat template ({}) {problem}", self.reason))
        })
    }

    /// The text up to the end of the assistant's turn `at`, of which only that turn is learned.
    fn one_turn(&self, messages: &[Message], at: usize) -> Result<Rendered> {
        let text = self.rendered(&self.plain, &messages[..=at], false)?;
        // Where nobody has spoken yet, templates refuse a prompt or say something of their own in it.
        let prompt = match at {
            0 => None,
            _ => self.rendered(&self.plain, &messages[..at], true).ok(),
        };
        let start = match prompt.filter(|prompt| text.starts_with(prompt)) {
            Some(prompt) => prompt.len(),
            None => self.first_word(&messages[..=at], &text)?,
        };
        Ok(Rendered {
            learned: std::iter::once(start..text.len()).collect(),
            text,
        })
    }

    /// Where the last of `messages` begins in their `text`, when that doesn't begin with a prompt for it.
    ///
    /// The same with another word in its place shows where the words end, and at the latest begin. What asks for a turn
    /// stands in front of them; a template that asks with nothing leaves the words themselves.
    fn first_word(&self, messages: &[Message], text: &str) -> Result<usize> {
        let Some((last, before)) = messages.split_last() else {
            return Ok(text.len());
        };
        let content = last.content.trim();
        let is_apart = |other: &&str| !content.starts_with(*other) && !content.ends_with(*other);
        let other = Message {
            content: ["a", "b", "c"]
                .into_iter()
                .find(is_apart)
                .unwrap_or("a")
                .to_owned(),
            ..last.clone()
        };
        let other = self.rendered(&self.plain, &[before, &[other]].concat(), false)?;
        let same = common_prefix(text, &other);
        let same_after = common_suffix(&text[same..], &other[same..]);
        let said = &text[..text.len() - same_after];
        let found = said[same..].rfind(content);
        let found = found.map_or(same, |at| same + at);
        let before = match content.contains(&self.ask) {
            true => &text[..found],
            false => said,
        };
        let asked = before.rfind(&self.ask);
        let asked = asked.filter(|_| !self.ask.trim().is_empty());
        Ok(asked.map_or(found, |asked| asked + self.ask.len()))
    }

    /// What a prompt has at its end that a text has not.
    fn find_ask(&self) -> String {
        let messages = [Message::new(Role::User, "?")];
        let text = self.rendered(&self.plain, &messages, false);
        let prompt = self.rendered(&self.plain, &messages, true);
        let (Ok(text), Ok(prompt)) = (text, prompt) else {
            return String::new();
        };
        prompt[common_prefix(&text, &prompt)..].to_owned()
    }

    /// The parts inside `{% generation %}` blocks, when the template has such blocks.
    fn generation_blocks(
        &self,
        messages: &[Message],
        text: &str,
    ) -> Result<Option<Vec<Range<usize>>>> {
        let Some(marked) = &self.marked else {
            return Ok(None);
        };
        let marked = self.rendered(marked, messages, false)?;
        let mut plain = String::with_capacity(text.len());
        let mut blocks = Vec::new();
        for (number, part) in marked.split(MARK_START).enumerate() {
            let (block, after) = match (number, part.split_once(MARK_END)) {
                (0, None) => ("", part),
                (1.., Some(parts)) => parts,
                _ => return Ok(None),
            };
            if number > 0 {
                blocks.push(plain.len()..plain.len() + block.len());
            }
            plain += block;
            plain += after;
        }
        // A template that measures or cuts what is inside a block would show it differently with marks.
        Ok((plain == text && !blocks.is_empty()).then_some(blocks))
    }

    /// Every token after which the assistant has said all: the tokenizer's own, and the end of a turn.
    pub fn stop_tokens(&self, tokenizer: &Tokenizer) -> Vec<u32> {
        let mut stop = tokenizer.special.stop.clone();
        stop.extend(
            self.turn_end
                .token
                .filter(|token| !tokenizer.special.stop.contains(token)),
        );
        stop
    }

    /// Finds how a turn ends by rendering one with a word that nothing else contains.
    fn find_turn_end(&self, tokenizer: &Tokenizer) -> Result<TurnEnd> {
        const PROBE: &str = "aZq7";
        /// What ends a turn stands near its words.
        const NEAR: usize = 1 << 12;
        let messages = [
            Message::new(Role::User, "?"),
            Message::new(Role::Assistant, PROBE),
        ];
        let Ok(text) = self.rendered(&self.plain, &messages, false) else {
            return Ok(TurnEnd::default());
        };
        let after = text.rsplit(PROBE).next().unwrap_or_default();
        let after = &after[..after.floor_char_boundary(NEAR)];
        let tokens = tokenizer.encode_located(after)?.tokens;
        let token = tokens
            .into_iter()
            .find(|&token| tokenizer.is_special(token));
        let words = Some(after.trim().to_owned()).filter(|it| token.is_none() && !it.is_empty());
        Ok(TurnEnd { token, text: words })
    }
}

fn common_prefix(a: &str, b: &str) -> usize {
    a.char_indices()
        .zip(b.chars())
        .find(|((_, a), b)| a != b)
        .map_or(a.len().min(b.len()), |((at, _), _)| at)
}

fn common_suffix(a: &str, b: &str) -> usize {
    let pairs = a.chars().rev().zip(b.chars().rev());
    let same = pairs.take_while(|(a, b)| a == b);
    same.map(|(letter, _)| letter.len_utf8()).sum()
}

/// The template with its generation blocks as the engine knows blocks, or nothing when it has none.
///
/// A block is `{% if true %}`. With marks, each tag becomes two, with a mark between them, so that the white space on
/// either side is trimmed as it was: the outer sides of the pair are the tag's own.
fn with_blocks(source: &str, with_marks: bool) -> Option<String> {
    let mut made = String::new();
    let mut rest = source;
    let mut found = false;
    while let Some(open) = rest.find("{%") {
        let Some(length) = rest[open..].find("%}") else {
            break;
        };
        let close = open + length + 2;
        let inner = &rest[open + 2..close - 2];
        let (left, right) = (
            trim_mark(inner.chars().next()),
            trim_mark(inner.chars().last()),
        );
        let word = inner.trim_matches(|it: char| it == '-' || it == '+' || it.is_whitespace());
        made += &rest[..open];
        match (word, with_marks) {
            ("generation", false) => made += &format!("{{%{left} if true {right}%}}"),
            ("endgeneration", false) => made += &format!("{{%{left} endif {right}%}}"),
            ("generation", true) => {
                made +=
                    &format!("{{%{left} if true %}}{{{{ '{MARK_START}' }}}}{{% if true {right}%}}");
            }
            ("endgeneration", true) => {
                made += &format!("{{%{left} endif %}}{{{{ '{MARK_END}' }}}}{{% endif {right}%}}");
            }
            _ => made += &rest[open..close],
        }
        found |= word == "generation";
        rest = &rest[close..];
    }
    found.then(|| made + rest)
}

/// Jinja's marks for white space at a tag's edge.
fn trim_mark(edge: Option<char>) -> &'static str {
    match edge {
        Some('-') => "-",
        Some('+') => "+",
        _ => "",
    }
}
