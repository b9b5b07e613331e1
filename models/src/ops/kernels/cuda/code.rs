//! Kernels as `build.rs` compiled them: code of common GPUs, and for all others code that the driver translates when it is loaded. The
//! driver takes what fits its GPU best.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use candle_core::cuda::{
    WrapErr,
    cudarc::{
        driver::{CudaContext, CudaFunction, CudaModule},
        nvrtc::Ptx,
    },
};

use crate::Result;

/// What one file with kernels was compiled to.
pub(super) struct Code {
    pub name: &'static str,
    pub bytes: &'static [u8],
}

/// The code of the file with this name, without its ending.
macro_rules! compiled {
    ($name:literal) => {
        $crate::ops::kernels::cuda::code::Code {
            name: $name,
            bytes: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".fatbin")),
        }
    };
}
pub(super) use compiled;

/// A file on a GPU, with those of its kernels that were launched already.
struct Loaded {
    module: Arc<CudaModule>,
    kernels: HashMap<String, CudaFunction>,
}

/// What is on GPUs, by the GPU's context and the name of the code. It stays there, so a context is never another's.
type All = HashMap<(usize, &'static str), Loaded>;
static LOADED: LazyLock<Mutex<All>> = LazyLock::new(Mutex::default);

impl Code {
    /// The kernel with this name, loaded where it is not yet.
    pub(super) fn kernel(&self, context: &Arc<CudaContext>, name: &str) -> Result<CudaFunction> {
        let key = (context.cu_ctx() as usize, self.name);
        let known = with_loaded(|loaded| {
            let file = loaded.get(&key)?;
            let kernel = file.kernels.get(name).cloned();
            Some(kernel.ok_or_else(|| file.module.clone()))
        });
        // Others launch while the driver translates. Of two that load the same, both are right.
        let module = match known {
            Some(Ok(kernel)) => return Ok(kernel),
            Some(Err(module)) => module,
            None => {
                let bytes = Ptx::from_binary(self.bytes.to_vec());
                context.load_module(bytes).w()?
            }
        };
        let kernel = module.load_function(name).w()?;
        with_loaded(|loaded| {
            let new = || Loaded {
                module,
                kernels: HashMap::new(),
            };
            let file = loaded.entry(key).or_insert_with(new);
            file.kernels.insert(name.into(), kernel.clone());
        });
        Ok(kernel)
    }
}

fn with_loaded<T>(act: impl FnOnce(&mut All) -> T) -> T {
    // What another thread was doing when it failed left the table whole.
    act(&mut LOADED.lock().unwrap_or_else(PoisonError::into_inner))
}
