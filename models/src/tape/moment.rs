//! A moment in the work of a device, for which other work on it can wait.

#[cfg(all(feature = "cuda", target_os = "linux"))]
use std::sync::Arc;

use candle_core::Tensor;
#[cfg(all(feature = "cuda", target_os = "linux"))]
use candle_core::{
    Device,
    cuda::{
        WrapErr,
        cudarc::driver::{
            CudaEvent, CudaStream,
            sys::{self, CUevent_record_flags as Flags, CUstreamCaptureStatus as Capture},
        },
    },
};

use crate::Result;

/// A moment in what a device has been told to do: that before which a tensor is computed. On a device with one queue of work
/// there is nothing to wait for.
#[derive(Debug, Clone)]
pub struct Moment {
    #[cfg(all(feature = "cuda", target_os = "linux"))]
    event: Option<Arc<CudaEvent>>,
}

impl Moment {
    /// Now: after all that the device of this tensor was told to do so far. In work that is recorded, the same moment of each play.
    #[cfg_attr(
        not(all(feature = "cuda", target_os = "linux")),
        expect(unused_variables)
    )]
    pub fn now(tensor: &Tensor) -> Result<Self> {
        #[cfg(all(feature = "cuda", target_os = "linux"))]
        return Ok(Self {
            event: match tensor.device() {
                Device::Cuda(device) => Some(Arc::new(event(&device.cuda_stream())?)),
                _ => None,
            },
        });
        #[cfg(not(all(feature = "cuda", target_os = "linux")))]
        Ok(Self {})
    }

    /// Has what a stream is told from here on wait for this moment.
    #[cfg(all(feature = "cuda", target_os = "linux"))]
    pub(crate) fn awaited_by(&self, stream: &CudaStream) -> Result<()> {
        self.event
            .iter()
            .try_for_each(|event| Ok(stream.wait(event).w()?))
    }
}

#[cfg(all(feature = "cuda", target_os = "linux"))]
#[allow(unsafe_code)]
fn event(stream: &CudaStream) -> Result<CudaEvent> {
    let event = stream.context().new_event(None).w()?;
    // While work is recorded, only such an event is seen by work outside of the recording.
    let flags = match stream.capture_status().w()? {
        Capture::CU_STREAM_CAPTURE_STATUS_ACTIVE => Flags::CU_EVENT_RECORD_EXTERNAL,
        _ => Flags::CU_EVENT_RECORD_DEFAULT,
    };
    // SAFETY: both live, in one context.
    let told =
        unsafe { sys::cuEventRecordWithFlags(event.cu_event(), stream.cu_stream(), flags as u32) };
    told.result().w()?;
    Ok(event)
}
