//! What a client is told, as OpenAI's JSON.

use std::collections::VecDeque;

use base64::{Engine, engine::general_purpose::STANDARD};
use models::generate::{
    Ended,
    chances::{Chance, Chances},
};
use serde_json::{Map, Value, json};

use super::asked::drawn;
use crate::wire::completion::{Drafted, Usage};

/// Which of the two interfaces is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// `/v1/chat/completions`.
    Chat,
    /// `/v1/completions`.
    Text,
}

/// What all parts of an answer say of it.
#[derive(Debug, Clone)]
pub(super) struct Head {
    pub(super) kind: Kind,
    id: String,
    created: i64,
    model: String,
    tells_usage: bool,
}

/// Text with the probabilities of its tokens.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Part {
    pub(super) text: String,
    pub(super) chances: Vec<Chances>,
}

/// What was heard of an answer, so that tokens go out with their text: some of it may be held back.
#[derive(Debug, Default)]
pub(super) struct Draft {
    /// Tokens whose text is not out, each with the bytes before it.
    held: VecDeque<(usize, Chances)>,
    heard_bytes: usize,
    told_bytes: usize,
}

impl Draft {
    /// What can go out now.
    pub(super) fn take(&mut self, drafted: Drafted) -> Part {
        if let Some(chances) = drafted.chances {
            let bytes = chances.written.bytes.len();
            self.held.push_back((self.heard_bytes, chances));
            self.heard_bytes += bytes;
        }
        self.told_bytes += drafted.piece.len();
        let told = self.told_bytes;
        let ready = self.held.iter().take_while(|(before, _)| *before < told);
        let ready = ready.count();
        Part {
            text: drafted.piece,
            chances: self.held.drain(..ready).map(|(_, it)| it).collect(),
        }
    }

    /// The tokens that are left at the end: none of them has text, unless a stop text is what they spell.
    pub(super) fn rest(&mut self, ended: Ended) -> Vec<Chances> {
        let rest = self.held.drain(..).map(|(_, it)| it);
        match ended {
            Ended::StopText => Vec::new(),
            _ => rest.collect(),
        }
    }
}

/// Why an answer ended, in OpenAI's words.
pub(super) fn finish_reason(ended: Ended) -> &'static str {
    match ended {
        Ended::StopToken | Ended::StopText | Ended::Asked => "stop",
        Ended::MaxTokens | Ended::Context => "length",
    }
}

/// What several completions took together.
pub(super) fn usage(all: &[Usage]) -> Value {
    let sum = |of: fn(&Usage) -> usize| all.iter().map(of).sum::<usize>();
    let (prompt, written) = (sum(|it| it.prompt_tokens), sum(|it| it.completion_tokens));
    let cached = sum(|it| it.cached_tokens);
    json!({
        "prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written,
        "prompt_tokens_details": {"cached_tokens": cached},
    })
}

/// Vectors of texts, in their order.
pub(super) fn vectors(vectors: &[Vec<f32>], tokens: usize, model: &str, as_base64: bool) -> Value {
    let data = vectors.iter().enumerate().map(|(index, numbers)| {
        let bytes = || numbers.iter().flat_map(|it| it.to_le_bytes());
        let numbers = match as_base64 {
            true => json!(STANDARD.encode(bytes().collect::<Vec<u8>>())),
            false => json!(numbers),
        };
        json!({"object": "embedding", "index": index, "embedding": numbers})
    });
    json!({
        "object": "list", "data": data.collect::<Vec<_>>(), "model": model,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        // Whoever compares them should know what they are.
        "pooling": "mean of the hidden states after the final norm, of length 1; the model was not trained for it",
    })
}

impl Head {
    pub(super) fn new(kind: Kind, model: &str, created: i64, tells_usage: bool) -> Self {
        let name = match kind {
            Kind::Chat => "chatcmpl",
            Kind::Text => "cmpl",
        };
        Self {
            kind,
            id: format!("{name}-{:016x}{:016x}", drawn(), drawn()),
            created,
            model: model.to_owned(),
            tells_usage,
        }
    }

    /// A whole answer of these parts, each with why it ended.
    pub(super) fn whole(&self, parts: &[(Part, Ended)], took: &[Usage], likeliest: bool) -> Value {
        let choices = parts.iter().enumerate().map(|(index, (part, ended))| {
            let logprobs = likeliest.then(|| self.logprobs(&part.chances, 0));
            let (text, reason) = (&part.text, finish_reason(*ended));
            match self.kind {
                Kind::Chat => json!({
                    "index": index, "message": {"role": "assistant", "content": text, "refusal": null},
                    "logprobs": logprobs, "finish_reason": reason,
                }),
                Kind::Text => json!({
                    "index": index, "text": text, "logprobs": logprobs, "finish_reason": reason,
                }),
            }
        });
        let choices: Vec<Value> = choices.collect();
        self.object("chat.completion", choices.into(), Some(usage(took)))
    }

    /// The first chunk of a stream, which says who speaks. Only a chat has one.
    pub(super) fn first(&self) -> Option<Value> {
        let delta = json!({"role": "assistant", "content": "", "refusal": null});
        let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": null});
        (self.kind == Kind::Chat).then(|| self.chunk(json!([choice])))
    }

    /// A chunk with text, which begins after so many bytes of the answer.
    pub(super) fn piece(&self, part: &Part, offset: usize) -> Value {
        let logprobs = &part.chances;
        let logprobs = (!logprobs.is_empty()).then(|| self.logprobs(logprobs, offset));
        let text = &part.text;
        self.chunk(json!([match self.kind {
            Kind::Chat => json!({
                "index": 0, "delta": {"content": text}, "logprobs": logprobs, "finish_reason": null,
            }),
            Kind::Text =>
                json!({"index": 0, "text": text, "logprobs": logprobs, "finish_reason": null}),
        }]))
    }

    /// The chunk that says why the answer ended.
    pub(super) fn last(&self, ended: Ended) -> Value {
        let reason = finish_reason(ended);
        self.chunk(json!([match self.kind {
            Kind::Chat =>
                json!({"index": 0, "delta": {}, "logprobs": null, "finish_reason": reason}),
            Kind::Text =>
                json!({"index": 0, "text": "", "logprobs": null, "finish_reason": reason}),
        }]))
    }

    /// The chunk with what it took, if that was asked for.
    pub(super) fn took(&self, took: Usage) -> Option<Value> {
        let object = || self.object("chat.completion.chunk", json!([]), Some(usage(&[took])));
        self.tells_usage.then(object)
    }

    fn chunk(&self, choices: Value) -> Value {
        let usage = self.tells_usage.then_some(Value::Null);
        self.object("chat.completion.chunk", choices, usage)
    }

    fn object(&self, chat: &str, choices: Value, usage: Option<Value>) -> Value {
        let object = match self.kind {
            Kind::Chat => chat,
            Kind::Text => "text_completion",
        };
        let (id, created, model) = (&self.id, self.created, &self.model);
        let mut value = json!({
            "id": id, "object": object, "created": created, "model": model, "choices": choices,
        });
        if let Some(usage) = usage {
            value["usage"] = usage;
        }
        value
    }

    fn logprobs(&self, chances: &[Chances], offset: usize) -> Value {
        match self.kind {
            Kind::Chat => {
                let content = chances.iter().map(|it| {
                    let mut told = chance(&it.written);
                    told["top_logprobs"] = it.likeliest.iter().map(chance).collect();
                    told
                });
                json!({"content": content.collect::<Vec<_>>(), "refusal": null})
            }
            Kind::Text => text_logprobs(chances, offset),
        }
    }
}

fn chance(it: &Chance) -> Value {
    json!({"token": text(it), "logprob": it.logprob, "bytes": it.bytes})
}

/// A token as text; where it is half a letter, with a sign in its place.
fn text(chance: &Chance) -> String {
    String::from_utf8_lossy(&chance.bytes).into_owned()
}

/// The form of the older interface: lists beside each other.
fn text_logprobs(chances: &[Chances], mut offset: usize) -> Value {
    let mut offsets = Vec::new();
    for it in chances {
        offsets.push(offset);
        offset += text(&it.written).chars().count();
    }
    let tops = chances.iter().map(|it| {
        let top = it.likeliest.iter().map(|it| (text(it), it.logprob.into()));
        top.collect::<Map<_, _>>()
    });
    json!({
        "tokens": chances.iter().map(|it| text(&it.written)).collect::<Vec<_>>(),
        "token_logprobs": chances.iter().map(|it| it.written.logprob).collect::<Vec<_>>(),
        "top_logprobs": tops.collect::<Vec<_>>(),
        "text_offset": offsets,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(text: &str) -> Option<Chances> {
        let written = Chance {
            token: 1,
            bytes: text.into(),
            logprob: -1.0,
        };
        Some(Chances {
            written,
            likeliest: Vec::new(),
        })
    }

    fn drafted(piece: &str, chances: Option<Chances>) -> Drafted {
        Drafted {
            piece: piece.to_owned(),
            is_token: chances.is_some(),
            chances,
        }
    }

    #[test]
    fn tokens_go_out_with_their_text_and_not_those_of_a_stop_text() {
        let mut draft = Draft::default();
        assert_eq!(draft.take(drafted("Hi", token("Hi"))).chances.len(), 1);
        // Held back: it may become a stop text.
        assert_eq!(draft.take(drafted("", token("\nU"))).chances.len(), 0);
        assert_eq!(draft.take(drafted("\nUn", token("n"))).chances.len(), 2);
        assert_eq!(draft.take(drafted("", token("END"))).chances.len(), 0);
        assert_eq!(draft.rest(Ended::StopText), []);

        draft.take(drafted("", token("END")));
        assert_eq!(draft.rest(Ended::MaxTokens).len(), 1);
    }

    #[test]
    fn an_answer_that_ran_into_a_limit_says_so() {
        assert_eq!(finish_reason(Ended::StopText), "stop");
        assert_eq!(finish_reason(Ended::Context), "length");
    }
}
