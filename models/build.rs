//! Compiles the kernels for CUDA with NVIDIA's compiler, when the feature asks for them.

use std::{env, path::PathBuf, process::Command};

const KERNELS: &str = "src/ops/kernels/cuda/kernels.cu";

fn main() -> Result<(), String> {
    println!("cargo::rerun-if-changed={KERNELS}");
    println!("cargo::rerun-if-env-changed=CUDA_HOME");
    if env::var_os("CARGO_FEATURE_CUDA").is_none() {
        return Ok(());
    }
    let compiler = match env::var_os("CUDA_HOME") {
        Some(home) => PathBuf::from(home).join("bin/nvcc"),
        None => PathBuf::from("nvcc"),
    };
    let output = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("kernels.ptx");
    // The oldest GPUs that CUDA 13 knows. The driver compiles this code for newer ones.
    let mut command = Command::new(&compiler);
    command.args(["-ptx", "-O3", "-arch=compute_75", "-o"]);
    let name = compiler.display();
    match command.arg(output).arg(KERNELS).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{name} could not compile {KERNELS}: {status}")),
        Err(error) => Err(format!(
            "could not run {name}: {error}. The feature `cuda` needs the CUDA toolkit; set CUDA_HOME to its folder"
        )),
    }
}
