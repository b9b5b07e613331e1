//! Batches of pictures, the next of which is made while the network learns from the present one.
//!
//! Pictures come in an order that is drawn anew for each pass, without end: which ones a batch has, and how each is seen, follows from
//! the seed and the number of the batch alone. The second of two buffers is filled by threads of the loader’s own, the workers; how
//! many they are changes no picture.
//!
//! Deliberately absent: memory that a card reads by itself (pinned), which candle has no way to ask for.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        mpsc::{Receiver, sync_channel},
    },
};

use candle_core::{Device, Tensor};
use rayon::{ThreadPool, ThreadPoolBuilder, prelude::*};

use super::{
    augment::Augmentation,
    classifier::{View, tensor},
    pixels::Shape,
    request::Settings,
    source::PictureSet,
};
use crate::{Error, Result, random::Random};

/// What is learned from, and how it is seen.
pub struct Loader {
    source: Arc<Source>,
    rows: usize,
    /// Nothing where there were no threads to be had: then a batch is made when it is asked for.
    workers: Option<ThreadPool>,
    /// The batch that is being made, by its number.
    next: Option<(usize, Receiver<Result<Numbers>>)>,
}

/// All that a batch follows from, beside its number.
struct Source {
    set: Arc<PictureSet>,
    /// Those to learn from, by their places in the set.
    train: Vec<usize>,
    view: View,
    augmentation: Option<Augmentation>,
    seed: u64,
}

/// A batch before it is on a device.
struct Numbers {
    pixels: Vec<f32>,
    labels: Vec<u32>,
}

/// A batch: pictures [n, h, w, c] in f32, and the class of each, [n] in u32.
pub struct Batch {
    /// Pixels as the network takes them: [n, h, w, c], in f32.
    pub pictures: Tensor,
    /// Their classes.
    pub labels: Tensor,
}

impl Source {
    /// The order of a pass.
    fn order(&self, pass: usize) -> Vec<usize> {
        let mut order = self.train.clone();
        Random::for_purpose(self.seed, &format!("order of pictures, pass {pass}"))
            .shuffle(&mut order);
        order
    }

    /// Pictures from number `first` of the run on: the pass of each, and its place in the set.
    fn picks(&self, first: usize, count: usize) -> Vec<(usize, usize)> {
        let all = self.train.len().max(1);
        let mut order: Option<(usize, Vec<usize>)> = None;
        let pick = |at: usize| {
            let (pass, place) = (at / all, at % all);
            let known = order.take().filter(|it| it.0 == pass);
            let (_, order) = order.insert(known.unwrap_or_else(|| (pass, self.order(pass))));
            (pass, order[place])
        };
        (first..first + count).map(pick).collect()
    }

    fn numbers(&self, first: usize, count: usize) -> Numbers {
        let picks = self.picks(first, count);
        let to = self.view.shape;
        let mut pixels = vec![0f32; count * to.bytes()];
        let all = pixels.par_chunks_mut(to.bytes().max(1)).zip(&picks);
        all.for_each(|(out, (pass, at))| self.write(*pass, *at, to, out));
        Numbers {
            pixels,
            labels: picks.iter().map(|(_, at)| self.set.labels[*at]).collect(),
        }
    }

    fn write(&self, pass: usize, at: usize, to: Shape, out: &mut [f32]) {
        let (picture, shape) = (self.set.pixels(at), self.set.shape);
        let (mean, std) = (&self.view.mean, &self.view.std);
        match &self.augmentation {
            Some(it) => it.write(picture, shape, to, mean, std, self.seed, pass, at, out),
            None => super::augment::write_plain(picture, shape, to, mean, std, out),
        }
    }
}

impl Loader {
    /// Batches of those pictures of a set that have these places.
    pub fn new(
        set: Arc<PictureSet>,
        train: Vec<usize>,
        settings: &Settings,
        seed: u64,
        rows: usize,
    ) -> Self {
        let source = Source {
            set,
            train,
            view: settings.view(),
            augmentation: settings.augmentation(),
            seed,
        };
        let workers = ThreadPoolBuilder::new()
            .num_threads(settings.workers.max(1))
            .thread_name(|at| format!("pictures {at}"));
        Self {
            source: Arc::new(source),
            rows,
            workers: workers.build().ok(),
            next: None,
        }
    }

    /// The batch of a number, from 0. Begins to make the one after it.
    pub fn batch(&mut self, number: usize, device: &Device) -> Result<Batch> {
        let made = match self.next.take() {
            Some((at, made)) if at == number => made.recv().unwrap_or_else(|_| {
                let problem = "the threads that make batches of pictures ended";
                Err(Error::Data(problem.to_owned()))
            })?,
            _ => {
                let make = || self.source.numbers(number * self.rows, self.rows);
                match &self.workers {
                    Some(workers) => workers.install(make),
                    None => make(),
                }
            }
        };
        if let Some(workers) = &self.workers {
            let (source, rows) = (self.source.clone(), self.rows);
            let (sender, receiver) = sync_channel(1);
            let next = number + 1;
            workers.spawn(move || {
                let made = catch_unwind(AssertUnwindSafe(|| source.numbers(next * rows, rows)));
                // The pictures are let go before anybody hears that they are no longer read.
                drop(source);
                let made = made.map_err(|panic| {
                    Error::Data(format!(
                        "a batch of pictures could not be made: {}",
                        crate::panic_message(&*panic)
                    ))
                });
                // Nobody may wait for it any more.
                let _ = sender.send(made);
            });
            self.next = Some((next, receiver));
        }
        self.on(device, made)
    }

    /// So many pictures, to see what they take.
    pub(super) fn some(&self, rows: usize, device: &Device) -> Result<Batch> {
        self.on(device, self.source.numbers(0, rows))
    }

    fn on(&self, device: &Device, made: Numbers) -> Result<Batch> {
        let count = made.labels.len();
        let labels = Tensor::from_vec(made.labels, count, &Device::Cpu)?.to_device(device)?;
        let pictures = tensor(made.pixels, count, self.source.view.shape, device)?;
        Ok(Batch { pictures, labels })
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        // What it still makes must not outlast the pictures’ file.
        if let Some((_, made)) = self.next.take() {
            let _ = made.recv();
        }
    }
}
