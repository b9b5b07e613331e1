//! Keeps what is written to one object of JSON (RFC 8259): before each draw, the tokens that would break it are taken out.
//!
//! A text that ends by itself can be parsed. To make sure that it does end, blanks in a row, digits of a number and nesting are
//! bounded, which RFC 8259 allows.
//!
//! Deliberately absent: what is in the object, which the messages have to ask for, and schemas.

use std::rc::Rc;

use crate::data::tokenizer::Tokenizer;

/// Spaces and line ends between two signs: enough for an object that is indented as deep as it may be.
const MAX_BLANKS: u8 = 160;
/// Brackets that are open at once.
const MAX_DEPTH: u8 = 64;
/// Digits of a number before its exponent. A model that writes a third must come to an end.
const MAX_DIGITS: u8 = 40;
/// Digits of an exponent: with them, no number is larger than the largest of double precision.
const MAX_EXPONENT_DIGITS: u8 = 2;

/// What texts of one tokenizer share: its tokens in order, which takes as long as writing several of them.
#[derive(Default)]
pub(super) struct JsonTokens(Option<(Vec<u32>, Rc<Words>)>);

impl JsonTokens {
    /// An empty text, in the tokens of the tokenizer without those that end an answer.
    pub(super) fn text(&mut self, tokenizer: &Tokenizer, ends: &[u32]) -> JsonText {
        let known = self.0.take().filter(|(of_ends, _)| of_ends == ends);
        let (_, words) = self
            .0
            .insert(known.unwrap_or_else(|| (ends.to_vec(), Rc::new(Words::of(tokenizer, ends)))));
        JsonText {
            words: words.clone(),
            read: Reader::new(),
        }
    }
}

/// A text that becomes an object of JSON, token by token.
pub(super) struct JsonText {
    words: Rc<Words>,
    read: Reader,
}

impl JsonText {
    /// Whether the object is closed.
    pub(super) fn is_over(&self) -> bool {
        self.read.at == At::End
    }

    /// Takes out the scores [v] of tokens that can't come next: they become negative infinity.
    pub(super) fn forbid(&self, scores: &mut [f32]) {
        let mut is_allowed = vec![false; scores.len()];
        self.words.follow(self.read, |token| {
            if let Some(is_allowed) = is_allowed.get_mut(token as usize) {
                *is_allowed = true;
            }
        });
        for (score, is_allowed) in scores.iter_mut().zip(is_allowed) {
            if !is_allowed {
                *score = f32::NEG_INFINITY;
            }
        }
    }

    /// Adds a token, which has to be one that was allowed.
    pub(super) fn push(&mut self, tokenizer: &Tokenizer, token: u32) {
        for byte in tokenizer.token_bytes(token) {
            self.read = self.read.read(byte).unwrap_or(self.read);
        }
    }
}

/// The bytes of every token that is text, sorted, so that those with the same beginning are read once.
struct Words {
    words: Vec<(Vec<u8>, u32)>,
    /// How many bytes each has in common with the one before it.
    shared: Vec<usize>,
}

impl Words {
    fn of(tokenizer: &Tokenizer, ends: &[u32]) -> Self {
        let tokens = 0..tokenizer.vocabulary_size() as u32;
        let is_end = |token: &u32| ends.contains(token) || tokenizer.special.stop.contains(token);
        let text = tokens.filter(|token| !tokenizer.is_special(*token) && !is_end(token));
        Self::new(text.map(|token| (tokenizer.token_bytes(token), token)))
    }

    fn new(words: impl Iterator<Item = (Vec<u8>, u32)>) -> Self {
        let mut words: Vec<(Vec<u8>, u32)> = words.filter(|(bytes, _)| !bytes.is_empty()).collect();
        words.sort_unstable();
        let shared = words.windows(2).map(|pair| {
            let bytes = pair[0].0.iter().zip(&pair[1].0);
            bytes.take_while(|(a, b)| a == b).count()
        });
        Self {
            shared: std::iter::once(0).chain(shared).collect(),
            words,
        }
    }

    /// Tells every token that can be read next.
    fn follow(&self, from: Reader, mut allow: impl FnMut(u32)) {
        // What each beginning of the word comes to, and how long the beginning is that can't be read, if there is one.
        let mut read = vec![from];
        let mut wrong: Option<usize> = None;
        for ((bytes, token), shared) in self.words.iter().zip(&self.shared) {
            if wrong.is_some_and(|length| *shared >= length) {
                continue;
            }
            wrong = None;
            read.truncate(shared + 1);
            let mut last = read[read.len() - 1];
            for (at, byte) in bytes.iter().enumerate().skip(*shared) {
                let Some(next) = last.read(*byte) else {
                    wrong = Some(at + 1);
                    break;
                };
                read.push(next);
                last = next;
            }
            if wrong.is_none() {
                allow(*token);
            }
        }
    }
}

/// How far an object of JSON has come, byte by byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reader {
    at: At,
    /// Of each open bracket, the innermost first, whether it is that of an object.
    objects: u64,
    depth: u8,
    blanks: u8,
}

/// What was just read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Begin,
    ObjectBegin,
    ArrayBegin,
    /// A comma in an object.
    NameBegin,
    Name,
    /// A colon, or a comma in an array.
    ValueBegin,
    Text {
        is_name: bool,
        at: InText,
    },
    Number {
        at: InNumber,
        digits: u8,
    },
    /// A part of `true`, `false` or `null`; this is the rest.
    Word(&'static [u8]),
    Value,
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InText {
    Letter,
    /// A part of a letter of several bytes: how many are missing, and the first and the last byte that can come next.
    Part {
        missing: u8,
        from: u8,
        to: u8,
    },
    Backslash,
    /// A part of `\u0000`: its digits so far, and whether it is the second half of a letter.
    Hex {
        read: u8,
        value: u16,
        is_second: bool,
    },
    /// The first half of a letter that is written as two.
    FirstHalf,
    FirstHalfBackslash,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InNumber {
    Minus,
    Zero,
    Whole,
    Point,
    Fraction,
    Exponent,
    Sign,
    ExponentDigits,
}

impl Reader {
    fn new() -> Self {
        Self {
            at: At::Begin,
            objects: 0,
            depth: 0,
            blanks: 0,
        }
    }

    /// What it is after another byte, or nothing where that byte can't come.
    fn read(self, byte: u8) -> Option<Self> {
        let is_blank = matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        match self.at {
            At::Text { is_name, at } => return self.in_text(is_name, at, byte),
            At::Number { at, digits } => match number(at, digits, byte) {
                Some(at) => return Some(Self { at, ..self }),
                None if !at.can_end() => return None,
                // It ended before this byte.
                None => {
                    return Self {
                        at: At::Value,
                        ..self
                    }
                    .read(byte);
                }
            },
            At::Word(rest) => {
                let (next, rest) = rest.split_first()?;
                let at = match rest {
                    [] => At::Value,
                    rest => At::Word(rest),
                };
                return (byte == *next).then_some(Self { at, ..self });
            }
            _ if is_blank => {
                let blanks = self.blanks + 1;
                return (blanks <= MAX_BLANKS).then_some(Self { blanks, ..self });
            }
            _ => {}
        }
        let now = Self { blanks: 0, ..self };
        let is_in_object = self.objects & 1 == 1;
        match (self.at, byte) {
            (At::Begin, b'{') => now.value(byte),
            (At::ObjectBegin | At::NameBegin, b'"') => Some(now.text(true)),
            (At::ObjectBegin, b'}') | (At::ArrayBegin, b']') => Some(now.close()),
            (At::Name, b':') => Some(now.to(At::ValueBegin)),
            (At::ValueBegin | At::ArrayBegin, _) => now.value(byte),
            (At::Value, b',') if is_in_object => Some(now.to(At::NameBegin)),
            (At::Value, b',') => Some(now.to(At::ValueBegin)),
            (At::Value, b'}') if is_in_object => Some(now.close()),
            (At::Value, b']') if !is_in_object => Some(now.close()),
            _ => None,
        }
    }

    fn to(self, at: At) -> Self {
        Self { at, ..self }
    }

    fn text(self, is_name: bool) -> Self {
        let at = InText::Letter;
        self.to(At::Text { is_name, at })
    }

    /// The beginning of a value.
    fn value(self, byte: u8) -> Option<Self> {
        let number = |at, digits| Some(self.to(At::Number { at, digits }));
        match byte {
            b'{' => self.open(true),
            b'[' => self.open(false),
            b'"' => Some(self.text(false)),
            b'-' => number(InNumber::Minus, 0),
            b'0' => number(InNumber::Zero, 1),
            b'1'..=b'9' => number(InNumber::Whole, 1),
            b't' => Some(self.to(At::Word(b"rue"))),
            b'f' => Some(self.to(At::Word(b"alse"))),
            b'n' => Some(self.to(At::Word(b"ull"))),
            _ => None,
        }
    }

    fn open(self, is_object: bool) -> Option<Self> {
        let at = match is_object {
            true => At::ObjectBegin,
            false => At::ArrayBegin,
        };
        (self.depth < MAX_DEPTH).then_some(Self {
            at,
            objects: self.objects << 1 | u64::from(is_object),
            depth: self.depth + 1,
            ..self
        })
    }

    fn close(self) -> Self {
        let depth = self.depth.saturating_sub(1);
        let at = match depth {
            0 => At::End,
            _ => At::Value,
        };
        Self {
            at,
            objects: self.objects >> 1,
            depth,
            ..self
        }
    }

    fn in_text(self, is_name: bool, at: InText, byte: u8) -> Option<Self> {
        let stay = |at| Some(self.to(At::Text { is_name, at }));
        let part = |missing, from, to| stay(InText::Part { missing, from, to });
        match (at, byte) {
            (InText::Letter, b'"') if is_name => Some(self.to(At::Name)),
            (InText::Letter, b'"') => Some(self.to(At::Value)),
            (InText::Letter, b'\\') => stay(InText::Backslash),
            (InText::Letter, 0x20..=0x7F) => stay(InText::Letter),
            // The bytes that begin a letter, with those that can follow: table 3-7 of the Unicode Standard.
            (InText::Letter, 0xC2..=0xDF) => part(1, 0x80, 0xBF),
            (InText::Letter, 0xE0) => part(2, 0xA0, 0xBF),
            (InText::Letter, 0xED) => part(2, 0x80, 0x9F),
            (InText::Letter, 0xE1..=0xEF) => part(2, 0x80, 0xBF),
            (InText::Letter, 0xF0) => part(3, 0x90, 0xBF),
            (InText::Letter, 0xF1..=0xF3) => part(3, 0x80, 0xBF),
            (InText::Letter, 0xF4) => part(3, 0x80, 0x8F),
            (InText::Part { missing, from, to }, _) if (from..=to).contains(&byte) => match missing
            {
                1 => stay(InText::Letter),
                _ => part(missing - 1, 0x80, 0xBF),
            },
            (InText::Backslash, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                stay(InText::Letter)
            }
            (InText::Backslash, b'u') => stay(hex(false)),
            (InText::FirstHalf, b'\\') => stay(InText::FirstHalfBackslash),
            (InText::FirstHalfBackslash, b'u') => stay(hex(true)),
            (
                InText::Hex {
                    read,
                    value,
                    is_second,
                },
                _,
            ) => {
                let digit = char::from(byte).to_digit(16)? as u16;
                let (read, value) = (read + 1, value << 4 | digit);
                if read < 4 {
                    // Of what has to be a second half, the first two digits say already whether it is.
                    let is_right = !is_second || read != 2 || (0xDC..=0xDF).contains(&value);
                    let is_right = is_right && (!is_second || read != 1 || value == 0xD);
                    let at = InText::Hex {
                        read,
                        value,
                        is_second,
                    };
                    return stay(at).filter(|_| is_right);
                }
                match value {
                    0xDC00..=0xDFFF if !is_second => None,
                    0xD800..=0xDBFF => stay(InText::FirstHalf),
                    _ => stay(InText::Letter),
                }
            }
            _ => None,
        }
    }
}

/// The beginning of four digits.
fn hex(is_second: bool) -> InText {
    InText::Hex {
        read: 0,
        value: 0,
        is_second,
    }
}

/// A number after another byte, or nothing where that byte does not belong to it.
fn number(at: InNumber, digits: u8, byte: u8) -> Option<At> {
    use InNumber::{Exponent, ExponentDigits, Fraction, Minus, Point, Sign, Whole, Zero};
    let to = |at, digits| Some(At::Number { at, digits });
    let has_room = digits < MAX_DIGITS;
    match (at, byte) {
        (Minus, b'0') => to(Zero, 1),
        (Minus, b'1'..=b'9') => to(Whole, 1),
        (Whole, b'0'..=b'9') if has_room => to(Whole, digits + 1),
        // A point needs a digit after it.
        (Zero | Whole, b'.') if has_room => to(Point, digits),
        (Point | Fraction, b'0'..=b'9') if has_room => to(Fraction, digits + 1),
        (Zero | Whole | Fraction, b'e' | b'E') => to(Exponent, 0),
        (Exponent, b'+' | b'-') => to(Sign, 0),
        (Exponent | Sign | ExponentDigits, b'0'..=b'9') if digits < MAX_EXPONENT_DIGITS => {
            to(ExponentDigits, digits + 1)
        }
        _ => None,
    }
}

impl InNumber {
    fn can_end(self) -> bool {
        matches!(
            self,
            Self::Zero | Self::Whole | Self::Fraction | Self::ExponentDigits
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value};

    use super::*;
    use crate::random::Random;

    /// Whether a text is an object and nothing after it, as the reader has it.
    fn is_object(text: &[u8]) -> bool {
        let read = text
            .iter()
            .try_fold(Reader::new(), |it, byte| it.read(*byte));
        read.is_some_and(|it| it.at == At::End)
    }

    fn parses(text: &[u8]) -> bool {
        serde_json::from_slice::<Map<String, Value>>(text).is_ok()
    }

    /// Whether a number is longer than a model may write it.
    fn has_long_exponent(text: &[u8]) -> bool {
        let parts = text.split(|byte| matches!(byte, b'e' | b'E')).skip(1);
        let digits = |part: &[u8]| {
            let part = part
                .strip_prefix(b"+")
                .or(part.strip_prefix(b"-"))
                .unwrap_or(part);
            part.iter().take_while(|byte| byte.is_ascii_digit()).count()
        };
        parts
            .map(digits)
            .any(|digits| digits > MAX_EXPONENT_DIGITS.into())
    }

    const TEXTS: [&str; 9] = [
        r#"{}"#,
        r#" { "a" : [ ] , "b" : { } } "#,
        r#"{"a":[1,-2.50,0,-0.0,3e5,4E-05,6e+12,[{"b":null}]],"c":true,"d":false}"#,
        "{\n  \"größe\": \"ein \\\"Wort\\\" \\\\ \\/ \\b\\f\\n\\r\\t\",\n  \"🙂\": \"é漢🙂\"\n}",
        r#"{"a":"\u00e9\uD83D\uDE42\ud83d\ude42 \u0000"}"#,
        r#"{"\u007a":"","":[[[[]]]]}"#,
        r#"{"a":{"b":{"c":[{"d":[0.125,"x",{}]}]}}}"#,
        r#"{"a":1 , "a":2}"#,
        r#"{"a":[true,false,null]}"#,
    ];

    #[test]
    fn what_is_read_is_what_another_reader_parses() {
        let mut random = Random::new(1);
        let signs = b"{}[]\":,\\/u0123456789abdDeEfFtrnlsx.+- \n\t\x80\x9f\xa0\xbf\xc3\xe0\xed\xf0\xf4\x7f\x1f\x00";
        let (mut objects, mut others) = (0, 0);
        for text in TEXTS {
            assert!(
                is_object(text.as_bytes()) && parses(text.as_bytes()),
                "{text}"
            );
            for _ in 0..3_000 {
                let mut changed = text.as_bytes().to_vec();
                for _ in 0..=random.below(2) {
                    let at = random.below(changed.len());
                    let sign = *random.choose(signs);
                    match random.below(3) {
                        0 => changed[at] = sign,
                        1 => changed.insert(at, sign),
                        _ if changed.len() > 1 => drop(changed.remove(at)),
                        _ => {}
                    }
                }
                let expected = parses(&changed);
                let found = is_object(&changed);
                assert!(
                    found == expected || (expected && has_long_exponent(&changed)),
                    "{found}: {}",
                    String::from_utf8_lossy(&changed)
                );
                match expected {
                    true => objects += 1,
                    false => others += 1,
                }
            }
        }
        assert!(objects > 1_000 && others > 10_000, "{objects} {others}");
    }

    #[test]
    fn whatever_a_model_says_an_answer_that_ends_is_an_object() {
        let tokenizer =
            Tokenizer::train(["{\"a\": [1, 2], \"b\": null} "; 9].into_iter(), 290).unwrap();
        let mut random = Random::new(3);
        let mut objects = 0;
        for _ in 0..60 {
            let mut text = JsonTokens::default().text(&tokenizer, &[]);
            let mut written = Vec::new();
            for _ in 0..1_000 {
                let likely = |token| match tokenizer.token_bytes(token)[..] {
                    // Or a text hardly ever ends.
                    [b'"' | b'}' | b']'] => 4.0,
                    _ => 0.0,
                };
                let scores = (0..300).map(|token| random.normal() as f32 + likely(token));
                let mut scores: Vec<f32> = scores.collect();
                text.forbid(&mut scores);
                let best = scores.iter().zip(0..).max_by(|a, b| a.0.total_cmp(b.0));
                let (score, token) = best.unwrap();
                assert!(score.is_finite(), "nothing can come next");
                text.push(&tokenizer, token);
                written.push(token);
                if text.is_over() {
                    break;
                }
            }
            let text_of = tokenizer.decode(&written, false).unwrap();
            match text.is_over() {
                true => assert!(parses(text_of.as_bytes()), "{text_of}"),
                false => continue,
            }
            objects += 1;
        }
        assert!(objects > 30, "{objects}");
    }

    #[test]
    fn what_would_never_end_has_to() {
        let cases = [
            (format!("{{{}", " ".repeat(MAX_BLANKS.into())), " "),
            (format!("{{\"a\":{}", "1".repeat(MAX_DIGITS.into())), "1"),
            (
                format!("{{\"a\":0.{}", "3".repeat(MAX_DIGITS as usize - 1)),
                "3",
            ),
            ("{\"a\":1e99".to_owned(), "9"),
            (
                format!("{{\"a\":{}", "[".repeat(MAX_DEPTH as usize - 1)),
                "[",
            ),
        ];
        for (text, more) in cases {
            let read = text
                .bytes()
                .try_fold(Reader::new(), |it, byte| it.read(byte));
            let read = read.unwrap_or_else(|| panic!("{text}"));
            assert_eq!(read.read(more.as_bytes()[0]), None, "{text}");
        }
    }

    #[test]
    fn words_that_begin_alike_are_each_judged() {
        let words = [
            "{",
            "{\"",
            "{\"a",
            "{\"a\":",
            "{\"a\":1}",
            "{a",
            "{a\"",
            "}",
            " {",
            " x",
            "{}",
            "{}{",
        ];
        let words = Words::new(
            words
                .iter()
                .zip(0..)
                .map(|(word, at)| (word.as_bytes().to_vec(), at)),
        );
        let mut allowed = Vec::new();
        words.follow(Reader::new(), |token| allowed.push(token));
        allowed.sort_unstable();
        assert_eq!(allowed, [0, 1, 2, 3, 4, 8, 10]);
    }
}
