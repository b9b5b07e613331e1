//! Libraries that a machine may have or not: found when the program runs, and their functions looked up by their names.
//!
//! Deliberately absent: what they are for.

use std::{ffi::OsStr, path::PathBuf};

use libloading::Library;

/// The first of these libraries that there is. A name is looked up where the system keeps libraries, a path is taken as it is.
#[allow(unsafe_code)]
pub(crate) fn open<N: AsRef<OsStr>>(names: impl IntoIterator<Item = N>) -> Option<Library> {
    // Safety: loading runs what the library does when it is loaded, as for every program that uses it.
    let mut found = names
        .into_iter()
        .filter_map(|name| unsafe { Library::new(name.as_ref()).ok() });
    found.next()
}

/// Where NCCL may be, the first place first: a folder that is named, those of CUDA's libraries, where the system keeps them.
#[cfg(target_os = "linux")]
pub(crate) fn places_of_nccl() -> Vec<PathBuf> {
    const NAME: &str = "libnccl.so.2";
    let folder = |variable| std::env::var_os(variable).map(PathBuf::from);
    let cuda = folder("CUDA_LIB_DIR");
    // Python's packages have a folder for each library, beside each other.
    let beside = cuda.as_ref().map(|it| it.join("../../nccl/lib"));
    let folders = [folder("NCCL_LIB_DIR"), cuda, beside, Some(PathBuf::new())];
    let elsewhere = Some(PathBuf::from("/usr/local/cuda/lib64"));
    let folders = folders.into_iter().chain([elsewhere]).flatten();
    folders.map(|folder| folder.join(NAME)).collect()
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
