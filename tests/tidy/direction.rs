//! Who may know whom. The picture is in docs/ARCHITECTURE.md; here is what a program can check of it.

use crate::rust::{self, Token};
use crate::tree::{Tree, Violation};

/// The modules of a crate, from the ground up, each with those that it may import: all of them stand above it here.
struct Map {
    crate_root: &'static str,
    modules: &'static [(&'static str, &'static [&'static str])],
}

const MAPS: [Map; 2] = [
    Map {
        crate_root: "models/src/",
        modules: &[
            ("error", &[]),
            ("embedded", &[]),
            ("instead", &[]),
            ("figures", &[]),
            ("limits", &["figures"]),
            ("random", &[]),
            ("library", &[]),
            ("gguf", &["figures", "limits"]),
            ("profile", &[]),
            ("tape", &["profile"]),
            ("parameters", &["tape"]),
            ("ops", &["library", "profile", "random", "tape"]),
            ("device", &["embedded", "library"]),
            (
                "data",
                &["embedded", "figures", "gguf", "instead", "limits", "random"],
            ),
            (
                "arch",
                &["embedded", "ops", "parameters", "profile", "random", "tape"],
            ),
            ("optim", &["ops", "parameters", "random", "tape"]),
            (
                "checkpoint",
                &[
                    "arch", "embedded", "figures", "gguf", "instead", "limits", "ops",
                ],
            ),
            ("generate", &["arch", "data", "ops", "profile", "random"]),
            (
                "check",
                &[
                    "arch",
                    "device",
                    "ops",
                    "optim",
                    "parameters",
                    "random",
                    "tape",
                ],
            ),
            (
                "train",
                &[
                    "checkpoint",
                    "device",
                    "figures",
                    "library",
                    "limits",
                    "ops",
                    "optim",
                    "parameters",
                    "profile",
                    "random",
                    "tape",
                ],
            ),
            (
                "tasks",
                &[
                    "arch",
                    "checkpoint",
                    "data",
                    "device",
                    "embedded",
                    "figures",
                    "generate",
                    "gguf",
                    "limits",
                    "ops",
                    "optim",
                    "parameters",
                    "random",
                    "tape",
                    "train",
                ],
            ),
            (
                "bench",
                &[
                    "arch",
                    "data",
                    "device",
                    "embedded",
                    "figures",
                    "ops",
                    "parameters",
                    "profile",
                    "random",
                    "tape",
                    "tasks",
                    "train",
                ],
            ),
        ],
    },
    Map {
        crate_root: "src-tauri/src/",
        modules: &[
            ("lock", &[]),
            ("wire", &[]),
            ("power", &[]),
            ("ranks", &["lock", "wire"]),
            ("store", &["power", "wire"]),
            ("hub", &["lock", "store", "wire"]),
            ("jobs", &["lock", "power", "ranks", "store", "wire"]),
            (
                "host",
                &["hub", "jobs", "lock", "power", "ranks", "store", "wire"],
            ),
            ("serve", &["host", "lock", "wire"]),
            (
                "commands",
                &["host", "hub", "jobs", "lock", "serve", "store", "wire"],
            ),
            (
                "app",
                &["commands", "host", "hub", "lock", "power", "store", "wire"],
            ),
            (
                "cli",
                &[
                    "app", "host", "hub", "jobs", "lock", "ranks", "serve", "store", "wire",
                ],
            ),
        ],
    },
];

/// An import that no arrow of the map allows.
struct Exception {
    crate_root: &'static str,
    from: &'static str,
    to: &'static str,
    /// Why it is there all the same.
    reason: &'static str,
}

const EXCEPTIONS: [Exception; 1] = [Exception {
    crate_root: "models/src/",
    from: "tape",
    to: "ops",
    reason: "gradients of a value that is used twice are added by the kernel of `add`",
}];

const MAP_REASON: &str = "the map of docs/ARCHITECTURE.md is what a reader trusts; a new arrow needs a decision in \
                          docs/decisions and its place in the table of tests/tidy/direction.rs";

/// Words that may stand only in some places, tests aside.
struct Ban {
    within: &'static [&'static str],
    except: &'static [&'static str],
    /// `name` is that word anywhere, `name!` a macro, `name::` the start of a path, `a::b` a part of a path.
    words: &'static [&'static str],
    reason: &'static str,
}

/// A test that needs a program beside it is told which, and says so where there is none.
const IN_PLACE_OF_A_MAC: &str = "models/src/ops/kernels/metal/tests/";

const BANS: [Ban; 6] = [
    Ban {
        within: &["models/src/"],
        except: &[],
        words: &["async", "tokio", "tauri"],
        reason: "models is plain calls: whoever wants threads, async or a window puts it around them",
    },
    Ban {
        within: &["models/src/"],
        except: &[IN_PLACE_OF_A_MAC],
        words: &["dbg!", "eprint!", "eprintln!", "print!", "println!"],
        reason: "models is silent: it tells its observer, and the shell decides what is shown",
    },
    Ban {
        within: &["models/src/"],
        except: &[IN_PLACE_OF_A_MAC],
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
        except: &[
            "src-tauri/src/hub.rs",
            "src-tauri/src/hub/",
            "src-tauri/src/ranks/",
            "src-tauri/src/serve/",
            "src-tauri/src/commands/tests/serving.rs",
        ],
        words: &[
            "axum::",
            "hf_hub",
            "hyper::",
            "reqwest",
            "std::net",
            "tokio::net",
            "ureq",
        ],
        reason: "only the hub asks the network, only the server is asked, and only ranks of one run meet, so that one place each has its rules",
    },
    Ban {
        within: &["models/src/", "src-tauri/src/"],
        except: &["src-tauri/src/store.rs", "src-tauri/src/store/"],
        words: &["directories::", "dirs::", "env::home_dir"],
        reason: "only the store knows the platform's folders, so that they can be moved and tests have their own",
    },
];

pub(crate) fn violations(tree: &Tree) -> Vec<Violation> {
    let imports = imports(tree).into_iter().filter(|it| !it.is_allowed());
    let mut found: Vec<Violation> = imports
        .map(|it| Violation {
            place: format!("{}:{}", it.path, it.line),
            problem: format!("knows `{}`", it.import),
            reason: MAP_REASON,
        })
        .collect();
    for (path, file) in tree.rust_files() {
        let code = rust::code_without_tests(&file.text);
        let paths = rust::paths(&code);
        for ban in &BANS {
            let is_in = |places: &[&str]| places.iter().any(|place| path.starts_with(place));
            if !is_in(ban.within) || is_in(ban.except) {
                continue;
            }
            for (line, word) in mentions(ban.words, &code, &paths) {
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

/// Whether the map has a row for every module, an import for every arrow and exception, and is drawn as it is.
pub(crate) fn map_violations(tree: &Tree) -> Vec<Violation> {
    let mut problems = Vec::new();
    let imports = imports(tree);
    let is_used = |root: &str, from: &str, to: &str| {
        let mut imports = imports.iter().filter(|it| it.map.crate_root == root);
        imports.any(|it| starts_with(&it.module, from) && it.to == to)
    };
    let shown = tree.text("docs/ARCHITECTURE.md").unwrap_or_default();
    for map in &MAPS {
        let root = map.crate_root;
        for (path, module) in files_of(map, tree) {
            if map.row(&module[0]).is_none() {
                problems.push(format!("`{path}` has no row in the map"));
            }
        }
        for (from, to) in map.arrows() {
            if !is_used(root, from, to) {
                problems.push(format!("no `{from}` in {root} imports `{to}` any more"));
            }
        }
        if !shown.contains(&map.drawn()) {
            let drawn = map.drawn();
            problems.push(format!("docs/ARCHITECTURE.md should draw:\n\n{drawn}"));
        }
    }
    for Exception {
        crate_root,
        from,
        to,
        reason,
    } in &EXCEPTIONS
    {
        if !is_used(crate_root, from, to) {
            problems.push(format!(
                "`{from}` does not import `{to}` any more, so there is no exception: {reason}"
            ));
        }
    }
    let violation = |problem| Violation {
        place: "the map".to_owned(),
        problem,
        reason: MAP_REASON,
    };
    problems.into_iter().map(violation).collect()
}

impl Map {
    fn row(&self, module: &str) -> Option<&'static [&'static str]> {
        let mut rows = self.modules.iter();
        rows.find(|(name, _)| *name == module).map(|(_, to)| *to)
    }

    fn arrows(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let rows = self.modules.iter();
        rows.flat_map(|(from, to)| to.iter().map(move |to| (*from, *to)))
    }

    /// The map as text, from the top down.
    fn drawn(&self) -> String {
        let rows = self
            .modules
            .iter()
            .rev()
            .map(|(from, to)| match to.is_empty() {
                true => format!("  {from}\n"),
                false => format!("  {from:<10} ─► {}\n", to.join(", ")),
            });
        format!("{}\n{}", self.crate_root, rows.collect::<String>())
    }
}

/// One module of a crate naming another.
struct Import<'a> {
    map: &'static Map,
    path: &'a str,
    line: usize,
    module: Vec<String>,
    /// The module that is named.
    to: String,
    /// All that is named.
    import: String,
}

impl Import<'_> {
    fn is_allowed(&self) -> bool {
        let row = self.map.row(&self.module[0]).unwrap_or_default();
        let is_this = |it: &Exception| {
            it.crate_root == self.map.crate_root
                && it.to == self.to
                && starts_with(&self.module, it.from)
        };
        row.contains(&self.to.as_str()) || EXCEPTIONS.iter().any(is_this)
    }
}

fn imports(tree: &Tree) -> Vec<Import<'_>> {
    let mut found = Vec::new();
    for map in &MAPS {
        for (path, module) in files_of(map, tree) {
            let code = rust::code_without_tests(tree.text(path).unwrap_or_default());
            for (line, named) in rust::paths(&code) {
                let named = resolve(&module, &named).unwrap_or_default();
                // What is no module is an item of the crate's root, such as its error.
                let to = named.first().filter(|it| map.row(it).is_some());
                let Some(to) = to.filter(|it| **it != module[0]) else {
                    continue;
                };
                found.push(Import {
                    map,
                    path,
                    line,
                    module: module.clone(),
                    to: to.clone(),
                    import: named.join("::"),
                });
            }
        }
    }
    found
}

/// The files of a crate below its root that are not tests, and what module each is.
fn files_of<'a>(map: &Map, tree: &'a Tree) -> impl Iterator<Item = (&'a str, Vec<String>)> {
    let root = map.crate_root;
    tree.rust_files().filter_map(move |(path, _)| {
        let module = module_of(path.strip_prefix(root)?);
        let is_test = module.iter().any(|part| part == "tests");
        (!module.is_empty() && !is_test).then_some((path, module))
    })
}

fn mentions<'a>(
    banned: &[&'a str],
    code: &[Token],
    paths: &[(usize, Vec<String>)],
) -> Vec<(usize, &'a str)> {
    let mut found = Vec::new();
    for (at, token) in code.iter().enumerate() {
        let is_macro = code.get(at + 1).is_some_and(|next| next.text == "!");
        let is_banned = |it: &&&str| match it.strip_suffix('!') {
            Some(name) => is_macro && name == token.text,
            None => **it == token.text,
        };
        found.extend(banned.iter().find(is_banned).map(|it| (token.line, *it)));
    }
    for (line, path) in paths {
        let is_banned = |it: &&&str| match it.strip_suffix("::") {
            Some(first) => path[0] == first,
            None => {
                it.contains("::")
                    && format!("::{}::", path.join("::")).contains(&format!("::{it}::"))
            }
        };
        found.extend(banned.iter().find(is_banned).map(|it| (*line, *it)));
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
    fn an_import_against_the_map_is_found_in_every_spelling() {
        check(
            violations,
            [
                (
                    "models/src/arch/mod.rs",
                    "use crate::ops::norm;\nuse crate::checkpoint::load;",
                ),
                (
                    "models/src/arch/trm.rs",
                    "use crate::{Error, ops, checkpoint::{load, save}};",
                ),
                ("models/src/data/mod.rs", "fn f() { super::train::run() }"),
                (
                    "models/src/ops/norm.rs",
                    "use super::super::arch::Decoder;\nuse super::arch_of;",
                ),
                (
                    "models/src/parameters.rs",
                    "// use crate::train;\nuse crate::training::x;",
                ),
                ("models/src/train/mod.rs", "use crate::optim::Optimizer;"),
                ("src-tauri/src/store/paths.rs", "use crate::cli::Arguments;"),
                ("src-tauri/src/store/tests.rs", "use crate::cli::Arguments;"),
            ],
            &[
                "models/src/arch/mod.rs:2: knows `checkpoint::load`",
                "models/src/arch/trm.rs:1: knows `checkpoint::load`",
                "models/src/arch/trm.rs:1: knows `checkpoint::save`",
                "models/src/data/mod.rs:1: knows `train::run`",
                "models/src/ops/norm.rs:1: knows `arch::Decoder`",
                "src-tauri/src/store/paths.rs:1: knows `cli::Arguments`",
            ],
        );
    }

    #[test]
    fn an_exception_is_for_its_module_alone() {
        check(
            violations,
            [
                ("models/src/tape.rs", "use crate::ops::elementwise;"),
                ("models/src/parameters.rs", "use crate::ops::norm;"),
            ],
            &["models/src/parameters.rs:1: knows `ops::norm`"],
        );
    }

    #[test]
    fn no_arrow_of_the_map_runs_up() {
        for map in &MAPS {
            let place = |module| map.modules.iter().position(|(name, _)| *name == module);
            for (from, to) in map.arrows() {
                assert!(
                    place(to).is_some() && place(to) < place(from),
                    "{from} -> {to}"
                );
            }
        }
    }

    #[test]
    fn a_module_without_a_row_is_found() {
        let tree = Tree::of([("models/src/new/mod.rs", ""), ("models/src/lib.rs", "")]);
        let found = map_violations(&tree);
        let rows = found.iter().filter(|it| it.problem.contains("has no row"));
        let problems: Vec<&str> = rows.map(|it| it.problem.as_str()).collect();
        assert_eq!(problems, ["`models/src/new/mod.rs` has no row in the map"]);
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
