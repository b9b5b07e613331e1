//! The Jinja that chat templates are written in, as transformers sets it up, and within limits.
//!
//! The engine is minijinja. Added here: what Python writes otherwise (`python.rs`, `methods.rs`, `operators.rs`), what
//! transformers gives to a template besides the conversation, and bounds (`budget.rs`, `program.rs`). A template comes
//! from a stranger: it can loop forever, ask for more memory than there is, or trigger a bug in the engine, and none of
//! that may end more than the rendering.

use std::sync::atomic::{AtomicUsize, Ordering};

use minijinja::{
    Environment, Error, ErrorKind, Output, State, UndefinedBehavior, Value, value::Object,
};
use serde_json::{Map, Value as Json, json};

use self::{
    budget::{Cost, MAX_BYTES, too_long},
    program::Program,
};
use super::row::Message;
use crate::limits;

mod budget;
mod filters;
mod methods;
mod operators;
mod program;
mod python;

/// How many instructions one rendering may take.
const FUEL: u64 = limits::FUEL.most;
/// The same for each message, for conversations so long that this is more.
const FUEL_PER_MESSAGE: u64 = limits::FUEL_PER_MESSAGE.most;

/// What `strftime_now` writes for each letter: 26 July 2024, a Friday. A run must not depend on the day it was started.
const DATE: [(char, &str); 16] = [
    ('Y', "2024"),
    ('y', "24"),
    ('m', "07"),
    ('d', "26"),
    ('e', "26"),
    ('B', "July"),
    ('b', "Jul"),
    ('h', "Jul"),
    ('A', "Friday"),
    ('a', "Fri"),
    ('j', "208"),
    ('H', "00"),
    ('I', "12"),
    ('M', "00"),
    ('S', "00"),
    ('p', "AM"),
];

/// A compiled template.
#[derive(Debug)]
pub(super) struct Template {
    environment: Environment<'static>,
    program: Program,
    /// The tokens that a template can write by name, such as `bos_token`.
    special: Map<String, Json>,
}

/// Why there is no text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The template itself refuses the conversation, in these words.
    Refused(String),
    /// The template can't be run.
    Failed(String),
}

/// What `raise_exception` was given.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Raised(String);

/// How many bytes of one rendering have been written.
#[derive(Debug, Default)]
struct Written(AtomicUsize);

impl Object for Written {}

impl Template {
    /// Compiles a template. An error is what is wrong with it.
    pub(super) fn compile(source: &str, special: Map<String, Json>) -> Result<Self, String> {
        let source = source.replace("\r\n", "\n").replace('\r', "\n");
        Ok(Self {
            environment: environment(),
            program: caught(|| Program::compile(&source))?,
            special,
        })
    }

    /// The text of a conversation; with `ask`, it ends where the assistant is to continue.
    pub(super) fn render(&self, messages: &[Message], ask: bool) -> Result<String, Failure> {
        let context = self.context(messages, ask);
        let rendered = self.run(&self.environment, context.clone());
        let more = FUEL_PER_MESSAGE * messages.len() as u64;
        let rendered = match rendered {
            Err(error) if error.kind() == ErrorKind::OutOfFuel && more > FUEL => {
                let mut environment = self.environment.clone();
                environment.set_fuel(Some(more));
                self.run(&environment, context)
            }
            rendered => rendered,
        };
        rendered.map_err(|error| failure(&error, more.max(FUEL)))
    }

    fn run(&self, environment: &Environment, context: Value) -> Result<String, Error> {
        caught(|| Ok(self.program.run(environment, context)))
            .map_err(|panic| Error::new(ErrorKind::InvalidOperation, panic))?
    }

    fn context(&self, messages: &[Message], ask: bool) -> Value {
        let mut context = self.special.clone();
        context.extend([
            (
                "messages".to_owned(),
                messages.iter().map(message_json).collect(),
            ),
            ("tools".to_owned(), Json::Null),
            ("documents".to_owned(), Json::Null),
            ("add_generation_prompt".to_owned(), json!(ask)),
        ]);
        Value::from_serialize(context)
    }
}

/// A message as transformers gives it to a template: thoughts under both names that templates read.
fn message_json(message: &Message) -> Json {
    let mut made = Map::new();
    let thoughts = ["reasoning_content", "thinking", "reasoning"];
    let mut thoughts = thoughts.iter().filter_map(|it| message.extra.get(*it));
    let thought = thoughts.find(|it| !it.is_null());
    if let Some(thought) = thought {
        made.insert("thinking".to_owned(), thought.clone());
    }
    made.insert("role".to_owned(), json!(message.role.name()));
    made.insert("content".to_owned(), json!(message.content));
    made.extend(message.extra.clone());
    if let Some(thought) = thought {
        made.insert("reasoning_content".to_owned(), thought.clone());
    }
    Json::Object(made)
}

fn failure(error: &Error, fuel: u64) -> Failure {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(cause) = source {
        if let Some(raised) = cause.downcast_ref::<Raised>() {
            return Failure::Refused(raised.0.clone());
        }
        source = cause.source();
    }
    Failure::Failed(match error.kind() {
        ErrorKind::OutOfFuel => {
            format!("it takes more than {fuel} instructions, as if it looped for ever")
        }
        _ => error.to_string(),
    })
}

/// Runs `work`; a panic in it, which is a fault of the engine, is an error.
fn caught<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let failed = |panic| Err(format!("the template engine failed ({panic})"));
    crate::caught(work).unwrap_or_else(failed)
}

/// Python's sandbox of transformers, as far as templates can tell.
fn environment() -> Environment<'static> {
    let mut environment = Environment::empty();
    environment.set_undefined_behavior(UndefinedBehavior::Lenient);
    environment.set_fuel(Some(FUEL));
    environment.set_formatter(write);
    environment.set_unknown_method_callback(|state, value, method, args| {
        let cost = methods::cost(method);
        cost.spend(state, std::slice::from_ref(value))?;
        Cost::Reads.spend(state, args)?;
        cost.made(state, methods::call(state, value, method, args)?)
    });
    environment.add_function("raise_exception", |words: String| -> Result<Value, Error> {
        let error = Error::new(ErrorKind::InvalidOperation, words.clone());
        Err(error.with_source(Raised(words)))
    });
    environment.add_function("strftime_now", |format: &str| date(format));
    operators::register(&mut environment);
    filters::register(&mut environment);
    environment
}

/// Writes what `{{ value }}` shows, and counts it.
fn write(out: &mut Output, state: &State, value: &Value) -> Result<(), Error> {
    let shown;
    let text = match value.as_str() {
        Some(text) => text,
        None => {
            shown = python::text(value)?;
            &shown
        }
    };
    let written = state.get_or_set_temp_object("anneal.written", Written::default);
    let before = written.0.fetch_add(text.len(), Ordering::Relaxed);
    if before + text.len() > MAX_BYTES {
        return Err(too_long());
    }
    out.write_str(text).map_err(Error::from)
}

/// `strftime_now`: letters after a percent sign, with or without a dash, which drops the zero in front.
fn date(format: &str) -> String {
    let mut made = String::new();
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            made.push(letter);
            continue;
        }
        let next = letters.next();
        let (short, next) = match next {
            Some('-') => (true, letters.next()),
            next => (false, next),
        };
        let written = DATE.iter().find(|(letter, _)| Some(*letter) == next);
        match (written, next) {
            (Some((_, text)), _) if short => {
                let text = text.trim_start_matches('0');
                made += if text.is_empty() { "0" } else { text };
            }
            (Some((_, text)), _) => made += text,
            (None, Some('%')) => made.push('%'),
            (None, next) => {
                made.push('%');
                made.extend(next);
            }
        }
    }
    made
}
