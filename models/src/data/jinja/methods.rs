//! Filters and methods of texts that Python does otherwise than the engine, or that need a bound.
//!
//! Places in a text count characters, white space is Python's, and the empty text is no digit.

use std::collections::HashSet;

use minijinja::{
    Error, State, Value, filters,
    value::{Kwargs, StringInput, ValueKind, from_args},
};
use minijinja_contrib::pycompat;

use super::{
    budget::{Cost, MAX_BYTES, MAX_ITEMS, MAX_WIDTH, too_long, too_many, width, wrong},
    python,
};

/// What a method does with the value that it is of.
pub(super) fn cost(method: &str) -> Cost {
    match method {
        "get" => Cost::Picks,
        "keys" | "values" | "items" => Cost::Walks,
        _ => Cost::Reads,
    }
}

/// A method of a value.
pub(super) fn call(
    state: &State,
    value: &Value,
    method: &str,
    args: &[Value],
) -> Result<Value, Error> {
    let Some(text) = value.as_str() else {
        return match (value.kind(), method) {
            (ValueKind::Seq | ValueKind::Iterable, "index") => index(value, args),
            _ => pycompat::unknown_method_callback(state, value, method, args),
        };
    };
    let made = match method {
        "strip" => stripped(text, args, true, true)?.into(),
        "lstrip" => stripped(text, args, true, false)?.into(),
        "rstrip" => stripped(text, args, false, true)?.into(),
        "replace" => replaced(text, from_args(args)?)?.into(),
        "split" => {
            let (between, most) = from_args(args)?;
            split(text, between, most)?
        }
        "rsplit" => rsplit(text, from_args(args)?)?,
        "splitlines" => splitlines(text, from_args::<(Option<bool>,)>(args)?.0)?,
        "partition" => partition(text, from_args::<(&str,)>(args)?.0, text.find(sole(args)?)),
        "rpartition" => rpartition(text, sole(args)?),
        "removeprefix" => text.strip_prefix(sole(args)?).unwrap_or(text).into(),
        "removesuffix" => text.strip_suffix(sole(args)?).unwrap_or(text).into(),
        "find" => place(text, text.find(sole(args)?)).into(),
        "rfind" => place(text, text.rfind(sole(args)?)).into(),
        "index" => match place(text, text.find(sole(args)?)) {
            -1 => return Err(wrong("substring not found")),
            at => at.into(),
        },
        "count" => count(text, sole(args)?).into(),
        "join" => joined(args.first().unwrap_or(&Value::UNDEFINED), text, None)?.into(),
        "isdigit" | "isnumeric" | "isdecimal" => every(text, char::is_numeric).into(),
        "isalpha" => every(text, char::is_alphabetic).into(),
        "isalnum" => every(text, char::is_alphanumeric).into(),
        "isspace" => every(text, is_space).into(),
        "islower" => {
            (text.chars().any(char::is_lowercase) && !text.chars().any(char::is_uppercase)).into()
        }
        "isupper" => {
            (text.chars().any(char::is_uppercase) && !text.chars().any(char::is_lowercase)).into()
        }
        "format" => {
            check_format(text, args)?;
            pycompat::unknown_method_callback(state, value, method, args)?
        }
        _ => pycompat::unknown_method_callback(state, value, method, args)?,
    };
    Ok(made)
}

/// The filter `trim`.
pub(super) fn trim(text: &Value, letters: Option<Value>) -> Result<String, Error> {
    let args: Vec<Value> = letters.into_iter().collect();
    Ok(stripped(&python::text(text)?, &args, true, true)?.to_owned())
}

/// The filter `indent`.
pub(super) fn indent(
    text: &Value,
    spaces: Option<Value>,
    first: Option<bool>,
    blank: Option<bool>,
    options: Kwargs,
) -> Result<String, Error> {
    let spaces = spaces.or(options.get("width")?);
    let first = first.or(options.get("first")?).unwrap_or(false);
    let blank = blank.or(options.get("blank")?).unwrap_or(false);
    options.assert_all_used()?;
    let spaces = match spaces {
        None => " ".repeat(4),
        Some(it) => match it.as_str() {
            Some(text) => text.to_owned(),
            None => " ".repeat(width(usize::try_from(it.clone())?)?),
        },
    };
    let text = python::text(text)? + "\n";
    let lines: Vec<&str> = lines(&text).map(|(line, _)| line).collect();
    if lines
        .len()
        .saturating_mul(spaces.len())
        .saturating_add(text.len())
        > MAX_BYTES
    {
        return Err(too_long());
    }
    let mut made = String::new();
    for (number, line) in lines.into_iter().enumerate() {
        if number > 0 {
            made.push('\n');
        }
        if (number == 0 && first) || (number > 0 && (blank || !line.is_empty())) {
            made += &spaces;
        }
        made += line;
    }
    Ok(made)
}

/// The filter `join`.
pub(super) fn join(
    list: &Value,
    between: Option<&str>,
    attribute: Option<&str>,
    options: Kwargs,
) -> Result<String, Error> {
    let between = between.or(options.get("d")?).unwrap_or_default();
    let attribute = attribute.or(options.get("attribute")?);
    joined(list, between, attribute)
}

/// The filter `replace`.
pub(super) fn replace(
    text: &Value,
    old: &Value,
    new: &Value,
    count: Option<i64>,
) -> Result<String, Error> {
    let (old, new) = (python::text(old)?, python::text(new)?);
    replaced(&python::text(text)?, (&old, &new, count))
}

/// The filter `format`.
pub(super) fn format(
    state: &State,
    format: StringInput<'_>,
    args: minijinja::value::Rest<Value>,
) -> Result<Value, Error> {
    check_format(format.as_str(), &args)?;
    let mut all = vec![Value::from(format.as_str())];
    all.extend(args.iter().cloned());
    Value::from_function(filters::format).call(state, &all)
}

/// The filter `list`; a text is a list of its letters.
pub(super) fn list(value: &Value) -> Result<Value, Error> {
    match value.as_str() {
        Some(text) => gathered(text.chars().map(Value::from)),
        None => gathered(value.try_iter()?),
    }
}

/// A list of these, unless they are too many.
fn gathered<T: Into<Value>>(items: impl Iterator<Item = T>) -> Result<Value, Error> {
    let items: Vec<Value> = items.take(MAX_ITEMS + 1).map(Into::into).collect();
    match items.len() > MAX_ITEMS {
        true => Err(too_many(items.len())),
        false => Ok(Value::from(items)),
    }
}

/// The filter `lines`.
pub(super) fn split_lines(text: &str) -> Result<Value, Error> {
    splitlines(text, None)
}

/// The filter `batch`.
pub(super) fn batch(
    state: &State,
    list: Value,
    count: usize,
    fill: Option<Value>,
) -> Result<Value, Error> {
    filters::batch(state, list, width(count)?, fill)
}

/// The filter `slice`.
pub(super) fn slice(
    state: &State,
    list: Value,
    count: usize,
    fill: Option<Value>,
) -> Result<Value, Error> {
    filters::slice(state, list, width(count)?, fill)
}

fn sole(args: &[Value]) -> Result<&str, Error> {
    Ok(from_args::<(&str,)>(args)?.0)
}

/// Python's white space: Unicode's and four separators of ASCII.
fn is_space(letter: char) -> bool {
    letter.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&letter)
}

fn every(text: &str, is: impl Fn(char) -> bool) -> bool {
    !text.is_empty() && text.chars().all(is)
}

fn stripped<'a>(text: &'a str, args: &[Value], start: bool, end: bool) -> Result<&'a str, Error> {
    let (letters,): (Option<&str>,) = from_args(args)?;
    let letters: Option<HashSet<char>> = letters.map(|it| it.chars().collect());
    let is_cut = |letter: char| match &letters {
        Some(letters) => letters.contains(&letter),
        None => is_space(letter),
    };
    let text = if start {
        text.trim_start_matches(is_cut)
    } else {
        text
    };
    Ok(if end {
        text.trim_end_matches(is_cut)
    } else {
        text
    })
}

fn replaced(text: &str, (old, new, count): (&str, &str, Option<i64>)) -> Result<String, Error> {
    let all = text.matches(old).count();
    let count = match count {
        Some(count @ 0..) => all.min(usize::try_from(count).unwrap_or(all)),
        _ => all,
    };
    if text.len().saturating_add(count.saturating_mul(new.len())) > MAX_BYTES {
        return Err(too_long());
    }
    Ok(text.replacen(old, new, count))
}

fn joined(list: &Value, between: &str, attribute: Option<&str>) -> Result<String, Error> {
    let mut made = String::new();
    for (at, item) in list.try_iter()?.enumerate() {
        if at > 0 {
            made += between;
        }
        made += &match attribute {
            Some(attribute) => python::text(&item.get_attr(attribute)?)?,
            None => python::text(&item)?,
        };
        if made.len() > MAX_BYTES {
            return Err(too_long());
        }
    }
    Ok(made)
}

/// A place in bytes as Python counts it: in characters, -1 for none.
fn place(text: &str, at: Option<usize>) -> i64 {
    at.map_or(-1, |at| text[..at].chars().count() as i64)
}

fn count(text: &str, what: &str) -> usize {
    match what.is_empty() {
        true => text.chars().count() + 1,
        false => text.matches(what).count(),
    }
}

fn index(list: &Value, args: &[Value]) -> Result<Value, Error> {
    let (what,): (&Value,) = from_args(args)?;
    let at = list.try_iter()?.position(|item| item == *what);
    at.map(Value::from)
        .ok_or_else(|| wrong("the value is not in the list"))
}

/// The filter and the method `split`.
pub(super) fn split(text: &str, between: Option<&str>, most: Option<i64>) -> Result<Value, Error> {
    let most = most
        .and_then(|it| usize::try_from(it).ok())
        .unwrap_or(usize::MAX);
    match between {
        Some("") => Err(wrong("the separator is empty")),
        Some(between) => gathered(text.splitn(most.saturating_add(1), between)),
        None => {
            let mut rest = text.trim_start_matches(is_space);
            let mut found = 0;
            gathered(std::iter::from_fn(|| {
                let end = match found < most {
                    true => rest.find(is_space).unwrap_or(rest.len()),
                    false => rest.len(),
                };
                let (part, after) = rest.split_at(end);
                rest = after.trim_start_matches(is_space);
                found += 1;
                (!part.is_empty()).then_some(part)
            }))
        }
    }
}

fn rsplit(text: &str, (between, most): (Option<&str>, Option<i64>)) -> Result<Value, Error> {
    let most = most.and_then(|it| usize::try_from(it).ok());
    let (Some(between), Some(most)) = (between, most) else {
        return split(text, between, None);
    };
    if between.is_empty() {
        return Err(wrong("the separator is empty"));
    }
    let parts = gathered(text.rsplitn(most.saturating_add(1), between))?;
    parts.reverse()
}

fn partition(text: &str, between: &str, at: Option<usize>) -> Value {
    let parts = match at {
        Some(at) => [&text[..at], between, &text[at + between.len()..]],
        None => [text, "", ""],
    };
    parts.into_iter().collect()
}

fn rpartition(text: &str, between: &str) -> Value {
    match text.rfind(between) {
        Some(at) => partition(text, between, Some(at)),
        None => ["", "", text].into_iter().collect(),
    }
}

fn splitlines(text: &str, keep: Option<bool>) -> Result<Value, Error> {
    let shown = |(line, whole)| if keep == Some(true) { whole } else { line };
    gathered(lines(text).map(shown))
}

/// Lines as Python finds them, without and with what ends them.
fn lines(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let is_end = |letter| {
        matches!(
            letter,
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'
                ..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
        )
    };
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = rest.find(is_end);
        let line = &rest[..end.unwrap_or(rest.len())];
        let after = rest[line.len()..].chars().next().map_or(0, char::len_utf8);
        let after = if rest[line.len()..].starts_with("\r\n") {
            2
        } else {
            after
        };
        let whole = &rest[..line.len() + after];
        rest = &rest[whole.len()..];
        (!whole.is_empty()).then_some((line, whole))
    })
}

/// Refuses a format whose fields are wider than any text, or would repeat a long one again and again.
fn check_format(format: &str, args: &[Value]) -> Result<(), Error> {
    let mut numbers = format.split(|letter: char| !letter.is_ascii_digit());
    let most = MAX_WIDTH.to_string().len();
    if numbers.any(|it| it.len() >= most) {
        return Err(wrong("a format has a field that is too wide"));
    }
    let fields = format.matches(['{', '%']).count();
    let mut bytes = 0;
    for arg in args {
        bytes += python::text(arg)?.len();
    }
    match fields.saturating_mul(bytes) > MAX_BYTES {
        true => Err(too_long()),
        false => Ok(()),
    }
}
