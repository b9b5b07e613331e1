//! Keeping the machine awake while a run is running. The screen may go dark.
//!
//! Every system has its own way, and each ends by itself when this process does, however it ends. macOS and Linux have a
//! program for it; Windows has a call.

use std::process::Child;
#[cfg(any(target_os = "macos", target_os = "linux"))]
use std::process::{Command, Stdio};

/// Held while the machine is to stay awake.
#[derive(Debug)]
pub(crate) struct Awake {
    /// The program that keeps it awake, where there is one.
    child: Option<Child>,
}

impl Awake {
    /// Keeps the machine awake. Nothing where that can't be done: a system without the program, or a container.
    pub(crate) fn hold() -> Option<Self> {
        hold()
    }

    /// Whether the machine still is kept awake.
    pub(crate) fn holds(&mut self) -> bool {
        match &mut self.child {
            None => true,
            Some(child) => matches!(child.try_wait(), Ok(None)),
        }
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
        let_sleep();
    }
}

/// `caffeinate` holds an assertion against idle sleep, until the process with this number is gone.
#[cfg(target_os = "macos")]
fn hold() -> Option<Awake> {
    let id = std::process::id().to_string();
    let child = Command::new("/usr/bin/caffeinate")
        .args(["-i", "-m", "-w", &id])
        .stdin(Stdio::null())
        .spawn()
        .ok()?;
    Some(Awake { child: Some(child) })
}

/// `systemd-inhibit` holds a lock against sleep while `cat` reads our end of a pipe, which closes when we are gone.
#[cfg(target_os = "linux")]
fn hold() -> Option<Awake> {
    let child = Command::new("systemd-inhibit")
        .args(["--what=idle:sleep", "--who=Anneal"])
        .args(["--why=A model is being trained", "--mode=block", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    Some(Awake { child: Some(child) })
}

/// The state holds for the thread that sets it, so whoever holds this does so on one thread.
#[cfg(windows)]
fn hold() -> Option<Awake> {
    use windows_sys::Win32::System::Power::{
        ES_CONTINUOUS, ES_SYSTEM_REQUIRED, SetThreadExecutionState,
    };
    // SAFETY: the call takes flags and touches no memory of ours.
    let before = unsafe { SetThreadExecutionState(ES_CONTINUOUS | ES_SYSTEM_REQUIRED) };
    (before != 0).then_some(Awake { child: None })
}

#[cfg(windows)]
fn let_sleep() {
    use windows_sys::Win32::System::Power::{ES_CONTINUOUS, SetThreadExecutionState};
    // SAFETY: the call takes flags and touches no memory of ours.
    unsafe { SetThreadExecutionState(ES_CONTINUOUS) };
}

#[cfg(not(windows))]
fn let_sleep() {}

#[cfg(not(any(target_os = "macos", target_os = "linux", windows)))]
fn hold() -> Option<Awake> {
    None
}
