//! The events of a run on disk: one per line, numbered, appended before anyone sees them.
//!
//! A line that a crash cut short is forgotten: the run goes on from its last checkpoint anyway.

use std::{
    fs::{self, File, OpenOptions},
    io::{BufRead, BufReader, ErrorKind, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use ::models::train::TrainEvent;
use serde::{Deserialize, Serialize};

use crate::wire::error::{AppError, Result};

/// An event as it stands in the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RecordedEvent {
    /// Counts from 1, without gaps, over all sessions of a run.
    pub(crate) number: u64,
    /// When it was written, in UTC: `2026-11-21T09:30:00.123Z`.
    pub(crate) time: String,
    /// What happened.
    #[serde(flatten)]
    pub(crate) event: TrainEvent,
}

/// Room on the disk for what is still to be said of a run when the disk is full.
const RESERVE_BYTES: usize = 64 << 10;

/// Appends events to the file of a run.
#[derive(Debug)]
pub(crate) struct Record {
    file: File,
    path: PathBuf,
    last_number: u64,
    /// Bytes of the events so far.
    bytes: u64,
}

impl Record {
    /// Opens the file, or makes it. A last line that was cut short is taken away.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let last_number = read(path)?.last().map_or(0, |event| event.number);
        let text = fs::read(path).unwrap_or_default();
        let whole = text
            .iter()
            .rposition(|&byte| byte == b'\n')
            .map_or(0, |end| end + 1);
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .map_err(AppError::file("open the events", path))?;
        if whole < text.len() {
            file.set_len(whole as u64)
                .map_err(AppError::file("repair the events", path))?;
        }
        // Without the reserve, a full disk takes no more words; nothing else needs it.
        let _ = fs::write(reserve(path), [0; RESERVE_BYTES]);
        Ok(Self {
            file,
            path: path.to_owned(),
            last_number,
            bytes: whole as u64,
        })
    }

    /// Writes an event and returns it with its number and time.
    pub(crate) fn append(&mut self, event: TrainEvent) -> Result<RecordedEvent> {
        let event = RecordedEvent {
            number: self.last_number + 1,
            time: super::now(),
            event,
        };
        let mut line =
            serde_json::to_string(&event).map_err(|error| AppError::failed(error.to_string()))?;
        line.push('\n');
        let mut written = self.write(line.as_bytes());
        if written.is_err() && fs::remove_file(reserve(&self.path)).is_ok() {
            written = self.write(line.as_bytes());
        }
        written.map_err(AppError::file("write an event", &self.path))?;
        self.last_number = event.number;
        self.bytes += line.len() as u64;
        Ok(event)
    }

    /// One write, so that a reader never sees half an event unless the machine stops. A disk that fills up midway has taken
    /// half of it, which is taken back.
    fn write(&mut self, line: &[u8]) -> std::io::Result<()> {
        let written = self.file.write_all(line);
        if written.is_err() {
            let _ = self.file.set_len(self.bytes);
        }
        written
    }
}

/// The file that keeps room for events.
fn reserve(path: &Path) -> PathBuf {
    path.with_extension("reserve")
}

/// Reads the events of a file from where it stopped the last time.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tail {
    path: PathBuf,
    /// Bytes of the whole lines that were read.
    offset: u64,
    /// How many they are.
    lines: usize,
}

impl Tail {
    /// Nothing is read yet.
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path,
            offset: 0,
            lines: 0,
        }
    }

    /// The number of the last event that was read: each line has the next.
    #[cfg(feature = "gui")]
    pub(crate) fn last_number(&self) -> u64 {
        self.lines as u64
    }

    /// Reads at most so many events. A last line without its end is being written, or was cut short: it is left for later.
    pub(crate) fn read(&mut self, most: usize) -> Result<Vec<RecordedEvent>> {
        let mut file = match File::open(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            opened => opened.map_err(AppError::file("read the events", &self.path))?,
        };
        file.seek(SeekFrom::Start(self.offset))
            .map_err(AppError::file("read the events", &self.path))?;
        let mut reader = BufReader::new(file);
        let mut line = Vec::new();
        let mut events = Vec::new();
        let mut offset = self.offset;
        while events.len() < most {
            line.clear();
            reader
                .read_until(b'\n', &mut line)
                .map_err(AppError::file("read the events", &self.path))?;
            if line.last() != Some(&b'\n') {
                break;
            }
            offset += line.len() as u64;
            let event = serde_json::from_slice(&line).map_err(|error| {
                let (line, path) = (self.lines + events.len() + 1, self.path.display());
                AppError::failed(format!("line {line} is not an event: {error}: `{path}`"))
            })?;
            events.push(event);
        }
        // Only now: who asks again after an error gets the error again, and not what follows the broken line.
        self.offset = offset;
        self.lines += events.len();
        Ok(events)
    }
}

/// Reads all events. Without a file there are none.
pub(crate) fn read(path: &Path) -> Result<Vec<RecordedEvent>> {
    Tail::new(path.to_owned()).read(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_numbered_over_sessions() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let event = |step| TrainEvent::Stopped { step };
        Record::open(&path).unwrap().append(event(1)).unwrap();
        Record::open(&path).unwrap().append(event(2)).unwrap();
        let numbers: Vec<(u64, TrainEvent)> = read(&path)
            .unwrap()
            .into_iter()
            .map(|it| (it.number, it.event))
            .collect();
        assert_eq!(numbers, [(1, event(1)), (2, event(2))]);

        let mut tail = Tail::new(path.clone());
        let mut read = |most| tail.read(most).unwrap().len();
        assert_eq!([1, 9, 9].map(&mut read), [1, 1, 0]);
        Record::open(&path).unwrap().append(event(3)).unwrap();
        assert_eq!(read(9), 1);
    }

    #[test]
    fn a_last_line_cut_short_is_forgotten_and_a_broken_one_before_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let mut record = Record::open(&path).unwrap();
        for step in 1..=3 {
            record.append(TrainEvent::Stopped { step }).unwrap();
        }
        let text = fs::read_to_string(&path).unwrap();
        for cut in 1..70 {
            fs::write(&path, &text[..text.len() - cut]).unwrap();
            assert_eq!(read(&path).unwrap().len(), 2, "cut by {cut}");
        }
        Record::open(&path)
            .unwrap()
            .append(TrainEvent::Stopped { step: 9 })
            .unwrap();
        let events = read(&path).unwrap();
        assert_eq!(
            (events.len(), events[2].number, events[2].event.step()),
            (3, 3, Some(9))
        );

        fs::write(&path, "{\"number\": 1}\n").unwrap();
        let error = read(&path).unwrap_err();
        assert!(
            error
                .message
                .starts_with("line 1 is not an event: missing field"),
            "{error}"
        );
    }
}
