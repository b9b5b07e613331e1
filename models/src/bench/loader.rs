//! Batches of tokens, made and brought to the device: by the thread that trains, or by others ahead of it.
//!
//! Training makes them itself; what other threads would gain is measured to see whether that is still right. Nothing is
//! pinned: a batch is copied once, and takes some kilobytes.

use std::{
    sync::mpsc::{Receiver, sync_channel},
    thread,
};

use candle_core::{Device, Tensor};

use super::{BenchCase, BenchDevice, StepWork, Unit, Variation, Work, Workload, learning::SCRATCH};
use crate::{
    Error, Result,
    data::{
        loader::{Batch, BatchSettings, Batches, TokenStream},
        pack::Packing,
    },
    device::{DeviceKind, defaults::device_defaults},
    random::Random,
};

pub(super) static BATCHES: Workload = Workload {
    name: "loader",
    title: "Making batches",
    about: "Puts batches of tokens together and brings them to the device.",
    unit: Unit::Batches,
    feeds: Some(SCRATCH.name),
    advises: false,
    variations: with_workers,
    prepare,
};

/// Batches of one step: one alone is over too soon to be timed.
const BATCHES_PER_STEP: usize = 1024;
/// How many batches each thread is ahead.
const AHEAD: usize = 4;
const TOKENS: usize = 1 << 20;

fn with_workers(_: DeviceKind) -> Vec<Variation> {
    let of = |workers| Variation {
        workers: Some(workers),
        ..Variation::default()
    };
    [0, 2, 4].map(of).to_vec()
}

fn prepare(case: &BenchCase, place: &BenchDevice) -> Result<Work> {
    let rows = device_defaults(place.choice.device.kind).batch_rows.value;
    let length = case.size.row_length();
    let mut source = Source::new(rows, length, case.variation.workers.unwrap_or(0))?;
    let device = place.device.clone();
    Ok(Work {
        step: StepWork {
            amount: BATCHES_PER_STEP as f64,
            ..StepWork::default()
        },
        config: format!("{rows} x {length} tokens"),
        take: Box::new(move || {
            for _ in 0..BATCHES_PER_STEP {
                upload(source.next()?, &device)?;
            }
            Ok(())
        }),
    })
}

/// Where batches come from.
enum Source {
    Here(Batches),
    /// One receiver for each thread, asked in turn. The threads end when they are dropped.
    Workers(Vec<Receiver<Batch>>, usize),
}

impl Source {
    fn new(rows: usize, length: usize, workers: usize) -> Result<Self> {
        let mut random = Random::for_purpose(1, "text");
        let mut stream = TokenStream::default();
        let tokens = (0..TOKENS).map(|_| random.below(4096) as u32).collect();
        stream.add(tokens, TOKENS);
        let settings = |seed| BatchSettings {
            row_length: length,
            packing: Packing::Packed,
            rows_per_batch: rows,
            rows_per_step: rows,
            pad: 0,
            seed,
        };
        if workers == 0 {
            return Ok(Self::Here(Batches::of_stream(stream, settings(1))?));
        }
        let receivers = (0..workers).map(|worker| {
            let mut batches = Batches::of_stream(stream.clone(), settings(worker as u64))?;
            let (sender, receiver) = sync_channel(AHEAD);
            thread::spawn(move || while sender.send(batches.next_batch()).is_ok() {});
            Ok(receiver)
        });
        Ok(Self::Workers(receivers.collect::<Result<_>>()?, 0))
    }

    fn next(&mut self) -> Result<Batch> {
        match self {
            Self::Here(batches) => Ok(batches.next_batch()),
            Self::Workers(receivers, turn) => {
                *turn = (*turn + 1) % receivers.len();
                let batch = receivers[*turn].recv();
                batch.map_err(|_| Error::Data("a thread that makes batches ended".to_owned()))
            }
        }
    }
}

/// Brings to the device what a step of learning brings there.
fn upload(batch: Batch, device: &Device) -> Result<()> {
    let shape = (batch.rows, batch.row_length);
    for numbers in [batch.tokens, batch.targets, batch.positions] {
        Tensor::from_vec(numbers, shape, device)?;
    }
    Ok(())
}
