//! What the crates may depend on, read from the manifests.

use crate::tree::{Tree, Violation};

/// Crates whose purpose `models` must not have.
const NOT_FOR_MODELS: [&str; 14] = [
    "chrono",
    "clap",
    "ctrlc",
    "directories",
    "dirs",
    "hf-hub",
    "indicatif",
    "jiff",
    "reqwest",
    "rustyline",
    "tauri",
    "tokio",
    "tracing-subscriber",
    "ureq",
];

const MODELS_REASON: &str = "models is silent: no network, window, terminal, async, calendar or platform folder, so \
                             that the window, the terminal and a test can all use it";
const PIN_REASON: &str = "our operations touch storage and layouts, which change between candle's minor versions; \
                          pin it with `=`";

pub(crate) fn violations(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, file) in tree.files() {
        if path.rsplit('/').next() != Some("Cargo.toml") {
            continue;
        }
        for dependency in dependencies(&file.text) {
            let mut report = |problem: &str, reason| {
                found.push(Violation {
                    place: format!("{path}:{}", dependency.line),
                    problem: format!("`{}` {problem}", dependency.name),
                    reason,
                });
            };
            if path == "models/Cargo.toml" && NOT_FOR_MODELS.contains(&dependency.name) {
                report("is not for models", MODELS_REASON);
            }
            let is_ours = dependency.value.contains("workspace = true");
            if dependency.name.starts_with("candle-")
                && !is_ours
                && !dependency.value.contains("\"=")
            {
                report("is not pinned", PIN_REASON);
            }
        }
    }
    found
}

struct Dependency<'a> {
    line: usize,
    name: &'a str,
    /// What stands behind the name, as `key = value`.
    value: String,
}

/// Dependencies in the three forms `name = …`, `name.workspace = true`, and a table of their own.
fn dependencies(manifest: &str) -> Vec<Dependency<'_>> {
    let mut found: Vec<Dependency<'_>> = Vec::new();
    let mut section = "";
    for (index, line) in manifest.lines().enumerate() {
        let line = line.split('#').next().unwrap_or(line).trim();
        let place = index + 1;
        if let Some(header) = line.strip_prefix('[') {
            section = header.trim_end_matches(']');
            if let Some((_, name)) = section.split_once("dependencies.") {
                let value = String::new();
                found.push(Dependency {
                    line: place,
                    name,
                    value,
                });
            }
        } else if let Some((key, value)) = line.split_once('=') {
            let key = key.trim();
            if section.ends_with("dependencies") {
                let (name, rest) = key.split_once('.').unwrap_or((key, "version"));
                let value = format!("{rest} ={value}");
                found.push(Dependency {
                    line: place,
                    name,
                    value,
                });
            } else if section.contains("dependencies.")
                && let Some(last) = found.last_mut()
            {
                last.value += line;
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::check;

    #[test]
    fn a_crate_that_makes_models_speak_is_found() {
        check(
            violations,
            [
                (
                    "models/Cargo.toml",
                    "[dependencies]\nserde = \"1\"\ntokio = \"1\"\n[dev-dependencies]\nhf-hub.workspace = true\n\
                     [target.'cfg(unix)'.dependencies.clap]\nversion = \"4\"\n",
                ),
                ("src-tauri/Cargo.toml", "[dependencies]\ntokio = \"1\"\n"),
            ],
            &[
                "models/Cargo.toml:3: `tokio` is not for models",
                "models/Cargo.toml:5: `hf-hub` is not for models",
                "models/Cargo.toml:6: `clap` is not for models",
            ],
        );
    }

    #[test]
    fn a_candle_crate_that_may_move_is_found() {
        check(
            violations,
            [(
                "Cargo.toml",
                "[features]\nmetal = [\"candle-core/metal\"]\n[workspace.dependencies]\n\
                 candle-core = { version = \"=0.11.1\", default-features = false }\ncandle-nn = \"0.11\" # latest\n\
                 candle-transformers.workspace = true\n[dependencies.candle-kernels]\nversion = \"0.11\"\n\
                 [dependencies.candle-metal-kernels]\nversion = \"=0.11.1\"\n",
            )],
            &[
                "Cargo.toml:5: `candle-nn` is not pinned",
                "Cargo.toml:7: `candle-kernels` is not pinned",
            ],
        );
    }
}
