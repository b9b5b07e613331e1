//! NVIDIA's libraries that a machine may have or not: found when the program runs, and their functions looked up by their names.
//!
//! Deliberately absent: what is computed with them, which is that of `ops::kernels` and `train::nccl`.

#[cfg(target_os = "linux")]
use std::path::{Path, PathBuf};
use std::{ffi::OsStr, sync::OnceLock};

use libloading::Library;

/// What cuDNN's library is called, as a package of the system or of Python's has it.
const CUDNN: [&str; 2] = if cfg!(windows) {
    ["cudnn64_9.dll", "cudnn64_9"]
} else {
    ["libcudnn.so.9", "libcudnn.so"]
};
/// The version of cuDNN whose functions the program knows.
const MAJOR: usize = 9;
#[cfg(target_os = "linux")]
const NCCL: &str = "libnccl.so.2";
/// What CUPTI's library is called. Its functions that are used are the same in all of these versions.
#[cfg(feature = "cuda")]
const CUPTI: [&str; 5] = [
    "libcupti.so.13",
    "libcupti.so.12",
    "libcupti.so",
    "/usr/local/cuda/lib64/libcupti.so",
    "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so",
];

/// cuDNN, loaded for as long as the program runs.
pub(crate) struct Cudnn {
    /// Its functions by name.
    pub(crate) library: Library,
    /// Its version: `9.21.0`.
    pub(crate) version: String,
}

/// cuDNN, if there is one of the version that the program knows.
pub(crate) fn cudnn() -> Option<&'static Cudnn> {
    static FOUND: OnceLock<Option<Cudnn>> = OnceLock::new();
    FOUND.get_or_init(load_cudnn).as_ref()
}

#[allow(unsafe_code)]
fn load_cudnn() -> Option<Cudnn> {
    let library = open(CUDNN)?;
    // Safety: so cuDNN's header declares it in every version. It takes nothing and changes nothing.
    let number = unsafe {
        let version = library.get::<unsafe extern "C" fn() -> usize>(b"cudnnGetVersion");
        version.ok()?()
    };
    let (major, minor, patch) = (number / 10_000, number / 100 % 100, number % 100);
    (major == MAJOR).then(|| Cudnn {
        library,
        version: format!("{major}.{minor}.{patch}"),
    })
}

/// NCCL, in the first of these folders that has it, or where the system keeps libraries. It is looked for once.
#[cfg(target_os = "linux")]
pub(crate) fn nccl(folders: &[PathBuf]) -> Option<&'static Library> {
    static FOUND: OnceLock<Option<Library>> = OnceLock::new();
    let elsewhere = [Path::new(""), Path::new("/usr/local/cuda/lib64")];
    let places = || folders.iter().map(PathBuf::as_path).chain(elsewhere);
    let load = || open(places().map(|folder| folder.join(NCCL)));
    FOUND.get_or_init(load).as_ref()
}

/// CUPTI, with which NVIDIA's tools listen to what a GPU does. It is looked for once.
#[cfg(feature = "cuda")]
pub(crate) fn cupti() -> Option<&'static Library> {
    static FOUND: OnceLock<Option<Library>> = OnceLock::new();
    FOUND.get_or_init(|| open(CUPTI)).as_ref()
}

/// The first of these libraries that there is. A name is looked up where the system keeps libraries, a path is taken as it is.
#[allow(unsafe_code)]
fn open<N: AsRef<OsStr>>(names: impl IntoIterator<Item = N>) -> Option<Library> {
    // Safety: loading runs what the library does when it is loaded, as for every program that uses it.
    let mut found = names
        .into_iter()
        .filter_map(|name| unsafe { Library::new(name.as_ref()).ok() });
    found.next()
}

/// Declares the functions of a library that are used, and looks them up.
macro_rules! functions {
    ($($field:ident: $name:literal = fn($($argument:ty),*) -> $returned:ty;)*) => {
        struct Functions {
            $($field: unsafe extern "C" fn($($argument),*) -> $returned,)*
        }

        impl Functions {
            /// Nothing where one of them is missing.
            #[allow(unsafe_code)]
            fn of(library: &'static libloading::Library) -> Option<Self> {
                // Safety: the types are those of the header of the version that was found, and the library stays loaded.
                unsafe {
                    $(let $field = *library.get::<unsafe extern "C" fn($($argument),*) -> $returned>($name).ok()?;)*
                    Some(Self { $($field,)* })
                }
            }
        }
    };
}
pub(crate) use functions;
