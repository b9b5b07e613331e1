//! The files a rule looks at: the repository's, or a few made up in a test.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

/// Never ours, wherever they stand.
const SKIPPED: [&str; 4] = [".git", ".venv", "node_modules", "target"];

/// Files by their path from the root, with `/` between folders.
pub(crate) struct Tree {
    files: BTreeMap<String, File>,
}

pub(crate) struct File {
    pub(crate) bytes: u64,
    /// Empty for what is not UTF-8.
    pub(crate) text: String,
}

/// What a rule found, where, and why it is wrong.
#[derive(Debug)]
pub(crate) struct Violation {
    pub(crate) place: String,
    pub(crate) problem: String,
    pub(crate) reason: &'static str,
}

impl fmt::Display for Violation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            place,
            problem,
            reason,
        } = self;
        write!(out, "{place}: {problem}\n  why: {reason}")
    }
}

impl Tree {
    /// Reads everything under a folder but what git ignores by a plain name.
    pub(crate) fn read(root: &Path) -> io::Result<Self> {
        let ignored = fs::read_to_string(root.join(".gitignore")).unwrap_or_default();
        let mut files = BTreeMap::new();
        let mut folders = vec![String::new()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(root.join(&folder))? {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy().into_owned();
                let path = match folder.as_str() {
                    "" => name.clone(),
                    folder => format!("{folder}/{name}"),
                };
                if SKIPPED.contains(&name.as_str()) || is_ignored(&path, &name, &ignored) {
                    continue;
                }
                if entry.file_type()?.is_dir() {
                    folders.push(path);
                } else {
                    let content = fs::read(entry.path())?;
                    let bytes = content.len() as u64;
                    let text = String::from_utf8(content).unwrap_or_default();
                    files.insert(path, File { bytes, text });
                }
            }
        }
        Ok(Self { files })
    }

    /// A tree that exists only in a test.
    pub(crate) fn of<const N: usize>(files: [(&str, &str); N]) -> Self {
        let file = |(path, text): (&str, &str)| {
            let bytes = text.len() as u64;
            let text = text.to_owned();
            (path.to_owned(), File { bytes, text })
        };
        Self {
            files: files.into_iter().map(file).collect(),
        }
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &File)> {
        self.files.iter().map(|(path, file)| (path.as_str(), file))
    }

    pub(crate) fn rust_files(&self) -> impl Iterator<Item = (&str, &File)> {
        self.files().filter(|(path, _)| path.ends_with(".rs"))
    }

    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(|file| file.text.as_str())
    }
}

/// Knows lines of the forms `name`, `/path` and `*.end`; a line with anything cleverer ignores nothing here.
fn is_ignored(path: &str, name: &str, lines: &str) -> bool {
    let matches = |line: &str| match line.trim().trim_end_matches('/') {
        "" => false,
        line if line.starts_with('/') => line[1..] == *path,
        line if line.starts_with("*.") => name.ends_with(&line[1..]),
        line => line == name,
    };
    lines.lines().any(matches)
}

/// Runs a rule on a made-up tree and compares what it says, without the reasons.
#[track_caller]
pub(crate) fn check<const N: usize>(
    rule: impl Fn(&Tree) -> Vec<Violation>,
    files: [(&str, &str); N],
    expected: &[&str],
) {
    let found: Vec<String> = rule(&Tree::of(files))
        .into_iter()
        .map(|violation| format!("{}: {}", violation.place, violation.problem))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn what_git_ignores_is_not_looked_at() {
    let lines = "/build\n*.log\n.DS_Store\n";
    let kept = |path: &str| {
        let name = path.rsplit('/').next().unwrap_or(path);
        !is_ignored(path, name, lines)
    };
    let paths = [
        "build",
        "ui/build",
        "a/b.log",
        "a/.DS_Store",
        "a/log",
        "src",
    ];
    let looked_at: Vec<&str> = paths.into_iter().filter(|path| kept(path)).collect();
    assert_eq!(looked_at, ["ui/build", "a/log", "src"]);
}
