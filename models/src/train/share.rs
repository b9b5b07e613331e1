//! Which part of a step is computed here, where several devices train one run together.
//!
//! Every rank draws all micro-batches of a step and computes those that are its own, so the position in the data, the size
//! of the step and the seed of every dropout are what they are on one device, and a run can resume on another number of
//! devices. Deliberately absent: the sum over the ranks, and how they find each other.

/// The place of this process among those that train a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// The number of this process, from 0.
    pub rank: usize,
    /// How many there are.
    pub world: usize,
}

impl Share {
    /// All of it: a run on one device.
    pub const ALL: Self = Self { rank: 0, world: 1 };

    /// Whether this is the one process that saves the run and shows what it does.
    pub fn is_first(self) -> bool {
        self.rank == 0
    }

    /// Whether the micro-batch with this number, counted from 0 in its step, is computed here.
    pub fn has(self, index: usize) -> bool {
        index % self.world == self.rank
    }
}
