//! What is for every kind of learning does not know the words of one.

use crate::tree::{Tree, Violation};

/// The words of language models.
const WORDS: [&str; 6] = ["token", "prompt", "lora", "vocab", "tokenizer", "chat"];

/// Files and folders that are for every kind.
const GENERAL: [&str; 15] = [
    "models/src/train/",
    "models/src/optim/",
    "models/src/checkpoint/header.rs",
    "models/src/checkpoint/keep.rs",
    "models/src/checkpoint/save.rs",
    "models/src/checkpoint/stream.rs",
    "models/src/checkpoint/whole.rs",
    "src-tauri/src/jobs/",
    "src-tauri/src/store/plan_changes.rs",
    "src-tauri/src/store/memory_fallbacks.rs",
    "src-tauri/src/store/run_checkpoints.rs",
    "src-tauri/src/store/run_state.rs",
    "src-tauri/src/store/sources.rs",
    "src-tauri/src/store/runs/view.rs",
    "ui/src/features/runs/",
];

/// A file that may know a word, or all of them, and why.
struct Exception {
    path: &'static str,
    /// Lines with this part. Empty is the whole file.
    part: &'static str,
    reason: &'static str,
}

const fn except(path: &'static str, part: &'static str, reason: &'static str) -> Exception {
    Exception { path, part, reason }
}

const OLD: &str = "the name that files written before there were other kinds have";

const EXCEPTIONS: [Exception; 11] = [
    except(
        "models/src/train/fields.rs",
        "such as the tokens",
        "a person reads it, to whom an example says more",
    ),
    except(
        "models/src/optim/testing.rs",
        "embed_tokens",
        "a weight has the name that checkpoints give it",
    ),
    except("models/src/train/event.rs", "alias = \"", OLD),
    except("models/src/train/event.rs", "prompt", OLD),
    except("models/src/train/event.rs", "\"tokens\"", OLD),
    except("models/src/train/state.rs", "alias = \"", OLD),
    except(
        "src-tauri/src/jobs/chat.rs",
        "",
        "it is what a language model is for",
    ),
    except(
        "src-tauri/src/jobs/chat/complete.rs",
        "",
        "it is what a language model is for",
    ),
    except(
        "src-tauri/src/jobs/mod.rs",
        "chat",
        "it lists what an engine does",
    ),
    except(
        "src-tauri/src/jobs/worker.rs",
        "",
        "an engine also answers in a chat",
    ),
    except(
        "src-tauri/src/jobs/train/tests.rs",
        "",
        "it trains a language model",
    ),
];

pub(crate) fn violations(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut used = [false; EXCEPTIONS.len()];
    for (path, file) in tree.files() {
        if !GENERAL.iter().any(|general| path.starts_with(general)) {
            continue;
        }
        for (index, line) in file.text.lines().enumerate() {
            // Documentation may name an example of what it speaks of.
            let is_comment = ["//", "*", "<!--"]
                .iter()
                .any(|it| line.trim_start().starts_with(it));
            let lower = line.to_lowercase();
            let Some(word) = WORDS
                .iter()
                .find(|word| lower.contains(**word))
                .filter(|_| !is_comment)
            else {
                continue;
            };
            let mut exceptions = EXCEPTIONS.iter();
            match exceptions.position(|it| path == it.path && line.contains(it.part)) {
                Some(at) => used[at] = true,
                None => violations.push(Violation {
                    place: format!("{path}:{}", index + 1),
                    problem: format!("speaks of `{word}`, which only language models have"),
                    reason: "what is for every kind of learning must not change for one: say units, metrics and exhibits, \
                             or let the kind say it",
                }),
            }
        }
    }
    let unused = EXCEPTIONS
        .iter()
        .zip(used)
        .filter(|(it, used)| !used && tree.text(it.path).is_some());
    violations.extend(unused.map(|(exception, _)| Violation {
        place: exception.path.to_owned(),
        problem: format!(
            "the exception for `{}` ({}) is not needed",
            exception.part, exception.reason
        ),
        reason: "an exception that is not needed hides the next violation",
    }));
    violations
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::check;

    #[test]
    fn a_word_of_one_kind_is_found_where_all_are_served() {
        check(
            violations,
            [
                (
                    "models/src/train/mod.rs",
                    "// as a token\nlet tokens = 1;\n",
                ),
                (
                    "models/src/train/state.rs",
                    "#[serde(alias = \"tokens\")]\n",
                ),
                ("models/src/tasks/language/mod.rs", "let tokens = 1;\n"),
            ],
            &["models/src/train/mod.rs:2: speaks of `token`, which only language models have"],
        );
    }
}
