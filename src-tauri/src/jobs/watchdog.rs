//! Ends an engine whose run hangs: a driver that never answers holds a thread for ever, and only another process can go on.

use std::{
    process,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use crate::host::locked;

/// A run that gives no sign of life for so long hangs, unless it took nearly as long before.
const PATIENCE: Duration = Duration::from_secs(3600);
/// No sign of life for so many times the longest time without one is no accident.
const TIMES_LONGEST: u32 = 20;

/// Watches as long as it lives.
pub(super) struct Watchdog {
    seen: Arc<Mutex<Seen>>,
}

struct Seen {
    last: Instant,
    longest: Duration,
}

impl Watchdog {
    /// Begins to watch.
    pub(super) fn new() -> Self {
        let seen = Arc::new(Mutex::new(Seen {
            last: Instant::now(),
            longest: Duration::ZERO,
        }));
        let (watched, patience) = (Arc::downgrade(&seen), patience());
        thread::spawn(move || {
            while let Some(seen) = watched.upgrade() {
                let (quiet, longest) = {
                    let seen = locked(&seen);
                    (seen.last.elapsed(), seen.longest)
                };
                if quiet > patience.max(longest * TIMES_LONGEST) {
                    let seconds = quiet.as_secs();
                    log(&format!(
                        "nothing happened in the run for {seconds} s; it hangs"
                    ));
                    process::abort();
                }
                drop(seen);
                thread::sleep(Duration::from_secs(1).min(patience / 4));
            }
        });
        Self { seen }
    }

    /// The run lives.
    pub(super) fn touch(&self) {
        let mut seen = locked(&self.seen);
        seen.longest = seen.longest.max(seen.last.elapsed());
        seen.last = Instant::now();
    }
}

/// Tests wait less.
fn patience() -> Duration {
    let asked = std::env::var("ANNEAL_HANG_SECONDS").ok();
    let asked = asked.filter(|_| cfg!(debug_assertions));
    let seconds = asked.and_then(|seconds| seconds.parse().ok());
    seconds.map_or(PATIENCE, Duration::from_secs)
}

#[expect(clippy::print_stderr, reason = "an engine's standard error is its log")]
fn log(words: &str) {
    eprintln!("{words}");
}
