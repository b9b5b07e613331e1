//! Committed text speaks of the project: no notes to oneself, nothing of the machine it was written on.

use crate::tree::{Tree, Violation};

struct Banned {
    /// In two halves, so that this file does not hold what it forbids.
    words: (&'static str, &'static str),
    /// A file that needs it.
    except: Option<&'static str>,
    reason: &'static str,
}

const NOTE_REASON: &str =
    "a note to oneself is never read again; do it, or describe the limit where a user meets it";
const PATH_REASON: &str =
    "it is a path of the machine this was written on, and means nothing on another";
const PLACE_REASON: &str = "it speaks of the place where this was written, not of the project";

const BANNED: [Banned; 9] = [
    Banned {
        words: ("TO", "DO"),
        except: None,
        reason: NOTE_REASON,
    },
    Banned {
        words: ("FIX", "ME"),
        except: None,
        reason: NOTE_REASON,
    },
    Banned {
        words: ("X", "XX"),
        except: None,
        reason: NOTE_REASON,
    },
    Banned {
        words: ("/wo", "rk/"),
        except: None,
        reason: PATH_REASON,
    },
    Banned {
        words: ("/ro", "ot/"),
        except: None,
        reason: PATH_REASON,
    },
    Banned {
        words: ("shared", "/tools"),
        except: Some(".ci/run"),
        reason: PLACE_REASON,
    },
    Banned {
        words: ("this ", "workplace"),
        except: None,
        reason: PLACE_REASON,
    },
    Banned {
        words: ("previous ", "session"),
        except: None,
        reason: PLACE_REASON,
    },
    Banned {
        words: ("AI ", "assistant"),
        except: None,
        reason: PLACE_REASON,
    },
];

pub(crate) fn violations(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, file) in tree.files() {
        for banned in &BANNED {
            let words = format!("{}{}", banned.words.0, banned.words.1);
            if banned.except == Some(path) {
                continue;
            }
            for (index, line) in file.text.lines().enumerate() {
                if stands_alone(line, &words) {
                    found.push(Violation {
                        place: format!("{path}:{}", index + 1),
                        problem: format!("says `{words}`"),
                        reason: banned.reason,
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
            "DON, https://a.b/wo",
            "rk/\n",
        ];
        let readme = [
            "Run shared",
            "/tools/x.\nSee ../wo",
            "rk/ and (/wo",
            "rk/main).",
        ];
        check(
            violations,
            [("README.md", &readme.concat()), ("a.rs", &source.concat())],
            &[
                &["README.md:2: says `/wo", "rk/`"].concat(),
                &["README.md:1: says `shared", "/tools`"].concat(),
                &["a.rs:1: says `TO", "DO`"].concat(),
                &["a.rs:2: says `/ro", "ot/`"].concat(),
            ],
        );
    }

    #[test]
    fn a_file_that_needs_the_words_may_have_them() {
        let text = ["../shared", "/tools/check"].concat();
        check(violations, [(".ci/run", &text)], &[]);
    }
}
