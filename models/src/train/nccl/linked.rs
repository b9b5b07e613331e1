//! The calls to NCCL. Only what a group needs, by the plain functions: those around them end a program that loses a rank.
#![allow(unsafe_code)]

use std::{
    ffi::{CStr, c_void},
    ptr,
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use candle_core::{
    CudaDevice, DType, Device, Shape, Storage, Tensor,
    cuda_backend::{
        CudaStorageSlice,
        cudarc::{
            driver::{CudaStream, DevicePtr, DriverError},
            nccl::{
                result::{self, NcclError, NcclStatus},
                sys,
            },
        },
    },
};

use super::{Group, Lost, Share};
use crate::{Error, Result};

/// Bytes of an identifier.
const IDENTIFIER_BYTES: usize = 128;
/// How long all ranks may take to connect: each is there already.
const JOIN: Duration = Duration::from_secs(120);
/// How long the end of a group may take.
const LEAVE: Duration = Duration::from_secs(5);
/// How often whoever waits for that looks whether a rank is gone.
const LOOK: Duration = Duration::from_millis(50);
/// So many looks at a sum come at once, and those after them at this distance.
const FAST_LOOKS: usize = 4096;
const SUM_LOOK: Duration = Duration::from_micros(50);
/// After so many looks it is asked whether a rank is gone.
const LOOKS_PER_QUESTION: usize = 64;

pub(super) fn problem() -> Option<String> {
    let missing = "several devices need NCCL, and libnccl.so.2 was not found; install it (`pip install nvidia-nccl-cu13`), or \
         name its folder in NCCL_LIB_DIR";
    result::get_nccl_version().err().map(|_| missing.to_owned())
}

pub(super) fn identifier() -> Result<Vec<u8>> {
    if let Some(problem) = problem() {
        return Err(Error::Device(problem));
    }
    let made = result::get_uniqueid().map_err(|error| refused(&error, ptr::null_mut()))?;
    Ok(made.internal.iter().map(|it| *it as u8).collect())
}

/// A communicator, to be handed to another thread.
#[derive(Clone, Copy)]
struct Comm(sys::ncclComm_t);

// SAFETY: NCCL lets any thread call with a communicator, one at a time, which whoever hands it on sees to.
unsafe impl Send for Comm {}

/// The ranks that NCCL connects.
struct Cards {
    comm: Comm,
    share: Share,
    device: Device,
    stream: Arc<CudaStream>,
    lost: Lost,
    /// Whether it was given up, so that nothing may be asked of it any more.
    is_over: bool,
}

pub(super) fn join(
    share: Share,
    identifier: &[u8],
    device: &Device,
    lost: Lost,
) -> Result<Box<dyn Group>> {
    if let Some(problem) = problem() {
        return Err(Error::Device(problem));
    }
    let Device::Cuda(card) = device else {
        return Err(Error::Device(
            "several devices need CUDA and NCCL, and this is no card of NVIDIA".to_owned(),
        ));
    };
    let wrong = |_| {
        Error::Peer(format!(
            "the identifier of NCCL has {} bytes, and not {IDENTIFIER_BYTES}",
            identifier.len()
        ))
    };
    let bytes: [u8; IDENTIFIER_BYTES] = identifier.try_into().map_err(wrong)?;
    let comm = connect(share, bytes, card, &lost)?;
    Ok(Box::new(Cards {
        comm,
        share,
        device: device.clone(),
        stream: card.cuda_stream(),
        lost,
        is_over: false,
    }))
}

/// Connects, which blocks until all have come, so that it is done on a thread that can be left behind.
fn connect(
    share: Share,
    bytes: [u8; IDENTIFIER_BYTES],
    card: &CudaDevice,
    lost: &Lost,
) -> Result<Comm> {
    let context = card.cuda_stream().context().clone();
    let (sender, made) = mpsc::channel();
    thread::spawn(move || {
        let id = sys::ncclUniqueId {
            internal: bytes.map(|it| it as _),
        };
        let mut comm = ptr::null_mut();
        let joined = context.bind_to_thread().map_err(driver).and_then(|()| {
            // SAFETY: `comm` outlives the call, and the device is current on this thread.
            let joined = unsafe {
                result::comm_init_rank(&raw mut comm, share.world as i32, id, share.rank as i32)
            };
            joined.map_err(|error| refused(&error, ptr::null_mut()))
        });
        // Who gave up waiting needs it no more.
        let _ = sender.send(joined.map(|_| Comm(comm)));
    });
    let begun = Instant::now();
    loop {
        match made.recv_timeout(LOOK) {
            Ok(made) => return made,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Error::Device("NCCL ended its own thread".to_owned()));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Some(lost) = lost() {
            return Err(Error::Peer(lost));
        }
        if begun.elapsed() > JOIN {
            let seconds = JOIN.as_secs();
            return Err(Error::Peer(format!(
                "NCCL did not connect the {} ranks within {seconds} s: a firewall or another network card is between them \
                 (NCCL_SOCKET_IFNAME), or the cards can’t reach each other (NCCL_P2P_DISABLE=1)",
                share.world
            )));
        }
    }
}

impl Cards {
    /// Reduces each tensor over all ranks into one of its own, in one group of calls, and waits for that.
    fn reduce(&mut self, tensors: &[Tensor], op: sys::ncclRedOp_t) -> Result<Vec<Tensor>> {
        if self.is_over {
            return Err(Error::Peer(
                "the ranks are not connected any more".to_owned(),
            ));
        }
        let mut sums = Vec::with_capacity(tensors.len());
        for tensor in tensors {
            // SAFETY: every pattern of bits is a number, and NCCL writes all of it before anything reads.
            sums.push(unsafe {
                Tensor::empty(Shape::from(tensor.dims()), tensor.dtype(), &self.device)
            }?);
        }
        let comm = self.comm.0;
        let failed = |error: NcclError| refused(&error, comm);
        result::group_start().map_err(failed)?;
        let asked = tensors
            .iter()
            .zip(&sums)
            .try_for_each(|(tensor, sum)| self.ask(tensor, sum, op));
        let ended = result::group_end().map_err(failed);
        asked.and(ended)?;
        self.wait()?;
        Ok(sums)
    }

    fn ask(&self, tensor: &Tensor, sum: &Tensor, op: sys::ncclRedOp_t) -> Result<()> {
        let (from, kind) = address(tensor, &self.stream)?;
        let (to, _) = address(sum, &self.stream)?;
        let stream = self.stream.cu_stream().cast();
        let count = tensor.elem_count();
        // SAFETY: both hold as many numbers, are contiguous, and live until the stream was waited for; a sum has memory of its own.
        let asked = unsafe {
            result::all_reduce(
                from as *const c_void,
                to as *mut c_void,
                count,
                kind,
                op,
                self.comm.0,
                stream,
            )
        };
        asked
            .map(drop)
            .map_err(|error| refused(&error, self.comm.0))
    }

    /// Waits until all that was asked of the device is done, or a rank is gone: then it never would be.
    fn wait(&mut self) -> Result<()> {
        let event = self.stream.record_event(None).map_err(driver)?;
        let mut looks = 0;
        while !event.try_is_complete().map_err(driver)? {
            looks += 1;
            if looks > FAST_LOOKS {
                thread::sleep(SUM_LOOK);
            } else {
                std::hint::spin_loop();
            }
            if !usize::is_multiple_of(looks, LOOKS_PER_QUESTION) {
                continue;
            }
            if let Some(why) = (self.lost)().or_else(|| self.trouble()) {
                self.give_up();
                return Err(Error::Peer(why));
            }
        }
        Ok(())
    }

    /// What NCCL noticed by itself.
    fn trouble(&self) -> Option<String> {
        let mut found = sys::ncclResult_t::ncclSuccess;
        // SAFETY: the communicator lives.
        let asked = unsafe { sys::ncclCommGetAsyncError(self.comm.0, &raw mut found) };
        let error = asked.result().and(found.result()).err()?;
        Some(refused(&error, self.comm.0).to_string())
    }

    /// Ends what waits for a rank that is gone. The device can be used after it.
    fn give_up(&mut self) {
        self.end(|comm| {
            // SAFETY: nothing is asked of the communicator after this.
            unsafe { result::comm_abort(comm.0) }
        });
    }

    /// Ends the communicator in time: what takes longer is left behind.
    fn end(
        &mut self,
        end: impl FnOnce(Comm) -> std::result::Result<NcclStatus, NcclError> + Send + 'static,
    ) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        let (comm, context) = (self.comm, self.stream.context().clone());
        let (sender, done) = mpsc::channel();
        thread::spawn(move || {
            let _ = context.bind_to_thread();
            let _ = end(comm);
            let _ = sender.send(());
        });
        let _ = done.recv_timeout(LEAVE);
    }

    /// The same for a few numbers of the host.
    fn reduce_numbers(&mut self, numbers: Vec<f64>, op: sys::ncclRedOp_t) -> Result<Vec<f64>> {
        let count = numbers.len();
        let tensor = Tensor::from_vec(numbers, count, &self.device)?;
        let mut sums = self.reduce(&[tensor], op)?;
        let sum = sums
            .pop()
            .ok_or_else(|| Error::Device("NCCL gave no sum".to_owned()))?;
        Ok(sum.to_vec1()?)
    }
}

impl Drop for Cards {
    fn drop(&mut self) {
        self.end(|comm| {
            // SAFETY: nothing is asked of the communicator after this.
            unsafe { result::comm_destroy(comm.0) }
        });
    }
}

impl Group for Cards {
    fn share(&self) -> Share {
        self.share
    }

    fn sum_tensors(&mut self, tensors: Vec<Tensor>) -> Result<Vec<Tensor>> {
        let plain = |it: &Tensor| Ok(it.to_dtype(DType::F32)?.contiguous()?);
        let tensors: Vec<Tensor> = tensors.iter().map(plain).collect::<Result<_>>()?;
        self.reduce(&tensors, sys::ncclRedOp_t::ncclSum)
    }

    fn max(&mut self, words: [i32; 8]) -> Result<[i32; 8]> {
        // Every word is a number that an f64 has exactly.
        let largest =
            self.reduce_numbers(words.map(f64::from).to_vec(), sys::ncclRedOp_t::ncclMax)?;
        let mut all = words;
        for (word, largest) in all.iter_mut().zip(largest) {
            *word = largest as i32;
        }
        Ok(all)
    }

    fn sum(&mut self, numbers: Vec<f64>) -> Result<Vec<f64>> {
        self.reduce_numbers(numbers, sys::ncclRedOp_t::ncclSum)
    }
}

/// Where a contiguous tensor begins in the device’s memory, and what numbers it has.
fn address(tensor: &Tensor, stream: &CudaStream) -> Result<(u64, sys::ncclDataType_t)> {
    let (storage, layout) = tensor.storage_and_layout();
    let elsewhere =
        || Error::Device("a tensor to be summed over the ranks is not on a card".to_owned());
    let Storage::Cuda(storage) = &*storage else {
        return Err(elsewhere());
    };
    let (start, kind) = match &storage.slice {
        CudaStorageSlice::F32(numbers) => (
            numbers.device_ptr(stream).0,
            sys::ncclDataType_t::ncclFloat32,
        ),
        CudaStorageSlice::F64(numbers) => (
            numbers.device_ptr(stream).0,
            sys::ncclDataType_t::ncclFloat64,
        ),
        _ => return Err(elsewhere()),
    };
    let before = layout.start_offset() * tensor.dtype().size_in_bytes();
    Ok((start + before as u64, kind))
}

fn driver(error: DriverError) -> Error {
    Error::Device(error.to_string())
}

/// What NCCL says of an error: its number, and its last words.
fn refused(error: &NcclError, comm: sys::ncclComm_t) -> Error {
    // SAFETY: it answers with a text that lives for ever, also without the library; the communicator lives or is none.
    let words = unsafe { sys::ncclGetLastError(comm) };
    let words = match words.is_null() {
        true => String::new(),
        // SAFETY: it is a text with an end.
        false => unsafe { CStr::from_ptr(words) }
            .to_string_lossy()
            .trim()
            .to_owned(),
    };
    let words = if words.is_empty() {
        String::new()
    } else {
        format!(" ({words})")
    };
    Error::Device(format!("NCCL refused with {:?}{words}", error.0))
}
