//! Several ranks that train one run together, each on a device of its own: what they tell each other in a step.
//!
//! A [`Group`] sums numbers over all ranks, and is made outside. [`Together`] is what the loop says with it. Each rank computes
//! its own micro-batches, the gradients are summed, and every rank then takes the same step from the same numbers.
//!
//! One rule keeps ranks from waiting for each other forever: before every sum all ranks exchange the same short message, and a
//! rank that failed, wherever that was, says so in the next exchange, with a sentence that the others end with too. What only
//! one rank knows, such as a request to stop, is acted on only after an exchange.
//!
//! Gradients that are complete early in the way back are added up while the rest of it is computed: the exchange comes as soon as
//! a device has been told what to compute, and each sum waits on the device for what it adds up.
//!
//! Deliberately absent: how ranks find each other, and how they notice that one is gone.

mod adding;

use std::{collections::BTreeMap, time::Instant};

use candle_core::{DType, Device, Tensor};
use rayon::prelude::*;

use super::{event::RankFigures, share::Share};
use crate::{
    Error, Result, device::memory::Memory, optim::KeptTensor, parameters::Parameters,
    random::stable_hash, tape::Moment,
};

/// The words of an exchange, by their places.
const STOP: usize = 0;
const PAUSE: usize = 1;
const FAILED: usize = 2;
const WHO: usize = 3;
const CHECK: usize = 4;
const WORDS: usize = 8;

/// How bad a failure is: memory ran out before a weight was changed, or anything else.
const RAN_OUT: i32 = 1;
const ENDS: i32 = 2;

/// Bytes of the sentence of a rank that failed, and how many of them go into one number.
const SENTENCE_BYTES: usize = 512;
const BYTES_PER_NUMBER: usize = 4;

/// How many numbers are summed to see that sums come out right, and how many different ones there are among them: with 4096 ranks
/// the sums are exact. Few would be no measure of how fast a link is.
const PATTERN_NUMBERS: usize = 1 << 22;
const PATTERN: usize = 16;

/// A step of which more than this part goes into adding up is worth a word.
const MOST_OF_A_STEP: f64 = 0.5;

/// So many numbers of a weight are hashed one after the other, and others at the same time.
const HASHED_NUMBERS: usize = 1 << 16;

/// Tensors that are added up together.
pub struct Bucket {
    /// Tensors that share no memory with anything that is still used.
    pub tensors: Vec<Tensor>,
    /// Since when they are computed, if that is before all that the device was told to do.
    pub since: Option<Moment>,
}

/// Sums over all ranks. Every rank calls the same functions in the same order with as many numbers.
///
/// Errors: [`Error::Peer`] where another rank is gone.
pub trait Group {
    /// Which rank this is, and of how many.
    fn share(&self) -> Share;

    /// The sum over all ranks of each tensor, in f32, with the same bits on every rank. Not finite where one was not. Sums may lie
    /// where the tensors did, and may still be under way on the device: [`Group::wait`] comes before they are read. After an error
    /// no rank can be asked for anything any more, since the others wait for what this one did not begin.
    fn sum_tensors(&mut self, buckets: Vec<Bucket>) -> Result<Vec<Vec<Tensor>>>;

    /// Overwrites each tensor with that of the rank beside it, bit for bit. Every rank has the same ones, and [`Group::wait`] comes before
    /// they are read here. After an error no rank can be asked for anything any more.
    fn spread(&mut self, tensors: &[(Tensor, usize)]) -> Result<()>;

    /// Waits until the device has done all that it was told to do, sums among it.
    fn wait(&mut self) -> Result<()>;

    /// The largest of each word.
    fn max(&mut self, words: [i32; WORDS]) -> Result<[i32; WORDS]>;

    /// The sum of each number.
    fn sum(&mut self, numbers: Vec<f64>) -> Result<Vec<f64>>;
}

/// What is made of a number of each rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reduction {
    /// All of them added up.
    Sum,
    /// The largest of them.
    Max,
}

/// Makes one number of those of all ranks, for each of these.
pub type Reduce = Box<dyn FnMut(Reduction, Vec<f64>) -> Result<Vec<f64>>>;

/// A group whose numbers are brought to the host, for whoever can bring them together there.
pub struct OnHost {
    /// Which rank this is, and of how many.
    pub share: Share,
    /// Brings them together.
    pub reduce: Reduce,
}

impl Group for OnHost {
    fn share(&self) -> Share {
        self.share
    }

    fn sum_tensors(&mut self, buckets: Vec<Bucket>) -> Result<Vec<Vec<Tensor>>> {
        let mut sum = |tensor: Tensor| {
            let numbers = tensor
                .flatten_all()?
                .to_dtype(DType::F32)?
                .to_vec1::<f32>()?;
            let numbers = numbers.into_iter().map(f64::from).collect();
            let sum = (self.reduce)(Reduction::Sum, numbers)?;
            let sum: Vec<f32> = sum.into_iter().map(|it| it as f32).collect();
            Ok(Tensor::from_vec(sum, tensor.dims(), tensor.device())?)
        };
        let sums = buckets.into_iter();
        let sums = sums.map(|bucket| bucket.tensors.into_iter().map(&mut sum).collect());
        sums.collect()
    }

    fn spread(&mut self, tensors: &[(Tensor, usize)]) -> Result<()> {
        for (tensor, from) in tensors {
            let flat = tensor.flatten_all()?;
            let is_own = self.share.rank == *from;
            // Bits as numbers, so that none of them is lost in a sum with nothing.
            let bits: Vec<f64> = match flat.dtype() {
                DType::U8 => flat.to_vec1::<u8>()?.into_iter().map(f64::from).collect(),
                _ => {
                    let numbers = flat.to_vec1::<f32>()?.into_iter();
                    numbers.map(|it| f64::from(it.to_bits())).collect()
                }
            };
            let said = bits.into_iter().map(|it| if is_own { it } else { 0.0 });
            let bits = (self.reduce)(Reduction::Sum, said.collect())?.into_iter();
            let there = match flat.dtype() {
                DType::U8 => {
                    Tensor::new(bits.map(|it| it as u8).collect::<Vec<_>>(), flat.device())?
                }
                _ => {
                    let numbers = bits.map(|it| f32::from_bits(it as u32));
                    Tensor::new(numbers.collect::<Vec<_>>(), flat.device())?
                }
            };
            flat.slice_set(&there, 0, 0)?;
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<()> {
        Ok(())
    }

    fn max(&mut self, words: [i32; WORDS]) -> Result<[i32; WORDS]> {
        let largest = (self.reduce)(Reduction::Max, words.map(f64::from).to_vec())?;
        let mut all = words;
        for (word, largest) in all.iter_mut().zip(largest) {
            *word = largest as i32;
        }
        Ok(all)
    }

    fn sum(&mut self, numbers: Vec<f64>) -> Result<Vec<f64>> {
        (self.reduce)(Reduction::Sum, numbers)
    }
}

/// What whoever watches a run wants of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct GroupControl {
    pub(super) stop: bool,
    pub(super) pause: bool,
}

/// A rank among others, as the loop speaks with them.
pub struct Together {
    group: Box<dyn Group>,
    /// What each rank computes on, in words.
    devices: Vec<String>,
    /// The bits of the last gradient norm: ranks whose weights differ have others.
    last_norm: u64,
    /// What is wanted of this rank, which the others hear with the next gradients.
    wanted: GroupControl,
    /// What all ranks wanted when gradients were last added up, until it is acted on.
    heard: Option<GroupControl>,
    /// Whether all ranks know that the run ends by a failure.
    told: bool,
    /// What adding up one number over all ranks takes, where it was tried.
    millis_per_number: Option<f64>,
}

impl Together {
    /// This rank among those of a group, which compute on these `devices`, in words.
    pub fn new(group: Box<dyn Group>, devices: Vec<String>) -> Self {
        Self {
            group,
            devices,
            last_norm: 0,
            wanted: GroupControl::default(),
            heard: None,
            told: false,
            millis_per_number: None,
        }
    }

    /// Which rank this is, and of how many.
    pub fn share(&self) -> Share {
        self.group.share()
    }

    /// Tells all ranks what failed here, in a sentence, if anything did, and waits for what they say. An error if any failed.
    pub fn tell(&mut self, failure: Option<&str>) -> Result<()> {
        let failure = failure.map(|sentence| (ENDS, sentence));
        let told = self.exchange(GroupControl::default(), failure, 0, String::new);
        told.map(drop)
    }

    /// An error unless a sum that is known comes out right on this device: peers that can’t reach each other’s memory sum
    /// something else, without a word.
    pub fn try_sum(&mut self, device: &Device) -> Result<()> {
        let Share { rank, world } = self.share();
        let factor = |rank: usize| (rank % PATTERN + 1) as f32;
        let pattern = |factor: f32| {
            let numbers = (0..PATTERN_NUMBERS).map(|index| (index % PATTERN) as f32 * factor);
            numbers.collect::<Vec<_>>()
        };
        let own = pattern(factor(rank));
        let expected = pattern((0..world).map(factor).sum());
        let mut is_right = true;
        let mut least_millis = f64::INFINITY;
        // The first connects the devices, so the others say how long one takes.
        for _ in 0..3 {
            let own = Tensor::from_slice(&own, PATTERN_NUMBERS, device)?;
            device.synchronize()?;
            self.exchange(GroupControl::default(), None, 0, String::new)?;
            let begun = Instant::now();
            let sums = self.sum_now(vec![own])?;
            least_millis = least_millis.min(begun.elapsed().as_secs_f64() * 1e3);
            let sum = sums.first().map(|sum| sum.to_vec1::<f32>()).transpose()?;
            is_right &= sum.is_some_and(|sum| sum == expected);
        }
        self.millis_per_number = Some(least_millis / PATTERN_NUMBERS as f64);
        let wrong = format!(
            "a sum of {PATTERN_NUMBERS} known numbers over {world} ranks came out wrong: set NCCL_P2P_DISABLE=1, so that the cards \
             don’t reach into each other’s memory"
        );
        self.tell((!is_right).then_some(&wrong))
    }

    /// An error unless all ranks begin with the same weights at the same step.
    pub(super) fn begin(&mut self, parameters: &Parameters, step: usize) -> Result<()> {
        let mut hash = step as u64;
        for parameter in parameters.trainable() {
            let numbers = parameter.tensor().flatten_all()?.to_dtype(DType::F32)?;
            let numbers = numbers.to_vec1::<f32>()?;
            let hash_of = |part: &[f32]| {
                let bytes: Vec<u8> = part.iter().flat_map(|it| it.to_le_bytes()).collect();
                stable_hash(0, &bytes)
            };
            let parts: Vec<u64> = numbers.par_chunks(HASHED_NUMBERS).map(hash_of).collect();
            hash = parts
                .iter()
                .fold(hash, |all, part| stable_hash(all, &part.to_le_bytes()));
        }
        let differ = || "the ranks begin with other weights or at other steps".to_owned();
        self.exchange(GroupControl::default(), None, hash, differ)
            .map(drop)
    }

    /// What all ranks want: one that wants a stop or a pause speaks for all. It was heard when gradients were last added up, so that
    /// nobody waits for it here, or else it is asked for.
    pub(super) fn control(&mut self, own: GroupControl) -> Result<GroupControl> {
        self.wanted = own;
        match self.heard.take() {
            Some(heard) => Ok(heard),
            None => self.exchange(own, None, 0, String::new),
        }
    }

    /// What rank 0 finds, such as the step to go back to, on every rank.
    pub(super) fn of_first(&mut self, find: impl FnOnce() -> Result<usize>) -> Result<usize> {
        let found = match self.share().rank {
            0 => find()?,
            _ => 0,
        };
        self.exchange(GroupControl::default(), None, 0, String::new)?;
        let sums = self.group.sum(vec![found as f64])?;
        Ok(sums.first().map_or(found, |sum| *sum as usize))
    }

    /// The sum over all ranks of each of these tensors, of which every rank has as many, in f32. They share no memory with anything that
    /// is still used.
    pub fn sum_tensors(&mut self, own: Vec<Tensor>) -> Result<Vec<Tensor>> {
        let differ = || "the ranks carry different things".to_owned();
        self.exchange(GroupControl::default(), None, own.len() as u64, differ)?;
        self.sum_now(own)
    }

    fn sum_now(&mut self, own: Vec<Tensor>) -> Result<Vec<Tensor>> {
        let bucket = Bucket {
            tensors: own,
            since: None,
        };
        let sums = self.group.sum_tensors(vec![bucket])?;
        self.group.wait()?;
        Ok(sums.into_iter().flatten().collect())
    }

    /// What is to be said of a step that took so long and added up so many numbers, if most of it went that way.
    pub(super) fn slow_link(&self, numbers: usize, step_millis: f64) -> Option<String> {
        let sum_millis = self.millis_per_number? * numbers as f64;
        (sum_millis > MOST_OF_A_STEP * step_millis).then(|| {
            let (sum, step) = (sum_millis.round(), step_millis.round());
            format!(
                "adding gradients up takes the devices about {sum} ms of a step of {step} ms: more batches in a step \
                 (`batch.accumulate`) would make more of them, and so would fewer weights that learn"
            )
        })
    }

    /// Overwrites each of these tensors with that of the rank beside it, on every rank, unless one of them could not make its own.
    /// Returns them.
    ///
    /// Errors: the own one, or that of another rank.
    pub(super) fn spread(&mut self, own: Result<Vec<(Tensor, usize)>>) -> Result<Vec<Tensor>> {
        let own = match own {
            Ok(own) => own,
            Err(error) => return Err(self.fail(error, ENDS)),
        };
        let differ = || "the ranks own different weights".to_owned();
        let owners = own.iter().fold(own.len() as u64, |all, (_, owner)| {
            stable_hash(all, &owner.to_le_bytes())
        });
        self.exchange(GroupControl::default(), None, owners, differ)?;
        self.group.spread(&own)?;
        self.group.wait()?;
        Ok(own.into_iter().map(|it| it.0).collect())
    }

    /// What other ranks keep of the weights, by name, in the memory of the host of rank 0; elsewhere nothing. One tensor after the other
    /// passes through `device`.
    pub(super) fn gather(
        &mut self,
        kept: Vec<KeptTensor>,
        device: &Device,
    ) -> Result<BTreeMap<String, Tensor>> {
        let mut gathered = BTreeMap::new();
        for kept in kept.into_iter().filter(|it| it.owner != 0) {
            let place = match kept.tensor {
                Some(own) => Ok(own),
                None => Tensor::zeros(kept.shape, kept.dtype, device),
            };
            let place = place.map(|it| vec![(it, kept.owner)]);
            let there = self.spread(place.map_err(Error::from))?;
            if self.share().is_first() {
                for tensor in there {
                    gathered.insert(kept.name.clone(), tensor.to_device(&Device::Cpu)?);
                }
            }
        }
        Ok(gathered)
    }

    /// How all ranks stand, from the memory that this one has in use.
    pub(super) fn figures(&mut self, own: Option<Memory>) -> Result<Vec<RankFigures>> {
        let Share { rank, world } = self.share();
        let mut numbers = vec![0.0; 2 * world];
        if let Some(own) = own {
            let peak = own.peak_bytes.unwrap_or_default();
            numbers[2 * rank..][..2].copy_from_slice(&[own.used_bytes as f64, peak as f64]);
        }
        let all = self.sum(numbers)?;
        let (of_each, _) = all.as_chunks::<2>();
        let of_each = self.devices.iter().zip(of_each);
        Ok(of_each
            .map(|(device, [memory, peak])| RankFigures {
                device: device.clone(),
                memory_bytes: *memory as u64,
                peak_bytes: Some(*peak as u64).filter(|it| *it > 0),
            })
            .collect())
    }

    /// The sum over all ranks of each of these numbers, of which every rank has as many.
    pub(super) fn sum(&mut self, own: Vec<f64>) -> Result<Vec<f64>> {
        let differ = || "the ranks measured different things".to_owned();
        self.exchange(GroupControl::default(), None, own.len() as u64, differ)?;
        self.group.sum(own)
    }

    /// What every rank has of something, by rank.
    pub(super) fn of_each(&mut self, own: &[u8]) -> Result<Vec<Vec<u8>>> {
        let Share { rank, world } = self.share();
        let mut bytes = vec![0.0; world];
        bytes[rank] = own.len() as f64;
        let bytes = self.sum(bytes)?;
        let places = bytes.iter().scan(0, |at, bytes| {
            let from = *at;
            *at += (*bytes as usize).div_ceil(BYTES_PER_NUMBER);
            Some(from..*at)
        });
        let places: Vec<_> = places.collect();
        let mut numbers = vec![0.0; places.last().map_or(0, |it| it.end)];
        for (number, own) in numbers[places[rank].clone()].iter_mut().zip(packed(own)) {
            *number = own;
        }
        let numbers = self.sum(numbers)?;
        let of = |(place, bytes): (_, &f64)| {
            let all = unpacked(&numbers[place]);
            all.take(*bytes as usize).collect()
        };
        Ok(places.into_iter().zip(&bytes).map(of).collect())
    }

    /// Waits until all sums are there, or another rank is gone: reading one would wait without end then.
    pub(super) fn wait(&mut self) -> Result<()> {
        self.group.wait()
    }

    /// Remembers the gradient norm by which ranks that differ will be noticed.
    pub(super) fn note_norm(&mut self, norm: f64) {
        self.last_norm = if norm.is_finite() { norm.to_bits() } else { 0 };
    }

    /// Ends a run together: what went wrong on one rank ends all, and nobody leaves before all are done.
    pub(super) fn end<T>(&mut self, outcome: Result<T>) -> Result<T> {
        match outcome {
            Err(error) if self.told || matches!(error, Error::Peer(_)) => Err(error),
            Err(error) => Err(self.fail(error, ENDS)),
            Ok(outcome) => {
                let end = self.exchange(GroupControl::default(), None, 0, String::new);
                end.map(|_| outcome)
            }
        }
    }

    /// Tells all ranks that this one failed. The error comes back.
    fn fail(&mut self, error: Error, how: i32) -> Error {
        let sentence = error.to_string();
        match self.exchange(
            GroupControl::default(),
            Some((how, &sentence)),
            0,
            String::new,
        ) {
            // Who could have tried again does not, where another has ended.
            Err(end @ Error::Peer(_)) if how == RAN_OUT && self.told => end,
            // That the others can’t be told any more says less than what happened here.
            _ => error,
        }
    }

    /// Tells all ranks what this one wants or met, and hears the same of them. `check` has to be the same everywhere, or
    /// `differ` says what is not.
    fn exchange(
        &mut self,
        control: GroupControl,
        failure: Option<(i32, &str)>,
        check: u64,
        differ: impl FnOnce() -> String,
    ) -> Result<GroupControl> {
        let Share { rank, world } = self.share();
        let mut words = [0; WORDS];
        words[STOP] = i32::from(control.stop);
        words[PAUSE] = i32::from(control.pause);
        if let Some((how, _)) = failure {
            words[FAILED] = how;
            // The largest is that of the first rank which failed.
            words[WHO] = (world - rank) as i32;
        }
        // The largest of a word and of its inverse belong to one number only where all ranks have the same.
        let halves = [check as u32 as i32, (check >> 32) as i32];
        words[CHECK..].copy_from_slice(&[halves[0], halves[1], !halves[0], !halves[1]]);
        let found = self.group.max(words)?;
        if found[FAILED] > 0 {
            let who = world.saturating_sub(found[WHO].max(1) as usize);
            let own = failure.map(|it| it.1).filter(|_| who == rank);
            let sentence = self.sentence(own.unwrap_or_default())?;
            self.told = found[FAILED] == ENDS;
            return Err(match self.told {
                true => Error::Peer(format!("rank {who} failed: {sentence}")),
                false => Error::Device(format!("out of memory on rank {who}: {sentence}")),
            });
        }
        if found[CHECK] != !found[CHECK + 2] || found[CHECK + 1] != !found[CHECK + 3] {
            self.told = true;
            return Err(Error::Peer(differ()));
        }
        Ok(GroupControl {
            stop: found[STOP] > 0,
            pause: found[PAUSE] > 0,
        })
    }

    /// The sentence of the one rank that says something.
    fn sentence(&mut self, own: &str) -> Result<String> {
        let mut bytes = own.as_bytes()[..own.len().min(SENTENCE_BYTES)].to_vec();
        bytes.resize(SENTENCE_BYTES, 0);
        let said = self.group.sum(packed(&bytes).collect())?;
        let bytes: Vec<u8> = unpacked(&said).collect();
        let text = String::from_utf8_lossy(&bytes);
        Ok(text.chars().filter(|it| !it.is_control()).collect())
    }
}

/// Bytes in numbers that a sum over ranks has exactly, where only one of them has some.
fn packed(bytes: &[u8]) -> impl Iterator<Item = f64> {
    bytes.chunks(BYTES_PER_NUMBER).map(|some| {
        let mut four = [0; BYTES_PER_NUMBER];
        four[..some.len()].copy_from_slice(some);
        f64::from(u32::from_le_bytes(four))
    })
}

/// The bytes that were packed, and zeros up to the end of the last number.
fn unpacked(numbers: &[f64]) -> impl Iterator<Item = u8> {
    numbers.iter().flat_map(|it| (*it as u32).to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One rank, whose sums are what it has.
    fn alone() -> Together {
        let reduce: Reduce = Box::new(|_, own| Ok(own));
        let share = Share::ALL;
        Together::new(Box::new(OnHost { share, reduce }), vec!["cpu".to_owned()])
    }

    #[test]
    fn a_step_that_mostly_adds_gradients_up_is_told_of() {
        let mut together = alone();
        assert_eq!(
            together.slow_link(1_000_000, 1.0),
            None,
            "nothing was tried"
        );
        together.try_sum(&Device::Cpu).unwrap();
        assert!(together.millis_per_number.unwrap() > 0.0);
        together.millis_per_number = Some(180.0 / 1e6);
        assert_eq!(together.slow_link(1_000_000, 400.0), None);
        let said = together.slow_link(1_000_000, 221.0).unwrap();
        let expected = "adding gradients up takes the devices about 180 ms of a step of 221 ms: more batches in a step \
             (`batch.accumulate`) would make more of them, and so would fewer weights that learn";
        assert_eq!(said, expected);
    }

    #[test]
    fn sums_that_come_out_wrong_are_noticed_before_the_run() {
        let share = Share::ALL;
        let reduce: Reduce = Box::new(|how, own| match (how, own.len()) {
            (Reduction::Sum, PATTERN_NUMBERS) => Ok(vec![1.0; PATTERN_NUMBERS]),
            _ => Ok(own),
        });
        let mut together = Together::new(Box::new(OnHost { share, reduce }), Vec::new());
        let error = together.try_sum(&Device::Cpu).unwrap_err().to_string();
        assert!(error.contains("NCCL_P2P_DISABLE=1"), "{error}");
    }
}
