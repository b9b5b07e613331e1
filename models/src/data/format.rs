//! Records to examples: which column is what.
//!
//! Five layouts are known by their columns and found without being named, and so are pairs of columns whose names say
//! which is the question and which the answer. Any other file is read with a mapping from the user. A layout is never
//! guessed: when nothing fits, or more than one pair, the error lists the columns and proposes a mapping.

mod pairs;

use std::{collections::BTreeMap, path::Path};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    row::{Example, Message, Role},
    source::kind,
};
use crate::{Error, ReadAs, Result};

/// A layout of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// `messages`: a list of turns with `role` and `content`.
    Messages,
    /// `conversations`: a list of turns with `from` and `value`.
    #[serde(rename = "sharegpt")]
    ShareGpt,
    /// `prompt` and `completion`, each a text or a list of turns; a `system` text where there is one, and a `context` text
    /// that is put before the prompt.
    PromptCompletion,
    /// `instruction`, `output`, and `input` and `system` where there are any.
    Alpaca,
    /// `text`.
    Text,
}

/// How the rows of one file are read, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// Which of the known layouts the rows have.
    pub format: Format,
    /// The column of each part: `prompt` from `question`.
    pub columns: BTreeMap<String, String>,
    /// Columns that are in the file and not used.
    pub unused: Vec<String>,
    /// A sentence for the user: what was found, and why it is read so.
    pub reason: String,
}

/// What a row is made of.
struct Parts {
    format: Format,
    required: &'static [&'static str],
    optional: &'static [&'static str],
}

/// The layouts in the order in which they are looked for: those that say most about a row come first.
const LAYOUTS: [Parts; 5] = [
    Parts {
        format: Format::Messages,
        required: &["messages"],
        optional: &[],
    },
    Parts {
        format: Format::ShareGpt,
        required: &["conversations"],
        optional: &["system"],
    },
    Parts {
        format: Format::PromptCompletion,
        required: &["prompt", "completion"],
        optional: &["system", "context"],
    },
    Parts {
        format: Format::Alpaca,
        required: &["instruction", "output"],
        optional: &["input", "system"],
    },
    Parts {
        format: Format::Text,
        required: &["text"],
        optional: &[],
    },
];

/// Column names that often mean a question, an answer, a text: used to propose a mapping, never to choose one.
const LIKE_PROMPT: [&str; 9] = [
    "question",
    "query",
    "instruction",
    "prompt",
    "problem",
    "input",
    "user",
    "source",
    "title",
];
const LIKE_COMPLETION: [&str; 10] = [
    "answer",
    "response",
    "output",
    "completion",
    "solution",
    "reply",
    "assistant",
    "target",
    "label",
    "summary",
];
const LIKE_TEXT: [&str; 8] = [
    "content", "body", "document", "article", "story", "sentence", "passage", "code",
];

/// What is wrong with a row: the column, and the reason.
pub(crate) type Fault = (String, String);

impl Layout {
    /// Chooses how to read rows with these columns.
    ///
    /// `format` and `mapping` are what the user asked for; either can be empty. An error names the columns there are
    /// and shows a mapping to try.
    pub fn choose(
        path: &Path,
        found: &[String],
        format: Option<Format>,
        mapping: &BTreeMap<String, String>,
    ) -> Result<Self> {
        check_mapping(path, found, mapping)?;
        let has =
            |part: &str| mapping.contains_key(part) || found.iter().any(|column| column == part);
        let fits = |parts: &&Parts| {
            format.is_none_or(|format| format == parts.format)
                && parts.required.iter().all(|part| has(part))
                && mapping.keys().all(|part| parts.knows(part))
        };
        let found_layout = LAYOUTS.iter().find(fits).map(|parts| {
            let present = parts.required.iter().chain(parts.optional);
            // The context was not always a part: unless it is asked for, a column of that name is left alone.
            let present = present.filter(|part| match **part {
                "context" => mapping.contains_key("context"),
                part => has(part),
            });
            let columns = present.map(|&part| {
                let column = mapping.get(part).map_or(part, String::as_str);
                (part.to_owned(), column.to_owned())
            });
            let why = match (mapping.is_empty(), format) {
                (false, _) => Why::Mapped,
                (true, Some(_)) => Why::Asked,
                (true, None) => Why::Names,
            };
            (parts.format, columns.collect(), why)
        });
        let pair = || {
            let (format, columns) = pairs::among(found, format)?;
            mapping.is_empty().then_some((format, columns, Why::Pair))
        };
        let Some((format, columns, why)) = found_layout.or_else(pair) else {
            let problem = no_layout(found, format, mapping);
            return Err(Error::reading(path, problem, proposed(found)));
        };
        let unused: Vec<String> = found
            .iter()
            .filter(|column| !columns.values().any(|used| used == *column))
            .cloned()
            .collect();
        Ok(Self {
            format,
            reason: reason(format, &columns, &unused, why),
            columns,
            unused,
        })
    }

    /// What a record says.
    pub(crate) fn example(&self, mut values: Map<String, Value>) -> Result<Example, Fault> {
        let messages = match self.format {
            Format::Text => return Ok(Example::Text(self.text("text", &mut values)?)),
            Format::Messages => self.turns("messages", &mut values)?,
            Format::ShareGpt => {
                let mut turns = self.system(&mut values)?;
                turns.extend(self.turns("conversations", &mut values)?);
                turns
            }
            Format::PromptCompletion => {
                let mut turns = self.system(&mut values)?;
                let context = self.optional("context", &mut values)?;
                let mut prompt = self.said("prompt", Role::User, &mut values)?;
                if let Some(context) = context {
                    let asked = prompt.iter_mut().find(|turn| turn.role == Role::User);
                    let asked = asked.ok_or_else(|| {
                        let fault = "has no turn of the user, which a context could stand before";
                        (self.column("prompt"), fault.to_owned())
                    })?;
                    asked.content = format!("{context}\n\n{}", asked.content);
                }
                turns.extend(prompt);
                turns.extend(self.said("completion", Role::Assistant, &mut values)?);
                turns
            }
            Format::Alpaca => {
                let mut turns = self.system(&mut values)?;
                let mut question = self.text("instruction", &mut values)?;
                if let Some(input) = self.optional("input", &mut values)? {
                    question = format!("{question}\n\n{input}");
                }
                turns.push(Message::new(Role::User, question));
                turns.push(Message::new(
                    Role::Assistant,
                    self.text("output", &mut values)?,
                ));
                turns
            }
        };
        if !messages.iter().any(|it| it.role == Role::Assistant) {
            let column = self.columns.values().next().cloned().unwrap_or_default();
            return Err((
                column,
                "has no turn of the assistant to learn from".to_owned(),
            ));
        }
        Ok(Example::Chat(messages))
    }

    fn column(&self, part: &str) -> String {
        self.columns
            .get(part)
            .map_or(part, String::as_str)
            .to_owned()
    }

    fn take(&self, part: &str, values: &mut Map<String, Value>) -> Value {
        let column = self.column(part);
        values.get_mut(&column).map(Value::take).unwrap_or_default()
    }

    fn text(&self, part: &str, values: &mut Map<String, Value>) -> Result<String, Fault> {
        let text = match self.take(part, values) {
            Value::Null => return Err((self.column(part), "is missing".to_owned())),
            value => plain_text(value).map_err(|reason| (self.column(part), reason))?,
        };
        if text.trim().is_empty() {
            return Err((self.column(part), "is empty".to_owned()));
        }
        Ok(text)
    }

    fn optional(
        &self,
        part: &str,
        values: &mut Map<String, Value>,
    ) -> Result<Option<String>, Fault> {
        if !self.columns.contains_key(part) {
            return Ok(None);
        }
        match self.take(part, values) {
            Value::Null => Ok(None),
            value => {
                let text = plain_text(value).map_err(|reason| (self.column(part), reason))?;
                Ok((!text.trim().is_empty()).then_some(text))
            }
        }
    }

    fn system(&self, values: &mut Map<String, Value>) -> Result<Vec<Message>, Fault> {
        let text = self.optional("system", values)?;
        Ok(text
            .map(|text| Message::new(Role::System, text))
            .into_iter()
            .collect())
    }

    /// A part that is a text of one role, or already a list of turns.
    fn said(
        &self,
        part: &str,
        role: Role,
        values: &mut Map<String, Value>,
    ) -> Result<Vec<Message>, Fault> {
        if matches!(values.get(&self.column(part)), Some(Value::Array(_))) {
            return self.turns(part, values);
        }
        Ok(vec![Message::new(role, self.text(part, values)?)])
    }

    fn turns(&self, part: &str, values: &mut Map<String, Value>) -> Result<Vec<Message>, Fault> {
        let fault = |reason: String| (self.column(part), reason);
        let list = match self.take(part, values) {
            Value::Null => return Err(fault("is missing".to_owned())),
            Value::Array(list) => list,
            // A table can hold a conversation only as text.
            Value::String(text) => serde_json::from_str(&text)
                .map_err(|_| fault("is text, not a list of turns".to_owned()))?,
            other => return Err(fault(format!("is {}, not a list of turns", kind(&other)))),
        };
        if list.is_empty() {
            return Err(fault("is empty".to_owned()));
        }
        list.into_iter()
            .zip(1..)
            .map(|(value, number)| {
                turn(value).map_err(|reason| fault(format!("turn {number} {reason}")))
            })
            .collect()
    }
}

impl Parts {
    fn knows(&self, part: &str) -> bool {
        self.required.contains(&part) || self.optional.contains(&part)
    }
}

impl Format {
    /// The name as written in a run file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::ShareGpt => "sharegpt",
            Self::PromptCompletion => "prompt_completion",
            Self::Alpaca => "alpaca",
            Self::Text => "text",
        }
    }
}

/// One turn, in the words of `messages` or of ShareGPT.
fn turn(value: Value) -> Result<Message, String> {
    let Value::Object(mut fields) = value else {
        return Err(format!("is {}, not an object", kind(&value)));
    };
    let mut take = |names: [&str; 2]| {
        names
            .into_iter()
            .filter_map(|name| fields.shift_remove(name))
            .find(|value| !value.is_null())
    };
    let word = match take(["role", "from"]) {
        Some(Value::String(word)) => word,
        Some(other) => return Err(format!("has {} as its role", kind(&other))),
        None => return Err("has no role".to_owned()),
    };
    let role = Role::from_word(&word).ok_or_else(|| {
        format!("has the unknown role `{word}`; known are system, user, assistant and tool")
    })?;
    let content = match take(["content", "value"]) {
        Some(value) => said_text(value)?,
        None => String::new(),
    };
    fields.retain(|_, value| !value.is_null() && value != &Value::Array(Vec::new()));
    let message = Message {
        role,
        content,
        extra: fields,
    };
    if role == Role::Assistant && message.is_empty() {
        return Err("of the assistant is empty".to_owned());
    }
    Ok(message)
}

/// The words of a turn: a text, or a list of text parts.
fn said_text(value: Value) -> Result<String, String> {
    let Value::Array(parts) = value else {
        return plain_text(value);
    };
    let mut text = String::new();
    for part in parts {
        match (&part["type"], &part["text"]) {
            (Value::String(kind), Value::String(words)) if kind == "text" => text += words,
            (Value::String(kind), _) => {
                return Err(format!("has a part of type `{kind}`; only text is learned"));
            }
            _ => return Err("has a part without a type".to_owned()),
        }
    }
    Ok(text)
}

fn plain_text(value: Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(truth) => Ok(truth.to_string()),
        other => Err(format!("is {}, not text", kind(&other))),
    }
}

fn check_mapping(path: &Path, found: &[String], mapping: &BTreeMap<String, String>) -> Result<()> {
    for (part, column) in mapping {
        if !LAYOUTS.iter().any(|parts| parts.knows(part)) {
            return Err(Error::setting(
                format!("data.columns.{part}"),
                "is no part of a row; parts are messages, conversations, prompt, completion, context, system, \
                 instruction, input, output and text",
            ));
        }
        if !found.contains(column) {
            let problem = format!(
                "`columns.{part}` names `{column}`, and the columns are {}",
                listed(found)
            );
            return Err(Error::reading(path, problem, proposed(found)));
        }
    }
    Ok(())
}

fn no_layout(
    found: &[String],
    format: Option<Format>,
    mapping: &BTreeMap<String, String>,
) -> String {
    let asked = match (format, mapping.is_empty()) {
        (Some(format), _) => {
            let parts = LAYOUTS.iter().find(|parts| parts.format == format);
            let required = parts.map_or(&[] as &[&str], |parts| parts.required);
            format!(
                "which lack what the layout `{}` needs ({})",
                format.name(),
                listed(required)
            )
        }
        (None, false) => "and the mapping given names no whole row".to_owned(),
        (None, true) => {
            "which is none of the layouts known: `messages`, `conversations`, `prompt` and \
                         `completion`, `instruction` and `output`, or `text`"
                .to_owned()
        }
    };
    format!("the columns are {}, {asked}", listed(found))
}

/// A mapping that could be meant.
fn proposed(found: &[String]) -> ReadAs {
    let like = |names: &[&str]| {
        names.iter().find_map(|name| {
            found
                .iter()
                .find(|column| column.eq_ignore_ascii_case(name))
        })
    };
    let text = || like(&LIKE_TEXT).or_else(|| found.first().filter(|_| found.len() == 1));
    let is = |part: &str, column: &String| (part.to_owned(), column.clone());
    ReadAs::Columns(match (like(&LIKE_PROMPT), like(&LIKE_COMPLETION)) {
        (Some(prompt), Some(completion)) => {
            vec![is("prompt", prompt), is("completion", completion)]
        }
        _ => text()
            .map(|column| is("text", column))
            .into_iter()
            .collect(),
    })
}

/// How a layout was found.
#[derive(Debug, Clone, Copy)]
enum Why {
    /// By columns with its own names.
    Names,
    /// By columns of other names, which say what they are.
    Pair,
    /// The user named it.
    Asked,
    /// The user said which column is what.
    Mapped,
}

fn reason(
    format: Format,
    columns: &BTreeMap<String, String>,
    unused: &[String],
    why: Why,
) -> String {
    let names: Vec<&str> = columns.values().map(String::as_str).collect();
    let what = match format {
        Format::Text => "texts",
        _ => "conversations",
    };
    let why = match why {
        Why::Mapped => {
            let pairs: Vec<String> = columns
                .iter()
                .map(|(part, column)| format!("{part} from `{column}`"))
                .collect();
            format!("mapped as asked: {}", pairs.join(", "))
        }
        Why::Pair => pairs::read_as(columns),
        Why::Asked => format!("asked for, from {}", listed(&names)),
        Why::Names if names.len() == 1 => format!("because there is a column {}", listed(&names)),
        Why::Names => format!("because there are columns {}", listed(&names)),
    };
    let rest = match unused {
        [] => String::new(),
        unused => format!("; not used: {}", listed(unused)),
    };
    format!("{what} in the layout `{}`, {why}{rest}", format.name())
}

/// `a`, `b` and `c`.
fn listed<T: AsRef<str>>(names: &[T]) -> String {
    let quoted = names.iter().map(|name| format!("`{}`", name.as_ref()));
    joined(&quoted.collect::<Vec<_>>())
}

/// The words of a list, as a sentence has them.
fn joined(words: &[String]) -> String {
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => words.concat(),
    }
}
