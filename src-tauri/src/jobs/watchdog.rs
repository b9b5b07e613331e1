//! Ends an engine whose run hangs: a driver that never answers holds a thread for ever, and only another process can continue.

use std::{
    process,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use crate::lock::locked;

/// A run that gives no sign of life for so long hangs, unless it took nearly as long before.
const TIMEOUT: Duration = Duration::from_secs(3 * 3600);
/// No sign of life for so many times the longest time without one is no accident.
const TIMES_LONGEST: u32 = 20;

/// Watches as long as it lives.
pub(super) struct Watchdog {
    seen: Arc<Mutex<Silence>>,
}

/// Counted rather than timed: a machine that slept, or a process that was stopped, did not hang.
struct Silence {
    quiet_looks: u32,
    longest_looks: u32,
}

impl Watchdog {
    /// Begins to watch.
    pub(super) fn new() -> Self {
        let seen = Arc::new(Mutex::new(Silence {
            quiet_looks: 0,
            longest_looks: 0,
        }));
        let (watched, timeout) = (Arc::downgrade(&seen), timeout());
        let look = Duration::from_secs(1).min(timeout / 4);
        thread::spawn(move || {
            while let Some(seen) = watched.upgrade() {
                let (quiet, longest) = {
                    let mut seen = locked(&seen);
                    seen.quiet_looks += 1;
                    (look * seen.quiet_looks, look * seen.longest_looks)
                };
                drop(seen);
                if quiet > timeout.max(longest * TIMES_LONGEST) {
                    let seconds = quiet.as_secs();
                    log(&format!(
                        "nothing happened in the run for {seconds} s; it hangs"
                    ));
                    process::abort();
                }
                thread::sleep(look);
            }
        });
        Self { seen }
    }

    /// The run lives.
    pub(super) fn touch(&self) {
        let mut seen = locked(&self.seen);
        seen.longest_looks = seen.longest_looks.max(seen.quiet_looks);
        seen.quiet_looks = 0;
    }
}

/// Tests wait less.
fn timeout() -> Duration {
    let asked = std::env::var("ANNEAL_HANG_SECONDS").ok();
    let asked = asked.filter(|_| cfg!(debug_assertions));
    let seconds = asked.and_then(|seconds| seconds.parse().ok());
    seconds.map_or(TIMEOUT, Duration::from_secs)
}

#[expect(clippy::print_stderr, reason = "an engine’s standard error is its log")]
fn log(message: &str) {
    eprintln!("{message}");
}
