//! Compiles the kernels for CUDA with NVIDIA's compiler, when the feature asks for them.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

const FOLDER: &str = "src/ops/kernels/cuda";

/// A file with kernels, and the GPUs that its code for all of them is for, by compute capability: those and newer ones, for which
/// the driver translates the newest that fits.
const KERNELS: [(&str, &[u32]); 8] = [
    // The oldest that CUDA 13 knows.
    ("kernels", &[75]),
    ("losses", &[75]),
    ("pictures", &[75]),
    ("scores", &[75]),
    // From 90 on kernels begin while the one before them ends.
    ("next_token", &[75, 90]),
    // Copies in the background and products of bf16.
    ("convolution", &[80]),
    ("flash", &[80]),
    ("thin", &[80]),
];

/// GPUs that find their own code, so that nothing is translated on them, where the compiler knows them: A100, RTX 30, RTX 40, H100,
/// RTX 50.
const OWN: [u32; 5] = [80, 86, 89, 90, 120];

fn main() -> Result<(), String> {
    println!("cargo::rerun-if-changed={FOLDER}");
    println!("cargo::rerun-if-env-changed=CUDA_HOME");
    if env::var_os("CARGO_FEATURE_CUDA").is_none() {
        return Ok(());
    }
    let compiler = match env::var_os("CUDA_HOME") {
        Some(home) => PathBuf::from(home).join("bin/nvcc"),
        None => PathBuf::from("nvcc"),
    };
    let known = Command::new(&compiler).arg("--list-gpu-code").output();
    let known = known.map(|it| String::from_utf8_lossy(&it.stdout).into_owned());
    // What is wrong with the compiler is said when it compiles.
    let known = known.unwrap_or_default();
    let own = OWN.iter().map(|of| (of, format!("sm_{of}")));
    let own: Vec<_> = own
        .filter(|(_, code)| known.lines().any(|it| it == code))
        .collect();
    KERNELS
        .iter()
        .try_for_each(|(name, any)| compile(&compiler, name, any, &own))
}

fn compile(compiler: &Path, name: &str, any: &[u32], own: &[(&u32, String)]) -> Result<(), String> {
    let source = format!("{FOLDER}/{name}.cu");
    let folder = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let for_any = any.iter().map(|of| (of, format!("compute_{of}")));
    let targets = for_any.chain(own.iter().cloned());
    let targets = targets.map(|(of, code)| format!("-gencode=arch=compute_{of},code={code}"));
    let mut command = Command::new(compiler);
    command
        .args(["-fatbin", "-O3", "-std=c++17"])
        .arg("--threads")
        .arg(env::var_os("NUM_JOBS").unwrap_or("1".into()))
        .args(targets)
        .arg("-o")
        .arg(folder.join(format!("{name}.fatbin")))
        .arg(&source);
    let compiler = compiler.display();
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{compiler} could not compile {source}: {status}")),
        Err(error) => Err(format!(
            "could not run {compiler}: {error}. The feature `cuda` needs the CUDA toolkit; set CUDA_HOME to its folder"
        )),
    }
}
