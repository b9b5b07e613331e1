//! Conversations to text, in the words the model knows, and which of those words are the assistant's.
//!
//! Templates are the checkpoint's own Jinja, rendered by `hf-chat-template` with the bytes transformers gives. Which
//! part of a rendered text an assistant's turn is, is found in one of two ways: from the template's own
//! `{% generation %}` blocks, or by rendering the conversation up to the turn and up to its end.
//!
//! Known limits: the date that some templates write is fixed ([`TEMPLATE_DATE`]), since a run must not depend on the
//! day it was started; and words that spell a special token become one, as in transformers.

use std::ops::Range;

use hf_chat_template::{ChatTemplateField, FixedClock, RenderInput, TokenField};
use serde::{Deserialize, Serialize};

use super::{
    row::{Message, Role},
    tokenizer::{TURN_END, TURN_START, Tokenizer},
};
use crate::{Error, Result, limits, on_a_deep_stack};

/// ChatML: the template of a model that has none.
pub const CHAT_ML: &str = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' }}\
    {% if message['role'] == 'assistant' %}{% generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}\
    {% else %}{{ message['content'] + '<|im_end|>' }}{% endif %}{{ '\\n' }}{% endfor %}\
    {% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

/// The date that templates see as today: year, month, day.
pub const TEMPLATE_DATE: (i64, u32, u32) = (2024, 7, 26);

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
    plain: hf_chat_template::ChatTemplate,
    /// The same with marks around the `{% generation %}` blocks, when the template has any.
    marked: Option<hf_chat_template::ChatTemplate>,
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
    /// `tokenizer_config.json`; of a named list, the one called `default`. Without one: ChatML.
    pub fn of(tokenizer: &Tokenizer) -> Result<Self> {
        let config = tokenizer.config()?;
        let (source, origin, reason) = match (tokenizer.template_file(), &config.chat_template) {
            (Some(source), _) => {
                let reason = "from `chat_template.jinja`".to_owned();
                (source, TemplateOrigin::File, reason)
            }
            (None, Some(ChatTemplateField::Single(source))) => {
                let reason = "from `tokenizer_config.json`".to_owned();
                (source.as_str(), TemplateOrigin::TokenizerConfig, reason)
            }
            (None, Some(ChatTemplateField::Named(list))) if !list.is_empty() => {
                let default = list.iter().find(|it| it.name == "default");
                let (chosen, count) = (default.unwrap_or(&list[0]), list.len());
                let name = &chosen.name;
                let reason = format!("`{name}`, one of {count} in `tokenizer_config.json`");
                (&*chosen.template, TemplateOrigin::TokenizerConfig, reason)
            }
            _ => {
                let mut marks = [TURN_START, TURN_END].iter();
                let spelled = match marks.all(|it| tokenizer.token_id(it).is_some()) {
                    true => "",
                    false => {
                        ", whose marks its vocabulary lacks: they are spelled in ordinary tokens"
                    }
                };
                let reason = format!("ChatML (default){spelled}");
                (CHAT_ML, TemplateOrigin::ChatMl, reason)
            }
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
        let config = tokenizer.config()?;
        let build = |source: &str| {
            let (year, month, day) = TEMPLATE_DATE;
            let mut builder =
                hf_chat_template::ChatTemplate::builder(source).special_tokens_from(&config);
            if let Some(clock) = FixedClock::from_ymd(year, month, day) {
                builder = builder.clock(clock);
            }
            builder.build().map_err(|error| {
                Error::Data(format!(
                    "the chat template ({reason}) is not valid: {error}"
                ))
            })
        };
        let mut template = Self {
            plain: build(source)?,
            marked: marked(source).map(|source| build(&source)).transpose()?,
            source: source.to_owned(),
            origin,
            reason: reason.to_owned(),
            turn_end: TurnEnd::default(),
            end: config
                .eos_token
                .as_ref()
                .and_then(TokenField::as_str)
                .unwrap_or_default()
                .to_owned(),
        };
        template.turn_end = template.find_turn_end(tokenizer)?;
        Ok(template)
    }

    /// The text of a conversation.
    pub fn text(&self, messages: &[Message]) -> Result<String> {
        render(&self.plain, messages, false)
    }

    /// The text that asks the model for the next turn.
    pub fn prompt(&self, messages: &[Message]) -> Result<String> {
        render(&self.plain, messages, true)
    }

    /// The text of a conversation as it is learned, and which parts of it are the assistant's.
    ///
    /// Several texts come back when the template shows earlier turns otherwise than it shows them while they are
    /// written (templates that drop the thoughts of past turns do): then each turn of the assistant is learned in
    /// a text of its own that ends with it, exactly as the model will see it.
    pub fn render(&self, messages: &[Message]) -> Result<Vec<Rendered>> {
        let text = render(&self.plain, messages, false)?;
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

    /// The text up to the end of the assistant's turn `at`, of which only that turn is learned.
    fn one_turn(&self, messages: &[Message], at: usize) -> Result<Rendered> {
        let text = render(&self.plain, &messages[..=at], false)?;
        let prompt = match render(&self.plain, &messages[..at], true) {
            Ok(prompt) => prompt,
            // Many templates refuse an empty conversation; what stands before a first turn is then its own header.
            Err(_) if at == 0 => String::new(),
            Err(error) => return Err(error),
        };
        let start = if text.starts_with(&prompt) {
            prompt.len()
        } else {
            // Some prompts begin the turn with words that a finished turn does not have, such as `<think>`.
            let before = render(&self.plain, &messages[..at], false).unwrap_or_default();
            let content = text.rfind(messages[at].content.trim());
            let Some(content) = content else {
                return Err(Error::Data(format!(
                    "the chat template writes turn {} so that its words can't be told from the rest; learn `all`, or \
                     use another template",
                    at + 1
                )));
            };
            match text.starts_with(&before) {
                true => common_prefix(&text, &prompt).min(content).max(before.len()),
                // Some templates say other things before a turn once it is answered, such as where the system's words
                // stand. What is certain then is where the words themselves begin.
                false => content,
            }
        };
        Ok(Rendered {
            learned: std::iter::once(start..text.len()).collect(),
            text,
        })
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
        let marked = render(marked, messages, false)?;
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
        let messages = [
            Message::new(Role::User, "?"),
            Message::new(Role::Assistant, PROBE),
        ];
        let Ok(text) = render(&self.plain, &messages, false) else {
            return Ok(TurnEnd::default());
        };
        let after = text.rsplit(PROBE).next().unwrap_or_default();
        let tokens = tokenizer.encode_located(after)?.tokens;
        let token = tokens
            .into_iter()
            .find(|&token| tokenizer.is_special(token));
        let words = Some(after.trim().to_owned()).filter(|it| token.is_none() && !it.is_empty());
        Ok(TurnEnd { token, text: words })
    }
}

fn render(
    template: &hf_chat_template::ChatTemplate,
    messages: &[Message],
    ask: bool,
) -> Result<String> {
    let input = RenderInput {
        messages: messages.iter().map(library_message).collect(),
        add_generation_prompt: ask,
        ..RenderInput::default()
    };
    template.render(&input).map_err(|error| match error {
        hf_chat_template::Error::TemplateRaised { message } => Error::Data(format!(
            "the chat template refuses the conversation: {message}"
        )),
        error => Error::Data(format!(
            "the chat template can't show the conversation: {error}"
        )),
    })
}

fn library_message(message: &Message) -> hf_chat_template::Message {
    let mut made = hf_chat_template::Message::new(message.role.name(), message.content.as_str());
    made.extra = message.extra.clone();
    // The library has a place of its own for these; left among the rest they would appear twice.
    if let Some(serde_json::Value::Array(calls)) = made.extra.shift_remove("tool_calls") {
        made.tool_calls = calls;
    }
    made
}

fn common_prefix(a: &str, b: &str) -> usize {
    a.char_indices()
        .zip(b.chars())
        .find(|((_, a), b)| a != b)
        .map_or(a.len().min(b.len()), |((at, _), _)| at)
}

/// The template with marks printed inside its generation blocks, or nothing when it has none.
///
/// The library turns a block into `{% if true %}`. Here each tag becomes two, with the mark between them, so that the
/// white space on either side is trimmed as it was: the outer sides of the pair are the tag's own.
fn marked(source: &str) -> Option<String> {
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
        match word {
            "generation" => {
                found = true;
                made +=
                    &format!("{{%{left} if true %}}{{{{ '{MARK_START}' }}}}{{% if true {right}%}}");
            }
            "endgeneration" => {
                made += &format!("{{%{left} endif %}}{{{{ '{MARK_END}' }}}}{{% endif {right}%}}");
            }
            _ => made += &rest[open..close],
        }
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
