//! What a client is told instead of an answer, in the form of OpenAI's errors.
//!
//! Official clients retry by themselves after 408, 409, 429 and from 500 on, so a bad request never gets any of these.

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header::RETRY_AFTER},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use crate::wire::error::AppError;

/// Why a request is not answered.
#[derive(Debug, Clone)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    message: String,
    param: Option<String>,
    code: Option<&'static str>,
    retry_after_seconds: Option<u32>,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
            param: None,
            code: None,
            retry_after_seconds: None,
        }
    }

    /// A field that can't be meant so.
    pub(super) fn field(name: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            param: Some(name.into()),
            ..Self::new(StatusCode::BAD_REQUEST, message)
        }
    }

    /// A field that asks for what the server can't do.
    pub(super) fn unsupported(name: &str, why: &str) -> Self {
        Self::field(name, format!("`{name}` is not supported: {why}"))
            .with_code("unsupported_value")
    }

    /// Something that the client can't help, which may work later.
    pub(super) fn unavailable(error: &AppError) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, error.sentence()).again_after(1)
    }

    /// Something that went wrong here.
    pub(super) fn failed(error: &AppError) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, error.sentence())
    }

    pub(super) fn with_code(self, code: &'static str) -> Self {
        Self {
            code: Some(code),
            ..self
        }
    }

    pub(super) fn again_after(self, seconds: u32) -> Self {
        Self {
            retry_after_seconds: Some(seconds),
            ..self
        }
    }

    /// The words for people, as they stand in the log.
    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// As JSON.
    pub(super) fn json(&self) -> Value {
        let kind = match self.status.as_u16() {
            500.. => "server_error",
            429 => "rate_limit_error",
            401 => "authentication_error",
            _ => "invalid_request_error",
        };
        let (message, param, code) = (&self.message, &self.param, self.code);
        json!({"error": {"message": message, "type": kind, "param": param, "code": code}})
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.json())).into_response();
        if let Some(seconds) = self.retry_after_seconds {
            let seconds = HeaderValue::from(seconds);
            response.headers_mut().insert(RETRY_AFTER, seconds);
        }
        response.extensions_mut().insert(Note(self.message));
        response
    }
}

/// Why a response is no answer, for the log.
#[derive(Debug, Clone)]
pub(super) struct Note(pub(super) String);
