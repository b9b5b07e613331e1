//! YAML that a person writes and reads: errors that name the field and the line, and comments beside values.

use std::path::Path;

use models::train::Problem;
use serde::{Serialize, de::DeserializeOwned};
use serde_saphyr::{MessageFormatter, UserMessageFormatter};

use crate::wire::error::{AppError, Result};

/// The widest column that comments are put in.
const COMMENT_COLUMN: usize = 40;

/// Reads a value from the text of a file. An error names the field, the line and the file.
pub(crate) fn parse<T: DeserializeOwned>(text: &str, path: &Path) -> Result<T> {
    // A file that is empty, or has only comments, holds no value: all fields are left out.
    let blank = text
        .lines()
        .all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'));
    let text = if blank { "{}" } else { text };
    serde_saphyr::from_str(text).map_err(|error| {
        let message = UserMessageFormatter.format_message(error.without_snippet());
        let message = plain(&message);
        let line = error.location().map(|location| location.line() as usize);
        let field = line.and_then(|line| field_of_line(text, line));
        let place = match (&field, line) {
            (Some(field), Some(line)) => format!("`{field}` in line {line}: "),
            (None, Some(line)) => format!("line {line}: "),
            _ => String::new(),
        };
        let mut error = AppError::invalid(format!("{place}{message}: `{}`", path.display()));
        error.field = field.map(Box::from);
        error
    })
}

/// What is wrong with a field of a file, with its line.
pub(crate) fn at_its_line(
    Problem { field, problem }: Problem,
    text: &str,
    path: &Path,
) -> AppError {
    // A list stands below its field, and so does what is wrong in it.
    let named = |it: Option<String>| {
        it.is_some_and(|it| field == it || field.starts_with(&format!("{it}[")))
    };
    let place = match fields_of_lines(text).position(named) {
        Some(before) => format!("`{field}` in line {}", before + 1),
        None if field == "." => "the file".to_owned(),
        None => format!("`{field}`"),
    };
    let message = expected_in_words(&problem);
    let error = |message: &str| {
        AppError::invalid(format!("{place} {message}: `{}`", path.display())).with_field(&*field)
    };
    // What was expected is what to do about it.
    match message.split_once(", expected ") {
        Some((_, expected)) => error("can’t be read").with_hint(format!("it takes {expected}")),
        None => error(&message),
    }
}

/// What is wrong with a value, without the names of Rust's types.
fn plain(message: &str) -> &str {
    if message.starts_with("expected sequence start") {
        return "must be a list, such as [a, b]";
    }
    if message.starts_with("expected mapping start") {
        return "must have fields of its own, each in a line below it";
    }
    match message.strip_prefix("invalid ") {
        Some("u32" | "u64" | "usize") => "not a whole number",
        Some("f64" | "floating point") => "not a number",
        Some("bool" | "boolean") => "neither true nor false",
        _ => message,
    }
}

/// What a value should have been, without the names of Rust's types.
pub(crate) fn expected_in_words(message: &str) -> String {
    let (before, expected) = message.rsplit_once("expected ").unwrap_or((message, ""));
    let expected = match expected {
        "u32" | "u64" | "usize" => "a whole number",
        "f64" => "a number",
        "a boolean" => "true or false",
        "a sequence" => "a list, such as [a, b]",
        "a map" => "fields with values",
        _ => return message.to_owned(),
    };
    format!("{before}expected {expected}")
}

/// Reads one value as it stands after `key: ` in a file.
pub(crate) fn parse_scalar(text: &str) -> std::result::Result<serde_json::Value, String> {
    let options = serde_saphyr::options! { strict_booleans: true };
    match text.trim() {
        "" => Ok(serde_json::Value::Null),
        text => serde_saphyr::from_str_with_options(text, options)
            .map_err(|error| error.without_snippet().to_string()),
    }
}

/// Writes a value with a comment beside each field that has one. Lists stand in one line, so that each field does.
pub(crate) fn write_with_comments(
    value: &impl Serialize,
    comment_of: impl Fn(&str) -> Option<String>,
) -> Result<String> {
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    let tree = serde_json::to_value(value).map_err(|error| AppError::failed(error.to_string()))?;
    let text = serde_saphyr::to_string_with_options(&Flow(&tree), options)
        .map_err(|error| AppError::failed(error.to_string()))?;
    let mut written = String::new();
    for (line, field) in text.lines().zip(fields_of_lines(&text)) {
        written.push_str(line);
        if let Some(comment) = field.and_then(|field| comment_of(&field)) {
            let width = line.chars().count();
            let padding = COMMENT_COLUMN.saturating_sub(width).max(2);
            written.push_str(&" ".repeat(padding));
            written.push_str("# ");
            written.push_str(&comment.replace('\n', " "));
        }
        written.push('\n');
    }
    Ok(written)
}

/// A value that stands in a line of its own.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "gui", derive(specta::Type))]
pub(crate) struct PlanLine {
    /// `lora.rank`.
    pub(crate) field: String,
    pub(crate) value: String,
    /// The comment beside it. Empty where there is none.
    pub(crate) why: String,
}

/// Each value that stands in a line of its own.
pub(crate) fn plan_lines(text: &str) -> Vec<PlanLine> {
    let lines = text
        .lines()
        .zip(fields_of_lines(text))
        .filter_map(|(line, field)| {
            let field = field?;
            let (_, rest) = line.split_once(':')?;
            let (value, why) = rest.rsplit_once("  # ").unwrap_or((rest, ""));
            let (value, why) = (value.trim().to_owned(), why.trim().to_owned());
            // A field that has fields of its own has no value.
            (!value.is_empty()).then_some(PlanLine { field, value, why })
        });
    lines.collect()
}

/// The path of the field that begins in a line, counted from 1, such as `lora.rank`. Nothing for other lines.
fn field_of_line(text: &str, line: usize) -> Option<String> {
    fields_of_lines(text).nth(line.checked_sub(1)?)?
}

/// The path of the field that begins in each line, or nothing. In one pass: a file may have many lines.
fn fields_of_lines(text: &str) -> impl Iterator<Item = Option<String>> {
    let mut open: Vec<(usize, &str)> = Vec::new();
    text.lines().map(move |line| {
        let (indent, key) = key_of(line)?;
        open.retain(|(outer, _)| *outer < indent);
        open.push((indent, key));
        let path: Vec<&str> = open.iter().map(|(_, key)| *key).collect();
        Some(path.join("."))
    })
}

/// The indentation and the key of a line that begins a field.
fn key_of(line: &str) -> Option<(usize, &str)> {
    let content = line.trim_start();
    let (key, rest) = content.split_once(':')?;
    let is_key = !key.is_empty()
        && !key.starts_with(['#', '-', '"', '\'', '{', '['])
        && (rest.is_empty() || rest.starts_with(' '));
    is_key.then(|| (line.len() - content.len(), key.trim_end()))
}

/// A tree whose lists are written in one line.
struct Flow<'a>(&'a serde_json::Value);

impl Serialize for Flow<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            serde_json::Value::Object(fields) => {
                serializer.collect_map(fields.iter().map(|(name, value)| (name, Flow(value))))
            }
            list @ serde_json::Value::Array(_) => serde_saphyr::FlowSeq(list).serialize(serializer),
            other => other.serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_is_found_by_its_line() {
        let text = "steps: 3\nlora:\n  # Wider.\n  rank: 8\n\n  targets: [a, b]\nseed: 1\n";
        let fields: Vec<_> = (1..=7).map(|line| field_of_line(text, line)).collect();
        let expected = [
            Some("steps"),
            Some("lora"),
            None,
            Some("lora.rank"),
            None,
            Some("lora.targets"),
            Some("seed"),
        ];
        assert_eq!(fields, expected.map(|field| field.map(str::to_owned)));
    }

    #[test]
    fn comments_stand_beside_the_fields_they_belong_to() {
        let value = json!({"name": "a: b", "lora": {"rank": 8, "targets": ["q", "v: w"]}, "empty": [], "none": {}});
        let comment = |field: &str| (field == "lora.targets").then(|| "two".to_owned());
        let text = write_with_comments(&value, comment).unwrap();
        assert_eq!(
            text,
            "name: \"a: b\"\nlora:\n  rank: 8\n  targets: [q, \"v: w\"]                  # two\nempty: []\nnone: {}\n"
        );
        let read: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(read, value);

        let [field, value, why] = ["lora.targets", "[q, \"v: w\"]", "two"].map(str::to_owned);
        assert_eq!(plan_lines(&text)[2], PlanLine { field, value, why });
    }

    #[test]
    fn scalars_are_read_as_in_a_file() {
        for (text, expected) in [
            ("16", json!(16)),
            ("2e-4", json!(2e-4)),
            ("true", json!(true)),
            ("on", json!("on")),
            ("[q_proj, v_proj]", json!(["q_proj", "v_proj"])),
            ("'8'", json!("8")),
            ("", json!(null)),
        ] {
            assert_eq!(parse_scalar(text), Ok(expected), "{text}");
        }
    }
}
