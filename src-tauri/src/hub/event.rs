//! What happens to a download, one event after the other, for whoever shows it.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::Ordering,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use serde::Serialize;

use super::{
    Hub,
    download::{Ended, Progress, Wanted},
    fetch::Retries,
};
use crate::wire::error::{AppError, Result};

/// How often progress is told.
const TELL: Duration = Duration::from_millis(100);

/// Something that happened to a download.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum HubEvent {
    /// It begins, or continues.
    Started {
        id: String,
        commit: String,
        files: usize,
        done_bytes: u64,
        total_bytes: u64,
    },
    /// Bytes came, or none did for a while.
    Progressed {
        done_bytes: u64,
        total_bytes: u64,
        bytes_per_second: Option<f64>,
        seconds_left: Option<f64>,
    },
    /// The network failed, and is tried again.
    Retrying { message: String },
    /// Everything is here and was checked.
    Finished {
        path: PathBuf,
        bytes: u64,
        fetched_bytes: u64,
        seconds: f64,
    },
    /// Somebody stopped it; what came is kept.
    Stopped { done_bytes: u64, total_bytes: u64 },
}

impl Hub {
    /// Fetches what is missing, and tells how it goes, until it is done or `stop` says so.
    pub(crate) fn download_telling(
        &self,
        wanted: &Wanted,
        retries: Retries,
        tell: &mut dyn FnMut(HubEvent),
        stop: &dyn Fn() -> bool,
    ) -> Result<Ended> {
        let progress = Arc::new(Progress::new(wanted, self.cache()?));
        let (start, before) = (Instant::now(), progress.look(false).bytes());
        let total_bytes = wanted.bytes();
        tell(HubEvent::Started {
            id: wanted.id.to_string(),
            commit: wanted.commit.clone(),
            files: wanted.files.len(),
            done_bytes: before,
            total_bytes,
        });
        let ended = thread::scope(|scope| {
            // Its end hangs up.
            let (line, is_over) = mpsc::channel::<()>();
            let (hub, watched) = (self, &progress);
            let download = scope.spawn(move || {
                let _line = line;
                hub.download(wanted, watched, retries)
            });
            let mut retrying = None;
            while is_over.recv_timeout(TELL) == Err(RecvTimeoutError::Timeout) {
                if stop() {
                    progress.stop.store(true, Ordering::SeqCst);
                }
                let look = progress.look(true);
                if let Some(error) = look.retrying.as_ref().filter(|_| look.retrying != retrying) {
                    tell(HubEvent::Retrying {
                        message: error.message.clone(),
                    });
                }
                tell(HubEvent::Progressed {
                    done_bytes: look.bytes(),
                    total_bytes,
                    bytes_per_second: look.bytes_per_second,
                    seconds_left: look.seconds_left,
                });
                retrying = look.retrying;
            }
            download
                .join()
                .unwrap_or_else(|_| Err(AppError::failed("the download ended in the middle")))
        })?;
        tell(match &ended {
            Ended::Whole(path) => HubEvent::Finished {
                path: path.clone(),
                bytes: total_bytes,
                fetched_bytes: total_bytes.saturating_sub(before),
                seconds: start.elapsed().as_secs_f64(),
            },
            Ended::Stopped => HubEvent::Stopped {
                done_bytes: progress.look(false).bytes(),
                total_bytes,
            },
        });
        Ok(ended)
    }
}
