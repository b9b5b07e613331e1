//! NVIDIA's cuDNN for convolutions in bf16 and f16, where its library is found when the program runs.
//!
//! Nothing of it is linked: each function is looked up by its name in the library that [`library::cudnn`] finds. How to compute a
//! convolution is what cuDNN suggests for its sizes on this GPU, of those ways that give the same bits every time and need little
//! memory, without trying them: so a run computes the same when it is repeated.
//!
//! Deliberately absent: gradients of weights, which cuDNN would round to the dtype of the pictures, f32, and norms and pools, which
//! are not faster there.

use std::{
    collections::{HashMap, hash_map::Entry},
    ffi::{c_int, c_void},
    ptr::null_mut,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
};

use candle_core::{
    DType, Tensor,
    cuda::{WrapErr, cudarc::driver::CudaContext},
};

use super::{address, broken, convolution::PassDirection, device, output};
use crate::{
    Error, Result,
    library::{self, functions},
    ops::convolution::Shape,
};

/// The most memory that a convolution may need beside its tensors.
const MAX_BYTES: usize = 256 << 20;

// Numbers of cuDNN's header.
const SUCCESS: c_int = 0;
const HALF: c_int = 2;
const FLOAT: c_int = 0;
const BFLOAT16: c_int = 9;
const NHWC: c_int = 1;
const CROSS_CORRELATION: c_int = 1;
const TENSOR_OP_MATH: c_int = 1;
const DETERMINISTIC: c_int = 1;

type Handle = *mut c_void;
type Descriptor = *mut c_void;
type Status = c_int;

/// A way to compute a convolution, as cuDNN suggests it.
#[derive(Clone, Copy)]
#[repr(C)]
struct Suggestion {
    algorithm: c_int,
    status: Status,
    time: f32,
    memory: usize,
    determinism: c_int,
    math: c_int,
    reserved: [c_int; 3],
}

impl Suggestion {
    const NONE: Self = Self {
        algorithm: 0,
        status: SUCCESS + 1,
        time: 0.0,
        memory: 0,
        determinism: 0,
        math: 0,
        reserved: [0; 3],
    };
}

/// The most suggestions that are asked for.
const SUGGESTIONS: usize = 10;

functions! {
    create: b"cudnnCreate" = fn(*mut Handle) -> Status;
    set_stream: b"cudnnSetStream" = fn(Handle, *mut c_void) -> Status;
    create_tensor: b"cudnnCreateTensorDescriptor" = fn(*mut Descriptor) -> Status;
    set_tensor: b"cudnnSetTensor4dDescriptor"
        = fn(Descriptor, c_int, c_int, c_int, c_int, c_int, c_int) -> Status;
    create_filter: b"cudnnCreateFilterDescriptor" = fn(*mut Descriptor) -> Status;
    set_filter: b"cudnnSetFilter4dDescriptor"
        = fn(Descriptor, c_int, c_int, c_int, c_int, c_int, c_int) -> Status;
    create_convolution: b"cudnnCreateConvolutionDescriptor" = fn(*mut Descriptor) -> Status;
    set_convolution: b"cudnnSetConvolution2dDescriptor"
        = fn(Descriptor, c_int, c_int, c_int, c_int, c_int, c_int, c_int, c_int) -> Status;
    set_math: b"cudnnSetConvolutionMathType" = fn(Descriptor, c_int) -> Status;
    suggest_forward: b"cudnnGetConvolutionForwardAlgorithm_v7"
        = fn(Handle, Descriptor, Descriptor, Descriptor, Descriptor, c_int, *mut c_int, *mut Suggestion) -> Status;
    suggest_back: b"cudnnGetConvolutionBackwardDataAlgorithm_v7"
        = fn(Handle, Descriptor, Descriptor, Descriptor, Descriptor, c_int, *mut c_int, *mut Suggestion) -> Status;
    forward: b"cudnnConvolutionForward"
        = fn(Handle, *const f32, Descriptor, *const c_void, Descriptor, *const c_void, Descriptor, c_int, *mut c_void,
             usize, *const f32, Descriptor, *mut c_void) -> Status;
    back: b"cudnnConvolutionBackwardData"
        = fn(Handle, *const f32, Descriptor, *const c_void, Descriptor, *const c_void, Descriptor, c_int, *mut c_void,
             usize, *const f32, Descriptor, *mut c_void) -> Status;
}

/// Its functions, if there is a library that can be used.
fn functions() -> Option<&'static Functions> {
    static FUNCTIONS: OnceLock<Option<Functions>> = OnceLock::new();
    FUNCTIONS
        .get_or_init(|| Functions::of(&library::cudnn()?.library))
        .as_ref()
}

/// Whether there is a library that can be used.
pub(super) fn is_found() -> bool {
    functions().is_some()
}

/// What a way depends on: the convolution, the dtype, and the GPU.
type Key = (PassDirection, Shape, DType, usize);

/// How a convolution is computed.
#[derive(Clone, Copy)]
struct Plan {
    x: Descriptor,
    weight: Descriptor,
    geometry: Descriptor,
    y: Descriptor,
    algorithm: c_int,
    memory: usize,
}

/// What cuDNN keeps, for one thread at a time.
#[derive(Default)]
struct State {
    /// By the GPU.
    handles: HashMap<usize, Handle>,
    /// None where cuDNN has no way that is wanted. There are as many as a process has sizes.
    plans: HashMap<Key, Option<Plan>>,
}

// Safety: handles and descriptors belong to no thread. They are used by whoever holds the lock.
#[allow(unsafe_code)]
unsafe impl Send for State {}

impl State {
    /// That of a GPU.
    #[allow(unsafe_code)]
    fn handle(&mut self, functions: &Functions, context: &CudaContext) -> Result<Handle> {
        if let Some(handle) = self.handles.get(&context.ordinal()) {
            return Ok(*handle);
        }
        context.bind_to_thread().w()?;
        let mut handle = null_mut();
        // Safety: it writes a handle for the GPU that is current on this thread where it is told.
        check("cudnnCreate", unsafe {
            (functions.create)(&raw mut handle)
        })?;
        self.handles.insert(context.ordinal(), handle);
        Ok(handle)
    }
}

fn state() -> MutexGuard<'static, State> {
    static STATE: OnceLock<Mutex<State>> = OnceLock::new();
    let state = STATE.get_or_init(Mutex::default);
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forward, x [n, h, w, c] and rows [o, k k c] of a weight -> y [n, h', w', o]; back, the gradient of y and the same rows -> that of x.
/// All are bf16 or f16. Whether it was computed.
#[allow(unsafe_code)]
pub(super) fn compute(
    way: PassDirection,
    from: &Tensor,
    rows: &Tensor,
    to: &Tensor,
    shape: &Shape,
) -> Result<bool> {
    let Some(functions) = functions() else {
        return Ok(false);
    };
    let device = device(from)?;
    let stream = device.cuda_stream();
    let context = stream.context();
    let mut state = state();
    let handle = state.handle(functions, context)?;
    let key = (way, *shape, from.dtype(), context.ordinal());
    let plan = match state.plans.entry(key) {
        Entry::Occupied(known) => *known.get(),
        Entry::Vacant(new) => *new.insert(plan(functions, handle, way, shape, from.dtype())?),
    };
    let Some(plan) = plan else { return Ok(false) };
    let workspace = output(plan.memory.max(1), DType::U8, from)?;
    let memory = address(&workspace)? as *mut c_void;
    let [from, rows] = [address(from)?, address(rows)?].map(|it| it as *const c_void);
    let to = address(to)? as *mut c_void;
    let (one, zero) = (1.0f32, 0.0f32);
    let (function, first, second, last) = match way {
        PassDirection::Forward => (
            functions.forward,
            (plan.x, from),
            (plan.weight, rows),
            plan.y,
        ),
        PassDirection::Back => (functions.back, (plan.weight, rows), (plan.y, from), plan.x),
    };
    // Safety: descriptors are those of tensors of these sizes, whose memory the stream keeps until the work is done.
    let status = unsafe {
        let stream = stream.cu_stream().cast();
        check("cudnnSetStream", (functions.set_stream)(handle, stream))?;
        function(
            handle,
            &raw const one,
            first.0,
            first.1,
            second.0,
            second.1,
            plan.geometry,
            plan.algorithm,
            memory,
            plan.memory,
            &raw const zero,
            last,
            to,
        )
    };
    check("a convolution", status)?;
    Ok(true)
}

/// The best way that cuDNN knows, if one is wanted.
#[allow(unsafe_code)]
fn plan(
    functions: &Functions,
    handle: Handle,
    way: PassDirection,
    shape: &Shape,
    dtype: DType,
) -> Result<Option<Plan>> {
    let plan = describe(functions, shape, dtype)?;
    let mut count = 0;
    let mut suggestions = [Suggestion::NONE; SUGGESTIONS];
    let Plan { x, weight, y, .. } = plan;
    let (suggest, [from, with, to]) = match way {
        PassDirection::Forward => (functions.suggest_forward, [x, weight, y]),
        PassDirection::Back => (functions.suggest_back, [weight, y, x]),
    };
    let most = SUGGESTIONS as c_int;
    let suggested = suggestions.as_mut_ptr();
    // Safety: the descriptors were made just now, and there is room for as many suggestions as it is told.
    let status = unsafe {
        suggest(
            handle,
            from,
            with,
            plan.geometry,
            to,
            most,
            &raw mut count,
            suggested,
        )
    };
    check("ways", status)?;
    let count = usize::try_from(count).unwrap_or(0);
    let wanted = suggestions.iter().take(count).find(|it| {
        it.status == SUCCESS
            && it.determinism == DETERMINISTIC
            && it.math == TENSOR_OP_MATH
            && it.memory <= MAX_BYTES
    });
    Ok(wanted.map(|it| Plan {
        algorithm: it.algorithm,
        memory: it.memory,
        ..plan
    }))
}

/// A convolution as cuDNN wants it described, without a way to compute it.
#[allow(unsafe_code)]
fn describe(functions: &Functions, shape: &Shape, dtype: DType) -> Result<Plan> {
    let number = match dtype {
        DType::BF16 => BFLOAT16,
        DType::F16 => HALF,
        _ => return Err(broken("cuDNN got numbers of another dtype")),
    };
    let size = |it: usize| it as c_int;
    let [channels, outputs] = shape.channels.map(size);
    let (n, k) = (size(shape.pictures), size(shape.geometry.kernel));
    let ([height, width], [to_height, to_width]) = (shape.from.map(size), shape.to.map(size));
    let [stride, padding] = [shape.geometry.stride, shape.geometry.padding].map(size);
    let [mut x, mut y, mut weight, mut geometry] = [null_mut(); 4];
    // Safety: each call gets what an earlier one made.
    unsafe {
        let f = functions;
        check("x", (f.create_tensor)(&raw mut x))?;
        check(
            "x",
            (f.set_tensor)(x, NHWC, number, n, channels, height, width),
        )?;
        check("y", (f.create_tensor)(&raw mut y))?;
        check(
            "y",
            (f.set_tensor)(y, NHWC, number, n, outputs, to_height, to_width),
        )?;
        check("weight", (f.create_filter)(&raw mut weight))?;
        check(
            "weight",
            (f.set_filter)(weight, number, NHWC, outputs, channels, k, k),
        )?;
        check("geometry", (f.create_convolution)(&raw mut geometry))?;
        let (p, s, mode) = (padding, stride, CROSS_CORRELATION);
        check(
            "geometry",
            (f.set_convolution)(geometry, p, p, s, s, 1, 1, mode, FLOAT),
        )?;
        check("geometry", (f.set_math)(geometry, TENSOR_OP_MATH))?;
    }
    Ok(Plan {
        x,
        weight,
        geometry,
        y,
        algorithm: 0,
        memory: 0,
    })
}

fn check(what: &str, status: Status) -> Result<()> {
    match status {
        SUCCESS => Ok(()),
        other => Err(Error::Tensor(candle_core::Error::Msg(format!(
            "cuDNN said {other} to {what}"
        )))),
    }
}
