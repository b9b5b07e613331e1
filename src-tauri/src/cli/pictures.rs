//! `anneal data inspect`, where the data is pictures: how many of each class, and what is wrong with them.

use console::style;
use models::{
    figures::{count, counted},
    tasks::picture::{
        doctor::{self, Checkup, ClassCount, Findings, Pair, SizedPicture},
        source::{PictureSet, Problem},
    },
};

use super::{
    Ended,
    terminal::{Terminal, printable},
};
use crate::wire::error::Result;

/// So many of each finding are listed, and so many classes.
const SHOWN: usize = 5;
/// See [`SHOWN`].
const CLASSES_SHOWN: usize = 40;
/// The longest bar of a class, in letters.
const BAR_WIDTH: usize = 30;

/// Shows how many pictures each class has, and what is wrong with some.
pub(super) fn inspect(set: &PictureSet, terminal: &Terminal) -> Result<Ended> {
    let checkup = doctor::examine(set);
    if terminal.json {
        terminal.json(&checkup)?;
        return Ok(Ended::Done);
    }
    terminal.line(format_args!(
        "{} of {} in {}: {} to learn from, {} held out, {} to test with",
        counted(set.len() as u64, "picture"),
        set.shape.title(),
        counted(set.classes.len() as u64, "class"),
        count(set.train.len() as u64),
        count(set.held_out.len() as u64),
        count(set.test.len() as u64),
    ));
    if let Some(groups) = set.count_groups() {
        terminal.line(format_args!(
            "{} that belong together, each on one side",
            counted(groups as u64, "group")
        ));
    }
    terminal.line("");
    show_classes(&checkup.classes, terminal);
    show_findings(&checkup, terminal);
    Ok(Ended::Done)
}

fn show_classes(classes: &[ClassCount], terminal: &Terminal) {
    let all = |it: &ClassCount| it.train + it.held_out + it.test;
    let most = classes.iter().map(all).max().unwrap_or_default().max(1);
    let row = |it: &ClassCount| {
        let bar = "█".repeat((all(it) * BAR_WIDTH).div_ceil(most));
        vec![
            format!("  {}", printable(&it.class)),
            format!("{bar} {}", count(all(it) as u64)),
        ]
    };
    let rows: Vec<Vec<String>> = classes.iter().take(CLASSES_SHOWN).map(row).collect();
    terminal.table(&rows);
    more(classes.len(), CLASSES_SHOWN, terminal);
}

fn more(all: usize, shown: usize, terminal: &Terminal) {
    if all > shown {
        terminal.line(format_args!("  and {} more", count((all - shown) as u64)));
    }
}

fn show_findings(checkup: &Checkup, terminal: &Terminal) {
    let unread = |it: &Problem| format!("{} {}", it.name, it.problem);
    let pair = |it: &Pair| {
        let named = |it: &doctor::Named| format!("{} ({}, {})", it.name, it.class, it.part);
        format!("{} and {}", named(&it.first), named(&it.second))
    };
    let sized = |it: &SizedPicture| format!("{} has {} x {} pixels", it.name, it.width, it.height);
    let mut found = 0;
    let mut list = |title: &str, count, lines: Vec<String>| {
        found += count;
        show_finding(title, count, &lines, terminal);
    };
    list(
        "Can’t be read",
        checkup.unread.count,
        lines(&checkup.unread, unread),
    );
    list(
        "Equal or nearly equal pictures in two classes",
        checkup.two_classes.count,
        lines(&checkup.two_classes, pair),
    );
    list(
        "Equal or nearly equal pictures to learn from and to measure with",
        checkup.across_parts.count,
        lines(&checkup.across_parts, pair),
    );
    list(
        "Equal pictures",
        checkup.identical.count,
        lines(&checkup.identical, pair),
    );
    if let Some(near) = &checkup.near {
        list("Nearly equal pictures", near.count, lines(near, pair));
    }
    list(
        "Very small",
        checkup.tiny.count,
        lines(&checkup.tiny, sized),
    );
    list(
        "Long strips, of which the middle alone is seen",
        checkup.strips.count,
        lines(&checkup.strips, sized),
    );
    if let Some(it) = &checkup.imbalance {
        terminal.line("");
        terminal.line(format_args!(
            "{} has {} to learn from, and {} has {}: it will be learned badly",
            printable(&it.largest.class),
            counted(it.largest.train as u64, "picture"),
            printable(&it.smallest.class),
            count(it.smallest.train as u64)
        ));
    } else if found == 0 {
        terminal.line("");
        terminal.line("Nothing is wrong with them.");
    }
}

/// The first of a finding, each as a line.
fn lines<T>(findings: &Findings<T>, line: impl Fn(&T) -> String) -> Vec<String> {
    findings.shown.iter().take(SHOWN).map(line).collect()
}

fn show_finding(title: &str, found: usize, lines: &[String], terminal: &Terminal) {
    if found == 0 {
        return;
    }
    terminal.line("");
    let title = format!("{title}: {}", count(found as u64));
    terminal.line(style(title).bold());
    for line in lines {
        terminal.line(format_args!("  {}", printable(line)));
    }
    more(found, lines.len(), terminal);
}
