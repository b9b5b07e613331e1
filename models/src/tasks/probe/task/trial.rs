//! How long a run of probes will take: texts are read for a moment, and two sites are learned and judged as the run would, of states that
//! are there, or of as many that are made of those of a few texts.

use std::time::Instant;

use super::ProbeTask;
use crate::{
    Error, Result,
    arch::sites::Site,
    tasks::probe::{
        examples::Examples,
        features::stretched,
        states::States,
        study::{Course, Source},
    },
    train::task::OwnTrial,
};

/// Rows that are learned from at most; more take as much longer.
const MOST_TRIED: usize = 4_096;
/// Sites that are tried, the last ones.
const SITES: usize = 2;

/// Reads some rows of a site.
type Read<'a> = Box<dyn FnMut(usize, &[usize]) -> Result<Vec<f32>> + 'a>;

impl ProbeTask {
    /// Tries what the run does.
    pub(super) fn trial(&mut self, stop: &dyn Fn() -> bool) -> Result<OwnTrial> {
        let sites = self.plan.probe.sites.clone();
        let tried = sites[sites.len().saturating_sub(SITES)..].to_vec();
        let (labels, seed) = (self.plan.probe.labels.clone(), self.settings.seed);
        if self.plan.model.is_none() {
            let states = States::open(&self.folder)?;
            let examples = Examples::of(&states, &labels, seed)?;
            let every = every(&examples);
            let read: Read<'_> = Box::new(|site, rows| {
                let rows: Vec<usize> = rows.iter().map(|row| row * every).collect();
                states.read_rows(tried[site], &rows)
            });
            let seconds =
                self.learning_seconds((&examples, read), &tried, states.about().width, stop)?;
            return Ok(OwnTrial {
                steps: tried.len(),
                seconds,
            });
        }
        let start = Instant::now();
        let (model, capture) = self.open_model()?;
        let reading_seconds = start.elapsed().as_secs_f64() + capture.planned().seconds();
        let width = capture.planned().about.width;
        let examples = Examples::of_rows(capture.rows(), &labels, seed)?;
        let site = tried.first().copied().unwrap_or(Site::Embed);
        let some = capture.some_states(&model, site)?;
        // Whoever learns from the states needs the memory of the model.
        drop(model);
        let made = stretched(&some, width, examples.rows().min(MOST_TRIED), seed);
        let read: Read<'_> = Box::new(|_, rows| {
            let of = |row: &usize| made[row * width..][..width].iter();
            Ok(rows.iter().flat_map(of).copied().collect())
        });
        let seconds = self.learning_seconds((&examples, read), &tried, width, stop)?;
        Ok(OwnTrial {
            steps: 1 + tried.len(),
            seconds: reading_seconds + seconds,
        })
    }

    /// Learns and judges the tried sites, and says what all of them will take.
    fn learning_seconds(
        &self,
        (all, mut read): (&Examples, Read<'_>),
        tried: &[Site],
        width: usize,
        stop: &dyn Fn() -> bool,
    ) -> Result<f64> {
        let examples = all.some(every(all));
        let mut course = Course::new(&examples, &self.settings)?;
        let (mut learned, mut judged) = (0.0, Vec::new());
        for site in 0..tried.len() {
            let mut source = Source {
                sites: tried[..=site].iter().map(Site::to_string).collect(),
                width,
                read: &mut read,
            };
            let start = Instant::now();
            course.learn(&examples, &mut source, &self.settings)?;
            learned += start.elapsed().as_secs_f64();
            let start = Instant::now();
            let study = course.judge(&examples, &mut source, &self.settings, &mut |_| !stop())?;
            if study.is_none() || stop() {
                return Err(Error::Interrupted);
            }
            judged.push(start.elapsed().as_secs_f64());
        }
        let sites = self.plan.probe.sites.len() as f64;
        let of_learning = learned / tried.len().max(1) as f64 * sites;
        // Each site has draws of its own; the words and what else stands beside the probes are there once.
        let (first, last) = (
            judged.first().copied().unwrap_or(0.0),
            judged.last().copied(),
        );
        let more = (last.unwrap_or(first) - first).max(0.0) / (tried.len() - 1).max(1) as f64;
        let of_judging = first + more * (sites - 1.0).max(0.0);
        let rows = all.rows() as f64 / examples.rows().max(1) as f64;
        Ok((of_learning + of_judging) * rows)
    }
}

/// Of how many rows one is tried.
fn every(examples: &Examples) -> usize {
    examples.rows().div_ceil(MOST_TRIED).max(1)
}
