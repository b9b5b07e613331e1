//! How much of what clients of the server send is taken, and how long they are waited for.

use std::time::Duration;

/// How long a client may take for the head of a request. A connection without a request is closed after it too.
pub(super) const HEAD_TIME: Duration = Duration::from_secs(10);
/// How long a client may take for the body of a request.
pub(super) const BODY_TIME: Duration = Duration::from_secs(60);
/// How long a client may take nothing of what is sent to it.
pub(super) const STALLED_TIME: Duration = Duration::from_secs(30);
/// How often something is sent while nothing is written, so that nobody between takes the connection for dead.
pub(super) const PING: Duration = Duration::from_secs(15);
/// Events that are on their way to a client; more wait until it has taken some.
pub(super) const EVENTS: usize = 64;
/// The tokens whose probabilities can be asked for with each one.
pub(super) const LIKELIEST: u64 = 20;

::models::limits! {
    #[cfg(test)]
    pub(crate) LIMITS;

    /// The body of a request.
    BODY = "the body of a request to the server", 10 << 20, "bytes",
        "a million words have 6 MB, and few models read as much";
    /// The head of a request.
    HEAD = "the head of a request to the server", 16 << 10, "bytes",
        "those of known clients have less than 2 kB";
    /// Clients at once.
    CONNECTIONS = "connections to the server", 64, "connections",
        "one is enough for a chat, and a script that asks in parallel opens some ten";
    /// Requests that wait.
    QUEUE = "requests to the server that wait", 32, "requests",
        "a few are answered at once; the next is told to come again";
    /// Texts that are completed by one request.
    PROMPTS = "prompts of a request to the server", 64, "prompts",
        "evaluations send some ten at once";
    /// Texts that one request makes vectors of.
    TEXTS = "texts of a request to the server for vectors", 2048, "texts",
        "as many as OpenAI’s interface takes";
    /// Texts that end an answer.
    STOPS = "stop texts of a request to the server", 4, "texts",
        "as many as OpenAI’s interface has";
    /// The length of one.
    STOP = "a stop text of a request to the server", 1 << 10, "bytes",
        "as much of an answer may be held back while it is written";
    /// Tokens with a bias.
    BIASES = "tokens with a bias in a request to the server", 1 << 10, "tokens",
        "each is looked up for every token that is written";
    /// The name of a client.
    CLIENT = "the name of a client that is shown", 40, "letters",
        "it is the first word of what a client says of itself";
}
