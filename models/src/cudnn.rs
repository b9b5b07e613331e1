//! Finds NVIDIA's cuDNN, which a machine may have or not, when the program runs.
//!
//! Deliberately absent: what is computed with it, which is that of `ops::kernels`.

use std::sync::OnceLock;

use libloading::Library;

use crate::library;

/// What its library is called, as a package of the system or of Python's has it.
const NAMES: [&str; 2] = if cfg!(windows) {
    ["cudnn64_9.dll", "cudnn64_9"]
} else {
    ["libcudnn.so.9", "libcudnn.so"]
};
/// The version whose functions the program knows.
const MAJOR: usize = 9;

/// The library, loaded for as long as the program runs.
pub(crate) struct Cudnn {
    /// Its functions by name.
    pub(crate) library: Library,
    /// Its version: `9.21.0`.
    pub(crate) version: String,
}

/// The library, if there is one of the version that the program knows.
pub(crate) fn find() -> Option<&'static Cudnn> {
    static FOUND: OnceLock<Option<Cudnn>> = OnceLock::new();
    FOUND.get_or_init(load).as_ref()
}

#[allow(unsafe_code)]
fn load() -> Option<Cudnn> {
    let library = library::open(NAMES)?;
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
