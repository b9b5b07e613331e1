//! What a failed request to the Hub means for the user, and what to do about it.
//!
//! The message never holds the address, which may contain a signature.

use reqwest::StatusCode;

use super::http::TIMEOUT;
use crate::{
    store::hub_cache::names::shown,
    wire::error::{AppError, Code},
};

/// What the Hub calls a repository that asks for something first.
pub(super) const GATED: &str = "GatedRepo";
/// What the Hub says of itself in an error is cut after so many letters.
const MAX_WORDS: usize = 300;

/// The error when an answer takes too long.
pub(super) fn too_slow(action: &str) -> AppError {
    let seconds = TIMEOUT.as_secs();
    AppError::failed(format!(
        "could not {action}: the answer took more than {seconds} s"
    ))
    .with_hint("try again later")
}

/// The error when something answers that is no Hub.
pub(super) fn no_hub(action: &str, problem: &str) -> AppError {
    AppError::failed(format!("could not {action}: {problem}"))
        .with_hint("look whether something stands between, such as a page to log in to a network, and at HF_ENDPOINT")
}

/// The error when nobody is to be asked.
pub(super) fn switched_off() -> AppError {
    offline("the Hub is not asked, because the variable HF_HUB_OFFLINE says so".to_owned())
}

/// The error when there is no way to the Hub. What the system's resolver says of that helps nobody.
pub(super) fn unreachable(action: &str, host: &str) -> AppError {
    offline(format!(
        "could not {action}: {host} can’t be reached; check the network"
    ))
}

fn offline(message: String) -> AppError {
    AppError {
        code: Code::Offline,
        ..AppError::failed(message).with_hint("models and data on this machine still work")
    }
}

pub(super) fn refusal_of(
    action: &str,
    status: StatusCode,
    code: Option<&str>,
    message: Option<&str>,
    has_token: bool,
) -> AppError {
    let said: String = shown(message.unwrap_or_default())
        .chars()
        .take(MAX_WORDS)
        .collect();
    let said = match said.trim().trim_end_matches('.') {
        "" => String::new(),
        said => format!(": {said}"),
    };
    let words = |what: &str| AppError::failed(format!("could not {action}: {what}"));
    let login = "log in with `anneal hub login`, or in Settings";
    match (status.as_u16(), code) {
        (401 | 403, Some(GATED)) => words(
            "its makers let only those have it who accept their terms",
        )
        .with_hint(match has_token {
            true => "accept the terms on its page in a browser, with the account of your token"
                .to_owned(),
            false => format!("accept the terms on its page in a browser, then {login}"),
        }),
        // To somebody who is not logged in, the Hub does not even say that there is nothing.
        (401 | 404, Some("RepoNotFound")) | (401, None) if code.is_some() || !has_token => {
            words("the Hub has no such repository, or it is private")
                .with_hint(format!("check the name; if it is private, {login}"))
        }
        (404, Some("RevisionNotFound")) => {
            words("the repository has no such branch, tag or commit")
        }
        (404, Some("EntryNotFound")) => words("the repository has no such file"),
        (401, _) => words(&format!("the Hub does not know the token{said}")).with_hint(login),
        (403, _) => words(&format!("the Hub does not allow it{said}")).with_hint(login),
        (404, _) => words("the Hub has no such thing").with_hint("check the name"),
        (429, _) => {
            words("the Hub asks to be left alone for a while, because it was asked too often")
                .with_hint(format!(
                    "try again in a few minutes; who is logged in may ask more often: {login}"
                ))
        }
        (500.., _) => words(&format!("the Hub is in trouble: it answers {status}{said}"))
            .with_hint("try again later"),
        _ => words(&format!("the Hub answers {status}{said}")),
    }
}

/// Whether a connection came about that can't be trusted. Nothing gets better by asking again.
pub(super) fn is_distrusted(error: &reqwest::Error) -> bool {
    let words = cause(error).to_lowercase();
    error.is_connect() && (words.contains("certificate") || words.contains("tls"))
}

/// The innermost words of an error: the outer ones hold the address, which may hold a signature.
pub(super) fn cause(error: &reqwest::Error) -> String {
    let mut innermost: &dyn std::error::Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    match std::ptr::addr_eq(innermost, error) {
        true => "no answer".to_owned(),
        false => innermost.to_string(),
    }
}
