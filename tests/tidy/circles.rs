//! The ground knows nothing that stands on it, not even by way of others.

use std::collections::{BTreeMap, BTreeSet};

use crate::direction::{module_of, resolve};
use crate::rust;
use crate::tree::{Tree, Violation};

const CRATE_ROOT: &str = "models/src/";

/// Modules to which no chain of imports that starts at them leads back.
const GROUND: [&str; 2] = ["parameters", "tape"];

const REASON: &str =
    "modules that know each other can only be read together; what both need belongs below them";

pub(crate) fn violations(tree: &Tree) -> Vec<Violation> {
    let imports = imports(tree);
    let violation = |module: &&str| {
        let circle = circle(module, &imports)?;
        Some(Violation {
            place: format!("{CRATE_ROOT}{module}"),
            problem: format!("knows itself: `{}`", circle.join("` imports `")),
            reason: REASON,
        })
    };
    GROUND.iter().filter_map(violation).collect()
}

/// Which modules of the crate each of them imports. A file is a module; what it declares is not an import.
fn imports(tree: &Tree) -> BTreeMap<String, BTreeSet<String>> {
    let files = tree.rust_files().filter_map(|(path, file)| {
        let module = module_of(path.strip_prefix(CRATE_ROOT)?);
        Some((module, rust::paths(&rust::code_without_tests(&file.text))))
    });
    let files: Vec<_> = files.collect();
    let known: BTreeSet<String> = files.iter().map(|(module, _)| module.join("::")).collect();
    let module_in = |path: &[String]| {
        let starts = (1..=path.len())
            .rev()
            .map(|length| path[..length].join("::"));
        starts.into_iter().find(|start| known.contains(start))
    };
    files
        .iter()
        .map(|(module, paths)| {
            let paths = paths.iter().filter_map(|(_, path)| resolve(module, path));
            let imported = paths.filter_map(|path| module_in(&path));
            (module.join("::"), imported.collect())
        })
        .collect()
}

/// A shortest chain of imports from a module back to itself.
fn circle(module: &str, imports: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<String>> {
    let mut seen = BTreeSet::from([module.to_owned()]);
    let mut chains = vec![vec![module.to_owned()]];
    while !chains.is_empty() {
        let mut longer = Vec::new();
        for chain in chains {
            let imported = chain.last().and_then(|last| imports.get(last));
            for next in imported.into_iter().flatten() {
                let own = chain.last() == Some(next);
                if next == module && !own {
                    return Some([chain, vec![next.clone()]].concat());
                }
                if seen.insert(next.clone()) {
                    longer.push([chain.clone(), vec![next.clone()]].concat());
                }
            }
        }
        chains = longer;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::check;

    #[test]
    fn a_circle_is_found_however_long_it_is() {
        check(
            violations,
            [
                (
                    "models/src/parameters.rs",
                    "use crate::tape::{Tape, Value};\nuse crate::{Error, parameters::Parameter};",
                ),
                (
                    "models/src/tape.rs",
                    "use crate::ops::{elementwise, kernels::Kernel};",
                ),
                (
                    "models/src/ops/mod.rs",
                    "pub mod elementwise;\npub mod kernels;",
                ),
                ("models/src/ops/elementwise.rs", "use super::gated::gated;"),
                (
                    "models/src/ops/gated.rs",
                    "use super::kernels::Kernel;\nfn f() { crate::tape::Value::record() }",
                ),
                (
                    "models/src/ops/kernels/mod.rs",
                    "#[cfg(test)]\nmod tests { use crate::tape::Tape; }",
                ),
            ],
            &[
                "models/src/tape: knows itself: `tape` imports `ops::elementwise` imports `ops::gated` imports `tape`",
            ],
        );
    }
}
