//! What can be asked, and how each is answered. Every address works with and without `/v1`, as clients differ.

use std::{convert::Infallible, sync::Arc};

use axum::{
    Extension, Json, Router,
    body::{Body, to_bytes},
    extract::{Path, Request, State},
    http::{HeaderMap, StatusCode, header::CONTENT_LENGTH},
    middleware::{self, Next},
    response::{
        IntoResponse, Response,
        sse::{self, KeepAlive, Sse},
    },
    routing::{MethodRouter, get, post},
};
use futures_util::{Stream, stream};
use models::figures::counted;
use serde_json::{Value, json};
use tokio::{sync::mpsc::Receiver, time::timeout};

use super::{
    Shared,
    asked::{self, Asked},
    journal::Visit,
    limits,
    queue::Event,
    refusal::{Note, Refusal},
    told::{self, Draft, Head, Kind, Part},
};
use crate::wire::completion::{Completed, Embedded, Requested, Usage};

type Here = State<Arc<Shared>>;

/// All of them, behind the door.
pub(super) fn router(shared: Arc<Shared>) -> Router {
    let routes: [(&str, MethodRouter<Arc<Shared>>); 5] = [
        ("/models", get(models)),
        ("/models/{id}", get(model)),
        ("/chat/completions", post(chat)),
        ("/completions", post(text)),
        ("/embeddings", post(vectors)),
    ];
    let mut router = Router::new()
        .route("/health", get(health))
        .route("/health/", get(health));
    for (path, route) in routes {
        for path in [path.to_owned(), format!("/v1{path}")] {
            router = router.route(&format!("{path}/"), route.clone());
            router = router.route(&path, route.clone());
        }
    }
    let enter = middleware::from_fn_with_state(shared.clone(), enter);
    router
        .fallback(unknown)
        .method_not_allowed_fallback(wrong_method)
        .layer(enter)
        .with_state(shared)
}

/// Checks every request at the door, and writes down what became of it.
async fn enter(State(shared): Here, mut request: Request, next: Next) -> Response {
    let path = request.uri().path();
    // The path is text of a stranger.
    let path: String = path.chars().take(100).collect();
    let words = format!("{} {path}", request.method());
    let visit = Visit::new(shared.journal.clone(), words, request.headers());
    let visit = Arc::new(visit);
    let (method, uri) = (request.method(), request.uri());
    let let_in = shared.door.check(method, uri, request.headers());
    let response = match let_in {
        Ok(()) => {
            request.extensions_mut().insert(visit.clone());
            next.run(request).await
        }
        Err(refusal) => refusal.into_response(),
    };
    let note = response.extensions().get::<Note>();
    visit.status(response.status().as_u16(), note.map(|it| it.0.clone()));
    response
}

async fn unknown(request: Request) -> Refusal {
    let path: String = request.uri().path().chars().take(100).collect();
    let why = format!(
        "there is nothing at `{path}`; there are /v1/models, /v1/chat/completions, /v1/completions, /v1/embeddings and /health"
    );
    Refusal::new(StatusCode::NOT_FOUND, why).with_code("unknown_url")
}

async fn wrong_method(request: Request) -> Refusal {
    let why = format!("this address does not take {}", request.method());
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, why)
}

async fn health() -> Json<Value> {
    Json(json!({"status": "ok"}))
}

async fn models(State(shared): Here) -> Json<Value> {
    Json(json!({"object": "list", "data": [shared.model_json()]}))
}

async fn model(State(shared): Here, Path(id): Path<String>) -> Result<Json<Value>, Refusal> {
    shared.check_model(Some(&id))?;
    Ok(Json(shared.model_json()))
}

async fn chat(
    State(shared): Here,
    Extension(visit): Extension<Arc<Visit>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let asked = asked::chat(&whole(&headers, body).await?)?;
    write(shared, visit, Kind::Chat, asked).await
}

async fn text(
    State(shared): Here,
    Extension(visit): Extension<Arc<Visit>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let asked = asked::text(&whole(&headers, body).await?)?;
    write(shared, visit, Kind::Text, asked).await
}

/// A whole body, unless it is too large or too slow.
async fn whole(headers: &HeaderMap, body: Body) -> Result<axum::body::Bytes, Refusal> {
    let most = limits::BODY.most;
    let too_large = || {
        let why = format!("a body has {most} bytes at most");
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, why)
    };
    let said = headers.get(CONTENT_LENGTH);
    let said = said.and_then(|it| it.to_str().ok()?.parse::<u64>().ok());
    if said.is_some_and(|length| length > most) {
        return Err(too_large());
    }
    let read = timeout(limits::BODY_TIME, to_bytes(body, most as usize)).await;
    let read = read.map_err(|_| {
        let seconds = limits::BODY_TIME.as_secs();
        let why = format!("the body did not come within {seconds} s");
        Refusal::new(StatusCode::REQUEST_TIMEOUT, why)
    })?;
    // A body that breaks off has nobody who reads this.
    read.map_err(|_| too_large())
}

async fn write(
    shared: Arc<Shared>,
    visit: Arc<Visit>,
    kind: Kind,
    asked: Asked,
) -> Result<Response, Refusal> {
    shared.check_model(asked.model.as_deref())?;
    let head = Head::new(kind, &shared.model, shared.created, asked.tells_usage);
    match asked.streams {
        true => stream_answer(shared, visit, head, asked).await,
        false => whole_answer(shared, visit, head, asked).await,
    }
}

async fn whole_answer(
    shared: Arc<Shared>,
    visit: Arc<Visit>,
    head: Head,
    asked: Asked,
) -> Result<Response, Refusal> {
    let (mut parts, mut took) = (Vec::new(), Vec::new());
    let mut likeliest = false;
    for completion in asked.completions {
        likeliest |= completion.likeliest.is_some();
        let wanted = Requested::Complete(completion.into());
        let mut events = shared.queue.submit(wanted)?;
        let (mut draft, mut whole) = (Draft::default(), Part::default());
        let usage = loop {
            match heard(&mut events, head.kind).await? {
                Heard::Part(drafted) => {
                    let part = draft.take(drafted);
                    whole.text += &part.text;
                    whole.chances.extend(part.chances);
                }
                Heard::Ended(usage) => break usage,
            }
        };
        whole.chances.extend(draft.rest(usage.ended));
        visit.took(usage);
        parts.push((whole, usage.ended));
        took.push(usage);
    }
    Ok(Json(head.whole(&parts, &took, likeliest)).into_response())
}

/// What was heard that goes on, or ended well.
enum Heard {
    Part(crate::wire::completion::Drafted),
    Ended(Usage),
}

/// Waits for the next event of an answer.
async fn heard(events: &mut Receiver<Event>, kind: Kind) -> Result<Heard, Refusal> {
    let field = match kind {
        Kind::Chat => "messages",
        Kind::Text => "prompt",
    };
    match events.recv().await {
        Some(Event::Drafted(drafted)) => Ok(Heard::Part(drafted)),
        Some(Event::Completed(Completed::Written(usage))) => Ok(Heard::Ended(usage)),
        Some(Event::Completed(Completed::TooLong { tokens, context })) => {
            // An answer needs room for a token.
            Err(too_long(field, tokens, context.saturating_sub(1)))
        }
        Some(Event::Completed(Completed::Unfit(why))) => Err(Refusal::field(field, why)),
        Some(Event::Failed(refusal)) => Err(refusal),
        Some(Event::Embedded(_)) | None => Err(given_up()),
    }
}

fn too_long(field: &str, tokens: usize, most: usize) -> Refusal {
    let why = format!(
        "the prompt has {tokens} tokens, and the model reads {most} at most; shorten `{field}`"
    );
    Refusal::field(field, why).with_code("context_length_exceeded")
}

fn given_up() -> Refusal {
    let why = "the answer was given up: the server is being stopped, or nothing of it was taken for too long";
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why).again_after(1)
}

async fn vectors(
    State(shared): Here,
    Extension(visit): Extension<Arc<Visit>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    const FIELD: &str = "input";
    let asked = asked::vectors(&whole(&headers, body).await?)?;
    shared.check_model(asked.model.as_deref())?;
    let (mut vectors, mut read) = (Vec::new(), 0);
    for text in asked.texts {
        let mut events = shared.queue.submit(Requested::Embed(text))?;
        let (numbers, tokens, seconds) = match events.recv().await {
            Some(Event::Embedded(Embedded::Vector {
                numbers,
                tokens,
                seconds,
            })) => (numbers, tokens, seconds),
            Some(Event::Embedded(Embedded::TooLong { tokens, context })) => {
                return Err(too_long(FIELD, tokens, context));
            }
            Some(Event::Embedded(Embedded::Unfit(why))) => return Err(Refusal::field(FIELD, why)),
            Some(Event::Failed(refusal)) => return Err(refusal),
            _ => return Err(given_up()),
        };
        let width = numbers.len() as u64;
        if asked.dimensions.is_some_and(|wanted| wanted != width) {
            let why = format!("the vectors of this model have {width} numbers, and are not cut");
            return Err(Refusal::unsupported("dimensions", &why));
        }
        visit.took(Usage::of_reading(tokens, seconds));
        read += tokens;
        vectors.push(numbers);
    }
    let told = told::vectors(&vectors, read, &shared.model, asked.as_base64);
    Ok(Json(told).into_response())
}

/// An answer that is being sent.
struct Sending {
    head: Head,
    events: Receiver<Event>,
    visit: Arc<Visit>,
    draft: Draft,
    /// Letters that were sent.
    offset: usize,
    /// Tokens that were written.
    tokens: usize,
    /// What goes out next.
    ready: std::collections::VecDeque<sse::Event>,
    is_over: bool,
}

/// Sends an answer while it is written. What is wrong with the request is said before it begins.
async fn stream_answer(
    shared: Arc<Shared>,
    visit: Arc<Visit>,
    head: Head,
    asked: Asked,
) -> Result<Response, Refusal> {
    let completion = asked.completions.into_iter().next();
    let completion = completion.ok_or_else(|| Refusal::field("prompt", "there is no prompt"))?;
    let wanted = Requested::Complete(completion.into());
    let mut events = shared.queue.submit(wanted)?;
    let first = heard(&mut events, head.kind).await?;
    let mut sending = Sending {
        ready: head.first().iter().map(event).collect(),
        head,
        events,
        visit,
        draft: Draft::default(),
        offset: 0,
        tokens: 0,
        is_over: false,
    };
    sending.hear(first);
    let alive = KeepAlive::new().interval(limits::PING).text("ping");
    Ok(Sse::new(sending.into_stream())
        .keep_alive(alive)
        .into_response())
}

impl Sending {
    fn into_stream(self) -> impl Stream<Item = Result<sse::Event, Infallible>> {
        stream::unfold(self, |mut sending| async move {
            loop {
                if let Some(event) = sending.ready.pop_front() {
                    return Some((Ok(event), sending));
                }
                if sending.is_over {
                    return None;
                }
                match heard(&mut sending.events, sending.head.kind).await {
                    Ok(heard) => sending.hear(heard),
                    // A client raises what it finds so; nothing says that the answer is whole.
                    Err(refusal) => {
                        sending.visit.note(refusal.message());
                        sending.ready.push_back(event(&refusal.json()));
                        sending.is_over = true;
                    }
                }
            }
        })
    }

    fn hear(&mut self, heard: Heard) {
        match heard {
            Heard::Part(drafted) => {
                self.tokens += usize::from(drafted.is_token);
                let part = self.draft.take(drafted);
                self.send(part);
            }
            Heard::Ended(usage) => {
                let chances = self.draft.rest(usage.ended);
                self.send(Part {
                    chances,
                    ..Part::default()
                });
                self.finish(usage);
            }
        }
    }

    fn send(&mut self, part: Part) {
        if !part.text.is_empty() || !part.chances.is_empty() {
            let piece = self.head.piece(&part, self.offset);
            self.ready.push_back(event(&piece));
            self.offset += part.text.chars().count();
        }
    }

    fn finish(&mut self, usage: Usage) {
        self.visit.took(usage);
        let last = [Some(self.head.last(usage.ended)), self.head.took(usage)];
        let last = last.iter().flatten().map(event);
        let done = sse::Event::default().data("[DONE]");
        self.ready.extend(last.chain([done]));
        self.is_over = true;
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        if !self.is_over {
            let tokens = counted(self.tokens as u64, "token");
            self.visit.note(&format!("the client left after {tokens}"));
        }
    }
}

fn event(value: &Value) -> sse::Event {
    sse::Event::default().data(value.to_string())
}
