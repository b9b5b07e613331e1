//! Every Rust file says what it is, and belongs to a target.

use std::collections::BTreeSet;

use crate::rust;
use crate::tree::{Tree, Violation};

const DOC_REASON: &str =
    "the first line of a module tells a newcomer whether they are in the right place";
const REACH_REASON: &str = "a file that no target reaches is never compiled, and its tests never run; declare it with \
                            `mod`, or with `path` in a manifest";

pub(crate) fn violations(tree: &Tree) -> Vec<Violation> {
    let reached = reached(tree);
    let mut found = Vec::new();
    for (path, file) in tree.rust_files() {
        let mut report = |problem: &str, reason| {
            found.push(Violation {
                place: path.to_owned(),
                problem: problem.to_owned(),
                reason,
            });
        };
        if !file.text.starts_with("//! ") {
            report("does not start with `//! ` and what it is", DOC_REASON);
        }
        if !reached.contains(path) {
            report("belongs to no target", REACH_REASON);
        }
    }
    found
}

/// The Rust files that some target compiles.
fn reached(tree: &Tree) -> BTreeSet<String> {
    let mut waiting: Vec<String> = tree
        .files()
        .filter_map(|(path, file)| Some((path.strip_suffix("Cargo.toml")?, file)))
        .flat_map(|(folder, file)| roots(folder, &file.text))
        .collect();
    let mut reached = BTreeSet::new();
    while let Some(path) = waiting.pop() {
        let Some(text) = tree.text(&path) else {
            continue;
        };
        if reached.insert(path.clone()) {
            waiting.extend(
                rust::child_modules(&rust::code(text), &path)
                    .into_iter()
                    .flatten(),
            );
        }
    }
    reached
}

/// Where the targets of a crate start: where Cargo looks for them, and where the manifest says.
fn roots(folder: &str, manifest: &str) -> Vec<String> {
    let declared = manifest.lines().filter_map(|line| {
        let value = line
            .trim()
            .strip_prefix("path")?
            .trim_start()
            .strip_prefix('=')?;
        let path = value.trim().trim_matches('"');
        path.ends_with(".rs").then_some(path)
    });
    ["src/lib.rs", "src/main.rs", "build.rs"]
        .into_iter()
        .chain(declared)
        .map(|path| join(folder, path))
        .collect()
}

/// A path from a folder that ends with `/` or is empty; each `..` takes one folder away.
fn join(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::check;

    #[test]
    fn a_module_without_its_doc_is_found() {
        check(
            violations,
            [
                ("Cargo.toml", ""),
                ("src/lib.rs", "//! The library.\nmod a;\nmod b;"),
                ("src/a.rs", "use std::fs;\n"),
                ("src/b.rs", "//!\n"),
            ],
            &[
                "src/a.rs: does not start with `//! ` and what it is",
                "src/b.rs: does not start with `//! ` and what it is",
            ],
        );
    }

    #[test]
    fn a_file_that_no_target_reaches_is_found() {
        check(
            violations,
            [
                (
                    "models/Cargo.toml",
                    "[[test]]\nname = \"models\"\npath = \"../tests/models/main.rs\"\n",
                ),
                (
                    "models/src/lib.rs",
                    "//! The library.\npub mod ops;\n// mod lost;\n",
                ),
                ("models/src/lost.rs", "//! Lost.\n"),
                ("models/src/ops/mod.rs", "//! Operations.\nmod norm;\n"),
                (
                    "models/src/ops/norm.rs",
                    "//! Norm.\n#[cfg(test)]\nmod tests;\n",
                ),
                ("models/src/ops/norm/tests.rs", "//! Tests.\n"),
                ("tests/app/main.rs", "//! No manifest knows this.\n"),
                ("tests/models/main.rs", "//! Tests.\nmod data;\n"),
                ("tests/models/data.rs", "//! Tests of data.\n"),
                ("tests/models/train.rs", "//! Forgotten.\n"),
            ],
            &[
                "models/src/lost.rs: belongs to no target",
                "tests/app/main.rs: belongs to no target",
                "tests/models/train.rs: belongs to no target",
            ],
        );
    }
}
