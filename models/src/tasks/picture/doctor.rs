//! What is wrong with a set of pictures, before anything learns from it: as values, with the names of the pictures.
//!
//! Two pictures are near when their 64-bit difference hashes (whether each of 9 x 8 grey points is brighter than the next) differ in
//! [`NEAR_BITS`] bits at most: the same photo scaled, packed otherwise or a moment later.
//!
//! Deliberately absent: what to do about it, and what distinguishes a class, which the heat maps of a network show.

use std::collections::{BTreeMap, HashMap};

use rayon::prelude::*;
use serde::Serialize;

use super::{
    pixels::{Shape, grey},
    resize::{Filter, Region, resize_into},
    source::{PictureSet, Problem, Side},
};

/// Sides below this are tiny: a photo has lost what it shows.
pub const TINY_SIDE: usize = 32;
/// So many times as long as wide, or as wide as long, is a strip, of which the middle alone is seen.
pub const STRIP_RATIO: usize = 3;
/// Hashes that differ in so many bits at most are near.
pub const NEAR_BITS: u32 = 6;
/// A class with so many times fewer pictures than another is learned badly.
pub const IMBALANCE: usize = 5;
/// So many of each finding are named.
pub const MAX_SHOWN: usize = 100;
/// Near ones are looked for up to so many pictures: what is compared grows with the square of them.
pub const MAX_COMPARED: usize = 200_000;

/// Parts of a hash. Of one more than [`NEAR_BITS`], two near hashes have one in common.
const BANDS: u32 = NEAR_BITS + 1;
/// The points of a hash.
const POINTS: Shape = Shape::new(8, 9, 1);

/// What was found, of which the first are named.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Findings<T> {
    /// How many there are.
    pub count: usize,
    /// The first [`MAX_SHOWN`] of them.
    pub shown: Vec<T>,
}

impl<T> Default for Findings<T> {
    fn default() -> Self {
        Self {
            count: 0,
            shown: Vec::new(),
        }
    }
}

impl<T> Findings<T> {
    fn add(&mut self, finding: impl FnOnce() -> T) {
        self.count += 1;
        if self.shown.len() < MAX_SHOWN {
            self.shown.push(finding());
        }
    }
}

/// How many pictures a class has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClassCount {
    /// Its name.
    pub class: String,
    /// To learn from.
    pub train: usize,
    /// Kept aside.
    pub held_out: usize,
    /// To test with.
    pub test: usize,
}

/// A picture of a pair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Named {
    /// Its file or its row.
    pub name: String,
    /// Its class.
    pub class: String,
    /// `train`, `held_out` or `test`.
    pub part: &'static str,
}

/// Two pictures that show the same, or nearly.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Pair {
    /// The one that comes first.
    pub first: Named,
    /// The one that comes later, in the same order.
    pub second: Named,
    /// In how many bits their hashes differ. None for pictures that are equal to the last bit.
    pub bits_apart: Option<u32>,
}

/// A picture of a size that is not good to learn from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SizedPicture {
    /// Its file or its row.
    pub name: String,
    /// Columns.
    pub width: usize,
    /// Rows.
    pub height: usize,
}

/// Classes of which one has many more pictures than another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Imbalance {
    /// The class with the most to learn from.
    pub largest: ClassCount,
    /// The class with the fewest.
    pub smallest: ClassCount,
}

/// What is wrong with a set.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Checkup {
    /// How many pictures there are.
    pub pictures: usize,
    /// How many each class has.
    pub classes: Vec<ClassCount>,
    /// More than [`IMBALANCE`] to one.
    pub imbalance: Option<Imbalance>,
    /// What could not be read, or was passed over.
    pub unread: Findings<Problem>,
    /// Smaller than [`TINY_SIDE`] on a side, where others are larger.
    pub tiny: Findings<SizedPicture>,
    /// More than [`STRIP_RATIO`] times as long as wide.
    pub strips: Findings<SizedPicture>,
    /// Equal to the last bit: each with the first of its kind.
    pub identical: Findings<Pair>,
    /// Nearly equal. None where pictures are too small or too many to say.
    pub near: Option<Findings<Pair>>,
    /// Of those, pairs of two classes: one of the labels is wrong.
    pub two_classes: Findings<Pair>,
    /// Of those, pairs of two parts: what is measured was learned.
    pub across_parts: Findings<Pair>,
}

/// Looks at all pictures of a set.
pub fn examine(set: &PictureSet) -> Checkup {
    let sides = set.sides();
    let named = |at: usize| Named {
        name: set.names[at].clone(),
        class: set.classes[set.labels[at] as usize].clone(),
        part: match sides[at] {
            Side::Train => "train",
            Side::HeldOut => "held_out",
            Side::Test => "test",
        },
    };
    let classes = class_counts(set);
    let mut unread = Findings::default();
    for problem in &set.problems {
        unread.add(|| problem.clone());
    }
    let mut checkup = Checkup {
        pictures: set.len(),
        imbalance: imbalance(&classes),
        classes,
        unread,
        tiny: Findings::default(),
        strips: Findings::default(),
        identical: Findings::default(),
        near: None,
        two_classes: Findings::default(),
        across_parts: Findings::default(),
    };
    sizes(set, &mut checkup);
    let mut pair = |one: usize, other: usize, bits_apart: Option<u32>, of: &mut Findings<Pair>| {
        let (one, other) = (one.min(other), one.max(other));
        let pair = || Pair {
            first: named(one),
            second: named(other),
            bits_apart,
        };
        of.add(pair);
        if set.labels[one] != set.labels[other] {
            checkup.two_classes.add(pair);
        }
        if sides[one] != sides[other] {
            checkup.across_parts.add(pair);
        }
    };
    let mut first: HashMap<u64, usize> = HashMap::new();
    let (mut different, mut identical) = (Vec::new(), Findings::default());
    for (at, identity) in set.identities.iter().enumerate() {
        match first.get(identity) {
            Some(first) => pair(*first, at, None, &mut identical),
            None => {
                first.insert(*identity, at);
                different.push(at);
            }
        }
    }
    let is_large = set.shape.height.min(set.shape.width) >= TINY_SIDE;
    let near = (is_large && different.len() <= MAX_COMPARED).then(|| {
        let mut near = Findings::default();
        near_pairs(&hashes(set, &different), |one, other, bits| {
            pair(different[one], different[other], Some(bits), &mut near);
        });
        near
    });
    checkup.identical = identical;
    checkup.near = near;
    checkup
}

/// How many pictures each class has.
pub fn class_counts(set: &PictureSet) -> Vec<ClassCount> {
    let count = |class: &String| ClassCount {
        class: class.clone(),
        train: 0,
        held_out: 0,
        test: 0,
    };
    let mut counts: Vec<ClassCount> = set.classes.iter().map(count).collect();
    for (label, side) in set.labels.iter().zip(set.sides()) {
        let count = &mut counts[*label as usize];
        match side {
            Side::Train => count.train += 1,
            Side::HeldOut => count.held_out += 1,
            Side::Test => count.test += 1,
        }
    }
    counts
}

fn imbalance(classes: &[ClassCount]) -> Option<Imbalance> {
    let largest = classes.iter().max_by_key(|it| it.train)?;
    let smallest = classes.iter().min_by_key(|it| it.train)?;
    (largest.train > IMBALANCE * smallest.train).then(|| Imbalance {
        largest: largest.clone(),
        smallest: smallest.clone(),
    })
}

fn sizes(set: &PictureSet, checkup: &mut Checkup) {
    let short = |shape: &Shape| shape.height.min(shape.width);
    // Digits of 28 x 28 are meant to be so.
    let are_all_tiny = set.sizes.iter().all(|it| short(it) < TINY_SIDE);
    for (at, shape) in set.sizes.iter().enumerate() {
        let sized = || SizedPicture {
            name: set.names[at].clone(),
            width: shape.width,
            height: shape.height,
        };
        if !are_all_tiny && short(shape) < TINY_SIDE {
            checkup.tiny.add(sized);
        }
        if shape.height.max(shape.width) > STRIP_RATIO * short(shape) {
            checkup.strips.add(sized);
        }
    }
}

/// The difference hash of each of these pictures.
fn hashes(set: &PictureSet, pictures: &[usize]) -> Vec<u64> {
    let hash = |at: &usize| difference_hash(set.pixels(*at), set.shape);
    pictures.par_iter().map(hash).collect()
}

/// 64 bits: whether each of 8 x 9 grey points is brighter than the one to its right.
pub fn difference_hash(pixels: &[u8], shape: Shape) -> u64 {
    let to = Shape::new(POINTS.height, POINTS.width, shape.channels);
    let mut points = vec![0; to.bytes()];
    resize_into(
        pixels,
        shape,
        Region::all(shape),
        to,
        Filter::Bilinear,
        &mut points,
    );
    if shape.channels == 3 {
        points = points.as_chunks().0.iter().map(grey).collect();
    }
    let rows = points.chunks_exact(POINTS.width);
    let bits = rows.flat_map(|row| row.windows(2).map(|it| u64::from(it[0] > it[1])));
    bits.fold(0, |hash, bit| hash << 1 | bit)
}

/// Hands over each pair of hashes that are near, once, in an order that is always the same.
fn near_pairs(hashes: &[u64], mut take: impl FnMut(usize, usize, u32)) {
    let width = 64_u32.div_ceil(BANDS);
    let band = |hash: u64, at: u32| hash >> (at * width) & ((1 << width) - 1);
    for at in 0..BANDS {
        let mut alike: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (index, hash) in hashes.iter().enumerate() {
            alike.entry(band(*hash, at)).or_default().push(index);
        }
        for members in alike.values() {
            for (place, one) in members.iter().enumerate() {
                for other in &members[place + 1..] {
                    let (a, b) = (hashes[*one], hashes[*other]);
                    let bits = (a ^ b).count_ones();
                    // What an earlier part has in common was handed over with it.
                    if bits <= NEAR_BITS && (0..at).all(|it| band(a, it) != band(b, it)) {
                        take(*one, *other, bits);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn near_hashes_are_found_once_as_by_comparing_all() {
        let mut random = Random::new(2);
        let mut hashes: Vec<u64> = (0..300).map(|_| random.bits()).collect();
        for at in 0..300 {
            let changed =
                (0..random.below(9)).fold(hashes[at], |hash, _| hash ^ 1 << random.below(64));
            hashes.push(changed);
        }
        let mut found = Vec::new();
        near_pairs(&hashes, |one, other, bits| found.push((one, other, bits)));
        found.sort_unstable();
        let mut expected = Vec::new();
        for one in 0..hashes.len() {
            for other in one + 1..hashes.len() {
                let bits = (hashes[one] ^ hashes[other]).count_ones();
                if bits <= NEAR_BITS {
                    expected.push((one, other, bits));
                }
            }
        }
        assert_eq!(found, expected);
        assert!(found.len() > 150);
    }

    #[test]
    fn a_ramp_has_the_hash_that_its_direction_says() {
        let shape = Shape::new(16, 36, 1);
        let ramp: Vec<u8> = (0..16 * 36).map(|at| (at % 36 * 7) as u8).collect();
        let back: Vec<u8> = ramp.iter().map(|it| 252 - it).collect();
        assert_eq!(
            (difference_hash(&ramp, shape), difference_hash(&back, shape)),
            (0, u64::MAX)
        );
    }
}
