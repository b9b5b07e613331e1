//! What the GPU does, launch by launch and by name, as NVIDIA's CUPTI hears it where its library is found when the program runs.
//!
//! Nothing is launched differently while it listens, and a recorded pass is heard kernel by kernel. It takes some time for each
//! launch, so nobody listens while a step is timed. Afterwards it stays attached to the process, which costs launches a little.
//!
//! Deliberately absent: counters of what happens within a kernel, which are for those who write one.

use std::{
    ffi::{CStr, c_char, c_int, c_void},
    mem::size_of,
    ptr::null,
    sync::{Mutex, OnceLock, PoisonError},
};

use candle_core::Device;

use crate::{
    Result,
    library::{self, functions},
    profile::Activity,
};

// Numbers of CUPTI's header.
const SUCCESS: c_int = 0;
const COPY: u32 = 1;
const FILL: u32 = 2;
const KERNEL: u32 = 3;
const CONCURRENT_KERNEL: u32 = 10;
/// What is listened to.
const KINDS: [u32; 3] = [CONCURRENT_KERNEL, COPY, FILL];
/// Also what is not full.
const ALL: u32 = 1;

// Where its records have what is read here, in bytes. Later versions only add behind it.
const AT_COPY_KIND: usize = 4;
const AT_START: usize = 16;
const AT_END: usize = 24;
const AT_NAME: usize = 104;

/// Numbers of 8 bytes in the room that it is given at once: as many bytes as it recommends at least.
const ROOM: usize = (4 << 20) / size_of::<u64>();

type Status = c_int;
type GiveRoom = unsafe extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
type TakeRoom = unsafe extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);

functions! {
    register: b"cuptiActivityRegisterCallbacks" = fn(GiveRoom, TakeRoom) -> Status;
    enable: b"cuptiActivityEnable" = fn(u32) -> Status;
    disable: b"cuptiActivityDisable" = fn(u32) -> Status;
    flush: b"cuptiActivityFlushAll" = fn(u32) -> Status;
    next: b"cuptiActivityGetNextRecord" = fn(*mut u8, usize, *mut *const u8) -> Status;
}

/// Why nothing can be heard.
const MISSING: &str = if cfg!(target_os = "linux") {
    "NVIDIA’s CUPTI was not found: install it with the CUDA toolkit, or put the folder of libcupti.so into LD_LIBRARY_PATH"
} else {
    "NVIDIA’s CUPTI is looked for on Linux only"
};

/// What was heard. CUPTI tells the whole process, from a thread of its own.
static HEARD: Mutex<Vec<Activity>> = Mutex::new(Vec::new());

fn functions() -> Option<&'static Functions> {
    static FUNCTIONS: OnceLock<Option<Functions>> = OnceLock::new();
    FUNCTIONS
        .get_or_init(|| Functions::of(library::cupti()?))
        .as_ref()
}

/// Listens to all that GPUs do for this process while `work` is done, or says why that can't be: then `work` was not done, or failed.
pub(crate) fn listen(
    device: &Device,
    work: impl FnOnce() -> Result<()>,
) -> std::result::Result<Vec<Activity>, String> {
    /// One at a time.
    static LISTENING: Mutex<()> = Mutex::new(());
    let _alone = LISTENING.lock().unwrap_or_else(PoisonError::into_inner);
    let functions = functions().ok_or(MISSING)?;
    let synchronize = || device.synchronize().map_err(|error| error.to_string());
    synchronize()?;
    take();
    let listening = Listening::begin(functions)
        .map_err(|status| format!("NVIDIA’s CUPTI doesn’t listen: error {status}"))?;
    work().map_err(|error| error.to_string())?;
    synchronize()?;
    drop(listening);
    Ok(take())
}

fn take() -> Vec<Activity> {
    let mut heard = HEARD.lock().unwrap_or_else(PoisonError::into_inner);
    std::mem::take(&mut heard)
}

/// CUPTI listens until it is dropped, and has then told everything.
struct Listening(&'static Functions);

impl Listening {
    #[allow(unsafe_code)]
    fn begin(functions: &'static Functions) -> std::result::Result<Self, Status> {
        // Safety: both functions take what CUPTI gives them, and stay.
        let status = unsafe { (functions.register)(give_room, take_room) };
        let listening = match status {
            SUCCESS => Self(functions),
            other => return Err(other),
        };
        for kind in KINDS {
            // Safety: these numbers are kinds of its header.
            match unsafe { (functions.enable)(kind) } {
                SUCCESS => {}
                other => return Err(other),
            }
        }
        Ok(listening)
    }
}

impl Drop for Listening {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // Safety: as above. What fails here was not listened to.
        unsafe {
            let _all = (self.0.flush)(ALL);
            for kind in KINDS {
                let _off = (self.0.disable)(kind);
            }
        }
    }
}

/// Gives CUPTI room for what it hears.
#[allow(unsafe_code)]
unsafe extern "C" fn give_room(room: *mut *mut u8, bytes: *mut usize, records: *mut usize) {
    let made: Box<[u64]> = vec![0; ROOM].into_boxed_slice();
    // Safety: it points to what it wants filled in. As many records as fit are asked for by 0.
    unsafe {
        *room = Box::into_raw(made).cast();
        *bytes = ROOM * size_of::<u64>();
        *records = 0;
    }
}

/// Reads what CUPTI has heard, and takes the room back.
#[allow(unsafe_code)]
unsafe extern "C" fn take_room(
    _context: *mut c_void,
    _stream: u32,
    room: *mut u8,
    _bytes: usize,
    filled: usize,
) {
    let mut heard = HEARD.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(functions) = functions() {
        let mut record = null();
        // Safety: the room is one that was given, of which so many bytes are filled; records are read while it is there.
        unsafe {
            while (functions.next)(room, filled, &raw mut record) == SUCCESS {
                heard.extend(activity(record));
            }
        }
    }
    // Safety: so it was made.
    drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(room.cast::<u64>(), ROOM)) });
}

/// A record. Safety: it is one of CUPTI's, whole.
#[allow(unsafe_code)]
unsafe fn activity(record: *const u8) -> Option<Activity> {
    // Safety: every record begins with its kind, and those of these kinds have the rest where it is read.
    unsafe {
        let name = match record.cast::<u32>().read_unaligned() {
            KERNEL | CONCURRENT_KERNEL => {
                let name = record.add(AT_NAME).cast::<*const c_char>().read_unaligned();
                match name.is_null() {
                    true => "a kernel without a name".to_owned(),
                    false => CStr::from_ptr(name).to_string_lossy().into_owned(),
                }
            }
            COPY => copy_name(record.add(AT_COPY_KIND).read()).to_owned(),
            FILL => "fill".to_owned(),
            _ => return None,
        };
        let nanos = |at: usize| record.add(at).cast::<u64>().read_unaligned();
        Some(Activity {
            name,
            start_nanos: nanos(AT_START),
            end_nanos: nanos(AT_END),
        })
    }
}

fn copy_name(kind: u8) -> &'static str {
    match kind {
        1 => "copy to the GPU",
        2 => "copy from the GPU",
        8 => "copy on the GPU",
        10 => "copy between GPUs",
        _ => "copy",
    }
}
