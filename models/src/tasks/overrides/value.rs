//! Values as they are written on the command line of the reference: `1e-4`, `True`, `[data/x]`, `{k: v}`, bare or quoted words.

use serde_json::{Map, Value as Json, json};

/// How deep lists and maps may stand in one another.
const MAX_DEPTH: usize = 16;

/// Reads a value. An error is the end of a sentence about it.
pub(super) fn read(text: &str) -> Result<Json, String> {
    let mut reader = Reader { text, at: 0 };
    let value = reader.value(0, "")?;
    reader.skip_spaces();
    match reader.rest() {
        "" => Ok(value),
        rest => Err(format!("has {rest} after its value")),
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_spaces(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    fn take(&mut self, sign: char) -> bool {
        self.skip_spaces();
        let is_next = self.rest().starts_with(sign);
        if is_next {
            self.at += sign.len_utf8();
        }
        is_next
    }

    /// A value that ends before one of these signs.
    fn value(&mut self, depth: usize, ends: &str) -> Result<Json, String> {
        if depth > MAX_DEPTH {
            return Err(format!("has more than {MAX_DEPTH} lists in one another"));
        }
        self.skip_spaces();
        if self.take('[') {
            return self.list(depth);
        }
        if self.take('{') {
            return self.map(depth);
        }
        for quote in ['\'', '"'] {
            if self.take(quote) {
                return self.quoted(quote).map(Json::String);
            }
        }
        let rest = self.rest();
        let length = rest.find(|it| ends.contains(it)).unwrap_or(rest.len());
        self.at += length;
        Ok(word(rest[..length].trim()))
    }

    fn quoted(&mut self, quote: char) -> Result<String, String> {
        let mut text = String::new();
        let mut signs = self.rest().char_indices();
        while let Some((place, sign)) = signs.next() {
            match sign {
                '\\' => text.extend(signs.next().map(|(_, sign)| sign)),
                sign if sign == quote => {
                    self.at += place + sign.len_utf8();
                    return Ok(text);
                }
                sign => text.push(sign),
            }
        }
        Err(format!("has no {quote} at the end of a quoted word"))
    }

    fn list(&mut self, depth: usize) -> Result<Json, String> {
        let mut values = Vec::new();
        if self.take(']') {
            return Ok(json!(values));
        }
        loop {
            values.push(self.value(depth + 1, ",]")?);
            if self.take(']') {
                return Ok(json!(values));
            }
            if !self.take(',') {
                return Err("has a list without a ] at its end".to_owned());
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Json, String> {
        let mut values = Map::new();
        if self.take('}') {
            return Ok(Json::Object(values));
        }
        loop {
            let key = match self.value(depth + 1, ":,}")? {
                Json::String(key) => key,
                other => other.to_string(),
            };
            if !self.take(':') {
                return Err("has a map with a key and no value".to_owned());
            }
            values.insert(key, self.value(depth + 1, ",}")?);
            if self.take('}') {
                return Ok(Json::Object(values));
            }
            if !self.take(',') {
                return Err("has a map without a } at its end".to_owned());
            }
        }
    }
}

/// A bare word: a number, yes, no, nothing, or itself.
fn word(word: &str) -> Json {
    match word.to_ascii_lowercase().as_str() {
        "true" => return json!(true),
        "false" => return json!(false),
        "null" | "none" | "" => return Json::Null,
        _ => {}
    }
    let plain = word.replace('_', "");
    let is_number = plain.starts_with(|it: char| it.is_ascii_digit() || "+-.".contains(it));
    if is_number {
        if let Ok(number) = plain.parse::<i64>() {
            return json!(number);
        }
        if let Ok(number) = plain.parse::<f64>()
            && number.is_finite()
        {
            return json!(number);
        }
    }
    json!(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_the_reference_reads_them() {
        for (text, expected) in [
            ("1", json!(1)),
            ("-3", json!(-3)),
            ("1e-4", json!(1e-4)),
            ("50_000", json!(50000)),
            ("True", json!(true)),
            ("false", json!(false)),
            ("null", Json::Null),
            ("", Json::Null),
            ("none", Json::Null),
            ("rope", json!("rope")),
            ("a b", json!("a b")),
            ("\"[data/x]\"", json!("[data/x]")),
            ("'it\\'s'", json!("it's")),
            ("[data/x]", json!(["data/x"])),
            ("[a, 'b,c', 1.5,[]]", json!(["a", "b,c", 1.5, []])),
            ("[]", json!([])),
            (
                "{name: arc@ARC, k: [1]}",
                json!({"name": "arc@ARC", "k": [1]}),
            ),
            ("[{name:x}]", json!([{"name": "x"}])),
            ("data/1-x", json!("data/1-x")),
            ("1.2.3", json!("1.2.3")),
        ] {
            assert_eq!(read(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn what_does_not_end_is_refused() {
        for text in ["[a", "{a: 1", "{a}", "'a", "[a] b", &"[".repeat(99)] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
