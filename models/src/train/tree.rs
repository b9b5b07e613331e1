//! A run file is one tree of fields, of which every run reads one part and its kind of learning another.
//!
//! Both parts may have fields in the same section: `sample.every` is every run's, `sample.prompts` those of language.
//! Deliberately absent: the text of a run file and its lines, which belong to whoever reads files.

use std::{borrow::Cow, fmt::Display};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

use super::plan::Problem;
use crate::limits;

/// One part of the tree.
pub trait Part: Serialize + DeserializeOwned {
    /// The sections of the other part, that of every run, which a run with this plan doesn't read: it follows no gradients, say. They
    /// are refused where they are asked for, and the plan doesn't have them.
    fn unread(&self) -> &'static [&'static str] {
        &[]
    }

    /// Reads this part of `tree`. What it does not know goes to `unread`.
    fn read(tree: &Value, unread: &mut Vec<String>) -> Result<Self, Problem> {
        read_tracked(tree, unread)
    }
}

/// Reads a value, and notes the fields that it does not know. An error names the field.
fn read_tracked<T: DeserializeOwned>(tree: &Value, unread: &mut Vec<String>) -> Result<T, Problem> {
    let mut track = serde_path_to_error::Track::new();
    let tracked = serde_path_to_error::Deserializer::new(tree, &mut track);
    let read = serde_ignored::deserialize(tracked, |path| unread.push(field_of(&path)));
    read.map_err(|error: serde_json::Error| Problem {
        field: track.path().to_string(),
        problem: error.to_string(),
    })
}

/// Reads the part of every run, and that of its kind. Of a request, which is `strict`, a field that neither knows is an error; of
/// a plan, one above its limit.
pub(super) fn read_parts<A: DeserializeOwned, B: Part>(
    tree: &Value,
    strict: bool,
) -> Result<(A, B), Problem> {
    let (mut by_run, mut by_kind) = (Vec::new(), Vec::new());
    let kind = B::read(tree, &mut by_kind);
    let run = match &kind {
        Ok(kind) if !strict => read_tracked(&with_unread(tree, kind.unread()), &mut by_run)?,
        _ => read_tracked(tree, &mut by_run)?,
    };
    let kind = kind?;
    let problem = match strict {
        true => unknown(&by_run, &by_kind).map(|field| (field, "is not a setting".to_owned())),
        // What is planned is computed with. Of a request, the planner says all that is wrong at once.
        false => limits::exceeded_setting(tree),
    };
    match problem {
        Some((field, problem)) => Err(Problem {
            field: field.to_owned(),
            problem,
        }),
        None => Ok((run, kind)),
    }
}

/// The tree of a plan, with what stands for the sections that its kind does not read.
pub(super) fn with_unread<'a>(tree: &'a Value, unread: &[&str]) -> Cow<'a, Value> {
    let (Some(fields), false) = (tree.as_object(), unread.is_empty()) else {
        return Cow::Borrowed(tree);
    };
    let mut fields = fields.clone();
    for (name, value) in unread_sections() {
        if unread.contains(&name.as_str()) {
            fields.insert(name, value);
        }
    }
    Cow::Owned(Value::Object(fields))
}

/// What stands in a plan for sections that nobody reads but the loop: no gradients, and a look after each step.
fn unread_sections() -> Map<String, Value> {
    let sections = json!({
        "batch": {"rows": 1, "accumulate": 1},
        "learning_rate": 0.0,
        "schedule": {"kind": "constant", "warmup_steps": 0, "min_ratio": 1.0},
        "optimizer": {"kind": "sgd", "beta1": 0.0, "beta2": 0.0, "epsilon": 0.0, "weight_decay": 0.0, "momentum": 0.0},
        "clip_norm": 0.0,
        "ema": 0.0,
        "gradient_checkpointing": false,
        "memory_fallback": {"narrower_dtype": false, "cpu": false},
        "evaluate": {"every": 1, "batches": 0},
        "sample": {"every": 0},
    });
    match sections {
        Value::Object(sections) => sections,
        _ => Map::new(),
    }
}

/// Whether a field is one of these sections, or in one.
pub fn is_in(field: &str, sections: &[&str]) -> bool {
    sections.iter().any(|section| {
        let rest = field.strip_prefix(section);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

/// The first field that neither of two readers knows. One that doesn't know a section knows none of its fields.
fn unknown<'a>(one: &'a [String], other: &'a [String]) -> Option<&'a str> {
    one.iter().find_map(|one| {
        other.iter().find_map(|other| {
            if is_in(one, &[other]) {
                Some(one.as_str())
            } else {
                is_in(other, &[one]).then_some(other.as_str())
            }
        })
    })
}

fn field_of(path: &serde_ignored::Path) -> String {
    use serde_ignored::Path;
    let inside = |parent: &Path, name: &dyn Display| match field_of(parent) {
        parent if parent.is_empty() => name.to_string(),
        parent => format!("{parent}.{name}"),
    };
    match path {
        Path::Root => String::new(),
        Path::Seq { parent, index } => inside(parent, index),
        Path::Map { parent, key } => inside(parent, key),
        Path::Some { parent }
        | Path::NewtypeStruct { parent }
        | Path::NewtypeVariant { parent } => field_of(parent),
    }
}

/// Both parts as one tree: the run's name, what only its kind has, and then the rest.
pub(super) fn join(run: &impl Serialize, kind: &impl Serialize) -> serde_json::Result<Value> {
    let (run, mut kind) = (map_of(run)?, map_of(kind)?);
    let mut tree = Map::new();
    if let Some(name) = run.get(NAME) {
        tree.insert(NAME.to_owned(), name.clone());
    }
    for (field, value) in &kind {
        if !run.contains_key(field) {
            tree.insert(field.clone(), value.clone());
        }
    }
    for (field, value) in run {
        let value = match (value, kind.remove(&field)) {
            (Value::Object(mut section), Some(Value::Object(more))) => {
                section.extend(more);
                Value::Object(section)
            }
            (value, _) => value,
        };
        tree.insert(field, value);
    }
    Ok(Value::Object(tree))
}

const NAME: &str = "name";

fn map_of(part: &impl Serialize) -> serde_json::Result<Map<String, Value>> {
    match serde_json::to_value(part)? {
        Value::Object(fields) => Ok(fields),
        _ => Ok(Map::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::unknown;

    #[test]
    fn a_field_is_unknown_when_no_reader_knows_it() {
        for (one, other, expected) in [
            (&["model"] as &[&str], &["steps"] as &[&str], None),
            (&["size"], &["size.widht", "steps"], Some("size.widht")),
            (&["batch.row"], &["batch"], Some("batch.row")),
            (&["stepz", "size"], &["stepz"], Some("stepz")),
            (&["sample.shown"], &["sample.every"], None),
            (&["sample"], &["samples"], None),
        ] {
            let [one, other] = [one, other].map(|fields| fields.iter().map(|it| (*it).to_owned()));
            let (one, other) = (one.collect::<Vec<_>>(), other.collect::<Vec<_>>());
            assert_eq!(unknown(&one, &other), expected, "{one:?} {other:?}");
        }
    }
}
