//! Values as Python writes them: `str`, `repr` and `json.dumps`.

use minijinja::{
    Error, ErrorKind, Value,
    value::{Kwargs, ValueKind},
};

use super::budget::{MAX_BYTES, MAX_DEPTH, too_deep, too_long, width};

/// What `str(value)` gives.
pub(super) fn text(value: &Value) -> Result<String, Error> {
    match value.as_str() {
        Some(text) => Ok(text.to_owned()),
        None if value.is_undefined() => Ok(String::new()),
        None => {
            let mut made = String::new();
            repr(value, &mut made, 0)?;
            Ok(made)
        }
    }
}

/// The filter `tojson`, with the arguments that transformers gives it.
pub(super) fn to_json(
    value: &Value,
    ensure_ascii: Option<bool>,
    options: Kwargs,
) -> Result<String, Error> {
    let indent = match options.get::<Option<Value>>("indent")? {
        None => None,
        Some(spaces) => Some(match spaces.as_str() {
            Some(text) => text.to_owned(),
            None if spaces.is_none() => String::new(),
            None => " ".repeat(width(usize::try_from(spaces.clone())?)?),
        }),
    };
    let separators = options.get::<Option<Vec<String>>>("separators")?;
    let (item, key) = match separators.as_deref() {
        Some([item, key]) => (item.clone(), key.clone()),
        _ if indent.is_some() => (",".to_owned(), ": ".to_owned()),
        _ => (", ".to_owned(), ": ".to_owned()),
    };
    let json = Json {
        is_ascii: ensure_ascii
            .or(options.get("ensure_ascii")?)
            .unwrap_or(false),
        is_sorted: options.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
        indent,
        item,
        key,
    };
    let mut made = String::new();
    json.write(value, &mut made, 0)?;
    Ok(made)
}

/// How `json.dumps` writes.
struct Json {
    is_ascii: bool,
    is_sorted: bool,
    indent: Option<String>,
    item: String,
    key: String,
}

impl Json {
    fn write(&self, value: &Value, out: &mut String, depth: usize) -> Result<(), Error> {
        check(out, depth)?;
        match value.kind() {
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => match number(value) {
                text if text.contains("nan") => out.push_str("NaN"),
                text if text.contains("inf") => *out += &text.replace("inf", "Infinity"),
                text => *out += &text,
            },
            ValueKind::String => self.string(value.as_str().unwrap_or_default(), out),
            ValueKind::Seq | ValueKind::Iterable => {
                let items: Vec<Value> = value.try_iter()?.collect();
                self.all(['[', ']'], items.iter(), out, depth, |item, out| {
                    self.write(item, out, depth + 1)
                })?;
            }
            ValueKind::Map => {
                let mut keys: Vec<Value> = value.try_iter()?.collect();
                if self.is_sorted {
                    keys.sort();
                }
                self.all(['{', '}'], keys.iter(), out, depth, |key, out| {
                    match key.as_str() {
                        Some(text) => self.string(text, out),
                        None => {
                            let mut text = String::new();
                            self.write(key, &mut text, depth + 1)?;
                            self.string(&text, out);
                        }
                    }
                    out.push_str(&self.key);
                    self.write(&value.get_item(key)?, out, depth + 1)
                })?;
            }
            kind => {
                let problem = format!("a value of type {kind} can’t be written as JSON");
                return Err(Error::new(ErrorKind::InvalidOperation, problem));
            }
        }
        Ok(())
    }

    /// Items between brackets, each on its own line when there is an indent.
    fn all<'a>(
        &self,
        brackets: [char; 2],
        items: impl ExactSizeIterator<Item = &'a Value>,
        out: &mut String,
        depth: usize,
        mut write: impl FnMut(&Value, &mut String) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let is_empty = items.len() == 0;
        let line = |out: &mut String, depth: usize| {
            if let Some(indent) = self.indent.as_ref().filter(|_| !is_empty) {
                out.push('\n');
                (0..depth).for_each(|_| out.push_str(indent));
            }
        };
        out.push(brackets[0]);
        for (at, item) in items.enumerate() {
            if at > 0 {
                out.push_str(&self.item);
            }
            line(out, depth + 1);
            write(item, out)?;
        }
        line(out, depth);
        out.push(brackets[1]);
        Ok(())
    }

    fn string(&self, text: &str, out: &mut String) {
        out.push('"');
        for letter in text.chars() {
            match letter {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                ' '..='~' => out.push(letter),
                _ if self.is_ascii || letter < ' ' => {
                    let mut units = [0; 2];
                    for unit in letter.encode_utf16(&mut units) {
                        *out += &format!("\\u{unit:04x}");
                    }
                }
                _ => out.push(letter),
            }
        }
        out.push('"');
    }
}

/// What `repr(value)` gives.
fn repr(value: &Value, out: &mut String, depth: usize) -> Result<(), Error> {
    check(out, depth)?;
    match value.kind() {
        ValueKind::Undefined => out.push_str("Undefined"),
        ValueKind::Number => *out += &number(value),
        ValueKind::String => repr_string(value.as_str().unwrap_or_default(), out),
        ValueKind::Seq | ValueKind::Iterable => {
            out.push('[');
            for (at, item) in value.try_iter()?.enumerate() {
                if at > 0 {
                    out.push_str(", ");
                }
                repr(&item, out, depth + 1)?;
            }
            out.push(']');
        }
        ValueKind::Map => {
            out.push('{');
            for (at, key) in value.try_iter()?.enumerate() {
                if at > 0 {
                    out.push_str(", ");
                }
                repr(&key, out, depth + 1)?;
                out.push_str(": ");
                repr(&value.get_item(&key)?, out, depth + 1)?;
            }
            out.push('}');
        }
        _ => *out += &value.to_string(),
    }
    Ok(())
}

fn check(out: &str, depth: usize) -> Result<(), Error> {
    if out.len() > MAX_BYTES {
        return Err(too_long());
    }
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    Ok(())
}

/// A number; Python writes the exponent of a large or small one with its sign and two digits.
fn number(value: &Value) -> String {
    if value.is_integer() {
        return value.to_string();
    }
    let Ok(float) = f64::try_from(value.clone()) else {
        return value.to_string();
    };
    let text = format!("{float:?}").to_lowercase();
    match text.split_once('e') {
        Some((digits, exponent)) => {
            let (sign, exponent) = match exponent.strip_prefix('-') {
                Some(exponent) => ('-', exponent),
                None => ('+', exponent),
            };
            format!("{digits}e{sign}{exponent:0>2}")
        }
        None => text,
    }
}

/// A text in single quotes, or in double ones when it has single ones and no double ones.
fn repr_string(text: &str, out: &mut String) {
    let quote = match text.contains('\'') && !text.contains('"') {
        true => '"',
        false => '\'',
    };
    out.push(quote);
    for letter in text.chars() {
        match letter {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            _ if letter == quote || letter == '\\' => out.extend(['\\', letter]),
            ' '..='~' => out.push(letter),
            _ if is_printable(letter) => out.push(letter),
            _ => *out += &escaped(letter as u32),
        }
    }
    out.push(quote);
}

/// A letter that Python shows by its number.
fn escaped(code: u32) -> String {
    match code {
        ..=0xff => format!("\\x{code:02x}"),
        0x100..=0xffff => format!("\\u{code:04x}"),
        _ => format!("\\U{code:08x}"),
    }
}

/// Whether Python shows a letter as it is: no control sign, no space but the plain one, nothing for private use.
fn is_printable(letter: char) -> bool {
    let hidden = [
        '\u{ad}'..='\u{ad}',
        '\u{600}'..='\u{605}',
        '\u{200b}'..='\u{200f}',
        '\u{2028}'..='\u{202e}',
        '\u{2060}'..='\u{206f}',
        '\u{e000}'..='\u{f8ff}',
        '\u{feff}'..='\u{feff}',
        '\u{fff9}'..='\u{fffb}',
        '\u{e0000}'..='\u{10ffff}',
    ];
    letter == ' '
        || !(letter.is_control()
            || letter.is_whitespace()
            || hidden.iter().any(|range| range.contains(&letter)))
}
