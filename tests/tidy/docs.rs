//! What a doc comment says beyond the name that it stands beside.

use crate::tree::{Tree, Violation};

const MARKERS: [&str; 2] = ["///", "//!"];
const ARTICLES: [&str; 3] = ["The", "A", "An"];
const REASON: &str = "the name beside it says as much; say what it is for, its shape, unit or bounds, or where it comes \
                      from, or leave the comment out where none is needed";

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
    fn a_comment_that_says_more_is_left_alone() {
        let source = "//! The loop of training.\n\n/// The device.\n///\n/// It is open.\nstruct Run;\n\
                      // The rest.\nconst TEXT: &str = \"/// The device.\"; // The text.\n/// Nothing.\nfn f() {}\n";
        check(violations, [("a.rs", source)], &[]);
    }
}
