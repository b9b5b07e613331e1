//! What probes say of an answer: how their scores went over its tokens.

use std::path::PathBuf;

use console::style;
use models::{
    figures::counted,
    tasks::probe::live::{Course, LiveProbe, ReadFrom},
};
use serde_json::{Value, json};

use crate::{
    cli::terminal::{Terminal, printable},
    host::chat::Conversation,
    wire::{chat::ScoredToken, error::Result},
};

/// How many probes are shown.
const SHOWN: usize = 12;

/// A probe with its course over an answer.
struct Told<'a> {
    probe: &'a LiveProbe,
    course: Course,
    /// The token with the highest score.
    peak: &'a str,
}

/// Has probes of these folders score each token, and says how they read it.
pub(super) fn watch(
    chat: &mut Conversation,
    folders: Vec<PathBuf>,
    force: bool,
    terminal: &Terminal,
) -> Result<()> {
    for warning in chat.watch(folders, force)? {
        terminal.warn(warning);
    }
    for (folder, name) in chat.probe_folders().iter().enumerate() {
        let own = chat.probes().iter().filter(|it| it.folder == folder);
        let Some(first) = own.clone().next() else {
            terminal.warn(format_args!(
                "`{name}` has no probe that was chosen, so it says nothing"
            ));
            continue;
        };
        let how = match first.way {
            ReadFrom::Direct => "asked of the state of each token itself",
            ReadFrom::Suffix => {
                "which learned from the last token of what followed a text: that is read after each token of an answer, which takes time"
            }
        };
        let probes = counted(own.count() as u64, "probe");
        terminal.note(format_args!("{name}: {probes}, {how}"));
    }
    Ok(())
}

/// Shows how the scores of an answer went, the strongest mean first.
pub(super) fn show(chat: &Conversation, tokens: &[ScoredToken], terminal: &Terminal) {
    let mut told = told(chat.probes(), tokens);
    if told.is_empty() {
        return;
    }
    let place = |probe: &LiveProbe| match chat.probe_folders() {
        [_] => probe.site.to_string(),
        folders => format!("{} of {}", probe.site, printable(&folders[probe.folder])),
    };
    told.sort_by(|a, b| above(b).total_cmp(&above(a)));
    let header = ["  score of", "mean", "recent", "peak", "at"];
    let mut rows = vec![header.map(|it| style(it).dim().to_string()).to_vec()];
    rows.extend(told.iter().take(SHOWN).map(|it| {
        let number = |score: f32| format!("{score:+.2}");
        let mark = match it.course.peak >= it.probe.threshold {
            true => style("active").green().to_string(),
            false => String::new(),
        };
        vec![
            format!("  {} ({})", printable(&it.probe.label), place(it.probe)),
            number(it.course.mean),
            number(it.course.moving_average),
            number(it.course.peak),
            format!("“{}”", printable(it.peak.trim())),
            mark,
        ]
    }));
    terminal.table(&rows);
    if let Some(more) = told.len().checked_sub(SHOWN).filter(|it| *it > 0) {
        terminal.note(format_args!("and {more} more; --json has all of them"));
    }
}

/// The same with all probes and all tokens, for other programs.
pub(super) fn json(probes: &[LiveProbe], tokens: &[ScoredToken]) -> Value {
    let courses = told(probes, tokens)
        .into_iter()
        .map(|it| json!({ "probe": it.probe, "course": it.course, "peak_token": it.peak }));
    json!({ "courses": courses.collect::<Vec<_>>(), "tokens": tokens })
}

fn told<'a>(probes: &'a [LiveProbe], tokens: &'a [ScoredToken]) -> Vec<Told<'a>> {
    let answer: Vec<&ScoredToken> = tokens.iter().filter(|it| it.is_answer).collect();
    let of = |(at, probe): (usize, &'a LiveProbe)| {
        let scores: Vec<Option<f32>> = answer
            .iter()
            .map(|it| it.scores.get(at).copied().flatten())
            .collect();
        let course = Course::of(&scores)?;
        Some(Told {
            probe,
            course,
            peak: &answer[course.peak_at].text,
        })
    };
    probes.iter().enumerate().filter_map(of).collect()
}

/// How far the mean lies above the threshold: scores of different probes mean different things.
fn above(it: &Told) -> f32 {
    it.course.mean - it.probe.threshold
}
