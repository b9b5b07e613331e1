//! The Jinja that chat templates are written in, as transformers sets it up, and within limits.
//!
//! The engine is minijinja. Added here: what Python writes otherwise (`python.rs`, `methods.rs`), what transformers gives
//! to a template besides the conversation, and bounds. A template comes from a stranger: it can loop forever, ask for
//! more memory than there is, or trigger a bug in the engine, and none of that may end more than the rendering.
//!
//! Known limits: a list joined to a text with `~` is written with double quotes, and a text that a template doubles again
//! and again with `+` is stopped only when it is shown.

use std::{
    io,
    sync::atomic::{AtomicUsize, Ordering},
};

use minijinja::{
    AutoEscape, Environment, Error, ErrorKind, Output, State, UndefinedBehavior, Value,
    value::{Object, Rest, ValueKind},
};
use serde_json::{Map, Value as Json, json};

use super::row::Message;
use crate::limits;

mod methods;
mod python;

/// How many instructions one rendering may take.
const FUEL: u64 = limits::FUEL.most;
/// The same for each message, for conversations so long that this is more.
const FUEL_PER_MESSAGE: u64 = limits::FUEL_PER_MESSAGE.most;
/// The longest text that is rendered, and the longest that a filter or a method makes, in bytes.
const MAX_BYTES: usize = limits::RENDERED.most as usize;
/// The longest list that a filter or a method takes.
const MAX_ITEMS: usize = limits::RENDERED_LIST.most as usize;
/// The largest width or count that a filter takes.
const MAX_WIDTH: usize = limits::RENDERED_WIDTH.most as usize;

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
        caught(|| {
            let mut environment = environment();
            let source = source.replace("\r\n", "\n").replace('\r', "\n");
            environment
                .add_template_owned("chat", source)
                .map_err(|error| error.to_string())?;
            Ok(environment)
        })
        .map(|environment| Self {
            environment,
            special,
        })
    }

    /// The text of a conversation; with `ask`, it ends where the assistant is to continue.
    pub(super) fn render(&self, messages: &[Message], ask: bool) -> Result<String, Failure> {
        let context = self.context(messages, ask);
        let rendered = render(&self.environment, &context);
        let more = FUEL_PER_MESSAGE * messages.len() as u64;
        let rendered = match rendered {
            Err(error) if error.kind() == ErrorKind::OutOfFuel && more > FUEL => {
                let mut environment = self.environment.clone();
                environment.set_fuel(Some(more));
                render(&environment, &context)
            }
            rendered => rendered,
        };
        rendered.map_err(|error| failure(&error, more.max(FUEL)))
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

fn render(environment: &Environment, context: &Value) -> Result<String, Error> {
    let text = caught(|| {
        let mut text = Text(Vec::new());
        let rendered = environment
            .get_template("chat")
            .and_then(|it| it.render_captured_to(context, &mut text).map(drop));
        Ok(rendered.map(|()| text.0))
    });
    let bytes = text.map_err(|panic| Error::new(ErrorKind::InvalidOperation, panic))??;
    String::from_utf8(bytes).map_err(|error| {
        Error::new(ErrorKind::InvalidOperation, "the text is not UTF-8").with_source(error)
    })
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
        ErrorKind::WriteFailure => too_long().to_string(),
        _ => error.to_string(),
    })
}

fn too_many(items: usize) -> Error {
    let problem = format!("a list has {items} items, more than {MAX_ITEMS}");
    Error::new(ErrorKind::InvalidOperation, problem)
}

fn too_long() -> Error {
    let problem = format!("it makes a text of more than {MAX_BYTES} bytes");
    Error::new(ErrorKind::InvalidOperation, problem)
}

/// Runs `work`; a panic in it, which is a fault of the engine, is an error.
fn caught<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let failed = |panic| Err(format!("the template engine failed ({panic})"));
    crate::caught(work).unwrap_or_else(failed)
}

/// A text that stops growing.
struct Text(Vec<u8>);

impl io::Write for Text {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_BYTES {
            return Err(io::Error::other("too long"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Python's sandbox of transformers, as far as templates can tell.
fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_undefined_behavior(UndefinedBehavior::Lenient);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_fuel(Some(FUEL));
    environment.set_formatter(write);
    environment.set_unknown_method_callback(|state, value, method, args| {
        check_sizes(std::slice::from_ref(value))?;
        check_sizes(args)?;
        methods::call(state, value, method, args)
    });
    environment.add_function("raise_exception", |words: String| -> Result<Value, Error> {
        let error = Error::new(ErrorKind::InvalidOperation, words.clone());
        Err(error.with_source(Raised(words)))
    });
    environment.add_function("strftime_now", |format: &str| date(format));
    let originals: Vec<(String, Value)> = bounded_filters();
    for (name, original) in originals {
        environment.add_filter(name, move |state: &State, args: Rest<Value>| {
            check_sizes(&args)?;
            original.call(state, &args)
        });
    }
    environment.add_test("sequence", |value: &Value| {
        let kinds = [ValueKind::Seq, ValueKind::Iterable, ValueKind::Map];
        value.as_str().is_some() || kinds.contains(&value.kind())
    });
    environment.add_test("iterable", |value: &Value| {
        value.as_str().is_some() || (!value.is_none() && value.try_iter().is_ok())
    });
    environment.add_test("callable", |_: &Value| false);
    environment
}

/// Filters that walk through lists or make texts: the engine's own, and those that Python does otherwise.
fn bounded_filters() -> Vec<(String, Value)> {
    use minijinja::filters as theirs;
    let filters = [
        ("trim", Value::from_function(methods::trim)),
        ("indent", Value::from_function(methods::indent)),
        ("join", Value::from_function(methods::join)),
        ("replace", Value::from_function(methods::replace)),
        ("string", Value::from_function(python::text)),
        ("tojson", Value::from_function(python::to_json)),
        ("format", Value::from_function(methods::format)),
        ("list", Value::from_function(methods::list)),
        ("batch", Value::from_function(methods::batch)),
        ("slice", Value::from_function(methods::slice)),
        ("sort", Value::from_function(theirs::sort)),
        ("unique", Value::from_function(theirs::unique)),
        ("reverse", Value::from_function(theirs::reverse)),
        ("map", Value::from_function(theirs::map)),
        ("select", Value::from_function(theirs::select)),
        ("reject", Value::from_function(theirs::reject)),
        ("selectattr", Value::from_function(theirs::selectattr)),
        ("rejectattr", Value::from_function(theirs::rejectattr)),
        ("groupby", Value::from_function(theirs::groupby)),
        ("dictsort", Value::from_function(theirs::dictsort)),
        ("items", Value::from_function(theirs::items)),
        ("sum", Value::from_function(theirs::sum)),
        ("min", Value::from_function(theirs::min)),
        ("max", Value::from_function(theirs::max)),
        ("last", Value::from_function(theirs::last)),
        ("split", Value::from_function(theirs::split)),
        ("lines", Value::from_function(theirs::lines)),
        ("pprint", Value::from_function(theirs::pprint)),
        ("zip", Value::from_function(theirs::zip)),
        ("chain", Value::from_function(theirs::chain)),
    ];
    filters.map(|(name, it)| (name.to_owned(), it)).into()
}

/// Refuses texts and lists beyond all use before anything is made of them.
fn check_sizes(values: &[Value]) -> Result<(), Error> {
    for value in values {
        if value.as_str().is_some_and(|it| it.len() > MAX_BYTES) {
            return Err(too_long());
        }
        let is_list = [ValueKind::Seq, ValueKind::Iterable, ValueKind::Map].contains(&value.kind());
        if let Some(items) = value.len().filter(|&it| is_list && it > MAX_ITEMS) {
            return Err(too_many(items));
        }
        if value.is_kwargs() {
            for key in value.try_iter()? {
                check_sizes(&[value.get_item(&key)?])?;
            }
        }
    }
    Ok(())
}

/// A width or a count that a filter was given.
fn width(width: usize) -> Result<usize, Error> {
    if width > MAX_WIDTH {
        let problem = format!("a width or count of {width} is more than {MAX_WIDTH}");
        return Err(Error::new(ErrorKind::InvalidOperation, problem));
    }
    Ok(width)
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
