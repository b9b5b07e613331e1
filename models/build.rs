//! Compiles the kernels for CUDA with NVIDIA's compiler, when the feature asks for them.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

const FOLDER: &str = "src/ops/kernels/cuda";

/// What is compiled: a file with kernels, the oldest GPUs that can run it so, and what the code is called. The driver compiles it for
/// newer ones.
const KERNELS: [(&str, &str, &str); 6] = [
    // The oldest that CUDA 13 knows.
    ("kernels", "compute_75", "kernels"),
    ("pictures", "compute_75", "pictures"),
    ("next_token", "compute_75", "next_token"),
    // Copies in the background and products of bf16.
    ("convolution", "compute_80", "convolution"),
    ("flash", "compute_80", "flash"),
    // Kernels that begin while the one before them ends.
    ("next_token", "compute_90", "next_token_90"),
];

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
    KERNELS
        .iter()
        .try_for_each(|(name, oldest, code)| compile(&compiler, name, oldest, code))
}

fn compile(compiler: &Path, name: &str, oldest: &str, code: &str) -> Result<(), String> {
    let source = format!("{FOLDER}/{name}.cu");
    let folder = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let mut command = Command::new(compiler);
    command.args([
        "-ptx",
        "-O3",
        "-std=c++17",
        &format!("-arch={oldest}"),
        "-o",
    ]);
    let compiler = compiler.display();
    match command
        .arg(folder.join(format!("{code}.ptx")))
        .arg(&source)
        .status()
    {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{compiler} could not compile {source}: {status}")),
        Err(error) => Err(format!(
            "could not run {compiler}: {error}. The feature `cuda` needs the CUDA toolkit; set CUDA_HOME to its folder"
        )),
    }
}
