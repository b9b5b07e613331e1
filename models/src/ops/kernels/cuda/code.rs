//! Kernels as `build.rs` compiled them: code of common GPUs, and for all others code that the driver translates when it is loaded. The
//! driver takes what fits its GPU best.

use std::{
    collections::{HashMap, hash_map::Entry},
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
static LOADED: LazyLock<Mutex<HashMap<(usize, &'static str), Loaded>>> =
    LazyLock::new(Mutex::default);

impl Code {
    /// The kernel with this name, loaded where it is not yet.
    pub(super) fn kernel(&self, context: &Arc<CudaContext>, name: &str) -> Result<CudaFunction> {
        // What another thread was doing when it failed left the table whole.
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (context.cu_ctx() as usize, self.name);
        let Loaded { module, kernels } = match loaded.entry(key) {
            Entry::Occupied(loaded) => loaded.into_mut(),
            Entry::Vacant(free) => free.insert(Loaded {
                module: context
                    .load_module(Ptx::from_binary(self.bytes.to_vec()))
                    .w()?,
                kernels: HashMap::new(),
            }),
        };
        if let Some(kernel) = kernels.get(name) {
            return Ok(kernel.clone());
        }
        let kernel = module.load_function(name).w()?;
        kernels.insert(name.into(), kernel.clone());
        Ok(kernel)
    }
}
