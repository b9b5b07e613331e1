//! What a person names as a device, in their words and in those of other tools.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use super::DeviceKind;
use crate::{Error, Result};

/// Why an AMD card can't be used, as the end of a sentence.
pub(super) const NEEDS_ROCM: &str =
    "it would need an engine built for AMD’s ROCm, which candle has no release of";

/// The device a user names in a run file or with `--device`: `auto`, `gpu`, `metal`, `cuda`, `cuda:1` or `cpu`.
///
/// Names of other tools are understood: `mps` is Metal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum RequestedDevice {
    /// The best usable one.
    #[default]
    Auto,
    /// The best usable one that is no processor.
    Gpu,
    /// The Apple GPU.
    Metal,
    /// The NVIDIA GPU with this number.
    Cuda(usize),
    /// The CPU, which every machine has.
    Cpu,
}

impl RequestedDevice {
    /// The one device that is meant; nothing when any usable one will do.
    pub(super) fn kind(self) -> Option<(DeviceKind, usize)> {
        match self {
            Self::Auto | Self::Gpu => None,
            Self::Metal => Some((DeviceKind::Metal, 0)),
            Self::Cuda(ordinal) => Some((DeviceKind::Cuda, ordinal)),
            Self::Cpu => Some((DeviceKind::Cpu, 0)),
        }
    }
}

impl fmt::Display for RequestedDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Gpu => f.write_str("gpu"),
            Self::Metal => f.write_str("metal"),
            Self::Cuda(0) => f.write_str("cuda"),
            Self::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
            Self::Cpu => f.write_str("cpu"),
        }
    }
}

impl FromStr for RequestedDevice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, ordinal) = match text.split_once(':') {
            Some((name, ordinal)) => (name, ordinal.parse().ok()),
            None => (text, Some(0)),
        };
        match (name, ordinal) {
            ("auto", _) if name == text => Ok(Self::Auto),
            ("gpu", _) if name == text => Ok(Self::Gpu),
            ("cpu", _) if name == text => Ok(Self::Cpu),
            ("metal" | "mps", Some(0)) => Ok(Self::Metal),
            ("cuda", Some(ordinal)) => Ok(Self::Cuda(ordinal)),
            ("rocm" | "hip" | "amd", _) => {
                let problem = format!("is `{text}`; an AMD card can’t be used: {NEEDS_ROCM}");
                Err(Error::setting("device", problem))
            }
            _ => {
                let problem =
                    format!("is `{text}`; it can be auto, gpu, metal, cuda, cuda:1 or cpu");
                Err(Error::setting("device", problem))
            }
        }
    }
}

impl TryFrom<String> for RequestedDevice {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<RequestedDevice> for String {
    fn from(device: RequestedDevice) -> Self {
        device.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_written_as_it_is_read() {
        for text in ["auto", "gpu", "metal", "cuda", "cuda:1", "cpu"] {
            let request: RequestedDevice = serde_json::from_value(text.into()).unwrap();
            assert_eq!(serde_json::to_value(request).unwrap(), text);
        }
        let error = "tpu".parse::<RequestedDevice>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "`device` is `tpu`; it can be auto, gpu, metal, cuda, cuda:1 or cpu"
        );
        for wrong in ["cuda:x", "cpu:0", "auto:1", "gpu:1", "metal:1", ""] {
            assert!(wrong.parse::<RequestedDevice>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_of_other_tools_are_understood_or_answered() {
        for (text, device) in [
            ("mps", RequestedDevice::Metal),
            ("mps:0", RequestedDevice::Metal),
            ("cuda:0", RequestedDevice::Cuda(0)),
        ] {
            assert_eq!(text.parse::<RequestedDevice>().unwrap(), device);
        }
        for text in ["rocm", "rocm:0", "hip", "amd"] {
            let error = text.parse::<RequestedDevice>().unwrap_err().to_string();
            assert_eq!(
                error,
                format!(
                    "`device` is `{text}`; an AMD card can’t be used: it would need an engine built for AMD’s ROCm, \
                     which candle has no release of"
                )
            );
        }
    }
}
