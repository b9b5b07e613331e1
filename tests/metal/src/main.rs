//! The kernels for Metal, from the command line: what a developer without a Mac does with them.

use std::{env, process::ExitCode, time::Instant};

use anneal_metal::{bench, check, clang, device::Gpu, kernels, mutations, serve, translate};

const USAGE: &str = "usage: anneal-metal COMMAND
  translate         writes models/src/ops/kernels/metal/msl anew
  check [FAMILY]    compares the kernels with references on Vulkan, whose name begins so or all
  mutate            breaks kernels on purpose, and sees that the comparisons find it
  clang             has clang read what was translated
  bench STORAGE     bytes per second of some kernels, in one of f32x4, f16x4, bf16x4
  serve             runs kernels for the tests of `models`, which ask on standard input";

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["translate"] => write_all(),
        ["check"] => on_gpu(|gpu| compare(gpu, "")),
        ["check", family] => on_gpu(|gpu| compare(gpu, family)),
        ["mutate"] => on_gpu(mutate),
        ["clang"] => clang::read_all().map(|count| println!("clang accepts {count} files")),
        ["bench", storage] => on_gpu(|gpu| bench::all(gpu, storage)),
        ["serve"] => on_gpu(serve::answer),
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

fn on_gpu(work: impl FnOnce(&Gpu) -> Result<(), String>) -> Result<(), String> {
    work(&Gpu::new()?)
}

fn write_all() -> Result<(), String> {
    let folder = kernels::folder().join("msl");
    let count = translate::write_all(&folder)
        .map_err(|problem| format!("{}: {problem}", folder.display()))?;
    println!("{count} files written");
    Ok(())
}

fn compare(gpu: &Gpu, family: &str) -> Result<(), String> {
    let started = Instant::now();
    let outcomes = check::all(gpu, family, &check::committed);
    for it in &outcomes {
        let verdict = match (&it.problem, it.is_right()) {
            (Some(problem), _) => problem,
            (None, true) => "ok",
            (None, false) => "WRONG",
        };
        println!(
            "{:7} {:32} {:9.2e} {verdict}",
            it.storage, it.what, it.error
        );
    }
    let wrong = outcomes.iter().filter(|it| !it.is_right()).count();
    let (all, seconds) = (outcomes.len(), started.elapsed().as_secs_f64());
    let summary = format!(
        "{}: {} of {all} comparisons right, {seconds:.1} s",
        gpu.name,
        all - wrong
    );
    if wrong > 0 || all == 0 {
        return Err(summary);
    }
    println!("{summary}");
    Ok(())
}

fn mutate(gpu: &Gpu) -> Result<(), String> {
    for it in mutations::all(gpu) {
        println!(
            "{}: {} of {} comparisons fail",
            it.what, it.failed, it.compared
        );
        if it.failed == 0 {
            return Err(format!("nothing finds this: {}", it.what));
        }
    }
    Ok(())
}
