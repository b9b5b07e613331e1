//! In place of a Mac: launches go to a program that runs the same kernels on Vulkan (`anneal-metal serve`), which
//! `ANNEAL_METAL_STAND_IN` names. Tensors are on the CPU; what a kernel gets is copied there, and what it wrote is copied back.
//!
//! This finds mistakes in the order of arguments, offsets, sizes, values and groups. A kernel sees no byte before or
//! after a contiguous tensor, and outputs begin as NaN.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    env,
    io::{self, Read, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{Mutex, PoisonError},
};

use candle_core::{CpuStorage, DType, Device, InplaceOp1, Layout, Shape, Storage, Tensor, bail};
use half::{bf16, f16};

use super::super::{
    Binding, STORAGES, Text, broken,
    launch::{Dispatch, offset_bytes},
};
use crate::Result;

/// How often each kernel was launched, and how often candle was asked for what.
pub(crate) type Launches = BTreeMap<&'static str, usize>;

thread_local! {
    static IS_ON: Cell<bool> = const { Cell::new(false) };
    static LAUNCHES: RefCell<Launches> = RefCell::default();
    static NOTES: RefCell<Launches> = RefCell::default();
    static REFUSED: Cell<&'static str> = const { Cell::new("") };
}

static PROGRAM: Mutex<Option<Program>> = Mutex::new(None);

/// Whether launches of this thread go to the program.
pub(crate) fn is_on() -> bool {
    IS_ON.get()
}

/// Whether there is a program. Says so where there is none, unless it is to be a failure.
#[allow(clippy::print_stderr, reason = "a test that was skipped says so")]
pub(crate) fn is_there() -> bool {
    let named = env::var_os("ANNEAL_METAL_STAND_IN").is_some();
    assert!(
        named || env::var_os("ANNEAL_NEED_VULKAN").is_none(),
        "ANNEAL_METAL_STAND_IN names no program"
    );
    if !named {
        eprintln!("SKIPPED: ANNEAL_METAL_STAND_IN names no program that runs kernels on Vulkan.");
    }
    named
}

/// Runs `work` with the kernels for Metal, and counts their launches.
pub(crate) fn with<T>(work: impl FnOnce() -> T) -> (T, Launches) {
    IS_ON.set(true);
    LAUNCHES.take();
    NOTES.take();
    let done = work();
    IS_ON.set(false);
    (done, LAUNCHES.take())
}

/// Runs `work` as where a kernel doesn't compile.
pub(crate) fn refusing<T>(kernel: &'static str, work: impl FnOnce() -> T) -> T {
    REFUSED.set(kernel);
    let done = work();
    REFUSED.set("");
    done
}

/// What candle was asked for since the last of [`with`].
pub(crate) fn notes() -> Launches {
    NOTES.take()
}

pub(crate) fn note(what: &'static str) {
    NOTES.with_borrow_mut(|it| *it.entry(what).or_default() += 1);
}

/// Kernels are compiled when they are launched here.
pub(in crate::ops::kernels::metal) fn prepare(text: &Text, storage: usize) -> Result<()> {
    match REFUSED.get() == text.name {
        true => {
            let name = format!("{}_{}", STORAGES[storage], text.name);
            Err(broken(format!("Metal refuses `{name}`: it was asked to")))
        }
        false => Ok(()),
    }
}

/// A tensor in which everything is no number, to see what a kernel leaves out.
pub(crate) fn unwritten(shape: Shape, dtype: DType) -> Result<Tensor> {
    Ok(Tensor::full(f32::NAN, shape, &Device::Cpu)?.to_dtype(dtype)?)
}

pub(in crate::ops::kernels::metal) fn run(dispatch: &Dispatch) -> Result<()> {
    LAUNCHES.with_borrow_mut(|it| *it.entry(dispatch.text.name).or_default() += 1);
    let before: Vec<Vec<u8>> = dispatch
        .tensors
        .iter()
        .map(bytes_of)
        .collect::<Result<_>>()?;
    let mut program = PROGRAM.lock().unwrap_or_else(PoisonError::into_inner);
    let program = program.get_or_insert_with(Program::start);
    let asked = program.ask(dispatch, &before);
    let after = asked.map_err(|problem| broken(format!("`{}`: {problem}", dispatch.text.name)))?;
    let buffers = dispatch
        .text
        .bindings
        .iter()
        .filter(|it| !matches!(it, Binding::Values(_)));
    for ((tensor, binding), bytes) in dispatch.tensors.iter().zip(buffers).zip(after) {
        if *binding == Binding::Write {
            tensor.inplace_op1(&Overwrite(bytes))?;
        }
    }
    Ok(())
}

/// The bytes of a contiguous tensor, or those from the first of a strided one on.
fn bytes_of(tensor: &Tensor) -> Result<Vec<u8>> {
    let (storage, layout) = tensor.storage_and_layout();
    let Storage::Cpu(storage) = &*storage else {
        return Err(broken("a stand-in for Metal got a tensor elsewhere"));
    };
    let mut bytes = match storage {
        CpuStorage::U8(it) => it.clone(),
        CpuStorage::U32(it) => it.iter().flat_map(|it| it.to_le_bytes()).collect(),
        CpuStorage::F32(it) => it.iter().flat_map(|it| it.to_le_bytes()).collect(),
        CpuStorage::F16(it) => it.iter().flat_map(|it| it.to_le_bytes()).collect(),
        CpuStorage::BF16(it) => it
            .iter()
            .flat_map(|it| it.to_le_bytes())
            .collect::<Vec<u8>>(),
        _ => return Err(broken("a stand-in for Metal got another dtype")),
    };
    bytes.drain(..offset_bytes(tensor));
    if layout.is_contiguous() {
        bytes.truncate(tensor.elem_count() * tensor.dtype().size_in_bytes());
    }
    Ok(bytes)
}

/// Puts bytes where a tensor's first number lies.
struct Overwrite(Vec<u8>);

impl InplaceOp1 for Overwrite {
    fn name(&self) -> &'static str {
        "overwrite"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> candle_core::Result<()> {
        fn put<T>(numbers: &mut [T], bytes: &[u8], number: impl Fn(&[u8]) -> T) {
            let parts = bytes.chunks_exact(size_of::<T>());
            for (to, part) in numbers.iter_mut().zip(parts) {
                *to = number(part);
            }
        }
        let (start, bytes) = (layout.start_offset(), self.0.as_slice());
        let pair = |it: &[u8]| [it[0], it[1]];
        let four = |it: &[u8]| [it[0], it[1], it[2], it[3]];
        match storage {
            CpuStorage::U8(it) => put(&mut it[start..], bytes, |it| it[0]),
            CpuStorage::U32(it) => put(&mut it[start..], bytes, |it| u32::from_le_bytes(four(it))),
            CpuStorage::F32(it) => put(&mut it[start..], bytes, |it| f32::from_le_bytes(four(it))),
            CpuStorage::F16(it) => put(&mut it[start..], bytes, |it| f16::from_le_bytes(pair(it))),
            CpuStorage::BF16(it) => {
                put(&mut it[start..], bytes, |it| bf16::from_le_bytes(pair(it)));
            }
            _ => bail!("a kernel wrote another dtype"),
        }
        Ok(())
    }
}

/// The program, which ends with its input.
struct Program {
    input: ChildStdin,
    output: ChildStdout,
    _child: Child,
}

impl Program {
    fn start() -> Self {
        let name = env::var_os("ANNEAL_METAL_STAND_IN").unwrap();
        let mut command = Command::new(&name);
        command.arg("serve");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command
            .spawn()
            .unwrap_or_else(|problem| panic!("{}: {problem}", name.display()));
        Self {
            input: child.stdin.take().unwrap(),
            output: child.stdout.take().unwrap(),
            _child: child,
        }
    }

    /// What is in each buffer afterwards.
    fn ask(&mut self, dispatch: &Dispatch, buffers: &[Vec<u8>]) -> io::Result<Vec<Vec<u8>>> {
        let mut request = Vec::new();
        let count = |number: usize| (number as u32).to_le_bytes();
        let part = |request: &mut Vec<u8>, bytes: &[u8]| {
            request.extend(count(bytes.len()));
            request.extend(bytes);
        };
        part(&mut request, dispatch.text.name.as_bytes());
        part(&mut request, STORAGES[dispatch.storage].as_bytes());
        request.extend(count(buffers.len()));
        for buffer in buffers {
            part(&mut request, buffer);
        }
        part(&mut request, dispatch.values);
        request.extend(dispatch.groups.map(count).as_flattened());
        self.input.write_all(&request)?;
        self.input.flush()?;

        let status = self.number()?;
        if status != 0 {
            let problem = self.bytes()?;
            return Err(io::Error::other(String::from_utf8_lossy(&problem)));
        }
        buffers.iter().map(|_| self.bytes()).collect()
    }

    fn number(&mut self) -> io::Result<usize> {
        let mut number = [0; 4];
        self.output.read_exact(&mut number)?;
        Ok(u32::from_le_bytes(number) as usize)
    }

    fn bytes(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; self.number()?];
        self.output.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}
