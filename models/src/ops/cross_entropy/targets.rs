//! What is to be said next: for which tokens a head has to be asked, and where a device reads that.

use candle_core::{Device, Tensor};

use crate::{Error, Result};

/// The target of a token that nothing is to be learned from.
pub const IGNORE: u32 = u32::MAX;

/// Where rows are gathered on a device, their number is a multiple of this, so that the sizes of tensors hardly depend on
/// the data.
pub(super) const ROWS_MULTIPLE: usize = 512;

/// What is to be said next, for each token of a pass, and by what its losses are divided.
#[derive(Debug, Clone)]
pub struct Targets {
    /// One for each token, or [`IGNORE`].
    pub(super) all: Vec<u32>,
    /// The tokens that have one.
    pub(super) learned: Vec<u32>,
    pub(super) tokens: f64,
    device: Device,
    /// Present on CUDA, where a pass may read them again and again with other numbers.
    placed: Option<Taken>,
}

impl Targets {
    /// Targets [n] for tokens on this device, whose losses are divided by `tokens`.
    ///
    /// Errors: [`Error::Data`] naming a target that is none of the vocabulary.
    pub fn new(targets: &[u32], vocabulary: usize, tokens: f64, device: &Device) -> Result<Self> {
        let mut targets = Self {
            all: targets.to_vec(),
            learned: rows_with_target(targets, vocabulary)?,
            tokens,
            device: device.clone(),
            placed: None,
        };
        if device.is_cuda() {
            targets.placed = Some(targets.taken()?);
        }
        Ok(targets)
    }

    /// What a pass reads of them, where they were placed. Their shapes say all that a pass depends on beside their numbers.
    pub fn inputs(&self) -> Vec<Tensor> {
        self.placed.iter().flat_map(Taken::inputs).collect()
    }

    pub(super) fn taken(&self) -> Result<Taken> {
        if let Some(taken) = &self.placed {
            return Ok(taken.clone());
        }
        let multiple = match self.device.is_cpu() {
            true => 1,
            false => ROWS_MULTIPLE,
        };
        let (learned, all) = (self.learned.clone(), &self.all);
        Taken::new(learned, all, multiple, self.tokens, &self.device)
    }
}

/// The rows whose logits are computed.
#[derive(Debug, Clone)]
pub(super) struct Taken {
    /// Their numbers [r]; all rows when absent.
    pub(super) rows: Option<Tensor>,
    /// The target of each, or [`IGNORE`].
    pub(super) targets: Vec<u32>,
    /// The same [r], and one over what their losses are divided by [1]: on a device with kernels for them.
    pub(super) on_device: Option<[Tensor; 2]>,
}

impl Taken {
    /// The rows that have a target, and more that add nothing, so that there are a multiple of `multiple`. All rows where
    /// that would be most of them anyway.
    pub(super) fn new(
        mut learned: Vec<u32>,
        targets: &[u32],
        multiple: usize,
        tokens: f64,
        device: &Device,
    ) -> Result<Self> {
        if learned.is_empty() {
            return Ok(Self {
                rows: None,
                targets: Vec::new(),
                on_device: None,
            });
        }
        let count = learned.len().next_multiple_of(multiple);
        let takes_all = multiple > 1 && 4 * count > 3 * targets.len();
        let mut taken: Vec<u32> = match takes_all {
            true => targets.to_vec(),
            false => learned.iter().map(|&row| targets[row as usize]).collect(),
        };
        let mut rows = None;
        if !takes_all {
            taken.resize(count, IGNORE);
            // A row with a target again: no number gets in that is not there already.
            let filling = learned.first().copied().unwrap_or_default();
            learned.resize(count, filling);
            rows = Some(Tensor::new(learned, device)?);
        }
        let on_device = match device.is_cuda() {
            true => Some([
                Tensor::new(taken.as_slice(), device)?,
                Tensor::new(&[(1.0 / tokens) as f32], device)?,
            ]),
            false => None,
        };
        Ok(Self {
            rows,
            targets: taken,
            on_device,
        })
    }

    fn inputs(&self) -> Vec<Tensor> {
        let on_device = self.on_device.iter().flatten();
        self.rows.iter().chain(on_device).cloned().collect()
    }

    /// In parts of so many rows at most. On a device a last part of few rows would read the whole head as the others do, so they are
    /// as large as each other there.
    pub(super) fn chunks(&self, most: usize, device: &Device) -> Result<Vec<Self>> {
        let count = self.targets.len().div_ceil(most.max(1)).max(1);
        let size = match device.is_cpu() {
            true => most,
            false => self.targets.len().div_ceil(count).max(1),
        };
        let starts = (0..self.targets.len()).step_by(size);
        let part = |start: usize| {
            let length = size.min(self.targets.len() - start);
            let of = |it: &Tensor| it.narrow(0, start, length);
            let on_device = self.on_device.as_ref();
            let on_device = on_device
                .map(|[targets, inverse]| -> Result<_> { Ok([of(targets)?, inverse.clone()]) });
            Ok(Self {
                rows: self.rows.as_ref().map(of).transpose()?,
                targets: self.targets[start..start + length].to_vec(),
                on_device: on_device.transpose()?,
            })
        };
        starts.map(part).collect()
    }
}

/// The rows that have a target, which must be one of the vocabulary.
pub(super) fn rows_with_target(targets: &[u32], vocabulary: usize) -> Result<Vec<u32>> {
    let learned: Vec<u32> = (0..targets.len() as u32)
        .filter(|&row| targets[row as usize] != IGNORE)
        .collect();
    let target = |row: &u32| targets[*row as usize];
    match learned
        .iter()
        .map(target)
        .find(|it| *it as usize >= vocabulary)
    {
        None => Ok(learned),
        Some(target) => Err(Error::Data(format!(
            "target {target} in a vocabulary of {vocabulary}"
        ))),
    }
}
