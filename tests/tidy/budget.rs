//! Budgets: how long a file and a function may be.

use crate::rust;
use crate::tree::{Tree, Violation};

/// Lines a file may have, by how its path ends. The first match counts.
const FILE_LINES: [(&str, usize); 9] = [
    ("docs/ARCHITECTURE.md", 200),
    (".svelte", 300),
    (".rs", 600),
    (".ts", 600),
    (".js", 600),
    (".mjs", 600),
    (".py", 600),
    (".css", 600),
    (".metal", 600),
];

const FUNCTION_LINES: usize = 70;

const FILE_REASON: &str = "a file that is read in one sitting holds one idea; split it by idea, or exempt it with a \
                           reason in tests/tidy/exempt.rs";
const FUNCTION_REASON: &str = "a function that fits on a screen is understood at once; name its steps, or exempt it \
                               with a reason in tests/tidy/exempt.rs";
const STALE_REASON: &str = "an exemption that is not needed hides the next violation; delete it from \
                            tests/tidy/exempt.rs";

/// Something that may be longer than its budget.
pub(crate) struct Exempt {
    pub(crate) path: &'static str,
    /// A function's name, or nothing for the file itself.
    pub(crate) function: Option<&'static str>,
    pub(crate) reason: &'static str,
}

pub(crate) fn violations(tree: &Tree, exempt: &[Exempt]) -> Vec<Violation> {
    let mut used = vec![false; exempt.len()];
    let mut is_exempt = |path: &str, function: Option<&str>| {
        let entry = exempt
            .iter()
            .position(|it| it.path == path && it.function == function && !it.reason.is_empty());
        if let Some(entry) = entry {
            used[entry] = true;
        }
        entry.is_some()
    };

    let mut found = Vec::new();
    for (path, file) in tree.files() {
        let lines = file.text.lines().count();
        let budget = FILE_LINES.iter().find(|(end, _)| path.ends_with(end));
        if let Some(&(_, budget)) = budget
            && lines > budget
            && !is_exempt(path, None)
        {
            found.push(Violation {
                place: path.to_owned(),
                problem: format!("{lines} lines, {budget} at most"),
                reason: FILE_REASON,
            });
        }
    }
    for (path, file) in tree.rust_files() {
        for function in rust::functions(&rust::code(&file.text)) {
            if function.lines > FUNCTION_LINES && !is_exempt(path, Some(&function.name)) {
                found.push(Violation {
                    place: format!("{path}:{}", function.first_line),
                    problem: format!(
                        "`{}` has {} lines, {FUNCTION_LINES} at most",
                        function.name, function.lines
                    ),
                    reason: FUNCTION_REASON,
                });
            }
        }
    }
    let stale = exempt.iter().zip(used).filter(|(_, used)| !used);
    found.extend(stale.map(|(entry, _)| Violation {
        place: entry.path.to_owned(),
        problem: format!(
            "the exemption of {} is not needed",
            entry.function.unwrap_or("the file")
        ),
        reason: STALE_REASON,
    }));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::check;

    fn function(name: &str, lines: usize) -> String {
        format!("fn {name}() {{\n{}}}\n", "    step();\n".repeat(lines - 2))
    }

    #[test]
    fn a_long_file_is_found_and_one_at_its_budget_is_not() {
        check(
            |tree| violations(tree, &[]),
            [
                ("a.rs", &"//\n".repeat(600)),
                ("b.rs", &"//\n".repeat(601)),
                ("c.svelte", &"<p>\n".repeat(301)),
                ("docs/ARCHITECTURE.md", &"word\n".repeat(201)),
                ("d.json", &"1\n".repeat(9000)),
            ],
            &[
                "b.rs: 601 lines, 600 at most",
                "c.svelte: 301 lines, 300 at most",
                "docs/ARCHITECTURE.md: 201 lines, 200 at most",
            ],
        );
    }

    #[test]
    fn a_long_function_is_found_and_one_at_its_budget_is_not() {
        let text = function("short", 70) + &function("long", 71);
        check(
            |tree| violations(tree, &[]),
            [("a.rs", &text)],
            &["a.rs:71: `long` has 71 lines, 70 at most"],
        );
    }

    #[test]
    fn an_exemption_silences_its_violation_and_a_stale_one_is_found() {
        let exempt = |function| Exempt {
            path: "a.rs",
            function,
            reason: "A table.",
        };
        check(
            |tree| violations(tree, &[exempt(Some("long")), exempt(Some("gone"))]),
            [("a.rs", &function("long", 100))],
            &["a.rs: the exemption of gone is not needed"],
        );
    }

    #[test]
    fn an_exemption_without_a_reason_does_not_count() {
        let exempt = Exempt {
            path: "a.rs",
            function: Some("long"),
            reason: "",
        };
        check(
            |tree| violations(tree, std::slice::from_ref(&exempt)),
            [("a.rs", &function("long", 71))],
            &[
                "a.rs:1: `long` has 71 lines, 70 at most",
                "a.rs: the exemption of long is not needed",
            ],
        );
    }
}
