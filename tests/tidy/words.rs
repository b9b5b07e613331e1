//! What no committed text holds: notes to oneself, and what is true only on the machine it was written on.

use crate::tree::{Tree, Violation};

/// Words that no text may hold, in two halves, so that this file does not hold them.
struct Banned {
    words: &'static [(&'static str, &'static str)],
    /// Where, as the beginning of a path.
    below: &'static str,
    reason: &'static str,
}

const BANNED: [Banned; 3] = [
    Banned {
        words: &[("TO", "DO"), ("FIX", "ME"), ("X", "XX")],
        below: "",
        reason: "a note to oneself is never read again; do it, or describe the limit where a user meets it",
    },
    Banned {
        words: &[("/ro", "ot/"), ("/ho", "me/")],
        below: "",
        reason: "it is a path of the machine this was written on, and means nothing on another",
    },
    // The pages' made-up app says what it likes; what a test expects of the program is there on every machine.
    Banned {
        words: &[
            ("EP", "YC"),
            ("Xe", "on"),
            ("Ry", "zen"),
            ("Core(", "TM)"),
            ("Apple ", "M1"),
            ("Apple ", "M2"),
            ("Apple ", "M3"),
            ("Apple ", "M4"),
        ],
        below: "tests/app/expected/",
        reason: "the test fails on every other processor; have the test put a word in place of the name",
    },
];

pub(crate) fn violations(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, file) in tree.files() {
        let banned = BANNED.iter().filter(|it| path.starts_with(it.below));
        let banned = banned.flat_map(|it| it.words.iter().map(|words| (words, it.reason)));
        for ((first, second), reason) in banned {
            let words = format!("{first}{second}");
            for (index, line) in file.text.lines().enumerate() {
                if stands_alone(line, &words) {
                    found.push(Violation {
                        place: format!("{path}:{}", index + 1),
                        problem: format!("says `{words}`"),
                        reason,
                    });
                }
            }
        }
    }
    found
}

/// Whether the words stand in the line and are no part of a longer word, path or address.
fn stands_alone(line: &str, words: &str) -> bool {
    let belongs = |char: char| char.is_alphanumeric() || char == '_';
    line.match_indices(words).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + words.len()..].chars().next();
        let ends_open = words.ends_with('/');
        !before.is_some_and(|it| belongs(it) || (ends_open && ".-~}".contains(it)))
            && (ends_open || !after.is_some_and(belongs))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::check;

    #[test]
    fn notes_and_paths_of_a_machine_are_found_in_every_text() {
        let source = [
            "// TO",
            "DO later\nlet x = \"/ro",
            "ot/.cargo\";\n// MASTO",
            "DON, https://a.b/ho",
            "me/\n",
        ];
        let readme = [
            "See ~/ho",
            "me/x and ../ho",
            "me/x.\nIt lies in (/ho",
            "me/mira/models).",
        ];
        check(
            violations,
            [("README.md", &readme.concat()), ("a.rs", &source.concat())],
            &[
                &["README.md:2: says `/ho", "me/`"].concat(),
                &["a.rs:1: says `TO", "DO`"].concat(),
                &["a.rs:2: says `/ro", "ot/`"].concat(),
            ],
        );
    }

    #[test]
    fn what_is_expected_of_the_program_names_no_processor() {
        let plan = ["# AMD EP", "YC (cpu) was asked for."].concat();
        check(
            violations,
            [
                ("tests/app/bench.rs", &plan),
                ("tests/app/expected/plan.txt", &plan),
            ],
            &[&["tests/app/expected/plan.txt:1: says `EP", "YC`"].concat()],
        );
    }
}
