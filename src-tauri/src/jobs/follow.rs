//! Following a run: what happens in it, at a pace that an eye can see.
//!
//! A run writes up to thousands of events a second, and a page that received them one by one would freeze. So new events
//! are collected for a thirtieth of a second and sent together. None is lost: events that were not sent yet are in the
//! run's file, and what exceeds the size limit of a message goes into the next.

use std::{thread, time::Duration};

use crate::{
    store::{
        record::RecordedEvent,
        run_state::{RunProgress, RunState},
        runs::Run,
    },
    wire::error::Result,
};

/// The time between two messages.
const PACE: Duration = Duration::from_millis(33);
/// The time between two looks at a run that can't be read.
const UNREADABLE_LOOK: Duration = Duration::from_secs(1);
/// The most events of a message.
const MAX_EVENTS: usize = 5_000;
/// Whether a process trains the run is asked every so many looks, when nothing new was written.
const LOOKS_PER_STATE: usize = 10;

/// Tells what happened in a run after event number `after`, and then what happens, as long as somebody `hears` it. Whether the
/// app has taken the run on says `goes_on`.
///
/// `report` gets events, none where only the state changed, and the state after them. The first call comes as soon as the
/// events that are known already were read over. A run that can't be read now may be on a disk that comes back.
pub(crate) fn follow(
    run: &Run,
    after: u64,
    report: &mut dyn FnMut(Vec<RecordedEvent>, RunState),
    hears: &dyn Fn() -> bool,
    goes_on: &dyn Fn() -> bool,
) {
    let mut follower = Follower {
        progress: RunProgress::new(run),
        last: after,
        reported: None,
        quiet_looks: 0,
    };
    while hears() {
        match follower.look(run, report, goes_on) {
            Ok(true) => {}
            Ok(false) => thread::sleep(PACE),
            Err(_) => thread::sleep(UNREADABLE_LOOK),
        }
    }
}

/// What whoever follows a run knows of it.
struct Follower {
    progress: RunProgress,
    /// The number of the last event that was told, or was known before.
    last: u64,
    reported: Option<RunState>,
    /// How often nothing new was found.
    quiet_looks: usize,
}

impl Follower {
    /// Tells what is new. Returns whether there is more that nobody sees before it is shown, so that it is read at once.
    fn look(
        &mut self,
        run: &Run,
        report: &mut dyn FnMut(Vec<RecordedEvent>, RunState),
        goes_on: &dyn Fn() -> bool,
    ) -> Result<bool> {
        let mut events = self.progress.catch_up(MAX_EVENTS)?;
        let behind = events.len() == MAX_EVENTS;
        events.retain(|event| event.number > self.last);
        let is_known = events.is_empty();
        let is_time = !is_known || self.quiet_looks.is_multiple_of(LOOKS_PER_STATE);
        // What the page has already is read over without a word.
        if is_time && !(behind && is_known) {
            let state = self.progress.state(run, goes_on())?;
            if !is_known || self.reported.as_ref() != Some(&state) {
                self.last = events.last().map_or(self.last, |event| event.number);
                self.reported = Some(state.clone());
                report(events, state);
            }
        }
        self.quiet_looks = if behind { 0 } else { self.quiet_looks + 1 };
        Ok(behind && is_known)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use models::train::TrainEvent;

    use super::*;
    use crate::store::record::Record;

    #[test]
    fn what_happens_is_told_in_order_in_messages_of_bounded_length() {
        let folder = tempfile::tempdir().unwrap();
        let run = Run::at(folder.path().to_owned());
        let mut record = Record::open(&run.events_file()).unwrap();
        let last = 2 * MAX_EVENTS + 10;
        for step in 1..=last {
            record.append(TrainEvent::Continued { step }).unwrap();
        }
        let (heard, mut longest) = (RefCell::new(Vec::new()), 0);
        let mut report = |events: Vec<RecordedEvent>, _| {
            longest = longest.max(events.len());
            let mut heard = heard.borrow_mut();
            heard.extend(events.iter().map(|event| event.number));
            if heard.len() == last - 7 {
                // What comes later is told too.
                record
                    .append(TrainEvent::Paused {
                        step: last,
                        why: None,
                    })
                    .unwrap();
            }
        };
        let hears = || heard.borrow().len() < last - 6;
        follow(&run, 7, &mut report, &hears, &|| false);
        assert!(heard.borrow().iter().copied().eq(8..=last as u64 + 1));
        assert!(longest <= MAX_EVENTS);
    }
}
