//! Who may know whom. The picture is in docs/ARCHITECTURE.md; here is what a program can check of it.

use crate::rust;
use crate::tree::{Tree, Violation};

/// Modules that must not import others of the same crate.
struct Direction {
    /// The folder of the crate's root module.
    crate_root: &'static str,
    from: &'static [&'static str],
    never: &'static [&'static str],
    reason: &'static str,
}

const DIRECTIONS: [Direction; 4] = [
    Direction {
        crate_root: "models/src/",
        from: &["ops", "tape"],
        never: &["arch", "data", "train"],
        reason: "operations are the ground: they know tensors and the tape, not who uses them",
    },
    Direction {
        crate_root: "models/src/",
        from: &["arch"],
        never: &["checkpoint::save", "data::loader", "tasks", "train"],
        reason: "an architecture says how numbers flow; where they come from and go to is not its business",
    },
    Direction {
        crate_root: "models/src/",
        from: &["data"],
        never: &["arch", "train"],
        reason: "data is the same for every model and every way of learning",
    },
    Direction {
        crate_root: "src-tauri/src/",
        from: &["store"],
        never: &["cli", "commands", "jobs"],
        reason: "the store knows folders and files; the shells and the jobs stand on it",
    },
];

/// Words that may stand only in some places, tests aside.
struct Ban {
    within: &'static [&'static str],
    except: &'static [&'static str],
    /// `name` is that word anywhere, `name!` a macro, `name::` the start of a path, `a::b` a part of a path.
    words: &'static [&'static str],
    reason: &'static str,
}

const BANS: [Ban; 6] = [
    Ban {
        within: &["models/src/"],
        except: &[],
        words: &["async", "tokio", "tauri"],
        reason: "models is plain calls: whoever wants threads, async or a window puts it around them",
    },
    Ban {
        within: &["models/src/"],
        except: &[],
        words: &["dbg!", "eprint!", "eprintln!", "print!", "println!"],
        reason: "models is silent: it tells its observer, and the shell decides what is shown",
    },
    Ban {
        within: &["models/src/"],
        except: &[],
        words: &[
            "env::home_dir",
            "env::temp_dir",
            "env::var",
            "env::var_os",
            "env::vars",
        ],
        reason: "models reads no environment, so that the same plan means the same everywhere; take a parameter",
    },
    Ban {
        within: &["models/src/"],
        except: &[],
        words: &["SystemTime::now", "chrono::", "jiff::"],
        reason: "models knows durations, not dates, so that a run can be repeated; take a parameter",
    },
    Ban {
        within: &["models/src/", "src-tauri/src/"],
        except: &["src-tauri/src/hub.rs", "src-tauri/src/hub/"],
        words: &[
            "hf_hub",
            "hyper::",
            "reqwest",
            "std::net",
            "tokio::net",
            "ureq",
        ],
        reason: "only the hub talks to the network, so that one place asks, retries and can be switched off",
    },
    Ban {
        within: &["models/src/", "src-tauri/src/"],
        except: &["src-tauri/src/store.rs", "src-tauri/src/store/"],
        words: &["directories::", "dirs::", "env::home_dir"],
        reason: "only the store knows the platform's folders, so that they can be moved and tests have their own",
    },
];

pub(crate) fn violations(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, file) in tree.rust_files() {
        let code = rust::code_without_tests(&file.text);
        for direction in &DIRECTIONS {
            for (line, import) in forbidden_imports(direction, path, &code) {
                found.push(Violation {
                    place: format!("{path}:{line}"),
                    problem: format!("knows `{import}`"),
                    reason: direction.reason,
                });
            }
        }
        for ban in &BANS {
            let is_in = |places: &[&str]| places.iter().any(|place| path.starts_with(place));
            if !is_in(ban.within) || is_in(ban.except) {
                continue;
            }
            for (line, word) in mentions(ban.words, &code) {
                found.push(Violation {
                    place: format!("{path}:{line}"),
                    problem: format!("mentions `{word}`"),
                    reason: ban.reason,
                });
            }
        }
    }
    found
}

fn forbidden_imports(direction: &Direction, path: &str, code: &str) -> Vec<(usize, String)> {
    let Some(module) = path.strip_prefix(direction.crate_root).map(module_of) else {
        return Vec::new();
    };
    if !direction.from.iter().any(|from| starts_with(&module, from)) {
        return Vec::new();
    }
    rust::paths(code)
        .into_iter()
        .filter_map(|(line, path)| Some((line, resolve(&module, &path)?)))
        .filter(|(_, path)| direction.never.iter().any(|never| starts_with(path, never)))
        .map(|(line, path)| (line, path.join("::")))
        .collect()
}

fn mentions<'a>(banned: &[&'a str], code: &str) -> Vec<(usize, &'a str)> {
    let mut found = Vec::new();
    for (at, word) in rust::words(code) {
        let is_macro = code[at + word.len()..].starts_with('!');
        let is_banned = |it: &&&str| match it.strip_suffix('!') {
            Some(name) => is_macro && name == word,
            None => **it == word,
        };
        found.extend(
            banned
                .iter()
                .find(is_banned)
                .map(|it| (rust::line_of(code, at), *it)),
        );
    }
    for (line, path) in rust::paths(code) {
        let is_banned = |it: &&&str| match it.strip_suffix("::") {
            Some(first) => path[0] == first,
            None => {
                it.contains("::")
                    && format!("::{}::", path.join("::")).contains(&format!("::{it}::"))
            }
        };
        found.extend(banned.iter().find(is_banned).map(|it| (line, *it)));
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// `ops/norm.rs` is the module `ops::norm`, `ops/mod.rs` is `ops`, `lib.rs` is the root.
pub(crate) fn module_of(path: &str) -> Vec<String> {
    let path = path.trim_end_matches(".rs");
    let parts = path
        .split('/')
        .filter(|part| !["lib", "main", "mod"].contains(part));
    parts.map(str::to_owned).collect()
}

/// A path from the root of the crate, or nothing if it leads into another crate.
pub(crate) fn resolve(module: &[String], path: &[String]) -> Option<Vec<String>> {
    let supers = path.iter().take_while(|part| *part == "super").count();
    let (base, rest) = match path.first()?.as_str() {
        "crate" => (&[][..], &path[1..]),
        "self" => (module, &path[1..]),
        "super" => (
            &module[..module.len().saturating_sub(supers)],
            &path[supers..],
        ),
        _ => return None,
    };
    Some([base, rest].concat())
}

fn starts_with(path: &[String], start: &str) -> bool {
    let mut parts = path.iter();
    start
        .split("::")
        .all(|part| parts.next().is_some_and(|it| it == part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::check;

    #[test]
    fn an_import_against_the_direction_is_found_in_every_spelling() {
        check(
            violations,
            [
                (
                    "models/src/arch/mod.rs",
                    "use crate::ops::norm;\nuse crate::checkpoint::load;",
                ),
                (
                    "models/src/arch/trm.rs",
                    "use crate::{ops, checkpoint::{load, save}};",
                ),
                ("models/src/data/mod.rs", "fn f() { super::train::run() }"),
                (
                    "models/src/ops/norm.rs",
                    "use super::super::arch::Decoder;\nuse super::arch_of;",
                ),
                (
                    "models/src/tape.rs",
                    "// use crate::train;\nuse crate::training::x;",
                ),
                ("models/src/train/mod.rs", "use crate::arch::Decoder;"),
                ("src-tauri/src/store/paths.rs", "use crate::cli::Arguments;"),
            ],
            &[
                "models/src/arch/trm.rs:1: knows `checkpoint::save`",
                "models/src/data/mod.rs:1: knows `train::run`",
                "models/src/ops/norm.rs:1: knows `arch::Decoder`",
                "src-tauri/src/store/paths.rs:1: knows `cli::Arguments`",
            ],
        );
    }

    #[test]
    fn what_models_must_not_do_is_found_outside_its_tests() {
        check(
            violations,
            [(
                "models/src/train/mod.rs",
                "use tokio::task;\nuse std::{env, time::SystemTime};\nasync fn f() {\n    println!(\"hello\");\n    \
                 env::var(\"HOME\");\n    SystemTime::now();\n    let print = \"println!\";\n}\n\
                 #[cfg(test)]\nmod tests { fn f() { println!(); } }\n",
            )],
            &[
                "models/src/train/mod.rs:1: mentions `tokio`",
                "models/src/train/mod.rs:3: mentions `async`",
                "models/src/train/mod.rs:4: mentions `println!`",
                "models/src/train/mod.rs:5: mentions `env::var`",
                "models/src/train/mod.rs:6: mentions `SystemTime::now`",
            ],
        );
    }

    #[test]
    fn only_the_hub_has_a_network_and_only_the_store_has_folders() {
        check(
            violations,
            [
                (
                    "src-tauri/src/cli/train.rs",
                    "use std::net::TcpStream;\nlet directories = 1;",
                ),
                (
                    "src-tauri/src/host.rs",
                    "directories::ProjectDirs::from();\nuse reqwest::Client;",
                ),
                ("src-tauri/src/hub/mod.rs", "use hf_hub::api;"),
                (
                    "src-tauri/src/store/mod.rs",
                    "use directories::ProjectDirs;",
                ),
            ],
            &[
                "src-tauri/src/cli/train.rs:1: mentions `std::net`",
                "src-tauri/src/host.rs:2: mentions `reqwest`",
                "src-tauri/src/host.rs:1: mentions `directories::`",
            ],
        );
    }
}
