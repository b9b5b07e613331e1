//! The calls to NCCL. Only what a group needs, by the plain functions: those around them end a program that loses a rank.
#![allow(unsafe_code)]

use std::{
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use candle_core::{
    CudaDevice, DType, Device, Tensor,
    cuda_backend::cudarc::driver::{CudaStream, DevicePtr, DriverError},
};

use super::{
    Group, Lost, Share,
    functions::{self, Comm, IDENTIFIER_BYTES, Numbers, Operation, in_group},
};
use crate::{
    Error, Result,
    ops::kernels::cuda::{address, many::Copies, output},
    train::group::Bucket,
};

/// How long all ranks may take to connect: each is there already.
const JOIN: Duration = Duration::from_secs(120);
/// How long the end of a group may take.
const LEAVE: Duration = Duration::from_secs(5);
/// How often whoever waits for that looks whether a rank is gone.
const LOOK: Duration = Duration::from_millis(50);
/// So long after its begin it is looked without a pause whether a sum is there, and from then on at this distance.
const FAST: Duration = Duration::from_millis(50);
const SUM_LOOK: Duration = Duration::from_micros(50);
/// After so many looks it is asked whether a rank is gone.
const LOOKS_PER_QUESTION: usize = 256;
/// Tensors of fewer numbers are put side by side and added up as one: each by itself takes as long as thousands of numbers.
const SMALL: usize = 1 << 18;
/// What NCCL is told goes before what waits to be computed: the other ranks wait for it too.
const FIRST: i32 = i32::MIN;

/// The ranks that NCCL connects.
struct Cards {
    comm: Comm,
    share: Share,
    /// What the device computes.
    stream: Arc<CudaStream>,
    /// What NCCL does meanwhile.
    sums: Arc<CudaStream>,
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
    let card = cuda(device)?;
    let wrong = |_| {
        Error::Peer(format!(
            "the identifier of NCCL has {} bytes, and not {IDENTIFIER_BYTES}",
            identifier.len()
        ))
    };
    let bytes: [u8; IDENTIFIER_BYTES] = identifier.try_into().map_err(wrong)?;
    let stream = card.cuda_stream();
    let sums = stream.context().new_stream_with_priority(FIRST);
    let sums = sums.map_err(driver)?;
    let comm = connect(share, bytes, card, &lost)?;
    Ok(Box::new(Cards {
        comm,
        share,
        stream,
        sums,
        lost,
        is_over: false,
    }))
}

/// The number of a card in the world, in hexadecimal digits.
pub(super) fn number(device: &Device) -> Result<String> {
    let stream = cuda(device)?.cuda_stream();
    let number = stream.context().uuid().map_err(driver)?;
    let digits = number.bytes.iter();
    Ok(digits.map(|byte| format!("{:02x}", *byte as u8)).collect())
}

fn cuda(device: &Device) -> Result<&CudaDevice> {
    match device {
        Device::Cuda(card) => Ok(card),
        _ => Err(Error::Device(
            "several devices need CUDA and NCCL, and this is no card of NVIDIA".to_owned(),
        )),
    }
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
        let joined = context.bind_to_thread().map_err(driver);
        let joined = joined.and_then(|()| functions::join(share.rank, share.world, bytes.into()));
        // Who gave up waiting needs it no more.
        let _ = sender.send(joined);
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
    /// Adds each tensor up over all ranks, in one group of calls. The sums lie where the tensors did.
    fn add_up(&self, tensors: &[Tensor]) -> Result<()> {
        in_group(self.comm, || {
            tensors.iter().try_for_each(|tensor| {
                let at = address(tensor)?;
                let how = (Numbers::F32, Operation::Sum);
                // SAFETY: tensors of a bucket share no memory, and are kept until the device’s stream has waited for `sums`.
                unsafe { self.reduce(at, tensor.elem_count(), how) }
            })
        })
    }

    /// Adds tensors up of which many may be small, once all is computed that the device was told to.
    fn add_up_with_small_ones(&self, tensors: &[Tensor]) -> Result<()> {
        let is_small = |it: &&Tensor| it.elem_count() < SMALL;
        let (small, mut all): (Vec<_>, Vec<_>) = tensors.iter().partition(is_small);
        let Some(first) = small.first() else {
            self.sums.join(&self.stream).map_err(driver)?;
            return self.add_up(tensors);
        };
        let count: usize = small.iter().map(|it| it.elem_count()).sum();
        let side_by_side = output(count, DType::F32, first)?;
        let mut at = 0;
        let mut places = Vec::with_capacity(small.len());
        for tensor in &small {
            let place = side_by_side.narrow(0, at, tensor.elem_count())?;
            at += tensor.elem_count();
            places.push(place);
        }
        let pairs = || small.iter().zip(&places);
        let there = Copies::new(&pairs().map(|(it, place)| [*it, place]).collect::<Vec<_>>())?;
        let back = Copies::new(&pairs().map(|(it, place)| [place, *it]).collect::<Vec<_>>())?;
        there.launch()?;
        all.push(&side_by_side);
        self.sums.join(&self.stream).map_err(driver)?;
        let all: Vec<Tensor> = all.into_iter().cloned().collect();
        self.add_up(&all)?;
        self.stream.join(&self.sums).map_err(driver)?;
        back.launch()
    }

    /// Reduces so many numbers at an address over all ranks.
    ///
    /// # Safety
    /// So many are there, in memory that nothing else uses, and live until `sums` was waited for. It was not given up.
    unsafe fn reduce(&self, at: u64, count: usize, how: (Numbers, Operation)) -> Result<()> {
        let stream = self.sums.cu_stream().cast();
        // SAFETY: as promised.
        unsafe { self.comm.reduce(at, count, how, stream) }
    }

    /// Waits until all that a stream was told is done, or a rank is gone: then it never would be.
    fn wait_for(&mut self, stream: &Arc<CudaStream>) -> Result<()> {
        let event = stream.record_event(None).map_err(driver)?;
        let (begun, mut looks) = (Instant::now(), 0_usize);
        while !event.try_is_complete().map_err(driver)? {
            looks += 1;
            if begun.elapsed() > FAST {
                thread::sleep(SUM_LOOK);
            } else {
                std::hint::spin_loop();
            }
            if !looks.is_multiple_of(LOOKS_PER_QUESTION) {
                continue;
            }
            if let Some(why) = (self.lost)().or_else(|| self.trouble()) {
                self.give_up();
                return Err(Error::Peer(why));
            }
        }
        Ok(())
    }

    fn still_connected(&self) -> Result<()> {
        match self.is_over {
            false => Ok(()),
            true => Err(Error::Peer(
                "the ranks are not connected any more".to_owned(),
            )),
        }
    }

    /// What NCCL noticed by itself.
    fn trouble(&self) -> Option<String> {
        // SAFETY: it was not given up.
        let found = unsafe { self.comm.trouble() };
        found.err().map(|error| error.to_string())
    }

    /// Ends what waits for a rank that is gone. The device can be used after it.
    fn give_up(&mut self) {
        // SAFETY: nothing is asked of the communicator after this.
        self.end(|comm| unsafe { comm.abort() });
    }

    /// Ends the communicator in time: what takes longer is left behind.
    fn end(&mut self, end: impl FnOnce(Comm) -> Result<()> + Send + 'static) {
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

    /// Reduces a few numbers of the host, beside what the device computes.
    fn reduce_numbers(&mut self, numbers: &[f64], operation: Operation) -> Result<Vec<f64>> {
        self.still_connected()?;
        let sums = self.sums.clone();
        let there = sums.clone_htod(numbers).map_err(driver)?;
        let at = there.device_ptr(&sums).0;
        // SAFETY: they lie there until they were waited for.
        unsafe { self.reduce(at, numbers.len(), (Numbers::F64, operation)) }?;
        self.wait_for(&sums)?;
        sums.clone_dtoh(&there).map_err(driver)
    }
}

impl Drop for Cards {
    fn drop(&mut self) {
        // SAFETY: nothing is asked of the communicator after this.
        self.end(|comm| unsafe { comm.leave() });
    }
}

impl Group for Cards {
    fn share(&self) -> Share {
        self.share
    }

    fn sum_tensors(&mut self, buckets: Vec<Bucket>) -> Result<Vec<Vec<Tensor>>> {
        self.still_connected()?;
        self.sum_each(buckets).map_err(|error| {
            // The others wait for sums that this rank did not begin. They notice that it leaves.
            self.give_up();
            Error::Peer(format!(
                "the sums over all ranks could not begin here: {error}"
            ))
        })
    }

    fn spread(&mut self, tensors: &[(Tensor, usize)]) -> Result<()> {
        self.still_connected()?;
        self.spread_each(tensors).map_err(|error| {
            // As above.
            self.give_up();
            Error::Peer(format!(
                "what ranks have for others could not be sent from here: {error}"
            ))
        })
    }

    fn wait(&mut self) -> Result<()> {
        let stream = self.stream.clone();
        self.wait_for(&stream)
    }

    fn max(&mut self, words: [i32; 8]) -> Result<[i32; 8]> {
        // Every word is a number that an f64 has exactly.
        let largest = self.reduce_numbers(&words.map(f64::from), Operation::Max)?;
        let mut all = words;
        for (word, largest) in all.iter_mut().zip(largest) {
            *word = largest as i32;
        }
        Ok(all)
    }

    fn sum(&mut self, numbers: Vec<f64>) -> Result<Vec<f64>> {
        self.reduce_numbers(&numbers, Operation::Sum)
    }
}

impl Cards {
    /// Sums buckets, each as soon as it is there.
    fn sum_each(&self, buckets: Vec<Bucket>) -> Result<Vec<Vec<Tensor>>> {
        let mut sums = Vec::with_capacity(buckets.len());
        for Bucket { tensors, since } in buckets {
            // Those that are there early are so already.
            let plain = |it: &Tensor| Ok(it.to_dtype(DType::F32)?.contiguous()?);
            let tensors = tensors.iter().map(plain).collect::<Result<Vec<_>>>()?;
            match since {
                Some(since) => {
                    since.awaited_by(&self.sums)?;
                    self.add_up(&tensors)?;
                }
                None => self.add_up_with_small_ones(&tensors)?,
            }
            sums.push(tensors);
        }
        self.stream.join(&self.sums).map_err(driver)?;
        Ok(sums)
    }

    /// Sends tensors from the ranks beside them to all others, in place, once all is computed that the device was told to.
    fn spread_each(&self, tensors: &[(Tensor, usize)]) -> Result<()> {
        self.sums.join(&self.stream).map_err(driver)?;
        let stream = self.sums.cu_stream().cast();
        in_group(self.comm, || {
            tensors.iter().try_for_each(|(tensor, from)| {
                let bytes = tensor.elem_count() * tensor.dtype().size_in_bytes();
                // SAFETY: they are written by nothing else, and are kept until the device’s stream has waited for `sums`.
                unsafe { self.comm.spread(address(tensor)?, bytes, *from, stream) }
            })
        })?;
        self.stream.join(&self.sums).map_err(driver)
    }
}

fn driver(error: DriverError) -> Error {
    Error::Device(error.to_string())
}
