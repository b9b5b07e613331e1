//! NVIDIA's NCCL as its header has it: what a group needs of it, with errors in words.
#![allow(unsafe_code)]

use std::{
    ffi::{CStr, c_char, c_int, c_void},
    path::PathBuf,
    ptr,
    sync::OnceLock,
};

use crate::{
    Error, Result,
    library::{functions, nccl},
};

/// Bytes of an identifier.
pub(super) const IDENTIFIER_BYTES: usize = 128;

/// An identifier, as functions take it.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Identifier([c_char; IDENTIFIER_BYTES]);

impl From<[u8; IDENTIFIER_BYTES]> for Identifier {
    fn from(bytes: [u8; IDENTIFIER_BYTES]) -> Self {
        Self(bytes.map(|it| it as c_char))
    }
}

/// The ranks that NCCL connects. Any thread may call with it, one at a time.
#[derive(Clone, Copy)]
pub(super) struct Comm(*mut c_void);

// SAFETY: NCCL lets any thread call with a communicator, one at a time, which whoever hands it on sees to.
unsafe impl Send for Comm {}

/// What numbers are added up or compared.
#[derive(Clone, Copy)]
pub(super) enum Numbers {
    F32 = 7,
    F64 = 8,
}

/// Bytes, which are only sent.
const BYTES: c_int = 1;

/// What is made of them.
#[derive(Clone, Copy)]
pub(super) enum Operation {
    Sum = 0,
    Max = 2,
}

type Status = c_int;
const SUCCESS: Status = 0;
/// What was asked is under way.
const IN_PROGRESS: Status = 7;

functions! {
    version: b"ncclGetVersion" = fn(*mut c_int) -> Status;
    identifier: b"ncclGetUniqueId" = fn(*mut Identifier) -> Status;
    join: b"ncclCommInitRank" = fn(*mut *mut c_void, c_int, Identifier, c_int) -> Status;
    leave: b"ncclCommDestroy" = fn(*mut c_void) -> Status;
    abort: b"ncclCommAbort" = fn(*mut c_void) -> Status;
    trouble: b"ncclCommGetAsyncError" = fn(*mut c_void, *mut Status) -> Status;
    begin_group: b"ncclGroupStart" = fn() -> Status;
    end_group: b"ncclGroupEnd" = fn() -> Status;
    reduce: b"ncclAllReduce"
        = fn(*const c_void, *mut c_void, usize, c_int, c_int, *mut c_void, *mut c_void) -> Status;
    spread: b"ncclBroadcast"
        = fn(*const c_void, *mut c_void, usize, c_int, c_int, *mut c_void, *mut c_void) -> Status;
    last_words: b"ncclGetLastError" = fn(*mut c_void) -> *const c_char;
}

/// Its functions, if there is such a library. [`problem`] says where it may be, or it is where the system keeps libraries.
fn functions() -> Result<&'static Functions> {
    static FUNCTIONS: OnceLock<Option<Functions>> = OnceLock::new();
    let found = FUNCTIONS.get_or_init(|| Functions::of(nccl(&[])?)).as_ref();
    let what = match nccl(&[]) {
        None => "was not found",
        Some(_) => "is too old",
    };
    found.ok_or_else(|| {
        Error::Device(format!(
            "several devices need NCCL, and libnccl.so.2 {what}; install it (`pip install nvidia-nccl-cu13`), or name its folder \
             in NCCL_LIB_DIR"
        ))
    })
}

/// Why there is no such library, in words, with what helps. The first call looks in these folders first.
pub(super) fn problem(folders: &[PathBuf]) -> Option<String> {
    nccl(folders);
    match functions().err()? {
        Error::Device(problem) => Some(problem),
        error => Some(error.to_string()),
    }
}

/// Its version: `2.28.9`.
pub(super) fn version() -> Result<String> {
    let mut number = 0;
    // SAFETY: it writes one number there.
    done(unsafe { (functions()?.version)(&raw mut number) }, None)?;
    let (major, minor, patch) = (number / 10_000, number / 100 % 100, number % 100);
    Ok(format!("{major}.{minor}.{patch}"))
}

/// A new identifier.
pub(super) fn identifier() -> Result<Vec<u8>> {
    let mut made = Identifier::from([0; IDENTIFIER_BYTES]);
    // SAFETY: it writes as many bytes there.
    done(unsafe { (functions()?.identifier)(&raw mut made) }, None)?;
    Ok(made.0.iter().map(|it| *it as u8).collect())
}

/// Connects a rank of so many, which blocks until all have come. The device is that of this thread.
pub(super) fn join(rank: usize, world: usize, identifier: Identifier) -> Result<Comm> {
    let mut comm = ptr::null_mut();
    let (rank, world) = (rank as c_int, world as c_int);
    // SAFETY: `comm` outlives the call.
    let joined = unsafe { (functions()?.join)(&raw mut comm, world, identifier, rank) };
    done(joined, None)?;
    Ok(Comm(comm))
}

/// Several sums that are asked for at once.
pub(super) fn in_group(comm: Comm, ask: impl FnOnce() -> Result<()>) -> Result<()> {
    let functions = functions()?;
    // SAFETY: they take nothing, and come in pairs.
    done(unsafe { (functions.begin_group)() }, Some(comm))?;
    let asked = ask();
    // SAFETY: as above.
    asked.and(done(unsafe { (functions.end_group)() }, Some(comm)))
}

impl Comm {
    /// Reduces so many numbers over all ranks, in place, on a stream.
    ///
    /// # Safety
    /// So many numbers are at that address of the device, and live until the stream was waited for. Nothing else touches them
    /// meanwhile. The communicator was not left.
    pub(super) unsafe fn reduce(
        self,
        address: u64,
        count: usize,
        (numbers, operation): (Numbers, Operation),
        stream: *mut c_void,
    ) -> Result<()> {
        let at = address as *mut c_void;
        let (numbers, operation) = (numbers as c_int, operation as c_int);
        // SAFETY: as promised.
        let asked =
            unsafe { (functions()?.reduce)(at, at, count, numbers, operation, self.0, stream) };
        done(asked, Some(self))
    }

    /// Overwrites so many bytes with those of a rank, on a stream.
    ///
    /// # Safety
    /// As of [`Comm::reduce`].
    pub(super) unsafe fn spread(
        self,
        address: u64,
        bytes: usize,
        from: usize,
        stream: *mut c_void,
    ) -> Result<()> {
        let (at, from) = (address as *mut c_void, from as c_int);
        // SAFETY: as promised.
        let asked = unsafe { (functions()?.spread)(at, at, bytes, BYTES, from, self.0, stream) };
        done(asked, Some(self))
    }

    /// What NCCL noticed by itself.
    ///
    /// # Safety
    /// The communicator was not left.
    pub(super) unsafe fn trouble(self) -> Result<()> {
        let mut found = SUCCESS;
        // SAFETY: the communicator lives.
        let asked = unsafe { (functions()?.trouble)(self.0, &raw mut found) };
        done(asked, Some(self))?;
        done(found, Some(self))
    }

    /// Leaves on purpose.
    ///
    /// # Safety
    /// Nothing is asked of the communicator after this.
    pub(super) unsafe fn leave(self) -> Result<()> {
        // SAFETY: as promised.
        done(unsafe { (functions()?.leave)(self.0) }, None)
    }

    /// Leaves though something is under way. The device can be used after it.
    ///
    /// # Safety
    /// Nothing is asked of the communicator after this.
    pub(super) unsafe fn abort(self) -> Result<()> {
        // SAFETY: as promised.
        done(unsafe { (functions()?.abort)(self.0) }, None)
    }
}

/// What NCCL says of an error: its number, and its last words.
fn done(status: Status, comm: Option<Comm>) -> Result<()> {
    if [SUCCESS, IN_PROGRESS].contains(&status) {
        return Ok(());
    }
    let comm = comm.map_or(ptr::null_mut(), |comm| comm.0);
    // SAFETY: it answers with a text that lives for ever; the communicator lives or is none.
    let words = unsafe { (functions()?.last_words)(comm) };
    let words = match words.is_null() {
        true => String::new(),
        // SAFETY: it is a text with an end.
        false => unsafe { CStr::from_ptr(words) }
            .to_string_lossy()
            .trim()
            .to_owned(),
    };
    let words = match words.is_empty() {
        true => words,
        false => format!(" ({words})"),
    };
    let what = match status {
        1 => "an error of CUDA",
        2 => "an error of the system",
        3 => "an error of its own",
        4 | 5 => "a wrong call",
        6 => "an error of another rank",
        8 => "a time limit",
        _ => "an error",
    };
    Err(Error::Device(format!(
        "NCCL ended with {what}, number {status}{words}"
    )))
}
