//! The steps of a run that learns a head for the features of a network that stays as it is: pictures are read, and in the last step the
//! head is found.

use std::time::Instant;

use super::{
    super::features::{Features, Head},
    PictureTask, Reading,
};
use crate::{Error, Result, tasks::probe::lbfgs::Options, train::task::OwnTrial};

/// How long pictures are read to see how long all of them take.
const ENOUGH_SECONDS: f64 = 2.0;
/// Pictures that a head is found for at most, to see how long that takes.
const MOST_TRIED: usize = 4_096;

impl PictureTask {
    /// Reads the features of some pictures into others that were read.
    fn read_features(&self, features: &mut Features, pictures: &[usize]) -> Result<()> {
        let view = self.settings.view();
        let (network, set) = (&self.network, &self.set);
        features.read(
            network,
            &view,
            self.settings.flip,
            set,
            pictures,
            &self.device,
        )
    }

    /// A step of features: some pictures are read, and in the last one the head is found.
    pub(super) fn step_of_features(
        &self,
        reading: &mut Reading,
        done: usize,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<(usize, Option<Head>)> {
        let go_on = || goes_on().then_some(()).ok_or(Error::Interrupted);
        let before = reading.train.len();
        // After a restart, what was read before it is read again.
        let chunks = self.train.chunks(self.rows.max(1));
        for some in chunks.take(done + 1).skip(reading.steps) {
            go_on()?;
            self.read_features(&mut reading.train, some)?;
            reading.steps += 1;
        }
        if done + 1 < self.steps {
            return Ok((reading.train.len() - before, None));
        }
        let mut held_out = Features::default();
        for some in self.held_out.chunks(self.rows.max(1)) {
            go_on()?;
            self.read_features(&mut held_out, some)?;
        }
        let classes = self.set.classes.len();
        let chosen = reading.train.choose(classes, self.seed);
        go_on()?;
        reading.metrics = reading
            .train
            .metrics(&chosen, &held_out, classes, self.seed);
        let head = reading.train.learn(classes, chosen.c(), Options::default());
        Ok((held_out.len(), Some(head)))
    }

    /// What all steps of features will take, as some of them say: nothing where there are none. The head is found for as many
    /// pictures as the run has, made of those that were read.
    pub(super) fn trial_of_features(
        &mut self,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<OwnTrial>> {
        if self.reading.is_none() {
            return Ok(None);
        }
        let mut tried = Features::default();
        let mut chunks = self.train.chunks(self.rows.max(1));
        // The first makes kernels and takes memory.
        if let Some(first) = chunks.next() {
            self.read_features(&mut tried, first)?;
        }
        let (start, mut read, mut steps) = (Instant::now(), 0, 1);
        for some in chunks {
            if stop() {
                return Err(Error::Interrupted);
            }
            if start.elapsed().as_secs_f64() > ENOUGH_SECONDS {
                break;
            }
            self.read_features(&mut tried, some)?;
            (read, steps) = (read + some.len(), steps + 1);
        }
        if read == 0 {
            // There is one step to learn from, and it was not timed.
            read = self.train.len();
            self.read_features(&mut Features::default(), &self.train)?;
        }
        let pictures = self.train.len() + self.held_out.len();
        let reading_seconds = start.elapsed().as_secs_f64() * pictures as f64 / read.max(1) as f64;
        let classes = self.set.classes.len();
        let most = self.train.len().min(MOST_TRIED);
        let train = tried.stretched(&self.train[..most], &self.set, self.seed);
        let start = Instant::now();
        let chosen = train.choose(classes, self.seed);
        let _head = train.learn(classes, chosen.c(), Options::default());
        let head_seconds =
            start.elapsed().as_secs_f64() * self.train.len() as f64 / most.max(1) as f64;
        Ok(Some(OwnTrial {
            steps,
            seconds: reading_seconds + head_seconds,
        }))
    }
}
