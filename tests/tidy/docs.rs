//! What a doc comment says beyond the name that it stands beside. Examples in it are text: nothing runs them.

use crate::tree::{Tree, Violation};

const MARKERS: [&str; 2] = ["///", "//!"];
const ARTICLES: [&str; 3] = ["The", "A", "An"];
const REASON: &str = "the name beside it says as much; say what it is for, its shape, unit or bounds, or where it comes \
                      from, or leave the comment out where none is needed";

const FENCE: &str = "```";
const NO_CODE: [&str; 2] = ["text", "sh"];
const NOT_RUN: &str = "the tests don’t run examples in comments, for which the crates would be compiled once more; make it a \
                       test, or say that it is ```text";

pub(crate) fn violations(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, file) in tree.rust_files() {
        let lines: Vec<_> = file.text.lines().map(doc_line).collect();
        let mut number = 1;
        // Lines that follow each other with one marker are one comment.
        for comment in lines.chunk_by(|one, next| one.map(|it| it.0) == next.map(|it| it.0)) {
            let texts = comment.iter().flatten().map(|(_, text)| *text);
            let words: Vec<&str> = texts.flat_map(str::split_whitespace).collect();
            if words.len() == 2 && ARTICLES.contains(&words[0]) {
                found.push(Violation {
                    place: format!("{path}:{number}"),
                    problem: format!("says only `{}`", words.join(" ")),
                    reason: REASON,
                });
            }
            let lines = (number..).zip(comment.iter().flatten());
            let fences = lines
                .filter_map(|(line, (_, text))| Some((line, text.trim().strip_prefix(FENCE)?)));
            // Every other one closes.
            let opened = fences
                .step_by(2)
                .filter(|(_, what)| !NO_CODE.contains(what));
            found.extend(opened.map(|(line, what)| Violation {
                place: format!("{path}:{line}"),
                problem: format!("opens an example with `{FENCE}{what}`"),
                reason: NOT_RUN,
            }));
            number += comment.len();
        }
    }
    found
}

/// The marker of a line of a doc comment, and the text after it.
fn doc_line(line: &str) -> Option<(&'static str, &str)> {
    let line = line.trim();
    let mut markers = MARKERS.into_iter();
    markers.find_map(|marker| Some((marker, line.strip_prefix(marker)?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::check;

    #[test]
    fn a_comment_of_an_article_and_a_word_is_found() {
        let source =
            "//! A loop.\n\n/// The device.\nstruct Run {\n    /// An `id`\n    id: u8,\n}\n";
        check(
            violations,
            [("README.md", "/// The device.\n"), ("a.rs", source)],
            &[
                "a.rs:1: says only `A loop.`",
                "a.rs:3: says only `The device.`",
                "a.rs:5: says only `An `id``",
            ],
        );
    }

    #[test]
    fn an_example_that_nothing_runs_is_found() {
        let source = "//! So:\n//!\n//! ```text\n//! A\n//! ```\n//! ```\n//! f();\n//! ```\n\n\
                      /// So:\n/// ```rust,no_run\n/// f();\n/// ```\nfn f() {}\n";
        check(
            violations,
            [("a.rs", source)],
            &[
                "a.rs:6: opens an example with `````",
                "a.rs:11: opens an example with ````rust,no_run`",
            ],
        );
    }

    #[test]
    fn a_comment_that_says_more_is_left_alone() {
        let source = "//! The loop of training.\n\n/// The device.\n///\n/// It is open.\nstruct Run;\n\
                      // The rest.\nconst TEXT: &str = \"/// The device.\"; // The text.\n/// Nothing.\nfn f() {}\n";
        check(violations, [("a.rs", source)], &[]);
    }
}
