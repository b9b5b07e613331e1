//! What a client asks, read from OpenAI's JSON. A field that can't be meant is refused by its name; an unknown one is ignored, as
//! clients of newer versions send some.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
    ops::RangeInclusive,
};

use models::{
    data::row::{Message, Role},
    generate::sample::{Biases, SamplingSettings},
    limits::Limit,
};
use serde_json::{Map, Value};

use super::{limits, refusal::Refusal};
use crate::wire::completion::{Beginning, Completion};

type Result<T> = std::result::Result<T, Refusal>;

/// The most tokens of a text that is continued, where the request names none. It is OpenAI's.
const TEXT_TOKENS: usize = 16;

/// A request to write something.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Asked {
    /// Which model is meant, if one is.
    pub(super) model: Option<String>,
    /// What is to be completed: one, or for texts several.
    pub(super) completions: Vec<Completion>,
    /// Whether the answer is sent while it is written.
    pub(super) streams: bool,
    /// Whether a stream ends with what it took.
    pub(super) tells_usage: bool,
}

/// Anything, which nobody can foresee.
pub(super) fn drawn() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Reads a request to `/v1/chat/completions`.
pub(super) fn chat(body: &[u8]) -> Result<Asked> {
    let body = object(body)?;
    let fields = Fields(&body);
    for name in ["tools", "functions"] {
        if fields.list(name)?.is_some_and(|list| !list.is_empty()) {
            let why = "models here are not told of tools, so none would be called";
            return Err(Refusal::unsupported(name, why));
        }
    }
    let format = fields.get("response_format").map(|it| it["type"].as_str());
    let is_json = match format {
        None | Some(Some("text")) => false,
        Some(Some("json_object")) => true,
        _ => {
            let why = "its type is `text` or `json_object` here; no schema is kept to, so describe in the messages what is wanted";
            return Err(Refusal::unsupported("response_format", why));
        }
    };
    let modalities = fields.list("modalities")?.unwrap_or_default();
    if modalities.iter().any(|kind| kind != "text") {
        return Err(Refusal::unsupported(
            "modalities",
            "models here write text only",
        ));
    }
    let most = match fields.count("max_completion_tokens", 1..=u64::MAX)? {
        None => fields.count("max_tokens", 1..=u64::MAX)?,
        most => most,
    };
    let likeliest = fields.count("top_logprobs", 0..=limits::LIKELIEST)?;
    let likeliest = match fields.flag("logprobs")? {
        true => Some(likeliest.unwrap_or(0) as usize),
        false if likeliest.is_some_and(|most| most > 0) => {
            let why = "`top_logprobs` needs `logprobs` to be true";
            return Err(Refusal::field("top_logprobs", why));
        }
        false => None,
    };
    let completion = Completion {
        max_tokens: most.map(|most| most as usize),
        likeliest,
        is_json,
        ..completion(fields, Beginning::Messages(messages(fields)?))?
    };
    asked(fields, vec![completion])
}

/// Reads a request to `/v1/completions`.
pub(super) fn text(body: &[u8]) -> Result<Asked> {
    let body = object(body)?;
    let fields = Fields(&body);
    if fields.get("suffix").is_some_and(|it| it != "") {
        return Err(Refusal::unsupported(
            "suffix",
            "models here write from left to right",
        ));
    }
    fields.only_one("best_of")?;
    let most = fields.count("max_tokens", 0..=u64::MAX)?;
    let likeliest = fields.count("logprobs", 0..=limits::LIKELIEST)?;
    let echo = fields.flag("echo")?;
    if echo && likeliest.is_some() {
        let why = "probabilities are told of tokens that are written, not of the prompt’s; leave out one of the two";
        return Err(Refusal::unsupported("echo", why));
    }
    let completions = texts(fields, "prompt", limits::PROMPTS)?
        .into_iter()
        .map(|beginning| {
            Ok(Completion {
                max_tokens: Some(most.map_or(TEXT_TOKENS, |most| most as usize)),
                likeliest: likeliest.map(|most| most as usize),
                echo,
                ..completion(fields, beginning)?
            })
        });
    let asked = asked(fields, completions.collect::<Result<_>>()?)?;
    match asked.streams && asked.completions.len() > 1 {
        true => Err(Refusal::unsupported(
            "stream",
            "of several prompts; send one",
        )),
        false => Ok(asked),
    }
}

/// A request to make vectors of texts.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct AskedVectors {
    /// Which model is meant, if one is.
    pub(super) model: Option<String>,
    pub(super) texts: Vec<Beginning>,
    /// How many numbers they have to have, if that is asked.
    pub(super) dimensions: Option<u64>,
    /// Whether their bytes are wanted as text, which is shorter, and not their numbers.
    pub(super) as_base64: bool,
}

/// Reads a request to `/v1/embeddings`.
pub(super) fn vectors(body: &[u8]) -> Result<AskedVectors> {
    let body = object(body)?;
    let fields = Fields(&body);
    let as_base64 = match fields.text("encoding_format")?.as_deref() {
        None | Some("float") => false,
        Some("base64") => true,
        Some(_) => {
            let why = "`encoding_format` has to be `float` or `base64`";
            return Err(Refusal::field("encoding_format", why));
        }
    };
    Ok(AskedVectors {
        model: fields.text("model")?,
        texts: texts(fields, "input", limits::TEXTS)?,
        dimensions: fields.count("dimensions", 1..=u64::MAX)?,
        as_base64,
    })
}

fn asked(fields: Fields, completions: Vec<Completion>) -> Result<Asked> {
    fields.only_one("n")?;
    let options = fields.get("stream_options").and_then(Value::as_object);
    let tells_usage = options.map(|options| Fields(options).flag("include_usage"));
    Ok(Asked {
        model: fields.text("model")?,
        completions,
        streams: fields.flag("stream")?,
        tells_usage: tells_usage.transpose()?.unwrap_or(false),
    })
}

/// What all kinds have in common.
fn completion(fields: Fields, beginning: Beginning) -> Result<Completion> {
    let usual = SamplingSettings::default();
    let number = |name, range, usual| Ok(fields.number(name, range)?.unwrap_or(usual));
    let seed = fields.integer("seed")?;
    let penalty = match fields.number("repeat_penalty", 0.01..=100.0)? {
        None => fields.number("repetition_penalty", 0.01..=100.0)?,
        penalty => penalty,
    };
    // Some clients say -1 for all.
    let top_k = fields.integer("top_k")?.unwrap_or(usual.top_k as i64);
    Ok(Completion {
        beginning,
        sampling: SamplingSettings {
            temperature: number("temperature", 0.0..=2.0, usual.temperature)?,
            top_k: usize::try_from(top_k).unwrap_or(0),
            top_p: number("top_p", 0.0..=1.0, usual.top_p)?,
            min_p: number("min_p", 0.0..=1.0, usual.min_p)?,
            repetition_penalty: penalty.unwrap_or(usual.repetition_penalty),
            seed: seed.map_or_else(drawn, |seed| seed as u64),
        },
        biases: Biases {
            presence_penalty: number("presence_penalty", -2.0..=2.0, 0.0)?,
            frequency_penalty: number("frequency_penalty", -2.0..=2.0, 0.0)?,
            tokens: biases(fields)?,
        },
        max_tokens: None,
        stop: stops(fields)?,
        is_json: false,
        likeliest: None,
        anew: seed.is_some(),
        echo: false,
    })
}

fn object(body: &[u8]) -> Result<Map<String, Value>> {
    let status = axum::http::StatusCode::BAD_REQUEST;
    let read = serde_json::from_slice(body);
    let value =
        read.map_err(|error| Refusal::new(status, format!("the body is not JSON: {error}")))?;
    match value {
        Value::Object(fields) => Ok(fields),
        _ => Err(Refusal::new(status, "the body is JSON, but no object")),
    }
}

fn messages(fields: Fields) -> Result<Vec<Message>> {
    let list = fields.list("messages")?.unwrap_or_default();
    if list.is_empty() {
        let why = "`messages` has to be a list with a message at least";
        return Err(Refusal::field("messages", why));
    }
    list.iter()
        .enumerate()
        .map(|(at, it)| message(at, it))
        .collect()
}

fn message(at: usize, value: &Value) -> Result<Message> {
    let role = match value["role"].as_str() {
        Some("system" | "developer") => Role::System,
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("tool") => Role::Tool,
        _ => {
            let why = format!(
                "the role of message {at} has to be `system`, `developer`, `user`, `assistant` or `tool`"
            );
            return Err(Refusal::field(format!("messages[{at}].role"), why));
        }
    };
    let field = format!("messages[{at}].content");
    let content = match &value["content"] {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        Value::Array(parts) => {
            let texts = parts.iter().map(|part| match part["type"].as_str() {
                Some("text") => part["text"].as_str(),
                _ => None,
            });
            texts.collect::<Option<String>>().ok_or_else(|| {
                let why = format!(
                    "message {at} has a part that is no text, and models here read text only"
                );
                Refusal::field(&field, why)
            })?
        }
        _ => {
            let why = format!("the content of message {at} has to be a text or a list of parts");
            return Err(Refusal::field(field, why));
        }
    };
    Ok(Message::new(role, content))
}

/// The texts in a field: one, several, or one or several as tokens.
fn texts(fields: Fields, name: &str, most: Limit) -> Result<Vec<Beginning>> {
    let wrong = || {
        let why = format!(
            "`{name}` has to be a text, a list of texts, a list of tokens, or a list of such lists"
        );
        Refusal::field(name, why)
    };
    let tokens = |list: &[Value]| {
        let ids = list.iter().map(|id| u32::try_from(id.as_u64()?).ok());
        ids.collect::<Option<_>>().map(Beginning::Tokens)
    };
    let one = |value: &Value| match value {
        Value::String(text) => Some(Beginning::Text(text.clone())),
        Value::Array(list) => tokens(list),
        _ => None,
    };
    let texts: Option<Vec<Beginning>> = match fields.get(name) {
        Some(Value::Array(list)) if list.iter().all(Value::is_number) => {
            tokens(list).map(|one| vec![one])
        }
        Some(Value::Array(list)) => {
            at_most(name, list.len(), most)?;
            list.iter().map(one).collect()
        }
        Some(value) => one(value).map(|one| vec![one]),
        None => None,
    };
    texts.ok_or_else(wrong)
}

fn stops(fields: Fields) -> Result<Vec<String>> {
    let texts: Option<Vec<String>> = match fields.get("stop") {
        None => Some(Vec::new()),
        Some(Value::String(text)) => Some(vec![text.clone()]),
        Some(Value::Array(list)) => list
            .iter()
            .map(|it| it.as_str().map(str::to_owned))
            .collect(),
        Some(_) => None,
    };
    let wrong = || Refusal::field("stop", "`stop` has to be a text or a list of texts");
    let texts = texts.ok_or_else(wrong)?;
    at_most("stop", texts.len(), limits::STOPS)?;
    let longest = texts.iter().map(String::len).max();
    at_most("stop", longest.unwrap_or(0), limits::STOP)?;
    Ok(texts)
}

fn biases(fields: Fields) -> Result<Vec<(u32, f64)>> {
    let wrong = || {
        let why = "`logit_bias` has to map tokens, by their numbers, to numbers from -100 to 100";
        Refusal::field("logit_bias", why)
    };
    let Some(value) = fields.get("logit_bias") else {
        return Ok(Vec::new());
    };
    let map = value.as_object().ok_or_else(wrong)?;
    at_most("logit_bias", map.len(), limits::BIASES)?;
    let biases = map.iter().map(|(token, bias)| {
        let bias = bias
            .as_f64()
            .filter(|bias| (-100.0..=100.0).contains(bias))?;
        Some((token.parse().ok()?, bias))
    });
    biases.collect::<Option<_>>().ok_or_else(wrong)
}

fn at_most(name: &str, found: usize, limit: Limit) -> Result<()> {
    match limit.exceeded(found as u64) {
        Some(problem) => Err(Refusal::field(
            name,
            format!("the size of `{name}` {problem}"),
        )),
        None => Ok(()),
    }
}

/// The fields of a request. One that is null is not there.
#[derive(Clone, Copy)]
struct Fields<'a>(&'a Map<String, Value>);

impl<'a> Fields<'a> {
    fn get(self, name: &str) -> Option<&'a Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    fn read<T>(
        self,
        name: &str,
        what: impl FnOnce() -> String,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        let wrong = || Refusal::field(name, format!("`{name}` has to be {}", what()));
        read(value).map(Some).ok_or_else(wrong)
    }

    fn number(self, name: &str, range: RangeInclusive<f64>) -> Result<Option<f64>> {
        let what = || format!("a number from {} to {}", range.start(), range.end());
        self.read(name, what, |it| it.as_f64().filter(|it| range.contains(it)))
    }

    fn count(self, name: &str, range: RangeInclusive<u64>) -> Result<Option<u64>> {
        let (least, most) = (*range.start(), *range.end());
        let what = || match most {
            u64::MAX => format!("a whole number, {least} or more"),
            _ => format!("a whole number from {least} to {most}"),
        };
        self.read(name, what, |it| it.as_u64().filter(|it| range.contains(it)))
    }

    fn integer(self, name: &str) -> Result<Option<i64>> {
        self.read(name, || "a whole number".to_owned(), Value::as_i64)
    }

    fn flag(self, name: &str) -> Result<bool> {
        let flag = self.read(name, || "true or false".to_owned(), Value::as_bool)?;
        Ok(flag.unwrap_or(false))
    }

    fn text(self, name: &str) -> Result<Option<String>> {
        let read = |it: &Value| it.as_str().map(str::to_owned);
        self.read(name, || "a text".to_owned(), read)
    }

    fn list(self, name: &str) -> Result<Option<&'a [Value]>> {
        let read = |it: &'a Value| it.as_array().map(Vec::as_slice);
        self.read(name, || "a list".to_owned(), read)
    }

    /// Refuses more than one answer.
    fn only_one(self, name: &str) -> Result<()> {
        match self.count(name, 1..=u64::MAX)? {
            Some(2..) => Err(Refusal::unsupported(
                name,
                "a request has one answer; send it again for another",
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGES: &str = r#""messages": [{"role": "user", "content": "Hi"}]"#;

    /// What is asked with more fields beside a message.
    fn asked(more: &str) -> Result<Asked> {
        chat(format!("{{{MESSAGES}{more}}}").as_bytes())
    }

    #[track_caller]
    fn refused(more: &str, expected: &str) {
        let refusal = asked(more).unwrap_err();
        assert_eq!(refusal.message(), expected);
        assert_eq!(refusal.status.as_u16(), 400);
    }

    #[test]
    fn a_request_with_messages_alone_is_answered_as_in_the_app() {
        let asked = asked("").unwrap();
        assert!(!asked.streams && !asked.tells_usage && asked.model.is_none());
        let completion = &asked.completions[0];
        let usual = SamplingSettings::default();
        assert_eq!(completion.sampling.temperature, usual.temperature);
        assert_eq!(completion.sampling.top_p, usual.top_p);
        assert_eq!(completion.biases, Biases::default());
        assert_eq!((completion.max_tokens, completion.likeliest), (None, None));
        // Without a seed, each answer is another.
        assert!(!completion.anew);
        assert!(drawn() != drawn());
    }

    #[test]
    fn fields_mean_what_they_mean_elsewhere_and_null_is_nothing() {
        let more = r#", "temperature": null, "max_tokens": 9, "max_completion_tokens": 5, "seed": -1, "stop": "a", "top_k": -1,
            "logit_bias": {"7": -100}, "logprobs": true, "unknown": {"a": 1}"#;
        let completion = asked(more).unwrap().completions.remove(0);
        assert_eq!(completion.max_tokens, Some(5));
        assert_eq!(completion.sampling.seed, u64::MAX);
        assert_eq!(completion.sampling.top_k, 0);
        assert_eq!(completion.stop, ["a"]);
        assert_eq!(completion.biases.tokens, [(7, -100.0)]);
        assert_eq!(completion.likeliest, Some(0));
        assert!(completion.anew);
    }

    #[test]
    fn what_is_out_of_range_is_refused_with_the_range() {
        refused(
            r#", "temperature": 2.5"#,
            "`temperature` has to be a number from 0 to 2",
        );
        refused(
            r#", "max_tokens": 0"#,
            "`max_tokens` has to be a whole number, 1 or more",
        );
        refused(
            r#", "stop": ["a", "b", "c", "d", "e"]"#,
            "the size of `stop` is 5, and 4 texts are the most",
        );
        refused(
            r#", "n": 2"#,
            "`n` is not supported: a request has one answer; send it again for another",
        );
    }

    #[test]
    fn prompts_are_texts_or_tokens_or_lists_of_either() {
        let read = |prompt: &str| {
            let asked = text(format!("{{\"prompt\": {prompt}}}").as_bytes());
            let completions = asked.ok()?.completions.into_iter();
            Some(completions.map(|it| it.beginning).collect::<Vec<_>>())
        };
        let of = |text: &str| Beginning::Text(text.to_owned());
        assert_eq!(read(r#""a""#).unwrap(), [of("a")]);
        assert_eq!(read(r#"["a", "b"]"#).unwrap(), [of("a"), of("b")]);
        let tokens = Beginning::Tokens(vec![1, 2]);
        assert_eq!(read("[1, 2]").unwrap(), vec![tokens.clone()]);
        assert_eq!(read(r#"[[1, 2], "a"]"#).unwrap(), [tokens, of("a")]);
        for wrong in ["null", "7", "{}", "[true]", "[-1]", "[1.5]", "[4294967296]"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
