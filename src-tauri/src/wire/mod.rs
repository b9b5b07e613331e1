//! What crosses between processes, and from the app to whoever looks at it: the terminal now, the window later.

pub(crate) mod chat;
pub(crate) mod completion;
pub(crate) mod engine;
pub(crate) mod error;
pub(crate) mod predict;
