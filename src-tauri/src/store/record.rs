//! The events of a run on disk: one per line, numbered, appended before anyone sees them.
//!
//! A last line that a crash cut short is forgotten: the run resumes from its last checkpoint anyway. Any other line that
//! can't be read is left out, counted, and stays in the file.

use std::{
    fs::{self, File, OpenOptions},
    io::{BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use models::train::TrainEvent;

use super::limits;
pub(crate) use crate::wire::engine::RecordedEvent;
use crate::wire::error::{AppError, Result};

/// How many events are in memory at once where none of them is kept.
pub(crate) const EVENTS_AT_ONCE: usize = 5_000;
/// After how many lines the disk is waited for, where nothing is saved meanwhile.
const MAX_UNSYNCED: usize = 10_000;
/// How often a file that can't be written is opened anew.
const REOPEN: Duration = Duration::from_millis(500);
/// What a line begins with.
const BEGIN: &[u8] = b"{\"number\":";
/// By how much a number may be ahead of the one before it: as many lines may be lost. A greater one was damaged.
const MAX_LOST: u64 = 1_000_000;

impl RecordedEvent {
    /// A run waits until the disk takes its events.
    pub(crate) fn unwritten(step: usize, why: &AppError) -> Self {
        Self {
            number: 0,
            time: super::now(),
            event: TrainEvent::Waiting {
                step,
                why: why.message.clone(),
                missing_bytes: None,
            },
        }
    }
}

/// Room on the disk for what is still to be said of a run when the disk is full.
const RESERVE_BYTES: usize = 64 << 10;

/// Appends events to the file of a run.
#[derive(Debug)]
pub(crate) struct Record {
    file: File,
    path: PathBuf,
    last_number: u64,
    /// The last event that was there when the file was opened.
    last_event: Option<TrainEvent>,
    /// Bytes of the events so far.
    bytes: u64,
    /// The lines that a power cut would lose, with their numbers.
    unsynced: Vec<(u64, String)>,
    /// When it was last tried to open the file anew, and whether that is not yet known to who asks.
    reopened: Option<Instant>,
    came_back: bool,
}

impl Record {
    /// Opens the file, or makes it. A last line that was cut short is taken away.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let mut tail = Tail::new(path.to_owned());
        let mut last_event = None;
        while let Some(last) = tail.read(EVENTS_AT_ONCE)?.pop() {
            last_event = Some(last.event);
        }
        let file = OpenOptions::new()
            .create(true)
            .read(true)
            .append(true)
            .open(path)
            .map_err(AppError::file("open the events", path))?;
        // Without the reserve, a full disk takes no more words; nothing else needs it.
        let reserved = fs::metadata(reserve(path)).map_or(0, |file| file.len());
        if reserved != RESERVE_BYTES as u64 {
            let _ = fs::write(reserve(path), [0; RESERVE_BYTES]);
        }
        let mut record = Self {
            file,
            path: path.to_owned(),
            last_number: tail.last_number,
            last_event,
            bytes: 0,
            unsynced: Vec::new(),
            reopened: None,
            came_back: false,
        };
        let ended = record.end_last_line(tail.offset);
        let length = ended.and_then(|()| record.file.metadata());
        record.bytes = length
            .map_err(AppError::file("repair the events", path))?
            .len();
        Ok(record)
    }

    /// The last event that was there when the file was opened.
    pub(crate) fn last_event(&self) -> Option<&TrainEvent> {
        self.last_event.as_ref()
    }

    /// Takes the beginning of an event away that stands after the last whole line. What is none of ours becomes a line,
    /// so that it is kept.
    fn end_last_line(&mut self, whole: u64) -> std::io::Result<()> {
        let mut rest = vec![0; BEGIN.len()];
        self.file.seek(SeekFrom::Start(whole))?;
        let read = self.file.read(&mut rest)?;
        match rest.get(..read) {
            Some([]) | None => Ok(()),
            Some(rest) if BEGIN.starts_with(rest) => self.file.set_len(whole),
            Some(_) => self.file.write_all(b"\n"),
        }
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
        if written.as_ref().is_err_and(|error| !is_full(error)) && self.reopen() {
            written = self.write(line.as_bytes());
        }
        written.map_err(AppError::file("write an event", &self.path))?;
        self.last_number = event.number;
        self.unsynced.push((event.number, line));
        let is_due = is_mark(&event.event) || self.unsynced.len() >= MAX_UNSYNCED;
        if is_due && self.file.sync_data().is_ok() {
            self.unsynced.clear();
        }
        Ok(event)
    }

    /// Whether the disk went away and came back since this was asked.
    pub(crate) fn came_back(&mut self) -> bool {
        std::mem::take(&mut self.came_back)
    }

    /// Opens the file anew: what was open on a disk that went away stays lost when it is back, and so does what that disk did
    /// not have yet, which is written again. Returns whether all of it is there.
    fn reopen(&mut self) -> bool {
        if self.reopened.is_some_and(|at| at.elapsed() < REOPEN) {
            return false;
        }
        self.reopened = Some(Instant::now());
        let Ok(mut anew) = Self::open(&self.path) else {
            return false;
        };
        let known = anew.last_number;
        let mut lost = self.unsynced.iter().filter(|(number, _)| *number > known);
        let is_whole = lost.all(|(_, line)| anew.write(line.as_bytes()).is_ok());
        if is_whole {
            (self.file, self.bytes) = (anew.file, anew.bytes);
            self.came_back = true;
        }
        is_whole
    }

    /// One write, so that a reader never sees half an event unless the machine stops. A disk that fills up midway has taken
    /// half of it, which is taken back.
    fn write(&mut self, line: &[u8]) -> std::io::Result<()> {
        let written = self.file.write_all(line);
        match written {
            Ok(()) => self.bytes += line.len() as u64,
            Err(_) => drop(self.file.set_len(self.bytes)),
        }
        written
    }
}

/// Whether a disk has only too little room. Then what is open on it is as good as ever.
fn is_full(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge
    )
}

/// Whether what was said so far has to outlive a power cut, as what was saved does.
fn is_mark(event: &TrainEvent) -> bool {
    matches!(
        event,
        TrainEvent::Saved { .. }
            | TrainEvent::Paused { .. }
            | TrainEvent::Stopped { .. }
            | TrainEvent::Failed { .. }
            | TrainEvent::Finished { .. }
    )
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
    /// The number of the last event that was read.
    last_number: u64,
    /// How many lines could not be read.
    unreadable: usize,
}

impl Tail {
    /// Nothing is read yet.
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path,
            offset: 0,
            last_number: 0,
            unreadable: 0,
        }
    }

    /// How many lines could not be read so far, and were left out.
    pub(crate) fn unreadable(&self) -> usize {
        self.unreadable
    }

    /// Whether the file is shorter than what was read of it: a disk that went away has come back without the end.
    pub(crate) fn is_cut(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|file| file.len() < self.offset)
    }

    /// Reads at most so many events. A last line without its end is being written, or was cut short: it is left for later.
    pub(crate) fn read(&mut self, most: usize) -> Result<Vec<RecordedEvent>> {
        let failed = || AppError::file("read the events", &self.path);
        let mut file = match File::open(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            opened => opened.map_err(failed())?,
        };
        file.seek(SeekFrom::Start(self.offset)).map_err(failed())?;
        let mut reader = BufReader::new(file);
        let mut line = Vec::new();
        let mut events = Vec::new();
        while events.len() < most {
            line.clear();
            let length = match read_line(&mut reader, &mut line) {
                // What was read so far counts; the error comes back with the next look.
                Err(_) if !events.is_empty() => break,
                read => read.map_err(failed())?,
            };
            let Some(length) = length else { break };
            self.offset += length;
            let is_short = line.len() as u64 <= limits::EVENT.most;
            let event = serde_json::from_slice::<RecordedEvent>(&line);
            let Some(mut event) = event.ok().filter(|_| is_short) else {
                self.unreadable += 1;
                continue;
            };
            // Whoever follows a run asks for what comes after a number, so each is greater than the one before.
            let next = self.last_number + 1;
            if !(next..=next + MAX_LOST).contains(&event.number) {
                event.number = next;
            }
            self.last_number = event.number;
            events.push(event);
        }
        Ok(events)
    }
}

/// Reads a line, of which no more is kept than an event may have, and a byte more. Returns its length with its end, or nothing
/// where the file ends before the line does.
fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> std::io::Result<Option<u64>> {
    let mut length = 0;
    loop {
        let buffer = match reader.fill_buf() {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            filled => filled?,
        };
        if buffer.is_empty() {
            return Ok(None);
        }
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let part = &buffer[..end.unwrap_or(buffer.len())];
        let room = (limits::EVENT.most as usize + 1).saturating_sub(line.len());
        line.extend_from_slice(&part[..part.len().min(room)]);
        let passed = part.len() + usize::from(end.is_some());
        reader.consume(passed);
        length += passed as u64;
        if end.is_some() {
            return Ok(Some(length));
        }
    }
}

/// Reads all events. Without a file there are none.
pub(crate) fn read(path: &Path) -> Result<Vec<RecordedEvent>> {
    Tail::new(path.to_owned()).read(usize::MAX)
}

#[cfg(test)]
mod tests {
    use std::fs;

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

    /// A file with three events, and its text.
    fn three_events() -> (tempfile::TempDir, PathBuf, String) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let mut record = Record::open(&path).unwrap();
        for step in 1..=3 {
            record.append(TrainEvent::Stopped { step }).unwrap();
        }
        let text = fs::read_to_string(&path).unwrap();
        (folder, path, text)
    }

    #[test]
    fn a_last_line_cut_short_is_forgotten() {
        let (_folder, path, text) = three_events();
        for cut in 1..70 {
            fs::write(&path, &text[..text.len() - cut]).unwrap();
            assert_eq!(read(&path).unwrap().len(), 2, "cut by {cut}");
        }
        let mut record = Record::open(&path).unwrap();
        record.append(TrainEvent::Stopped { step: 9 }).unwrap();
        let events = read(&path).unwrap();
        assert_eq!(
            (events.len(), events[2].number, events[2].event.step()),
            (3, 3, Some(9))
        );
    }

    #[test]
    fn a_line_that_cannot_be_read_is_left_out_and_counted_and_stays_in_the_file() {
        let (_folder, path, text) = three_events();
        let lines: Vec<&str> = text.lines().collect();
        for broken in [
            "",
            "{\"number\":2,",
            "\u{0}\u{0}\u{0}",
            "{\"number\": 2}",
            "[]",
            "Stopped",
        ] {
            fs::write(&path, [lines[0], broken, lines[2], ""].join("\n")).unwrap();
            let mut tail = Tail::new(path.clone());
            let numbers: Vec<u64> = tail.read(9).unwrap().iter().map(|it| it.number).collect();
            assert_eq!((numbers, tail.unreadable()), (vec![1, 3], 1), "{broken}");
        }
        // Nor does anything get lost at the end that we did not begin.
        fs::write(&path, text.clone() + "a note of mine").unwrap();
        let mut record = Record::open(&path).unwrap();
        let fourth = record.append(TrainEvent::Stopped { step: 4 }).unwrap();
        assert_eq!((fourth.number, read(&path).unwrap().len()), (4, 4));
        let kept = fs::read_to_string(&path).unwrap();
        assert!(kept.starts_with(&(text + "a note of mine\n{")), "{kept}");
    }

    #[test]
    fn numbers_grow_whatever_stands_in_the_file_and_go_on_after_the_highest() {
        let (_folder, path, text) = three_events();
        for (wrong, expected) in [
            ("1", [1, 2, 3]),
            ("0", [1, 2, 3]),
            ("7", [1, 7, 8]),
            ("18446744073709551615", [1, 2, 3]),
        ] {
            let number = format!("{{\"number\":{wrong},");
            fs::write(&path, text.replace("{\"number\":2,", &number)).unwrap();
            let numbers: Vec<u64> = read(&path).unwrap().iter().map(|it| it.number).collect();
            assert_eq!(numbers, expected);
            let mut record = Record::open(&path).unwrap();
            let next = record.append(TrainEvent::Stopped { step: 4 }).unwrap();
            assert_eq!(next.number, expected[2] + 1);
        }
    }

    #[test]
    fn a_file_that_was_open_on_a_disk_that_went_away_is_opened_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let mut record = Record::open(&path).unwrap();
        record.append(TrainEvent::Continued { step: 1 }).unwrap();
        // Nothing can be written through this one any more.
        record.file = File::open(&path).unwrap();
        record.append(TrainEvent::Continued { step: 2 }).unwrap();
        record.append(TrainEvent::Continued { step: 3 }).unwrap();
        let numbers: Vec<u64> = read(&path).unwrap().iter().map(|it| it.number).collect();
        assert_eq!(numbers, [1, 2, 3]);
    }

    #[test]
    fn what_a_disk_lost_when_it_went_away_is_written_again_when_it_is_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let mut record = Record::open(&path).unwrap();
        let append = |record: &mut Record, step| {
            let event = TrainEvent::Continued { step };
            record.append(event).map(|_| ())
        };
        (1..=4).for_each(|step| append(&mut record, step).unwrap());
        let mut tail = Tail::new(path.clone());
        assert_eq!(tail.read(usize::MAX).unwrap().len(), 4);
        // The disk has the first two, and a part of the third.
        let text = fs::read_to_string(&path).unwrap();
        let third = text.match_indices('\n').nth(1).unwrap().0 + 20;
        record.file = File::open(&path).unwrap();
        fs::write(&path, &text[..third]).unwrap();
        assert!(tail.is_cut());
        append(&mut record, 5).unwrap();
        let numbers: Vec<u64> = read(&path).unwrap().iter().map(|it| it.number).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 5]);
        assert!(fs::read_to_string(&path).unwrap().starts_with(&text));
        // Whoever reads on from where they were has missed nothing.
        assert!(!tail.is_cut());
        assert_eq!(tail.read(usize::MAX).unwrap()[0].number, 5);
    }
}
