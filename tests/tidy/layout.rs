//! Where files may stand, how they may be called, and how large they may be.

use crate::tree::{Tree, Violation};

/// Everything the top level may hold, besides licenses and what starts with a dot.
const TOP_LEVEL: [&str; 10] = [
    "Cargo.lock",
    "Cargo.toml",
    "README.md",
    "docs",
    "models",
    "package-lock.json",
    "package.json",
    "src-tauri",
    "tests",
    "ui",
];

/// Names that would fit any content, so they attract all of it.
const EMPTY_NAMES: [&str; 12] = [
    "common", "helper", "helpers", "manager", "managers", "misc", "service", "services", "shared",
    "stuff", "util", "utils",
];

const FILE_BYTES: u64 = 512 * 1024;
const PICTURE_BYTES: u64 = 1024 * 1024;
const PICTURES: [&str; 6] = [".gif", ".jpg", ".png", ".svg", ".webm", ".webp"];

const TOP_LEVEL_REASON: &str = "whoever opens the repository should see the whole house at once; configuration of tools stands in .ci/ or \
     beside its crate";
const SIZE_REASON: &str = "everybody who clones downloads every version of every file; make large files when needed, \
                           or make them smaller";
const NAME_REASON: &str =
    "such a name says nothing and attracts everything; the folder that owns the idea owns the file";

pub(crate) fn violations(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut strangers: Vec<&str> = tree
        .files()
        .map(|(path, _)| path.split('/').next().unwrap_or(path))
        .filter(|name| {
            !TOP_LEVEL.contains(name) && !name.starts_with('.') && !name.starts_with("LICENSE")
        })
        .collect();
    strangers.dedup();
    found.extend(strangers.into_iter().map(|name| Violation {
        place: name.to_owned(),
        problem: "does not belong to the top level".to_owned(),
        reason: TOP_LEVEL_REASON,
    }));

    for (path, file) in tree.files() {
        let is_picture =
            path.starts_with("docs/") && PICTURES.iter().any(|end| path.ends_with(end));
        let most = if is_picture {
            PICTURE_BYTES
        } else {
            FILE_BYTES
        };
        if file.bytes > most && path != "Cargo.lock" {
            found.push(Violation {
                place: path.to_owned(),
                problem: format!("{} bytes, {most} at most", file.bytes),
                reason: SIZE_REASON,
            });
        }
    }
    found
}

pub(crate) fn empty_names(tree: &Tree) -> Vec<Violation> {
    let is_empty = |part: &str| {
        let stem = part.split('.').next().unwrap_or(part);
        EMPTY_NAMES.contains(&stem.to_lowercase().as_str())
    };
    tree.files()
        .filter_map(|(path, _)| {
            path.split('/')
                .find(|part| is_empty(part))
                .map(|part| (path, part))
        })
        .map(|(path, part)| Violation {
            place: path.to_owned(),
            problem: format!("`{part}` is no name"),
            reason: NAME_REASON,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::check;

    #[test]
    fn a_stranger_at_the_top_level_is_found_once() {
        check(
            violations,
            [
                (".ci/run", ""),
                ("Cargo.toml", ""),
                ("LICENSE-MIT", ""),
                ("README.md", ""),
                ("scripts/a", ""),
                ("scripts/b", ""),
                ("ui/scripts/c", ""),
            ],
            &["scripts: does not belong to the top level"],
        );
    }

    #[test]
    fn a_large_file_is_found_and_a_picture_may_be_larger() {
        let (large, larger) = ("x".repeat(600_000), "x".repeat(1_100_000));
        check(
            violations,
            [
                ("Cargo.lock", &large),
                ("docs/a.png", &large),
                ("docs/b.png", &larger),
                ("docs/c.md", &large),
                ("tests/d.png", &large),
            ],
            &[
                "docs/b.png: 1100000 bytes, 1048576 at most",
                "docs/c.md: 600000 bytes, 524288 at most",
                "tests/d.png: 600000 bytes, 524288 at most",
            ],
        );
    }

    #[test]
    fn a_name_that_says_nothing_is_found_in_files_and_folders() {
        check(
            empty_names,
            [
                ("models/src/utils.rs", ""),
                ("ui/src/Common/a.ts", ""),
                ("ui/src/service.test.ts", ""),
                ("models/src/utility_bill.rs", ""),
            ],
            &[
                "models/src/utils.rs: `utils.rs` is no name",
                "ui/src/Common/a.ts: `Common` is no name",
                "ui/src/service.test.ts: `service.test.ts` is no name",
            ],
        );
    }
}
