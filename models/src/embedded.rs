//! Tables that are part of the program: facts kept as JSON beside the code that reads them.

use serde::de::DeserializeOwned;

/// The contents of a table that is compiled in. Called once for each, behind a `LazyLock`.
///
/// # Panics
/// When the text does not have the form of `T`. It is a file of ours, and the tests open all of them.
#[expect(
    clippy::panic,
    reason = "a damaged table is a program that was built wrong, not something a user can cause"
)]
pub fn table<T: DeserializeOwned>(name: &str, text: &str) -> T {
    match serde_json::from_str(text) {
        Ok(table) => table,
        Err(error) => panic!("{name}, which is part of the program: {error}"),
    }
}
