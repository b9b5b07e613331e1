//! What the window can ask for. A command is an adapter: it reads its arguments, asks the host, and returns a view.

mod chat;
mod runs;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
};

use models::train::TrainPlan;

use crate::{
    host::{Host, chat::Conversation},
    jobs::queue::Queue,
    store::runs::RunProgress,
    wire::view::ErrorView,
};

/// What commands share.
pub(crate) struct App {
    /// Everything the app can do.
    pub(crate) host: Arc<Host>,
    /// The runs that go on and wait.
    pub(crate) queue: Queue,
    /// The plan of each run, and how far it was when it was last looked at, by its id.
    known: Mutex<HashMap<String, (TrainPlan, RunProgress)>>,
    /// What is odd about the settings.
    warnings: Vec<String>,
    /// The model that is open to be talked to.
    conversation: Mutex<Option<Conversation>>,
    /// Whether the answer that is being written should end.
    stop_answer: std::sync::atomic::AtomicBool,
}

/// The result of every command.
type Answer<T> = Result<T, ErrorView>;

impl App {
    pub(crate) fn new(host: Host, warnings: Vec<String>) -> Self {
        let host = Arc::new(host);
        Self {
            queue: Queue::new(host.clone()),
            host,
            known: Mutex::default(),
            warnings,
            conversation: Mutex::default(),
            stop_answer: false.into(),
        }
    }
}

/// The value behind a lock, also after a thread panicked while it held it: each is whole at any time.
fn locked<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// All commands, with the types that the window's code is checked against.
pub(crate) fn builder() -> tauri_specta::Builder<tauri::Wry> {
    tauri_specta::Builder::new().commands(tauri_specta::collect_commands![
        runs::home,
        runs::start_starter,
        runs::run,
        runs::run_events,
        runs::stop_run,
        runs::resume_run,
        chat::open_chat,
        chat::say,
        chat::stop_answer,
    ])
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    #[test]
    fn the_windows_bindings_are_those_of_the_commands() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ui/src/api/bindings.ts");
        let written = tempfile::NamedTempFile::with_suffix(".ts").unwrap();
        builder()
            .export(specta_typescript::Typescript::default(), written.path())
            .unwrap();
        let text = fs::read_to_string(written.path()).unwrap();
        if std::env::var_os("ANNEAL_WRITE_BINDINGS").is_some() {
            fs::write(&path, &text).unwrap();
        }
        let committed = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            text == committed,
            "run with ANNEAL_WRITE_BINDINGS=1 to write them anew"
        );
    }

    #[test]
    fn the_three_lists_of_commands_are_one() {
        let names: &[&str] = include!("names.in");
        let capability = include_str!("../../capabilities/main.json");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ui/src/api/bindings.ts");
        let bindings = fs::read_to_string(path).unwrap();
        for name in names {
            let permission = format!("\"allow-{}\"", name.replace('_', "-"));
            assert!(capability.contains(&permission), "{permission}");
            assert!(
                bindings.contains(&format!("\"{name}\"")),
                "{name} in the bindings"
            );
        }
        assert_eq!(capability.matches("\"allow-").count(), names.len());
        assert_eq!(bindings.matches("__TAURI_INVOKE(\"").count(), names.len());
    }
}
