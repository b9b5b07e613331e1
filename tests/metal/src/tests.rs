//! What must hold of the kernels on every machine, and with a Vulkan driver or clang where there is one.

use crate::{
    check::{self, committed},
    clang,
    device::Gpu,
    kernels, mutations, translate,
};

#[test]
fn what_is_committed_is_what_naga_writes() {
    let outdated = translate::outdated(&kernels::folder().join("msl"));
    let advice = "run `cargo run --manifest-path tests/metal/Cargo.toml -- translate`";
    assert!(outdated.is_empty(), "{outdated:?} differ; {advice}");
}

#[test]
fn every_kernel_computes_what_its_reference_does_in_every_storage() {
    let Some(gpu) = gpu() else { return };
    let outcomes = check::all(&gpu, "", &committed);
    let wrong = outcomes.iter().filter(|it| !it.is_right());
    let wrong: Vec<String> = wrong
        .map(|it| {
            format!(
                "{} {}: {:.1e} {:?}",
                it.storage, it.what, it.error, it.problem
            )
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("{}: {} comparisons", gpu.name, outcomes.len());
}

#[test]
fn what_is_broken_on_purpose_is_found() {
    let Some(gpu) = gpu() else { return };
    for it in mutations::all(&gpu) {
        assert!(it.failed > 0, "nothing finds this: {}", it.what);
    }
}

#[test]
fn clang_accepts_every_file() {
    if !clang::is_there() {
        eprintln!("SKIPPED: there is no clang-14, and ANNEAL_CLANG names no other.");
        return;
    }
    clang::read_all().unwrap_or_else(|problem| panic!("{problem}"));
}

/// ANNEAL_NEED_VULKAN makes its absence a failure, so that a machine that is set up for these tests can't skip them.
fn gpu() -> Option<Gpu> {
    match Gpu::new() {
        Ok(gpu) => Some(gpu),
        Err(problem) if std::env::var_os("ANNEAL_NEED_VULKAN").is_some() => panic!("{problem}"),
        Err(problem) => {
            eprintln!("SKIPPED: {problem}");
            None
        }
    }
}
