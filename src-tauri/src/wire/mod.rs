//! What crosses from the app to whoever looks at it: the terminal now, the window later.

pub(crate) mod error;
