//! Has clang read what was translated: a compiler that is not Apple's, but that knows vectors and address spaces.

use std::{env, process::Command};

use crate::kernels;

/// The compiler, by the name that Debian gives it. ANNEAL_CLANG names another.
fn compiler() -> String {
    env::var("ANNEAL_CLANG").unwrap_or_else(|_| "clang-14".to_owned())
}

/// Whether the compiler is there.
pub fn is_there() -> bool {
    Command::new(compiler())
        .arg("--version")
        .output()
        .is_ok_and(|it| it.status.success())
}

/// How many files it accepts: all of them.
///
/// Errors: its words for those that it refuses.
pub fn read_all() -> Result<usize, String> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/shim/read");
    let folder = kernels::folder().join("msl");
    let files = folder
        .read_dir()
        .map_err(|problem| format!("{}: {problem}", folder.display()))?;
    let files = files.flatten().map(|it| it.path());
    let files: Vec<_> = files
        .filter(|it| it.extension().is_some_and(|it| it == "metal"))
        .collect();
    let output = Command::new(script).arg(compiler()).args(&files).output();
    let output = output.map_err(|problem| format!("{script}: {problem}"))?;
    match output.status.success() && !files.is_empty() {
        true => Ok(files.len()),
        false => Err(String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr)),
    }
}
