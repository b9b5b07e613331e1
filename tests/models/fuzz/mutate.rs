//! Real files, changed: what is JSON by its values, what has lengths and offsets by these, everything else by its bytes.

use models::random::Random;
use serde_json::Value;

/// What stands for a value until its text is put there: JSON has no room for some of what is written.
const PLACE: &str = "\"\u{1}place\u{1}\"";
/// The longest file that is made. More takes time and shows nothing new.
const MAX_BYTES: usize = 1 << 17;

/// A changed copy of one of the samples.
pub(super) fn changed(random: &mut Random, samples: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = random.choose(samples).clone();
    for _ in 0..=random.below(3) {
        bytes = match random.below(3) {
            0 => changed_bytes(random, bytes, samples),
            _ => changed_by_structure(random, &bytes)
                .unwrap_or_else(|| changed_bytes(random, bytes, samples)),
        };
        bytes.truncate(MAX_BYTES);
    }
    bytes
}

/// By what a file is: JSON, lines of it, or JSON after its length as in safetensors.
fn changed_by_structure(random: &mut Random, bytes: &[u8]) -> Option<Vec<u8>> {
    if let Some(text) = changed_json(random, bytes) {
        return Some(text);
    }
    if let Some((length, rest)) = bytes.split_first_chunk::<8>() {
        let length = usize::try_from(u64::from_le_bytes(*length)).ok();
        if let Some((header, data)) = length.and_then(|it| rest.split_at_checked(it)) {
            let header = changed_json(random, header)?;
            let length = match random.below(8) {
                0 => extreme_integer(random),
                _ => header.len() as u64,
            };
            return Some([&length.to_le_bytes()[..], &header, data].concat());
        }
    }
    let text = std::str::from_utf8(bytes).ok()?;
    let mut lines: Vec<Vec<u8>> = text.lines().map(|it| it.as_bytes().to_vec()).collect();
    if lines.len() < 2 {
        return None;
    }
    let at = random.below(lines.len());
    match random.below(4) {
        0 => lines.insert(at, lines[random.below(lines.len())].clone()),
        1 => _ = lines.remove(at),
        _ => {
            lines[at] =
                changed_json(random, &lines[at]).or_else(|| changed_field(random, &lines[at]))?
        }
    }
    Some(lines.join(&b'\n'))
}

/// The value after a `key:` of a line, as YAML and Python write it.
fn changed_field(random: &mut Random, line: &[u8]) -> Option<Vec<u8>> {
    let colon = line.iter().position(|it| *it == b':')?;
    let mut changed = line[..=colon].to_vec();
    changed.push(b' ');
    changed.extend(extreme(random).into_bytes());
    Some(changed)
}

/// One value of a JSON text, replaced, removed, doubled or moved.
fn changed_json(random: &mut Random, text: &[u8]) -> Option<Vec<u8>> {
    let mut tree: Value = serde_json::from_slice(text).ok()?;
    let donor = any_value(random, &mut tree).to_string();
    let target = any_value(random, &mut tree);
    let extreme = match random.below(6) {
        0 => donor,
        _ => extreme(random),
    };
    match (random.below(6), &mut *target) {
        (0, Value::Object(fields)) if !fields.is_empty() => {
            let name = fields.keys().nth(random.below(fields.len()))?.clone();
            fields.remove(&name);
        }
        // The same name twice, which a map can't hold.
        (1, Value::Object(fields)) if !fields.is_empty() => {
            let name = fields.keys().nth(random.below(fields.len()))?.clone();
            let text = serde_json::to_string(&name).ok()?;
            let doubled = serde_json::to_string(&*target).ok()?;
            let doubled = format!("{{{text}:{extreme},{}", doubled.strip_prefix('{')?);
            *target = Value::from(PLACE.trim_matches('"'));
            return replaced(&tree, &doubled);
        }
        (2, Value::Array(items)) if !items.is_empty() => {
            let item = items[random.below(items.len())].clone();
            let times = [1, 2, 100, 2000][random.below(4)];
            items.extend(std::iter::repeat_n(item, times));
        }
        (3, Value::String(text)) => *text = longer(random, text),
        _ => {
            *target = Value::from(PLACE.trim_matches('"'));
            return replaced(&tree, &extreme);
        }
    }
    serde_json::to_vec(&tree).ok()
}

fn replaced(tree: &Value, text: &str) -> Option<Vec<u8>> {
    let place = serde_json::to_string(PLACE.trim_matches('"')).ok()?;
    let tree = serde_json::to_string(tree).ok()?;
    Some(tree.replacen(&place, text, 1).into_bytes())
}

/// Some value of a tree, the tree itself among them.
fn any_value<'a>(random: &mut Random, tree: &'a mut Value) -> &'a mut Value {
    let mut value = tree;
    loop {
        let inner = match &*value {
            Value::Array(items) => items.len(),
            Value::Object(fields) => fields.len(),
            _ => 0,
        };
        if inner == 0 || random.below(5) == 0 {
            return value;
        }
        let at = random.below(inner);
        value = match value {
            Value::Array(items) => &mut items[at],
            Value::Object(fields) => match fields.values_mut().nth(at) {
                Some(field) => field,
                None => unreachable!(),
            },
            _ => unreachable!(),
        };
    }
}

fn extreme_integer(random: &mut Random) -> u64 {
    let near = [
        0,
        1 << 8,
        1 << 15,
        1 << 16,
        1 << 31,
        1 << 32,
        1 << 53,
        1 << 63,
    ];
    let near: u64 = *random.choose(&near);
    match random.below(4) {
        0 => near,
        1 => near.wrapping_sub(1),
        2 => near.wrapping_add(1),
        _ => random.bits() >> random.below(64),
    }
}

/// The text of a value that nobody expects, as JSON and YAML read it.
fn extreme(random: &mut Random) -> String {
    let fixed = [
        "null",
        "true",
        "false",
        "0",
        "-1",
        "-0.0",
        "1e-320",
        "1e308",
        "-1e308",
        "1e400",
        "NaN",
        "0.5",
        "3.0",
        "9007199254740993",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775809",
        "18446744073709551615",
        "18446744073709551616",
        "340282366920938463463374607431768211456",
        "\"\"",
        "\"NaN\"",
        "\"../../etc/passwd\"",
        "\"\\u0000\"",
        "\"\\ud800\"",
        "\"{{\"",
        "[]",
        "{}",
        "[[]]",
        "\"true\"",
        "[null]",
        "1000000000000",
        "4294967296",
        "65537",
        "\"*\"",
        "\"[MASK]\"",
        "&a [*a]",
        "!!binary x",
        "? [",
        "- - -",
        "{a: b}",
    ];
    match random.below(8) {
        0 => extreme_integer(random).to_string(),
        1 => format!("-{}", extreme_integer(random)),
        2 => {
            let depth = [10, 64, 127, 128, 129, 1000, 20_000][random.below(7)];
            let (open, close) = [("[", "]"), ("{\"a\":", "}")][random.below(2)];
            format!("{}1{}", open.repeat(depth), close.repeat(depth))
        }
        3 => {
            let letters = [1, 100, 10_000][random.below(3)];
            let letter = ["a", "é", "\u{10ffff}", "9", " ", "("][random.below(6)];
            format!("\"{}\"", letter.repeat(letters))
        }
        _ => (*random.choose(&fixed)).to_owned(),
    }
}

fn longer(random: &mut Random, text: &str) -> String {
    match random.below(4) {
        0 => text.repeat([2, 10, 100][random.below(3)].min(1 + 20_000 / text.len().max(1))),
        1 => text.chars().rev().collect(),
        2 => text.chars().take(random.below(text.len() + 1)).collect(),
        _ => format!("{text}\u{0}\u{feff}\u{202e}{text}"),
    }
}

fn changed_bytes(random: &mut Random, mut bytes: Vec<u8>, samples: &[Vec<u8>]) -> Vec<u8> {
    let length = bytes.len();
    let (at, more) = (random.below(length + 1), 1 + random.below(64));
    let end = (at + more).min(length);
    match random.below(10) {
        0 if at < length => bytes[at] ^= 1 << random.below(8),
        1 if at < length => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5)],
        2 => bytes.truncate(at),
        3 => _ = bytes.drain(at..end),
        4 => {
            let again = bytes[at..end].repeat(1 + random.below(20));
            bytes.splice(at..at, again);
        }
        5 => {
            let other = random.choose(samples);
            let from = random.below(other.len() + 1);
            bytes.truncate(at);
            bytes.extend_from_slice(&other[from..]);
        }
        6 | 7 => {
            // A length or an offset, as binary formats write it.
            let number = extreme_integer(random).to_le_bytes();
            let width = [1, 2, 4, 8][random.below(4)];
            let end = (at + width).min(length);
            bytes[at..end].copy_from_slice(&number[..end - at]);
        }
        8 => {
            let sign = *random.choose(b"[{(<\"'`-:,.\n\t\0&*!%{}$");
            bytes.splice(
                at..at,
                std::iter::repeat_n(sign, [1, 3, 200, 20_000][random.below(4)]),
            );
        }
        _ => {
            let noise: Vec<u8> = (0..more).map(|_| random.bits() as u8).collect();
            bytes.splice(at..end, noise);
        }
    }
    bytes
}
